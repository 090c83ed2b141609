"""States of arrays and texts, for writers that know no arrays of JAX: what a file holds, without a file."""

from typing import Any

import jax
import numpy as np

from jaxunc._numerics import IN_FILES, Pickled
from jaxunc._version import __version__

from ._decode import Decoder
from ._file import FORMAT_VERSION, check_arrays, document_of, text_of
from ._fitted import KEPT
from ._names import ESTIMATORS

OF_COMBINERS = ("combiner", "combiner_options", "mass")
"""Parameters that name or hold rules and scorers: they go into the file, as what holds arrays of JAX does."""
MADE_ANEW = ("bound_", "_chosen", "learned_")
"""Attributes that are made of others, or that no answer reads."""


def state_of(x: Any) -> dict[str, Any]:
    """Return the state of an object that `jaxunc.save` takes, of arrays and texts.

    That of an estimator holds its parameters and further attributes as they are, for the writer: scikit-learn's forest
    is the writer's to know. Callbacks become None.

    Raises
    ------
    TypeError
        If something has no place in a file (it is named): rules and scorers of one's own, what is traced.
    """
    return _state_of_estimator(x) if _estimator_name(x) else {IN_FILES: _written(x)}


def set_state(x: Any, state: dict[str, Any]) -> None:
    """Give a new object the state that `state_of` returned; raises a ValueError for what is none."""
    what = f"the state of a {type(x).__name__}"
    try:
        content = _read(what, state[IN_FILES])
        if name := _estimator_name(x):
            _set_estimator(x, name, {key: part for key, part in state.items() if key != IN_FILES}, content)
        elif type(content) is type(x):
            vars(x).update(vars(content))
        else:
            raise ValueError(f"it holds a {type(content).__name__}.")
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"{what} cannot be loaded: {error}") from error


def _written(x: Any) -> dict[str, Any]:
    # Here, since it knows the estimators, and they scikit-learn.
    from ._encode import Encoder

    encoder = Encoder(owns=False)
    document = {"form": FORMAT_VERSION, "version": __version__, "object": encoder.node(x, "")}
    return {"document": text_of(document), "arrays": encoder.arrays}


def _read(what: str, state: Any) -> Any:
    document, arrays = document_of(what, state["document"]), dict(state["arrays"])
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("its arrays are none.")
    check_arrays(what, arrays)
    return Decoder(arrays, ()).whole(document["object"])


def _estimator_name(x: Any) -> str | None:
    """Return the name of the library's classifier that x is, or an own class of x is made from; None for others."""
    names = (kind.__name__ for kind in type(x).__mro__ if kind.__module__.startswith("jaxunc.estimators."))
    return next((name for name in names if name in ESTIMATORS), None)


def _state_of_estimator(model: Any) -> dict[str, Any]:
    from ._estimators import state_of as parts_of

    state = {name: None if name == "progress" else part for name, part in model._attributes().items()}
    params = {name: state.pop(name) for name in list(state) if name in OF_COMBINERS or _holds_jax(state[name])}
    kept: dict[str, Any] = {"params": params, "fitted": None}
    if hasattr(model, "bound_"):
        kept["fitted"] = parts_of(model)["fitted"]
        state = {name: part for name, part in state.items() if name not in (*KEPT, *MADE_ANEW)}
    return state | {IN_FILES: _written(kept)}


def _holds_jax(part: Any) -> bool:
    # What has a state of its own may hold arrays of JAX.
    leaves = jax.tree.leaves(part, is_leaf=lambda one: isinstance(one, Pickled))
    return any(isinstance(leaf, jax.Array) for leaf in leaves)


def _set_estimator(model: Any, name: str, state: dict[str, Any], kept: Any) -> None:
    from ._estimators import refit

    if not isinstance(kept, dict) or set(kept) != {"params", "fitted"} or not isinstance(kept["params"], dict):
        raise ValueError("it holds no parameters and attributes.")
    vars(model).update(state | kept["params"])
    if kept["fitted"] is not None:
        refit(model, name, kept["fitted"])

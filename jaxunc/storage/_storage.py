"""Saving and loading: to and from files, and to and from states of arrays and texts.

The states are for writers that know no arrays of JAX, such as skops: what a file holds, without a file.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxunc._checks import check_collection
from jaxunc._numerics import IN_FILES, Pickled
from jaxunc._version import __version__

from ._decode import Decoder
from ._file import FORMAT_VERSION, check_arrays, document_of, read, text_of, write
from ._names import ESTIMATORS, KEPT, current

COMBINER_PARAMETERS = ("combiner", "combiner_options", "mass")
"""Parameters that name or hold combiners and scorers: they go into the file, as what holds arrays of JAX does."""
MADE_ANEW = ("bound_", "_chosen", "learned_", "oob_distribution_")
"""Attributes that are made of others, or that no answer reads."""


def save(path: str | Path, x: Any) -> None:
    """Write trees, a forest, a combiner, a bound forest or vote, or a fitted estimator of the library to a file.

    Parameters
    ----------
    path
        The file. One that is there is replaced in one step, once the new one is whole.
    x
        The object. Combiners and scorers of one's own are kept by the name of their class or function, and its fields.

    Raises
    ------
    TypeError
        If something in x has no place in a file (it is named), or is traced.
    NotFittedError
        For an estimator that is not fitted.
    OSError
        If the file cannot be written.

    Notes
    -----
    The file is one of safetensors with a JSON header, described in `jaxunc.storage`: no code, no pickle. Answers of
    what is loaded are those of what was saved, bit for bit, if JAX has the same precision and walk; of what depends on
    the machine (threads, the walk) nothing is kept. The parameters of an estimator are kept, and what its
    answers read: ``estimator_``, scikit-learn's own forest, and ``learned_``, how learning went, are not; a forest that
    came in a ``FrozenEstimator`` comes back unfitted, as a parameter; random states that are no numbers, callbacks and
    forests that are not scikit-learn's become None. So a regressor's mean, which scikit-learn's forest answered, comes
    from its leaves: it differs by rounding of float32, some 1e-7 of the targets' range.

    For an estimator with a **pipeline** the file holds the transformers, too, as skops writes them, which then has to
    be installed (``pip install "jaxunc[cli]"`` does). `load` reads them only if every type in them is scikit-learn's or
    NumPy's, or ``known``; the pipeline comes back in parts: ``estimator`` as an unfitted one. Functions without a name
    (lambda) and types that skops does not write are refused. Such an estimator pickles as a whole, for those who trust
    the file. Transformers of another version of scikit-learn answer as that version reads them: it warns.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.safetensors"
    >>> ju.save(path, bound)
    >>> bool((ju.load(path)(X) == bound(X)).all())
    True
    """
    if type(x).__module__.partition(".")[0] == "sklearn":
        raise TypeError(
            f"x is a {type(x).__name__} of scikit-learn, whose fit has no place in a file; pass "
            "jaxunc.from_sklearn(model) if it is a forest, or an estimator of jaxunc. Python's pickle keeps the others."
        )
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is a {type(path).__name__}; pass the path of a file first, then what to save.")
    # Here, since it knows the estimators, and they scikit-learn.
    from ._encode import Encoder

    encoder = Encoder()
    node = encoder.node(x, "")
    write(path, {"form": FORMAT_VERSION, "version": __version__, "object": node}, encoder.arrays)


def load(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Read what `save` wrote.

    Parameters
    ----------
    path
        The file.
    known
        Classes of combiners, scorers, and transformers of a pipeline, of one's own or of other libraries, that the file
        may name. Nothing else is ever imported for it.

    Returns
    -------
    Any
        The object; bound ones are bound anew, for this machine.

    Raises
    ------
    ValueError
        If the file is damaged, cut off, of a newer form, or no file of jaxunc; if it names classes that are neither the
        library's nor ``known``; or if anything in it breaks what must hold: shapes, types, indices of children,
        features, leaves and multi-way tests, depths, counts, probabilities, settings of combiners.
    OSError
        If there is no such file, or it cannot be read.

    Notes
    -----
    Files are data: they are checked as a whole before anything is made of them, and a hostile one costs no more memory
    than its size. Floats have the precision of JAX's settings.
    """
    return _decoded(path, known, None)


def load_answering(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Return what `load` does, but a `StoredEstimator` for an estimator: it answers without importing scikit-learn."""
    return _decoded(path, known, partial(load, path, known=known))


def _decoded(path: str | Path, known: Sequence[Any], estimator: Callable[[], Any] | None) -> Any:
    check_collection("known", known, "a list of classes and functions")
    content = read(path)
    try:
        return Decoder(content.arrays, known, estimator).whole(content.document["object"])
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} cannot be loaded: {str(error)[:500]}") from error


def state_of(x: Any) -> dict[str, Any]:
    """Return the state, of arrays and texts, of an object that `jaxunc.save` takes.

    That of an estimator holds its parameters and further attributes as they are, for the writer: scikit-learn's forest
    is the writer's to know. Callbacks become None. Raises a TypeError, which names it, for what has no place in a file.
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
    """Return the name of the library's estimator class that x is an instance of, also by a subclass; else None."""
    names = (kind.__name__ for kind in type(x).__mro__ if kind.__module__.startswith("jaxunc.estimators."))
    return next((name for name in names if name in ESTIMATORS), None)


def _state_of_estimator(model: Any) -> dict[str, Any]:
    from ._estimators import state_of as parts_of

    state = {name: None if name == "progress" else part for name, part in model._attributes().items()}
    params = {name: state.pop(name) for name in list(state) if name in COMBINER_PARAMETERS or _holds_jax(state[name])}
    kept: dict[str, Any] = {"params": params, "fitted": None}
    if hasattr(model, "bound_"):
        kept["fitted"] = parts_of(model, steps=False)["fitted"]  # transformers are the writer's to know
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
    vars(model).update(current(state | kept["params"]))
    if kept["fitted"] is not None:
        refit(model, name, kept["fitted"])

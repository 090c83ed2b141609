"""Saving and loading: to and from files, and to and from states of arrays and texts.

A state holds what a file holds, as a dict: for writers of objects that cannot write arrays of JAX, such as skops.
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
from ._names import ESTIMATORS, KEPT, update_algorithm

COMBINER_PARAMETERS = ("combiner", "combiner_options", "mass")
"""Parameters that name or hold combiners and scorers: states have them encoded, like all that holds arrays of JAX."""
MADE_ANEW = ("bound_", "_chosen", "learned_", "oob_distribution_")
"""Attributes that states lack: some are made of other attributes, and no answer reads the others."""


def save(path: str | Path, x: Any) -> None:
    """Write trees, a forest, a combiner, a bound forest or vote, or a fitted estimator of the library to a file.

    Parameters
    ----------
    path
        The file. An existing file is replaced in one step, once the new one is whole.
    x
        The object. Your own combiners and scorers are kept by the name of their class or function, and its fields.

    Raises
    ------
    TypeError
        If a file cannot hold something in x (it is named), or something is traced.
    ValueError
        If the JSON document would be too long.
    NotFittedError
        For an estimator that is not fitted.
    OSError
        If the file cannot be written.

    Notes
    -----
    The file has the format safetensors with a JSON header, described in `jaxunc.storage`: no code, no pickle. A loaded
    object gives the answers of the saved one, bit for bit, if JAX has the same precision and walk. Settings that depend
    on the machine (threads, the walk) are not kept.

    Of an estimator the file holds the parameters, and the attributes that its answers read. It does not hold
    ``estimator_``, scikit-learn's forest, nor ``learned_``, the course of learning. A forest in a ``FrozenEstimator``
    comes back unfitted, as a parameter. Random states that are not numbers, callbacks, and forests that are not
    scikit-learn's come back as None. A loaded regressor takes its mean from leaves instead of scikit-learn's forest:
    it differs by rounding of float32, some 1e-7 of the targets' range.

    For an estimator with a **pipeline** the file holds the transformers, too, as written by skops, which then has to
    be installed (``pip install "jaxunc[cli]"`` does). `load` reads them only if every type in them is scikit-learn's or
    NumPy's, or ``known``. The parameter ``estimator`` comes back as an unfitted pipeline. Functions without a name
    (lambda) and types that skops does not write are refused; a pickle holds such an estimator, for those who trust the
    file. Transformers of another version of scikit-learn answer as the installed version reads them, with a warning.

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
    # Imported here, since it imports the estimators, and they scikit-learn.
    from ._encode import Encoder

    encoder = Encoder()
    node = encoder.node(x, "")
    write(path, {"form": FORMAT_VERSION, "version": __version__, "object": node}, encoder.arrays)


def load(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Return the object that `save` wrote to a file.

    Parameters
    ----------
    path
        The file.
    known
        Your own or other libraries' combiners, scorers, and transformers of a pipeline, as classes or functions, that
        the file may name. No other code is ever imported for a file.

    Returns
    -------
    Any
        The object; a bound forest or vote is bound anew, for this machine.

    Raises
    ------
    TypeError
        If ``known`` is not a list or a tuple.
    ValueError
        If the file is damaged, cut off, of a newer form, or not a file of jaxunc; if it names classes that are neither
        the library's nor ``known``; or if something in it is not sound: shapes, types, indices of children, features,
        leaves and multi-way tests, depths, counts, probabilities, settings of combiners.
    OSError
        If there is no such file, or it cannot be read.

    Notes
    -----
    Files are data: a file is checked as a whole before an object is made of it, and a hostile file costs no more memory
    than its size. Floats have the precision of JAX's settings.
    """
    return _decode(path, known, estimator=None)


def load_answering(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Return the object that `save` wrote; a fitted estimator as a `StoredEstimator`, which needs no scikit-learn.

    ``path`` and ``known`` are as for `load`. Estimators of transduction or with a pipeline need scikit-learn to answer:
    they are returned whole, as by `load`.
    """
    return _decode(path, known, estimator=partial(load, path, known=known))


def _decode(path: str | Path, known: Sequence[Any], estimator: Callable[[], Any] | None) -> Any:
    """Return the object in the file ``path``; raise a ValueError if the file is damaged.

    ``known`` and ``estimator`` are the arguments ``trusted`` and ``estimator`` of `Decoder`.
    """
    check_collection("known", known, "a list of classes and functions")
    content = read(path)
    try:
        return Decoder(content.arrays, known, estimator).whole(content.document["object"])
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} cannot be loaded: {str(error)[:500]}") from error


def state_of(x: Any) -> dict[str, Any]:
    """Return the state of an object that `jaxunc.save` takes: a dict without arrays of JAX.

    Under `IN_FILES` the dict has the object as files hold it. Of an estimator these are the fitted attributes that
    files hold, and parameters that may hold arrays of JAX. Further attributes, such as scikit-learn's forest, are
    entries {name: value}. Callbacks become None. Raises a TypeError that names what a file cannot hold.
    """
    return _state_of_estimator(x) if _estimator_name(x) else {IN_FILES: _encode(x)}


def set_state(x: Any, state: dict[str, Any]) -> None:
    """Give ``x``, a new object, the state that `state_of` returned; raise a ValueError for an unsound ``state``."""
    what = f"the state of a {type(x).__name__}"
    try:
        content = _read(what, state[IN_FILES])
        if name := _estimator_name(x):
            attributes = {key: part for key, part in state.items() if key != IN_FILES}
            _set_estimator(x, name, attributes, content)
        elif type(content) is type(x):
            vars(x).update(vars(content))
        else:
            raise ValueError(f"it holds a {type(content).__name__}.")
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"{what} cannot be loaded: {error}") from error


def _encode(x: Any) -> dict[str, Any]:
    """Return an object as files hold it: {"document": JSON, "arrays": {name: array}}."""
    # Imported here, since it imports the estimators, and they scikit-learn.
    from ._encode import Encoder

    encoder = Encoder(owns=False)
    document = {"form": FORMAT_VERSION, "version": __version__, "object": encoder.node(x, "")}
    return {"document": text_of(document), "arrays": encoder.arrays}


def _read(what: str, state: Any) -> Any:
    """Return the object that `_encode` encoded in ``state``; raise a ValueError, about ``what``, if it is damaged."""
    document = document_of(what, state["document"])
    arrays = dict(state["arrays"])
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("its arrays are none.")
    check_arrays(what, arrays)
    return Decoder(arrays, ()).whole(document["object"])


def _estimator_name(x: Any) -> str | None:
    """Return the name of the library's class of estimators of which ``x`` is an instance; None for other objects."""
    names = (kind.__name__ for kind in type(x).__mro__ if kind.__module__.startswith("jaxunc.estimators."))
    return next((name for name in names if name in ESTIMATORS), None)


def _state_of_estimator(model: Any) -> dict[str, Any]:
    """Return the state of an estimator: {attribute: value}, and under `IN_FILES` what has to be encoded.

    These are the fitted attributes that files hold, and parameters that are or may hold arrays of JAX. The callback
    ``progress`` becomes None.
    """
    from ._estimators import parts_of

    attributes = model._attributes()
    if "progress" in attributes:
        attributes = attributes | {"progress": None}
    params = {name: value for name, value in attributes.items() if name in COMBINER_PARAMETERS or _holds_jax(value)}
    state = {name: value for name, value in attributes.items() if name not in params}
    encoded_parts: dict[str, Any] = {"params": params, "fitted": None}
    if hasattr(model, "bound_"):
        encoded_parts["fitted"] = parts_of(model, steps=False)["fitted"]  # transformers stay in the state
        state = {name: value for name, value in state.items() if name not in (*KEPT, *MADE_ANEW)}
    return state | {IN_FILES: _encode(encoded_parts)}


def _holds_jax(part: Any) -> bool:
    """Return whether a value is or contains an array of JAX."""
    # A `Pickled` object may hold arrays of JAX, too.
    leaves = jax.tree.leaves(part, is_leaf=lambda node: isinstance(node, Pickled))
    return any(isinstance(leaf, jax.Array) for leaf in leaves)


def _set_estimator(model: Any, name: str, state: dict[str, Any], encoded: Any) -> None:
    """Set the attributes of ``model``, an estimator of class ``name``; raise a ValueError if they are not sound.

    ``state`` is {attribute: value} of those that were not encoded. ``encoded`` has the others, decoded again:
    {"params": parameters, "fitted": fitted attributes, or None before `fit`}.
    """
    from ._estimators import refit

    if not isinstance(encoded, dict) or set(encoded) != {"params", "fitted"} or not isinstance(encoded["params"], dict):
        raise ValueError("it holds no parameters and attributes.")
    vars(model).update(update_algorithm(state | encoded["params"]))
    if encoded["fitted"] is not None:
        refit(model, name, encoded["fitted"])

"""Checks of what people hand in, made on the host, with messages that say what to do.

Under a trace values are unknown: each check of a value then passes, and only shapes are checked.
"""

import difflib
import os
import sys
import warnings
from collections.abc import Iterable

import jax
import jax.core
import jaxlib
import numpy as np

from jaxunc._renamed import RENAMED_VALUES

_BETWEEN = {"jaxunc", "beartype", "equinox", "functools", "jax", "jaxtyping", "sklearn"}
"""Modules whose lines are not the caller's: this package, and what may call it on the caller's behalf."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line outside of this package (and of modules that may call it) that led here."""
    # skip_file_prefixes, which Python 3.12 has, is the same walk, by folders.
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class WrongJaxWarning(UserWarning):
    """A version of JAX is installed that is known to compute wrongly."""


def warn_of_wrong_jax() -> None:
    """Warn if the compiler is one that pyproject excludes, which pip installs all the same if told to."""
    if jaxlib.__version__ == "0.10.2":  # pyright: ignore[reportPrivateImportUsage]
        warn(
            "jaxlib 0.10.2 computes wrong sums of squares of matrix products on CPUs, without an error (jax-ml/jax "
            "issue 39103), and so may this library. Install another: pip install --upgrade 'jax!=0.10.2'.",
            WrongJaxWarning,
        )


class FractionsWarning(UserWarning):
    """Rows of counts all add to 1: frequencies, it seems, which do not say how many instances there were."""


class _Process:
    """State of this process, as far as the library needs it."""

    has_begun = False
    """Whether this library has put arrays on a device here, or in a process that this one was forked from."""
    is_forked = False
    """Whether this process was forked from one where the library had put arrays on a device."""


def note_begin() -> None:
    """Remember that JAX computes in this process: called where forests are made and programs are run."""
    _Process.has_begun = True


def refuse_after_fork() -> None:
    """Raise a RuntimeError in a process that was forked after JAX had begun to compute, where a program would hang."""
    if _Process.is_forked:
        raise RuntimeError(
            "this process was forked from one in which JAX had begun to compute. JAX's threads stayed there, and a "
            "program here would wait for them without end. Start workers by multiprocessing.get_context('spawn') or "
            "'forkserver', or with joblib's backend 'loky'; or fork before a forest is made, loaded or bound."
        )
    _Process.has_begun = True


def _after_fork() -> None:
    _Process.is_forked = _Process.has_begun


# The hook runs in the child alone, before any of its code.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def is_concrete(*arrays) -> bool:
    """Return whether every array has values that the host can read."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arrays))


def nearest(name, known: Iterable, cutoff: float = 0.6) -> str:
    """Return a question, after a space, whether another of the names was meant; empty if none is close."""
    by_lower = {str(other).lower(): other for other in known}
    close = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=cutoff)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def check_numbers(name: str, value) -> None:
    """Raise a TypeError unless ``value`` is a number or an array of numbers; lists are read as NumPy reads them."""
    if isinstance(value, jax.Array):  # traced ones, too
        return
    try:
        kind = np.asarray(value).dtype.kind if is_concrete(value) else "f"
    except ValueError:  # of several lengths
        kind = "O"
    if kind not in "biufV":  # V: floats that NumPy does not know by itself
        said = text if len(text := repr(value)) < 200 else f"a {type(value).__name__}"
        raise TypeError(f"{name}={said} is no number and no array of numbers; pass numbers, in rows of one length.")


def check_one_of(name: str, value, allowed: Iterable) -> None:
    """Raise a ValueError, with the nearest, unless ``value`` is one of the names, or numbers, ``allowed``."""
    if not any(isinstance(value, type(one)) and value == one for one in allowed):
        choices = ", ".join(map(repr, allowed))
        now = RENAMED_VALUES.get(value) if isinstance(value, str) else None
        instead = f" It is {now!r} now." if now in allowed else nearest(value, allowed)
        raise ValueError(f"{name}={value!r} is unknown.{instead} Choose one of {choices}.")


def check_integer(name: str, value, least: int, why: str = "") -> None:
    """Raise a TypeError unless ``value`` is an integer, and a ValueError, with the reason, if it is below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r} must be an integer.")
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}.{why}")


def check_key(key) -> None:
    """Raise a TypeError unless ``key`` is one typed key."""
    if not (isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()):
        raise TypeError(f"key is {key!r}; pass one typed key, jax.random.key(seed).")


def check_counts(counts, name: str = "counts") -> None:
    """Raise a ValueError unless every count is a finite, non-negative number."""
    if not is_concrete(counts):
        return
    values = np.asarray(counts)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} holds NaN or infinite values; class counts must be finite numbers >= 0.")
    if values.size and values.min() < 0:
        raise ValueError(
            f"{name} holds negative values (smallest {values.min()}); class counts must be >= 0. "
            "Check for negative sample weights."
        )


def warn_of_fractions(counts) -> None:
    """Warn if every row that is not empty adds to 1 and some entry is no integer; under a trace nothing is known."""
    if not is_concrete(counts) or (values := np.asarray(counts)).dtype.kind in "biu":
        return
    sizes = values.sum(axis=-1, dtype=float)
    if np.any(sizes > 0) and np.all((np.abs(sizes - 1) < 1e-4) | (sizes == 0)) and np.any(values != np.rint(values)):
        warn(
            "every row of the counts adds to 1: these look like class frequencies, and every leaf then counts as one "
            "instance. scikit-learn's tree_.value holds frequencies since version 1.4; multiply them by "
            "tree_.weighted_n_node_samples, or use jaxunc.from_sklearn(model), which does.",
            FractionsWarning,
        )


def check_class_axis(counts, name: str = "counts") -> None:
    """Raise a ValueError unless the last axis can be the classes (two or more)."""
    shape = np.shape(counts)
    if not shape or shape[-1] < 2:
        raise ValueError(
            f"{name} has shape {shape}; its last axis must hold the classes, two or more. "
            "Pass class counts such as [negatives, positives]."
        )


def check_two_classes(counts, scorer: str) -> None:
    """Raise a ValueError, in the name of a scorer that compares two classes, unless the last axis holds two."""
    check_class_axis(counts)
    if (n_classes := np.shape(counts)[-1]) != 2:
        raise ValueError(
            f"{scorer} compares two classes, but counts have {n_classes} (shape {np.shape(counts)}). "
            "Pass [..., 2] counts, or each class against the rest: OneVsRest does that."
        )


def check_probability_vector(prior, n_classes: int, name: str = "prior") -> None:
    """Raise a ValueError unless ``prior`` has ``n_classes`` positive entries that add to one."""
    shape = np.shape(prior)
    if shape != (n_classes,):
        raise ValueError(
            f"{name} has shape {shape}, but the counts have {n_classes} classes; "
            f"pass one probability per class, shape ({n_classes},)."
        )
    if not is_concrete(prior):
        return
    values = np.asarray(prior, dtype=np.float64)
    if not np.all(values > 0):
        raise ValueError(
            f"{name}={values.tolist()} has an entry that is not positive: evidence against a class that "
            "cannot occur is undefined. Drop the class, or give it a small positive probability."
        )
    if not abs(values.sum() - 1) < 1e-4:
        raise ValueError(f"{name}={values.tolist()} adds to {values.sum():.6g}; class probabilities must add to 1.")


def as_weights(sample_weight, n: int, name: str = "sample_weight") -> np.ndarray:
    """Return sample weights as float64, 1 each for None.

    Raises a ValueError unless there is one finite number >= 0 each, and a TypeError for what is no number.
    """
    if sample_weight is not None:
        check_numbers(name, sample_weight)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}; pass one number per instance, shape ({n},).")
    if not np.all(sound := np.isfinite(weights) & (weights >= 0)):
        raise ValueError(f"{name} holds {weights[~sound][0]}; pass finite numbers >= 0. 0 leaves an instance out.")
    return weights


def distinct_labels(y) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, sorted, and the place of each instance's; a TypeError if they have no order."""
    labels = np.asarray(y)
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise TypeError(
            f"y holds labels of the types {', '.join(kinds)}, which have no order; make them all texts or all numbers, "
            "and leave out instances without a label."
        ) from error

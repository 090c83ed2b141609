"""Checks of what people hand in, made on the host, with messages that say what to do.

Under a trace values are unknown: each check of a value then passes, and only shapes are checked.
"""

import jax
import jax.core
import numpy as np


def is_concrete(*arrays) -> bool:
    """Whether every array has values that the host can read."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arrays))


def check_one_of(name: str, value, allowed) -> None:
    """Raise a ValueError unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        choices = ", ".join(repr(a) for a in allowed)
        raise ValueError(f"{name}={value!r} is unknown. Choose one of {choices}.")


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

"""Predictions and labels as the metrics take them: checks on the host, and NaN instead of errors in a trace."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Integer

from jaxunc._checks import as_native, check_numbers, is_concrete, refuse_masked
from jaxunc._numerics import float_dtype, whole

Labels: TypeAlias = Integer[Array | np.ndarray, "instances"] | Bool[Array | np.ndarray, "instances"]
"""A class index per instance."""

_SLACK = 1e-3
"""Tolerance for the sum of probabilities, which may miss 1: room for sums over many trees in float32."""


def as_array(values, *, name: str | None = None) -> Array | np.ndarray:
    """Return the values as they are if JAX holds them, else as NumPy sees them.

    With a name, raises a TypeError unless they are numbers.
    """
    if isinstance(values, jax.Array):
        return whole(values)  # a mean over instances asks all of them, and what is sorted has to be in one place
    if name is not None:
        check_numbers(name, values)
    refuse_masked(name or "y", values)
    return as_native(np.asarray(values))


def checked_labels(y, n_instances: int, n_classes: int, *, name: str = "y") -> Int32[Array, "instances"]:
    """Return the labels as int32. A TypeError for their dtype, a ValueError if shape or values are no class indices."""
    y = as_array(y)
    remedy = "Turn other labels into indices: np.searchsorted(class_labels, labels)."
    if not (jnp.issubdtype(y.dtype, jnp.integer) or jnp.issubdtype(y.dtype, jnp.bool_)):
        raise TypeError(f"{name} has dtype {y.dtype}; expected class indices, integer or bool. {remedy}")
    if y.shape != (n_instances,):
        raise ValueError(f"{name} has shape {y.shape}; expected ({n_instances},), one class index per instance.")
    if n_instances == 0:
        raise ValueError(f"{name} is empty: a mean over no instances is undefined.")
    if is_concrete(y):
        values = np.asarray(y)
        for extreme in (values.min(), values.max()):
            if not 0 <= extreme < n_classes:
                raise ValueError(f"{name} holds {extreme}, but class indices lie in [0, {n_classes}). {remedy}")
    return jnp.asarray(y).astype(jnp.int32)


def check_columns(prediction, *, name: str) -> None:
    """Raise a ValueError unless the prediction is ``[instances classes]`` with two classes or more."""
    if prediction.ndim != 2 or prediction.shape[1] < 2:
        raise ValueError(
            f"{name} has shape {prediction.shape}; expected [instances classes], a column per class, two or more. "
            "From a number for class 1 alone, stack([1 - p, p], axis=-1) makes probabilities of both."
        )


def check_column(values, *, name: str, remedy: str) -> None:
    """Raise a ValueError unless the values are ``[instances]``."""
    if values.ndim != 1:
        raise ValueError(
            f"{name} has shape {values.shape}; expected [instances], a number for each prediction made. {remedy}"
        )


def check_no_nan(prediction, *, name: str) -> None:
    """Raise a ValueError if the prediction holds NaN."""
    if is_concrete(prediction) and np.isnan(np.asarray(prediction)).any():
        raise ValueError(f"{name} holds NaN; every instance needs a prediction. Leave those rows out first.")


def checked_probabilities(prediction, *, name: str, logs: bool = False) -> Float[Array, "instances classes"]:
    """Return the probabilities (or their logarithms) as floats; a ValueError unless every row is a distribution."""
    prediction = as_array(prediction, name=name)
    check_columns(prediction, name=name)
    if is_concrete(prediction):
        with np.errstate(over="ignore"):
            values = np.exp(np.asarray(prediction)) if logs else np.asarray(prediction)
        slack = max(_SLACK, values.shape[1] * float(jnp.finfo(float_dtype(prediction)).eps))
        off = np.abs(values.sum(axis=1, dtype=np.float64) - 1)
        if not (values.min(initial=0) >= -slack and off.max(initial=0) <= slack):
            raise ValueError(
                f"{name} must be {'logarithms of ' if logs else ''}probabilities, >= 0 and adding to 1 in each row; "
                f"the smallest is {values.min():.6g}, and a row's sum is off by {off.max():.6g}. Class scores are no "
                f"probabilities: use the rule's {'log_probability' if logs else 'probability'}."
            )
    return as_floats(prediction)


def as_floats(prediction) -> Float[Array, "..."]:
    """Return the prediction in its own precision, float32 at least."""
    prediction = jnp.asarray(prediction)
    dtype = float_dtype(prediction)
    return prediction.astype(dtype if dtype.itemsize >= 4 else jnp.float32)


def one_hot(y: Int32[Array, "instances"], n_classes: int) -> Bool[Array, "instances classes"]:
    """Return whether each column is the instance's class."""
    return y[:, None] == jnp.arange(n_classes, dtype=y.dtype)[None, :]


def nan_unless_classes(value: Array, y: Int32[Array, "instances"], n_classes: int) -> Array:
    """Return the value, or NaN if a label is no class: under a trace nothing can be raised."""
    return jnp.where(jnp.all((y >= 0) & (y < n_classes)), value, jnp.nan)

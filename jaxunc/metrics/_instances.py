"""Parts of all metrics: checks of predictions and labels, exact orders, and sums that keep their digits.

On the host, wrong values raise errors. In a trace nothing can be raised: there they give NaN.
"""

import math
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, Integer, Real

from jaxunc._checks import as_native, check_numbers, check_readable, is_concrete
from jaxunc._numerics import TwoFloat, float_dtype, order_key, replicate

Labels: TypeAlias = Integer[Array | np.ndarray, "instances"] | Bool[Array | np.ndarray, "instances"]
"""A class index per instance."""

_SLACK = 1e-3
"""Tolerance by which a sum of probabilities may miss 1: room for sums over many trees in float32."""


def as_array(values, *, name: str, numbers: bool = True) -> Array | np.ndarray:
    """Return a JAX array as it is, gathered if it is sharded, and other values as a copy that is a NumPy array.

    The copy keeps the values as they are now: JAX may read them after the call. With ``numbers``, raises a TypeError,
    which calls the values ``name``, unless they are numbers.
    """
    check_readable(name, values)
    if isinstance(values, jax.Array):
        return replicate(values)  # means and sorts over instances need all of them in one place
    if numbers:
        check_numbers(name, values)
    return as_native(np.array(values))


def checked_labels(y, n_instances: int, n_classes: int, *, name: str = "y") -> Int32[Array, "instances"]:
    """Return the class indices ``y [instances]`` as int32, checked to be ``n_instances`` in [0, ``n_classes``).

    Raises a TypeError unless they are integers or bools, a ValueError if shape or values do not fit or there are none.
    The message calls the indices ``name``. Values of traced indices are not checked.
    """
    y = as_array(y, name=name, numbers=False)
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
    """Raise a ValueError, which calls the array ``name``, unless it is ``[instances classes]``, two classes or more."""
    if prediction.ndim != 2 or prediction.shape[1] < 2:
        raise ValueError(
            f"{name} has shape {prediction.shape}; expected [instances classes], a column per class, two or more. "
            "From a number for class 1 alone, stack([1 - p, p], axis=-1) makes probabilities of both."
        )


def check_column(values, *, name: str, remedy: str) -> None:
    """Raise a ValueError unless the array ``values`` has one axis, ``[instances]``.

    The message calls the array ``name`` and ends with the sentence ``remedy``.
    """
    if values.ndim != 1:
        raise ValueError(
            f"{name} has shape {values.shape}; expected [instances], a number for each prediction made. {remedy}"
        )


def check_no_nan(prediction, *, name: str) -> None:
    """Raise a ValueError, which calls the array ``name``, if it holds NaN. A traced array passes."""
    if is_concrete(prediction) and np.isnan(np.asarray(prediction)).any():
        raise ValueError(f"{name} holds NaN; every instance needs a prediction. Leave those rows out first.")


def checked_probabilities(prediction, *, name: str, logs: bool = False) -> Float[Array, "instances classes"]:
    """Return probabilities ``[instances classes]``, or with ``logs`` their logarithms, as floats.

    Raises a ValueError, which calls them ``name``, unless each row is a distribution within `_SLACK`. Values of a
    traced array are not checked.
    """
    prediction = as_array(prediction, name=name)
    check_columns(prediction, name=name)
    if is_concrete(prediction):
        with np.errstate(over="ignore"):  # an infinite probability is refused below
            probs = np.exp(np.asarray(prediction)) if logs else np.asarray(prediction)
        # In half precision rounding may exceed the usual tolerance.
        slack = max(_SLACK, probs.shape[1] * float(jnp.finfo(float_dtype(prediction)).eps))
        error = np.abs(probs.sum(axis=1, dtype=np.float64) - 1)
        if not (probs.min(initial=0) >= -slack and error.max(initial=0) <= slack):  # NaN is refused as well
            raise ValueError(
                f"{name} must be {'logarithms of ' if logs else ''}probabilities, >= 0 and adding to 1 in each row; "
                f"the smallest is {probs.min():.6g}, and a row's sum is off by {error.max():.6g}. Class scores are no "
                f"probabilities: use the combiner's {'log_probability' if logs else 'probability'}."
            )
    return as_floats(prediction)


def as_floats(prediction) -> Float[Array, "..."]:
    """Return an array as floats, in its own precision, but at least in float32."""
    prediction = jnp.asarray(prediction)
    dtype = float_dtype(prediction)
    return prediction.astype(dtype if dtype.itemsize >= 4 else jnp.float32)


def one_hot(y: Int32[Array, "instances"], n_classes: int) -> Bool[Array, "instances classes"]:
    """Return bools ``[instances classes]``: True in the column of each instance's class ``y``, else False."""
    return y[:, None] == jnp.arange(n_classes, dtype=y.dtype)[None, :]


def nan_unless_classes(value: Array, y: Int32[Array, "instances"], n_classes: int) -> Array:
    """Return ``value``, or NaN, in place of an error under a trace, if a label in ``y`` is not in [0, n_classes)."""
    return jnp.where(jnp.all((y >= 0) & (y < n_classes)), value, jnp.nan)


def checked_scores(score, *, name: str) -> Real[Array, "..."]:
    """Return scores, or integers in the same order, as a JAX array.

    NumPy's 64-bit numbers, if JAX would cut them to 32 bits, become ranks among all entries, comparable over columns.
    Raises a ValueError, which calls the scores ``name``, for NaN; values of traced scores are not checked.
    """
    check_no_nan(score, name=name)
    if isinstance(score, np.ndarray) and jax.dtypes.canonicalize_dtype(score.dtype) != score.dtype:
        _, rank = np.unique(score, return_inverse=True)
        score = rank.reshape(score.shape).astype(np.int32)
    return jnp.asarray(score)


def sort_key(score: Real[Array, "..."]) -> Integer[Array, "..."]:
    """Return integers in the order of the scores, so that comparisons are exact: XLA takes subnormal floats for 0."""
    if not jnp.issubdtype(score.dtype, jnp.floating):
        return score
    if score.dtype != jnp.float64:
        return order_key(score)
    bits = lax.bitcast_convert_type(score, jnp.int64)
    # The bits of negative floats rise as the floats fall, and so are reversed; -0, whose bits are the least, becomes 0.
    return jnp.where(bits < 0, jnp.iinfo(jnp.int64).min - bits, bits)


def group_edges(keys: Integer[Array, "instances"]) -> tuple[Bool[Array, "instances"], Bool[Array, "instances"]]:
    """Return for each of the sorted keys whether it is the first, and whether the last, of a group of equal keys."""
    differs = keys[1:] != keys[:-1]
    edge = jnp.ones(1, bool)
    return jnp.concatenate([edge, differs]), jnp.concatenate([differs, edge])


@jax.custom_jvp
def total(values: Float[Array, "instances"]) -> Float[Array, ""]:
    """Return the sum of the values, added by two-float arithmetic in a fixed order and rounded once.

    Infinities and NaN are added as usual. The gradient is that of a plain sum.
    """
    # About √n columns are summed side by side, and then their sums one by one, in 2 √n steps in place of n.
    n_columns = math.isqrt(values.shape[0]) + 1
    rows = jnp.pad(values, (0, -values.shape[0] % n_columns)).reshape(-1, n_columns)
    by_column = _added(TwoFloat(rows, jnp.zeros_like(rows)))
    # With infinities two-float arithmetic gives NaN; their plain sum is right.
    plain = jnp.sum(values)
    return jnp.where(jnp.isfinite(plain), _added(by_column).value, plain)


@total.defjvp
def _total_jvp(primals, tangents):
    """Return `total` of the values, and the plain sum of their tangents."""
    (values,) = primals
    (d_values,) = tangents
    return total(values), jnp.sum(d_values)


def mean(values: Float[Array, "instances"]) -> Float[Array, ""]:
    """Return the mean of the values: their `total`, divided by their number."""
    return total(values) / values.shape[0]


def _added(parts: TwoFloat) -> TwoFloat:
    """Return the two-float sum of ``parts`` over their leading axis, added in order."""
    start = TwoFloat(jnp.zeros_like(parts.high[0]), jnp.zeros_like(parts.low[0]))
    return lax.scan(lambda sum_so_far, part: (sum_so_far.plus(part), None), start, parts)[0]

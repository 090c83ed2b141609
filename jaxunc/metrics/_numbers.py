"""Scores of predictions of a number: of intervals, of quantiles, and of distributions on points."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_within, is_concrete
from jaxunc._numerics import copy_in, jit

from ._instances import as_array, as_floats, check_no_nan, mean


def interval_score(
    interval: Real[Array | np.ndarray, "instances 2"],
    y: Real[Array | np.ndarray, "instances"],
    *,
    coverage: float = 0.9,
) -> Float[Array, ""]:
    r"""Mean score of prediction intervals: their width, plus a cost of each miss by its distance; smaller is better.

    With the interval [l, u], α = 1 - coverage and :math:`x_+ = \max(x, 0)`:

    .. math:: \frac1n \sum_i (u_i - l_i) + \frac2\alpha (l_i - y_i)_+ + \frac2\alpha (y_i - u_i)_+

    Parameters
    ----------
    interval
        Lower and upper ends ``[instances 2]``, such as ``predict_interval`` returns.
    y
        True values of the target ``[instances]``.
    coverage
        How often the intervals are to hold ``y``, in (0, 1).

    Returns
    -------
    Array
        A scalar in units of the target. The least expected score is that of the quantiles at α/2 and 1 - α/2.

    Raises
    ------
    ValueError
        If shapes do not fit, there are no instances, or coverage lies outside (0, 1). Outside a trace also if a lower
        end lies above its upper, an end is NaN, or y is not finite.

    Notes
    -----
    Differences of NumPy's numbers are computed in float64, and then rounded, so that large targets lose nothing.
    An infinite end gives an infinite score. Gradient: that of the formula; where y meets an end, the mean of the
    slopes on both sides.

    References
    ----------
    Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation", section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(interval_score(np.array([[0.0, 2.0], [0.0, 2.0]]), np.array([1.0, 3.0]), coverage=0.8))
    7.0
    """
    check_within("coverage", coverage, "(0, 1)", ": how often intervals are to hold the truth")
    interval, y = _checked(interval, y, "interval")
    if interval.shape[1] != 2:
        raise ValueError(f"interval has shape {interval.shape}; expected [instances 2], lower and upper ends.")
    lower, upper = interval[:, 0], interval[:, 1]
    if is_concrete(interval) and (np.asarray(lower) > np.asarray(upper)).any():
        row = int(np.argmax(np.asarray(lower) > np.asarray(upper)))
        raise ValueError(f"interval {row} has its lower end {lower[row]} above its upper end {upper[row]}; swap them.")
    # An interval of one infinite point has the width 0: the miss makes its score infinite.
    where = np.where if isinstance(lower, np.ndarray) else jnp.where
    is_infinite_point = (lower == upper) & (abs(lower) == np.inf)
    width = where(is_infinite_point, 0, upper) - where(is_infinite_point, 0, lower)
    return _interval_score(*map(as_floats, (width, lower - y, y - upper)), 2 / (1 - coverage))


@jit
def _interval_score(width, below, above, cost):
    """Return the mean score of intervals, from their widths and how far targets lie below and above, ``[instances]``.

    A negative distance is no miss, and ``cost`` is the cost of a miss by 1.
    """
    return mean(width + jnp.asarray(cost, width.dtype) * (jnp.maximum(below, 0) + jnp.maximum(above, 0)))


def pinball_loss(
    predicted: Real[Array | np.ndarray, "instances levels"], y: Real[Array | np.ndarray, "instances"], *, quantiles: Any
) -> Float[Array, ""]:
    r"""Mean loss of predicted quantiles, over instances and levels; smaller is better.

    .. math:: \frac1{nk} \sum_{ij} \max\big(\tau_j (y_i - q_{ij}),\ (\tau_j - 1)(y_i - q_{ij})\big)

    Parameters
    ----------
    predicted
        Predicted quantiles q ``[instances levels]``, such as ``predict(X, quantiles=...)`` returns.
    y
        True values of the target ``[instances]``.
    quantiles
        The k levels τ of the quantiles, in [0, 1], ``[levels]``, in the order of the columns.

    Returns
    -------
    Array
        A scalar ≥ 0 in units of the target. Over many even levels it comes to half of the `crps`.

    Raises
    ------
    ValueError
        If shapes do not fit, there are no instances, or a level lies outside [0, 1]. Outside a trace also if a
        prediction is NaN or y is not finite.

    Notes
    -----
    Precision and gradient are as for `interval_score`, with a predicted quantile for an end.

    References
    ----------
    Koenker and Bassett 1978, "Regression quantiles".

    Examples
    --------
    >>> import numpy as np
    >>> print(pinball_loss(np.array([[1.0], [1.0]]), np.array([0.0, 3.0]), quantiles=[0.5]))
    0.75
    """
    predicted, y = _checked(predicted, y, "predicted")
    check_within("quantiles", quantiles, "[0, 1]", ": a level for each column", shape=(predicted.shape[1],))
    difference = as_floats(y[:, None] - predicted)
    return _pinball(difference, copy_in(quantiles, difference.dtype))


@jit
def _pinball(difference, levels):
    """Return the mean loss from targets less quantiles ``[instances levels]``, and the quantiles' ``levels``."""
    # At the levels 0 and 1 quantiles may be infinite, and distances count on one side only: here 0 times inf is 0.
    above = jnp.where(levels > 0, difference, 0)
    below = jnp.where(levels < 1, difference, 0)
    return mean(jnp.maximum(levels * above, (levels - 1) * below).ravel())


def crps(
    values: Real[Array | np.ndarray, "instances points"],
    y: Real[Array | np.ndarray, "instances"],
    *,
    probs: Real[Array | np.ndarray, "instances points"] | None = None,
) -> Float[Array, ""]:
    r"""Continuous ranked probability score of distributions on points: ensembles, quantiles; smaller is better.

    .. math:: \frac1n \sum_i \Big(\sum_j p_{ij} |v_{ij} - y_i|
              - \tfrac12 \sum_{jk} p_{ij} p_{ik} |v_{ij} - v_{ik}|\Big)

    which is :math:`\int (F_i(x) - [x \ge y_i])^2 dx`, with F the distribution function.

    Parameters
    ----------
    values
        k points v ``[instances points]`` in any order: members of an ensemble, or quantiles at the levels (j - ½)/k.
    y
        True values of the target ``[instances]``.
    probs
        Probabilities p of the points, ``[instances points]``. Default: 1/k each.

    Returns
    -------
    Array
        A scalar ≥ 0 in units of the target; of one point the mean absolute error.

    Raises
    ------
    ValueError
        If shapes do not fit or there are no instances. Outside a trace also if a point is NaN, y is not finite, or
        probabilities are negative or do not add to 1 (within 0.001).

    Notes
    -----
    Computed by sorting, O(k log k) for each instance. Infinite points of positive probability give an infinite score.
    Precision is as for `interval_score`. For probabilities of targets in bins ``TargetBins.crps`` is exact.

    References
    ----------
    Gneiting and Raftery 2007, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(crps(np.array([[0.0, 2.0]]), np.array([1.0])))
    0.5
    """
    values, y = _checked(values, y, "values")
    difference = as_floats(values - y[:, None])
    if probs is None:
        return _crps(difference, jnp.full((1, values.shape[1]), 1 / values.shape[1], difference.dtype))
    weights = as_array(probs, name="probs")
    if weights.shape != values.shape:
        raise ValueError(f"probs has shape {weights.shape}; expected {values.shape}, one for each of the values.")
    if is_concrete(weights):
        concrete = np.asarray(weights)
        if not ((concrete >= 0).all() and (np.abs(concrete.sum(axis=1, dtype=np.float64) - 1) <= 1e-3).all()):
            raise ValueError("probs must be >= 0 and add to 1 in each row.")
    return _crps(difference, jnp.asarray(weights, difference.dtype))


@jit
def _crps(difference, shares):
    """Return the mean `crps` from points less targets, ``difference [instances points]``.

    ``shares`` are the probabilities of the points, of the same shape or ``[1 points]``.
    """
    order = jnp.argsort(difference, axis=1)
    difference = jnp.take_along_axis(difference, order, axis=1)
    shares = jnp.take_along_axis(jnp.broadcast_to(shares, difference.shape), order, axis=1)
    # Between neighbouring points F is constant: there the integrand is F² below the target, and (1 - F)² above.
    cdf = jnp.cumsum(shares, axis=1)[:, :-1]
    # Summed from the other end, since 1 - F may be a rounding error in place of 0.
    has_share_above = jnp.cumsum(shares[:, ::-1], axis=1)[:, ::-1][:, 1:] > 0
    low, high = difference[:, :-1], difference[:, 1:]
    has_length = (low < high) | jnp.isfinite(low)  # between equal infinite points inf - inf would be NaN

    def integral(integrand, clip, is_positive):
        """Return the integrals between neighbouring points on one side of the target, 0 where no ``is_positive``.

        ``clip`` cuts the points off at the target: `jnp.minimum` for the side below, `jnp.maximum` above.
        """
        length = jnp.where(is_positive & has_length, clip(high, 0) - clip(low, 0), 0)
        return jnp.where(jnp.isinf(length), jnp.inf, integrand * length)  # infinite, also if F² underflows

    integrals = integral(cdf**2, jnp.minimum, cdf > 0) + integral((1 - cdf) ** 2, jnp.maximum, has_share_above)
    # From a target outside all points to the nearest of them the integrand is 1.
    return mean(jnp.sum(integrals, axis=1) + jnp.maximum(difference[:, 0], 0) + jnp.maximum(-difference[:, -1], 0))


def _checked(predicted: Any, y: Any, name: str) -> tuple[Any, Any]:
    """Return ``predicted [instances k]`` and targets ``y [instances]`` as floats, in float64 if both are NumPy's.

    Raises a ValueError if shapes do not fit or there are no instances, and outside a trace for NaN or an infinite
    target. The message calls the predictions ``name``.
    """
    predicted = as_array(predicted, name=name)
    y = as_array(y, name="y")
    if predicted.ndim != 2 or not predicted.shape[1]:
        raise ValueError(f"{name} has shape {predicted.shape}; expected [instances k], a row for each instance.")
    if y.shape != predicted.shape[:1]:
        raise ValueError(f"y has shape {y.shape}; expected {predicted.shape[:1]}, one number for each instance.")
    if not len(y):
        raise ValueError("y is empty: a mean over no instances is undefined.")
    check_no_nan(predicted, name=name)
    if is_concrete(y) and not np.isfinite(np.asarray(y)).all():
        raise ValueError("y holds NaN or infinite numbers; leave those rows out first.")
    if isinstance(predicted, np.ndarray) and isinstance(y, np.ndarray):  # differences of integers would wrap
        return predicted.astype(np.float64), y.astype(np.float64)
    return as_floats(predicted), as_floats(y)

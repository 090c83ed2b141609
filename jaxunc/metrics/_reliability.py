"""The reliability curve: how often predictions of each confidence are right."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int32, Real

from jaxunc._numerics import jit

from ._confidence_bins import Strategy, binned, checked_bins
from ._instances import Labels, checked_labels, checked_probabilities, nan_unless_classes
from ._total import total


class ReliabilityCurve(NamedTuple):
    """Means over the bins of confidence, lowest first; NaN where a bin is empty."""

    confidence: Float[Array | np.ndarray, "bins"]
    """Mean confidence."""
    accuracy: Float[Array | np.ndarray, "bins"]
    """Share of right predictions."""
    size: Int32[Array | np.ndarray, "bins"]
    """Number of instances."""


def reliability_curve(
    probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
    *,
    n_bins: int = 10,
    strategy: Strategy = "uniform",
) -> ReliabilityCurve:
    r"""Accuracy against confidence of the predicted class (top label), by the bins of `calibration_error`.

    With conf the largest probability of an instance, over the :math:`n_b` instances of bin b:

    .. math:: conf_b = \frac{1}{n_b} \sum_i conf_i, \qquad acc_b = \frac{1}{n_b} \sum_i [\arg\max_c p_{ic} = y_i]

    Parameters
    ----------
    probs
        Probabilities of the classes, adding to 1 in each row. The class with the lowest index wins ties.
    y
        Class indices ``[instances]`` in [0, classes).
    n_bins
        Number of bins B ≥ 1.
    strategy
        ``"uniform"``: bins ((b-1)/B, b/B]. ``"quantile"``: bins that end at the confidence of rank ⌈bn/B⌉, b < B; they
        hold n/B instances each unless confidences tie, which share a bin.

    Returns
    -------
    ReliabilityCurve
        ``confidence``, ``accuracy`` and ``size``, each ``[bins]``.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances, the strategy is unknown or n_bins < 1. Outside a trace also if
        a row is no distribution (within 0.001) or a label no class.
    TypeError
        If the labels are neither integer nor bool, or n_bins is no integer.

    Notes
    -----
    Empty bins have size 0 and no means: NaN. With K classes no confidence is below 1/K, so the lowest uniform bins are
    empty. The gaps between the means, weighted by size, are the calibration error of the same bins. Under a trace
    labels that are no class make all means NaN.

    Hits are counted as integers and confidences added in two-float arithmetic; cost O(n B), and a sort with
    ``"quantile"``. Gradient: of the confidences with the bins as they are; 0 of accuracies.

    References
    ----------
    DeGroot and Fienberg 1983; Niculescu-Mizil and Caruana 2005; Guo et al. 2017.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> probs, y = jnp.array([[0.25, 0.75], [0.25, 0.75], [0.5, 0.5]]), jnp.array([1, 0, 0])
    >>> curve = reliability_curve(probs, y, n_bins=4)
    >>> print(curve.confidence, curve.accuracy, curve.size)
    [ nan 0.5  0.75  nan] [nan 1.  0.5 nan] [0 1 2 0]
    """
    n_bins = checked_bins(n_bins, strategy)
    probs = checked_probabilities(probs, name="probs")
    return _reliability_curve(probs, checked_labels(y, *probs.shape), n_bins, strategy)


@jit(static_argnames=("n_bins", "strategy"))
def _reliability_curve(probs, y, n_bins, strategy):
    confidence, correct, bin_of = binned(probs, y, n_bins, strategy)

    def in_bin(b):
        inside = bin_of == b
        sizes = [jnp.sum(members, dtype=jnp.int32) for members in (inside, inside & correct)]
        return total(jnp.where(inside, confidence, 0.0)), *sizes

    # Bin by bin, by exact sums: a scatter would add floats one by one.
    sums, size, hits = lax.map(in_bin, jnp.arange(n_bins, dtype=jnp.int32))

    def mean(sums):
        means = jnp.where(size > 0, sums / jnp.maximum(size, 1).astype(probs.dtype), jnp.nan)
        return nan_unless_classes(means, y, probs.shape[1])

    return ReliabilityCurve(mean(sums), mean(hits.astype(probs.dtype)), size)

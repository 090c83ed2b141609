"""Calibration: predictions made with confidence p should be right in a share p of cases."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_one_of
from jaxunc._numerics import jit

from ._confidence_bins import Strategy, binned, checked_bins
from ._instances import Labels, checked_labels, checked_probabilities, nan_unless_classes
from ._total import total


def calibration_error(
    probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
    *,
    n_bins: int = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    strategy: Strategy = "uniform",
) -> Float[Array, ""]:
    r"""Expected calibration error of the predicted class (top label), by bins of confidence; smaller is better.

    With conf the largest probability of an instance, acc whether its class is the true one, averaged over bin b:

    .. math:: \ell_1: \sum_b \frac{n_b}{n} |acc_b - conf_b|, \qquad
              \ell_2: \sqrt{\sum_b \frac{n_b}{n} (acc_b - conf_b)^2}, \qquad
              \max: \max_{b: n_b > 0} |acc_b - conf_b|

    Parameters
    ----------
    probs
        Probabilities of the classes, adding to 1 in each row. The class with the lowest index wins ties.
    y
        Class indices ``[instances]`` in [0, classes).
    n_bins
        Number of bins B ≥ 1.
    norm
        ``"l1"``: the expected calibration error; ``"l2"``: its root mean square form; ``"max"``: the worst bin's.
    strategy
        ``"uniform"``: bins ((b-1)/B, b/B]. ``"quantile"``: bins that end at the confidence of rank ⌈bn/B⌉, b < B; they
        hold n/B instances each unless confidences tie, which share a bin.

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances, an option is unknown or n_bins < 1. Outside a trace also if a
        row is no distribution (within 0.001) or a label no class.
    TypeError
        If the labels are neither integer nor bool, or n_bins is no integer.

    Notes
    -----
    Empty bins count nothing. The estimate is biased upwards, more so with few instances in a bin: compare only equal
    n and B. Under a trace labels that are no class give NaN. Each bin's sum is compensated; cost O(n B), and a sort
    with ``"quantile"``.

    Gradient: that of the confidences with the bins as they are; 0 through a bin that is perfectly calibrated, and 0
    altogether in ``"l2"`` if all are.

    References
    ----------
    Naeini et al. 2015 (ℓ₁ and max); Guo et al. 2017; Kumar et al. 2019 (ℓ₂ and bins of equal mass).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> probs, y = jnp.array([[0.25, 0.75], [0.25, 0.75], [0.5, 0.5]]), jnp.array([1, 0, 0])
    >>> print(f"{float(calibration_error(probs, y, n_bins=4)):.4f}")
    0.3333
    """
    check_one_of("norm", norm, ("l1", "l2", "max"))
    n_bins = checked_bins(n_bins, strategy)
    probs = checked_probabilities(probs, name="probs")
    return _calibration_error(probs, checked_labels(y, *probs.shape), n_bins, norm, strategy)


@jit(static_argnames=("n_bins", "norm", "strategy"))
def _calibration_error(probs, y, n_bins, norm, strategy):
    n, n_classes = probs.shape
    confidence, correct, bin_of = binned(probs, y, n_bins, strategy)
    excess = confidence - correct.astype(probs.dtype)

    def in_bin(b):
        inside = bin_of == b
        return total(jnp.where(inside, excess, 0.0)), jnp.sum(inside, dtype=jnp.int32)

    # Bin by bin, by exact sums: a scatter would add floats one by one.
    gaps, sizes = lax.map(in_bin, jnp.arange(n_bins, dtype=jnp.int32))
    sizes = jnp.maximum(sizes, 1).astype(probs.dtype)
    if norm == "l1":
        error = jnp.sum(jnp.abs(gaps)) / n
    elif norm == "max":
        error = jnp.max(jnp.abs(gaps) / sizes)
    else:
        # The root's slope is infinite at 0: there the gradient is 0 instead.
        square = jnp.sum(gaps / sizes * (gaps / n))
        error = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), square)
    return nan_unless_classes(error, y, n_classes)

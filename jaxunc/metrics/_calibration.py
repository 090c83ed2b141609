"""Accuracy, proper scores of probabilities, and calibration: of predictions with confidence p, a share p is right."""

from typing import Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, Real

from jaxunc._checks import check_bool, check_integer, check_one_of
from jaxunc._numerics import floored_log, jit

from ._instances import (
    Labels,
    as_array,
    as_floats,
    check_columns,
    checked_labels,
    checked_probabilities,
    checked_scores,
    mean,
    nan_unless_classes,
    one_hot,
    sort_key,
    total,
)


def accuracy(class_scores: Real[Array | np.ndarray, "instances classes"], y: Labels) -> Float[Array, ""]:
    r"""Share of instances whose class has the largest class score.

    .. math:: \frac1n \sum_i [\arg\max_c s_{ic} = y_i]

    Parameters
    ----------
    class_scores
        A number per class, larger is better; probabilities serve as well. The lowest index wins ties.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a class score is NaN or a label no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    Scores that are all -inf are a tie. NumPy's 64-bit numbers are compared without rounding to 32 bits. Under a trace
    NaN and labels that are no class give NaN. Gradient: 0.

    References
    ----------
    Busch et al. 2021, whose code takes class 1 on binary ties instead.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(accuracy(jnp.array([[0.2, 0.8], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9]]), jnp.array([1, 0, 0, 1])))
    0.75
    """
    class_scores = as_array(class_scores, name="class_scores")
    check_columns(class_scores, name="class_scores")
    y = checked_labels(y, *class_scores.shape)
    return _accuracy(checked_scores(class_scores, name="class_scores"), y)


@jit
def _accuracy(class_scores, y):
    """Return `accuracy`, a scalar, of checked arguments."""
    n, n_classes = class_scores.shape
    predicted = lax.argmax(sort_key(class_scores), axis=1, index_dtype=jnp.int32)
    hits = jnp.sum(predicted == y, dtype=jnp.int32)
    share = hits.astype(as_floats(class_scores).dtype) / n
    share = jnp.where(jnp.any(jnp.isnan(class_scores)), jnp.nan, share)
    return nan_unless_classes(share, y, n_classes)


def brier_score(
    probs: Real[Array | np.ndarray, "instances classes"], y: Labels, scale_by_half: bool = False
) -> Float[Array, ""]:
    r"""Mean squared distance of the probabilities from the class that occurred; smaller is better.

    .. math:: \frac1n \sum_i \sum_c \left(p_{ic} - [y_i = c]\right)^2

    Parameters
    ----------
    probs
        Probabilities of the classes, adding to 1 in each row.
    y
        Class indices ``[instances]`` in [0, classes).
    scale_by_half
        Divide by 2. For two classes that is the single-class form, the mean of (p₁ - y)².

    Returns
    -------
    Array
        A scalar in [0, 2]; in [0, 1] with ``scale_by_half``.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a row is no distribution (within 0.001)
        or a label no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    Under a trace labels that are no class give NaN. The sum over instances is compensated: a million of them in
    float32 cost no digits. Gradient: 2(p - [y = c])/n; half of it with ``scale_by_half``.

    References
    ----------
    Brier 1950. Busch et al. 2021 and Costa et al. 2013 do not say which scale they print; Sutton-Charani 2020 uses the
    single-class form.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> probs, y = jnp.array([[0.25, 0.75], [0.5, 0.5]]), jnp.array([1, 0])
    >>> print(brier_score(probs, y), brier_score(probs, y, scale_by_half=True))
    0.3125 0.15625
    """
    check_bool("scale_by_half", scale_by_half)
    probs = checked_probabilities(probs, name="probs")
    return _brier_score(probs, checked_labels(y, *probs.shape), 0.5 if scale_by_half else 1.0)


@jit
def _brier_score(probs, y, scale):
    """Return `brier_score`, a scalar, of checked arguments, multiplied by ``scale``."""
    n_classes = probs.shape[-1]
    square_distance = jnp.sum((probs - one_hot(y, n_classes).astype(probs.dtype)) ** 2, axis=-1)
    return nan_unless_classes(scale * mean(square_distance), y, n_classes)


def log_loss(probs: Real[Array | np.ndarray, "instances classes"], y: Labels) -> Float[Array, ""]:
    r"""Mean negative logarithm of the probability of the class that occurred, in nats; smaller is better.

    .. math:: -\frac1n \sum_i \log p_{i,y_i}

    Parameters
    ----------
    probs
        Probabilities of the classes, adding to 1 in each row.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, ∞].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a row is no distribution (within 0.001)
        or a label no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    The loss is +inf if a class occurred whose probability is 0 (or below the smallest normal float): nothing is
    clipped, unlike in scikit-learn. Under a trace labels that are no class give NaN. The sum over instances is
    compensated.

    Gradient: -1/(n p) for the class that occurred; at p = 0, where it is infinite, -1/(n √tiny), large and finite.

    References
    ----------
    Good 1952; Sutton-Charani 2020, section 5, where it is clipped to [1e-15, 1 - 1e-15].

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(log_loss(jnp.array([[0.25, 0.75], [0.5, 0.5]]), jnp.array([1, 0])).round(4))
    0.4904
    >>> print(log_loss(jnp.array([[1.0, 0.0]]), jnp.array([1])))
    inf
    """
    probs = checked_probabilities(probs, name="probs")
    return _log_loss(probs, checked_labels(y, *probs.shape))


def log_loss_from_logs(log_probs: Real[Array | np.ndarray, "instances classes"], y: Labels) -> Float[Array, ""]:
    r"""Return the `log_loss` from ``log_probs``, logarithms of probabilities, such as a combiner's ``log_probability``.

    The loss is +inf if a class occurred whose logarithm is -inf. Labels ``y`` and errors are as for `log_loss`.
    Gradient: -1/n for the class that occurred, finite for any probability; so this is the loss to train with.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(log_loss_from_logs(jnp.array([[0.0, -200.0]]), jnp.array([1])))
    200.0
    """
    log_probs = checked_probabilities(log_probs, name="log_probs", logs=True)
    return _log_loss_from_logs(log_probs, checked_labels(y, *log_probs.shape))


@jit
def _log_loss(probs, y):
    """Return `log_loss`, a scalar, of checked arguments."""
    occurred = _of_the_class(probs, y)
    # The gradient is that of the floored logarithm; where it was floored the value becomes infinite.
    loss = jnp.where(occurred < jnp.finfo(probs.dtype).tiny, jnp.inf, 0.0) - floored_log(occurred)
    return nan_unless_classes(mean(loss), y, probs.shape[-1])


@jit
def _log_loss_from_logs(log_probs, y):
    """Return `log_loss_from_logs`, a scalar, of checked arguments."""
    return nan_unless_classes(-mean(_of_the_class(log_probs, y)), y, log_probs.shape[-1])


def _of_the_class(values, y):
    """Return for each instance the entry of ``values [instances classes]`` for its class ``y``; 0 if ``y`` is none."""
    return jnp.sum(jnp.where(one_hot(y, values.shape[-1]), values, 0.0), axis=-1)


Strategy: TypeAlias = Literal["uniform", "quantile"]
"""Which bins of confidence: of equal width, or with equal numbers of instances."""


def calibration_error(
    probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
    *,
    n_bins: int = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    strategy: Strategy = "uniform",
) -> Float[Array, ""]:
    r"""Expected calibration error of the predicted class (top label), by bins of confidence; smaller is better.

    Of the :math:`n_b` instances of bin b, conf is the mean of their largest probabilities, and acc the share whose true
    class has the largest:

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
    Empty bins are left out. The estimate is biased upwards, more so with few instances in a bin: compare it only at
    equal n and B. Under a trace labels that are no class give NaN. Each bin's sum is compensated. Cost: O(n B), and a
    sort with ``"quantile"``.

    Gradient: that of the confidences, with the bins held fixed; 0 for those in a perfectly calibrated bin.

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
    n_bins = _checked_bins(n_bins, strategy)
    probs = checked_probabilities(probs, name="probs")
    return _calibration_error(probs, checked_labels(y, *probs.shape), n_bins, norm, strategy)


@jit(static_argnames=("n_bins", "norm", "strategy"))
def _calibration_error(probs, y, n_bins, norm, strategy):
    """Return `calibration_error`, a scalar, of checked arguments."""
    n, n_classes = probs.shape
    confidence, correct, bin_of = _binned(probs, y, n_bins, strategy)
    excess = confidence - correct.astype(probs.dtype)

    def sums_of_bin(b):
        """Return the sum of ``excess`` in bin ``b``, and the number of instances there."""
        inside = bin_of == b
        return total(jnp.where(inside, excess, 0.0)), jnp.sum(inside, dtype=jnp.int32)

    # A sum for each bin, which is compensated; a scatter would add plain floats. The sum is n_b (conf_b - acc_b).
    excess_sums, sizes = lax.map(sums_of_bin, jnp.arange(n_bins, dtype=jnp.int32))
    sizes = jnp.maximum(sizes, 1).astype(probs.dtype)  # no division by 0: the sum of an empty bin is 0
    if norm == "l1":
        error = jnp.sum(jnp.abs(excess_sums)) / n
    elif norm == "max":
        error = jnp.max(jnp.abs(excess_sums) / sizes)
    else:
        mean_square = jnp.sum(excess_sums / sizes * (excess_sums / n))
        # The root's slope is infinite at 0: there the gradient is 0 instead.
        error = jnp.where(mean_square > 0, jnp.sqrt(jnp.where(mean_square > 0, mean_square, 1.0)), mean_square)
    return nan_unless_classes(error, y, n_classes)


class ReliabilityCurve(NamedTuple):
    """Mean confidence and accuracy in bins of confidence, the lowest bin first; both are NaN in an empty bin."""

    confidence: Float[Array | np.ndarray, "bins"]
    """Mean confidence."""
    accuracy: Float[Array | np.ndarray, "bins"]
    """Share of right predictions."""
    size: Int32[Array | np.ndarray, "bins"]
    """Number of instances."""


def reliability_curve(
    probs: Real[Array | np.ndarray, "instances classes"], y: Labels, *, n_bins: int = 10, strategy: Strategy = "uniform"
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
    Empty bins have size 0, and NaN for means. With K classes no confidence is below 1/K, so the lowest uniform bins are
    empty. The mean of \|acc - conf\|, weighted by size, is the ℓ₁ `calibration_error`. Under a trace labels that are no
    class make all means NaN.

    Cost: O(n B), and a sort with ``"quantile"``. Gradient: that of the confidences, with the bins held fixed; 0 for
    the accuracies.

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
    n_bins = _checked_bins(n_bins, strategy)
    probs = checked_probabilities(probs, name="probs")
    return _reliability_curve(probs, checked_labels(y, *probs.shape), n_bins, strategy)


@jit(static_argnames=("n_bins", "strategy"))
def _reliability_curve(probs, y, n_bins, strategy):
    """Return `reliability_curve`, arrays ``[bins]``, of checked arguments."""
    confidence, correct, bin_of = _binned(probs, y, n_bins, strategy)

    def sums_of_bin(b):
        """Return the sum of confidences in bin ``b``, the number of instances, and that of right predictions."""
        inside = bin_of == b
        size = jnp.sum(inside, dtype=jnp.int32)
        hits = jnp.sum(inside & correct, dtype=jnp.int32)
        return total(jnp.where(inside, confidence, 0.0)), size, hits

    # A sum for each bin, which is compensated; a scatter would add plain floats.
    confidence_sums, size, hits = lax.map(sums_of_bin, jnp.arange(n_bins, dtype=jnp.int32))

    def mean_by_bin(sums):
        """Return sums ``[bins]`` divided by the sizes; NaN for empty bins."""
        means = jnp.where(size > 0, sums / jnp.maximum(size, 1).astype(probs.dtype), jnp.nan)
        return nan_unless_classes(means, y, probs.shape[1])

    return ReliabilityCurve(mean_by_bin(confidence_sums), mean_by_bin(hits.astype(probs.dtype)), size)


def _checked_bins(n_bins: int, strategy: str) -> int:
    """Return ``n_bins`` as an int; raise a TypeError or ValueError if it is no integer ≥ 1, or ``strategy`` unknown."""
    check_one_of("strategy", strategy, ("uniform", "quantile"))
    check_integer("n_bins", n_bins, 1)
    return int(n_bins)


def _binned(
    probs: Float[Array, "instances classes"], y: Int32[Array, "instances"], n_bins: int, strategy: str
) -> tuple[Float[Array, "instances"], Bool[Array, "instances"], Int32[Array, "instances"]]:
    """Return each instance's confidence, whether its most probable class is the true one ``y``, and its bin, from 0."""
    n = probs.shape[0]
    confidence = jnp.max(probs, axis=-1)
    if strategy == "uniform":
        # Rounded once from the exact quotients: a confidence of 0.3 then lies in the bin that ends at 0.3.
        edges = jnp.asarray(np.arange(1, n_bins) / n_bins, probs.dtype)
    else:
        ranks = np.array([-(-b * n // n_bins) for b in range(1, n_bins)], dtype=int)  # ⌈b n / n_bins⌉, counted from 1
        edges = jnp.sort(lax.stop_gradient(confidence))[ranks - 1]  # in gradients the bins are held fixed
    # The number of edges below a confidence: one that equals an edge lies in the bin that ends there.
    bin_of = jnp.sum(confidence[:, None] > edges[None, :], axis=1, dtype=jnp.int32)
    correct = lax.argmax(probs, axis=1, index_dtype=jnp.int32) == y
    return confidence, correct, bin_of

"""Accuracy, and the two proper scores: the Brier score and the logarithmic score."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_bool
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
)


def accuracy(
    class_scores: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
) -> Float[Array, ""]:
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
    Scores that are all -inf (every class vetoed) are a tie. Under a trace NaN and labels that are no class give NaN.
    NumPy's 64-bit numbers are compared as they are, on the host. Hits are counted as integers, exactly. Gradient: 0.

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
    n, n_classes = class_scores.shape
    hits = jnp.sum(lax.argmax(class_scores, axis=1, index_dtype=jnp.int32) == y, dtype=jnp.int32)
    share = hits.astype(as_floats(class_scores).dtype) / n
    share = jnp.where(jnp.any(jnp.isnan(class_scores)), jnp.nan, share)
    return nan_unless_classes(share, y, n_classes)


def brier_score(
    probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
    scale_by_half: bool = False,
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
    Under a trace labels that are no class give NaN. The sum over instances is compensated: for a million of them in
    float32 it is as exact as for ten. Gradient: 2(p - [y = c])/n, smooth.

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
    n_classes = probs.shape[-1]
    distance = jnp.sum((probs - one_hot(y, n_classes).astype(probs.dtype)) ** 2, axis=-1)
    return nan_unless_classes(scale * mean(distance), y, n_classes)


def log_loss(
    probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
) -> Float[Array, ""]:
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
    +inf if a class occurred whose probability is 0 (or below the smallest normal float): nothing is clipped, unlike in
    scikit-learn. Under a trace labels that are no class give NaN. The sum over instances is compensated.

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


def log_loss_from_logs(
    log_probs: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
) -> Float[Array, ""]:
    r"""`log_loss` from the logarithms of the probabilities, as combiners' ``log_probability`` has them.

    +inf if a class occurred whose logarithm is -inf. A row must hold logarithms of a distribution, within 0.001.
    Otherwise as `log_loss`. Gradient: -1/n for the class that occurred, which makes it the loss to train with.

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
    occurred = _of_the_class(probs, y)
    # The floored logarithm has the gradient; where it was floored the value is infinite.
    loss = jnp.where(occurred < jnp.finfo(probs.dtype).tiny, jnp.inf, 0.0) - floored_log(occurred)
    return nan_unless_classes(mean(loss), y, probs.shape[-1])


@jit
def _log_loss_from_logs(log_probs, y):
    return nan_unless_classes(-mean(_of_the_class(log_probs, y)), y, log_probs.shape[-1])


def _of_the_class(values, y):
    """Return the column of each instance's class."""
    return jnp.sum(jnp.where(one_hot(y, values.shape[-1]), values, 0.0), axis=-1)

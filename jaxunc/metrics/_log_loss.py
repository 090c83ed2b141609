"""The logarithmic score, from probabilities or from their logarithms."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from jaxunc._numerics import floored_log, jit

from ._instances import Labels, checked_labels, checked_probabilities, nan_unless_classes, one_hot
from ._total import mean


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
    scikit-learn. `log_loss_from_logs` stays finite where a probability is too small for a float. Under a trace labels
    that are no class give NaN. The sum over instances is compensated.

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
    r"""`log_loss` of probabilities given by their logarithms, as rules' ``log_probability`` returns them.

    .. math:: -\frac1n \sum_i \log p_{i,y_i}

    Parameters
    ----------
    log_probs
        Logarithms of the probabilities of the classes, which add to 1 in each row.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, ∞].

    Raises
    ------
    ValueError
        If the shapes do not fit or there are no instances. Outside a trace also if a row holds no logarithms of a
        distribution (within 0.001) or a label is no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    +inf if a class occurred whose logarithm is -inf. Under a trace labels that are no class give NaN. The sum over
    instances is compensated. Gradient: -1/n for the class that occurred, which makes it the loss to train with.

    References
    ----------
    Good 1952.

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

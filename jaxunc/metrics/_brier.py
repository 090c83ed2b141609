"""The Brier score."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_bool
from jaxunc._numerics import jit

from ._instances import Labels, checked_labels, checked_probabilities, nan_unless_classes, one_hot
from ._total import mean


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

"""Sets of classes from intervals of their probabilities."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from jaxunc._checks import check_class_axis, check_kind, is_concrete
from jaxunc._numerics import jit, same_rank
from jaxunc.intervals import Interval, undominated


def interval_dominance(interval: Interval) -> Bool[Array, "... classes"]:
    r"""The classes whose upper bound no other class's lower bound exceeds.

    .. math:: c' \text{ is rejected} \iff \exists c: \underline p_c > \overline p_{c'}

    Parameters
    ----------
    interval
        Bounds ``[... classes]`` of each class's probability, such as `jaxunc.AveragedIntervals` answers.

    Returns
    -------
    Array
        Booleans ``[... classes]``: the classes that remain, never none.

    Raises
    ------
    ValueError
        If there are fewer than two classes or the shapes differ. Outside a trace also if a lower bound is above its
        upper one, or a bound is NaN or outside [0, 1].

    Notes
    -----
    Of two classes the slides decide {1} if the lower bound of class 1 is at least one half, {0} if its upper bound is
    less. So equality of class 1's lower bound with class 0's upper one is enough for class 1. The bounds are compared
    as they are, rounding included. Under a trace rows with NaN keep all classes. Gradient: none.

    References
    ----------
    Zhang, Quost and Masson 2021, the baseline of the experiments; Troffaes 2007 (interval dominance).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jaxunc.intervals import Interval
    >>> lower, upper = jnp.array([[0.5, 0.1, 0.0], [0.3, 0.2, 0.1]]), jnp.array([[0.8, 0.4, 0.3], [0.6, 0.4, 0.3]])
    >>> print(interval_dominance(Interval(lower, upper)))
    [[ True False False]
     [ True  True  True]]
    """
    check_kind("interval", interval, tuple, "an Interval(lower, upper)")
    lower, upper = (jnp.asarray(bound) for bound in interval)
    check_class_axis(lower, "interval.lower")
    if lower.shape != upper.shape:
        raise ValueError(f"interval.lower has shape {lower.shape} and interval.upper {upper.shape}; pass equal shapes.")
    if is_concrete(lower, upper):
        low, high = np.asarray(lower), np.asarray(upper)
        wrong = ~((low >= 0) & (low <= high) & (high <= 1))
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            raise ValueError(
                f"interval{list(place)} is [{low[place]}, {high[place]}]; bounds of a probability must obey "
                "0 <= lower <= upper <= 1."
            )
    return _interval_dominance(lower, upper)


@jit
def _interval_dominance(lower, upper):
    low, high = lower[..., :, None], upper[..., None, :]
    low, high, beside = same_rank(low, high, ~jnp.eye(lower.shape[-1], dtype=bool))
    preferred = (low > high) & beside
    if lower.shape[-1] == 2:
        tie = low[..., 1, 0] >= high[..., 0, 0]
        preferred = preferred.at[..., 1, 0].set(tie & ~preferred[..., 0, 1])
    return undominated(preferred)

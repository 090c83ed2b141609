"""Area under the ROC curve of probabilities that are known as intervals: its exact bounds."""

from typing import Literal

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_one_of, is_concrete
from jaxunc.intervals import Interval

from ._auc import auc
from ._instances import Labels
from ._intervals import checked_binary, checked_interval


def interval_auc(interval: Interval, y: Labels, *, method: Literal["exact", "published"] = "exact") -> Interval:
    r"""The least and the greatest area that probabilities inside the intervals can have.

    .. math:: \Big[\min_{p \in [l, u]}, \max_{p \in [l, u]}\Big] \;
              \frac{1}{n_+ n_-} \sum_{i: y_i = 1} \sum_{j: y_j = 0} \Big([p_i > p_j] + \tfrac12 [p_i = p_j]\Big)

    Parameters
    ----------
    interval
        Intervals of the probability of class 1 ``[instances]``, or of each of two classes ``[instances 2]``.
    y
        Class indices ``[instances]``, 0 or 1.
    method
        ``"exact"``: the bounds. ``"published"``: what the paper's code reports, the areas of all lower and of all upper
        ends, in order. Those bound nothing: probabilities inside the intervals can have areas beyond both.

    Returns
    -------
    Interval
        Two scalars in [0, 1]; NaN if only one class occurs.

    Raises
    ------
    ValueError
        As for `interval_brier`, or if the method is unknown.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    A pair's summand never falls in p_i nor rises in p_j. So no choice exceeds that of all upper ends for class 1 and
    all lower ends for class 0, and none falls below the opposite one. Both are attained, since the intervals are
    closed. Two sorts, O(n log n); ends are compared exactly, as in `auc`. Instances choose their probabilities each for
    itself; if those of a leaf must share one, there is no closed form. Gradient: 0.

    References
    ----------
    Sutton-Charani 2020, section 5 and published code.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> interval = Interval(jnp.array([0.2, 0.4]), jnp.array([0.6, 0.7]))
    >>> print(*interval_auc(interval, jnp.array([0, 1])))
    0.0 1.0
    >>> print(*interval_auc(interval, jnp.array([0, 1]), method="published"))
    1.0 1.0
    """
    check_one_of("method", method, ("exact", "published"))
    lower, upper = interval = checked_interval(interval, floats=False)
    y = checked_binary(y, interval)
    if method == "published":
        areas = auc(lower, y), auc(upper, y)
        return Interval(jnp.minimum(*areas), jnp.maximum(*areas))
    # On the host 64-bit ends are compared as they are.
    xp = np if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray) and is_concrete(y) else jnp
    # Worst: positives at their lower ends, negatives at their upper ones; best: the other way round.
    positive = xp.asarray(y) == 1
    return Interval(auc(xp.where(positive, lower, upper), y), auc(xp.where(positive, upper, lower), y))

"""Ranks of methods on each block."""

import numpy as np
import scipy.stats
from jaxtyping import Float

from jaxunc._checks import check_bool

from ._values import Values, checked_values, tie_groups, tie_threshold


def ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "blocks methods"]:
    r"""Rank of each method on each block: 1 for the best, the mean of their ranks for methods that tie.

    .. math:: r_{bj} = 1 + \#\{i: i \text{ better than } j\} + \tfrac12 \#\{i \ne j: i \text{ ties with } j\}

    Parameters
    ----------
    values
        A value per block (a data set or a split) and method.
    larger_is_better
        True for accuracies and areas, False for losses, errors and times.
    decimals
        Differences below 10^-decimals count as ties.

    Returns
    -------
    numpy.ndarray
        ``[blocks methods]``, multiples of 1/2 in [1, methods]; each row adds to methods · (methods + 1) / 2.

    Raises
    ------
    ValueError
        If there is no block or no method, or a value is NaN or infinite.
    TypeError
        If the values are no numbers or decimals is no integer.

    Notes
    -----
    The difference is that of neighbours in order: of three values, each close to the next, all tie. If all methods tie,
    all ranks are (methods + 1) / 2. For values printed with d decimals keep ``decimals`` above d. Cost O(b k log k).

    References
    ----------
    Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [[1.  2.5 2.5]
     [2.  3.  1. ]]
    """
    values = checked_values(values, least=1)
    check_bool("larger_is_better", larger_is_better)
    groups = tie_groups(-values if larger_is_better else values, tie_threshold(decimals))
    return scipy.stats.rankdata(groups, axis=-1).astype(float)


def average_ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "methods"]:
    """Mean over the blocks of `ranks`: the axis of a critical-difference diagram.

    Parameters
    ----------
    values
        A value per block (a data set or a split) and method.
    larger_is_better
        True for accuracies and areas, False for losses, errors and times.
    decimals
        Differences below 10^-decimals count as ties.

    Returns
    -------
    numpy.ndarray
        ``[methods]``, each in [1, methods], smaller is better; together methods · (methods + 1) / 2.

    Raises
    ------
    ValueError
        If there is no block or no method, or a value is NaN or infinite.
    TypeError
        If the values are no numbers or decimals is no integer.

    Notes
    -----
    An average rank depends on which other methods are compared.

    References
    ----------
    Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(average_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [1.5  2.75 1.75]
    """
    return ranks(values, larger_is_better=larger_is_better, decimals=decimals).mean(axis=0)

"""Groups of methods that a comparison could not tell apart."""

import numpy as np
from jaxtyping import Array, Bool, Real

from ._values import checked_numbers


def cliques(
    order_values: Real[Array | np.ndarray, "methods"],
    different: Bool[Array | np.ndarray, "methods methods"],
) -> list[tuple[int, ...]]:
    """Maximal runs of methods, neighbours in rank, of which no two differ: the bars of a critical-difference diagram.

    Parameters
    ----------
    order_values
        Numbers that order the methods, smallest first: their average ranks.
    different
        Whether each pair differs, symmetric; the diagonal is not read. For Nemenyi's test ``abs(r_i - r_j) > CD``, for
        pairwise tests ``p_values <= alpha``.

    Returns
    -------
    list of tuple of int
        The positions of each run's methods, best first; the runs from best to worst. A method that differs from both
        its neighbours is in none.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are fewer than two methods, an order value is NaN or infinite, or ``different``
        is not symmetric.
    TypeError
        If the order values are no numbers or ``different`` is not bool.

    Notes
    -----
    Runs may overlap, but none is part of another. Methods with equal order values keep their positions' order. Between
    two methods that do not differ there may lie one that differs from either (pairwise tests allow that, Nemenyi's test
    does not): those two share no run. Cost O(methods³).

    References
    ----------
    Demšar 2006, section 3.2.4 and figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> average = np.array([3.1, 1.2, 2.0, 2.9])
    >>> cliques(average, np.abs(average[:, None] - average[None, :]) > 1)
    [(1, 2), (2, 3), (3, 0)]
    >>> cliques(average, np.abs(average[:, None] - average[None, :]) > 1.5)
    [(1, 2), (2, 3, 0)]
    """
    order_values, different = checked_numbers(order_values, name="order_values"), np.asarray(different)
    n_methods = order_values.size
    if order_values.ndim != 1 or n_methods < 2 or not np.all(np.isfinite(order_values)):
        raise ValueError(
            f"order_values={order_values.tolist()} must be finite numbers, one per method, two methods or more: take "
            "average_ranks."
        )
    if different.dtype != bool:
        raise TypeError(f"different has dtype {different.dtype}; expected bool. Compare p-values with alpha first.")
    if different.shape != (n_methods, n_methods) or np.any(different != different.T):
        raise ValueError(
            f"different has shape {different.shape}; expected ({n_methods}, {n_methods}), symmetric: whether two "
            "methods differ does not depend on which is named first."
        )
    order = np.argsort(order_values, kind="stable").tolist()
    runs, reached = [], 0
    for start in range(n_methods):
        end = start + 1
        while end < n_methods and not different[order[start:end], order[end]].any():
            end += 1
        # A run that ends where an earlier one did is part of it.
        if end > max(reached, start + 1):
            runs.append(tuple(order[start:end]))
            reached = end
    return runs

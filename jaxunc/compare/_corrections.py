"""p-values of many tests together, so that the probability of any false alarm stays below alpha."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_one_of

from ._values import checked_numbers

PValues: TypeAlias = Real[Array | np.ndarray, "tests"]
"""A p-value per test."""


def holm(p_values: PValues) -> Float[np.ndarray, "tests"]:
    r"""Holm's step-down adjustment.

    With the m p-values in increasing order, :math:`p_{(1)} \le p_{(2)} \le \dots`:

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})

    Parameters
    ----------
    p_values
        p-values in [0, 1], one per test, in any order.

    Returns
    -------
    numpy.ndarray
        Adjusted p-values ``[tests]`` in the order given, to be compared with alpha as they are.

    Raises
    ------
    ValueError
        If the p-values have more than one axis or lie outside [0, 1].
    TypeError
        If the p-values are no numbers.

    Notes
    -----
    Never above `bonferroni`'s, under the same assumptions (none): there is no reason to prefer the latter. Equal
    p-values stay equal. No test: no p-values.

    References
    ----------
    Holm 1979; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(holm(np.array([0.01, 0.04, 0.03])))
    [0.03 0.06 0.06]
    """
    p_values = _checked(p_values)
    order = np.argsort(p_values, kind="stable")
    # The smallest is multiplied by the number of tests, the next by one less, …; none may fall below its predecessor.
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def bonferroni(p_values: PValues) -> Float[np.ndarray, "tests"]:
    r"""Bonferroni's adjustment.

    .. math:: \tilde p_i = \min(1, m p_i)

    Parameters
    ----------
    p_values
        p-values in [0, 1], one per test.

    Returns
    -------
    numpy.ndarray
        Adjusted p-values ``[tests]``, to be compared with alpha as they are.

    Raises
    ------
    ValueError
        If the p-values have more than one axis or lie outside [0, 1].
    TypeError
        If the p-values are no numbers.

    Notes
    -----
    No test: no p-values. `holm` is never worse.

    References
    ----------
    Dunn 1961; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(bonferroni(np.array([0.01, 0.04, 0.5])))
    [0.03 0.12 1.  ]
    """
    p_values = _checked(p_values)
    return np.minimum(p_values * len(p_values), 1.0)


def corrected(p_values: Float[np.ndarray, "tests"], correction: str) -> Float[np.ndarray, "tests"]:
    """Return the p-values adjusted by the correction of that name."""
    check_one_of("correction", correction, ("holm", "bonferroni", "none"))
    return {"holm": holm, "bonferroni": bonferroni, "none": np.array}[correction](p_values)


def _checked(p_values):
    p_values = checked_numbers(p_values, name="p_values")
    if p_values.ndim != 1:
        raise ValueError(f"p_values has shape {p_values.shape}; expected [tests], each test of the family once.")
    if not np.all((p_values >= 0) & (p_values <= 1)):
        raise ValueError(f"p_values={p_values.tolist()} must lie in [0, 1]; leave out tests that have no p-value.")
    return p_values

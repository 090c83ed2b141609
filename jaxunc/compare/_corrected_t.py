"""The corrected resampled t-test, for the splits of one data set."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_within

from ._pairwise import Correction, PairwiseTests, pairwise
from ._values import Values, checked_numbers, checked_values, tie_threshold


class CorrectedT(NamedTuple):
    """A two-sided t-test: its statistic and its p-value."""

    statistic: Float[np.ndarray, "..."]
    p_value: Float[np.ndarray, "..."]


def corrected_t_test(differences: Real[Array | np.ndarray, "... splits"], *, test_share: float) -> CorrectedT:
    r"""Nadeau and Bengio's t-test of two methods that were compared on splits of one data set.

    With d̄ and s² the mean and the variance (with n - 1) of the differences on n splits, and τ the share tested on:

    .. math:: t = \frac{\bar d}{\sqrt{\big(\frac1n + \frac{\tau}{1 - \tau}\big)\, s^2}}

    with n - 1 degrees of freedom. The second term makes up for the overlap of the training sets.

    Parameters
    ----------
    differences
        Difference of the two methods on each split, two splits or more; all splits of repeated cross-validations in a
        row.
    test_share
        Share of the instances that each split tests on, in (0, 1): 0.1 for ten folds, where τ/(1 - τ) = 1/9.

    Returns
    -------
    CorrectedT
        ``statistic`` and ``p_value`` ``[...]``.

    Raises
    ------
    ValueError
        If there are fewer than two splits, a difference is NaN or infinite, or test_share lies outside (0, 1).
    TypeError
        If the differences are no numbers.

    Notes
    -----
    All differences 0: t = 0, p = 1. All equal, but not 0: t = ±∞, p = 0. More repetitions do not make the variance
    vanish: that of the data stays.

    References
    ----------
    Nadeau and Bengio 2003; Bouckaert and Frank 2004 (repeated cross-validation).

    Examples
    --------
    >>> import numpy as np
    >>> result = corrected_t_test(np.array([0.02, 0.01, 0.03, 0.02, 0.0]), test_share=0.2)
    >>> print(f"{result.statistic:.4f} {result.p_value:.4f}")
    2.0919 0.1046
    """
    differences = checked_numbers(differences, name="differences")
    if differences.ndim < 1 or differences.shape[-1] < 2:
        raise ValueError(f"differences has shape {differences.shape}; expected [... splits], two splits or more.")
    if len(off := np.argwhere(~np.isfinite(differences))):
        raise ValueError(
            f"differences holds {differences[tuple(off[0])]} at {tuple(off[0].tolist())}; expected finite numbers. "
            "Leave out the splits on which a method has no value."
        )
    _check_share(test_share)
    n = differences.shape[-1]
    mean = differences.mean(axis=-1)
    # The variance of equal numbers need not be 0 once their mean is rounded.
    spread = np.where(np.ptp(differences, axis=-1) > 0, differences.std(axis=-1, ddof=1), 0.0)
    scale = spread * (1 / n + test_share / (1 - test_share)) ** 0.5
    certain = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    statistic = np.where(scale > 0, mean / np.where(scale > 0, scale, 1.0), certain)
    return CorrectedT(statistic, np.asarray(2 * scipy.stats.t.sf(np.abs(statistic), n - 1)))


def pairwise_corrected_t(
    values: Values,
    *,
    larger_is_better: bool,
    test_share: float,
    correction: Correction = "holm",
    decimals: int = 9,
) -> PairwiseTests:
    """`corrected_t_test` of all pairs of methods on the splits of one data set.

    Parameters
    ----------
    values
        A value per split and method, two or more of each; all splits of repeated cross-validations in rows.
    larger_is_better
        True for accuracies and areas, False for losses, errors and times. Only the wins depend on it.
    test_share
        Share of the instances that each split tests on, in (0, 1): 0.1 for ten folds.
    correction
        ``"holm"``, ``"bonferroni"`` or ``"none"``.
    decimals
        Differences below 10^-decimals are 0.

    Returns
    -------
    PairwiseTests
        ``p_values``, adjusted for the number of pairs, and ``wins``, in splits, ``[methods methods]``.

    Raises
    ------
    ValueError
        If there are fewer than two splits or methods, a value is NaN or infinite, test_share lies outside (0, 1) or
        the correction is unknown.
    TypeError
        If the values are no numbers or decimals is no integer.

    Notes
    -----
    Two methods that tie on all splits: p = 1; that differ by the same number on all: p = 0.

    References
    ----------
    Nadeau and Bengio 2003; Bouckaert and Frank 2004.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.92, 0.9], [0.91, 0.9], [0.93, 0.9], [0.92, 0.9], [0.9, 0.9]])
    >>> tests = pairwise_corrected_t(values, larger_is_better=True, test_share=0.2)
    >>> print(f"{tests.p_values[0, 1]:.4f}", tests.wins.tolist())
    0.1046 [[0, 4], [0, 0]]
    """
    _check_share(test_share)
    return pairwise(
        checked_values(values),
        lambda differences: float(corrected_t_test(differences, test_share=test_share).p_value),
        threshold=tie_threshold(decimals),
        larger_is_better=larger_is_better,
        correction=correction,
    )


def _check_share(test_share):
    why = "; it is the share of the instances that a split tests on, 0.1 for ten folds"
    check_within("test_share", test_share, "(0, 1)", why)

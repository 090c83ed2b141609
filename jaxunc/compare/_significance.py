"""Significance of differences: ranks of methods, tests of each pair of methods, Holm's correction of p-values.

The corrected t-test allows for the training data that the splits of one data set share.

Arguments of several functions: ``values``, a table with a row per block (a data set or a split) and a column per
method, two or more of each; ``larger_is_better``, True for accuracies and areas, False for losses, errors and times;
``decimals``: differences below 10^-decimals are ties. ValueErrors refuse shapes, NaN, infinite values and options
outside of their range, TypeErrors values that are not numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.stats
from jaxtyping import Array, Float, Int, Real

from jaxunc._checks import check_bool, check_integer, check_readable, check_within

Values: TypeAlias = Real[Array | np.ndarray, "blocks methods"]
"""Table with a value for each block (a data set or a split) and method."""
PValues: TypeAlias = Real[Array | np.ndarray, "tests"]  # a p-value for each test


class PairwiseTests(NamedTuple):
    """The result of a test of every pair of methods."""

    p_values: Float[np.ndarray, "methods methods"]  # adjusted p-values, symmetric; 1 on the diagonal
    wins: Int[np.ndarray, "methods methods"]  # blocks on which the row's method is strictly better than the column's


class CorrectedT(NamedTuple):
    """A two-sided t-test: its statistic and its p-value."""

    statistic: Float[np.ndarray, "..."]
    p_value: Float[np.ndarray, "..."]


def ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "blocks methods"]:
    r"""Return the rank of each method on each block: 1 for the best; methods that tie share the mean of their ranks.

    .. math:: r_{bj} = 1 + \#\{i: i \text{ better than } j\} + \tfrac12 \#\{i \ne j: i \text{ ties with } j\}

    Multiples of 1/2 in [1, methods]; each row adds to methods · (methods + 1) / 2. One block or one method will do.
    ``values`` closer than 10^-``decimals`` tie, as neighbours in order: three of them, each close to the next, all tie.
    For values printed with d decimals keep ``decimals`` above d. Cost O(b k log k) for b blocks and k methods.
    Reference: Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [[1.  2.5 2.5]
     [2.  3.  1. ]]
    """
    values = _checked_values(values, least=1)
    check_bool("larger_is_better", larger_is_better)
    groups = tie_groups(-values if larger_is_better else values, _tie_threshold(decimals))
    return scipy.stats.rankdata(groups, axis=-1).astype(float)


def average_ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "methods"]:
    """Return the mean rank of each method over the blocks; on a block the best has rank 1, ties share their mean rank.

    A mean rank is in [1, methods], and depends on which other methods are compared. ``values`` closer than
    10^-``decimals`` tie.

    Examples
    --------
    >>> import numpy as np
    >>> print(average_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [1.5  2.75 1.75]
    """
    return ranks(values, larger_is_better=larger_is_better, decimals=decimals).mean(axis=0)


def corrected_t_test(differences: Real[Array | np.ndarray, "... splits"], *, test_share: float) -> CorrectedT:
    r"""Nadeau and Bengio's t-test of two methods that were compared on splits of one data set.

    d̄ and s² are the mean and the variance (with n - 1) of the differences on n ≥ 2 splits; the splits of a repeated
    cross-validation are the folds of all repetitions. ``test_share`` is τ in (0, 1), the share of instances that each
    split tests on (0.1 for ten folds):

    .. math:: t = \frac{\bar d}{\sqrt{\big(\frac1n + \frac{\tau}{1 - \tau}\big)\, s^2}}

    with n - 1 degrees of freedom. The second term corrects for the overlap of the training sets. More repetitions do
    not make the variance vanish: that of the data stays. If all differences are 0, t = 0 and p = 1; if all are equal,
    but not 0, t = ±∞ and p = 0.

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
    differences = _checked_numbers(differences, name="differences")
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
    scale = _corrected_scale(differences, test_share)
    statistic_of_equal = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))  # where all differences are equal
    statistic = np.where(scale > 0, mean / np.where(scale > 0, scale, 1.0), statistic_of_equal)
    return CorrectedT(statistic, np.asarray(2 * scipy.stats.t.sf(np.abs(statistic), n - 1)))


def significant_difference(
    differences: Real[Array | np.ndarray, "splits"], *, test_share: float, p_value: float
) -> float:
    """Return the mean difference, ≥ 0, at which `corrected_t_test` would have this p-value.

    The spread is that of ``differences``. ``test_share`` is the share of instances that each split tests on.
    """
    scale = float(_corrected_scale(differences, test_share))
    return float(scipy.stats.t.isf(p_value / 2, len(differences) - 1)) * scale


def _corrected_scale(differences: Any, test_share: float) -> np.ndarray:
    """Return the denominator of `corrected_t_test`'s statistic for ``differences [... splits]``."""
    # The variance of equal numbers need not be 0 once their mean is rounded.
    spread = np.where(np.ptp(differences, axis=-1) > 0, differences.std(axis=-1, ddof=1), 0.0)
    return spread * (1 / differences.shape[-1] + test_share / (1 - test_share)) ** 0.5


def pairwise_corrected_t(
    values: Values, *, larger_is_better: bool, test_share: float, decimals: int = 9
) -> PairwiseTests:
    """Test each pair of methods on splits of one data set by `corrected_t_test`, with p-values adjusted by `holm`.

    ``values`` has a row for each split, which tests on ``test_share`` of the instances. Differences below
    10^-``decimals`` are ties. Only the wins depend on ``larger_is_better``. Two methods that tie on all splits have
    p = 1, and two that differ by the same number on all splits p = 0.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.92, 0.9], [0.91, 0.9], [0.93, 0.9], [0.92, 0.9], [0.9, 0.9]])
    >>> tests = pairwise_corrected_t(values, larger_is_better=True, test_share=0.2)
    >>> print(f"{tests.p_values[0, 1]:.4f}", tests.wins.tolist())
    0.1046 [[0, 4], [0, 0]]
    """
    _check_share(test_share)

    def p_value(differences: np.ndarray) -> float:
        return float(corrected_t_test(differences, test_share=test_share).p_value)

    return pairwise_tests(values, p_value, larger_is_better=larger_is_better, decimals=decimals)


def _check_share(test_share):
    """Raise a TypeError or a ValueError unless ``test_share`` is a number in (0, 1)."""
    why = "; it is the share of the instances that a split tests on, 0.1 for ten folds"
    check_within("test_share", test_share, "(0, 1)", why)


def pairwise_tests(
    values: Values,
    p_value: Callable[[Float[np.ndarray, "blocks"]], float],
    *,
    larger_is_better: bool,
    decimals: int,
    adjust: Callable[[np.ndarray], np.ndarray] | None = None,
) -> PairwiseTests:
    """Test each pair of methods by a function ``p_value``, and adjust the p-values by a function ``adjust``.

    ``p_value`` takes the differences ``[blocks]`` of two methods and returns a p-value. ``adjust`` takes the p-values
    of all pairs ``[tests]`` and returns as many (default: `holm`). Differences below 10^-``decimals`` are ties: 0 for
    the test, and wins of neither method.
    """
    values = _checked_values(values)
    threshold = _tie_threshold(decimals)
    check_bool("larger_is_better", larger_is_better)
    # [blocks, methods, methods]: by how much the method of the second axis is better than that of the third.
    gains = values[:, :, None] - values[:, None, :] if larger_is_better else values[:, None, :] - values[:, :, None]
    gains = np.where(np.abs(gains) < threshold, 0.0, gains)
    p_values = np.ones(gains.shape[1:])
    first, second = np.triu_indices_from(p_values, k=1)
    family = np.array([p_value(gains[:, i, j]) for i, j in zip(first, second, strict=True)])
    p_values[first, second] = p_values[second, first] = (adjust or holm)(family)
    return PairwiseTests(p_values, np.sum(gains > 0, axis=0))


def holm(p_values: PValues) -> Float[np.ndarray, "tests"]:
    r"""Holm's step-down adjustment of p-values, so that the probability of any false alarm stays below alpha.

    With the m p-values in increasing order, :math:`p_{(1)} \le p_{(2)} \le \dots`:

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})

    They are returned in the order of the argument. They are never above Bonferroni's, and like these need no
    assumptions. Equal p-values stay equal. An empty array gives an empty one.

    References
    ----------
    Holm 1979; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(holm(np.array([0.01, 0.04, 0.03])))
    [0.03 0.06 0.06]
    """
    p_values = _checked_p_values(p_values)
    order = np.argsort(p_values, kind="stable")
    products = p_values[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1.0)
    return adjusted


def _checked_p_values(p_values):
    """Return p-values ``[tests]`` in float64; raise a ValueError unless they have one axis and lie in [0, 1]."""
    p_values = _checked_numbers(p_values, name="p_values")
    if p_values.ndim != 1:
        raise ValueError(f"p_values has shape {p_values.shape}; expected [tests], each test of the family once.")
    if not np.all((p_values >= 0) & (p_values <= 1)):
        raise ValueError(f"p_values={p_values.tolist()} must lie in [0, 1]; leave out tests that have no p-value.")
    return p_values


def _checked_values(values, *, least: int = 2) -> Float[np.ndarray, "blocks methods"]:
    """Return ``values [blocks methods]`` in float64.

    Raises a ValueError if some are not finite, or there are fewer than ``least`` blocks or methods; a TypeError unless
    they are numbers.
    """
    values = _checked_numbers(values, name="values")
    if values.ndim != 2 or min(values.shape) < least:
        word = "two" if least > 1 else "one"
        hint = " One method has nothing to be compared with, and one block shows no spread." if least > 1 else ""
        raise ValueError(
            f"values has shape {values.shape}; expected [blocks methods], a row per data set or split and a column per "
            f"method, {word} or more of each.{hint}"
        )
    if len(off := np.argwhere(~np.isfinite(values))):
        block, method = off[0].tolist()
        raise ValueError(
            f"values holds {values[block, method]} at block {block}, method {method} ({len(off)} such in all); every "
            "method needs a finite value on every block. Leave out the blocks, or the methods, that lack values."
        )
    return values


def _checked_numbers(values, *, name: str) -> Float[np.ndarray, "..."]:
    """Return values in float64; raise a TypeError, which calls them ``name``, unless they are integers or floats."""
    check_readable(name, values)
    values = np.asarray(values)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {values.dtype}; expected numbers. Turn other entries into floats first.")
    return values.astype(np.float64)


def _tie_threshold(decimals: int) -> float:
    """Return the least difference that is no tie, 10^-``decimals``; raises a TypeError unless these are an integer."""
    check_integer("decimals", decimals)
    return 10.0**-decimals


def tie_groups(values: Float[np.ndarray, "*blocks items"], threshold: float) -> Int[np.ndarray, "*blocks items"]:
    """Return for each value the number of its group of ties, 0, 1, … by increasing value along the last axis.

    Values that are neighbours in order and closer than ``threshold`` share a group. Rounding instead would separate
    equal values that noise puts on two sides of a boundary, as it does with k/1024 at 9 decimals.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    # The -inf before the first value makes it start a group.
    starts_group = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1, prepend=-np.inf) >= threshold
    groups = np.empty(values.shape, int)
    np.put_along_axis(groups, order, np.cumsum(starts_group, axis=-1) - 1, axis=-1)
    return groups

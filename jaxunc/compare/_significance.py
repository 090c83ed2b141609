"""Differences beyond chance: ranks of methods, tests of all of them or of each pair, corrections of many p-values.

Over data sets, which are independent: Friedman's test, then Nemenyi's difference or Wilcoxon's test of each pair. Over
the splits of one data set, which share training data: the corrected t-test.

Arguments that all share: ``values``, a table with a row per block (a data set or a split) and a column per method, two
or more of each; ``larger_is_better``, True for accuracies and areas, False for losses, errors and times; ``decimals``:
differences below 10^-decimals are ties. ValueErrors refuse shapes, NaN, infinite values and options outside of their
range, TypeErrors what is no number.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.stats
from jaxtyping import Array, Bool, Float, Int, Real

from jaxunc._checks import check_bool, check_integer, check_one_of, check_within

Values: TypeAlias = Real[Array | np.ndarray, "blocks methods"]
"""Table of one value per block (a data set or a split) and method."""
PValues: TypeAlias = Real[Array | np.ndarray, "tests"]
"""A p-value per test."""
Correction: TypeAlias = Literal["holm", "bonferroni", "none"]
"""Adjustment of the p-values of many tests, by its name."""


class PairwiseTests(NamedTuple):
    """The result of a test of every pair of methods."""

    p_values: Float[np.ndarray, "methods methods"]
    """Adjusted p-values, symmetric; 1 on the diagonal."""
    wins: Int[np.ndarray, "methods methods"]
    """Number of blocks on which the row's method is strictly better than the column's."""


class CorrectedT(NamedTuple):
    """A two-sided t-test: its statistic and its p-value."""

    statistic: Float[np.ndarray, "..."]
    p_value: Float[np.ndarray, "..."]


class Friedman(NamedTuple):
    """Friedman's chi-square and the F of Iman and Davenport, each with its p-value."""

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


def ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "blocks methods"]:
    r"""Rank of each method on each block: 1 for the best, the mean of their ranks for methods that tie.

    .. math:: r_{bj} = 1 + \#\{i: i \text{ better than } j\} + \tfrac12 \#\{i \ne j: i \text{ ties with } j\}

    Multiples of 1/2 in [1, methods]; each row adds to methods · (methods + 1) / 2. One block or one method will do. The
    difference is that of neighbours in order: of three values, each close to the next, all tie. For values printed with
    d decimals keep ``decimals`` above d. Cost O(b k log k). Reference: Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [[1.  2.5 2.5]
     [2.  3.  1. ]]
    """
    values = _checked_values(values, least=1)
    check_bool("larger_is_better", larger_is_better)
    groups = _tie_groups(-values if larger_is_better else values, _tie_threshold(decimals))
    return scipy.stats.rankdata(groups, axis=-1).astype(float)


def average_ranks(values: Values, *, larger_is_better: bool, decimals: int = 9) -> Float[np.ndarray, "methods"]:
    """Mean over the blocks of `ranks`: the axis of a critical-difference diagram.

    Each is in [1, methods], smaller is better. An average rank depends on which other methods are compared.

    Examples
    --------
    >>> import numpy as np
    >>> print(average_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.9]]), larger_is_better=True))
    [1.5  2.75 1.75]
    """
    return ranks(values, larger_is_better=larger_is_better, decimals=decimals).mean(axis=0)


def friedman(values: Values, *, decimals: int = 9) -> Friedman:
    r"""Test of the hypothesis that all methods are equally good, by their ranks on N blocks.

    With :math:`r_{bj}` the ranks of k methods, :math:`R_j` their sums, and the mean rank (k + 1)/2:

    .. math:: A = \sum_j \Big(R_j - \tfrac{N (k + 1)}{2}\Big)^2, \qquad
              B = \sum_{bj} \Big(r_{bj} - \tfrac{k + 1}{2}\Big)^2

    .. math:: \chi^2 = \frac{(k - 1) A}{B}, \qquad F = \frac{(N - 1) \chi^2}{N (k - 1) - \chi^2}

    with k - 1 degrees of freedom, and for F with k - 1 and (k - 1)(N - 1). The chi-square is corrected for ties:
    without ties B = N k (k² - 1) / 12, the printed form of the references. It needs about N > 10 and k > 5; F is the
    better approximation. All methods tie on every block: both statistics are 0, both p-values 1. All blocks agree: F is
    infinite, its p-value 0.

    References
    ----------
    Friedman 1937; Iman and Davenport 1980; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.7, 0.6, 0.5], [0.5, 0.6, 0.4]])
    >>> print(*(f"{number:.4f}" for number in friedman(values)))
    6.5000 0.0388 13.0000 0.0066
    """
    ranked = ranks(_checked_values(values), larger_is_better=True, decimals=decimals)
    n_blocks, k = ranked.shape
    # Sums of quarters of whole numbers, so that the degenerate cases are met exactly.
    of_methods = float(np.sum((ranked.sum(axis=0) - n_blocks * (k + 1) / 2) ** 2))
    of_ranks = float(np.sum((ranked - (k + 1) / 2) ** 2))
    if of_methods == 0:
        return Friedman(0.0, 1.0, 0.0, 1.0)
    statistic, rest = (k - 1) * of_methods / of_ranks, n_blocks * of_ranks - of_methods
    f_statistic = (n_blocks - 1) * of_methods / rest if rest > 0 else np.inf
    f_p_value = scipy.stats.f.sf(f_statistic, k - 1, (k - 1) * (n_blocks - 1))
    return Friedman(statistic, float(scipy.stats.chi2.sf(statistic, k - 1)), f_statistic, float(f_p_value))


def nemenyi_difference(n_methods: int, n_blocks: int, *, alpha: float = 0.05) -> float:
    r"""Critical difference: average ranks farther apart than this differ, all pairs taken together.

    .. math:: CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    for k ≥ 2 methods on N ≥ 2 blocks. Here q is the upper α quantile of the studentised range of k means with
    infinitely many degrees of freedom, divided by √2; it is found by integration and takes milliseconds. α in (0, 1) is
    the probability of finding any difference where there is none. The test is conservative, and more so with many
    methods or ties. `cliques` of ``abs(r_i - r_j) > CD`` are the bars of the diagram.

    References
    ----------
    Nemenyi 1963; Demšar 2006, section 3.2.2 and table 5(a).

    Examples
    --------
    >>> print(f"{nemenyi_difference(4, 14, alpha=0.1):.2f}")
    1.12
    """
    check_integer("n_methods", n_methods, 2, ": there is nothing to compare")
    check_integer("n_blocks", n_blocks, 2, ": there is nothing to compare")
    check_within("alpha", alpha, "(0, 1)", "; it is the probability of a false alarm, 0.05 for one")
    quantile = float(scipy.stats.studentized_range.isf(alpha, n_methods, np.inf))
    return quantile / 2**0.5 * (n_methods * (n_methods + 1) / (6 * n_blocks)) ** 0.5


def cliques(
    order_values: Real[Array | np.ndarray, "methods"],
    different: Bool[Array | np.ndarray, "methods methods"],
) -> list[tuple[int, ...]]:
    """Maximal runs of methods, neighbours in rank, of which no two differ: the bars of a critical-difference diagram.

    ``order_values`` order the methods, smallest first: their average ranks; equal ones keep their positions' order.
    ``different`` says whether each pair differs, symmetric (the diagonal is not read): for Nemenyi's test
    ``abs(r_i - r_j) > CD``, for pairwise tests ``p_values <= alpha``. Returns the positions of each run's methods, best
    first; the runs from best to worst.

    A method that differs from both its neighbours is in no run. Runs may overlap, but none is part of another. Between
    two methods that do not differ there may lie one that differs from either (pairwise tests allow that, Nemenyi's test
    does not): those two share no run. Cost O(methods³). Reference: Demšar 2006, section 3.2.4 and figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> average = np.array([3.1, 1.2, 2.0, 2.9])
    >>> cliques(average, np.abs(average[:, None] - average[None, :]) > 1)
    [(1, 2), (2, 3), (3, 0)]
    >>> cliques(average, np.abs(average[:, None] - average[None, :]) > 1.5)
    [(1, 2), (2, 3, 0)]
    """
    order_values, different = _checked_numbers(order_values, name="order_values"), np.asarray(different)
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


_EXACT = 50
"""Largest number of blocks whose distribution is counted out, as SciPy does; beyond it the normal one is taken."""


def pairwise_wilcoxon(
    values: Values,
    *,
    larger_is_better: bool,
    correction: Correction = "holm",
    decimals: int = 9,
) -> PairwiseTests:
    r"""Two-sided signed-rank tests of all pairs of methods over data sets.

    With :math:`d_b` the difference of two methods on block b and :math:`r_b` the rank of :math:`|d_b|`:

    .. math:: p = \min\!\big(1,\ 2 P(T \le \min(R_+, R_-))\big), \qquad
              R_\pm = \sum_{b: \pm d_b > 0} r_b, \qquad T = \sum_{b: d_b \ne 0} r_b\, \epsilon_b

    where each ε is 0 or 1 with probability one half. The p-values are then adjusted for the number of pairs. Only the
    wins depend on ``larger_is_better``.

    Zero differences are ranked with the others and then favour neither method (Pratt). Splitting their ranks evenly, as
    Demšar does, is the same test when p-values are exact. Two methods that tie on all blocks: p = 1. Up to 50 blocks
    p-values are exact, ties and zeros included; beyond, they are SciPy's normal approximation. The least possible
    p-value is 2^(1 - N): with fewer than 6 blocks nothing is significant at 0.05.

    References
    ----------
    Wilcoxon 1945; Pratt 1959; Demšar 2006, section 3.1.3; Benavoli, Corani and Mangili 2016 (pairwise signed ranks
    rather than average ranks, because those depend on the other methods).

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.9, 0.8], [0.8, 0.75], [0.7, 0.68], [0.6, 0.63], [0.95, 0.8], [0.5, 0.3]])
    >>> tests = pairwise_wilcoxon(values, larger_is_better=True)
    >>> print(tests.p_values[0, 1], tests.wins.tolist())
    0.09375 [[0, 5], [1, 0]]
    """
    threshold = _tie_threshold(decimals)
    return _pairwise(
        _checked_values(values),
        partial(_p_value, threshold=threshold),
        threshold=threshold,
        larger_is_better=larger_is_better,
        correction=correction,
    )


def _p_value(differences, threshold):
    # Whole numbers in the order of the sizes, 0 where there is no difference: they have the same ranks without noise.
    sizes = _tie_groups(np.concatenate([[0.0], np.abs(differences)]), threshold)[1:]
    signed = np.sign(differences) * sizes
    if not np.any(signed):
        return 1.0
    if len(signed) > _EXACT:
        _, p_value = scipy.stats.wilcoxon(signed, zero_method="pratt")
        return float(np.asarray(p_value))
    return _exact_p_value(signed)


def _exact_p_value(signed):
    # Doubled ranks are integers, ties included; their sums are counted out by adding one rank at a time.
    twice = np.rint(2 * scipy.stats.rankdata(np.abs(signed))).astype(int)
    smaller = min(int(twice[signed > 0].sum()), int(twice[signed < 0].sum()))
    chance = np.zeros(smaller + 1)  # of each sum of ranks, as far as it is asked for
    chance[0] = 1.0
    for step in twice[signed != 0]:
        chance[step:] += chance[:-step]
        chance /= 2
    return min(1.0, 2 * float(chance.sum()))


def corrected_t_test(differences: Real[Array | np.ndarray, "... splits"], *, test_share: float) -> CorrectedT:
    r"""Nadeau and Bengio's t-test of two methods that were compared on splits of one data set.

    With d̄ and s² the mean and the variance (with n - 1) of the differences on n ≥ 2 splits, those of repeated
    cross-validations in a row, and τ in (0, 1) the share of instances that each split tests on (0.1 for ten folds):

    .. math:: t = \frac{\bar d}{\sqrt{\big(\frac1n + \frac{\tau}{1 - \tau}\big)\, s^2}}

    with n - 1 degrees of freedom. The second term makes up for the overlap of the training sets. More repetitions do
    not make the variance vanish: that of the data stays. All differences 0: t = 0, p = 1. All equal, but not 0: t = ±∞,
    p = 0.

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
    """`corrected_t_test` of all pairs of methods on splits of one data set, p-values adjusted for the number of pairs.

    Only the wins depend on ``larger_is_better``. Two methods that tie on all splits: p = 1; that differ by the same
    number on all: p = 0.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.92, 0.9], [0.91, 0.9], [0.93, 0.9], [0.92, 0.9], [0.9, 0.9]])
    >>> tests = pairwise_corrected_t(values, larger_is_better=True, test_share=0.2)
    >>> print(f"{tests.p_values[0, 1]:.4f}", tests.wins.tolist())
    0.1046 [[0, 4], [0, 0]]
    """
    _check_share(test_share)
    return _pairwise(
        _checked_values(values),
        lambda differences: float(corrected_t_test(differences, test_share=test_share).p_value),
        threshold=_tie_threshold(decimals),
        larger_is_better=larger_is_better,
        correction=correction,
    )


def _check_share(test_share):
    why = "; it is the share of the instances that a split tests on, 0.1 for ten folds"
    check_within("test_share", test_share, "(0, 1)", why)


def _pairwise(
    values: Float[np.ndarray, "blocks methods"],
    p_value: Callable[[Float[np.ndarray, "blocks"]], float],
    *,
    threshold: float,
    larger_is_better: bool,
    correction: Correction,
) -> PairwiseTests:
    """Apply a test to each pair's differences; those below the threshold are 0, and no win."""
    check_bool("larger_is_better", larger_is_better)
    check_one_of("correction", correction, ("holm", "bonferroni", "none"))
    adjust = {"holm": holm, "bonferroni": bonferroni, "none": np.array}[correction]
    gains = values[:, :, None] - values[:, None, :] if larger_is_better else values[:, None, :] - values[:, :, None]
    gains = np.where(np.abs(gains) < threshold, 0.0, gains)
    p_values = np.ones(gains.shape[1:])
    first, second = np.triu_indices_from(p_values, k=1)
    family = np.array([p_value(gains[:, i, j]) for i, j in zip(first, second, strict=True)])
    p_values[first, second] = p_values[second, first] = adjust(family)
    return PairwiseTests(p_values, np.sum(gains > 0, axis=0))


def holm(p_values: PValues) -> Float[np.ndarray, "tests"]:
    r"""Holm's step-down adjustment of p-values, so that the probability of any false alarm stays below alpha.

    With the m p-values in increasing order, :math:`p_{(1)} \le p_{(2)} \le \dots`:

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})

    They are returned in the order given. Never above `bonferroni`'s, under the same assumptions (none): there is no
    reason to prefer the latter. Equal p-values stay equal. No test: no p-values.

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
    # The smallest is multiplied by the number of tests, the next by one less, …; none may fall below its predecessor.
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def bonferroni(p_values: PValues) -> Float[np.ndarray, "tests"]:
    r"""Bonferroni's adjustment of p-values; `holm` is never worse.

    .. math:: \tilde p_i = \min(1, m p_i)

    References
    ----------
    Dunn 1961; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> print(bonferroni(np.array([0.01, 0.04, 0.5])))
    [0.03 0.12 1.  ]
    """
    p_values = _checked_p_values(p_values)
    return np.minimum(p_values * len(p_values), 1.0)


def _checked_p_values(p_values):
    p_values = _checked_numbers(p_values, name="p_values")
    if p_values.ndim != 1:
        raise ValueError(f"p_values has shape {p_values.shape}; expected [tests], each test of the family once.")
    if not np.all((p_values >= 0) & (p_values <= 1)):
        raise ValueError(f"p_values={p_values.tolist()} must lie in [0, 1]; leave out tests that have no p-value.")
    return p_values


def _checked_values(values, *, least: int = 2) -> Float[np.ndarray, "blocks methods"]:
    """Return the values in float64; an error unless there are enough blocks and methods, and all are finite."""
    values = _checked_numbers(values, name="values")
    if values.ndim != 2 or min(values.shape) < least:
        number, alone = "one", ""
        if least > 1:
            number, alone = "two", " One method has nothing to be compared with, and one block shows no spread."
        raise ValueError(
            f"values has shape {values.shape}; expected [blocks methods], a row per data set or split and a column per "
            f"method, {number} or more of each.{alone}"
        )
    if len(off := np.argwhere(~np.isfinite(values))):
        block, method = off[0].tolist()
        raise ValueError(
            f"values holds {values[block, method]} at block {block}, method {method} ({len(off)} such in all); every "
            "method needs a finite value on every block. Leave out the blocks, or the methods, that lack values."
        )
    return values


def _checked_numbers(values, *, name: str) -> Float[np.ndarray, "..."]:
    """Return the values in float64; a TypeError unless they are numbers."""
    values = np.asarray(values)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {values.dtype}; expected numbers. Turn other entries into floats first.")
    return values.astype(np.float64)


def _tie_threshold(decimals: int) -> float:
    """Return the least difference that counts; raises a TypeError unless ``decimals`` is an integer."""
    check_integer("decimals", decimals)
    return 10.0**-decimals


def _tie_groups(values: Float[np.ndarray, "*blocks items"], threshold: float) -> Int[np.ndarray, "*blocks items"]:
    """Number the groups of ties 0, 1, … in the order of the last axis: neighbours closer than the threshold share one.

    Rounding would part equal values that noise puts on two sides of a boundary, as it does with k/1024 at 9 decimals.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    steps = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1, prepend=-np.inf) >= threshold
    groups = np.empty(values.shape, int)
    np.put_along_axis(groups, order, np.cumsum(steps, axis=-1) - 1, axis=-1)
    return groups

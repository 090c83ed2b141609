"""Methods over many data sets, which are independent: tests of all methods or of each pair, and their diagram.

Arguments that all share are those of `jaxunc.compare.ranks`: ``values`` has a row per data set and a column per method.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Array, Bool, Real

from jaxunc.compare import PairwiseTests, average_ranks, holm, lines_for, pairwise_tests, ranks, tie_groups

Values: TypeAlias = Real[Array | np.ndarray, "blocks methods"]
Correction: TypeAlias = Literal["holm", "bonferroni", "none"]


def friedman(values: Values, *, decimals: int = 9) -> float:
    """The p-value of the hypothesis that all methods, three or more, are equally good, by their ranks; 1 if all tie.

    Friedman's chi-square, corrected for ties; it needs about ten blocks and five methods. References: Friedman 1937;
    Demšar 2006, section 3.2.2.
    """
    ranked = ranks(values, larger_is_better=True, decimals=decimals)
    return float(scipy.stats.friedmanchisquare(*ranked.T).pvalue) if np.ptp(ranked.sum(axis=0)) else 1.0


def nemenyi_difference(n_methods: int, n_blocks: int, *, alpha: float = 0.05) -> float:
    r"""Critical difference: average ranks farther apart than this differ, all pairs taken together.

    .. math:: CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    for k methods on N blocks, two at least. Here q is the upper α quantile of the studentised range of k means with
    infinitely many degrees of freedom, divided by √2. Reference: Demšar 2006, section 3.2.2 and table 5(a).
    """
    quantile = float(scipy.stats.studentized_range.isf(alpha, n_methods, np.inf))
    return quantile / 2**0.5 * (n_methods * (n_methods + 1) / (6 * n_blocks)) ** 0.5


def cliques(
    order_values: Real[Array | np.ndarray, "methods"], different: Bool[Array | np.ndarray, "methods methods"]
) -> list[tuple[int, ...]]:
    """Maximal runs of methods, neighbours in rank, of which no two differ: the bars of a critical-difference diagram.

    ``order_values`` order the methods, smallest first: their average ranks. ``different`` says whether each pair
    differs (the diagonal is not read). Returns the positions of each run's methods, the best ones first. Runs may
    overlap, but none is part of another. Reference: Demšar 2006, section 3.2.4 and figure 1.
    """
    n_methods = len(order_values)
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


def pairwise_wilcoxon(
    values: Values, *, larger_is_better: bool, correction: Correction = "holm", decimals: int = 9
) -> PairwiseTests:
    r"""Two-sided signed-rank tests of all pairs of methods over data sets.

    With :math:`d_b` the difference of two methods on block b and :math:`r_b` the rank of :math:`|d_b|`:

    .. math:: p = \min\!\big(1,\ 2 P(T \le \min(R_+, R_-))\big), \qquad
              R_\pm = \sum_{b: \pm d_b > 0} r_b, \qquad T = \sum_{b: d_b \ne 0} r_b\, \epsilon_b

    where each ε is 0 or 1 with probability one half. The p-values are then adjusted for the number of pairs. Zero
    differences are ranked with the others and then favour neither method (Pratt 1959), which is Demšar's test (2006,
    section 3.1.3). Up to 50 blocks p-values are exact, ties and zeros included; beyond, they are SciPy's normal
    approximation. The least possible p-value is 2^(1 - N): with fewer than 6 blocks nothing is significant at 0.05.
    """
    return pairwise_tests(
        values,
        partial(_p_value, threshold=10.0**-decimals),
        larger_is_better=larger_is_better,
        decimals=decimals,
        adjust={"holm": holm, "bonferroni": lambda p: np.minimum(len(p) * p, 1), "none": np.array}[correction],
    )


class Duel(NamedTuple):
    """One method against another on the sets that both have: how many it wins and loses, and Wilcoxon's p-value."""

    won: int
    lost: int
    gain: float
    """In the median."""
    p: float
    n: int
    """How many sets both have."""


def duel(
    frame: pd.DataFrame,
    first: str,
    second: str,
    measure: str,
    *,
    larger: bool,
    relative: bool = False,
    decimals: int | None = 9,
    by: str = "set",
) -> Duel:
    """Compare means by set of rows that name their ``method``.

    Gains are ``relative`` to the second, or differences; these are rounded, so that noise is a tie, but for None.
    """
    values = frame.pivot_table(index=by, columns="method", values=measure)[[first, second]].dropna().to_numpy()
    own, other = values.T
    gains = own - other if larger else other - own
    gains = gains if decimals is None else np.round(gains, decimals)
    with np.errstate(invalid="ignore"):  # no loss at all on either side is no gain
        told = np.nan_to_num(gains / other) if relative else gains
    p = pairwise_wilcoxon(values, larger_is_better=larger).p_values[0, 1]
    return Duel(int((gains > 0).sum()), int((gains < 0).sum()), float(np.median(told)), float(p), len(values))


def against(values: pd.DataFrame, other: str | pd.DataFrame, *, larger: bool = True) -> pd.DataFrame:
    """Each column of ``values [sets rules]`` against one of them, or that of another table: won, lost, gain, p.

    The median gain, and p after Holm's correction for all columns. A column that is named is itself left out.
    """
    rows, is_named = {}, isinstance(other, str)
    for name in values.columns.drop(other) if is_named else values.columns:
        pair = np.column_stack([values[name], values[other] if is_named else other[name]]).round(6)
        gains = (pair[:, 0] - pair[:, 1]) * (1 if larger else -1)
        won, lost = (int((np.round(side * gains, 6) > 0).sum()) for side in (1, -1))
        p = pairwise_wilcoxon(pair, larger_is_better=larger).p_values[0, 1] if won or lost else 1.0
        rows[name] = won, lost, float(np.median(gains)), float(p)
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["won", "lost", "gain", "p"])
    return found.assign(p=holm(found["p"].to_numpy()))


def _p_value(differences, threshold):
    # Whole numbers in the order of the sizes, 0 where there is no difference: they have the same ranks without noise.
    sizes = tie_groups(np.concatenate([[0.0], np.abs(differences)]), threshold)[1:]
    signed = np.sign(differences) * sizes
    if not np.any(signed):
        return 1.0
    if len(signed) > 50:  # SciPy, too, counts out no more
        return float(scipy.stats.wilcoxon(signed, zero_method="pratt").pvalue)
    # Doubled ranks are integers, ties included; their sums are counted out by adding one rank at a time.
    twice = np.rint(2 * scipy.stats.rankdata(np.abs(signed))).astype(int)
    smaller = min(int(twice[signed > 0].sum()), int(twice[signed < 0].sum()))
    chance = np.zeros(smaller + 1)  # of each sum of ranks, as far as it is asked for
    chance[0] = 1.0
    for step in twice[signed != 0]:
        chance[step:] += chance[:-step]
        chance /= 2
    return min(1.0, 2 * float(chance.sum()))


BLACK, _, RED = (line.color for line in lines_for(["ranks", "", "bars"]).values())


class Ranking(NamedTuple):
    """Average ranks of methods over sets, 1 is best; Nemenyi's difference; groups of which no two differ by it."""

    ranks: np.ndarray
    difference: float
    groups: list[tuple[int, ...]]


def ranking(values: Values, *, larger_is_better: bool) -> Ranking:
    """Rank methods, and test all pairs of them by Nemenyi's test at .05."""
    ranks = average_ranks(values, larger_is_better=larger_is_better)
    difference = nemenyi_difference(values.shape[1], values.shape[0])
    return Ranking(ranks, difference, cliques(ranks, np.abs(ranks[:, None] - ranks) > difference))


def draw_ranking(ax: Any, of: Ranking, names: Sequence[str], *, highlight: Sequence[str] = ()) -> None:
    """Critical-difference diagram: average ranks, best on the left; bars join methods of which no two differ.

    ``highlight`` names methods to set in bold. Reference: Demšar 2006, section 3.2.
    """
    n, span = len(names), lambda group: (min(of.ranks[i] for i in group), max(of.ranks[i] for i in group))
    order = np.argsort(of.ranks, kind="stable").tolist()
    bars = sorted(map(span, of.groups))
    above = 0.9 + 0.55 * len(bars)
    # The better half is named on one side, the worse on the other, as in Demšar's diagrams.
    left, right = order[: (n + 1) // 2], order[(n + 1) // 2 :]
    for side, members, edge, away in (("right", left, 1 - 0.03 * n, -0.01), ("left", right[::-1], n + 0.03 * n, 0.01)):
        for row, i in enumerate(members):
            rank, height = float(of.ranks[i]), -(above + 0.9 * row)
            ax.plot([rank, rank, edge], [0, height, height], color=BLACK, linewidth=0.8)
            text = f"{names[i]}  {rank:.1f}" if side == "right" else f"{rank:.1f}  {names[i]}"
            weight = "bold" if names[i] in highlight else "normal"
            ax.text(edge + away * n, height, text, ha=side, va="center", fontweight=weight)
    for row, (low, high) in enumerate(bars):
        height = -(0.55 + 0.55 * row)
        ax.plot([low - 0.06, high + 0.06], [height, height], color=RED, linewidth=3, solid_capstyle="round")
    ax.set(xlim=(1 - 0.42 * n, n + 0.42 * n), ylim=(-(above + 0.9 * len(left)) - 0.3, 3.1))
    # The scale of ranks on top and the critical difference above it, and nothing else.
    ax.plot([1, n], [0, 0], color=BLACK, linewidth=1.2)
    for tick in range(1, n + 1):
        labelled = n <= 12 or tick in (1, n) or tick % 5 == 0
        ax.plot([tick, tick], [0, 0.25 if labelled else 0.15], color=BLACK, linewidth=0.8)
        if labelled:
            ax.text(tick, 0.4, str(tick), ha="center", va="bottom")
    ax.plot([1, 1 + of.difference], [1.9, 1.9], color=RED, linewidth=2)
    ax.text(1 + of.difference / 2, 2.05, f"critical difference {of.difference:.2f}", ha="center")
    ax.axis("off")

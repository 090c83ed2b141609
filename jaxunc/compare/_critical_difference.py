"""Critical-difference diagram: average ranks, and bars over those that no test tells apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._cliques import cliques
from ._nemenyi import nemenyi_difference
from ._ranks import average_ranks
from ._style import PALETTE, axes_of


class CriticalDifferenceDisplay:
    """Average ranks on an axis, best on the left; bars join methods of which no two differ.

    Parameters
    ----------
    names
        The methods.
    ranks
        Their average ranks, 1 is best.
    groups
        Groups of positions in ``names`` that a bar joins: see `jaxunc.compare.cliques`.
    critical_difference
        The difference of ranks that is significant, drawn as a scale, if one holds for all pairs.

    Attributes
    ----------
    ax_, figure_
        The drawn parts (after `plot`).

    Raises
    ------
    ValueError
        If names and ranks differ in length.

    References
    ----------
    Demšar 2006, section 3.2.
    """

    def __init__(
        self,
        names: Any,
        ranks: Sequence[float],
        groups: Sequence[Sequence[int]] = (),
        critical_difference: float | None = None,
    ):
        if len(names) != len(ranks):
            raise ValueError(
                f"names and ranks differ in length: {len(names)} and {len(ranks)}; pass a name for each rank."
            )
        self.names, self.ranks = list(names), [float(rank) for rank in ranks]
        self.groups, self.critical_difference = [list(group) for group in groups], critical_difference

    @classmethod
    def from_values(
        cls,
        values: Any,
        names: Any,
        *,
        larger_is_better: bool,
        alpha: float = 0.05,
        ax: Any = None,
        **kwargs: Any,
    ) -> "CriticalDifferenceDisplay":
        """Make and plot a diagram from values ``[data sets, methods]``: ranks, and Nemenyi's test at ``alpha``."""
        values = np.asarray(values)
        ranks = average_ranks(values, larger_is_better=larger_is_better)
        difference = nemenyi_difference(values.shape[1], values.shape[0], alpha=alpha)
        groups = cliques(ranks, np.abs(ranks[:, None] - ranks) > difference)
        return cls([str(name) for name in names], ranks.tolist(), groups, difference).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, highlight: Sequence[str] = ()) -> "CriticalDifferenceDisplay":
        """Draw the diagram; ``highlight`` names methods to set in bold."""
        ax = axes_of(ax)
        n = len(self.names)
        order = np.argsort(self.ranks, kind="stable").tolist()
        # The better half is named on one side, the worse on the other, as in Demšar's diagrams.
        left, right = order[: (n + 1) // 2], order[(n + 1) // 2 :]
        bars = sorted((group for group in self.groups if len(group) > 1), key=lambda group: self._span(group))
        above = 0.9 + 0.55 * len(bars)
        for side, members in (("right", left), ("left", right[::-1])):
            edge = 1 - 0.03 * n if side == "right" else n + 0.03 * n
            for row, i in enumerate(members):
                self._label(ax, i, edge, -(above + 0.9 * row), side, self.names[i] in highlight)
        for row, group in enumerate(bars):
            low, high = self._span(group)
            height = -(0.55 + 0.55 * row)
            ax.plot([low - 0.06, high + 0.06], [height, height], color=PALETTE[2], linewidth=3, solid_capstyle="round")
        self._axis(ax, n, above + 0.9 * len(left))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _span(self, group: Sequence[int]) -> tuple[float, float]:
        ranks = [self.ranks[i] for i in group]
        return min(ranks), max(ranks)

    def _label(self, ax, i: int, edge: float, height: float, side: str, bold: bool) -> None:
        rank = self.ranks[i]
        ax.plot([rank, rank, edge], [0, height, height], color=PALETTE[0], linewidth=0.8)
        text = f"{self.names[i]}  {rank:.1f}" if side == "right" else f"{rank:.1f}  {self.names[i]}"
        away = -0.01 if side == "right" else 0.01
        ax.text(
            edge + away * len(self.names),
            height,
            text,
            ha=side,
            va="center",
            fontweight="bold" if bold else "normal",
        )

    def _axis(self, ax, n: int, depth: float) -> None:
        """Draw the scale of ranks on top, and nothing else."""
        ax.plot([1, n], [0, 0], color=PALETTE[0], linewidth=1.2)
        for tick in range(1, n + 1):
            labelled = n <= 12 or tick in (1, n) or tick % 5 == 0
            ax.plot([tick, tick], [0, 0.25 if labelled else 0.15], color=PALETTE[0], linewidth=0.8)
            if labelled:
                ax.text(tick, 0.4, str(tick), ha="center", va="bottom")
        top = 1.3
        if self.critical_difference is not None:
            top = 2.6
            end = 1 + self.critical_difference
            ax.plot([1, end], [1.9, 1.9], color=PALETTE[2], linewidth=2)
            ax.text((1 + end) / 2, 2.05, f"critical difference {self.critical_difference:.2f}", ha="center")
        ax.set(xlim=(1 - 0.42 * n, n + 0.42 * n), ylim=(-depth - 0.3, top + 0.5))
        ax.axis("off")

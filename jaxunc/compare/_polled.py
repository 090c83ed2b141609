"""Display of how many trees were polled until votes were settled."""

from typing import Any

import numpy as np

from ._style import GREY, PALETTE, axes_of, plain


class PolledDisplay:
    """Bars: the share of instances whose vote was settled by each number of trees; the unsettled apart.

    Parameters
    ----------
    settled
        The number of instances settled after 1, 2, … trees (a histogram of `jaxunc.voting.stop_after`'s ``n_polled``
        over the settled ones).
    n_unsettled
        The number of those that no tree settled: a grey bar beyond the last tree.

    Attributes
    ----------
    ax_, figure_, bars_, mean_
        The drawn parts (after `plot`): the bars, the grey one last if there is any, and the line at the mean of the
        settled, or None.

    Raises
    ------
    ValueError
        If the counts are not one per number of trees, one is negative, or there is no instance at all.
    """

    def __init__(self, settled: Any, n_unsettled: int = 0):
        self.settled, self.n_unsettled = np.asarray(settled), n_unsettled
        if self.settled.ndim != 1 or self.settled.min(initial=0) < 0 or n_unsettled < 0:
            raise ValueError("settled must hold a number of instances, >= 0, for each number of trees polled.")
        if self.settled.sum() + n_unsettled == 0:
            raise ValueError("there is no instance, settled or not: nothing to draw.")

    @classmethod
    def from_values(cls, settled: Any, n_unsettled: int = 0, *, ax: Any = None, **kwargs: Any) -> "PolledDisplay":
        """Make and plot a display from the number of instances settled after each number of trees."""
        return cls(settled, n_unsettled).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, color: str = PALETTE[1], mean: bool = True) -> "PolledDisplay":
        """Draw the bars, and with ``mean`` a line at the mean number of trees of the settled."""
        ax = axes_of(ax)
        n_trees, n_settled = len(self.settled), self.settled.sum()
        everyone = n_settled + self.n_unsettled
        trees = np.arange(1, n_trees + 1)
        self.bars_ = list(ax.bar(trees, self.settled / everyone, width=1.0, color=color))
        if self.n_unsettled:
            beyond = ax.bar(
                [1.06 * n_trees], [self.n_unsettled / everyone], width=0.04 * n_trees, color=GREY, label="unsettled"
            )
            self.bars_ += list(beyond)
            ax.legend(frameon=False)
        self.mean_ = None
        if mean and n_settled:
            at = float((trees * self.settled).sum() / n_settled)
            self.mean_ = ax.axvline(at, color=PALETTE[2], linestyle="--", linewidth=1.2)
        plain(ax)
        ax.set(xlabel="trees polled", ylabel="share of instances")
        self.ax_, self.figure_ = ax, ax.figure
        return self

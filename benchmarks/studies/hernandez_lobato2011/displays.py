"""Displays of votes that stop when they are settled: their paths, and how many trees they need."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm, Normalize

from jaxunc.compare import GREY, PALETTE, lines_for, plain
from jaxunc.explanations import axes_of


class VotePathsDisplay:
    """Share of a class's votes as tree after tree is used, and the critical share at which the vote is settled.

    Parameters
    ----------
    paths
        {name: the share of the votes for the class after 1, 2, … trees}.
    critical
        The least share that settles the vote after 1, 2, … trees, NaN where none does: of
        `jaxunc.voting.critical_votes`, without its first entry, divided by the number of trees.
    settled_after
        {name: the number of trees after which the vote was settled}; names that are absent were not. A dot marks it.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, figure 3.
    """

    def __init__(
        self,
        paths: Mapping[str, Any],
        critical: Any,
        settled_after: Mapping[str, int] | None = None,
    ):
        self.paths = {name: np.asarray(path, float) for name, path in paths.items()}
        self.critical, self.settled_after = np.asarray(critical, float), dict(settled_after or {})

    def plot(self, ax: Any = None, *, rival: bool = True) -> "VotePathsDisplay":
        """Draw the walks and the curve; with ``rival`` its mirror image too, where the other of two classes wins."""
        ax = axes_of(ax)
        trees = np.arange(1, len(self.critical) + 1)
        self.lines_, self.dots_, self.critical_ = {}, {}, []
        for curve in [self.critical, 1 - self.critical] if rival else [self.critical]:
            label = None if self.critical_ else "settled"
            self.critical_ += ax.plot(trees, curve, color=PALETTE[0], linewidth=1.6, label=label, zorder=3)
        looks = lines_for(["settled", *self.paths])
        for name, path in self.paths.items():
            look = looks[name]
            (self.lines_[name],) = ax.plot(
                trees[: len(path)], path, color=look.color, linestyle=look.dashes, linewidth=1.2, label=name, zorder=2
            )
            if (at := self.settled_after.get(name)) is not None:
                (self.dots_[name],) = ax.plot([at], [path[at - 1]], "o", color=look.color, markersize=6, zorder=4)
        plain(ax)
        ax.set(xlabel="trees polled", ylabel="share of votes", xlim=(0, len(self.critical)), ylim=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self


class PolledDisplay:
    """Bars: the share of instances whose vote was settled by each number of trees; the unsettled apart.

    Parameters
    ----------
    settled
        The number of instances settled after 1, 2, … trees (a histogram of a stopped vote's ``n_trees_used``
        over the settled ones).
    n_unsettled
        The number of those that no tree settled: a grey bar beyond the last tree.
    """

    def __init__(self, settled: Any, n_unsettled: int = 0):
        self.settled, self.n_unsettled = np.asarray(settled), n_unsettled

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


class SettledDisplay:
    """Share of instances whose vote is settled before all trees are used, against the confidence that is asked for.

    Parameters
    ----------
    confidences
        The confidences, increasing.
    shares
        {name: the share that is settled, for each confidence}.
    marked
        A confidence to mark by a dotted line, if any.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, figure 6.
    """

    def __init__(self, confidences: Any, shares: Mapping[str, Any], *, marked: float | None = None):
        self.confidences = [float(confidence) for confidence in confidences]
        self.shares = {name: [float(v) for v in line] for name, line in shares.items()}
        self.marked = marked

    def plot(self, ax: Any = None) -> "SettledDisplay":
        """Draw a line for each name."""
        ax = axes_of(ax)
        self.lines_ = {}
        for name, look in lines_for(list(self.shares)).items():
            (self.lines_[name],) = ax.plot(
                self.confidences, self.shares[name], label=name, linewidth=1.6, zorder=3, **look.keywords()
            )
        self.mark_ = None
        if self.marked is not None:
            self.mark_ = ax.axvline(self.marked, color="#777777", linestyle=":", linewidth=1.2)
        plain(ax)
        ax.set(xlabel="confidence", ylabel="share of instances settled", ylim=(0, 1.02))
        self.ax_, self.figure_ = ax, ax.figure
        return self


class TreesNeededDisplay:
    """Map of the number of trees used until the vote is settled, on a regular grid of two features.

    Parameters
    ----------
    horizontal, vertical
        The values of the two features, evenly spaced and increasing.
    values
        ``[vertical horizontal]``: trees used, or their mean; NaN where no vote was settled.
    measure
        Name of what the colours show.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, figure 4.
    """

    def __init__(self, horizontal: Any, vertical: Any, values: Any, *, measure: str = "trees polled"):
        self.horizontal, self.vertical = np.asarray(horizontal, float), np.asarray(vertical, float)
        self.values, self.measure = np.asarray(values, float), measure

    def plot(
        self, ax: Any = None, *, cmap: str = "cividis_r", logarithmic: bool = True, colorbar: bool = True
    ) -> "TreesNeededDisplay":
        """Draw the map, more trees the darker; grey where there is no value. ``logarithmic`` is about the colours."""
        ax = axes_of(ax)
        steps = [axis[1] - axis[0] for axis in (self.horizontal, self.vertical)]
        sides = [
            end + sign * step / 2
            for axis, step in zip((self.horizontal, self.vertical), steps, strict=True)
            for end, sign in ((axis[0], -1), (axis[-1], 1))
        ]
        colours = matplotlib.colormaps[cmap].with_extremes(bad=GREY)
        self.image_ = ax.imshow(
            np.ma.masked_invalid(self.values),
            origin="lower",
            extent=tuple(sides),
            cmap=colours,
            norm=LogNorm() if logarithmic else Normalize(),
            interpolation="nearest",
            aspect="auto",
        )
        self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax) if colorbar else None
        if self.colorbar_ is not None:
            self.colorbar_.set_label(self.measure)
        self.ax_, self.figure_ = ax, ax.figure
        return self

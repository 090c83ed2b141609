"""Votes as random walks, and the line where they are settled."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._style import PALETTE, axes_of, lines_for, plain


class VotePathsDisplay:
    """Share of a class's votes as tree after tree is polled, and the critical share at which the vote is settled.

    Parameters
    ----------
    paths
        {name: the share of the votes for the class after 1, 2, … trees}.
    critical
        The least share that settles the vote after 1, 2, … trees, NaN where none does: of
        `jaxunc.voting.critical_votes`, without its first entry, divided by the number of trees.
    settled_after
        {name: the number of trees after which the vote was settled}; names that are absent were not. A dot marks it.

    Attributes
    ----------
    ax_, figure_, lines_, critical_, dots_
        The drawn parts (after `plot`).

    Raises
    ------
    ValueError
        If a path is longer than the critical curve, or a vote is settled beyond the end of its path.

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
        for name, path in self.paths.items():
            if len(path) > len(self.critical):
                raise ValueError(
                    f"{name} has {len(path)} trees, the critical curve {len(self.critical)}; cut the path or draw more "
                    "of the curve."
                )
            if not 1 <= self.settled_after.get(name, 1) <= len(path):
                raise ValueError(f"{name} is settled after {self.settled_after[name]} trees, but has {len(path)}.")

    @classmethod
    def from_values(
        cls,
        paths: Mapping[str, Any],
        critical: Any,
        *,
        settled_after: Mapping[str, int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "VotePathsDisplay":
        """Make and plot a display from the shares of votes of each path and the critical share, after each tree."""
        return cls(paths, critical, settled_after).plot(ax, **kwargs)

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

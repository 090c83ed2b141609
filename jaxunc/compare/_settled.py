"""Display of how many votes are settled, against the confidence that is asked for."""

from collections.abc import Mapping
from typing import Any

from ._style import axes_of, lines_for, plain


class SettledDisplay:
    """Share of instances whose vote is settled before all trees are polled, against the confidence.

    Parameters
    ----------
    confidences
        The confidences, increasing.
    shares
        {name: the share that is settled, for each confidence}.
    marked
        A confidence to mark by a dotted line, if any.

    Attributes
    ----------
    ax_, figure_, lines_, mark_
        The drawn parts (after `plot`); ``mark_`` is None without a mark.

    Raises
    ------
    ValueError
        If there is no share for each confidence.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, figure 6.
    """

    def __init__(self, confidences: Any, shares: Mapping[str, Any], *, marked: float | None = None):
        self.confidences = [float(confidence) for confidence in confidences]
        self.shares = {name: [float(v) for v in line] for name, line in shares.items()}
        self.marked = marked
        for name, line in self.shares.items():
            if len(line) != len(self.confidences):
                raise ValueError(
                    f"{name} has {len(line)} shares; expected one for each of {len(self.confidences)} confidences."
                )

    @classmethod
    def from_values(
        cls, confidences: Any, shares: Mapping[str, Any], *, marked: float | None = None, ax: Any = None
    ) -> "SettledDisplay":
        """Make and plot a display from a share for each confidence, under each name."""
        return cls(confidences, shares, marked=marked).plot(ax)

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

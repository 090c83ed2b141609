"""Style of lines, told apart also without colours, and of axes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

PALETTE = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9")
"""Colours of Okabe and Ito (yellow darkened to be seen on white), told apart with all common forms of colour vision."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 2)))
GREY = "#B8B8B8"


class Line(NamedTuple):
    """The look of one line."""

    color: str
    marker: str | None
    dashes: Any

    def keywords(self) -> dict[str, Any]:
        """Keywords as `matplotlib.axes.Axes.plot` takes them."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.dashes, "markersize": 4}


FAINT = Line(GREY, None, "-")
"""Look of lines in the background."""


def lines_for(names: Sequence[str]) -> dict[str, Line]:
    """Return a look for each of up to seven names; further names are faint."""
    looks = [Line(*parts) for parts in zip(PALETTE, _MARKERS, _DASHES, strict=True)]
    return {name: looks[i] if i < len(looks) else FAINT for i, name in enumerate(names)}


def axes_of(ax):
    """Return the axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(layout="constrained")[1]


def plain(ax) -> None:
    """Strip axes of their frame, and draw faint lines behind."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)

"""Display of a metric that is known as an interval, against the complexity of trees."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._style import PALETTE, axes_of, lines_for, plain


class ComplexityDisplay:
    """Lines of a metric over trees of decreasing complexity, and the range of the metric behind them.

    Parameters
    ----------
    trees
        Names of the trees on the axis, from the largest to the smallest.
    values
        {name: a value for each tree}.
    lower, upper
        The ends of the metric's range for each tree.
    measure
        Name of the values on the axis.
    axis
        Name of the axis of the trees.

    Attributes
    ----------
    ax_, figure_, lines_, band_
        The drawn parts (after `plot`).
    """

    def __init__(
        self,
        trees: Sequence[str],
        values: Mapping[str, Sequence[float]],
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        measure: str,
        axis: str = "trees, the largest on the left (cp)",
    ):
        self.axis = axis
        self.trees, self.values, self.measure = [str(tree) for tree in trees], dict(values), measure
        self.lower, self.upper = [float(v) for v in lower], [float(v) for v in upper]
        if {len(self.lower), len(self.upper), *map(len, self.values.values())} != {len(self.trees)}:
            raise ValueError(f"expected a value and two ends for each of {len(self.trees)} trees.")

    @classmethod
    def from_values(
        cls,
        trees: Sequence[str],
        values: Mapping[str, Sequence[float]],
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        measure: str,
        ax: Any = None,
        **kwargs: Any,
    ) -> "ComplexityDisplay":
        """Make and plot a display from a value of each line and the ends of the range, for each tree."""
        return cls(trees, values, lower, upper, measure=measure, **kwargs).plot(ax)

    def plot(self, ax: Any = None, *, band: str | None = "range") -> "ComplexityDisplay":
        """Draw the lines, and the range as a band with markers at its ends; ``band`` is its name in the legend."""
        ax = axes_of(ax)
        places = list(range(len(self.trees)))
        self.band_ = ax.fill_between(
            places, self.lower, self.upper, color=PALETTE[-1], alpha=0.25, linewidth=0, label=band, zorder=1
        )
        ax.vlines(places, self.lower, self.upper, color=PALETTE[-1], linewidth=1, zorder=2)
        self.lines_ = {}
        for name, look in lines_for(list(self.values)).items():
            (self.lines_[name],) = ax.plot(
                places, list(self.values[name]), label=name, linewidth=1.5, zorder=3, **look.keywords()
            )
        plain(ax)
        ax.set_xticks(places, self.trees)
        ax.set(xlabel=self.axis, ylabel=self.measure)
        self.ax_, self.figure_ = ax, ax.figure
        return self

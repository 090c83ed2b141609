"""Rules compared over leaf sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._style import FAINT, Line, axes_of, lines_for, plain


class LeafSizeDisplay:
    """A measure of each rule against the least number of instances in a leaf.

    Parameters
    ----------
    leaf_sizes
        The leaf sizes, increasing.
    values
        {rule: a value for each leaf size}.
    measure
        Name of the values on the axis.

    Attributes
    ----------
    ax_, figure_, lines_
        The drawn parts (after `plot`).
    """

    def __init__(self, leaf_sizes: Sequence[int], values: Mapping[str, Sequence[float]], *, measure: str):
        self.leaf_sizes, self.values, self.measure = list(leaf_sizes), dict(values), measure

    @classmethod
    def from_values(
        cls,
        leaf_sizes: Sequence[int],
        values: Mapping[str, Sequence[float]],
        *,
        measure: str,
        ax: Any = None,
        **kwargs: Any,
    ) -> "LeafSizeDisplay":
        """Make and plot a display from a value for each rule and leaf size."""
        return cls(leaf_sizes, values, measure=measure).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, lines: Mapping[str, Line] | None = None) -> "LeafSizeDisplay":
        """Draw a line for each rule: as ``lines`` says, others grey in the background (default: seven in colour)."""
        ax = axes_of(ax)
        lines = lines_for(list(self.values)) if lines is None else lines
        self.lines_ = {}
        places = range(len(self.leaf_sizes))
        for rule, values in sorted(self.values.items(), key=lambda item: item[0] in lines):
            look = lines.get(rule, FAINT)
            in_front = look is not FAINT
            (self.lines_[rule],) = ax.plot(
                places,
                list(values),
                label=rule if in_front else None,
                zorder=3 if in_front else 2,
                linewidth=1.6 if in_front else 0.8,
                **look.keywords(),
            )
        plain(ax)
        ax.set_xticks(list(places), [str(size) for size in self.leaf_sizes])
        ax.set(xlabel="least instances in a leaf", ylabel=self.measure)
        self.ax_, self.figure_ = ax, ax.figure
        return self

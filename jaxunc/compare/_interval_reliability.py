"""Reliability of probabilities that are known as intervals."""

from collections.abc import Sequence
from typing import Any

from ._style import axes_of, plain


class IntervalReliabilityDisplay:
    """Share of class 1 against its probability, with a band from the lower to the upper ends of the intervals.

    Parameters
    ----------
    probability
        Mean probability of each bin, increasing.
    frequency
        Share of class 1 in each bin.
    lower, upper
        Mean ends of the intervals in each bin, drawn along the axis of probabilities.
    name
        Name in the legend.
    size
        Number of predictions in each bin, > 0: dots grow with it. Default: all alike.

    Attributes
    ----------
    ax_, figure_, line_, bars_, band_
        The drawn parts (after `plot`).
    """

    def __init__(
        self,
        probability: Sequence[float],
        frequency: Sequence[float],
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        name: str | None = None,
        size: Sequence[float | int] | None = None,
    ):
        given = (probability, frequency, lower, upper, *([] if size is None else [size]))
        parts = [[float(v) for v in part] for part in given]
        if len({len(part) for part in parts}) != 1:
            raise ValueError(
                f"the parts have {', '.join(str(len(part)) for part in parts)} bins; expected as many each."
            )
        self.probability, self.frequency, self.lower, self.upper = parts[:4]
        self.name, self.size = name, parts[4] if size is not None else None

    @classmethod
    def from_values(
        cls,
        probability: Sequence[float],
        frequency: Sequence[float],
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        name: str | None = None,
        size: Sequence[float | int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "IntervalReliabilityDisplay":
        """Make and plot a display from values of each bin."""
        return cls(probability, frequency, lower, upper, name=name, size=size).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, reference: bool = True, band: bool = True, **kwargs: Any
    ) -> "IntervalReliabilityDisplay":
        """Draw the line and a bar for each interval.

        Parameters
        ----------
        ax
            Axes to draw on; default: those of a new figure.
        reference
            Draw the diagonal, too.
        band
            Shade the space between the bars: not for frequencies that fall, where it would fold.
        **kwargs
            As for ``ax.plot``.

        Returns
        -------
        self
            The display, drawn.
        """
        ax = axes_of(ax)
        if reference:
            ax.plot([0, 1], [0, 1], color="#777777", linestyle=":", linewidth=1, zorder=1)
        look = {"marker": "o", "markersize": 4, **kwargs}
        (self.line_,) = ax.plot(self.probability, self.frequency, label=self.name, zorder=3, **look)
        ends = (self.frequency, self.lower, self.upper)
        look = {"color": self.line_.get_color(), "zorder": 2}
        self.band_ = ax.fill_betweenx(*ends, alpha=0.15, linewidth=0, **look) if band else None
        self.bars_ = ax.hlines(*ends, alpha=0.5, linewidth=2, **look)
        if self.size is not None:
            areas = [120 * n / sum(self.size) for n in self.size]
            ax.scatter(self.probability, self.frequency, s=areas, alpha=0.35, linewidth=0, **look)
        plain(ax)
        ax.set(xlabel="probability of class 1", ylabel="share of class 1", xlim=(0, 1), ylim=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self

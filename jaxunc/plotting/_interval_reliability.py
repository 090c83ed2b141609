"""Reliability of probabilities that are known as intervals."""

from collections.abc import Sequence

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
        What the legend calls it.

    Attributes
    ----------
    ax_, figure_, line_, bars_
        What was drawn (after `plot`).
    """

    def __init__(
        self,
        probability: Sequence[float],
        frequency: Sequence[float],
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        name: str | None = None,
    ):
        parts = [[float(v) for v in part] for part in (probability, frequency, lower, upper)]
        if len({len(part) for part in parts}) != 1:
            raise ValueError(
                f"the four have {', '.join(str(len(part)) for part in parts)} bins; expected as many each."
            )
        self.probability, self.frequency, self.lower, self.upper = parts
        self.name = name

    @classmethod
    def from_values(cls, probability, frequency, lower, upper, *, name=None, ax=None, **kwargs):
        """From values of each bin."""
        return cls(probability, frequency, lower, upper, name=name).plot(ax, **kwargs)

    def plot(self, ax=None, *, reference: bool = True, **kwargs) -> "IntervalReliabilityDisplay":
        """Draw the line and the band, and with ``reference`` the diagonal. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        if reference:
            ax.plot([0, 1], [0, 1], color="#777777", linestyle=":", linewidth=1, zorder=1)
        look = {"marker": "o", "markersize": 4, **kwargs}
        (self.line_,) = ax.plot(self.probability, self.frequency, label=self.name, zorder=3, **look)
        self.band_ = ax.fill_betweenx(
            self.frequency, self.lower, self.upper, color=self.line_.get_color(), alpha=0.15, linewidth=0, zorder=2
        )
        self.bars_ = ax.hlines(
            self.frequency, self.lower, self.upper, color=self.line_.get_color(), alpha=0.5, linewidth=2, zorder=2
        )
        plain(ax)
        ax.set(xlabel="probability of class 1", ylabel="share of class 1", xlim=(0, 1), ylim=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self

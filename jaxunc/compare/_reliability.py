"""Reliability diagram: predictions made with confidence p should be right in a share p of cases."""

from typing import Any, Literal

from jaxunc import metrics

from ._style import axes_of, plain


class ReliabilityDisplay:
    """A curve of a reliability diagram: accuracy against confidence, by bins of confidence.

    Parameters
    ----------
    curve
        The result of `jaxunc.metrics.reliability_curve`, or anything with ``confidence``, ``accuracy`` and ``size``
        ``[bins]``; bins of size 0 are left out, and dots grow with the size.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_
        The drawn parts (after `plot`).
    """

    def __init__(self, curve: metrics.ReliabilityCurve, *, name: str | None = None):
        self.curve, self.name = curve, name

    @classmethod
    def from_predictions(
        cls,
        probs: Any,
        y: Any,
        *,
        n_bins: int = 10,
        strategy: Literal["uniform", "quantile"] = "uniform",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "ReliabilityDisplay":
        """Make and plot a curve from probabilities ``[instances classes]`` and class indices.

        Parameters
        ----------
        probs, y, n_bins, strategy
            See `jaxunc.metrics.reliability_curve`.
        name
            Name in the legend.
        ax
            Axes to draw on; default: those of a new figure.
        **kwargs
            As for `plot`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.
        """
        curve = metrics.reliability_curve(probs, y, n_bins=n_bins, strategy=strategy)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, reference: bool = True, **kwargs: Any) -> "ReliabilityDisplay":
        """Draw the curve, and with ``reference`` the diagonal of perfect calibration. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        if reference:
            ax.plot([0, 1], [0, 1], color="#777777", linestyle=":", linewidth=1, zorder=1)
        filled = [bin_ for bin_ in zip(*map(_floats, self.curve), strict=True) if bin_[2] > 0]
        confidence, accuracy, size = zip(*filled, strict=True) if filled else ((), (), ())
        (self.line_,) = ax.plot(confidence, accuracy, label=self.name, **kwargs)
        # The area of a dot is the share of instances in the bin: what rests on few should look it.
        areas = [120 * n / sum(size) for n in size]
        ax.scatter(confidence, accuracy, s=areas, color=self.line_.get_color(), alpha=0.35, linewidth=0, zorder=2)
        plain(ax)
        ax.set(xlabel="confidence in the predicted class", ylabel="share that is right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _floats(values) -> list[float]:
    return [float(v) for v in values]

"""Displays of rejection: what leaving out uncertain instances is worth."""

from typing import Any

from jaxunc import metrics

from ._style import axes_of, plain

_N_POINTS = 200


class RejectionDisplay:
    """Accuracy-rejection curve: how right the predictions are that remain when the least certain are left out.

    Parameters
    ----------
    curve
        The result of `jaxunc.metrics.accuracy_rejection_curve`: ``rejected`` and ``accuracy`` ``[points]``.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_
        The drawn parts (after `plot`).
    """

    def __init__(self, curve: metrics.RejectionCurve, *, name: str | None = None):
        self.curve, self.name = curve, name

    @classmethod
    def from_predictions(
        cls,
        certainty: Any,
        correct: Any,
        *,
        n_points: int = _N_POINTS,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "RejectionDisplay":
        """Make and plot a curve from a certainty and a hit or miss for each instance."""
        curve = metrics.accuracy_rejection_curve(certainty, correct, n_points=n_points)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> "RejectionDisplay":
        """Draw the curve. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        (self.line_,) = ax.plot(*map(_floats, self.curve), label=self.name, **kwargs)
        plain(ax)
        ax.set(xlabel="share rejected, least certain first", ylabel="accuracy on the rest")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RiskCoverageDisplay:
    """Risk-coverage curve: the share of errors among the most certain predictions.

    Parameters
    ----------
    curve
        The result of `jaxunc.metrics.risk_coverage_curve`: ``coverage`` and ``risk`` ``[points]``.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_
        The drawn parts (after `plot`).
    """

    def __init__(self, curve: metrics.RiskCoverageCurve, *, name: str | None = None):
        self.curve, self.name = curve, name

    @classmethod
    def from_predictions(
        cls,
        certainty: Any,
        correct: Any,
        *,
        n_points: int = _N_POINTS,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "RiskCoverageDisplay":
        """Make and plot a curve from a certainty and a hit or miss for each instance."""
        curve = metrics.risk_coverage_curve(certainty, correct, n_points=n_points)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> "RiskCoverageDisplay":
        """Draw the curve. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        (self.line_,) = ax.plot(*map(_floats, self.curve), label=self.name, **kwargs)
        plain(ax)
        ax.set(xlabel="coverage (share answered)", ylabel="risk (share of errors)")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _floats(values) -> list[float]:
    return [float(v) for v in values]

"""Displays of intervals for numbers: against what came true, and how often they hold it against how often asked."""

from typing import Any

import numpy as np
import scipy.stats

from jaxunc._checks import check_within
from jaxunc.explanations import axes_of

from ._displays import PALETTE, plain


class PredictionIntervalDisplay:
    """Prediction intervals sorted by their width, the narrowest on the left, and what came true.

    Parameters
    ----------
    interval
        Lower and upper ends ``[instances 2]``, such as ``predict_interval`` returns.
    y
        What came true ``[instances]``.
    name
        Name of the intervals in the legend.

    Attributes
    ----------
    ax_, figure_, bars_, held_, missed_
        The drawn parts (after `plot`): the intervals, and the points within and outside of them.

    Raises
    ------
    ValueError
        If there is not one interval for each of one target or more, or one is NaN.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jaxunc.compare import PredictionIntervalDisplay
    >>> drawn = PredictionIntervalDisplay([[0.0, 4.0], [1.0, 2.0]], [5.0, 1.5]).plot(Figure().add_subplot())
    >>> drawn.missed_.get_xdata().tolist(), drawn.missed_.get_ydata().tolist()
    ([1], [5.0])
    """

    def __init__(self, interval: Any, y: Any, *, name: str | None = None):
        self.interval, self.y, self.name = np.asarray(interval, float), np.asarray(y, float), name
        if self.y.ndim != 1 or not len(self.y) or self.interval.shape != (len(self.y), 2):
            raise ValueError(
                f"interval has shape {self.interval.shape} and y {self.y.shape}; expected [instances 2], the ends for "
                "each of the numbers in y."
            )
        if np.isnan(self.interval).any() or np.isnan(self.y).any():
            raise ValueError("interval or y holds NaN; leave out rows whose target or interval is not known.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        coverage: float = 0.9,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "PredictionIntervalDisplay":
        """Make and plot a display of what a fitted estimator's ``predict_interval`` says of new rows."""
        return cls(_intervals(estimator, X, coverage), y, name=name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, interval: Any, y: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> "PredictionIntervalDisplay":
        """Make and plot a display of intervals ``[instances 2]`` and what came true ``[instances]``."""
        return cls(interval, y, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, most: int = 200, **kwargs: Any) -> "PredictionIntervalDisplay":
        """Draw the intervals, of more than ``most`` evenly chosen ones by width. Keywords go to ``ax.vlines``."""
        ax = axes_of(ax)
        order = np.argsort(self.interval[:, 1] - self.interval[:, 0], kind="stable")
        order = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int))]
        (low, high), y, place = self.interval[order].T, self.y[order], np.arange(len(order))
        look = {"color": PALETTE[6], "linewidth": 2.0, "alpha": 0.7, "label": self.name} | kwargs
        self.bars_ = ax.vlines(place, low, high, **look)
        held = (low <= y) & (y <= high)
        (self.held_,) = ax.plot(place[held], y[held], ".", color=PALETTE[0], markersize=3.5, label="held")
        (self.missed_,) = ax.plot(place[~held], y[~held], "x", color=PALETTE[2], markersize=5, label="missed")
        plain(ax)
        ax.set(xlabel="rows, the narrowest interval first", ylabel="target")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class CoverageDisplay:
    """How often intervals hold what came true, against how often they should: on the dotted line they keep their word.

    Parameters
    ----------
    nominal
        Coverages that are asked for, in (0, 1), ``[coverages]``, increasing.
    observed
        Shares of instances that the intervals held, ``[coverages]``.
    n
        Number of instances, for the band within which 95 of 100 shares lie if the coverage is as asked for: that of the
        binomial distribution, at each coverage by itself. None draws no band.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_, band_
        The drawn parts (after `plot`); the band is None if it is not drawn.

    Raises
    ------
    ValueError
        If there is not one share for each coverage, or one lies outside its range, or n < 1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jaxunc.compare import CoverageDisplay
    >>> drawn = CoverageDisplay([0.5, 0.9], [0.42, 0.88], n=200).plot(Figure().add_subplot())
    >>> drawn.line_.get_ydata().tolist()
    [0.42, 0.88]
    """

    def __init__(self, nominal: Any, observed: Any, *, n: int | None = None, name: str | None = None):
        self.nominal, self.observed = np.atleast_1d(np.asarray(nominal, float)), np.asarray(observed, float)
        self.n, self.name = n, name
        check_within("nominal", self.nominal, "(0, 1)", ": coverages that are asked for", shape=self.nominal.shape)
        if self.nominal.ndim != 1 or self.observed.shape != self.nominal.shape:
            raise ValueError(
                f"observed has shape {self.observed.shape}; expected {self.nominal.shape}, a share for each coverage."
            )
        if not ((self.observed >= 0) & (self.observed <= 1)).all() or (n is not None and n < 1):
            raise ValueError(f"observed holds no shares in [0, 1], or n={n} is below 1.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        coverages: Any = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "CoverageDisplay":
        """Make and plot a curve of what a fitted estimator's ``predict_interval`` says of new rows."""
        intervals = np.stack([_intervals(estimator, X, float(coverage)) for coverage in coverages])
        return cls.from_predictions(intervals, y, coverages=coverages, name=name, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        intervals: Any,
        y: Any,
        *,
        coverages: Any,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "CoverageDisplay":
        """Make and plot a curve from intervals ``[coverages instances 2]`` and what came true ``[instances]``."""
        ends, truth = np.asarray(intervals, float), np.asarray(y, float)
        if ends.ndim != 3 or ends.shape[1:] != (*truth.shape, 2) or not len(truth):
            raise ValueError(
                f"intervals has shape {ends.shape} and y {truth.shape}; expected [coverages instances 2] and "
                "[instances]."
            )
        held = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        return cls(coverages, held.mean(axis=1), n=len(truth), name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, reference: bool = True, band: bool = True, **kwargs: Any) -> "CoverageDisplay":
        """Draw the curve, and on demand the dotted line and the band. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        self.band_ = None
        if reference:
            ax.plot([0, 1], [0, 1], color="#777777", linestyle=":", linewidth=1, zorder=1)
        if band and self.n is not None:
            asked = np.linspace(0, 1, 101)
            low, high = (scipy.stats.binom.ppf(p, self.n, asked) / self.n for p in (0.025, 0.975))
            self.band_ = ax.fill_between(asked, np.maximum(low, 0), high, color="#777777", alpha=0.15, linewidth=0)
        look = {"marker": "o", "markersize": 3, "label": self.name} | kwargs
        (self.line_,) = ax.plot(self.nominal, self.observed, **look)
        plain(ax)
        ax.set(xlabel="coverage asked for", ylabel="share of rows held")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _intervals(estimator: Any, X: Any, coverage: float) -> Any:
    if not hasattr(estimator, "predict_interval"):
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without predict_interval; pass a fitted "
            "UncertainForestRegressor, or intervals to from_predictions."
        )
    return estimator.predict_interval(X, coverage=coverage)

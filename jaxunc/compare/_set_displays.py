"""Displays of sets of classes, of probabilities given as intervals, and of prediction intervals for numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import scipy.stats

from jaxunc._checks import check_within
from jaxunc.explanations import axes_of

from ._displays import PALETTE, Display, diagonal, lines_for


class SetSizeDisplay(Display):
    """Share of instances by the size of their set, a bar for each s: single classes below, larger sets above.

    Parameters
    ----------
    strengths
        The values of s, the strength of the imprecise Dirichlet model, increasing.
    shares
        ``[strengths sizes]``: of the sets for an s, the share that hold 1, 2, … classes.

    Attributes
    ----------
    ax_, figure_, bars_
        Matplotlib's axes and figure, and a container of bars for each size (after `plot`).

    Raises
    ------
    ValueError
        If there is no row of shares for each s, or a row does not add to 1.
    """

    def __init__(self, strengths: Sequence[float | int], shares: Any):
        self.strengths = [float(s) for s in strengths]
        self.shares = np.asarray(shares, float)
        if self.shares.ndim != 2 or len(self.shares) != len(self.strengths):
            raise ValueError(
                f"shares has shape {self.shares.shape}; expected [strengths sizes] with {len(self.strengths)} rows."
            )
        if not np.allclose(self.shares.sum(axis=1), 1, atol=1e-6):
            raise ValueError("shares has rows that do not add to 1; divide each row by the number of instances.")

    @classmethod
    def from_values(
        cls, strengths: Sequence[float | int], shares: Any, *, ax: Any = None, **kwargs: Any
    ) -> "SetSizeDisplay":
        """Make a display of ``strengths`` and ``shares`` and plot it; ``ax`` (the axes) and keywords go to `plot`."""
        return cls(strengths, shares).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, cmap: str = "cividis_r") -> "SetSizeDisplay":
        """Draw the bars on ``ax``, in colours evenly spaced in ``cmap``: by the default larger sets are darker."""
        ax = axes_of(ax)
        positions = np.arange(len(self.strengths))
        n_sizes = self.shares.shape[1]
        colours = matplotlib.colormaps[cmap](np.linspace(0.1, 0.95, n_sizes))
        floors = np.cumsum(self.shares, axis=1) - self.shares  # each bar begins where those of smaller sets end
        look: Any = {"width": 0.8, "edgecolor": "white", "linewidth": 0.5}
        self.bars_ = [
            ax.bar(positions, self.shares[:, k], bottom=floors[:, k], color=colours[k], label=f"{k + 1}", **look)
            for k in range(n_sizes)
        ]
        ax.set_xticks(positions, [f"{s:g}" for s in self.strengths])
        ax.legend(title="classes in the set", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        return self._finish(ax, xlabel="s", ylabel="share of instances", ylim=(0, 1))


class StrengthDisplay(Display):
    """Measures of sets of classes (such as utility, determinacy, accuracy of single classes) against s.

    s is the strength of the imprecise Dirichlet model: it adds s instances of unknown class to each leaf.

    Parameters
    ----------
    strengths
        The values of s, increasing.
    values
        {name: a value for each s}.
    measure
        Name of the values on the axis.
    reference
        {name: the value} of measures that do not depend on s, such as those of a forest that names one class for each
        instance; drawn as dotted lines.

    Attributes
    ----------
    ax_, figure_, lines_, references_
        Matplotlib's axes and figure, and {name: line} of ``values`` and of ``reference`` (after `plot`).

    Raises
    ------
    ValueError
        If a line does not have a value for each s.
    """

    def __init__(
        self,
        strengths: Sequence[float | int],
        values: Mapping[str, Sequence[float]],
        *,
        measure: str,
        reference: Mapping[str, float] | None = None,
    ):
        self.strengths = [float(s) for s in strengths]
        self.values = {name: [float(v) for v in line] for name, line in values.items()}
        self.measure = measure
        self.reference = dict(reference or {})
        for name, line in self.values.items():
            if len(line) != len(self.strengths):
                raise ValueError(f"{name} has {len(line)} values; expected one for each of {len(self.strengths)} s.")

    @classmethod
    def from_values(
        cls,
        strengths: Sequence[float | int],
        values: Mapping[str, Sequence[float]],
        *,
        measure: str,
        reference: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> "StrengthDisplay":
        """Make a display of the class's arguments and plot it; ``ax`` (the axes) goes to `plot`."""
        return cls(strengths, values, measure=measure, reference=reference).plot(ax)

    def plot(self, ax: Any = None) -> "StrengthDisplay":
        """Draw a line on ``ax`` for each name, with the values of s at equal distances."""
        ax = axes_of(ax)
        x = list(range(len(self.strengths)))
        self.lines_, self.references_ = {}, {}
        for name, value in self.reference.items():
            self.references_[name] = ax.axhline(value, color="#777777", linestyle=":", linewidth=1.2, label=name)
        for name, look in lines_for(list(self.values)).items():
            (self.lines_[name],) = ax.plot(x, self.values[name], label=name, linewidth=1.6, zorder=3, **look.keywords())
        ax.set_xticks(x, [f"{s:g}" for s in self.strengths])
        return self._finish(ax, xlabel="s", ylabel=self.measure)


class IntervalReliabilityDisplay(Display):
    """Share of class 1 against its probability, in bins, with the mean interval of each bin as a bar.

    Parameters
    ----------
    probability
        Mean probability of class 1 in each bin, increasing.
    frequency
        Share of class 1 in each bin.
    lower, upper
        Mean ends of the intervals in each bin, drawn along the axis of probabilities.
    name
        Name in the legend.
    size
        Number of predictions in each bin, > 0: dots grow with it. Default: dots of one size.

    Attributes
    ----------
    ax_, figure_, line_, bars_, band_
        Matplotlib's axes, figure, line, the bins' intervals, and the area between their ends, which is None if it is
        not drawn (after `plot`).

    Raises
    ------
    ValueError
        If the arguments differ in their numbers of bins.
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
        self.probability = [float(v) for v in probability]
        self.frequency = [float(v) for v in frequency]
        self.lower = [float(v) for v in lower]
        self.upper = [float(v) for v in upper]
        self.size = None if size is None else [float(v) for v in size]
        self.name = name
        columns = [self.probability, self.frequency, self.lower, self.upper]
        if self.size is not None:
            columns.append(self.size)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(f"the parts have {', '.join(str(len(c)) for c in columns)} bins; expected as many each.")

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
        """Make a display of the class's arguments and plot it; ``ax`` (the axes) and further keywords go to `plot`."""
        return cls(probability, frequency, lower, upper, name=name, size=size).plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, reference: bool = True, band: bool = True, **kwargs: Any
    ) -> "IntervalReliabilityDisplay":
        """Return the display with the line and a bar for each interval drawn on ``ax``.

        By default ``ax`` are pyplot's axes if they are empty, else new ones. ``reference`` says whether to draw the
        diagonal, and ``band`` whether to shade the area between the intervals' ends. Where frequencies fall it would
        fold over itself. Further keywords go to ``ax.plot``.
        """
        ax = axes_of(ax)
        if reference:
            diagonal(ax)
        line_look = {"marker": "o", "markersize": 4, **kwargs}
        (self.line_,) = ax.plot(self.probability, self.frequency, label=self.name, zorder=3, **line_look)
        look = {"color": self.line_.get_color(), "zorder": 2}
        self.band_ = None
        if band:
            self.band_ = ax.fill_betweenx(self.frequency, self.lower, self.upper, alpha=0.15, linewidth=0, **look)
        self.bars_ = ax.hlines(self.frequency, self.lower, self.upper, alpha=0.5, linewidth=2, **look)
        if self.size is not None:
            areas = [120 * n / sum(self.size) for n in self.size]
            ax.scatter(self.probability, self.frequency, s=areas, alpha=0.35, linewidth=0, **look)
        return self._finish(ax, xlabel="probability of class 1", ylabel="share of class 1", xlim=(0, 1), ylim=(0, 1))


class ComplexityDisplay(Display):
    """A metric over trees of decreasing complexity: lines, and behind them the range in which the metric may lie.

    Parameters
    ----------
    trees
        Names of the trees on the axis, from the largest to the smallest.
    values
        {name: a value for each tree}.
    lower, upper
        The ends of the metric's range for each tree, such as the intervals of the probabilities allow.
    measure
        Name of the values on the axis.
    axis
        Name of the axis of the trees.

    Attributes
    ----------
    ax_, figure_, lines_, band_
        Matplotlib's axes and figure, {name: line}, and the area between the ends (after `plot`).

    Raises
    ------
    ValueError
        If a line or an end does not have a value for each tree.
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
        self.trees = [str(tree) for tree in trees]
        self.values = dict(values)
        self.lower = [float(v) for v in lower]
        self.upper = [float(v) for v in upper]
        self.measure = measure
        self.axis = axis
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
        """Make a display of the class's arguments and plot it; ``ax`` (the axes) goes to `plot`."""
        return cls(trees, values, lower, upper, measure=measure, **kwargs).plot(ax)

    def plot(self, ax: Any = None, *, band: str | None = "range") -> "ComplexityDisplay":
        """Draw the lines on ``ax``, and the range as a band with vertical lines; ``band`` is its name in the legend."""
        ax = axes_of(ax)
        positions = list(range(len(self.trees)))
        self.band_ = ax.fill_between(
            positions, self.lower, self.upper, color=PALETTE[-1], alpha=0.25, linewidth=0, label=band, zorder=1
        )
        ax.vlines(positions, self.lower, self.upper, color=PALETTE[-1], linewidth=1, zorder=2)
        self.lines_ = {}
        for name, look in lines_for(list(self.values)).items():
            (self.lines_[name],) = ax.plot(
                positions, list(self.values[name]), label=name, linewidth=1.5, zorder=3, **look.keywords()
            )
        ax.set_xticks(positions, self.trees)
        return self._finish(ax, xlabel=self.axis, ylabel=self.measure)


class PredictionIntervalDisplay(Display):
    """Prediction intervals sorted by their width, the narrowest on the left, and the true values of the target.

    Parameters
    ----------
    interval
        Lower and upper ends ``[instances 2]``, such as ``predict_interval`` returns.
    y
        True values of the target ``[instances]``.
    name
        Name of the intervals in the legend.

    Attributes
    ----------
    ax_, figure_, bars_, held_, missed_
        Matplotlib's axes, figure, the intervals, and the points within and outside of them (after `plot`).

    Raises
    ------
    ValueError
        If there are no targets, there is not one interval for each target, or an interval or a target is NaN.
    TypeError
        In `from_estimator`, if the estimator has no ``predict_interval``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jaxunc.compare import PredictionIntervalDisplay
    >>> drawn = PredictionIntervalDisplay([[0.0, 4.0], [1.0, 2.0]], [5.0, 1.5]).plot(Figure().add_subplot())
    >>> drawn.missed_.get_xdata().tolist(), drawn.missed_.get_ydata().tolist()
    ([1], [5.0])
    """

    def __init__(self, interval: Any, y: Any, *, name: str | None = None):
        self.interval = np.asarray(interval, float)
        self.y = np.asarray(y, float)
        self.name = name
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
        """Make and plot a display of the intervals that a fitted ``estimator`` predicts for ``X``.

        They are asked for at ``coverage``, and ``y`` holds the true values of the target. ``name`` is the intervals'
        name in the legend. ``ax`` and further keywords go to `plot`.
        """
        return cls(_intervals(estimator, X, coverage), y, name=name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, interval: Any, y: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> "PredictionIntervalDisplay":
        """Make and plot a display of ``interval [instances 2]`` and true values of the target ``y [instances]``.

        ``name`` is the intervals' name in the legend. ``ax`` (the axes) and further keywords go to `plot`.
        """
        return cls(interval, y, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, most: int = 200, **kwargs: Any) -> "PredictionIntervalDisplay":
        """Draw up to ``most`` intervals on ``ax``, evenly chosen by width. Further keywords go to ``ax.vlines``."""
        ax = axes_of(ax)
        rows_by_width = np.argsort(self.interval[:, 1] - self.interval[:, 0], kind="stable")
        ranks = np.linspace(0, len(rows_by_width) - 1, min(most, len(rows_by_width))).round().astype(int)
        drawn_rows = rows_by_width[np.unique(ranks)]
        low, high = self.interval[drawn_rows].T
        y = self.y[drawn_rows]
        position = np.arange(len(drawn_rows))
        look = {"color": PALETTE[6], "linewidth": 2.0, "alpha": 0.7, "label": self.name} | kwargs
        self.bars_ = ax.vlines(position, low, high, **look)
        held = (low <= y) & (y <= high)
        (self.held_,) = ax.plot(position[held], y[held], ".", color=PALETTE[0], markersize=3.5, label="held")
        (self.missed_,) = ax.plot(position[~held], y[~held], "x", color=PALETTE[2], markersize=5, label="missed")
        return self._finish(ax, xlabel="rows, the narrowest interval first", ylabel="target")


class CoverageDisplay(Display):
    """Observed against nominal coverage of prediction intervals: the share that they hold, and the share they should.

    Parameters
    ----------
    nominal
        Coverages that are asked for, in (0, 1), ``[coverages]``, increasing.
    observed
        Share of instances whose target the intervals hold, at each coverage, ``[coverages]``.
    n
        Number of instances, which decides the band: an observed share lies in it with probability 95% if the coverage
        is as asked for, by the binomial distribution, at each coverage by itself. None: no band.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_, band_
        Matplotlib's axes, figure, line, and the band, which is None if it is not drawn (after `plot`).

    Raises
    ------
    ValueError
        If there is not one share for each coverage, a coverage is outside (0, 1) or a share outside [0, 1], or n < 1.
        In `from_predictions`, also if the shapes do not fit, or an interval or a target is NaN.
    TypeError
        In `from_estimator`, if the estimator has no ``predict_interval``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from jaxunc.compare import CoverageDisplay
    >>> drawn = CoverageDisplay([0.5, 0.9], [0.42, 0.88], n=200).plot(Figure().add_subplot())
    >>> drawn.line_.get_ydata().tolist()
    [0.42, 0.88]
    """

    def __init__(self, nominal: Any, observed: Any, *, n: int | None = None, name: str | None = None):
        self.nominal = np.atleast_1d(np.asarray(nominal, float))
        self.observed = np.asarray(observed, float)
        self.n = n
        self.name = name
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
        """Make and plot a curve of the intervals that a fitted ``estimator`` predicts for ``X``.

        They are asked for at each of ``coverages``, and ``y`` holds the true values of the target. ``name`` is the
        curve's name in the legend. ``ax`` and further keywords go to `plot`.
        """
        intervals = np.stack([_intervals(estimator, X, float(coverage)) for coverage in coverages])
        return cls.from_predictions(intervals, y, coverages=coverages, name=name, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, intervals: Any, y: Any, *, coverages: Any, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> "CoverageDisplay":
        """Make and plot a curve from ``intervals [coverages instances 2]`` and true targets ``y [instances]``.

        ``coverages`` are those that were asked for. ``name`` is the curve's name in the legend. ``ax`` and further
        keywords go to `plot`.
        """
        ends = np.asarray(intervals, float)
        truth = np.asarray(y, float)
        if ends.ndim != 3 or ends.shape[1:] != (*truth.shape, 2) or not len(truth):
            raise ValueError(
                f"intervals has shape {ends.shape} and y {truth.shape}; expected [coverages instances 2] and "
                "[instances]."
            )
        if np.isnan(ends).any() or np.isnan(truth).any():
            raise ValueError("intervals or y holds NaN; leave out rows whose target or interval is not known.")
        held = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        return cls(coverages, held.mean(axis=1), n=len(truth), name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, reference: bool = True, band: bool = True, **kwargs: Any) -> "CoverageDisplay":
        """Return the display with the curve drawn on ``ax`` (default: pyplot's empty axes, or new ones).

        ``reference`` says whether to draw the line of equality, and ``band`` whether to draw the band of ``n``, if that
        is known. Further keywords go to ``ax.plot``.
        """
        ax = axes_of(ax)
        self.band_ = None
        if reference:
            diagonal(ax)
        if band and self.n is not None:
            nominal = np.linspace(0, 1, 101)
            low, high = (scipy.stats.binom.ppf(p, self.n, nominal) / self.n for p in (0.025, 0.975))
            self.band_ = ax.fill_between(nominal, np.maximum(low, 0), high, color="#777777", alpha=0.15, linewidth=0)
        look = {"marker": "o", "markersize": 3, "label": self.name} | kwargs
        (self.line_,) = ax.plot(self.nominal, self.observed, **look)
        return self._finish(ax, xlabel="coverage asked for", ylabel="share of rows held")


def _intervals(estimator: Any, X: Any, coverage: float) -> Any:
    """Return an estimator's intervals ``[instances 2]`` for ``X``; raise a TypeError without a ``predict_interval``."""
    if not hasattr(estimator, "predict_interval"):
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without predict_interval; pass a fitted "
            "UncertainForestRegressor, or intervals to from_predictions."
        )
    return estimator.predict_interval(X, coverage=coverage)

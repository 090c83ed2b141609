"""Displays of predictions and of compared combiners: reliability, rejection, uncertainties, leaf sizes.

The constructor makes a display; ``from_predictions`` or ``from_values`` makes one and draws it. ``plot`` draws on the
axes ``ax`` of Matplotlib, or if they are None on those of `axes_of`: pyplot's if they are empty, else new ones. Lines
differ by marker and dashes, too, for those who see no colours.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from jaxunc import metrics
from jaxunc.explanations import axes_of

from ._evaluate import UncertaintyMap, uncertainty_map

PALETTE = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9")
"""Colours of Okabe and Ito (yellow darkened to be seen on white), distinct in all common forms of colour vision."""
GREY = "#B8B8B8"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 2)))


class Line(NamedTuple):
    """The look of a line in a figure."""

    color: str
    marker: str | None  # None: the line has no markers
    dashes: Any  # Matplotlib's line style

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `matplotlib.axes.Axes.plot` that give a line this look."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.dashes, "markersize": 4}


FAINT = Line(GREY, marker=None, dashes="-")  # the look of lines in the background


def lines_for(names: Sequence[str]) -> dict[str, Line]:
    """Return {name: the look of its line}: distinct looks for the first seven names, `FAINT` for further ones."""
    looks = [Line(*parts) for parts in zip(PALETTE, _MARKERS, _DASHES, strict=True)]
    return {name: looks[i] if i < len(looks) else FAINT for i, name in enumerate(names)}


def plain(ax) -> None:
    """Remove the top and right sides of the frame of ``ax``, and draw a faint grid behind the data there."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)


def diagonal(ax) -> None:
    """Draw the line from (0, 0) to (1, 1) on ``ax``, dotted and behind the data."""
    ax.plot([0, 1], [0, 1], color="#777777", linestyle=":", linewidth=1, zorder=1)


DisplayT = TypeVar("DisplayT", bound="Display")


class Display:
    """The base class of displays, with the steps that end every plot."""

    def _finish(self: DisplayT, ax: Any, **labels: Any) -> DisplayT:
        """Style ``ax``, set ``labels`` (keywords of ``ax.set``) there, keep axes and figure, and return the display."""
        plain(ax)
        ax.set(**labels)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _floats(values) -> list[float]:
    return [float(v) for v in values]


class ReliabilityDisplay(Display):
    """A curve of a reliability diagram: the accuracy in each bin of confidence, against the mean confidence there.

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
        Matplotlib's axes, figure and line (after `plot`).
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
        """Make and plot a curve from the arguments of `jaxunc.metrics.reliability_curve`.

        These are ``probs``, ``y``, ``n_bins`` and ``strategy``. ``name`` is the curve's name in the legend. ``ax`` and
        further keywords go to `plot`.
        """
        curve = metrics.reliability_curve(probs, y, n_bins=n_bins, strategy=strategy)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, reference: bool = True, **kwargs: Any) -> "ReliabilityDisplay":
        """Draw the curve, and with ``reference`` the diagonal of perfect calibration. Keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        if reference:
            diagonal(ax)
        confidence, accuracy, size = [], [], []
        for mean_confidence, share_right, n in zip(*map(_floats, self.curve), strict=True):
            if n > 0:
                confidence.append(mean_confidence)
                accuracy.append(share_right)
                size.append(n)
        (self.line_,) = ax.plot(confidence, accuracy, label=self.name, **kwargs)
        # The area of a dot shows the share of instances in its bin, so that values of few instances stand back.
        areas = [120 * n / sum(size) for n in size]  # in square points, 120 for all instances
        ax.scatter(confidence, accuracy, s=areas, color=self.line_.get_color(), alpha=0.35, linewidth=0, zorder=2)
        return self._finish(ax, xlabel="confidence in the predicted class", ylabel="share that is right")


class RejectionDisplay(Display):
    """Accuracy-rejection curve: the accuracy on the instances that remain when the least certain are rejected.

    Parameters
    ----------
    curve
        The result of `jaxunc.metrics.accuracy_rejection_curve`: ``rejected`` and ``accuracy`` ``[points]``, the share
        of instances rejected and the accuracy on the rest.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_
        Matplotlib's axes, figure and line (after `plot`).
    """

    def __init__(self, curve: metrics.RejectionCurve, *, name: str | None = None):
        self.curve, self.name = curve, name

    @classmethod
    def from_predictions(
        cls,
        certainty: Any,
        correct: Any,
        *,
        n_points: int = 200,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "RejectionDisplay":
        """Make and plot a curve from each instance's ``certainty``, and whether its prediction is ``correct`` (0 or 1).

        ``n_points`` is the number of points, ``name`` the curve's name in the legend. ``ax`` (the axes) and further
        keywords go to `plot`.
        """
        curve = metrics.accuracy_rejection_curve(certainty, correct, n_points=n_points)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> "RejectionDisplay":
        """Draw the curve on ``ax`` (default: pyplot's empty axes, or new ones); other keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        (self.line_,) = ax.plot(*map(_floats, self.curve), label=self.name, **kwargs)
        return self._finish(ax, xlabel="share rejected, least certain first", ylabel="accuracy on the rest")


class RiskCoverageDisplay(Display):
    """Risk-coverage curve: the share of errors among the most certain predictions.

    Parameters
    ----------
    curve
        The result of `jaxunc.metrics.risk_coverage_curve`: ``coverage`` and ``risk`` ``[points]``, the share of
        instances answered and the share of errors among these.
    name
        Name in the legend.

    Attributes
    ----------
    ax_, figure_, line_
        Matplotlib's axes, figure and line (after `plot`).
    """

    def __init__(self, curve: metrics.RiskCoverageCurve, *, name: str | None = None):
        self.curve, self.name = curve, name

    @classmethod
    def from_predictions(
        cls,
        certainty: Any,
        correct: Any,
        *,
        n_points: int = 200,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> "RiskCoverageDisplay":
        """Make and plot a curve from each instance's ``certainty``, and whether its prediction is ``correct`` (0 or 1).

        ``n_points`` is the number of points, ``name`` the curve's name in the legend. ``ax`` (the axes) and further
        keywords go to `plot`.
        """
        curve = metrics.risk_coverage_curve(certainty, correct, n_points=n_points)
        return cls(curve, name=name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> "RiskCoverageDisplay":
        """Draw the curve on ``ax`` (default: pyplot's empty axes, or new ones); other keywords go to ``ax.plot``."""
        ax = axes_of(ax)
        (self.line_,) = ax.plot(*map(_floats, self.curve), label=self.name, **kwargs)
        return self._finish(ax, xlabel="coverage (share answered)", ylabel="risk (share of errors)")


class UncertaintyDisplay(Display):
    """Instances in bins of two uncertainties: larger squares hold more of them, darker ones a larger share of errors.

    The cost of drawing does not depend on the number of instances.

    Parameters
    ----------
    counted
        The numbers of instances and of errors ``[aleatoric bins, epistemic bins]``, and the edges of the bins.

    Attributes
    ----------
    ax_, figure_, squares_, colorbar_
        Matplotlib's axes, figure, squares (one collection) and colour bar, or None without one (after `plot`).
    """

    def __init__(self, counted: UncertaintyMap):
        self.counted = counted

    @classmethod
    def from_predictions(
        cls,
        aleatoric: Any,
        epistemic: Any,
        correct: Any,
        *,
        n_bins: int = 20,
        upper: Any = (1.0, 1.0),
        ax: Any = None,
        **kwargs: Any,
    ) -> "UncertaintyDisplay":
        """Make and plot a display from each instance's two uncertainties and whether its prediction is correct.

        ``aleatoric`` and ``epistemic`` are ``[instances]``, such as `jaxunc.UncertaintyDecomposition` answers, and
        ``correct [instances]`` is bool, or 0 and 1. Each axis has ``n_bins`` bins up to its limit in ``upper``
        (aleatoric, epistemic); values beyond it are in the last bin. An entropy in bits of K classes is at most log₂ K.
        ``ax`` and further keywords go to `plot`.

        Raises a ValueError if an uncertainty is NaN, the lengths differ, or ``correct``, ``n_bins`` or ``upper`` is out
        of range.
        """
        counted = uncertainty_map(aleatoric, epistemic, correct, n_bins=n_bins, upper=upper)
        return cls(counted).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, cmap: Any = "cividis_r", colorbar: bool = True) -> "UncertaintyDisplay":
        """Return the display with its squares drawn on ``ax`` (default: pyplot's empty axes, or new ones).

        ``cmap`` colours the share of errors from 0 to 1/2 and more. ``colorbar`` says whether a colour bar is drawn.
        """
        ax = axes_of(ax)
        size, errors, x_edges, y_edges = (np.asarray(array, float) for array in self.counted)
        width = x_edges[1] - x_edges[0]
        height = y_edges[1] - y_edges[0]
        positions = np.argwhere(size > 0)
        filled = size[size > 0]
        # The area shows the number of instances; at least 2 % of the bin keeps few instances visible.
        sides = np.sqrt(np.maximum(filled / filled.max(initial=1), 0.02))  # as shares of the bins' sides
        squares = []
        for (i, j), side in zip(positions, sides, strict=True):
            left = x_edges[i] + width * (1 - side) / 2
            bottom = y_edges[j] + height * (1 - side) / 2
            squares.append(Rectangle((left, bottom), width * side, height * side))
        self.squares_ = PatchCollection(squares, cmap=cmap, edgecolor="#444444", linewidth=0.3)
        self.squares_.set_array(errors[size > 0] / filled)
        self.squares_.set_clim(0, 0.5)  # from 1/2 on the colour does not change
        ax.add_collection(self.squares_)
        self.colorbar_ = ax.figure.colorbar(self.squares_, ax=ax, extend="max") if colorbar else None
        if self.colorbar_ is not None:
            self.colorbar_.set_label("share of errors")
        # The axes end at the last filled bin, but not before half of their range: a few bins do not fill the picture.
        x_end = max(x_edges[positions[:, 0].max(initial=0) + 1], x_edges[-1] / 2)
        y_end = max(y_edges[positions[:, 1].max(initial=0) + 1], y_edges[-1] / 2)
        labels = {"xlabel": "aleatoric uncertainty (bits)", "ylabel": "epistemic (bits)"}
        return self._finish(ax, **labels, xlim=(0, x_end), ylim=(0, y_end))


class LeafSizeDisplay(Display):
    """A measure of each combiner against the least number of instances in a leaf.

    Parameters
    ----------
    leaf_sizes
        The leaf sizes, increasing.
    values
        {combiner: a value for each leaf size}.
    measure
        Name of the values on the axis.

    Attributes
    ----------
    ax_, figure_, lines_
        Matplotlib's axes and figure, and {combiner: its line} (after `plot`).
    """

    def __init__(self, leaf_sizes: Sequence[int], values: Mapping[str, Sequence[float]], *, measure: str):
        self.leaf_sizes = list(leaf_sizes)
        self.values = dict(values)
        self.measure = measure

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
        """Make a display of the class's arguments and plot it; ``ax`` (the axes) and further keywords go to `plot`."""
        return cls(leaf_sizes, values, measure=measure).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, lines: Mapping[str, Line] | None = None) -> "LeafSizeDisplay":
        """Draw each combiner with its look in ``lines`` (default: `lines_for`), or as a faint line if it has none."""
        ax = axes_of(ax)
        lines = lines_for(list(self.values)) if lines is None else lines
        self.lines_ = {}
        positions = range(len(self.leaf_sizes))
        # Faint lines are drawn first, behind the others.
        for combiner, values in sorted(self.values.items(), key=lambda item: item[0] in lines):
            look = lines.get(combiner, FAINT)
            keywords: Any = {"label": combiner, "zorder": 3, "linewidth": 1.6, **look.keywords()}
            if look is FAINT:
                keywords |= {"label": None, "zorder": 2, "linewidth": 0.8}
            (self.lines_[combiner],) = ax.plot(positions, list(values), **keywords)
        ax.set_xticks(list(positions), [str(size) for size in self.leaf_sizes])
        return self._finish(ax, xlabel="least instances in a leaf", ylabel=self.measure)

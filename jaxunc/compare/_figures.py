"""Figures of the page, as SVG: results averaged for display, drawn by `jaxunc.compare`."""

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxunc import metrics

from ._cliques import cliques
from ._compared_rules import OWN
from ._critical_difference import CriticalDifferenceDisplay
from ._evaluate import METRICS, N_CELLS, N_POINTS
from ._leaf_sizes import LeafSizeDisplay
from ._rejection import RejectionDisplay, RiskCoverageDisplay
from ._reliability import ReliabilityDisplay
from ._store import Results
from ._style import lines_for
from ._summary import BASELINE, TITLES, Ranking, best_leaf_sizes, forest_name, outcomes_of, shown_leaf_sizes
from ._uncertainty import UncertaintyDisplay

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "jaxunc",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
}
_SIZE = (4.4, 3.1)
_MOST_HIGHLIGHTED = 5


class Picture(NamedTuple):
    """A drawn figure."""

    title: str
    description: str
    """Description of the figure for those who cannot see it."""
    svg: str


def highlighted(results: Results, rankings: dict[str, Ranking]) -> list[str]:
    """Return the rules that stand out in all figures: the default of forests, and the first by each measure."""
    leaders = [rankings[measure].rules[0] for measure in ("brier", "auc", "accuracy", "log_loss")]
    names = dict.fromkeys([name for name in (OWN, BASELINE, *leaders) if name in results.about["rules"]])
    return list(names)[:_MOST_HIGHLIGHTED]


def rank_pictures(rankings: dict[str, Ranking], names: Sequence[str]) -> list[Picture]:
    """Draw a diagram of ranks by each measure."""
    pictures = []
    for measure, ranking in rankings.items():

        def draw(ax: Axes, ranking: Ranking = ranking) -> None:
            groups = cliques(ranking.ranks, ranking.different)
            display = CriticalDifferenceDisplay(ranking.rules, list(ranking.ranks), groups)
            display.plot(ax, highlight=names)

        height = 1.4 + 0.19 * len(ranking.rules)
        said = ", ".join(f"{rule} {rank:.1f}" for rule, rank in zip(ranking.rules, ranking.ranks, strict=True))
        pictures.append(drawn(f"Ranks by {TITLES[measure]}", f"Average ranks: {said}.", draw, (5.6, height)))
    return pictures


def leaf_size_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Draw a measure against the leaf size, for each kind of forest."""
    settings, lines = results.settings, lines_for(names)
    if len(settings.leaf_sizes) < 2:
        return []
    pictures = []
    for forest in settings.forests:
        part = records[records["forest"] == forest]
        for measure in ("accuracy", "brier"):
            table = part.groupby(["rule", "leaf_size"], sort=False)[measure].mean().unstack("leaf_size")
            values = {rule: table.loc[rule, list(settings.leaf_sizes)].tolist() for rule in results.about["rules"]}

            def draw(ax: Axes, values=values, measure=measure) -> None:
                LeafSizeDisplay(settings.leaf_sizes, values, measure=TITLES[measure]).plot(ax, lines=lines)
                _show_most(ax, list(values.values()))
                ax.legend()

            better = "higher" if METRICS[measure] else "lower"
            title = f"{forest}: {TITLES[measure]} ({better} is better)"
            said = "; ".join(f"{rule}: " + ", ".join(f"{v:.3f}" for v in values[rule]) for rule in names)
            about = f"By leaf size {', '.join(map(str, settings.leaf_sizes))}: {said}."
            pictures.append(drawn(title, about, draw))
    return pictures


def curve_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Draw reliability diagram, accuracy-rejection and risk-coverage curves, each rule at its best leaf size."""
    lines = lines_for(names)
    leaves: Any = best_leaf_sizes(records)
    n_classes = len(results.about["data"]["classes"])
    pictures = []
    for forest in results.settings.forests:
        chosen = {rule: outcomes_of(results, forest, int(leaves[forest, rule])) for rule in names}
        reliability = {rule: _reliability(rule, outcomes) for rule, outcomes in chosen.items()}
        # Folds have equally many points: their curves are averaged point by point.
        kept = np.arange(1, N_POINTS + 1) / N_POINTS
        accuracy = {rule: np.mean([o.rejection[rule] for o in found], axis=0) for rule, found in chosen.items()}

        def draw_reliability(ax: Axes, curves=reliability) -> None:
            for i, (rule, curve) in enumerate(curves.items()):
                display = ReliabilityDisplay(curve, name=rule)
                display.plot(ax, reference=i == 0, **lines[rule].keywords())
            ax.set_xlim(1 / n_classes - 0.02, 1.02)
            ax.legend()

        def draw_rejection(ax: Axes, accuracy=accuracy, kept=kept) -> None:
            for rule, values in accuracy.items():
                curve = metrics.RejectionCurve(1 - kept[::-1], values[::-1])
                RejectionDisplay(curve, name=rule).plot(ax, markevery=4, **lines[rule].keywords())
            ax.legend()

        def draw_risk(ax: Axes, accuracy=accuracy, kept=kept) -> None:
            for rule, values in accuracy.items():
                curve = metrics.RiskCoverageCurve(kept, 1 - values)
                RiskCoverageDisplay(curve, name=rule).plot(ax, markevery=4, **lines[rule].keywords())
            ax.legend()

        said = "; ".join(
            f"{rule} {values[-1]:.1%} at no rejection, {values[-5]:.1%} at 20 %" for rule, values in accuracy.items()
        )
        pictures += [
            drawn(f"{forest}: reliability", "Share of right predictions by confidence.", draw_reliability),
            drawn(f"{forest}: accuracy under rejection", f"{said}.", draw_rejection),
            drawn(f"{forest}: risk against coverage", "Share of errors by share answered.", draw_risk),
        ]
    return pictures


def uncertainty_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw aleatoric against epistemic uncertainty and the share of errors, for a leaf size of each kind of forest."""
    n_classes = len(results.about["data"]["classes"])
    edges = np.linspace(0, np.log2(n_classes), N_CELLS + 1)
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        size, errors = np.zeros((2, N_CELLS, N_CELLS), int)
        for outcome in outcomes_of(results, forest, leaf_size):
            for i, j, n, wrong in outcome.uncertainty:
                size[i, j] += n
                errors[i, j] += wrong

        def draw(ax: Axes, size=size, errors=errors) -> None:
            UncertaintyDisplay(metrics.UncertaintyMap(size, errors, edges, edges)).plot(ax)

        about = (
            f"{size.sum()} predictions, {errors.sum()} of them wrong; larger squares hold more, darker ones err more."
        )
        pictures.append(drawn(f"{forest_name(forest, leaf_size)}: two kinds of uncertainty", about, draw))
    return pictures


def _reliability(rule: str, outcomes) -> metrics.ReliabilityCurve:
    """Join the bins of several test folds."""
    size, hits, confidence = (
        np.sum([outcome.reliability[rule][part] for outcome in outcomes], axis=0)
        for part in ("size", "hits", "confidence")
    )
    filled = np.maximum(size, 1)
    return metrics.ReliabilityCurve(confidence / filled, hits / filled, size)


def _show_most(ax: Axes, values: list[list[float]]) -> None:
    """Set limits that show nearly all values; the few that are far worse must not flatten the rest."""
    low, high = np.quantile(values, [0.0, 0.9]) if ax.get_ylabel() != "accuracy" else np.quantile(values, [0.1, 1.0])
    margin = 0.15 * (high - low) or 0.01
    ax.set_ylim(low - margin, high + margin)


def drawn(title: str, description: str, draw: Callable[[Axes], None], size: tuple[float, float] = _SIZE) -> Picture:
    """Return the figure of one plot."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(title, description, stream.getvalue())

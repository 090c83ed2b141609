"""Figures of the report page, as SVG: outcomes averaged over test folds and drawn by the displays of this room.

A description of each figure puts its numbers into words. Sets and intervals are shown at one leaf size of each kind of
forest.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxunc import metrics

from ._displays import (
    PALETTE,
    LeafSizeDisplay,
    RejectionDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    UncertaintyDisplay,
    diagonal,
    lines_for,
    plain,
)
from ._evaluate import BRIER_RANGE, N_CELLS, N_POINTS, STRENGTHS, UncertaintyMap
from ._laws import COVERAGES, observed_coverages
from ._set_displays import (
    ComplexityDisplay,
    CoverageDisplay,
    IntervalReliabilityDisplay,
    PredictionIntervalDisplay,
    SetSizeDisplay,
    StrengthDisplay,
)
from ._settings import MODEL, PLAIN
from ._store import Results
from ._summary import (
    BASELINE,
    SET_TITLES,
    TITLES,
    Ranking,
    baseline_accuracy,
    best_leaf_sizes,
    brier_ranges,
    forest_name,
    has_sets,
    interval_means,
    outcomes_of,
    ranked_measures,
    set_averages,
    shown_leaf_sizes,
)
from ._verdict import RARE, Verdict, shares, shown_value

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
RANK_ROWS = 8  # largest number of combiners in a chart of ranks
_MOST_HIGHLIGHTED = 5
_LONGEST_LABEL = 24
_LEAST_IN_BIN = 5  # least number of predictions in a bin whose share is drawn: a share of fewer says little


class Picture(NamedTuple):
    """A figure of the page."""

    title: str
    description: str  # description of the figure for those who cannot see it
    svg: str


def choose_highlights(results: Results, rankings: dict[str, Ranking], leader: str) -> list[str]:
    """Return up to five combiners to stand out in figures, of those that the study has.

    They are the defaults of studies, the one to use (``leader``), then the best by each measure of ``rankings``
    ({measure: its ranking}).
    """
    order = ("brier", "auc", "accuracy", "log_loss", "interval_score", "pinball_loss")
    leaders = [rankings[measure].combiners[0] for measure in order if measure in rankings]
    candidates = (MODEL, BASELINE, PLAIN, leader, *leaders)
    names = dict.fromkeys([name for name in candidates if name in results.about["combiners"]])
    return list(names)[:_MOST_HIGHLIGHTED]


def rank_pictures(rankings: dict[str, Ranking], names: Sequence[str]) -> list[Picture]:
    """Draw the average ranks by each measure of ``rankings``, {measure: its ranking}.

    `RANK_ROWS` combiners are drawn, those of ``names`` (in bold) and then the best others.
    """
    pictures = []
    for measure, ranking in rankings.items():
        chosen = [*names, *(name for name in ranking.combiners if name not in names)][:RANK_ROWS]
        rows = [i for i, name in enumerate(ranking.combiners) if name in chosen]

        def draw(ax: Axes, ranking: Ranking = ranking, rows: list[int] = rows) -> None:
            """Plot a combiner's average rank in each row, hollow where tests tell the combiner from the best."""
            for row, i in enumerate(rows):
                look: Any = {"color": PALETTE[0], "markerfacecolor": "none" if ranking.different[0, i] else None}
                ax.plot([ranking.ranks[i]], [row], "o", **look)
                ax.axhline(row, color="#e4e4e4", linewidth=0.8, zorder=0)
            labels = ax.set_yticks(range(len(rows)), [ranking.combiners[i] for i in rows])
            for label, i in zip(labels, rows, strict=True):
                label.label1.set_fontweight("bold" if ranking.combiners[i] in names else "normal")
            plain(ax)
            ax.set(xlabel="average rank", xlim=(0, len(ranking.combiners) + 1), ylim=(len(rows) - 0.5, -0.5))

        sentence = ", ".join(f"{name} {rank:.1f}" for name, rank in zip(ranking.combiners, ranking.ranks, strict=True))
        title, size = f"Ranks by {TITLES[measure]}", (4.4, 0.7 + 0.26 * len(rows))
        pictures.append(draw_picture(title, f"Average ranks: {sentence}.", draw, size))
    return pictures


def leaf_size_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Draw two measures against the leaf size, for each kind of forest; no pictures if there is one leaf size alone.

    The combiners in ``names`` stand out. ``records`` is the frame of `Results.records`.
    """
    settings, lines = results.settings, lines_for(names)
    if len(settings.leaf_sizes) < 2:
        return []
    pictures = []
    for forest in settings.forests:
        forest_records = records[records["forest"] == forest]
        for measure in ("interval_score", "pinball_loss") if settings.numbers else ("accuracy", "brier"):
            table = forest_records.groupby(["combiner", "leaf_size"], sort=False)[measure].mean().unstack("leaf_size")
            sizes = list(settings.leaf_sizes)
            values = {name: table.loc[name, sizes].tolist() for name in results.about["combiners"]}

            def draw(ax: Axes, values=values, measure=measure) -> None:
                LeafSizeDisplay(settings.leaf_sizes, values, measure=TITLES[measure]).plot(ax, lines=lines)
                _show_most(ax, list(values.values()))
                ax.legend()

            better = "higher" if ranked_measures(records)[measure] else "lower"
            title = f"{forest}: {TITLES[measure]} ({better} is better)"
            write = (lambda v, m=measure: shown_value(m, v)) if settings.numbers else "{:.3f}".format
            sentence = "; ".join(f"{combiner}: {', '.join(map(write, values[combiner]))}" for combiner in names)
            description = f"By leaf size {', '.join(map(str, settings.leaf_sizes))}: {sentence}."
            pictures.append(draw_picture(title, description, draw))
    return pictures


def law_pictures(results: Results, verdict: Verdict) -> list[Picture]:
    """Return two pictures: the 90% intervals of the verdict's leader, and each law's observed and nominal coverage.

    Each law is shown on the forest on which it is best (`Verdict.best_forests`).
    """
    shares_held, outcomes = {}, {law: outcomes_of(results, *forest) for law, forest in verdict.best_forests.items()}
    ordered_laws: list[str] = [verdict.leader, *([verdict.base] if verdict.base else []), *verdict.best_forests]
    for law in dict.fromkeys(ordered_laws):
        shares_held[law] = observed_coverages(outcomes[law], law)
    folds = outcomes[verdict.leader][: results.settings.n_folds]  # the first repetition has each row once
    lower, upper, truth = np.array([row for fold in folds for row in fold.drawn[verdict.leader]]).T

    def draw_intervals(ax: Axes) -> None:
        PredictionIntervalDisplay(np.stack([lower, upper], axis=1), truth).plot(ax)
        ax.legend()

    def draw_coverage(ax: Axes) -> None:
        for i, (law, observed) in enumerate(shares_held.items()):
            # Repetitions test the same rows again: the band is that of the number of rows.
            display = CoverageDisplay(COVERAGES, observed, n=results.about["data"]["n_instances"], name=law)
            display.plot(ax, reference=i == 0, band=i == 0, **lines_for(list(shares_held))[law].keywords())
        ax.legend()

    held_share = float(np.mean((lower <= truth) & (truth <= upper)))
    sentence = "; ".join(f"{law}: {', '.join(f'{share:.3f}' for share in row)}" for law, row in shares_held.items())
    about = f"Shares that hold at the coverages {', '.join(f'{c:g}' for c in COVERAGES)}: {sentence}."
    return [
        draw_picture(
            f"{verdict.leader}: 90% intervals",
            f"{len(truth)} rows by width; {held_share:.3f} are held.",
            draw_intervals,
        ),
        draw_picture("Coverage, asked for and found", about, draw_coverage),
    ]


def _show_most(ax: Axes, values: list[list[float]]) -> None:
    """Set limits of the y axis of ``ax`` that leave out the worst tenth of the values, which could flatten the rest."""
    # Accuracies are worst where they are low, losses where they are high.
    low, high = np.quantile(values, [0.0, 0.9]) if ax.get_ylabel() != "accuracy" else np.quantile(values, [0.1, 1.0])
    margin = 0.15 * (high - low) or 0.01  # 0.01 if all values are equal
    ax.set_ylim(low - margin, high + margin)


def curve_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Draw three curves for each kind of forest: reliability, accuracy-rejection and risk-coverage.

    Each combiner in ``names`` is drawn at its best leaf size. ``records`` is the frame of `Results.records`.
    """
    lines = lines_for(names)
    leaves: Any = best_leaf_sizes(records)
    n_classes = len(results.about["data"]["classes"])
    pictures = []
    for forest in results.settings.forests:
        chosen = {combiner: outcomes_of(results, forest, int(leaves[forest, combiner])) for combiner in names}
        reliability = {combiner: _reliability(combiner, outcomes) for combiner, outcomes in chosen.items()}
        # The curves of all folds have the same coverages, so that they are averaged point by point.
        kept = np.arange(1, N_POINTS + 1) / N_POINTS
        accuracy = {name: np.mean([o.rejection[name] for o in parts], axis=0) for name, parts in chosen.items()}

        def draw_reliability(ax: Axes, curves=reliability) -> None:
            for i, (combiner, curve) in enumerate(curves.items()):
                display = ReliabilityDisplay(curve, name=combiner)
                display.plot(ax, reference=i == 0, **lines[combiner].keywords())
            ax.set_xlim(1 / n_classes - 0.02, 1.02)
            ax.legend()

        def draw_rejection(ax: Axes, accuracy=accuracy, kept=kept) -> None:
            for combiner, values in accuracy.items():
                curve = metrics.RejectionCurve(1 - kept[::-1], values[::-1])
                RejectionDisplay(curve, name=combiner).plot(ax, markevery=4, **lines[combiner].keywords())
            ax.legend()

        def draw_risk(ax: Axes, accuracy=accuracy, kept=kept) -> None:
            for combiner, values in accuracy.items():
                curve = metrics.RiskCoverageCurve(kept, 1 - values)
                RiskCoverageDisplay(curve, name=combiner).plot(ax, markevery=4, **lines[combiner].keywords())
            ax.legend()

        # Of 20 coverages the last rejects nothing, the fifth last 20 %.
        clauses = (f"{name} {v[-1]:.1%} at no rejection, {v[-5]:.1%} at 20 %" for name, v in accuracy.items())
        sentence = "; ".join(clauses)
        pictures += [
            draw_picture(f"{forest}: reliability", "Share of right predictions by confidence.", draw_reliability),
            draw_picture(f"{forest}: accuracy under rejection", f"{sentence}.", draw_rejection),
            draw_picture(f"{forest}: risk against coverage", "Share of errors by share answered.", draw_risk),
        ]
    return pictures


def positive_picture(results: Results, verdict: Verdict) -> Picture:
    """Draw the share of the positive class against its probability, in bins, for the verdict's default and leader."""
    name = _axis_label(str(results.settings.positive))
    lines, sentences, largest = {}, [], 0.0
    for combiner in dict.fromkeys(entry for entry in (verdict.base, verdict.leader) if entry is not None):
        folds = [o.positive[combiner] for o in outcomes_of(results, *verdict.best_forests[combiner])]
        size, hits, probability = (np.sum([f[key] for f in folds], axis=0) for key in ("size", "hits", "probability"))
        filled = size >= _LEAST_IN_BIN
        p, share = probability[filled] / size[filled], hits[filled] / size[filled]
        lines[combiner] = (p, share, size[filled])
        largest = max(largest, *p, *share) if len(p) else largest
        bins = "; ".join(f"{a:.3f} came true in {b:.3f} of {n:.0f}" for a, b, n in zip(*lines[combiner], strict=True))
        sentences.append(f"{combiner}: {bins}")

    def draw(ax: Axes) -> None:
        """Plot each combiner's shares against probabilities, with a disc for each bin: its area is the bin's size.

        A rare class gets square-root axes.
        """
        diagonal(ax)
        for (combiner, (p, share, size)), look in zip(lines.items(), lines_for(list(lines)).values(), strict=True):
            ax.plot(p, share, label=combiner, **look.keywords())
            ax.scatter(p, share, s=120 * size / max(size.sum(), 1), color=look.color, alpha=0.35, linewidth=0)
        plain(ax)
        ax.set(xlabel=f"probability of {name}", ylabel=f"share of {name}")
        if shares(results)[str(results.settings.positive)] < RARE:
            # A square-root scale spreads values near 0 and, unlike a logarithmic one, has a place for 0.
            ax.set_xscale("function", functions=(np.sqrt, np.square))
            ax.set_yscale("function", functions=(np.sqrt, np.square))
            ticks = [t for t in (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1) if t <= largest * 1.05]
            ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
            ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        ax.set(xlim=(0, largest * 1.03 or 1), ylim=(0, largest * 1.03 or 1))
        ax.legend()

    return draw_picture(f"Can P({name}) be believed?", f"{'. '.join(sentences)}.", draw)


def _reliability(combiner: str, outcomes) -> metrics.ReliabilityCurve:
    """Return one combiner's reliability curve, over the outcomes of test folds together; empty bins hold zeros."""
    size, hits, confidence = (
        np.sum([outcome.reliability[combiner][key] for outcome in outcomes], axis=0)
        for key in ("size", "hits", "confidence")
    )
    divisor = np.maximum(size, 1)  # the sums of an empty bin are 0
    return metrics.ReliabilityCurve(confidence / divisor, hits / divisor, size)


def uncertainty_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw instances and errors by both uncertainties, for each kind of forest at its best leaf size in ``records``."""
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
            UncertaintyDisplay(UncertaintyMap(size, errors, edges, edges)).plot(ax)

        about = (
            f"{size.sum()} predictions, {errors.sum()} of them wrong; larger squares hold more, darker ones err more."
        )
        pictures.append(draw_picture(f"{forest_name(forest, leaf_size)}: two kinds of uncertainty", about, draw))
    return pictures


def set_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw accuracy and determinacy, utilities, and sizes of sets against s, from ``records``; none without sets."""
    if not has_sets(results):
        return []
    mean, accuracy = set_averages(results, records), baseline_accuracy(results, records)
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        lines = {name: mean.loc[forest][measure].tolist() for measure, name in SET_TITLES.items()}
        constants = {f"one class ({BASELINE})": accuracy[forest]} if accuracy else {}
        sizes = np.sum([list(o.set_sizes.values()) for o in outcomes_of(results, forest, leaf_size)], axis=0)
        shares = sizes / sizes.sum(axis=1, keepdims=True)
        title = forest_name(forest, leaf_size)
        pictures += [
            _over_s(f"{title}: decided and right", "share", {k: lines[k] for k in ("decided", "right of those")}),
            _over_s(f"{title}: utility of sets", "utility", {k: lines[k] for k in ("u80", "u65")}, constants),
            _set_sizes(f"{title}: set sizes", shares),
        ]
    return pictures


def _over_s(title: str, measure: str, lines: dict[str, list[float]], always: dict[str, float] | None = None) -> Picture:
    """Draw a measure of sets of classes against s, and return the picture.

    ``lines`` is {name: value for each of `STRENGTHS`}, and ``always`` {name: value that does not depend on s}.
    """

    def draw(ax: Axes) -> None:
        StrengthDisplay(STRENGTHS, lines, measure=measure, reference=always).plot(ax)
        ax.legend()

    sentences = [f"{name} {', '.join(_share(v) for v in values)}" for name, values in lines.items()]
    sentences += [f"{name} {_share(value)}" for name, value in (always or {}).items()]
    return draw_picture(title, f"For s = {_join_values(STRENGTHS)}: {'; '.join(sentences)}.", draw)


def _set_sizes(title: str, shares) -> Picture:
    """Draw how many classes the sets hold at each s, and return the picture.

    ``shares [strengths classes]`` has for each s the share of sets with 1, 2, … classes.
    """

    def draw(ax: Axes) -> None:
        SetSizeDisplay(STRENGTHS, shares).plot(ax)

    sentences = [
        f"{k} {'class' if k == 1 else 'classes'} {', '.join(_share(v) for v in by_strength)}"
        for k, by_strength in enumerate(shares.T, start=1)
        if by_strength.any()
    ]
    return draw_picture(title, f"Share of instances for s = {_join_values(STRENGTHS)}: {'; '.join(sentences)}.", draw)


def interval_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw reliability with the bins' intervals; for two classes and several leaf sizes also ranges of the Brier score.

    No pictures if there are too many classes for intervals. ``records`` is the frame of `Results.records`.
    """
    if not has_sets(results):
        return []
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        bins = interval_means(outcomes_of(results, forest, leaf_size))
        pictures.append(_reliability_of_intervals(f"{forest_name(forest, leaf_size)}: reliability", bins, results))
        if len(results.settings.leaf_sizes) > 1 and len(results.about["data"]["classes"]) == 2:
            pictures.append(_brier_range(f"{forest}: range of the Brier score", results, forest))
    return pictures


def _reliability_of_intervals(title: str, bins: dict[str, Any], results: Results) -> Picture:
    """Draw reliability with the mean interval of each bin, and return the picture.

    ``bins`` are those of `interval_means`: sizes, shares that came true ("hits"), and mean probabilities, lower and
    upper ends, in this order.
    """
    classes = list(results.about["data"]["classes"])
    name = _axis_label(classes[1]) if len(classes) == 2 else "a class"

    def draw(ax: Axes) -> None:
        display = IntervalReliabilityDisplay(
            bins["probability"], bins["hits"], bins["lower"], bins["upper"], size=bins["size"]
        )
        display.plot(ax, band=False, color=PALETTE[1], linewidth=1, markersize=2.5)
        ax.set(xlabel=f"probability of {name}", ylabel=f"share of {name if len(classes) == 2 else 'that class'}")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    sentence = "; ".join(
        f"{p:.2f} [{low:.2f}, {high:.2f}] came true in {share:.2f} of {n:.0f}"
        for n, share, p, low, high in zip(*bins.values(), strict=True)
    )
    return draw_picture(title, f"Mean probability and interval of each bin: {sentence}.", draw)


def _brier_range(title: str, results: Results, forest: str) -> Picture:
    """Draw a kind of forest's Brier score, and the range that its intervals allow, against the leaf size."""
    leaf_sizes = results.settings.leaf_sizes
    lower, mean, upper = (brier_ranges(results, forest)[name] for name in BRIER_RANGE)

    def draw(ax: Axes) -> None:
        values = {"mean class frequency": mean}
        display = ComplexityDisplay(
            list(map(str, leaf_sizes)), values, lower, upper, measure="Brier", axis="least instances in a leaf"
        )
        display.plot(ax, band="what the intervals allow")
        ax.set_ylim(bottom=0)
        ax.legend()

    sentence = "; ".join(
        f"{size}: {middle:.3f} [{low:.3f}, {high:.3f}]"
        for size, middle, low, high in zip(leaf_sizes, mean, lower, upper, strict=True)
    )
    return draw_picture(title, f"By leaf size, the mean class frequency's score and the range: {sentence}.", draw)


def draw_picture(
    title: str, description: str, draw: Callable[[Axes], None], size: tuple[float, float] = _SIZE
) -> Picture:
    """Return a picture that ``draw`` makes on empty axes; ``size`` is its width and height in inches."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(title, description, stream.getvalue())


def _share(value: float) -> str:
    return f"{value:.3f}" if value == value else "none"


def _join_values(values) -> str:
    return ", ".join(map(str, values))


def _axis_label(label: str) -> str:
    """Return a label cut to `_LONGEST_LABEL` characters, with ``$`` escaped: between two Matplotlib reads a formula."""
    short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")

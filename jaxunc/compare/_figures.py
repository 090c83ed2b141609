"""Figures of the report page, as SVG: outcomes averaged over test folds and drawn by the displays of this room."""

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
from ._evaluate import N_CELLS, N_POINTS, STRENGTHS, UncertaintyMap
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
_SIZE = (4.4, 3.1)  # width and height of a figure, in inches
RANK_ROWS = 8  # largest number of combiners in a chart of ranks
_MOST_HIGHLIGHTED = 5  # largest number of combiners that stand out
_LONGEST_LABEL = 24  # largest number of characters of a class label on an axis
_LEAST_IN_BIN = 5  # least number of predictions in a bin whose share is drawn: a share of fewer says little


class Picture(NamedTuple):
    """A figure of the report page."""

    title: str
    description: str  # the numbers of the figure in words, for those who cannot see it
    svg: str


def choose_highlights(results: Results, rankings: dict[str, Ranking], leader: str) -> list[str]:
    """Return the names of up to `_MOST_HIGHLIGHTED` combiners or laws of the study that are to stand out in figures.

    They are the default, the ``leader``, and the best by each measure of ``rankings``, {measure: its ranking}.
    """
    order = ("brier", "auc", "accuracy", "log_loss", "interval_score", "pinball_loss")
    best_names = [rankings[measure].combiners[0] for measure in order if measure in rankings]
    candidates = dict.fromkeys([MODEL, BASELINE, PLAIN, leader, *best_names])
    return [name for name in candidates if name in results.about["combiners"]][:_MOST_HIGHLIGHTED]


def rank_pictures(rankings: dict[str, Ranking], names: Sequence[str]) -> list[Picture]:
    """Return a picture of the average ranks by each measure of ``rankings``, {measure: its ranking}.

    `RANK_ROWS` combiners are drawn: those of ``names``, in bold, and then the best others.
    """
    pictures = []
    for measure, ranking in rankings.items():
        others = [name for name in ranking.combiners if name not in names]
        drawn_names = [*names, *others][:RANK_ROWS]
        positions = [i for i, name in enumerate(ranking.combiners) if name in drawn_names]

        def draw(ax: Axes, ranking: Ranking = ranking, positions: list[int] = positions) -> None:
            """Plot a combiner's average rank in each row, hollow where tests tell the combiner from the best."""
            for row, i in enumerate(positions):
                look: Any = {"color": PALETTE[0], "markerfacecolor": "none" if ranking.different[0, i] else None}
                ax.plot([ranking.ranks[i]], [row], "o", **look)
                ax.axhline(row, color="#e4e4e4", linewidth=0.8, zorder=0)
            ticks = ax.set_yticks(range(len(positions)), [ranking.combiners[i] for i in positions])
            for tick, i in zip(ticks, positions, strict=True):
                tick.label1.set_fontweight("bold" if ranking.combiners[i] in names else "normal")
            plain(ax)
            ax.set(xlabel="average rank", xlim=(0, len(ranking.combiners) + 1), ylim=(len(positions) - 0.5, -0.5))

        sentence = ", ".join(f"{name} {rank:.1f}" for name, rank in zip(ranking.combiners, ranking.ranks, strict=True))
        size = (4.4, 0.7 + 0.26 * len(positions))  # a strip for each row
        pictures.append(draw_picture(f"Ranks by {TITLES[measure]}", f"Average ranks: {sentence}.", draw, size))
    return pictures


def leaf_size_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Return pictures of two measures against the leaf size, for each kind of forest; none if there is one leaf size.

    The combiners in ``names`` stand out. ``records`` is the frame of `Results.records`.
    """
    settings = results.settings
    lines = lines_for(names)
    if len(settings.leaf_sizes) < 2:
        return []
    measures = ("interval_score", "pinball_loss") if settings.numbers else ("accuracy", "brier")
    pictures = []
    for forest in settings.forests:
        forest_records = records[records["forest"] == forest]
        for measure in measures:
            table = forest_records.groupby(["combiner", "leaf_size"], sort=False)[measure].mean().unstack("leaf_size")
            sizes = list(settings.leaf_sizes)
            values = {name: table.loc[name, sizes].tolist() for name in results.about["combiners"]}

            def draw(ax: Axes, values=values, measure=measure) -> None:
                LeafSizeDisplay(settings.leaf_sizes, values, measure=TITLES[measure]).plot(ax, lines=lines)
                _show_most(ax, list(values.values()))
                ax.legend()

            better = "higher" if ranked_measures(records)[measure] else "lower"
            title = f"{forest}: {TITLES[measure]} ({better} is better)"
            clauses = []
            for combiner in names:
                if settings.numbers:
                    texts = [shown_value(measure, value) for value in values[combiner]]
                else:
                    texts = [f"{value:.3f}" for value in values[combiner]]
                clauses.append(f"{combiner}: {', '.join(texts)}")
            description = f"By leaf size {_join_values(settings.leaf_sizes)}: {'; '.join(clauses)}."
            pictures.append(draw_picture(title, description, draw))
    return pictures


def law_pictures(results: Results, verdict: Verdict) -> list[Picture]:
    """Return two pictures: the 90% intervals of the verdict's leader, and each law's observed and nominal coverage.

    Each law is shown on the forest on which it is best (`Verdict.best_forests`).
    """
    outcomes = {law: outcomes_of(results, *forest) for law, forest in verdict.best_forests.items()}
    coverages = {}  # {law: its observed coverage at each of `COVERAGES`}, the leader and the default first
    for law in (verdict.leader, verdict.base, *verdict.best_forests):
        if law is not None and law not in coverages:
            coverages[law] = observed_coverages(outcomes[law], law)
    first_repetition = outcomes[verdict.leader][: results.settings.n_folds]  # it has each row once
    drawn_rows = [row for outcome in first_repetition for row in outcome.drawn[verdict.leader]]
    lower, upper, truth = np.array(drawn_rows).T

    def draw_intervals(ax: Axes) -> None:
        PredictionIntervalDisplay(np.stack([lower, upper], axis=1), truth).plot(ax)
        ax.legend()

    def draw_coverage(ax: Axes) -> None:
        looks = lines_for(list(coverages))
        for law, observed in coverages.items():
            # Repetitions test the same rows again: the band is that of the number of rows.
            display = CoverageDisplay(COVERAGES, observed, n=results.about["data"]["n_instances"], name=law)
            is_first = law == verdict.leader
            display.plot(ax, reference=is_first, band=is_first, **looks[law].keywords())
        ax.legend()

    held_share = float(np.mean((lower <= truth) & (truth <= upper)))
    clauses = [f"{law}: {', '.join(_share(share) for share in observed)}" for law, observed in coverages.items()]
    nominal = ", ".join(f"{coverage:g}" for coverage in COVERAGES)
    about = f"Shares that hold at the coverages {nominal}: {'; '.join(clauses)}."
    return [
        draw_picture(
            f"{verdict.leader}: 90% intervals",
            f"{len(truth)} rows by width; {held_share:.3f} are held.",
            draw_intervals,
        ),
        draw_picture("Coverage, asked for and found", about, draw_coverage),
    ]


def _show_most(ax: Axes, values: list[list[float]]) -> None:
    """Set the limits of the y axis so that the worst tenth of the values, which could flatten the rest, is left out."""
    # Accuracies are worst where they are low, and the other measures, losses, where they are high.
    levels = [0.1, 1.0] if ax.get_ylabel() == "accuracy" else [0.0, 0.9]
    low, high = np.quantile(values, levels)
    margin = 0.15 * (high - low) or 0.01  # 0.01 if all values are equal
    ax.set_ylim(low - margin, high + margin)


def curve_pictures(results: Results, records: Any, names: Sequence[str]) -> list[Picture]:
    """Return three pictures for each kind of forest: reliability, accuracy under rejection, and risk by coverage.

    Each combiner in ``names`` is drawn at its best leaf size. ``records`` is the frame of `Results.records`.
    """
    lines = lines_for(names)
    leaf_sizes: Any = best_leaf_sizes(records)
    n_classes = len(results.about["data"]["classes"])
    coverages = np.arange(1, N_POINTS + 1) / N_POINTS  # of the curves in each outcome
    pictures = []
    for forest in results.settings.forests:
        reliability, accuracy = {}, {}  # by combiner
        for combiner in names:
            outcomes = outcomes_of(results, forest, int(leaf_sizes[forest, combiner]))
            reliability[combiner] = _reliability(combiner, outcomes)
            # The curves of all folds have the same coverages, so they are averaged point by point.
            accuracy[combiner] = np.mean([outcome.rejection[combiner] for outcome in outcomes], axis=0)

        def draw_reliability(ax: Axes, curves=reliability) -> None:
            for i, (combiner, curve) in enumerate(curves.items()):
                display = ReliabilityDisplay(curve, name=combiner)
                display.plot(ax, reference=i == 0, **lines[combiner].keywords())
            ax.set_xlim(1 / n_classes - 0.02, 1.02)
            ax.legend()

        def draw_rejection(ax: Axes, accuracy=accuracy) -> None:
            for combiner, values in accuracy.items():
                curve = metrics.RejectionCurve(1 - coverages[::-1], values[::-1])
                RejectionDisplay(curve, name=combiner).plot(ax, markevery=4, **lines[combiner].keywords())
            ax.legend()

        def draw_risk(ax: Axes, accuracy=accuracy) -> None:
            for combiner, values in accuracy.items():
                curve = metrics.RiskCoverageCurve(coverages, 1 - values)
                RiskCoverageDisplay(curve, name=combiner).plot(ax, markevery=4, **lines[combiner].keywords())
            ax.legend()

        # Of 20 coverages the last rejects nothing, the fifth last 20 %.
        sentence = "; ".join(
            f"{combiner} {values[-1]:.1%} at no rejection, {values[-5]:.1%} at 20 %"
            for combiner, values in accuracy.items()
        )
        pictures += [
            draw_picture(f"{forest}: reliability", "Share of right predictions by confidence.", draw_reliability),
            draw_picture(f"{forest}: accuracy under rejection", f"{sentence}.", draw_rejection),
            draw_picture(f"{forest}: risk against coverage", "Share of errors by share answered.", draw_risk),
        ]
    return pictures


class _PositiveCurve(NamedTuple):
    """A combiner's bins of the positive class's probability, over all test folds: arrays ``[bins]``."""

    probability: np.ndarray  # mean probability of the positive class
    share: np.ndarray  # share of instances that are positive
    size: np.ndarray  # number of instances


def _positive_curve(combiner: str, outcomes: list[Any]) -> _PositiveCurve:
    """Return one combiner's curve over the outcomes of test folds, without bins of fewer than `_LEAST_IN_BIN`."""
    size, hits, probability = (
        np.sum([outcome.positive[combiner][key] for outcome in outcomes], axis=0)
        for key in ("size", "hits", "probability")
    )
    shown = size >= _LEAST_IN_BIN
    return _PositiveCurve(probability[shown] / size[shown], hits[shown] / size[shown], size[shown])


def positive_picture(results: Results, verdict: Verdict) -> Picture:
    """Draw the share of the positive class against its probability, in bins, for the verdict's default and leader.

    Each of the two is read on its best forest. A rare class gets square-root axes.
    """
    name = _axis_label(str(results.settings.positive))
    curves = {}
    sentences = []
    largest = 0.0
    for combiner in dict.fromkeys([verdict.base, verdict.leader]):
        if combiner is None:
            continue
        curve = _positive_curve(combiner, outcomes_of(results, *verdict.best_forests[combiner]))
        curves[combiner] = curve
        largest = max([largest, *curve.probability, *curve.share])
        bins = "; ".join(f"{p:.3f} came true in {share:.3f} of {n:.0f}" for p, share, n in zip(*curve, strict=True))
        sentences.append(f"{combiner}: {bins}")

    def draw(ax: Axes) -> None:
        """Plot each combiner's shares against probabilities, and on each point a disc whose area is the bin's size."""
        diagonal(ax)
        looks = lines_for(list(curves))
        for combiner, curve in curves.items():
            look = looks[combiner]
            ax.plot(curve.probability, curve.share, label=combiner, **look.keywords())
            areas = 120 * curve.size / max(curve.size.sum(), 1)
            ax.scatter(curve.probability, curve.share, s=areas, color=look.color, alpha=0.35, linewidth=0)
        plain(ax)
        ax.set(xlabel=f"probability of {name}", ylabel=f"share of {name}")
        if shares(results)[str(results.settings.positive)] < RARE:
            _scale_by_root(ax, largest)
        limit = largest * 1.03 or 1  # 1 if no bin is shown
        ax.set(xlim=(0, limit), ylim=(0, limit))
        ax.legend()

    return draw_picture(f"Can P({name}) be believed?", f"{'. '.join(sentences)}.", draw)


def _scale_by_root(ax: Axes, largest: float) -> None:
    """Give both axes, of shares up to ``largest``, a square-root scale, which spreads values near 0, and ticks."""
    ax.set_xscale("function", functions=(np.sqrt, np.square))
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    ticks = [tick for tick in (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1) if tick <= largest * 1.05]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _reliability(combiner: str, outcomes) -> metrics.ReliabilityCurve:
    """Return one combiner's reliability curve, over the outcomes of test folds together; empty bins hold zeros."""
    size, hits, confidence = (
        np.sum([outcome.reliability[combiner][key] for outcome in outcomes], axis=0)
        for key in ("size", "hits", "confidence")
    )
    divisor = np.maximum(size, 1)  # the sums of an empty bin are 0
    return metrics.ReliabilityCurve(confidence / divisor, hits / divisor, size)


def uncertainty_pictures(results: Results, records: Any) -> list[Picture]:
    """Return a picture for each kind of forest of its instances and errors, by aleatoric and epistemic uncertainty.

    Forests are shown at the leaf sizes of `shown_leaf_sizes`. ``records`` is the frame of `Results.records`.
    """
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
    """Return three pictures for each kind of forest: determinacy and accuracy, utilities, and sizes of sets against s.

    No pictures if there are too many classes for sets. ``records`` is the frame of `Results.records`.
    """
    if not has_sets(results):
        return []
    means = set_averages(results, records)
    accuracy = baseline_accuracy(results, records)
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        lines = {name: means.loc[forest][measure].tolist() for measure, name in SET_TITLES.items()}
        decided_and_right = {name: lines[name] for name in ("decided", "right of those")}
        utilities = {name: lines[name] for name in ("u80", "u65")}
        utility_of_one_class = {f"one class ({BASELINE})": accuracy[forest]} if accuracy else {}
        outcomes = outcomes_of(results, forest, leaf_size)
        sizes = np.sum([list(outcome.set_sizes.values()) for outcome in outcomes], axis=0)  # [strengths, classes]
        title = forest_name(forest, leaf_size)
        pictures += [
            _over_s(f"{title}: decided and right", "share", decided_and_right),
            _over_s(f"{title}: utility of sets", "utility", utilities, utility_of_one_class),
            _set_sizes(f"{title}: set sizes", sizes / sizes.sum(axis=1, keepdims=True)),
        ]
    return pictures


def _over_s(title: str, measure: str, lines: dict[str, list[float]], always: dict[str, float] | None = None) -> Picture:
    """Return a picture of measures of sets against s, with ``measure`` as the name of the y axis.

    ``lines`` is {name: value for each of `STRENGTHS`}, and ``always`` {name: value that does not depend on s}.
    """

    def draw(ax: Axes) -> None:
        StrengthDisplay(STRENGTHS, lines, measure=measure, reference=always).plot(ax)
        ax.legend()

    sentences = [f"{name} {', '.join(_share(v) for v in values)}" for name, values in lines.items()]
    sentences += [f"{name} {_share(value)}" for name, value in (always or {}).items()]
    return draw_picture(title, f"For s = {_join_values(STRENGTHS)}: {'; '.join(sentences)}.", draw)


def _set_sizes(title: str, shares) -> Picture:
    """Return a picture of ``shares [strengths classes]``: for each s the shares of sets with 1, 2, … classes."""

    def draw(ax: Axes) -> None:
        SetSizeDisplay(STRENGTHS, shares).plot(ax)

    sentences = [
        f"{k} {'class' if k == 1 else 'classes'} {', '.join(_share(v) for v in by_strength)}"
        for k, by_strength in enumerate(shares.T, start=1)
        if by_strength.any()
    ]
    return draw_picture(title, f"Share of instances for s = {_join_values(STRENGTHS)}: {'; '.join(sentences)}.", draw)


def interval_pictures(results: Results, records: Any) -> list[Picture]:
    """Return a picture of each kind of forest's reliability, with the mean interval of each bin of probability.

    For two classes and several leaf sizes there is also one of the ranges of the Brier score. No pictures if there are
    too many classes for intervals. ``records`` is the frame of `Results.records`.
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
    """Return a picture of the share of predictions that came true against their probability, with intervals, in bins.

    ``bins`` is what `interval_means` returns: of "hits" the shares that came true.
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

    columns = (bins[key] for key in ("probability", "lower", "upper", "hits", "size"))
    sentence = "; ".join(
        f"{p:.2f} [{low:.2f}, {high:.2f}] came true in {share:.2f} of {n:.0f}"
        for p, low, high, share, n in zip(*columns, strict=True)
    )
    return draw_picture(title, f"Mean probability and interval of each bin: {sentence}.", draw)


def _brier_range(title: str, results: Results, forest: str) -> Picture:
    """Return a picture of a kind of forest's Brier score, and the range that its intervals allow, by leaf size."""
    leaf_sizes = results.settings.leaf_sizes
    ranges = brier_ranges(results, forest)
    lower, mean, upper = ranges["lower"], ranges["mean"], ranges["upper"]

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
    """Return the picture that ``draw`` makes on empty axes; ``size`` is its width and height in inches."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(title, description, stream.getvalue())


def _share(value: float) -> str:
    """Return a share as text with three decimals; "none" for NaN, which is a share of no rows."""
    return "none" if np.isnan(value) else f"{value:.3f}"


def _join_values(values) -> str:
    return ", ".join(map(str, values))


def _axis_label(label: str) -> str:
    """Return a class label for an axis: at most `_LONGEST_LABEL` characters, with ``$`` escaped.

    Between two dollar signs Matplotlib would read a formula.
    """
    short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")

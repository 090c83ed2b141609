"""Figures of the sets and intervals of cautious forests, each kind of forest at the leaf size that is shown of it."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ._complexity import ComplexityDisplay
from ._evaluate import BRIER_RANGE, STRENGTHS
from ._figures import Picture, drawn
from ._interval_reliability import IntervalReliabilityDisplay
from ._set_sizes import SetSizeDisplay
from ._store import Results
from ._strength import StrengthDisplay
from ._style import PALETTE
from ._summary import (
    BASELINE,
    SET_TITLES,
    baseline_accuracy,
    brier_ranges,
    forest_name,
    has_sets,
    interval_means,
    outcomes_of,
    set_averages,
    shown_leaf_sizes,
)

_LONGEST_LABEL = 24


def set_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw what is decided and how right that is, what the sets are worth, and how large they are, over s."""
    if not has_sets(results):
        return []
    mean, accuracy = set_averages(results, records), baseline_accuracy(results, records)
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        lines = {name: mean.loc[forest][measure].tolist() for measure, name in SET_TITLES.items()}
        always = {f"one class ({BASELINE})": accuracy[forest]} if accuracy else {}
        sizes = np.sum([list(o.set_sizes.values()) for o in outcomes_of(results, forest, leaf_size)], axis=0)
        shares = sizes / sizes.sum(axis=1, keepdims=True)
        title = forest_name(forest, leaf_size)
        pictures += [
            _over_s(f"{title}: decided and right", "share", {k: lines[k] for k in ("decided", "right of those")}),
            _over_s(f"{title}: utility of sets", "utility", {k: lines[k] for k in ("u80", "u65")}, always),
            _set_sizes(f"{title}: set sizes", shares),
        ]
    return pictures


def interval_pictures(results: Results, records: Any) -> list[Picture]:
    """Draw reliability with interval bands; for two classes also the range of the Brier score by leaf size."""
    if not has_sets(results):
        return []
    pictures = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        bins = interval_means(outcomes_of(results, forest, leaf_size))
        pictures.append(_reliability(f"{forest_name(forest, leaf_size)}: reliability", bins, results))
        if len(results.settings.leaf_sizes) > 1 and len(results.about["data"]["classes"]) == 2:
            pictures.append(_brier_range(f"{forest}: range of the Brier score", results, forest))
    return pictures


def _over_s(title: str, measure: str, lines: dict[str, list[float]], always: dict[str, float] | None = None) -> Picture:
    def draw(ax: Axes) -> None:
        StrengthDisplay(STRENGTHS, lines, measure=measure, reference=always).plot(ax)
        ax.legend()

    said = [f"{name} {', '.join(_share(v) for v in values)}" for name, values in lines.items()]
    said += [f"{name} {_share(value)}" for name, value in (always or {}).items()]
    return drawn(title, f"For s = {_listed(STRENGTHS)}: {'; '.join(said)}.", draw)


def _set_sizes(title: str, shares) -> Picture:
    def draw(ax: Axes) -> None:
        SetSizeDisplay(STRENGTHS, shares).plot(ax)

    said = [
        f"{k} {'class' if k == 1 else 'classes'} {', '.join(_share(v) for v in column)}"
        for k, column in enumerate(shares.T, start=1)
        if column.any()
    ]
    return drawn(title, f"Share of instances for s = {_listed(STRENGTHS)}: {'; '.join(said)}.", draw)


def _reliability(title: str, bins: dict[str, Any], results: Results) -> Picture:
    classes = list(results.about["data"]["classes"])
    name = _shortened(classes[1]) if len(classes) == 2 else "a class"

    def draw(ax: Axes) -> None:
        display = IntervalReliabilityDisplay(
            bins["probability"], bins["hits"], bins["lower"], bins["upper"], size=bins["size"]
        )
        display.plot(ax, band=False, color=PALETTE[1], linewidth=1, markersize=2.5)
        ax.set(xlabel=f"probability of {name}", ylabel=f"share of {name if len(classes) == 2 else 'that class'}")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))

    said = "; ".join(
        f"{p:.2f} [{low:.2f}, {high:.2f}] came true in {share:.2f} of {n:.0f}"
        for n, share, p, low, high in zip(*bins.values(), strict=True)
    )
    return drawn(title, f"Mean probability and interval of each bin: {said}.", draw)


def _brier_range(title: str, results: Results, forest: str) -> Picture:
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

    said = "; ".join(
        f"{size}: {middle:.3f} [{low:.3f}, {high:.3f}]"
        for size, middle, low, high in zip(leaf_sizes, mean, lower, upper, strict=True)
    )
    return drawn(title, f"By leaf size, the mean class frequency's score and the range: {said}.", draw)


def _share(value: float) -> str:
    return f"{value:.3f}" if value == value else "none"


def _listed(values) -> str:
    return ", ".join(map(str, values))


def _shortened(label: str) -> str:
    """Shorten a class for an axis, which would take what stands between dollar signs for a formula."""
    short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")

"""Figures of the study of Costa, Verwer and Blockeel 2013: a point for each set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.costa2013_numbers import METHODS, Finished, values

FIGURES = {
    "figure-4": ("brier", "Brier score", ("tree", "bag", "tree_laplace", "bag_laplace")),
    "figure-5": ("auc", "AUC", ("tree", "bag", "tree_laplace", "bag_laplace")),
    "figure-6": ("reliability", "AUC reliability", ("tree", "bag", "kk", "tree_laplace", "bag_laplace")),
}
BETTER, WORSE = "#0072B2", "#D55E00"


def draw_all(finished: Finished, out: Path) -> None:
    """Figures 4 to 6, and what own thresholds do."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "jaxunc", "font.size": 9}):
        for name, (measure, title, rivals) in FIGURES.items():
            draw_duels(finished, measure, title, rivals, out / f"{name}.svg")
        draw_own(finished, out / "figure-3.svg")


def draw_duels(finished: Finished, measure: str, title: str, rivals: Sequence[str], path: Path) -> None:
    """TPCE against each rival."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(rivals), 2.9), layout="constrained")
    own = values(finished, "paper", "tpce", measure)
    others = {rival: values(finished, "paper", rival, measure) for rival in rivals}
    ends = np.nanmin([own, *others.values()]), np.nanmax([own, *others.values()])
    for place, (rival, other) in enumerate(others.items()):
        ax = figure.add_subplot(1, len(rivals), place + 1)
        _scatter(ax, other, own, own < other if measure == "brier" else own > other, ends)
        ax.set(xlabel=METHODS[rival], ylabel="TPCE" if place == 0 else "", title=title if place == 0 else "")
    figure.savefig(path, metadata={"Date": None})


def draw_own(finished: Finished, path: Path) -> None:
    """Brier score, and how many instances every label wins over, with own thresholds against without."""
    from matplotlib.figure import Figure

    there = {name: found for name, found in finished.items() if "own" in found}
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    pairs = {
        "Brier score": [values(there, *of, "brier") for of in (("loo", "tpce"), ("own", "tpce_own"))],
        "share won over by every label": [
            np.array([found[protocol]["agreeing"] for found in there.values()]) for protocol in ("loo", "own")
        ],
    }
    for place, (title, (without, own)) in enumerate(pairs.items()):
        ax = figure.add_subplot(1, 2, place + 1)
        ends = min(without.min(), own.min()), max(without.max(), own.max())
        _scatter(ax, without, own, own < without, ends)
        ax.set(xlabel="thresholds of the training set", ylabel="own thresholds" if place == 0 else "", title=title)
    figure.savefig(path, metadata={"Date": None})


def _scatter(ax, x: np.ndarray, y: np.ndarray, better: np.ndarray, ends: tuple[float, float]) -> None:
    """Points around the diagonal; those where the method on the y axis is better filled, the others open."""
    there = np.isfinite(x) & np.isfinite(y)
    margin = 0.04 * (ends[1] - ends[0])
    ends = (ends[0] - margin, ends[1] + margin)
    ax.plot(ends, ends, color="#999999", linewidth=0.8, zorder=1)
    ax.scatter(x[there & better], y[there & better], s=14, color=BETTER, zorder=2)
    ax.scatter(x[there & ~better], y[there & ~better], s=14, facecolors="none", edgecolors=WORSE, zorder=2)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    ax.title.set_fontsize(9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)

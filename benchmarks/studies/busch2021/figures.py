"""The figures of the study of Busch et al. 2021 as pictures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import jaxunc as ju
from benchmarks.pages import save
from jaxunc.compare import LeafSizeDisplay, lines_for

SCORERS: Mapping[str, Callable] = {
    "probability": ju.scorers.probability,
    "laplace": ju.scorers.laplace,
    "plausibility": ju.scorers.plausibility,
    "confidence": ju.scorers.confidence_bounds,
}
"""Figure 1."""
RULES = {
    "pooling": ju.Pooling(),
    "dempster": ju.DempsterRule(),
    "cautious": ju.CautiousRule(),
    "evidence": ju.EvidenceAccumulation(jnp.array([0.5, 0.5])),
}
"""Figure 2, in the order of the paper's sections."""
N_TRIALS, LARGEST_LEAF, N_LEAVES = 100, 100, 100
SHOWN = ("probability", "evidence", "evidence-code", "evidence-to-prior", "pooling")
"""Figure 5."""
NEAR, FAR = 0.002, 0.2
"""In Figure 5, how near to the mean a method is not drawn, and how far below the median a value is cut off."""


def simulated_counts(seed: int, *shape: int) -> np.ndarray:
    """``[*shape sizes 2]``: leaves to which instances are added one by one, of class 1 with probability .75."""
    drawn = np.random.default_rng(seed).random((*shape, LARGEST_LEAF)) < 0.75
    positive = np.cumsum(drawn, axis=-1)
    return np.stack([np.arange(1, LARGEST_LEAF + 1) - positive, positive], axis=-1)


def simulated_leaves(n_trials: int = N_TRIALS) -> dict[str, np.ndarray]:
    """Scores ``[trials sizes]`` of one growing leaf."""
    counts = jnp.asarray(simulated_counts(0, n_trials))
    return {name: np.asarray(scorer(counts)) for name, scorer in SCORERS.items()}


def simulated_ensembles(n_trials: int = N_TRIALS, n_leaves: int = N_LEAVES) -> dict[str, np.ndarray]:
    """Scores ``[trials sizes]`` of ensembles of growing leaves."""
    counts = jnp.asarray(np.moveaxis(simulated_counts(1, n_trials, n_leaves), 1, 2))  # [trials sizes leaves 2]
    return {name: np.asarray(rule.score(counts)) for name, rule in RULES.items()}


def write_pictures(rank_tables: Mapping[str, pd.DataFrame], spread: pd.DataFrame, trees: pd.DataFrame, folder: Path):
    """Pictures of the simulations, of tables of average ranks, and of accuracy against leaf size.

    ``spread``: of each set and leaf size, mean and standard deviation of the single trees' accuracies. ``trees``: a row
    for each set, leaf size and method.
    """
    save(_simulation(simulated_leaves(), "instances in the leaf"), folder / "figure-1.png", dpi=110)
    save(_simulation(simulated_ensembles(), "instances in each leaf"), folder / "figure-2.png", dpi=110)
    for name, table in rank_tables.items():
        save(_heatmap(table), folder / f"{name}.svg", dpi=110)
    if len(spread):
        save(_against_leaf_size(spread, trees), folder / "figure-5.svg", dpi=110)
    plt.close("all")


def _simulation(scores: Mapping[str, np.ndarray], xlabel: str):
    """Every trial, their mean, and their quantiles."""
    figure, axes = plt.subplots(1, len(scores), figsize=(3 * len(scores), 3), layout="constrained")
    sizes = np.arange(1, LARGEST_LEAF + 1)
    for ax, (name, values) in zip(axes, scores.items(), strict=True):
        ax.plot(sizes, values.T, color="#56B4E9", linewidth=0.3, alpha=0.5)
        for low, color in ((0.1, "#009E73"), (0.25, "#CC79A7")):
            for share in (low, 1 - low):
                ax.plot(sizes, np.quantile(values, share, axis=0), color=color, linewidth=1.2)
        ax.plot(sizes, values.mean(axis=0), color="#D55E00", linewidth=1.6)
        ax.set(title=name, xlabel=xlabel)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("score")
    return figure


def _heatmap(table: pd.DataFrame):
    """Average ranks ``[methods leaf sizes]``, the best ones dark."""
    figure, ax = plt.subplots(figsize=(5.4, 0.34 * len(table) + 0.9), layout="constrained")
    values = table.to_numpy()
    image = ax.imshow(values, cmap="viridis", aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value < (values.min() + values.max()) / 2 else "black"
        ax.text(column, row, f"{value:.1f}", ha="center", va="center", color=color, fontsize=8)
    ax.set_xticks(range(table.shape[1]), [str(size) for size in table.columns])
    ax.set_yticks(range(table.shape[0]), list(table.index))
    ax.set_xlabel("least instances in a leaf")
    figure.colorbar(image, ax=ax, label="average rank")
    return figure


def _against_leaf_size(spread: pd.DataFrame, trees: pd.DataFrame):
    """Accuracy of some methods, and one, two and three standard deviations of the single trees' accuracies."""
    looks = lines_for(SHOWN)
    sets: Sequence[str] = list(dict.fromkeys(spread["set"]))
    n_rows = -(-len(sets) // 2)
    figure, axes = plt.subplots(n_rows, 2, figsize=(7.6, 3.3 * n_rows + 0.3), layout="constrained", squeeze=False)
    for ax in axes.ravel()[len(sets) :]:
        ax.remove()
    handles = {}
    for ax, name in zip(axes.ravel(), sets, strict=False):
        single = spread[spread["set"] == name].set_index("leaf_size")
        leaf_sizes = list(single.index)
        here = trees[trees["set"] == name].pivot(index="leaf_size", columns="method", values="accuracy").loc[leaf_sizes]
        near = [m for m in SHOWN[1:] if (here[m] - here[SHOWN[0]]).abs().max() < NEAR]
        values = {method: here[method].tolist() for method in SHOWN if method not in near}
        display = LeafSizeDisplay(leaf_sizes, values, measure="accuracy").plot(ax, lines=looks)
        handles |= display.lines_
        places, mean, deviation = range(len(leaf_sizes)), single["mean"].to_numpy(), single["std"].to_numpy()
        ax.plot(places, mean, color="#0072B2", linestyle="--", linewidth=1, zorder=1.5)
        for k in (3, 2, 1):
            ax.fill_between(places, mean - k * deviation, mean + k * deviation, color="#56B4E9", alpha=0.12, zorder=1)
        _cut(ax, values, mean - 3 * deviation)
        ax.set_title(name)
        if near:
            ax.set_xlabel(f"{ax.get_xlabel()}\nas {SHOWN[0]}: {', '.join(near)}")
    order = [name for name in SHOWN if name in handles]
    figure.legend([handles[name] for name in order], order, loc="outside lower center", ncols=len(order), frameon=False)
    return figure


def _cut(ax, values: Mapping[str, Sequence[float]], low: np.ndarray) -> None:
    """Let no value far below all others set the axis; an arrow says where it lies."""
    everything = np.concatenate([low, *values.values()])
    floor = np.median(everything) - FAR
    below = [(name, place, v) for name, line in values.items() for place, v in enumerate(line) if v < floor]
    if below:
        bottom, top = everything[everything >= floor].min(), ax.get_ylim()[1]
        bottom -= 0.08 * (top - bottom)
        ax.set_ylim(bottom, top)
        for name, place, value in below:
            beside, arrow = (place + 0.3, bottom + 0.06 * (top - bottom)), {"arrowstyle": "->", "linewidth": 0.8}
            ax.annotate(f"{name}: {value:.2f}", (place, bottom), beside, fontsize=8, arrowprops=arrow)

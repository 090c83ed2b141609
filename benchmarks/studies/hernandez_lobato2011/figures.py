"""Figures of the study of Hernández-Lobato et al. 2011."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from scipy.stats import binom

from benchmarks.many_sets import draw_ranking, ranking
from benchmarks.pages import save
from benchmarks.studies.hernandez_lobato2011.numbers import CONFIDENCES, KINDS, of_kind
from benchmarks.studies.hernandez_lobato2011.votes import AXIS, N_GRID, RADIUS
from jaxunc import voting
from jaxunc.compare import GREY, PALETTE, lines_for, plain

SIZES = (1, 5, 25, 100, 10_000)
SHARES = (0.501, 0.601, 0.701)
N_WALK = 200
RIVALS = (5, 3, 2, 1)
OF_FIGURE_6 = ("pima", "waveform")
OF_FIGURE_7 = ("liver", "led", "spam", "threenorm")


def draw_all(finished: Mapping[str, Any], needed: Sequence, settings: Mapping[str, Any], errors, out: Path) -> None:
    """Every figure that there are cells for."""
    with matplotlib.rc_context({"font.size": 9}):
        draw_majority(out / "figure-1.svg")
        draw_bound(out / "figure-2.svg")
        draw_walks(settings["confidence"], out / "figure-3.svg")
        if needed:
            draw_circle(np.array(needed), settings, out / "figure-4.png")
        draw_ranks(errors, out / "figure-5.svg")
        draw_settled(finished, settings["confidence"], out / "figure-6.svg")
        draw_polled(finished, out / "figure-7.svg")


def draw_majority(path: Path) -> None:
    """The probability that an ensemble votes for a class, against that of its trees."""
    p = np.linspace(0, 1, 201)
    looks = lines_for([f"t = {t}" for t in SIZES])
    ax = _axes((4.2, 3.0))
    for t, (name, look) in zip(SIZES, looks.items(), strict=True):
        chance = binom.sf(t // 2, t, p)  # equation 4: a strict majority
        ax.plot(p, chance, color=look.color, linestyle=look.dashes, label=name)
    ax.set(xlabel="p, the probability that a tree votes for class 1", ylabel="probability of predicting class 1")
    ax.legend(frameon=False)
    save(ax.figure, path)


def draw_bound(path: Path) -> None:
    """The exact probability and its lower bound, against the votes for a class."""
    own = np.arange(16)
    counts = np.column_stack([own, np.tile(RIVALS, (len(own), 1))])
    ax = _axes((4.2, 3.0))
    for (name, look), method in zip(lines_for(["exact", "lower bound"]).items(), ("exact", "bound"), strict=True):
        probability = np.asarray(voting.win_probability(counts, method=method))[:, 0]
        ax.plot(own, probability, label=name, **look.keywords())
    ax.set(xlabel="votes for the class", ylabel="probability to win", ylim=(0, 1))
    ax.legend(frameon=False)
    save(ax.figure, path)


def draw_walks(confidence: float, path: Path) -> None:
    """Three instances' votes, and where they are settled."""
    rng = np.random.default_rng(1)
    trees = np.arange(1, N_WALK + 1)
    votes = np.array([rng.random(N_WALK) < p for p in SHARES])
    stopped = voting.stop_after((~votes).astype(np.int32), 2, confidence=confidence)
    names = [f"p = {p}" for p in SHARES]
    polled, settled = np.asarray(stopped.n_trees_used).tolist(), np.asarray(stopped.settled).tolist()
    least = np.asarray(voting.critical_votes(N_WALK, confidence), float)[1:]
    critical, looks = np.where(least < 0, np.nan, least) / trees, lines_for(["settled", *names])
    ax = _axes((5.2, 3.2))
    for curve, label in ((critical, "settled"), (1 - critical, None)):  # where the other class wins, mirrored
        ax.plot(trees, curve, color=PALETTE[0], linewidth=1.6, label=label, zorder=3)
    for name, shares, at, is_settled in zip(names, np.cumsum(votes, axis=1) / trees, polled, settled, strict=True):
        look = looks[name]
        ax.plot(trees, shares, color=look.color, linestyle=look.dashes, linewidth=1.2, label=name, zorder=2)
        if is_settled:
            ax.plot([at], [shares[at - 1]], "o", color=look.color, markersize=6, zorder=4)
    plain(ax)
    ax.set(xlabel="trees polled", ylabel="share of votes", xlim=(0, N_WALK), ylim=(0.2, 1.02))
    ax.legend(frameon=False, ncols=2)
    save(ax.figure, path)


def draw_circle(needed: np.ndarray, settings: Mapping[str, Any], path: Path) -> None:
    """Mean trees polled, and how often all of them did not do, over the square."""
    settled = needed >= 0
    times = settled.sum(axis=0)
    mean = np.where(times > 0, np.where(settled, needed, 0).sum(axis=0) / np.maximum(times, 1), np.nan)
    figure = Figure(figsize=(8.4, 3.5), layout="constrained")
    maps = (
        (mean, "mean trees polled", LogNorm()),
        (1 - times / len(needed), f"not settled by {settings['infinite']} trees", Normalize()),
    )
    angle, end = np.linspace(0, 2 * np.pi, 200), 1 + (AXIS[1] - AXIS[0]) / 2
    for place, (values, measure, norm) in enumerate(maps):
        ax = figure.add_subplot(1, 2, place + 1)
        shown = np.ma.masked_invalid(values.reshape(N_GRID, N_GRID))
        how = {"origin": "lower", "extent": (-end, end, -end, end), "interpolation": "nearest"}
        image = ax.imshow(shown, cmap=matplotlib.colormaps["cividis_r"].with_extremes(bad=GREY), norm=norm, **how)
        figure.colorbar(image, ax=ax).set_label(measure)
        ax.plot(RADIUS * np.cos(angle), RADIUS * np.sin(angle), color="white", linewidth=0.8)
        ax.set_aspect("equal")
    save(figure, path, dpi=80)


def draw_ranks(errors: Mapping[str, np.ndarray], path: Path) -> None:
    """Average ranks of fixed-size, instance-based and large ensembles."""
    figure = Figure(figsize=(8.4, 2.2), layout="constrained")
    for place, (kind, values) in enumerate(errors.items()):
        ax = figure.add_subplot(1, 2, place + 1)
        ax.set_title(KINDS[kind], fontsize=10)
        draw_ranking(ax, ranking(values, larger_is_better=False), ["FS", "IB", "infinite"])
    save(figure, path)


def draw_settled(finished: Mapping[str, Any], confidence: float, path: Path) -> None:
    """Share settled against the confidence."""
    figure = Figure(figsize=(8.4, 3.0), layout="constrained")
    there = [name for name in OF_FIGURE_6 if name in finished]
    for place, name in enumerate(there):
        ax = figure.add_subplot(1, len(there), place + 1)
        for (kind, said), look in zip(KINDS.items(), lines_for(list(KINDS)).values(), strict=True):
            records = of_kind(finished[name], kind)
            n_settled = np.sum([record["confidences"] for record in records], axis=0)[:, 0]
            shares = n_settled / sum(record["n"] for record in records)
            ax.plot(CONFIDENCES, shares, label=said, linewidth=1.6, zorder=3, **look.keywords())
        ax.axvline(confidence, color="#777777", linestyle=":", linewidth=1.2)
        plain(ax)
        ax.set(xlabel="confidence", ylabel="share of instances settled", ylim=(0, 1.02))
        ax.set_title(name, fontsize=10)
        ax.legend(frameon=False, loc="lower left")
    save(figure, path)


def draw_polled(finished: Mapping[str, Any], path: Path) -> None:
    """How many trees the instances took, of bagging."""
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    there = [name for name in OF_FIGURE_7 if name in finished]
    for place, name in enumerate(there):
        ax = figure.add_subplot(2, 2, place + 1)
        records = of_kind(finished[name], "bagging")
        polled = np.sum([record["polled"] for record in records], axis=0)
        n, trees = sum(record["n"] for record in records), np.arange(1, len(polled) + 1)
        ax.bar(trees, polled / n, width=1.0, color=PALETTE[1])
        if n > polled.sum():
            unsettled, beyond = 1 - polled.sum() / n, 1.06 * len(polled)
            ax.bar([beyond], [unsettled], width=0.04 * len(polled), color=GREY, label="unsettled")
            ax.legend(frameon=False)
        if polled.any():
            ax.axvline((trees * polled).sum() / polled.sum(), color=PALETTE[2], linestyle="--", linewidth=1.2)
        plain(ax)
        ax.set(xlabel="trees polled", ylabel="share of instances")
        ax.set_yscale("log")
        ax.set_title(name, fontsize=10)
    save(figure, path)


def _axes(size: tuple[float, float]):
    ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax

"""Tables and figures of the study of cautious forests, and what they say of the slides' claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pages import fill, save, table
from jaxunc.compare import SetSizeDisplay, StrengthDisplay

TEMPLATE = Path(__file__).with_name("page.md")
LEAF_SIZES = (1, 5)
COUNTS = ("inbag", "oob")
COUNTS_IN_WORDS = {"inbag": "in-bag", "oob": "out-of-bag"}
RULES = ("equal", "leaf_size", "certainty", "averaged")
"""The three masses, and the slides' baseline."""
STRENGTHS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30)
TITLES = {
    "u65": "u65", "u80": "u80", "u50": "u50 (discounted accuracy)", "determinacy": "determinacy",
    "single": "accuracy on single classes", "size": "set size",
}  # fmt: skip
_UTILITIES = {"u50": (1.0, 0.0), "u65": (1.6, 0.6), "u80": (2.2, 1.2)}
SETTINGS = tuple((leaf_size, counts) for leaf_size in LEAF_SIZES for counts in COUNTS)


def measure(tallies, name: str) -> np.ndarray:
    """A measure of tallies ``[..., 2 classes]``: sets of one class, right ones among them, and so on."""
    pairs = np.asarray(tallies, float).reshape(*np.shape(tallies)[:-1], -1, 2)
    n, right = np.moveaxis(pairs, -1, 0)
    sizes = 1 + np.arange(n.shape[-1])
    if name == "single":
        return np.where(n[..., 0] > 0, right[..., 0] / np.maximum(n[..., 0], 1), np.nan)
    if name == "determinacy":
        return n[..., 0] / n.sum(axis=-1)
    if name == "size":
        return (n * sizes).sum(axis=-1) / n.sum(axis=-1)
    a, b = _UTILITIES[name]
    return (right * (a / sizes - b / sizes**2)).sum(axis=-1) / n.sum(axis=-1)


def tallies(found: Mapping[Any, Mapping], leaf_size: int, counts: str, rule: str) -> np.ndarray:
    """Of a set, added over repetitions: ``[strengths, 2 classes]``, or ``[2 classes]`` of the mean."""
    return np.sum([record[counts][rule] for cell, record in found.items() if cell.leaf_size == leaf_size], axis=0)


def values(finished: Mapping[str, Mapping], setting, rule: str, name: str) -> np.ndarray:
    """``[sets strengths]``, or ``[sets]`` of the mean of probabilities."""
    return np.stack([measure(tallies(found, *setting, rule), name) for found in finished.values()])


def beside(finished: Mapping[str, Mapping], setting, rule: str, other: str) -> np.ndarray:
    """By how much the u65 of a rule exceeds that of another one where both decide as often.

    A value for each set and s of the rule whose determinacy the other one has too, between neighbouring s of its own.
    Of two classes u80 and u50 differ by the same: it is the share of right decisions that differs.
    """
    mine, others = ([values(finished, setting, of, name) for name in ("determinacy", "u65")] for of in (rule, other))
    gains = []
    for at, u65, decided, other_u65 in zip(*mine, *others, strict=True):
        order = np.argsort(decided, kind="stable")
        gains.append(u65 - np.interp(at, decided[order], other_u65[order], left=np.nan, right=np.nan))
    gains = np.concatenate(gains)
    return gains[np.isfinite(gains)]


def of_classes(finished: Mapping[str, Mapping], *, binary: bool) -> dict[str, Mapping]:
    """The sets of two classes, or those of more."""
    sizes = {name: len(next(iter(found.values()))["inbag"]["mean"]) for name, found in finished.items()}
    return {name: found for name, found in finished.items() if (sizes[name] == 4) == binary}


def study_page(finished: Mapping[str, Mapping], out: Path) -> str:
    """The page; its figures are written to ``out``."""
    two, more = (of_classes(finished, binary=binary) for binary in (True, False))
    sections = []
    if two:
        draw_sets(two, out / "figure-1.png")
        draw_means(two, out / "figure-2.png")
        means = lambda name: _means(two, name)
        sections.append(fill(TEMPLATE, "binary", n=len(two), means=means, beside=_beside(two), best=_best(two)))
    if more:
        draw_sizes(more, out / "figure-3.png")
        strengths, means = ", ".join(f"{s:g}" for s in STRENGTHS), lambda name: _means(more, name)
        sections.append(fill(TEMPLATE, "more classes", strengths=strengths, means=means, best=_best(more)))
    n_repeats = len({cell.repeat for found in finished.values() for cell in found})
    return fill(TEMPLATE, n_repeats=n_repeats, sections="\n\n".join(sections))


def _means(finished, name: str) -> str:
    """Means over the sets: a row for each setting and rule. NaN (nothing is decided on some set) is left open."""
    lines = []
    for setting in SETTINGS:
        label = f"{setting[0]}, {setting[1]}"
        mean = values(finished, setting, "mean", name).mean()
        lines.append([label, "mean", f"{mean:.3f}", *[""] * len(STRENGTHS)])
        for rule in RULES:
            means = values(finished, setting, rule, name).mean(axis=0)
            lines.append(["", rule, "", *(f"{mean:.3f}" if np.isfinite(mean) else "–" for mean in means)])
    return table(["least leaf, counts", "", "s: none", *(f"{s:g}" for s in STRENGTHS)], lines)


def _beside(finished) -> str:
    lines = []
    for setting in SETTINGS:
        for rule in RULES[:-1]:
            gains = [beside(finished, setting, rule, "averaged"), -beside(finished, setting, "averaged", rule)]
            cells = [f"{g.mean():+.4f} ± {g.std():.4f} ({len(g)})" if len(g) else "" for g in gains]
            lines.append([f"{setting[0]}, {setting[1]}", rule, *cells])
    return table(["least leaf, counts", "mass", "at the s of the mass", "at the s of the baseline"], lines)


def _best(finished) -> str:
    lines = []
    for counts in COUNTS:
        for i, name in enumerate(finished):
            cells = [f"{values(finished, (1, counts), 'mean', 'u65')[i]:.3f}"]
            for rule in RULES:
                line = values(finished, (1, counts), rule, "u65")[i]
                cells.append(f"{line.max():.3f} ({STRENGTHS[int(line.argmax())]:g})")
            lines.append([counts, name, *cells])
    return table(["counts", "set", "mean", *RULES], lines)


def draw_sets(finished, path: Path) -> None:
    """u65 against s, a picture for each set."""
    figure, axes = _grid(len(finished), 4)
    for i, (name, ax) in enumerate(zip(finished, axes, strict=True)):
        lines = {rule: values(finished, (1, "inbag"), rule, "u65")[i].tolist() for rule in RULES}
        reference = {"mean": float(values(finished, (1, "inbag"), "mean", "u65")[i])}
        StrengthDisplay(STRENGTHS, lines, measure="u65", reference=reference).plot(ax)
        ax.set_title(name, fontsize=10)
        if i % 4:
            ax.set_ylabel("")
    _finish(figure, axes, path)


def draw_means(finished, path: Path) -> None:
    """Means over the sets: measures by columns, counts by rows."""
    names = ("u65", "u80", "determinacy")
    figure, axes = _grid(2 * len(names), len(names))
    for place, ax in enumerate(axes):
        setting, name = (1, COUNTS[place // len(names)]), names[place % len(names)]
        lines = {rule: values(finished, setting, rule, name).mean(axis=0).tolist() for rule in RULES}
        reference = {"mean": float(values(finished, setting, "mean", name).mean())}
        StrengthDisplay(STRENGTHS, lines, measure=TITLES[name], reference=reference).plot(ax)
        ax.set_title(f"{TITLES[name]}, {COUNTS_IN_WORDS[setting[1]]}", fontsize=10)
        ax.set_ylabel("")
    for column in range(len(names)):
        both = [axes[column], axes[column + len(names)]]
        limits = [f(ax.get_ylim()[end] for ax in both) for end, f in enumerate((min, max))]
        for ax in both:
            ax.set_ylim(limits)
    _finish(figure, axes, path)


def draw_sizes(finished, path: Path) -> None:
    """Shares of set sizes against s, a picture for each set."""
    figure, axes = _grid(len(finished), 3)
    for (name, found), ax in zip(finished.items(), axes, strict=True):
        sizes = tallies(found, 1, "oob", "equal")[:, ::2]
        SetSizeDisplay(STRENGTHS, sizes / sizes.sum(axis=1, keepdims=True)).plot(ax)
        ax.get_legend().set_title("classes\nin the set")
        ax.set_xticks(range(len(STRENGTHS)), [f"{s:g}" if i % 2 else "" for i, s in enumerate(STRENGTHS)])
        ax.set_title(name, fontsize=10)
    save(figure, path, dpi=80)


def _grid(n: int, n_columns: int):
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(3.3 * n_columns, 2.7 * n_rows), layout="constrained")
    return figure, [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n)]


def _finish(figure, axes: Sequence, path: Path) -> None:
    """One legend for all, and the file."""
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    save(figure, path, dpi=80)

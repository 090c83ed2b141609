"""Tables and figures of the study of cautious forests, and what they say of the slides' claims."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxunc.compare import SetSizeDisplay, StrengthDisplay

LEAF_SIZES = (1, 5)
COUNTS = ("inbag", "oob")
COUNTS_IN_WORDS = {"inbag": "in-bag", "oob": "out-of-bag"}
RULES = ("equal", "leaf_size", "certainty", "averaged")
"""The three masses, and the slides' baseline."""
STRENGTHS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30)
TITLES = {
    "u65": "u65",
    "u80": "u80",
    "u50": "u50 (discounted accuracy)",
    "determinacy": "determinacy",
    "single": "accuracy on single classes",
    "size": "set size",
}
_UTILITIES = {"u50": (1.0, 0.0), "u65": (1.6, 0.6), "u80": (2.2, 1.2)}
SETTINGS = tuple((leaf_size, counts) for leaf_size in LEAF_SIZES for counts in COUNTS)
READING = """
On the binary sets, in forests grown out and read in-bag (probably the slides' setting) unless it says otherwise:

* **"Less cautious than the baseline": holds.** At no s and on no set does a mass decide on fewer instances than the
  averaged intervals, with in-bag or out-of-bag counts. With five instances in a leaf there are 19 exceptions in 480
  cases, by .03 at most (.002 in the means over the sets).
* **"A better compromise (u65) when s is large": holds, at the same s.** From s = 5 on each mass is ahead of the
  baseline in the mean, by .011 to .024 there and by .022 to .078 at s = 30. At s = 0.5 and 1 the baseline is ahead, by
  .009 to .019.
* **But s is another scale for each rule.** What the masses keep at large s the baseline has at small ones. The best
  mean u65 over s is .846 (equal masses), .844 (certainty), .832 (leaf size), and .847 of the baseline; and where both
  decide on as many instances, equal masses are right as often as the baseline (u65 -.001), masses of certainty and of
  leaf size less often (-.004 and -.01). (The best s is chosen on the data it is judged by, for all rules alike.)
  Whoever can choose s gains nothing by the vote; what it gives is that a poorly chosen, large s does less harm.
* **"Robust to high epistemic uncertainty": in that sense.** At s = 30, where an interval is wide in all but the largest
  leaves, u65 is .040 below that of always deciding with masses of certainty, .084 with equal ones, .106 with the
  baseline. Which is also to say that each of them is below.
* **"Masses by epistemic uncertainty are much more fruitful when s is large": holds against equal masses**, by .010 at
  s = 5 and .045 at s = 30. Masses of leaf size are yet better from s = 15 on (by .007 to .011), where they decide yet
  more often. At no s are they worth as much as always deciding by the mean of all trees.
* **Caution pays by what doubt is thought to be worth.** With the best s the gain over always deciding is .010 by u65
  and .045 by u80; by u50 there is none. It takes s = 2 or 3 by u65, and s = 5 to 7 by u80 (equal masses).
* **Which counts.** In-bag, the leaves are pure, no tree abstains at s = 1, and equal masses decide on everything;
  out-of-bag counts decide on .79 there, and on .58 at s = 2. By the best mean u65 and u80 in-bag counts are ahead (.846
  and .881 against .834 and .879). With out-of-bag counts s = 1 is much already.
* **More classes.** In the means over six sets the claims hold again from s = 5 on. But with in-bag counts a leaf that
  is pure prefers its class to all others alike, so that a vote leaves one class or all of them (between lie .04 of the
  sets of cmc, where leaves are not pure, and none elsewhere), and the baseline is better where both may choose s: best
  mean u65 .816 against .794 to .805. Out-of-bag counts put that right: .807 to .818 against .781 of the baseline, and
  .806 of always deciding.
"""
SINGLE = """
Of what is decided, the share that is right. A dash: on some set nothing is decided, so there is no mean. Every set
weighs the same, however little it decides, so that the mean may fall at large s: at s = 20, equal masses on liver
(grown out, in-bag) decide on .4 % of the instances and are right on half of them.
""".strip()


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
    n_repeats = len({cell.repeat for found in finished.values() for cell in found})
    parts = [
        "# Cautious forests: a study in the manner of Zhang, Quost and Masson 2021",
        "*The slides* are those of their talk, *Cautious random forests: a new decision strategy and some experiments* "
        "(ISIPTA 2021). They name neither their eight binary sets nor how forests were grown, nor the values of s. So "
        "this is no repetition: their claims are tried on eight common sets of the UCI repository, on forests grown "
        "out and with five instances in a leaf at least, and for s from 0.5 to 30. Made by `python -m "
        f"benchmarks zhang2021` in nine minutes of one core: ten-fold cross-validation, {n_repeats} times, "
        "random forests of 100 trees.",
        "*s* is the number of instances that, one pretends, could yet be added to each leaf: a tree is for a class if "
        "its leaf has at least s instances more of it than of the other, and else abstains. *Mass* is a tree's weight "
        "in the vote: the same for all (`equal`), the number N of instances in its leaf (`leaf_size`), or N/(N + s) "
        "(`certainty`); a class is decided for with half of the mass. `averaged`, the slides' baseline, decides where "
        "the mean of the trees' intervals lies on one side of one half; `mean` is a forest that always names the class "
        "with the largest mean probability (its accuracy is its utility). `inbag`: the counts of the sample that a "
        "tree was grown on, as scikit-learn has them; `oob`: of the instances that it was grown without. "
        "A set is worth 1 if it is the class alone, .65 (u65), .80 (u80) or .50 (u50) if it is both classes.",
    ]
    if READING:
        parts += ["## What holds", READING.strip()]
    if two:
        draw_sets(two, out / "figure-1.png")
        draw_means(two, out / "figure-2.png")
        parts += [
            "## Figure 1: u65 against s",
            "Grown-out forests, in-bag counts.",
            "![u65 against s on eight binary sets, a line for each kind of mass: most fall once s is "
            "more than 5](figure-1.png)",
            "## Figure 2: what larger s costs and brings",
            f"Grown-out forests, means over {len(two)} binary sets; in-bag counts above, out-of-bag counts below.",
            "![u65, u80 and determinacy against s, in-bag above, out-of-bag below: determinacy falls "
            "throughout, u80 rises first](figure-2.png)",
        ]
        for name, title in TITLES.items():
            parts += [f"## {title[0].upper()}{title[1:]}", *([SINGLE] if name == "single" else []), _means(two, name)]
        parts += ["## As often decided as the baseline", _beside(two)]
        parts += ["## The best s of each set", _best(two)]
    if more:
        draw_sizes(more, out / "figure-3.png")
        parts += [
            "## More classes",
            "The pairwise rule, an extension: a class is rejected if half of the mass prefers some other one. The "
            "baseline rejects by interval dominance.",
            "![Stacked bars of set sizes against s on six sets: mostly one class where s is small, "
            "all classes where it is large](figure-3.png)",
            "Share of sets by their size: grown-out forests, out-of-bag counts, equal masses; "
            f"s = {', '.join(f'{s:g}' for s in STRENGTHS)}, every second one labelled. (With in-bag counts "
            "leaves are pure, and a tree prefers its class to all others alike: a set is one class, or all of them.)",
        ]
        for name in ("u65", "u80", "determinacy", "single", "size"):
            parts += [f"### {TITLES[name][0].upper()}{TITLES[name][1:]}", _means(more, name)]
        parts += ["### The best s of each set", _best(more)]
    return "\n\n".join(parts) + "\n"


def _means(finished, name: str) -> str:
    """Means over the sets: a row for each setting and rule. NaN (nothing is decided on some set) is left open."""
    lines = []
    for setting in SETTINGS:
        label = f"{setting[0]}, {setting[1]}"
        mean = values(finished, setting, "mean", name).mean()
        lines.append([label, "mean", f"{mean:.3f}", *[""] * len(STRENGTHS)])
        for rule in RULES:
            lines.append(["", rule, "", *_numbers(values(finished, setting, rule, name).mean(axis=0))])
    return _table(["least leaf, counts", "", "s: none", *(f"{s:g}" for s in STRENGTHS)], lines)


def _beside(finished) -> str:
    lines = []
    for setting in SETTINGS:
        for rule in RULES[:-1]:
            gains = [beside(finished, setting, rule, "averaged"), -beside(finished, setting, "averaged", rule)]
            cells = [f"{g.mean():+.4f} ± {g.std():.4f} ({len(g)})" if len(g) else "" for g in gains]
            lines.append([f"{setting[0]}, {setting[1]}", rule, *cells])
    return (
        "By how much the u65 of each mass exceeds that of the baseline where both decide on as many instances: mean ± "
        "standard deviation (number of pairs of a set and an s). In the first column each s of the mass is compared "
        "with the baseline interpolated to the same determinacy, in the second each s of the baseline with the "
        "mass.\n\n" + _table(["least leaf, counts", "mass", "at the s of the mass", "at the s of the baseline"], lines)
    )


def _best(finished) -> str:
    lines = []
    for counts in COUNTS:
        for i, name in enumerate(finished):
            cells = [f"{values(finished, (1, counts), 'mean', 'u65')[i]:.3f}"]
            for rule in RULES:
                line = values(finished, (1, counts), rule, "u65")[i]
                cells.append(f"{line.max():.3f} ({STRENGTHS[int(line.argmax())]:g})")
            lines.append([counts, name, *cells])
    return "Grown-out forests: the largest u65, and at which s (the smallest of equals).\n\n" + _table(
        ["counts", "set", "mean", *RULES], lines
    )


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
    figure.savefig(path, dpi=80, metadata={"Software": None})


def _grid(n: int, n_columns: int):
    """A figure with axes in rows."""
    from matplotlib.figure import Figure

    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(3.3 * n_columns, 2.7 * n_rows), layout="constrained")
    return figure, [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n)]


def _finish(figure, axes: Sequence, path: Path) -> None:
    """One legend for all, and the file."""
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=80, metadata={"Software": None})


def _numbers(row: Iterable[float]) -> list[str]:
    return [f"{value:.3f}" if np.isfinite(value) else "–" for value in row]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)

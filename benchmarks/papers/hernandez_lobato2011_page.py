"""Tables of the study of Hernández-Lobato et al. 2011, beside the paper's, and what they say of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import hernandez_lobato2011_circle as circle
from benchmarks.papers import hernandez_lobato2011_figures as figures
from benchmarks.papers.hernandez_lobato2011_measures import (
    KINDS,
    RULES,
    Found,
    columns,
    doubt,
    errors,
    of_kind,
    rate,
)
from benchmarks.papers.hernandez_lobato2011_problems import N_TEST, N_TRAIN
from benchmarks.papers.hernandez_lobato2011_reading import reading
from benchmarks.papers.hernandez_lobato2011_tables import PAPER
from jaxunc.compare import average_ranks, cliques, friedman, nemenyi_difference

TABLES = {"bagging": "Table 2: bagging", "forest": "Table 3: random forests"}
METHODS = {"error_fixed": "FS", "error": "IB", "error_infinite": "infinite"}
COLUMNS = (
    *("% settled", "trees"),
    *("disagree FS %", "disagree IB %", "error FS %", "error IB %", "error infinite %"),
)


def study_page(
    finished: Mapping[str, Found],
    needed: Sequence[Sequence[int]],
    settings: Mapping[str, Any],
    out: Path,
    constant: Sequence[Mapping] = (),
) -> str:
    """The page; its figures are written to ``out``. ``constant``: see `reading`."""
    figures.draw_all(finished, needed, settings, {kind: errors(finished, kind) for kind in TABLES}, out)
    parts = [
        "# Votes that stop: the study of Hernández-Lobato, Martínez-Muñoz and Suárez 2011",
        _what_was_run(finished, needed, settings),
    ]
    parts += ["## What holds", reading(finished, settings["confidence"], constant)]
    for kind, title in TABLES.items():
        parts += [f"## {title}", _beside_the_paper(finished, kind)]
    parts += ["## Is the confidence kept?", _kept(finished, settings["confidence"])]
    parts += ["## The bound, the exact probability, and fitted priors", _rules(finished, settings["confidence"])]
    parts += ["## Are FS, IB and infinite ensembles told apart?", _tests(finished), "![Figure 5](figure-5.svg)"]
    parts += ["## Figures", FIGURES.strip()]
    if needed:
        parts += [FIGURE_4.strip().format(n_circles=len(needed), **CIRCLE, **settings), "![Figure 4](figure-4.png)"]
    return "\n\n".join(parts) + "\n"


FIGURES = """
Figure 1: the probability that t trees vote for class 1, if each does with probability p. Figure 2: the exact
probability of a class to win, and its lower bound, against its votes; its four rivals have 5, 3, 2 and 1.

![Figure 1](figure-1.svg) ![Figure 2](figure-2.svg)

Figure 3: votes drawn for three values of p, and the critical share. Figure 6: the share of instances settled by the
trees that are polled, against the confidence. Figure 7, not in the paper: how many trees the instances of four
problems took.

![Figure 3](figure-3.svg) ![Figure 6](figure-6.svg)

![Figure 7](figure-7.svg)
"""
FIGURE_4 = """
Figure 4: the mean number of trees until the vote was settled, and the share of the repetitions in which it was not
with all trees of the large ensemble, over the square with the circle. Bagged trees on {n_train} instances drawn from
the square [-1, 1]², of which {noise:.0%} have the other class; {n_grid} × {n_grid} points; up to {infinite} trees at a
confidence of {confidence:g}; repetitions: {n_circles}. The circle has the radius √(2/π), which halves the square (the
paper's √2 holds all of it).
"""
CIRCLE = {"n_train": circle.N_TRAIN, "noise": circle.NOISE, "n_grid": circle.N_GRID}


def _what_was_run(finished: Mapping[str, Found], needed: Sequence, settings: Mapping[str, Any]) -> str:
    repeats: dict[int, list[str]] = {}
    for name, found in finished.items():
        repeats.setdefault(len(of_kind(found, "bagging")), []).append(name)
    most = max(repeats)
    others = "".join(f", {n} of {', '.join(names)}" for n, names in repeats.items() if n != most)
    return (
        f"Made by `python -m benchmarks.papers.hernandez_lobato2011 --repetitions {most}`; repetitions: {most}{others} "
        "(the paper: 100); "
        f"two thirds of a set are grown on and the rest asked, or {N_TRAIN} and {N_TEST} instances are drawn. At most "
        f"{settings['trees']} trees are polled, at a confidence of {settings['confidence']:g}; {settings['infinite']} "
        "further trees on the same sample, none of them polled, stand for the infinite ensemble (the paper: 10 000; "
        "whether the polled ones are among them it does not say). Trees are scikit-learn's, grown out on bootstrap "
        "samples, choosing among all features (bagging) or among the root of their number (random forest); a tree "
        "votes for the commonest class of its leaf, the lowest of several. Missing values of breast (16) go where the "
        "trees send them; ringnorm has a = 1/√20.\n\n"
        "*IB*, instance-based: trees are polled until the class in the lead wins the infinite vote with the confidence "
        "asked for. *FS*, fixed-size: as many trees for all instances as IB takes in the mean, rounded up, the first "
        "of the same sequence. All columns but the first are over the instances that IB settles; ± is the standard "
        "deviation over the repetitions."
    )


def _beside_the_paper(finished: Mapping[str, Found], kind: str) -> str:
    lines = []
    for name, found in finished.items():
        values = columns(found, kind)
        spread = np.nanstd(values, axis=0, ddof=1) if len(values) > 1 else np.full(len(COLUMNS), np.nan)
        lines.append([name, "ours", *map(_plus_minus, np.nanmean(values, axis=0), spread)])
        printed = PAPER[kind].get(name)
        lines.append(
            ["", "paper", *(("–",) * len(COLUMNS) if printed is None else (_plus_minus(*of) for of in printed))]
        )
    return _table(["problem", "", *COLUMNS], lines)


def _kept(finished: Mapping[str, Found], confidence: float) -> str:
    lines = []
    for name, found in finished.items():
        line = [name]
        for kind in TABLES:
            for rule in ("bound", "fitted"):
                of = rate(found, kind, rule, confidence)
                line.append(f"{of.mean:.2f} ± {of.error:.2f} ({doubt(found, kind, rule):.2f}) {of.verdict}")
        lines.append(line)
    head = ["problem"]
    for kind in KINDS.values():
        head += [f"{kind}, uniform prior", f"{kind}, fitted prior"]
    return (
        f"Disagreement of IB with the large ensemble in per cent of the settled instances, its standard error, and "
        f"whether it is at most {100 * (1 - confidence):g} % (*within error*: within two standard errors above). "
        "In brackets: per cent of the settled instances in which the large ensemble itself, being finite, is expected, "
        "at most, to differ from the infinite one, by its own votes.\n\n" + _table(head, lines)
    )


def _rules(finished: Mapping[str, Found], confidence: float) -> str:
    lines = []
    for name, found in finished.items():
        for kind, said in KINDS.items():
            line = [name if kind == "bagging" else "", said]
            for rule in RULES:
                values = np.nanmean(columns(found, kind, rule), axis=0)
                line.append(f"{values[0]:.1f}, {values[1]:.1f}, {values[3]:.2f}")
            priors = [record["prior"] for record in of_kind(found, kind)]
            line.append(", ".join(f"{v:.2g}" for v in np.median([p["fitted"] for p in priors], axis=0)))
            line.append(f"{np.median([p['symmetric'][0] for p in priors]):.2g}")
            lines.append(line)
    return (
        "Per cent settled, mean trees polled, and disagreement with the large ensemble in per cent. *Bound* and "
        "*exact* have a uniform prior, and are the same for two classes. *Fitted* and *symmetric* are the bound under "
        "a Dirichlet prior, with an α for each class or one for all, fitted on the votes that the training instances "
        "get from those of the polled trees that were grown without them; medians of α over the repetitions.\n\n"
        + _table(["problem", "kind", *RULES, "α fitted", "α symmetric"], lines)
    )


def _tests(finished: Mapping[str, Found]) -> str:
    lines = []
    for kind, said in KINDS.items():
        printed = np.array([[row.error_fixed[0], row.error[0], row.error_infinite[0]] for row in PAPER[kind].values()])
        for source, values in {"ours": errors(finished, kind), "paper, as printed": printed}.items():
            if len(values) < 2:
                continue
            ranks = average_ranks(values, larger_is_better=False)
            test, difference = friedman(values), nemenyi_difference(len(METHODS), len(values))
            groups = cliques(ranks, np.abs(ranks[:, None] - ranks) > difference)
            names = list(METHODS.values())
            together = "; ".join(" = ".join(names[i] for i in group) for group in groups) or "none"
            values_said = [f"{rank:.2f}" for rank in ranks]
            lines.append([said, source, *values_said, f"{test.p_value:.2g}", f"{difference:.2f}", together])
    head = [
        "kind",
        "",
        *(f"rank {name}" for name in METHODS.values()),
        "Friedman p",
        "critical difference",
        "not apart",
    ]
    return (
        "Errors over the settled instances, ranked on every problem (1 is best); Friedman's test, and Nemenyi's at "
        ".05: which are not told apart.\n\n" + _table(head, lines)
    )


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.1f}±{spread:.1f}" if np.isfinite(spread) else f"{mean:.1f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)

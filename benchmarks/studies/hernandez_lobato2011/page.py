"""Tables of the study of Hernández-Lobato et al. 2011, beside the paper's, and what they say of it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.many_sets import cliques, friedman, nemenyi_difference
from benchmarks.studies.hernandez_lobato2011 import figures
from benchmarks.studies.hernandez_lobato2011.numbers import (
    KINDS,
    PAPER,
    RULES,
    Found,
    columns,
    doubt,
    errors,
    of_kind,
    rate,
    shares,
)
from benchmarks.studies.hernandez_lobato2011.votes import N_CIRCLE, N_GRID, N_TEST, N_TRAIN, NOISE
from jaxunc.compare import average_ranks

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
    parts += [
        "## Are FS, IB and infinite ensembles told apart?",
        _tests(finished),
        "![Critical-difference diagrams: with bagging IB and the infinite ensemble are joined and FS "
        "lies apart, with random forests all three are joined](figure-5.svg)",
    ]
    parts += ["## Figures", FIGURES.strip()]
    if needed:
        parts += [
            FIGURE_4.strip().format(n_circles=len(needed), **CIRCLE, **settings),
            "![Two maps of the square: more trees are polled along the circle, and the votes that "
            "stay unsettled lie there](figure-4.png)",
        ]
    return "\n\n".join(parts) + "\n"


FIGURES = """
Figure 1: the probability that t trees vote for class 1, if each does with probability p. Figure 2: the exact
probability of a class to win, and its lower bound, against its votes; its four rivals have 5, 3, 2 and 1.

![Curves through the middle of the square, from the diagonal of one tree to nearly a step of 10000](figure-1.svg)
![Both rise from 0 to 1 with the votes for the class, the lower bound a little below](figure-2.svg)

Figure 3: votes drawn for three values of p, and the critical share. Figure 6: the share of instances settled by the
trees that are polled, against the confidence. Figure 7, not in the paper: how many trees the instances of four
problems took.

![Shares of votes against trees polled: of p = .701 it crosses the critical share after about 30 trees, of .601 after
about 70, of .501 not within 200](figure-3.svg)
![Nearly all instances are settled up to a confidence of .95; about three quarters at .999](figure-6.svg)

![Histograms of trees polled on liver, led, spam and threenorm: most instances take few, with a long tail and some
left unsettled](figure-7.svg)
"""
FIGURE_4 = """
Figure 4: the mean number of trees until the vote was settled, and the share of the repetitions in which it was not
with all trees of the large ensemble, over the square with the circle. Bagged trees on {n_train} instances drawn from
the square [-1, 1]², of which {noise:.0%} have the other class; {n_grid} × {n_grid} points; up to {infinite} trees at a
confidence of {confidence:g}; repetitions: {n_circles}. The circle has the radius √(2/π), which halves the square (the
paper's √2 holds all of it).
"""
CIRCLE = {"n_train": N_CIRCLE, "noise": NOISE, "n_grid": N_GRID}


def _what_was_run(finished: Mapping[str, Found], needed: Sequence, settings: Mapping[str, Any]) -> str:
    repeats: dict[int, list[str]] = {}
    for name, found in finished.items():
        repeats.setdefault(len(of_kind(found, "bagging")), []).append(name)
    most = max(repeats)
    others = "".join(f", {n} of {', '.join(names)}" for n, names in repeats.items() if n != most)
    return (
        f"Made by `python -m benchmarks hernandez_lobato2011 --repetitions {most}`; repetitions: {most}{others} "
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


# What the cells of the study of Hernández-Lobato et al. 2011 say of its claims.

READING = """
* **The tables are reproduced.** Of the {n_rows} rows the share settled differs from the paper's by {settled_middle:.1f}
  points in the median, the number of trees by {trees_middle:.1f}; the furthest are {settled_most} and {trees_most}.
{constant}* **"A large fraction" of instances, "a fairly small number" of trees: holds.** {settled_least:.0f} to
  {settled_largest:.0f} % are settled, by {trees_least:.0f} to {trees_largest:.0f} trees in the mean.
* **"Generally below 1 %": {verdict}.** IB disagrees with the large ensemble by {mean_ib:.2f} % in the mean over
  problems and kinds; in {n_yes} of {n} by at most what was allowed, in {n_within} by more, but within two standard
  errors, in {n_no} by more than that{named_no}. So few repetitions leave wide errors on single problems. Threenorm and
  liver, which the paper names, are above here too: {threenorm} %, and {liver} % (bagging, random forest), of which up
  to {doubt:.1f} may be the large ensemble's own.
* **"Much larger with a fixed size": holds.** FS disagrees by {mean_fs:.2f} % in the mean, and by more than IB in
  {n_fs_more} of {n}.
* **A fitted prior helps where the uniform one fails.** It believes what the votes of other instances show, in both
  directions. Where many instances are doubtful (α > 1: {doubtful}) it asks for more trees: threenorm and liver then
  disagree by {threenorm_fitted} %, and {liver_fitted} %, less in {n_less} of {n_named} cases. Where few are (α < 1,
  most problems) it asks for fewer, {trees_fitted:.1f} instead of {trees_bound:.1f} in the mean over all, and spends
  some of what the uniform prior leaves over: {mean_fitted:.2f} % disagree in the mean, in {n_fitted_yes} of {n} by at
  most what was allowed, in {n_fitted_within} within two standard errors above, in {n_fitted_no}
  beyond{named_fitted_no}.
* **"Fairly tight": holds.** With three classes and more the exact probability saves {saved:.2f} trees in the mean over
  those problems, {saved_most:.2f} at most, and settles {more_settled:.2f} points more.
* **"Almost negligible" differences of error: holds.** IB and the large ensemble differ by {apart_ib:.2f} points in the
  mean, FS and the large ensemble by {apart_fs:.2f}.
* **"No significant differences" of IB to infinite ensembles, but of FS: {tests}.** By Friedman's and Nemenyi's tests at
  .05; the table below has the ranks, and those of the paper's own tables.
"""


CONSTANT = """
  On led it matters what a node does whose drawn features are all constant: scikit-learn's draws on, those of Breiman's
  program and of R's become leaves. Votes of such trees (`--parts constant`, repetitions: {n}) are settled
  in {settled:.1f} % of the instances, by {trees:.1f} trees, and err in {error:.1f} % (the paper: {paper_settled},
  {paper_trees}, {paper_error}). How many features a node draws, which the paper does not say, is not the reason: with
  1 to 7 scikit-learn's forests take 14 to 16 trees.
"""


def reading(finished: Mapping[str, Found], confidence: float, constant: Sequence[Mapping] = ()) -> str:
    """The claims, with the numbers of the cells; ``constant``: of led, by `run_constant`."""
    said = {**_tables(finished), **_confidence(finished, confidence), **_other_rules(finished), **_errors(finished)}
    return READING.strip().format(**said, constant=_constant(constant))


def _constant(records: Sequence[Mapping]) -> str:
    if not records:
        return ""
    values = np.nanmean([shares(record, "bound") for record in records], axis=0)
    printed = PAPER["forest"]["led"]
    paper = {"paper_settled": printed.settled[0], "paper_trees": printed.trees[0], "paper_error": printed.error[0]}
    ours = {"settled": values[0], "trees": values[1], "error": values[5]}
    return CONSTANT.lstrip("\n").format(n=len(records), **ours, **paper)


def _each(finished: Mapping[str, Found]) -> Iterator[tuple[str, str, Found]]:
    return ((name, kind, found) for kind in KINDS for name, found in finished.items())


def _means(finished: Mapping[str, Found], rule: str) -> np.ndarray:
    """``[kinds × problems, 7]``: means over the repetitions."""
    return np.array([np.nanmean(columns(found, kind, rule), axis=0) for _, kind, found in _each(finished)])


def _tables(finished: Mapping[str, Found]) -> dict:
    ours = _means(finished, "bound")
    names = [(name, kind) for name, kind, _ in _each(finished)]
    rows = [i for i, (name, kind) in enumerate(names) if name in PAPER[kind]]
    printed = np.array([[mean for mean, _ in PAPER[names[i][1]][names[i][0]]] for i in rows])
    apart = np.abs(ours[rows] - printed)
    most = []
    for column, unit in ((0, " %"), (1, " trees")):
        i = int(apart[:, column].argmax())
        name, kind = names[rows[i]]
        most.append(f"{name} ({KINDS[kind]}: {ours[rows[i], column]:.1f}{unit}, paper {printed[i, column]:.1f})")
    return {
        "n_rows": len(rows),
        "settled_middle": np.median(apart[:, 0]),
        "trees_middle": np.median(apart[:, 1]),
        "settled_most": most[0],
        "trees_most": most[1],
        "settled_least": ours[:, 0].min(),
        "settled_largest": ours[:, 0].max(),
        "trees_least": ours[:, 1].min(),
        "trees_largest": ours[:, 1].max(),
        "mean_ib": ours[:, 3].mean(),
        "mean_fs": ours[:, 2].mean(),
        "n_fs_more": int((ours[:, 2] > ours[:, 3]).sum()),
        "n": len(ours),
    }


def _confidence(finished: Mapping[str, Found], confidence: float) -> dict:
    said: dict = {}
    for rule, place in (("bound", ""), ("fitted", "fitted_")):
        verdicts = {(name, kind): rate(found, kind, rule, confidence).verdict for name, kind, found in _each(finished)}
        for verdict, short in (("yes", "yes"), ("within error", "within"), ("**no**", "no")):
            said[f"n_{place}{short}"] = sum(of == verdict for of in verdicts.values())
        named = [f"{name} with {KINDS[kind]}" for (name, kind), of in verdicts.items() if of == "**no**"]
        said[f"named_{place}no"] = f" ({', '.join(named)})" if named else ""
        for name in ("threenorm", "liver"):
            there = [rate(finished[name], kind, rule, confidence) for kind in KINDS] if name in finished else []
            said[f"{name}_{place}".rstrip("_")] = " and ".join(f"{of.mean:.1f} ± {of.error:.1f}" for of in there)
    said["verdict"] = "holds" if said["n_no"] == 0 else f"holds but for {said['n_no']} of the cases"
    named = [finished[name] for name in ("threenorm", "liver") if name in finished]
    apart = [
        rate(found, kind, "fitted", confidence).mean - rate(found, kind, "bound", confidence).mean
        for found in named
        for kind in KINDS
    ]
    said |= {"n_less": sum(of < 0 for of in apart), "n_named": len(apart)}
    said["doubt"] = max((doubt(found, kind, "bound") for found in named for kind in KINDS), default=0.0)
    return said


def _other_rules(finished: Mapping[str, Found]) -> dict:
    bound, exact, fitted = (_means(finished, rule) for rule in ("bound", "exact", "fitted"))
    alphas = {}
    for name, kind, found in _each(finished):
        symmetric = np.median([record["prior"]["symmetric"][0] for record in of_kind(found, kind)])
        alphas.setdefault(name, []).append(symmetric)
    several = np.array([len(next(iter(found.values()))["prior"]["fitted"]) > 2 for _, _, found in _each(finished)])
    gained = (exact - bound)[several] if several.any() else np.zeros((1, 7))
    return {
        "doubtful": ", ".join(name for name, of in alphas.items() if min(of) > 1) or "none",
        "trees_fitted": fitted[:, 1].mean(),
        "trees_bound": bound[:, 1].mean(),
        "mean_fitted": fitted[:, 3].mean(),
        "saved": -gained[:, 1].mean() + 0.0,
        "saved_most": -gained[:, 1].min() + 0.0,
        "more_settled": gained[:, 0].mean(),
    }


def _errors(finished: Mapping[str, Found]) -> dict:
    values = {kind: errors(finished, kind) for kind in KINDS}
    every = np.concatenate(list(values.values()))
    tests = [f"{_told_apart(of)} for {KINDS[kind]}" for kind, of in values.items() if len(of) > 1]
    return {
        "apart_ib": np.abs(every[:, 1] - every[:, 2]).mean(),
        "apart_fs": np.abs(every[:, 0] - every[:, 2]).mean(),
        "tests": ", ".join(tests),
    }


def _told_apart(values: np.ndarray) -> str:
    """Whether FS is told apart from both others, and these are not, of errors ``[problems methods]``."""
    test, ranks = friedman(values), average_ranks(values, larger_is_better=False)
    apart = np.abs(ranks[:, None] - ranks) > nemenyi_difference(values.shape[1], len(values))
    holds = test.p_value < 0.05 and apart[0, 1] and apart[0, 2] and not apart[1, 2]
    return f"{'holds' if holds else 'not found'} (Friedman's p = {test.p_value:.2g})"

"""Tables of the study of Hernández-Lobato et al. 2011, beside the paper's, and what fills its template."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.many_sets import friedman, ranking
from benchmarks.pages import fill, table
from benchmarks.studies.hernandez_lobato2011 import figures, numbers
from benchmarks.studies.hernandez_lobato2011.votes import N_CIRCLE, N_GRID, N_TEST, N_TRAIN, NOISE

TEMPLATE = Path(__file__).with_name("page.md")
METHODS = {"error_fixed": "FS", "error": "IB", "error_infinite": "infinite"}
COLUMNS = (*("% settled", "trees"), *("disagree FS %", "disagree IB %", "error FS %", "error IB %", "error infinite %"))
NAMED = ("threenorm", "liver")
"""Problems that the paper names."""


def study_page(
    finished: Mapping[str, numbers.Found], needed: Sequence[Sequence[int]], settings: Mapping[str, Any], out: Path,
    constant: Sequence[Mapping],
) -> str:  # fmt: skip
    """The page; its figures are written to ``out``. ``constant``: of led, by `run_constant`."""
    figures.draw_all(finished, needed, settings, {kind: numbers.errors(finished, kind) for kind in numbers.KINDS}, out)
    repeats: dict[int, list[str]] = {}
    for name, found in finished.items():
        repeats.setdefault(len(numbers.of_kind(found, "bagging")), []).append(name)
    most = max(repeats)
    circle = {"n_train": N_CIRCLE, "noise": NOISE, "n_grid": N_GRID, "n_circles": len(needed)}
    of_circle = {key: settings[key] for key in ("infinite", "confidence")}
    return fill(
        TEMPLATE,
        n_repeats=most,
        fewer="".join(f", {n} of {', '.join(names)}" for n, names in repeats.items() if n != most),
        n_train=N_TRAIN,
        n_test=N_TEST,
        **settings,
        allowed=100 * (1 - settings["confidence"]),
        beside_the_paper=lambda kind: _beside_the_paper(finished, kind),
        kept=_kept(finished, settings["confidence"]),
        rules=_rules(finished),
        ranks=_tests(finished),
        figure_4="\n\n" + fill(TEMPLATE, "figure 4", **circle, **of_circle) if needed else "",
        constant=_constant(constant),
        **claims(finished, settings["confidence"]),
    )


def claims(finished: Mapping[str, numbers.Found], confidence: float) -> dict:
    """What the cells say of the paper's claims, for the slots of the template."""
    means = {rule: _means(finished, rule) for rule in numbers.RULES}
    bound, place = means["bound"], numbers.Row._fields.index
    rates = {
        rule: {pair: numbers.rate(found, pair[1], rule, confidence) for pair, found in _each(finished)}
        for rule in numbers.RULES
    }
    named = {pair: of.mean - rates["bound"][pair].mean for pair, of in rates["fitted"].items() if pair[0] in NAMED}
    doubtful = {pair: found for pair, found in _each(finished) if pair in named}
    several = [len(next(iter(found.values()))["prior"]["fitted"]) > 2 for _, found in _each(finished)]
    gained = (means["exact"] - bound)[several] if any(several) else np.zeros((1, 7))
    n_beyond = sum(of.verdict == "**no**" for of in rates["bound"].values())
    tests = [f"{_told_apart(numbers.errors(finished, kind))} for {said}" for kind, said in numbers.KINDS.items()]

    def beyond(rule: str) -> str:
        pairs = [pair for pair, of in rates[rule].items() if of.verdict == "**no**"]
        names = [f"{name} with {numbers.KINDS[kind]}" for name, kind in pairs]
        return f" ({', '.join(names)})" if names else ""

    def of_problem(name: str, rule: str) -> str:
        there = [rates[rule][name, kind] for kind in numbers.KINDS] if name in finished else []
        return " and ".join(f"{of.mean:.1f} ± {of.error:.1f}" for of in there)

    return {
        **_apart_from_the_paper(finished, bound),
        "n": len(bound),
        "least": lambda column: bound[:, place(column)].min(),
        "most": lambda column: bound[:, place(column)].max(),
        "mean": lambda rule, column: means[rule][:, place(column)].mean(),
        "apart": lambda column: np.abs(bound[:, place(column)] - bound[:, -1]).mean(),
        "n_fs_more": int((bound[:, 2] > bound[:, 3]).sum()),
        "verdict": f"holds but for {n_beyond} of the cases" if n_beyond else "holds",
        "count": lambda rule, verdict: sum(of.verdict.strip("*") == verdict for of in rates[rule].values()),
        "named": beyond,
        "rates": of_problem,
        "doubt": max((numbers.doubt(found, kind, "bound") for (_, kind), found in doubtful.items()), default=0.0),
        "n_less": sum(of < 0 for of in named.values()),
        "n_named": len(named),
        "doubtful": _doubtful(finished),
        "saved": -gained[:, 1].mean() + 0.0,
        "saved_most": -gained[:, 1].min() + 0.0,
        "more_settled": gained[:, 0].mean(),
        "tests": ", ".join(tests),
    }


def _each(finished: Mapping[str, numbers.Found]) -> Iterator[tuple[tuple[str, str], numbers.Found]]:
    return (((name, kind), found) for kind in numbers.KINDS for name, found in finished.items())


def _means(finished: Mapping[str, numbers.Found], rule: str) -> np.ndarray:
    """``[kinds × problems, 7]``: means over the repetitions."""
    return np.array([np.nanmean(numbers.columns(found, kind, rule), axis=0) for (_, kind), found in _each(finished)])


def _apart_from_the_paper(finished: Mapping[str, numbers.Found], ours: np.ndarray) -> dict:
    """By how much the first two columns differ from the paper's: the number of rows, the median, the furthest row."""
    pairs = [pair for pair, _ in _each(finished)]
    rows = [i for i, (name, kind) in enumerate(pairs) if name in numbers.PAPER[kind]]
    printed = np.array([[mean for mean, _ in numbers.PAPER[pairs[i][1]][pairs[i][0]]] for i in rows])
    apart, place = np.abs(ours[rows] - printed), numbers.Row._fields.index

    def furthest(column: str) -> str:
        i, unit = int(apart[:, place(column)].argmax()), " %" if column == "settled" else " trees"
        (name, kind), values = pairs[rows[i]], [of[i, place(column)] for of in (ours[rows], printed)]
        return f"{name} ({numbers.KINDS[kind]}: {values[0]:.1f}{unit}, paper {values[1]:.1f})"

    return {"n_rows": len(rows), "middle": lambda column: np.median(apart[:, place(column)]), "furthest": furthest}


def _doubtful(finished: Mapping[str, numbers.Found]) -> str:
    """The problems where many instances are doubtful, by either kind of ensemble."""
    alphas: dict[str, list[float]] = {}
    for (name, kind), found in _each(finished):
        symmetric = np.median([record["prior"]["symmetric"][0] for record in numbers.of_kind(found, kind)])
        alphas.setdefault(name, []).append(symmetric)
    return ", ".join(name for name, of in alphas.items() if min(of) > 1) or "none"


def _constant(records: Sequence[Mapping]) -> str:
    if not records:
        return ""
    values = np.nanmean([numbers.shares(record, "bound") for record in records], axis=0)
    printed, place = numbers.PAPER["forest"]["led"], numbers.Row._fields.index
    ours = lambda column: values[place(column)]
    paper = lambda column: printed[place(column)][0]
    return fill(TEMPLATE, "constant", n=len(records), ours=ours, paper=paper) + "\n"


def _beside_the_paper(finished: Mapping[str, numbers.Found], kind: str) -> str:
    lines = []
    for name, found in finished.items():
        values = numbers.columns(found, kind)
        spread = np.nanstd(values, axis=0, ddof=1) if len(values) > 1 else np.full(len(COLUMNS), np.nan)
        lines.append([name, "ours", *map(_plus_minus, np.nanmean(values, axis=0), spread)])
        printed = numbers.PAPER[kind].get(name)
        cells = [_plus_minus(*of) for of in printed] if printed else ["–"] * len(COLUMNS)
        lines.append(["", "paper", *cells])
    return table(["problem", "", *COLUMNS], lines)


def _kept(finished: Mapping[str, numbers.Found], confidence: float) -> str:
    def cell(found: numbers.Found, kind: str, rule: str) -> str:
        of = numbers.rate(found, kind, rule, confidence)
        return f"{of.mean:.2f} ± {of.error:.2f} ({numbers.doubt(found, kind, rule):.2f}) {of.verdict}"

    pairs = [(kind, rule) for kind in numbers.KINDS for rule in ("bound", "fitted")]
    heads = [f"{kind}, {of} prior" for kind in numbers.KINDS.values() for of in ("uniform", "fitted")]
    return table(["problem", *heads], [[name, *(cell(of, *pair) for pair in pairs)] for name, of in finished.items()])


def _rules(finished: Mapping[str, numbers.Found]) -> str:
    lines = []
    for name, found in finished.items():
        for kind, said in numbers.KINDS.items():
            line = [name if kind == "bagging" else "", said]
            for rule in numbers.RULES:
                values = np.nanmean(numbers.columns(found, kind, rule), axis=0)
                line.append(f"{values[0]:.1f}, {values[1]:.1f}, {values[3]:.2f}")
            priors = [record["prior"] for record in numbers.of_kind(found, kind)]
            line.append(", ".join(f"{v:.2g}" for v in np.median([p["fitted"] for p in priors], axis=0)))
            line.append(f"{np.median([p['symmetric'][0] for p in priors]):.2g}")
            lines.append(line)
    return table(["problem", "kind", *numbers.RULES, "α fitted", "α symmetric"], lines)


def _tests(finished: Mapping[str, numbers.Found]) -> str:
    lines = []
    for kind, said in numbers.KINDS.items():
        printed = np.array([[getattr(row, column)[0] for column in METHODS] for row in numbers.PAPER[kind].values()])
        for source, values in {"ours": numbers.errors(finished, kind), "paper, as printed": printed}.items():
            if len(values) < 2:
                continue
            p, (ranks, difference, groups) = friedman(values), ranking(values, larger_is_better=False)
            names = list(METHODS.values())
            together = "; ".join(" = ".join(names[i] for i in group) for group in groups) or "none"
            lines.append([said, source, *(f"{rank:.2f}" for rank in ranks), f"{p:.2g}", f"{difference:.2f}", together])
    ranks_of = [f"rank {name}" for name in METHODS.values()]
    return table(["kind", "", *ranks_of, "Friedman p", "critical difference", "not apart"], lines)


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.1f}±{spread:.1f}" if np.isfinite(spread) else f"{mean:.1f}"


def _told_apart(values: np.ndarray) -> str:
    """Whether FS is told apart from both others, and these are not, of errors ``[problems methods]``."""
    p, (ranks, difference, _) = friedman(values), ranking(values, larger_is_better=False)
    apart = np.abs(ranks[:, None] - ranks) > difference
    holds = p < 0.05 and apart[0, 1] and apart[0, 2] and not apart[1, 2]
    return f"{'holds' if holds else 'not found'} (Friedman's p = {p:.2g})"

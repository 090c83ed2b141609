"""The page of `benchmarks.studies.voting`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.pages import fill, table

TEMPLATE = Path(__file__).with_name("page.md")
PROMISES = {"1 %": (0.01, ".99"), ".1 %": (0.001, ".999")}
"""What is promised, and the confidence that stands beside it."""
CONFIDENCES = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)
"""Of two classes: what "bound" and "finite" are asked for besides, to be compared where as many answers differ."""
OTHERS = ("certain", *(f"optimal {promise}{of}" for of in (", uniform", ", endless") for promise in PROMISES))
MORE_CLASSES = ("bound .99", "bound .999", "fitted .99", "fitted .999", "certain")


class Measure(NamedTuple):
    """A rule on a set: mean trees, the share of answers that are not those of all trees, and its standard error."""

    trees: float
    differs: float
    error: float

    def keeps(self, share: float) -> bool:
        """Whether the share is kept, within two standard errors."""
        return self.differs <= share + 2 * self.error

    def __str__(self) -> str:
        return f"{self.trees:.1f}, {100 * self.differs:.2f} ± {100 * self.error:.2f}"


Measures = dict[str, dict[str, Measure]]


def measures(cells: Sequence[Mapping]) -> dict[str, Measure]:
    """Return what the rules do on a set, over all repetitions."""
    n = sum(cell["n"] for cell in cells)
    found = {}
    for rule in cells[0]["rules"]:
        trees, _, differs, squares = (sum(cell["rules"][rule][i] for cell in cells) for i in range(4))
        found[rule] = Measure(trees / n, differs / n, max(squares - differs**2 / n, 0) ** 0.5 / n)
    return found


def study_page(found: Mapping[str, Sequence[Mapping]], worst_case: Mapping | None = None) -> str:
    """Return the page, of {set: the records of its repetitions}, and of what `worst_case` keeps."""
    all_of = {name: measures(cells) for name, cells in found.items()}
    two = {name: of for name, of in all_of.items() if "optimal 1 %" in of}
    more = {name: of for name, of in all_of.items() if name not in two}
    cells_of_two = {name: found[name] for name in two}
    further = [_worst_case(worst_case)] if worst_case else []
    further += [fill(TEMPLATE, "more classes", table=_table(more, MORE_CLASSES))] if more else []
    optimal = {promise: {name: of[f"optimal {promise}"] for name, of in two.items()} for promise in PROMISES}

    def at_equal(promise: str, kind: str) -> float:
        shares = [at_equal_disagreement(cells, f"optimal {promise}", kind) for cells in cells_of_two.values()]
        return median([share for share in shares if share is not None] or [float("nan")])

    return fill(
        TEMPLATE,
        n_sets=len(found),
        n_two=len(two),
        repeats=", ".join(map(str, sorted({len(cells) for cells in found.values()}))),
        share=lambda promise, kind, which: _share(two, promise, kind)[which],
        below=lambda promise: sum(of.differs <= PROMISES[promise][0] for of in optimal[promise].values()),
        kept=lambda promise: _kept(optimal[promise], PROMISES[promise][0]),
        at_equal=at_equal,
        promised=lambda promise: _promise(two, promise),
        equal=_equal(cells_of_two),
        others=_table(two, OTHERS),
        further="\n\n".join(further),
    )


def _share(two: Measures, promise: str, kind: str) -> dict:
    """The trees of the optimal rule as shares of another's, over the sets."""
    rival = f"{kind} {PROMISES[promise][1]}"
    ratios = {name: of[f"optimal {promise}"].trees / of[rival].trees for name, of in two.items()}
    most = max(ratios, key=lambda name: ratios[name])
    return {"median": median(ratios.values()), "largest": ratios[most], "where": most}


def _kept(optimal: Mapping[str, Measure], share: float) -> str:
    broken = [name for name, of in optimal.items() if not of.keeps(share)]
    return f"{len(optimal) - len(broken)}" + (f" (not: {', '.join(broken)})" if broken else "")


def at_equal_disagreement(cells: Sequence[Mapping], rule: str, kind: str) -> float | None:
    """Return the trees of a rule as a share of those of "bound" or "finite" where as many answers differ.

    Between two confidences the trees are interpolated over the logarithm of the share; None beyond them.
    """
    n = sum(cell["n"] for cell in cells)
    curve = [[sum(cell["curves"][kind][i][j] for cell in cells) / n for j in (0, 1)] for i in range(len(CONFIDENCES))]
    own = measures(cells)[rule]
    for (few, more_differ), (many, fewer_differ) in pairwise(curve):
        if more_differ >= own.differs >= fewer_differ > 0 and more_differ > fewer_differ:
            place = log(more_differ / own.differs) / log(more_differ / fewer_differ)
            return own.trees / (few + place * (many - few))
    return None


def _equal(found: Mapping[str, Sequence[Mapping]]) -> str:
    kinds = [(promise, kind) for promise in PROMISES for kind in ("bound", "finite")]
    shares = {
        name: [at_equal_disagreement(cells, f"optimal {promise}", kind) for promise, kind in kinds]
        for name, cells in found.items()
    }
    rows = [[name, *("–" if of is None else f"{of:.2f}" for of in own)] for name, own in shares.items()]
    known = [[of for of in column if of is not None] for column in zip(*shares.values(), strict=True)]
    rows.append(["*median*", *(f"{median(column):.2f}" if column else "–" for column in known)])
    return table(["set", *(f"{promise}: of {kind}" for promise, kind in kinds)], rows)


def _promise(two: Measures, promise: str) -> str:
    share, confidence = PROMISES[promise]
    rules = [*(f"{kind} {confidence}" for kind in ("bound", "fitted", "finite")), f"optimal {promise}"]
    rows = []
    for name, of in two.items():
        bound, optimal = of[rules[0]], of[rules[-1]]
        kept = "yes" if optimal.differs <= share else "within error" if optimal.keeps(share) else "**no**"
        rows.append([name, *(str(of[rule]) for rule in rules), f"{optimal.trees / bound.trees:.2f}", kept])
    return table(["set", *rules, "optimal / bound", "kept"], rows)


def _worst_case(found: Mapping) -> str:
    rows = []
    for case in found["cases"]:
        mean, each, induction = case["mean"], case["each"], case["table"]
        trees = [f"{of['trees']:.2f}" for of in (mean, induction, each)]
        shares = [f"{100 * of:.2g}" for of in (mean["worst"], each["mean"])]
        where = ", ".join(map(str, each["at"]))
        random = [str(of["random"]) for of in (mean, each)]
        seconds = " / ".join(f"{of['seconds']:.2g}" for of in (mean, induction, each))
        rows.append([case["prior"], f"{100 * case['promise']:g} %", *trees, *shares, where, *random, seconds])
    head = ["prior", "promise", "trees, mean", "trees, table", "trees, each", "% at the worst count, mean"]
    head += ["% in the mean, each", "counts that bind, each", "random states, mean", "random states, each", "seconds"]
    return fill(TEMPLATE, "worst case", n_trees=found["trees"], table=table(head, rows))


def _table(sets: Measures, rules: Sequence[str]) -> str:
    return table(["set", *rules], [[name, *(str(of[rule]) for rule in rules)] for name, of in sets.items()])

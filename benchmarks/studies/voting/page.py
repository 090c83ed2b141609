"""The page of `benchmarks.studies.voting`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from statistics import median
from typing import NamedTuple

PROMISES = {"1 %": (0.01, ".99"), ".1 %": (0.001, ".999")}
"""What is promised, and the confidence that stands beside it."""
CONFIDENCES = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)
"""Of two classes: what "bound" and "finite" are asked for besides, to be compared where as many answers differ."""


class Measure(NamedTuple):
    """A rule on a set: mean trees, the share of answers that are not those of all trees, and its standard error."""

    trees: float
    differs: float
    error: float

    def keeps(self, share: float) -> bool:
        """Return whether the share is kept, within two standard errors."""
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
    cells_of_two = {name: found[name] for name in two}
    parts = [_head(found, two), _findings(two, cells_of_two)]
    parts += [_promise(two, promise) for promise in PROMISES]
    parts += [
        _equal(cells_of_two),
        _others(two),
        _worst_case(worst_case),
        _more_classes({name: of for name, of in all_of.items() if name not in two}),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(found, two: Measures) -> str:
    repeats = sorted({len(cells) for cells in found.values()})
    return f"""# The fewest trees for a promised disagreement

Made by `python -m benchmarks voting`; its docstring says how. {len(found)} sets, {len(two)} of them of two
classes; repetitions: {", ".join(map(str, repeats))}. Random forests of 500 trees. Each entry: mean trees polled, and
per cent of answers that differ from the vote of all 500 trees, with the standard error over held-out instances (of sets
that are split, repetitions share some instances, so that the errors are a little larger).

* **bound**: the paper's rule, a confidence for each instance, under the uniform prior, for an ensemble without end.
* **fitted**: the same under a prior fitted to the out-of-bag votes of the training instances.
* **finite**: the same for the vote of these 500 trees.
* **optimal**: `criterion="optimal"`, `population="finite"`, under the fitted prior: the fewest trees in the mean for a
  share of answers that may differ, in the mean."""


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
    rows = [[name, *("–" if of is None else f"{of:.2f}" for of in shares[name])] for name in found]
    known = [[of for of in column if of is not None] for column in zip(*shares.values(), strict=True)]
    rows.append(["*median*", *(f"{median(column):.2f}" if column else "–" for column in known)])
    head = ["set", *(f"{promise}: of {kind}" for promise, kind in kinds)]
    return (
        "## Where as many answers differ\n\nA rule that promises less needs fewer trees. So here are the trees of the "
        "optimal rule as a share of those of *bound* and *finite* at the confidence at which as many of their answers "
        "differ (interpolated; – where none does).\n\n" + _table(head, rows)
    )


def _median_at_equal(found: Mapping[str, Sequence[Mapping]], promise: str, kind: str) -> float:
    shares = [at_equal_disagreement(cells, f"optimal {promise}", kind) for cells in found.values()]
    return median([of for of in shares if of is not None] or [float("nan")])


def _findings(two: Measures, cells: Mapping[str, Sequence[Mapping]]) -> str:
    lines = ["## What came out", ""]
    for promise, (share, confidence) in PROMISES.items():
        ratios = {name: of[f"optimal {promise}"].trees / of[f"bound {confidence}"].trees for name, of in two.items()}
        finite = median(of[f"optimal {promise}"].trees / of[f"finite {confidence}"].trees for of in two.values())
        kept = [name for name, of in two.items() if of[f"optimal {promise}"].keeps(share)]
        below = [name for name, of in two.items() if of[f"optimal {promise}"].differs <= share]
        broken = [name for name in two if name not in kept]
        most = max(ratios, key=lambda name: ratios[name])
        lines.append(
            f"* **{promise} promised.** The trees are {median(ratios.values()):.2f} of those of the bound at "
            f"{confidence} in the median, {ratios[most]:.2f} at most ({most}), and {finite:.2f} of those of the finite "
            f"rule at {confidence}. At most {promise} differ on {len(below)} of {len(two)} sets, within two standard "
            f"errors on {len(kept)}" + (f" (not: {', '.join(broken)})." if broken else ".")
        )
        bound, finite = (_median_at_equal(cells, promise, kind) for kind in ("bound", "finite"))
        lines.append(
            f"  Where as many answers differ, it takes {bound:.2f} of the trees of the bound in the median, and "
            f"{finite:.2f} of those of the finite rule."
        )
    lines.append(
        "* **What saves the trees.** Mostly three things that are not the induction: to ask for the vote of these "
        "trees in place of an endless one's, a fitted prior, and a promise for the mean, which the rules by confidence "
        "over-fulfil. At the right confidence the finite rule would be a few per cent behind. But nobody knows that "
        "confidence beforehand: to find it is what the optimal rule does."
    )
    return "\n".join(lines)


def _promise(two: Measures, promise: str) -> str:
    share, confidence = PROMISES[promise]
    rules = [*(f"{kind} {confidence}" for kind in ("bound", "fitted", "finite")), f"optimal {promise}"]
    rows = [
        [
            *(name, *(str(of[rule]) for rule in rules), f"{of[rules[-1]].trees / of[rules[0]].trees:.2f}"),
            "yes" if of[rules[-1]].differs <= share else "within error" if of[rules[-1]].keeps(share) else "**no**",
        ]
        for name, of in two.items()
    ]
    head = ["set", *rules, "optimal / bound", "kept"]
    return f"## {promise} promised\n\n" + _table(head, rows)


def _others(two: Measures) -> str:
    rules = ["certain", *(f"optimal {promise}{of}" for of in (", uniform", ", endless") for promise in PROMISES)]
    rows = [[name, *(str(of[rule]) for rule in rules)] for name, of in two.items()]
    return (
        "## Other priors and populations\n\n*Certain*: until the trees that remain cannot change the class. *Uniform*: "
        "the optimal rule under the uniform prior, where the promise is that of another population of instances. "
        '*Endless*: `population="infinite"`; its promise is about an ensemble without end and votes that are settled, '
        "and the 500 trees stand for it here.\n\n" + _table(["set", *rules], rows)
    )


def _worst_case(found: Mapping | None) -> str:
    if found is None:
        return ""
    rows = []
    for case in found["cases"]:
        mean, each, table = case["mean"], case["each"], case["table"]
        trees = [f"{of['trees']:.2f}" for of in (mean, table, each)]
        shares = [f"{100 * of:.2g}" for of in (mean["worst"], each["mean"])]
        where = ", ".join(map(str, each["at"]))
        random = [str(of["random"]) for of in (mean, each)]
        seconds = " / ".join(f"{of['seconds']:.2g}" for of in (mean, table, each))
        rows.append([case["prior"], f"{100 * case['promise']:g} %", *trees, *shares, where, *random, seconds])
    head = ["prior", "promise", "trees, mean", "trees, table", "trees, each", "% at the worst count, mean"]
    head += ["% in the mean, each", "counts that bind, each", "random states, mean", "random states, each", "seconds"]
    return f"""## A promise for each share of votes

Made by `python -m benchmarks voting --parts worst-case`; {found["trees"]} trees. Kalman and Moscovich (arXiv
2606.15237; of which the summary was at hand) find rules by linear programs, one for each of three notions of the best.
Here are such programs for two promises. *Mean*: the disagreement in the mean over the prior, which is what
`optimal_votes` promises.
*Each*: the disagreement at every final count of votes. A program's rule may stop at random.

* The table of `optimal_votes`, which is never random, takes hardly more trees than the program for the same promise.
* A promise for each count costs far more trees, and what it keeps in the mean is a small part of what it promises.
  Under a promise of the mean the worst count, a tie, is wrong many times as often as promised.
* The promise for each count is not offered. Only the counts beside the tie bind, so the same induction with prices
  there alone should find it.

""" + _table(head, rows)


def _more_classes(more: Measures) -> str:
    if not more:
        return ""
    rules = ["bound .99", "bound .999", "fitted .99", "fitted .999", "certain"]
    rows = [[name, *(str(of[rule]) for rule in rules)] for name, of in more.items()]
    return (
        "## More classes\n\nThe optimal rule is for two classes, and refused here. The fitted prior has one α for all "
        "classes.\n\n" + _table(["set", *rules], rows)
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

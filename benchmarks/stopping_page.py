"""The page of `benchmarks.stopping_study`."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

PROMISES = {"1 %": (0.01, ".99"), ".1 %": (0.001, ".999")}
"""What is promised, and the confidence that stands beside it."""


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
    """Return the page, of {set: the records of its repetitions}, and of what `benchmarks.stopping_worst_case` keeps."""
    all_of = {name: measures(cells) for name, cells in found.items()}
    two = {name: of for name, of in all_of.items() if "optimal 1 %" in of}
    parts = [_head(found, two), _findings(two)]
    parts += [_promise(two, promise) for promise in PROMISES]
    parts += [_others(two), _worst_case(worst_case), _more_classes({name: of for name, of in all_of.items() if name not in two})]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(found, two: Measures) -> str:
    repeats = sorted({len(cells) for cells in found.values()})
    return f"""# The fewest trees for a promised disagreement

Made by `python -m benchmarks.stopping_study`; its docstring says how. {len(found)} sets, {len(two)} of them of two
classes; repetitions: {", ".join(map(str, repeats))}. Random forests of 500 trees. Each entry: mean trees polled, and per
cent of answers that differ from the vote of all 500 trees, with the standard error over held-out instances (of sets
that are split, repetitions share some instances, so that the errors are a little larger).

* **bound**: the paper's rule, a confidence for each instance, under the uniform prior, for an ensemble without end.
* **fitted**: the same under a prior fitted to the out-of-bag votes of the training instances.
* **finite**: the same for the vote of these 500 trees.
* **optimal**: `criterion="optimal"`, `population="finite"`, under the fitted prior: the fewest trees in the mean for a
  share of answers that may differ, in the mean."""


def _findings(two: Measures) -> str:
    lines = ["## What came out", ""]
    for promise, (share, confidence) in PROMISES.items():
        ratios = {name: of[f"optimal {promise}"].trees / of[f"bound {confidence}"].trees for name, of in two.items()}
        finite = median(of[f"optimal {promise}"].trees / of[f"finite {confidence}"].trees for of in two.values())
        kept = [name for name, of in two.items() if of[f"optimal {promise}"].keeps(share)]
        below = [name for name, of in two.items() if of[f"optimal {promise}"].differs <= share]
        broken = [name for name in two if name not in kept]
        most = max(ratios, key=lambda name: ratios[name])
        lines.append(
            f"* **{promise} promised.** The trees are {median(ratios.values()):.2f} of those of the bound at {confidence} "
            f"in the median, {ratios[most]:.2f} at most ({most}); {finite:.2f} of those of the finite rule at "
            f"{confidence}. At most {promise} differ on {len(below)} of {len(two)} sets, within two standard errors on "
            f"{len(kept)}" + (f" (not: {', '.join(broken)})." if broken else ".")
        )
    return "\n".join(lines)


def _promise(two: Measures, promise: str) -> str:
    share, confidence = PROMISES[promise]
    rules = [*(f"{kind} {confidence}" for kind in ("bound", "fitted", "finite")), f"optimal {promise}"]
    rows = [
        [name, *(str(of[rule]) for rule in rules), f"{of[rules[-1]].trees / of[rules[0]].trees:.2f}"]
        + ["yes" if of[rules[-1]].differs <= share else "within error" if of[rules[-1]].keeps(share) else "**no**"]
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
        seconds = [f"{of['seconds']:.2g}" for of in (mean, table, each)]
        rows.append([case["prior"], f"{100 * case['promise']:g} %", *trees, *shares, *seconds])
    head = ["prior", "promise", "trees: mean, program", "mean, table", "each, program"]
    head += ["mean promised: % at the worst count", "each promised: % in the mean", "seconds", "seconds", "seconds"]
    return (
        f"## A promise for each share of votes\n\nMade by `python -m benchmarks.stopping_worst_case`; "
        f"{found['trees']} trees. Kalman and Moscovich (arXiv 2606.15237) find rules by linear programs, which may stop "
        "at random in a state. Here are such programs for two promises: about the mean over the prior, as the table of "
        "`optimal_votes` makes it, and about each final count of votes. The first finds hardly fewer trees than the "
        "table, which is never random. The second is kept near ties, too, and pays for it. It is not offered: its rule is "
        "random in many states, and the time grows fast with the number of trees.\n\n" + _table(head, rows)
    )


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

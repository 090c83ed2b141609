"""The page of the study of sets: tables made of its cells."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmarks.studies.sets.likelihood import NAMES, likelihood_section
from benchmarks.studies.sets.methods import COLUMNS, LEAST_ROWS, LEVEL, WORTH, compared, digits, duel, table, text_rows
from benchmarks.studies.sets.vote import vote_section

MEANINGS = {
    "one class, …": "the most probable class, always",
    "u65, …; u80, …": "the set of highest expected utility (`decisions.expected_utility_set`)",
    "mean; learned": "by the mean of the leaves' shares; by the learned pool, what `CombinedForestClassifier` answers",
    "cautious, …": "`CautiousForestClassifier(s=s, counts=…)`, whose defaults are `oob` and s = 1",
    "intervals, …": "`decisions.interval_dominance` of `AveragedIntervals(s)`: leaves' imprecise Dirichlet intervals",
    "conformal, …": "conformal sets that promise 90 %, of one less the probability of the class (crepes)",
    "by class, …": "the same with a p-value among the rows of each class: 90 % of every class are promised",
    "adaptive, …": "adaptive prediction sets (APS, MAPIE), which are for three classes and more",
    "…, oob": "of cautious forests and intervals: out-of-bag counts; of conformal sets: calibrated on all training "
    "rows, each by the trees that were grown without it; *learned*, of the learned pool's probabilities",
    "…, held-out": "calibrated on a quarter of the rows, by a forest of the others: for these alone there is a proof",
}
AGAINST = ("one class, mean", "one class, learned", "u65, learned", "u80, learned", "conformal, held-out")
PROVED = ("conformal, held-out", "by class, held-out", "adaptive, held-out")
LEARNED = "`p = CombinedForestClassifier().fit(X, y).predict_proba(X_new)`, "
CALLS = {
    "by class, learned, oob": LEARNED + "`conformal_sets(own, y, p, by_class=True)`, `own` out of bag",
    "u65, learned": LEARNED + "`ju.decisions.expected_utility_set(p, 65)`, or 80",
    "conformal, held-out": "`conformal_sets(own, y_held, p)`, `own` and `p` of a forest grown without `y_held`",
}
"""What is called for the sets that the needs come to; `conformal_sets` stands in ``docs/decisions.md``."""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    everything = table(found)
    frame = everything[~everything["method"].isin(NAMES)]
    two, more = frame[frame["n_classes"] == 2], frame[frame["n_classes"] > 2]
    lines = [
        "# Sets: which to use when",
        "",
        f"Made by `python -m benchmarks sets --data FOLDER`: {frame['set'].nunique()} data sets"
        f" ({two['set'].nunique()} of two classes), two folds of a",
        "five-fold cross-validation of at most 2000 rows; every (set, fold) is a line of "
        "`cells.jsonl.gz`. All methods answer",
        "from one random forest of 100 trees with scikit-learn's defaults, those held out from a second one.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        "",
        "Where a conformal set is empty, the most probable class is the set. Sets from relative likelihood, and from",
        "decalibrated probabilities, have [a section](#relative-likelihood-and-decalibration) of their own, and so",
        "have [learned votes](#learned-votes).",
        *_by_need_section(frame),
        *_medians_section("Two classes", two),
        *_medians_section("Three classes and more", more),
        *_wins_section(frame),
        *_promise_section(frame),
        *likelihood_section(everything),
        *vote_section(found),
    ]
    return "\n".join(lines) + "\n"


def chosen(frame: pd.DataFrame) -> dict[str, str]:
    """The method for each need: the best in the mean over sets, of those that do what is needed.

    Sets from relative likelihood are left out here: `likelihood_section` says whether they should take a place.
    """
    frame = frame[~frame["method"].isin(NAMES)]
    by_method = frame.groupby("method", sort=False)
    means = by_method[[*WORTH]].mean()[by_method.size() == frame["set"].nunique()]
    kept = by_method["n_classes_kept"].sum() / by_method["n_classes_told"].sum()
    all_kept = means.loc[kept[means.index] >= 1 - LEVEL, "u80"]
    proved = means.loc[means.index.isin(PROVED), "u80"]
    return {
        "I must not miss a class": str(all_kept.idxmax()),
        "I want to decide as often as it pays": str(means["u65"].idxmax()),
        "I need a guarantee": str(proved.idxmax()),
    }


def by_need(frame: pd.DataFrame) -> list[str]:
    """The table by need, each with what the cells say of it."""
    middle = frame.groupby("method")[[*COLUMNS]].median()
    columns = ("coverage", "worst_class", "single", *WORTH)
    head = ["need", "sets", "call", *(COLUMNS[key] for key in columns)]
    body = [
        [need, f"*{name}*", CALLS.get(name, ""), *(digits(middle.loc[name, key]) for key in columns)]
        for need, name in chosen(frame).items()
    ]
    return text_rows([head, ["---"] * len(head), *body])


def _by_need_section(frame: pd.DataFrame) -> list[str]:
    more = frame[frame["n_classes"] > 2]
    by_class, _, plain = chosen(frame).values()
    kept = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    classes = lambda name: f"{kept.loc[name, 'n_classes_kept']} of {kept.loc[name, 'n_classes_told']}"  # noqa: E731
    against = lambda first, second, measure: duel(frame, first, second, measure)  # noqa: E731
    smaller = compared(frame, "conformal, held-out", "conformal, oob", "size")
    lines = [
        "",
        "## By need",
        "",
        *by_need(frame),
        "",
        "Medians over the sets. The code is in [decisions](../../../docs/decisions.md#which-sets-when). How they were",
        "chosen, on the sets that they are shown for:",
        "",
        "* *A class not to be missed*: the best mean u80 of the methods that keep 90 % of at least 95 % of the classes,"
        f" which is all that chance leaves. `{by_class}` keeps {classes(by_class)}; plain conformal sets (`{plain}`)"
        f" {classes(plain)}, the cautious forest (oob, s = 1) {classes('cautious, oob, s = 1')} and with s = 2"
        f" {classes('cautious, oob, s = 2')}, the most probable class {classes('one class, mean')}. Against s = 2"
        f" it is {against(by_class, 'cautious, oob, s = 2', 'u65')} by u65 and"
        f" {against(by_class, 'cautious, oob, s = 2', 'u80')} by u80. The promise is proved for rows held out alone;"
        f" they cost: `by class, held-out` against it, by u80, {against('by class, held-out', by_class, 'u80')}.",
        "* *Decide as often as it pays*: the best mean u65. `u65, learned` wins against always deciding (`one class,"
        f" learned`) {against('u65, learned', 'one class, learned', 'u65')}; against the cautious forest (oob, s = 1)"
        f" {against('u65, learned', 'cautious, oob, s = 1', 'u65')}; against the mean's"
        f" {against('u65, learned', 'u65, mean', 'u65')}. By u80, `u80, learned`"
        f" {against('u80, learned', 'one class, learned', 'u80')},"
        f" {against('u80, learned', 'cautious, oob, s = 1', 'u80')} and"
        f" {against('u80, learned', 'u80, mean', 'u80')}. Take 65 or 80 by what a right set of two is worth.",
        "* *A guarantee*: the best mean u80 of those with a proof."
        f" It was kept on {kept.loc['conformal, held-out', 'kept']} of {frame['set'].nunique()} sets. Calibrated out of"
        f" bag, where there is no proof, 90 % were kept on {kept.loc['conformal, oob', 'kept']}; sets are smaller on"
        f" {smaller[0]} and larger on {smaller[1]}, u65 {against('conformal, oob', 'conformal, held-out', 'u65')}.",
        "",
        "What is worth less than `u65, learned`, by u65:",
        "",
        "* Cautious forests at s = 1:"
        f" {against('cautious, oob, s = 1', 'u65, learned', 'u65')} with out-of-bag counts,"
        f" {against('cautious, in-bag, s = 1', 'u65, learned', 'u65')} in-bag, where of two classes they"
        f" hardly ever abstain; at s = 2 {against('cautious, oob, s = 2', 'u65, learned', 'u65')} out of bag. By u80"
        " against `u80, learned`, of two classes, s = 2 out of bag is "
        f"{duel(frame[frame['n_classes'] == 2], 'cautious, oob, s = 2', 'u80, learned', 'u80')}.",
        f"* Dominance of intervals at s = 1: {against('intervals, oob, s = 1', 'u65, learned', 'u65')} with out-of-bag"
        f" counts, {against('intervals, in-bag, s = 1', 'u65, learned', 'u65')} in-bag.",
    ]
    if not more.empty:
        coverage = more[more["method"] == "adaptive, oob"]["coverage"].median()
        lines.append(
            f"* Adaptive sets, which cover {coverage:.3f} in the median where 90 % are promised:"
            f" {duel(more, 'adaptive, oob', 'u65, learned', 'u65')} of the mean,"
            f" {duel(more, 'adaptive, learned, oob', 'u65, learned', 'u65')} of the learned pool."
        )
    return lines


def _medians_section(title: str, frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    middle = frame.groupby("method", sort=False)[[*COLUMNS]].median()
    body = [[name, *(digits(value, key) for key, value in row.items())] for name, row in middle.iterrows()]
    return [
        "",
        f"## {title}",
        "",
        f"Medians over {frame['set'].nunique()} sets. *Worst class*, *worst size*: the least coverage of a class, and"
        f" of sets of one size, of those with {LEAST_ROWS} test rows at least. *Single*: the share of answers of one"
        " class, and how many of these are right. *ms*: for 1000 rows, routing and decision, the best of three calls on"
        " a shared core (orders of magnitude; short calls are mostly overhead; of conformal sets, with calibration).",
        "",
        *text_rows([["", *COLUMNS.values()], ["---"] * (1 + len(COLUMNS)), *body]),
    ]


def _wins_section(frame: pd.DataFrame) -> list[str]:
    lines = [
        "",
        "## Wins",
        "",
        "Wins:losses over sets, and the median gain; **bold** where a signed-rank test tells the two apart (p < .05,",
        "not corrected for the number of comparisons). Adaptive sets: three classes and more.",
    ]
    for kind in WORTH:
        body = [
            [name, *(duel(frame, name, other, kind) if name != other else "" for other in AGAINST)]
            for name in frame["method"].unique()
        ]
        lines += ["", f"### By {kind}", "", *text_rows([["", *AGAINST], ["---"] * (1 + len(AGAINST)), *body])]
    return lines


def _promise_section(frame: pd.DataFrame) -> list[str]:
    sums = frame.groupby("method", sort=False)[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_sets = frame.groupby("method")["set"].nunique()
    body = [
        [
            name,
            "yes" if name in PROVED else "",
            f"{row['kept']:.0f} of {n_sets[name]}",
            f"{row['n_classes_kept']:.0f} of {row['n_classes_told']:.0f}",
        ]
        for name, row in sums.iterrows()
    ]
    return [
        "",
        "## Is 90 % kept?",
        "",
        "On how many sets, and for how many classes of them, coverage is not told apart from 90 % or more: so few hits",
        "or fewer have a probability of 5 % at least (binomial, both folds' test rows). By that error alone 95 % pass",
        "where coverage is just 90 %; chance among the calibration rows comes on top. *Proved*: whether theory",
        "promises it, over all rows, and of *by class* for each class. The rest show what they happen to cover.",
        "",
        *text_rows([["", "proved", "sets", "classes"], ["---"] * 4, *body]),
    ]

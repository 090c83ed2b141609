"""The verdict of a study: which combiner or law to use, by statistical tests.

A test fold is a pair (repetition, fold), and a forest a pair (kind, leaf size). On each test fold a combiner's measures
are read on the forest where its log loss is least over the *other* test folds. So no fold chooses for itself.
Each combiner, and the base rates, is compared with the *default* (`baseline_of`) and with the *leader*, the combiner to
use. The corrected resampled t-test compares two of them over the test folds, and Holm corrects the p-values of one
measure. Laws of numbers are treated likewise, by their interval score.
"""

from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ._evaluate import RANKED_MEASURES, TOPS, cheapest_decisions
from ._laws import MEASURES_OF_LAWS, worst_fifth
from ._settings import BASE_RATES, COMPARED_COMBINERS, COMPARED_LAWS
from ._significance import corrected_t_test, holm
from ._significance import significant_difference as least_significant_difference
from ._store import Results
from ._summary import DECIMALS, TITLES, baseline_of, outcomes_of

RARE = 0.2  # share of rows below which a class is rare
MOST_NAMED = 4  # largest number of combiners that a sentence names
_LEVEL = 0.05  # level of the tests: p-values below it tell a difference


class Verdict(NamedTuple):
    """The combiner or law to use, and the comparisons on which that rests."""

    base: str | None  # name of the default that all are compared with; None if it was not run
    leader: str  # name of the combiner or law to use; the default itself if nothing is better
    means: Any  # frame of means over test folds: a row for each combiner and the base rates, a column for each measure
    best_forests: dict[str, tuple[str, int]]  # {combiner: (kind, leaf size) of the forest where its main loss is least}
    p_values: dict[tuple[str, str, str], float]
    """{(measure, name, other): p-value of their difference}, corrected by Holm over the pairs of each measure. ``name``
    is a combiner, a law or the base rates, and ``other`` the default or the leader."""
    larger: dict[str, bool | None]
    """{measure: whether larger is better}, None if the measure is not tested; the keys are all measures, in order."""
    criterion: str  # the measure that chose the leader
    significant_difference: Mapping[tuple[str, str], float] = MappingProxyType({})
    """{(name, other): the least mean difference of the main loss that the test would find at Holm's strictest step}."""

    def differs(self, measure: str, name: str, other: str | None) -> int:
        """Return 1 if tests by a measure find ``name`` better than ``other``, -1 if worse, 0 if neither or untested."""
        untested = 1.0
        reverse_p = self.p_values.get((measure, str(other), name), untested)
        p = self.p_values.get((measure, name, str(other)), reverse_p)
        if p >= _LEVEL:
            return 0
        lead = self.means.at[name, measure] - self.means.at[other, measure]
        if lead == 0:  # means are rounded, and so may be equal where each fold differs
            return 0
        return 1 if (lead > 0) == self.larger[measure] else -1

    @property
    def main(self) -> str:
        """The main loss, which chooses each combiner's forest: the log loss, for laws the interval score."""
        return "interval_score" if "interval_score" in self.larger else "log_loss"

    @property
    def rival(self) -> str | None:
        """The combiner or law with the least main loss besides the default; None if there is no default or no other."""
        others = self.means[self.main].drop([BASE_RATES, self.base], errors="ignore")
        return None if self.base is None or others.empty else str(others.idxmin())

    @property
    def noun(self) -> str:
        """The word for what is compared, "combiner" or "law"."""
        return "law" if self.main == "interval_score" else "combiner"

    @property
    def keeps_default(self) -> bool:
        """Whether the default itself is the combiner or law to use."""
        return self.leader == self.base

    @property
    def rejects_all(self) -> bool:
        """Whether no combiner or law is to be used, because tests do not find the leader better than the base rates.

        A law that is better than the default is to be used all the same. False if costs decide.
        """
        if self.criterion == "cost" or self.beats_base_rates:
            return False
        return self.noun != "law" or self.differs(self.criterion, self.leader, self.base) != 1

    @property
    def beats_base_rates(self) -> bool:
        """Whether tests by the criterion find the leader better than the base rates."""
        return self.differs(self.criterion, self.leader, BASE_RATES) == 1

    @property
    def any_better(self) -> bool:
        """Whether tests find some combiner or law better than the default by some measure."""
        return any(self.differs(m, name, self.base) == 1 for m in self.larger for name in self.best_forests)

    @property
    def ties(self) -> list[str]:
        """Combiners or laws that tests do not tell from the leader and that are close to it, the least loss first.

        Close means: by the mean of `criterion`, at most half as far from the leader as the default is. The base rates
        take the place of a default that leads or was not run.
        """
        reference = BASE_RATES if self.keeps_default or self.base is None else self.base
        loss = self.means[self.criterion]
        distance = (loss - loss[self.leader]).abs().sort_values(kind="stable")
        close = distance[distance <= distance[reference] / 2].index
        others = [name for name in close if name not in (self.base, self.leader, BASE_RATES)]
        ties = [name for name in others if not self.differs(self.criterion, name, self.leader)]
        return sorted(ties, key=lambda name: loss[name])


def measures_of(results: Results) -> dict[str, bool | None]:
    """Return {measure: whether larger is better} of a study, None for a measure that no test compares.

    The measures that decide, as cost and log loss, come first.
    """
    if results.settings.numbers:
        return MEASURES_OF_LAWS
    measures: dict[str, bool | None] = {}
    if results.settings.costs is not None:
        measures["cost"] = False
    for name in ("log_loss", "brier", "auc", "accuracy"):
        measures[name] = RANKED_MEASURES[name]
    if is_binary(results):
        measures |= dict.fromkeys(["average_precision", *top_measures()], True)
    return measures


def is_binary(results: Results) -> bool:
    """Return whether the study has two classes, of which one is the positive one."""
    return len(results.about["data"]["classes"]) == 2


def shares(results: Results) -> dict[str, float]:
    """Return {class: its share of the data's rows}."""
    sizes = results.about["data"]["classes"]
    return {label: size / sum(sizes.values()) for label, size in sizes.items()}


def verdict(results: Results, records: Any) -> Verdict:
    """Compare a study's combiners or laws, and return the verdict, which names the one to use, its leader.

    ``records`` is the frame of `Results.records`. The leader is the first of these that there is:

    1. Where the default was not run, the combiner of the least main loss.
    2. If costs are given, the combiner of least cost among those that tests find better than the default by cost.
    3. The same by the main loss: the log loss, of laws the interval score.
    4. The combiner of the least main loss, if tests find it better than the base rates, and the default not.
    5. The same as 3 by the Brier score, of laws by the pinball loss.
    6. The default.
    """
    larger = measures_of(results)
    main = "interval_score" if results.settings.numbers else "log_loss"
    values, best_forests = _read_best_forests(records, [name for name in larger if name in records], main)
    if not results.settings.numbers:
        rates = _measure_base_rates(results)
        for measure, by_fold in values.items():
            by_fold[BASE_RATES] = rates[measure]
    means = _means(results, values, best_forests)
    best_forests.pop(BASE_RATES, None)  # in a study of laws they are on a forest, like a law
    base = baseline_of(best_forests)
    verdict_of_default: Any = None
    for by in ("cost", "log_loss", "brier", "interval_score", "pinball_loss"):
        if by not in larger or (base is None and by != main):
            continue

        def verdict_led_by(name: str, by: str = by) -> Verdict:
            """Return the verdict by the measure ``by`` whose leader is ``name``, tested against all others."""
            untested = Verdict(base, name, means, best_forests, p_values={}, larger=larger, criterion=by)
            return _compare(results, values, untested)

        # Of equals the default comes first, so that it is kept.
        names = sorted(best_forests, key=lambda name: (means.at[name, by], name != base))
        best = verdict_led_by(names[0])
        judgement = _first_better(best, names, verdict_led_by)
        if not judgement.keeps_default:
            return judgement
        if by == main:
            if best.beats_base_rates and not judgement.beats_base_rates:  # the default does not: rule 4
                return best
            verdict_of_default = judgement
    return verdict_of_default


def _first_better(best: Verdict, names: list[str], verdict_led_by: Callable[[str], Verdict]) -> Verdict:
    """Return the verdict whose leader is the first of ``names`` that tests find better than the default.

    If there is none, the default leads. ``names`` are sorted by the criterion, the best first. ``best`` is the verdict
    led by the first of them; it is returned if there is no default. ``verdict_led_by`` makes that of another leader.
    """
    base, by = best.base, best.criterion
    if base is None or best.differs(by, best.leader, base) == 1:
        return best
    second = next((name for name in names if best.differs(by, name, base) == 1), None)
    if second is not None:
        # With another leader other pairs are tested, and Holm's correction differs: so its test is repeated.
        verdict_of_second = verdict_led_by(second)
        if verdict_of_second.differs(by, second, base) == 1:
            return verdict_of_second
    return verdict_led_by(base)


def _means(results: Results, values: dict[str, pd.DataFrame], best_forests: dict[str, tuple[str, int]]) -> Any:
    """Return the means over test folds, a frame ``[combiners measures]``.

    ``values`` is {measure: frame ``[test_folds combiners]``}. Laws have the median of seconds instead of the mean, and
    "worst_fifth" on their forests in ``best_forests``.
    """
    means = pd.DataFrame({measure: by_fold.mean() for measure, by_fold in values.items()}).round(DECIMALS)
    if results.settings.numbers:
        means["seconds"] = values["seconds"].median()  # the first folds compile, and would dominate a mean
        fifths = {law: worst_fifth(outcomes_of(results, *on), law) for law, on in best_forests.items()}
        means["worst_fifth"] = pd.Series(fifths)
    return means


def _compare(results: Results, values: dict[str, pd.DataFrame], verdict: Verdict) -> Verdict:
    """Test each combiner against the leader and the default of a verdict, and return the verdict with the p-values.

    It also has the least differences that the test would find. ``values`` is {measure: frame ``[test_folds
    combiners]``}, with the base rates as a combiner.
    """
    p_values, least_differences = {}, {}
    references = dict.fromkeys(name for name in (verdict.base, verdict.leader) if name is not None)
    test_share = 1 / results.settings.n_folds
    for measure, by_fold in values.items():
        if verdict.larger[measure] is None:
            continue
        # Each pair once: the default comes second only, so that of the two references there is (leader, default) alone.
        pairs = [(name, other) for other in references for name in by_fold if name not in (other, verdict.base)]
        differences = [(by_fold[name] - by_fold[other]).round(DECIMALS).to_numpy() for name, other in pairs]
        if measure == verdict.main:
            strictest = _LEVEL / max(len(pairs), 1)  # Holm multiplies the least p-value by the number of tests
            for pair, difference in zip(pairs, differences, strict=True):
                least_differences[pair] = least_significant_difference(
                    difference, test_share=test_share, p_value=strictest
                )
        raw_p_values = [float(corrected_t_test(by_pair, test_share=test_share).p_value) for by_pair in differences]
        for pair, p_value in zip(pairs, holm(np.array(raw_p_values)), strict=True):
            p_values[measure, *pair] = p_value
    return verdict._replace(p_values=p_values, significant_difference=least_differences)


def _read_best_forests(
    records: Any, measures: list[str], by: str
) -> tuple[dict[str, pd.DataFrame], dict[str, tuple[str, int]]]:
    """Return {measure: frame ``[test_folds combiners]``}, and {combiner: (kind, leaf size) of its best forest}.

    ``records`` is the frame of `Results.records`, ``measures`` are columns of it, and the column ``by`` is the loss. A
    combiner's value on a test fold is read on the forest where its loss is least over all *other* test folds. Its best
    forest has the least loss over all test folds.
    """
    axes = ["combiner", "forest", "leaf_size", "repeat", "fold"]
    names = list(dict.fromkeys(records["combiner"]))
    forests = list(dict.fromkeys(zip(records["forest"], records["leaf_size"], strict=True)))
    table = records.set_index(axes).sort_index()
    folds = sorted(set(zip(records["repeat"], records["fold"], strict=True)))
    keys = pd.MultiIndex.from_tuples([(name, *forest, *fold) for name, forest, fold in product(names, forests, folds)])
    shape = len(names), len(forests), len(folds)
    arrays = {measure: table[measure].reindex(keys).to_numpy().reshape(shape) for measure in measures}
    loss = arrays[by]
    # Rounded, so that losses that differ by rounding alone tie: then the first forest is chosen.
    loss_on_other_folds = np.round(loss.sum(axis=2, keepdims=True) - loss, DECIMALS)
    chosen_forests = np.argmin(loss_on_other_folds, axis=1)[:, None, :]  # [combiners, 1, folds]
    values = {}
    for measure, array in arrays.items():
        chosen = np.take_along_axis(array, chosen_forests, axis=1)[:, 0]  # [combiners, folds]
        values[measure] = pd.DataFrame(chosen.T, columns=names)
    best_forests = {}
    best_positions = np.argmin(np.round(loss.sum(axis=2), DECIMALS), axis=1)  # [combiners]
    for name, i in zip(names, best_positions, strict=True):
        kind, leaf_size = forests[i]
        best_forests[name] = (str(kind), int(leaf_size))
    return values, best_forests


def _measure_base_rates(results: Results) -> dict[str, float]:
    """Return {measure: value} of the base rates, whose probabilities for every row are the classes' shares."""
    p = np.array(list(shares(results).values()))  # probabilities, and weights of the classes in a mean over rows
    measures = {"log_loss": float(-p @ np.log(p)), "brier": float(1 - p @ p), "auc": 0.5, "accuracy": float(p.max())}
    if is_binary(results):
        # The Brier score of two classes counts the error of class 1 alone.
        measures["brier"] = float(p[0] * p[1])
        measures |= dict.fromkeys(["average_precision", *top_measures()], positive_share(results))
    if results.settings.costs is not None:
        costs = np.asarray(results.settings.costs)
        measures["cost"] = float((p @ costs)[cheapest_decisions(p[None], costs)[0]])
    return measures


def top_measures() -> list[str]:
    """Return the names of the measures of the rows called most likely positive, one for each of `TOPS`."""
    return [f"top_{top}" for top in TOPS]


def positive_share(results: Results) -> float:
    """Return the share of the data's rows that are of the positive class, in a study of two classes."""
    return shares(results)[str(results.settings.positive)]


def shown_rows(verdict: Verdict) -> list[str]:
    """Return the names of the rows of the page's short table, in order: the leader, ties, rival, default, base rates.

    There are at most `MOST_NAMED` ties, and a rival only if the default leads.
    """
    rival = verdict.rival if verdict.keeps_default else None
    names = [verdict.leader, *verdict.ties[:MOST_NAMED], rival, verdict.base, BASE_RATES]
    return list(dict.fromkeys(name for name in names if name))


def shown_measures(verdict: Verdict) -> list[str]:
    """Return the names of the measures in the page's short table, in order.

    The cost, the main loss and measures that are not tested are always shown. Of the others those are shown by which
    tests find a row of the table better or worse than the default. The shares in `TOPS` are in another table.
    """
    rows = [name for name in shown_rows(verdict) if name != BASE_RATES]
    shown = []
    for measure, larger in verdict.larger.items():
        if measure in top_measures():
            continue
        is_always_shown = larger is None or measure in ("cost", verdict.main)
        if is_always_shown or any(verdict.differs(measure, name, verdict.base) for name in rows):
            shown.append(measure)
    return shown


def title(measure: str) -> str:
    """Return the title of a measure, as sentences and headers have it."""
    return {"average_precision": "average precision", "cost": "cost"}.get(measure) or TITLES[measure]


def meaning(verdict: Verdict, name: str) -> str:
    """Return in a few words what ``name`` means, which is a combiner, a law or the base rates."""
    if verdict.noun == "law":
        return COMPARED_LAWS.get(name, "the target's quantiles alone")
    return "the classes' shares alone" if name == BASE_RATES else COMPARED_COMBINERS[name].meaning


def arrow(verdict: Verdict, measure: str, up: str = "↑", down: str = "↓") -> str:
    """Return a space and ``up`` or ``down``, the measure's better direction; an empty text if it has none."""
    return {True: f" {up}", False: f" {down}", None: ""}[verdict.larger[measure]]


def number(value: float, digits: int = 3) -> str:
    """Return a value as text, with ``digits`` behind the decimal point and no zero before the point: .154."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def shown_value(measure: str, value: float) -> str:
    """Return a measure's value as tables have it: a cost for 100 rows, a law's score or width with four digits."""
    if measure in ("interval_score", "pinball_loss", "width"):
        return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"
    return _cost(value) if measure == "cost" else number(value)


def _cost(value: float) -> str:
    """Return the cost of 100 rows as text, from the mean cost ``value`` of one row."""
    return f"{100 * value:.2f}" if value < 1 else f"{100 * value:.0f}"

"""The verdict of a study: which combiner or law to use, in sentences that statistical tests support.

A test fold is a pair (repetition, fold), and a forest a pair (kind, leaf size). On each test fold a combiner's measures
are read on one forest: the one with its least log loss over the *other* test folds, so that no fold chooses for itself.
Each combiner, and the base rates, is compared with the *default* (`baseline_of`) and with the *leader*, the combiner to
use. The corrected resampled t-test compares two of them over the test folds, and Holm corrects the p-values of one
measure. Laws of numbers are treated likewise, by their interval score.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ._evaluate import RANKED_MEASURES, TOPS, cheapest_decisions
from ._laws import MEASURES_OF_LAWS, worst_fifth
from ._settings import BASE_RATES, COMPARED_COMBINERS, COMPARED_LAWS, MODEL
from ._significance import corrected_t_test, holm
from ._significance import significant_difference as least_significant_difference
from ._store import Results
from ._summary import DECIMALS, TITLES, baseline_of, forest_name, outcomes_of

RARE = 0.2  # share of rows below which a class is rare
FEW_PARTS = 5  # number of test folds below which the corrected test hardly ever finds a difference
_MOST_NAMED = 4  # largest number of combiners that a sentence names
_LEVEL = 0.05  # level of the tests: p-values below it tell a difference


class Verdict(NamedTuple):
    """The combiner or law to use, and the comparisons that say so."""

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
        """Return 1 if tests by a measure find ``name`` better than ``other``, -1 if worse, 0 if they find neither."""
        p = self.p_values.get((measure, name, str(other)), self.p_values.get((measure, str(other), name), 1.0))
        if p >= _LEVEL:
            return 0
        lead = self.means.at[name, measure] - self.means.at[other, measure]
        return 1 if (lead > 0) == self.larger[measure] else -1

    @property
    def main(self) -> str:
        """The loss that chooses each combiner's forest: the log loss, for laws the interval score."""
        return "interval_score" if "interval_score" in self.larger else "log_loss"

    @property
    def rival(self) -> str | None:
        """The combiner with the least main loss besides the default; None without a default or without others."""
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
        """Whether no combiner or law is to be used; False if costs decide.

        That is so if tests find the leader no better than the base rates, and, if it is a law, no better than the
        default either.
        """
        by, others = self.criterion, [BASE_RATES, self.base] if self.noun == "law" else [BASE_RATES]
        return by != "cost" and all(self.differs(by, self.leader, other) != 1 for other in others)

    @property
    def any_better(self) -> bool:
        """Whether tests find some combiner better than the default by some measure."""
        return any(self.differs(m, name, self.base) == 1 for m in self.larger for name in self.best_forests)

    @property
    def ties(self) -> list[str]:
        """Combiners that tests do not tell from the leader and that are close to it, the best first.

        Close means: by the mean of `criterion`, at most half as far from the leader as the default is. The base rates
        take the place of a default that leads or was not run.
        """
        by, against = self.criterion, BASE_RATES if self.keeps_default or self.base is None else self.base
        distance = (self.means[by] - self.means.at[self.leader, by]).abs().sort_values(kind="stable")
        near = distance[distance <= distance[against] / 2].index
        others = [name for name in near if name not in (self.base, self.leader, BASE_RATES)]
        alike = [name for name in others if not self.differs(by, name, self.leader)]
        return sorted(alike, key=lambda name: self.means.at[name, by])


def measures_of(results: Results) -> dict[str, bool | None]:
    """Return {measure: whether larger is better} of a study, deciding measures first; None for untested ones."""
    if results.settings.numbers:
        return MEASURES_OF_LAWS
    costs = {"cost": False} if results.settings.costs is not None else {}
    of_two = {"average_precision": True} | {f"top_{top}": True for top in TOPS}
    order = ("log_loss", "brier", "auc", "accuracy")
    return {**costs, **{name: RANKED_MEASURES[name] for name in order}, **(of_two if is_binary(results) else {})}


def is_binary(results: Results) -> bool:
    """Return whether the study is of two classes, one of which is to be found."""
    return len(results.about["data"]["classes"]) == 2


def shares(results: Results) -> dict[str, float]:
    """Return {class: its share of the data's rows}."""
    sizes = results.about["data"]["classes"]
    return {label: size / sum(sizes.values()) for label, size in sizes.items()}


def verdict(results: Results, records: Any) -> Verdict:
    """Compare a study's combiners or laws, and return the verdict, which names the one to use.

    ``records`` is the frame of `Results.records`. The verdict is the first of these that there is:

    1. Where the default was not run, the combiner of the least main loss.
    2. If costs are given, the least cost among combiners that tests find better than the default by cost.
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
        for measure, by_part in values.items():
            by_part[BASE_RATES] = rates[measure]
    means = _means(results, values, best_forests)
    best_forests.pop(BASE_RATES, None)  # in a study of laws they are on a forest, like a law
    base = baseline_of(best_forests)
    default: Any = None
    order = ("cost", "log_loss", "brier", "interval_score", "pinball_loss")
    for by in [name for name in order if name in larger and (base or name == main)]:
        lead = lambda name, by=by: _compare(results, values, Verdict(base, name, means, best_forests, {}, larger, by))
        # The default comes first among equals: it stays.
        names = sorted(best_forests, key=lambda name: (means.at[name, by], name != base))
        best = lead(names[0])
        better = best
        if base is not None and best.differs(by, names[0], base) != 1:
            # Each leader takes part in further tests, which Holm corrects for: so the second one is tested again.
            second = next((name for name in names if best.differs(by, name, base) == 1), base)
            better = lead(second)
            if second != base and better.differs(by, second, base) != 1:
                better = lead(base)
        if not better.keeps_default:
            return better
        if by == main:
            if best.differs(by, names[0], BASE_RATES) == 1 and better.differs(by, better.leader, BASE_RATES) != 1:
                return best
            default = better
    return default


def _means(results: Results, values: dict[str, pd.DataFrame], best_forests: dict[str, tuple[str, int]]) -> Any:
    """Return the means of ``values`` over test folds, a frame ``[combiners measures]``.

    Laws also have the median of seconds, and the least coverage in a fifth of the rows on their ``best_forests``.
    """
    means = pd.DataFrame({measure: by_part.mean() for measure, by_part in values.items()}).round(DECIMALS)
    if results.settings.numbers:
        means["seconds"] = values["seconds"].median()  # the first folds compile, and would dominate a mean
        fifths = {law: worst_fifth(outcomes_of(results, *on), law) for law, on in best_forests.items()}
        means["worst_fifth"] = pd.Series(fifths)
    return means


def _compare(results: Results, values: dict[str, pd.DataFrame], verdict: Verdict) -> Verdict:
    """Test each combiner against leader and default; return the verdict with these p-values and least differences.

    ``values`` is {measure: frame}, with a row for each test fold and a column for each combiner and the base rates.
    """
    p_values, least_differences = {}, {}
    references = dict.fromkeys(name for name in (verdict.base, verdict.leader) if name is not None)
    test_share = 1 / results.settings.n_folds
    for measure, by_fold in values.items():
        if verdict.larger[measure] is None:
            continue
        # Each pair once: the default and another leader are the pair (leader, default).
        pairs = [(name, other) for other in references for name in by_fold if name not in (other, verdict.base)]
        differences = [(by_fold[name] - by_fold[other]).round(DECIMALS).to_numpy() for name, other in pairs]
        if measure == verdict.main and pairs:
            strictest = _LEVEL / len(pairs)  # Holm multiplies the least p-value by the number of tests
            least = partial(least_significant_difference, test_share=test_share, p_value=strictest)
            least_differences = dict(zip(pairs, map(least, differences), strict=True))
        tests = [float(corrected_t_test(difference, test_share=test_share).p_value) for difference in differences]
        p_values |= {(measure, *pair): p for pair, p in zip(pairs, holm(np.array(tests)), strict=True)}
    return verdict._replace(p_values=p_values, significant_difference=least_differences)


def _read_best_forests(
    records: Any, measures: list[str], by: str
) -> tuple[dict[str, pd.DataFrame], dict[str, tuple[str, int]]]:
    """Return {measure: frame ``[test_folds combiners]``}, and {combiner: (kind, leaf size) of its best forest}.

    ``records`` is the frame of `Results.records`, ``measures`` are columns of it, and the column ``by`` is the loss. A
    test fold is a pair (repetition, fold). A combiner's value on a test fold is that on the forest where its loss is
    least over all *other* test folds. Its best forest has the least loss over all test folds.
    """
    axes = ["combiner", "forest", "leaf_size", "repeat", "fold"]
    names = list(dict.fromkeys(records["combiner"]))
    forests = list(dict.fromkeys(zip(records["forest"], records["leaf_size"], strict=True)))
    table = records.set_index(axes).sort_index()
    folds = sorted(set(zip(records["repeat"], records["fold"], strict=True)))
    keys = pd.MultiIndex.from_tuples([(name, *forest, *fold) for name in names for forest in forests for fold in folds])
    cube = {m: table[m].reindex(keys).to_numpy().reshape(len(names), len(forests), len(folds)) for m in measures}
    loss = cube[by]  # [combiners, forests, folds]
    # Rounded, so that losses that differ by rounding alone tie: then the first forest is chosen.
    loss_elsewhere = np.round(loss.sum(axis=2, keepdims=True) - loss, DECIMALS)
    chosen_forests = np.argmin(loss_elsewhere, axis=1)[:, None, :]  # [combiners, 1, folds]
    choose = lambda array: pd.DataFrame(np.take_along_axis(array, chosen_forests, axis=1)[:, 0].T, columns=names)
    values = {measure: choose(array) for measure, array in cube.items()}
    best = np.argmin(np.round(loss.sum(axis=2), DECIMALS), axis=1)
    return values, {name: (str(forests[i][0]), int(forests[i][1])) for name, i in zip(names, best, strict=True)}


def _measure_base_rates(results: Results) -> dict[str, float]:
    """Return {measure: value} of the base rates, which answer every row with the classes' shares as probabilities."""
    p = np.array(list(shares(results).values()))  # the shares of rows, too, by which losses are averaged
    measures = {"log_loss": float(-p @ np.log(p)), "brier": float(1 - p @ p), "auc": 0.5, "accuracy": float(p.max())}
    if is_binary(results):
        # The Brier score of two classes counts the error of class 1 alone.
        measures |= {"brier": float(p[0] * p[1]), **dict.fromkeys(["average_precision", *_tops()], _share(results))}
    if results.settings.costs is not None:
        costs = np.asarray(results.settings.costs)
        measures["cost"] = float((p @ costs)[cheapest_decisions(p[None], costs)[0]])
    return measures


def _tops() -> list[str]:
    return [f"top_{top}" for top in TOPS]


def _share(results: Results) -> float:
    """Return the share of the positive class."""
    return shares(results)[str(results.settings.positive)]


def top_for(results: Results) -> int:
    """Return the entry of `TOPS` nearest, by ratio, to the per cent of the positive class in the study's rows."""
    return min(TOPS, key=lambda top: abs(np.log(100 * _share(results) / top)))


def decision(results: Results, verdict: Verdict) -> str:
    """Return the sentence that says which combiner or law to use: its name between backticks, classes in asterisks."""
    if len(verdict.best_forests) == 1:
        return f"Nothing to decide: `{verdict.leader}` alone was run."
    if verdict.noun == "law":
        return _decision_on_laws(results, verdict)
    rates, by, loss = BASE_RATES, verdict.criterion, verdict.means["log_loss"]
    if verdict.rejects_all:
        return _use_none(results, "probabilities", "the base rates alone, log loss", loss, number)
    whose = "the model's own" if verdict.base == MODEL else "the forest's"
    if verdict.base is None:
        first = (
            f"Of these take {_leader(verdict)}: its probabilities have the least log loss, "
            f"{number(loss[verdict.leader])}"
        )
        return f"{first}, on rows that it had not seen{_accuracy(results, verdict)}."
    if verdict.keeps_default:
        rival = loss.drop([rates, verdict.base]).idxmin()
        on = forest_name(*verdict.best_forests[verdict.base]) if verdict.best_forests[verdict.base][1] else ""
        mean = f"the mean (`{verdict.base}`{', ' * bool(on)}{on})"
        default = "the model's own probabilities" if verdict.base == MODEL else mean
        nothing = "no probabilities are" if verdict.any_better else "nothing is"
        chance = ", which may be chance" if loss[rival] < loss[verdict.base] else ""
        return (
            f"Keep {default}: {nothing} better, as far as tests tell: log loss {number(loss[verdict.base])}; "
            f"`{rival}` has {number(loss[rival])}{chance}{_accuracy(results, verdict)}."
        )
    if by == "cost":
        cost_here, cost_there = (_cost(verdict.means.at[name, "cost"]) for name in (verdict.leader, verdict.base))
        first = (
            f"Use {_leader(verdict)}: decisions by its probabilities cost less than by {whose}, {cost_here} against "
            f"{cost_there} for 100 rows that it had not seen"
        )
    elif not verdict.differs(by, verdict.leader, verdict.base):
        first = (
            f"Use {_leader(verdict)}: its probabilities are better than the base rates, log loss "
            f"{_pair(loss[verdict.leader], loss[rates])} on rows that it had not seen; {whose} "
            f"({number(loss[verdict.base])}) are not, though tests do not tell these from its own"
        )
    elif by == "brier":
        first = (
            f"Use {_leader(verdict)}: its probabilities are better than {whose} by Brier score, "
            f"{_pair(verdict.means.at[verdict.leader, by], verdict.means.at[verdict.base, by])} on rows that it had "
            f"not seen; by log loss they are not told apart ({_pair(loss[verdict.leader], loss[verdict.base])})"
        )
    else:
        first = (
            f"Use {_leader(verdict)}: its probabilities are better than {whose}, log loss "
            f"{_pair(loss[verdict.leader], loss[verdict.base])} on rows that it had not seen"
        )
    return f"{first}{_at_the_top(results, verdict)}{_accuracy(results, verdict)}."


def _use_none(results: Results, what: str, than: str, losses: Any, write: Callable[[float], str]) -> str:
    """Return the sentence that no combiner is told to be better than the base rates, or that test folds are too few.

    ``what`` is the noun for the answers, as "probabilities", and ``than`` names the base rates and the loss. ``losses``
    is a series of losses by combiner, with the base rates; ``write`` turns a loss into text.
    """
    base_loss, compared_losses = losses[BASE_RATES], losses.drop(BASE_RATES)
    n_parts = results.settings.n_repeats * results.settings.n_folds
    figures = (
        f"{write(base_loss)}, on rows that they had not seen (the least, `{compared_losses.idxmin()}`'s, is "
        f"{write(compared_losses.min())})."
    )
    if n_parts >= FEW_PARTS or compared_losses.min() >= base_loss:
        return f"Use none of them: no {what} are told to be better than {than} {figures}"
    return (
        f"Undecided: {n_parts} test parts are too few to tell any {what} to be better than {than} {figures} Take more "
        "--repeats."
    )


def _sensitivity(results: Results, verdict: Verdict, name: str, other: Any) -> str:
    """Return a sentence on the least difference in interval score of ``name`` and ``other`` that tests would find.

    Both are laws or the base rates. The sentence is empty if that difference is unknown, or ``other`` is None.
    """
    differences = verdict.significant_difference
    limit = differences.get((name, str(other)), differences.get((str(other), name), 0.0))
    n_parts = results.settings.n_repeats * results.settings.n_folds
    return f" {n_parts} test parts tell differences from {shown_value('interval_score', limit)} on." if limit else ""


def _decision_on_laws(results: Results, verdict: Verdict) -> str:
    """Return the sentence that says which law to use, and how many targets its 90% intervals held."""
    criterion, means, leader, base = verdict.criterion, verdict.means, verdict.leader, verdict.base
    loss = means["interval_score"].drop(BASE_RATES)
    value_of = lambda name, m="interval_score": shown_value(m, means.at[name, m])
    coverage_clause = (
        f"; they held {means.at[leader, 'coverage']:.1%} of the targets, and {means.at[leader, 'worst_fifth']:.1%} in "
        "the worst fifth of the rows"
    )
    if verdict.rejects_all:
        write = partial(shown_value, "interval_score")
        than = "the target's own quantiles, interval score"
        sentence = _use_none(results, "90% intervals", than, means["interval_score"], write)
        return sentence + _sensitivity(results, verdict, leader, BASE_RATES)
    if base is None:
        return (
            f"Of these take {_leader(verdict)}: its 90% intervals have the least interval score, {value_of(leader)}, "
            f"on rows that it had not seen{coverage_clause}."
        )
    if verdict.keeps_default:
        rival = str(verdict.rival)
        subject = "no 90% intervals are" if verdict.any_better else "nothing is"
        caveat = ", which may be chance" if loss[rival] < loss[base] else ""
        return (
            f"Keep residuals of one width (`{base}`, {forest_name(*verdict.best_forests[base])}): {subject} better, as "
            f"far as tests tell: interval score {value_of(base)}; `{rival}` has {value_of(rival)}{caveat}"
            f"{coverage_clause}.{_sensitivity(results, verdict, rival, base)}"
        )
    if criterion == "pinball_loss":
        return (
            f"Use {_leader(verdict)}: its quantiles are better than those of residuals of one width, pinball loss "
            f"{value_of(leader, criterion)} against {value_of(base, criterion)} on rows that it had not seen; by "
            f"interval score they are not told apart ({value_of(leader)} against "
            f"{value_of(base)}){coverage_clause}.{_sensitivity(results, verdict, leader, base)}"
        )
    if not verdict.differs(criterion, leader, base):
        return (
            f"Use {_leader(verdict)}: its 90% intervals are better than the target's own quantiles, interval score "
            f"{value_of(leader)} against {value_of(BASE_RATES)} on rows that it had not seen; those of one width "
            f"({value_of(base)}) are not, though tests do not tell these from its own"
            f"{coverage_clause}.{_sensitivity(results, verdict, leader, base)}"
        )
    return (
        f"Use {_leader(verdict)}: its 90% intervals are better than those of one width, interval score "
        f"{value_of(leader)} against {value_of(base)} on rows that it had not seen{coverage_clause}."
    )


def _leader(verdict: Verdict) -> str:
    """Return the leader between backticks, and its forest in parentheses."""
    return f"`{verdict.leader}`{_where(verdict, verdict.leader)}"


def _where(verdict: Verdict, name: str) -> str:
    """Return a combiner's forest in parentheses; an empty text for a given model, whose leaf size is 0."""
    return f" ({forest_name(*verdict.best_forests[name])})" if verdict.best_forests[name][1] else ""


def _at_the_top(results: Results, verdict: Verdict) -> str:
    """Return a clause on how many of 100 rows called most likely positive are positive; empty unless these are rare."""
    if not is_binary(results) or (share := _share(results)) >= RARE:
        return ""
    top = f"top_{top_for(results)}"
    n_leader, n_base = (100 * verdict.means.at[name, top] for name in (verdict.leader, verdict.base))
    positive, per_cent = results.settings.positive, top_for(results)
    clause = f"; of 100 rows called most likely (the top {per_cent}%), {n_leader:.0f} are *{positive}*"
    if verdict.differs(top, verdict.leader, verdict.base):
        return f"{clause} instead of {n_base:.0f}"
    by_default = f"{n_base:.0f} by {'the model' if verdict.base == MODEL else 'the mean'}, which is not told apart"
    return f"{clause} ({by_default}; of all rows {100 * share:.1f})"


def _accuracy(results: Results, verdict: Verdict) -> str:
    """Return a clause that compares the leader's accuracy with the most frequent class's, or the default's.

    It is empty if tests find the leader more accurate than that class, and there is no other default.
    """
    rates, accuracy = shares(results), verdict.means["accuracy"]
    usual = max(rates, key=lambda label: rates[label])
    if verdict.differs("accuracy", verdict.leader, BASE_RATES) != 1:
        # A small lead over the most frequent class says nothing; a large one may rest on too few test folds.
        if accuracy[verdict.leader] - rates[usual] < (1 - rates[usual]) / 10:
            return f"; accuracy says nothing here, since *{usual}* is right for {rates[usual]:.1%}"
        return (
            f"; it is right for {accuracy[verdict.leader]:.1%}, which tests do not tell from the {rates[usual]:.1%} "
            f"of always *{usual}*"
        )
    if verdict.keeps_default or verdict.base is None:
        return ""
    if not verdict.differs("accuracy", verdict.leader, verdict.base):
        return f"; it is right as often, as far as tests tell ({accuracy[verdict.leader]:.1%})"
    return f"; it is right for {accuracy[verdict.leader]:.1%} of rows instead of {accuracy[verdict.base]:.1%}"


def further(results: Results, verdict: Verdict) -> list[str]:
    """Return further sentences: ties with the leader, costs, other measures, and what is worse than the default."""
    if len(verdict.best_forests) == 1:
        return []
    by, main, sentences = verdict.criterion, verdict.main, []
    value = lambda name, measure: f"`{name}` ({shown_value(measure, verdict.means.at[name, measure])})"
    if ties := verdict.ties:
        more = f" and {len(ties) - _MOST_NAMED} more" if len(ties) > _MOST_NAMED else ""
        listed = ", ".join(value(name, by) for name in ties[:_MOST_NAMED])
        it = f"`{verdict.leader}`" if verdict.rejects_all else "it"
        sentences.append(f"Not told apart from {it} by {title(by)}: {listed}{more}.")
    if verdict.base is None:
        return sentences
    if "cost" in verdict.larger:
        costs = {name: _cost(verdict.means.at[name, "cost"]) for name in (verdict.leader, verdict.base, BASE_RATES)}
        sentence = f"At these costs 100 rows cost {costs[verdict.leader]} by `{verdict.leader}`"
        if not verdict.keeps_default:
            sentence += f", {costs[verdict.base]} by `{verdict.base}`"
            if not verdict.differs("cost", verdict.leader, verdict.base):
                sentence += " (not told apart)"
        alone = "" if verdict.differs("cost", verdict.leader, BASE_RATES) else ", which is not told apart"
        sentences.append(f"{sentence}; one decision for all rows costs {costs[BASE_RATES]}{alone}.")
    tested = [m for m, larger in verdict.larger.items() if larger is not None]
    others = [m for m in tested if m not in (by, "cost", *_tops())]
    signs = {measure: verdict.differs(measure, verdict.leader, verdict.base) for measure in others}
    for sign, word in ((1, "better"), (-1, "worse")):
        pairs = [
            f"{title(m)} ({_pair(verdict.means.at[verdict.leader, m], verdict.means.at[verdict.base, m], m)})"
            for m in others
            if signs[m] == sign
        ]
        also = "" if verdict.rejects_all else "also "
        sentences += [f"`{verdict.leader}` is {also}{word} than `{verdict.base}` by {_and(pairs)}."] if pairs else []
    if verdict.keeps_default:
        for m in others:
            better = [name for name in verdict.best_forests if verdict.differs(m, name, verdict.base) == 1]
            best = sorted(better, key=lambda name: verdict.means.at[name, m], reverse=bool(verdict.larger[m]))
            if best:
                rest = f" (and {len(best) - 1} more)" if len(best) > 1 else ""
                sentences.append(f"By {title(m)} {value(best[0], m)} is better than {value(verdict.base, m)}{rest}.")
    alike = [m for m in others if not any(verdict.differs(m, name, verdict.base) == 1 for name in verdict.best_forests)]
    if alike:
        sentences.append(
            f"By {_and([title(m) for m in alike], 'or')} no {verdict.noun} is told to be better than `{verdict.base}`."
        )
    worse = [name for name in verdict.best_forests if verdict.differs(main, name, verdict.base) == -1]
    if worse := sorted(worse, key=lambda name: -verdict.means.at[name, main]):
        more = f" and {len(worse) - _MOST_NAMED} more" if len(worse) > _MOST_NAMED else ""
        listed = ", ".join(value(name, main) for name in worse[:_MOST_NAMED])
        what = "Intervals" if verdict.noun == "law" else "Probabilities"
        sentences.append(f"{what} worse than `{verdict.base}`'s by {title(main)}: {listed}{more}.")
    return sentences


def shown_rows(verdict: Verdict) -> list[str]:
    """Return the names of the rows of the page's short table, in order, each once.

    They are the leader, at most `_MOST_NAMED` of its ties, the rival if the default stays, the default, the base rates.
    """
    rival = verdict.rival if verdict.keeps_default else None
    names = [verdict.leader, *verdict.ties[:_MOST_NAMED], rival, verdict.base, BASE_RATES]
    return list(dict.fromkeys(name for name in names if name))


def shown_measures(verdict: Verdict) -> list[str]:
    """Return the measures in the page's short table: cost, the main loss, untested measures, and those that differ.

    A measure differs if tests by it tell a row of that table from the default. The shares in `TOPS` have another table.
    """
    rows = [name for name in shown_rows(verdict) if name != BASE_RATES]
    plain = [m for m in verdict.larger if m not in _tops()]
    always = {"cost", verdict.main, *(m for m, larger in verdict.larger.items() if larger is None)}
    return [m for m in plain if m in always or any(verdict.differs(m, name, verdict.base) for name in rows)]


def title(measure: str) -> str:
    """Return the name of a measure for sentences."""
    return {"average_precision": "average precision", "cost": "cost"}.get(measure) or TITLES[measure]


def meaning(verdict: Verdict, name: str) -> str:
    """Return what a combiner, a law or the base rates are, in a few words."""
    if verdict.noun == "law":
        return COMPARED_LAWS.get(name, "the target's quantiles alone")
    return "the classes' shares alone" if name == BASE_RATES else COMPARED_COMBINERS[name].meaning


def arrow(verdict: Verdict, measure: str, up: str = "↑", down: str = "↓") -> str:
    """Return a space and ``up`` or ``down``, the measure's better direction; an empty text if it has none."""
    return {True: f" {up}", False: f" {down}", None: ""}[verdict.larger[measure]]


def number(value: float, digits: int = 3) -> str:
    """Return a value as text, with ``digits`` behind the point and without a zero before it: .154."""
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


def _pair(value: float, other: float, measure: str = "log_loss") -> str:
    """Return "… against …" for two values, with 3 to 6 decimals that tell them apart; measures of laws as in tables."""
    if measure in MEASURES_OF_LAWS:
        return f"{shown_value(measure, value)} against {shown_value(measure, other)}"
    digits = next((d for d in (3, 4, 5) if round(value, d) != round(other, d)), 6)
    return f"{number(value, digits)} against {number(other, digits)}"


def _and(parts: list[str], word: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"

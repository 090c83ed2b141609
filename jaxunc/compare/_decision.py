"""The decision of a study in sentences: which combiner or law to use, and what else its tests say."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._evaluate import TOPS
from ._laws import MEASURES_OF_LAWS
from ._settings import BASE_RATES, MODEL
from ._store import Results
from ._summary import forest_name
from ._verdict import (
    MOST_NAMED,
    RARE,
    Verdict,
    is_binary,
    number,
    positive_share,
    shares,
    shown_value,
    title,
    top_measures,
)

FEW_PARTS = 5  # number of test folds below which the corrected test hardly ever finds a difference


def top_for(results: Results) -> int:
    """Return the per cent in `TOPS` that is nearest, by ratio, to the positive class's share of the data's rows."""
    return min(TOPS, key=lambda top: abs(np.log(100 * positive_share(results) / top)))


def decision(results: Results, verdict: Verdict) -> str:
    """Return the sentence that says which combiner or law to use: its name between backticks, classes in asterisks."""
    if len(verdict.best_forests) == 1:
        return f"Nothing to decide: `{verdict.leader}` alone was run."
    if verdict.noun == "law":
        return _decision_on_laws(results, verdict)
    loss = verdict.means["log_loss"]
    if verdict.rejects_all:
        return _use_none(results, "probabilities", "the base rates alone, log loss", loss, number)
    if verdict.base is None:
        return (
            f"Of these take {_leader(verdict)}: its probabilities have the least log loss, "
            f"{number(loss[verdict.leader])}, on rows that it had not seen{_accuracy(results, verdict)}."
        )
    if verdict.keeps_default:
        return f"{_keep_default(verdict, verdict.base, loss)}{_accuracy(results, verdict)}."
    reason = _reason_to_use(verdict, verdict.base, loss)
    return f"Use {_leader(verdict)}: {reason}{_at_the_top(results, verdict)}{_accuracy(results, verdict)}."


def _keep_default(verdict: Verdict, base: str, loss: Any) -> str:
    """Return the beginning of the sentence that the default ``base`` is to be kept, with its loss and its rival's.

    ``loss`` is a series of log losses: an entry for each combiner, and one for the base rates.
    """
    kind, leaf_size = verdict.best_forests[base]
    if base == MODEL:
        default = "the model's own probabilities"
    elif leaf_size == 0:  # a given model's trees
        default = f"the mean (`{base}`)"
    else:
        default = f"the mean (`{base}`, {forest_name(kind, leaf_size)})"
    rival = loss.drop([BASE_RATES, base]).idxmin()
    # If some are better by a measure that chooses no leader, such as accuracy, this is said of probabilities alone.
    subject = "no probabilities are" if verdict.any_better else "nothing is"
    caveat = ", which may be chance" if loss[rival] < loss[base] else ""
    return (
        f"Keep {default}: {subject} better, as far as tests tell: log loss {number(loss[base])}; "
        f"`{rival}` has {number(loss[rival])}{caveat}"
    )


def _reason_to_use(verdict: Verdict, base: str, loss: Any) -> str:
    """Return the clause that says why, by values of which measure, the leader is to be used instead of ``base``.

    ``loss`` is as for `_keep_default`.
    """
    leader, by = verdict.leader, verdict.criterion
    whose = "the model's own" if base == MODEL else "the forest's"
    value = verdict.means[by]
    if by == "cost":
        return (
            f"decisions by its probabilities cost less than by {whose}, {shown_value(by, value[leader])} against "
            f"{shown_value(by, value[base])} for 100 rows that it had not seen"
        )
    if not verdict.differs(by, leader, base):  # tests find it, but not `base`, better than the base rates
        return (
            f"its probabilities are better than the base rates, log loss {_pair(loss[leader], loss[BASE_RATES])} on "
            f"rows that it had not seen; for {whose} ({number(loss[base])}) tests do not find that, nor do they tell "
            "the two apart"
        )
    if by == "brier":
        return (
            f"its probabilities are better than {whose} by Brier score, {_pair(value[leader], value[base])} on rows "
            f"that it had not seen; by log loss they are not told apart ({_pair(loss[leader], loss[base])})"
        )
    return (
        f"its probabilities are better than {whose}, log loss {_pair(loss[leader], loss[base])} on rows that it had "
        "not seen"
    )


def _use_none(results: Results, what: str, than: str, losses: Any, write: Callable[[float], str]) -> str:
    """Return the sentence that no combiner or law is told to be better than the base rates, or that folds are too few.

    ``what`` is the noun for the answers, as "probabilities", and ``than`` names the base rates and the loss. ``losses``
    is a series of losses by combiner, with the base rates; ``write`` turns a loss into text.
    """
    base_loss = losses[BASE_RATES]
    compared_losses = losses.drop(BASE_RATES)
    n_parts = results.settings.n_repeats * results.settings.n_folds
    least_loss = compared_losses.min()
    both_losses = (
        f"{write(base_loss)}, on rows that they had not seen (the least, `{compared_losses.idxmin()}`'s, is "
        f"{write(least_loss)})."
    )
    if n_parts >= FEW_PARTS or least_loss >= base_loss:  # if none is better in the mean, more folds would not help
        return f"Use none of them: no {what} are told to be better than {than} {both_losses}"
    return (
        f"Undecided: {n_parts} test parts are too few to tell any {what} to be better than {than} {both_losses} Take "
        "more --repeats."
    )


def _sensitivity(results: Results, verdict: Verdict, name: str, other: Any) -> str:
    """Return a sentence on the least difference in interval score of ``name`` and ``other`` that tests would find.

    ``name`` and ``other`` are laws or the base rates. Empty if the difference is 0 or not known.
    """
    differences = verdict.significant_difference
    limit = differences.get((name, str(other)), differences.get((str(other), name)))
    if not limit:
        return ""
    n_parts = results.settings.n_repeats * results.settings.n_folds
    return f" {n_parts} test parts tell differences from {shown_value('interval_score', limit)} on."


def _decision_on_laws(results: Results, verdict: Verdict) -> str:
    """Return the sentence that says which law to use, and how many targets its 90% intervals held."""
    leader, base = verdict.leader, verdict.base
    scores = verdict.means["interval_score"]
    if verdict.rejects_all:
        write = partial(shown_value, "interval_score")
        than = "the target's own quantiles, interval score"
        sentence = _use_none(results, "90% intervals", than, scores, write)
        return sentence + _sensitivity(results, verdict, leader, BASE_RATES)
    coverage_clause = (
        f"; they held {verdict.means.at[leader, 'coverage']:.1%} of the targets, and "
        f"{verdict.means.at[leader, 'worst_fifth']:.1%} in the worst fifth of the rows"
    )
    if base is None:
        return (
            f"Of these take {_leader(verdict)}: its 90% intervals have the least interval score, "
            f"{shown_value('interval_score', scores[leader])}, on rows that it had not seen{coverage_clause}."
        )
    if verdict.keeps_default:
        rival = str(verdict.rival)
        sensitivity = _sensitivity(results, verdict, rival, base)
        return f"{_keep_default_law(verdict, base, rival)}{coverage_clause}.{sensitivity}"
    sentence = f"Use {_leader(verdict)}: {_reason_to_use_law(verdict, base)}{coverage_clause}."
    if verdict.criterion == "interval_score" and verdict.differs("interval_score", leader, base):
        return sentence
    # Tests by interval score do not tell the two apart, so the reader is told which difference they would find.
    return sentence + _sensitivity(results, verdict, leader, base)


def _keep_default_law(verdict: Verdict, base: str, rival: str) -> str:
    """Return the beginning of the sentence that the default law is to be kept, with its score and the rival's."""
    scores = verdict.means["interval_score"]
    # If some law is better by another measure, this is said of intervals alone.
    subject = "no 90% intervals are" if verdict.any_better else "nothing is"
    caveat = ", which may be chance" if scores[rival] < scores[base] else ""
    return (
        f"Keep residuals of one width (`{base}`, {forest_name(*verdict.best_forests[base])}): {subject} better, as far "
        f"as tests tell: interval score {shown_value('interval_score', scores[base])}; `{rival}` has "
        f"{shown_value('interval_score', scores[rival])}{caveat}"
    )


def _reason_to_use_law(verdict: Verdict, base: str) -> str:
    """Return the clause that says why, by values of which measure, the leader is to be used instead of ``base``."""
    leader = verdict.leader
    scores = verdict.means["interval_score"]
    score_pair = _pair(scores[leader], scores[base], "interval_score")
    if verdict.criterion == "pinball_loss":
        losses = verdict.means["pinball_loss"]
        return (
            f"its quantiles are better than those of residuals of one width, pinball loss "
            f"{_pair(losses[leader], losses[base], 'pinball_loss')} on rows that it had not seen; by interval score "
            f"they are not told apart ({score_pair})"
        )
    if not verdict.differs(verdict.criterion, leader, base):  # it is better than the base rates, `base` is not
        return (
            f"its 90% intervals are better than the target's own quantiles, interval score "
            f"{_pair(scores[leader], scores[BASE_RATES], 'interval_score')} on rows that it had not seen; for those of "
            f"one width ({shown_value('interval_score', scores[base])}) tests do not find that, nor do they tell the "
            "two apart"
        )
    return (
        f"its 90% intervals are better than those of one width, interval score {score_pair} on rows that it had not "
        "seen"
    )


def _leader(verdict: Verdict) -> str:
    """Return the leader's name between backticks and, unless it reads a given model, its best forest in parentheses."""
    kind, leaf_size = verdict.best_forests[verdict.leader]
    if leaf_size == 0:  # a given model's trees
        return f"`{verdict.leader}`"
    return f"`{verdict.leader}` ({forest_name(kind, leaf_size)})"


def _at_the_top(results: Results, verdict: Verdict) -> str:
    """Return a clause on how many of 100 rows called most likely positive are so, by the leader and by the default.

    It is empty unless the study has two classes, and the positive one is rare.
    """
    if not is_binary(results) or (share := positive_share(results)) >= RARE:
        return ""
    per_cent = top_for(results)
    measure = f"top_{per_cent}"
    n_leader, n_base = (100 * verdict.means.at[name, measure] for name in (verdict.leader, verdict.base))
    clause = f"; of 100 rows called most likely (the top {per_cent}%), {n_leader:.0f} are *{results.settings.positive}*"
    if verdict.differs(measure, verdict.leader, verdict.base):
        return f"{clause} instead of {n_base:.0f}"
    default = "the model" if verdict.base == MODEL else "the mean"
    return f"{clause} ({n_base:.0f} by {default}, which is not told apart; of all rows {100 * share:.1f})"


def _accuracy(results: Results, verdict: Verdict) -> str:
    """Return a clause that compares the leader's accuracy with that of the most frequent class for every row.

    If tests find the leader more accurate, the clause compares it with the default instead. Then it is empty if the
    leader is the default, or the default was not run.
    """
    rates = shares(results)
    accuracy = verdict.means["accuracy"]
    usual = max(rates, key=lambda label: rates[label])
    if verdict.differs("accuracy", verdict.leader, BASE_RATES) != 1:
        # A lead of less than a tenth of that class's errors says nothing; a larger one may rest on too few test folds.
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
    """Return the sentences that follow `decision`: on ties with the leader, costs, other measures, worse combiners.

    Without a default there is no more than that on ties, and none if one combiner or law alone was run.
    """
    if len(verdict.best_forests) == 1:
        return []
    sentences = []
    if ties := verdict.ties:
        leader = f"`{verdict.leader}`" if verdict.rejects_all else "it"
        by = verdict.criterion
        sentences.append(f"Not told apart from {leader} by {title(by)}: {_list_values(verdict, ties, by)}.")
    if verdict.base is None:
        return sentences
    if "cost" in verdict.larger:
        sentences.append(_on_costs(verdict, verdict.base))
    tested = [measure for measure, larger in verdict.larger.items() if larger is not None]
    others = [measure for measure in tested if measure not in (verdict.criterion, "cost", *top_measures())]
    sentences += _on_other_measures(verdict, verdict.base, others)
    worse = [name for name in verdict.best_forests if verdict.differs(verdict.main, name, verdict.base) == -1]
    if worse:
        worst_first = sorted(worse, key=lambda name: -verdict.means.at[name, verdict.main])
        values = _list_values(verdict, worst_first, verdict.main)
        what = "Intervals" if verdict.noun == "law" else "Probabilities"
        sentences.append(f"{what} worse than `{verdict.base}`'s by {title(verdict.main)}: {values}.")
    return sentences


def _on_costs(verdict: Verdict, base: str) -> str:
    """Return a sentence on what 100 rows cost by the leader, by the default ``base``, and by one decision for all."""
    leader = verdict.leader
    costs = {name: shown_value("cost", verdict.means.at[name, "cost"]) for name in (leader, base, BASE_RATES)}
    sentence = f"At these costs 100 rows cost {costs[leader]} by `{leader}`"
    if not verdict.keeps_default:
        sentence += f", {costs[base]} by `{base}`"
        if not verdict.differs("cost", leader, base):
            sentence += " (not told apart)"
    sentence += f"; one decision for all rows costs {costs[BASE_RATES]}"
    if not verdict.differs("cost", leader, BASE_RATES):
        sentence += ", which is not told apart"
    return f"{sentence}."


def _on_other_measures(verdict: Verdict, base: str, measures: list[str]) -> list[str]:
    """Return sentences on what tests find better or worse than the default ``base`` by the ``measures``.

    A last sentence names the measures by which nothing is found better.
    """
    leader = verdict.leader
    sentences = []
    also = "" if verdict.rejects_all else "also "
    for sign, word in ((1, "better"), (-1, "worse")):
        pairs = [
            f"{title(measure)} ({_pair(verdict.means.at[leader, measure], verdict.means.at[base, measure], measure)})"
            for measure in measures
            if verdict.differs(measure, leader, base) == sign
        ]
        if pairs:
            sentences.append(f"`{leader}` is {also}{word} than `{base}` by {_and(pairs)}.")
    undecided = []  # measures by which nothing is told to be better than the default
    for measure in measures:
        better = [name for name in verdict.best_forests if verdict.differs(measure, name, base) == 1]
        if not better:
            undecided.append(measure)
        elif verdict.keeps_default:
            choose = max if verdict.larger[measure] else min
            best = choose(better, key=lambda name, measure=measure: verdict.means.at[name, measure])
            more = f" (and {len(better) - 1} more)" if len(better) > 1 else ""
            sentences.append(
                f"By {title(measure)} {_name_and_value(verdict, best, measure)} is better than "
                f"{_name_and_value(verdict, base, measure)}{more}."
            )
    if undecided:
        titles = _and([title(measure) for measure in undecided], "or")
        sentences.append(f"By {titles} no {verdict.noun} is told to be better than `{base}`.")
    return sentences


def _list_values(verdict: Verdict, names: list[str], measure: str) -> str:
    """Return up to `MOST_NAMED` names with their means of a measure, and how many more there are, as a text."""
    values = ", ".join(_name_and_value(verdict, name, measure) for name in names[:MOST_NAMED])
    n_more = len(names) - MOST_NAMED
    return f"{values} and {n_more} more" if n_more > 0 else values


def _name_and_value(verdict: Verdict, name: str, measure: str) -> str:
    """Return a combiner's or a law's name between backticks, and its mean of a measure in parentheses."""
    return f"`{name}` ({shown_value(measure, verdict.means.at[name, measure])})"


def _pair(value: float, other: float, measure: str = "log_loss") -> str:
    """Return "VALUE against OTHER" with as many decimals, 3 to 6, as make the two texts differ.

    Values of measures of laws are written as by `shown_value`.
    """
    if measure in MEASURES_OF_LAWS:
        return f"{shown_value(measure, value)} against {shown_value(measure, other)}"
    digits = next((d for d in (3, 4, 5) if round(value, d) != round(other, d)), 6)
    return f"{number(value, digits)} against {number(other, digits)}"


def _and(parts: list[str], word: str = "and") -> str:
    """Return the parts as one text, joined by commas and, before the last, by ``word``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"

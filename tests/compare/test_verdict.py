"""What the first line says, and whether it is right: on cells of given sets, and on results of known differences."""

from typing import Any

import numpy as np
import pytest

from jaxunc import compare
from jaxunc.compare._decision import decision, further
from jaxunc.compare._page import page
from jaxunc.compare._verdict import BASE_RATES, verdict
from tests.compare._made_up import kept_results, made_up_results, shown

pytestmark = pytest.mark.once

SAID = {
    "bankLoan": "Use `learned` (random-forest, leaf size 16): its probabilities are better than the forest's, log loss "
    ".550 against .566 on rows that it had not seen; it is right as often, as far as tests tell (74.2%).",
    "sick": "Use `learned` (random-forest, leaf size 1): its probabilities are better than the forest's, log loss .031 "
    "against .043 on rows that it had not seen; of 100 rows called most likely (the top 5%), 98 are *sick* (95 by the "
    "mean, which is not told apart; of all rows 6.1); it is right as often, as far as tests tell (98.7%).",
    "credit-g": "Keep the mean (`probability`, random-forest, leaf size 1): nothing is better, as far as tests tell: "
    "log loss .499; `calibrated` has .492, which may be chance.",
}


def by_hand(results, measure: str, larger: bool, leader: str) -> dict[str, tuple[float, int]]:
    """{combiner: (mean, whether it is told to be better (1) or worse (-1) than "probability")}, by loops."""
    parts = sorted({(cell.repeat, cell.fold) for cell in results.outcomes})
    sizes, names = sorted({cell.leaf_size for cell in results.outcomes}), results.about["combiners"]

    def read(what, name, size, part):
        outcome = results.outcomes[compare.Cell("random-forest", size, *part)]
        return (outcome.positive[name] if what == "average_precision" else outcome.measures[name])[what]

    values: dict[str, Any] = {}
    for name in names:
        loss = {(size, part): read("log_loss", name, size, part) for size in sizes for part in parts}
        best = lambda part, loss=loss: min(sizes, key=lambda s: round(sum(loss[s, p] for p in parts if p != part), 6))
        values[name] = np.array([read(measure, name, best(part), part) for part in parts])
    others = [name for name in (*names, BASE_RATES) if name != "probability"]
    pairs = [(name, "probability") for name in others]
    if leader != "probability":
        pairs += [(name, leader) for name in others if name != leader]
    share = np.array(list(results.about["data"]["classes"].values())) / results.about["data"]["n_instances"]
    rates = {"log_loss": -np.sum(share * np.log(share)), "average_precision": share.min()}
    values[BASE_RATES] = np.full(len(parts), rates[measure])
    apart = np.array([np.round(values[name] - values[other], 6) for name, other in pairs])
    adjusted = compare.holm(compare.corrected_t_test(apart, test_share=0.2).p_value)
    lead = {name: (values[name].mean() - values["probability"].mean()) * (1 if larger else -1) for name in others}
    told = dict(zip(others, adjusted[: len(others)] < 0.05, strict=True))
    return {name: (values[name].mean(), int(told[name]) * (1 if lead[name] > 0 else -1)) for name in others}


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", SAID)
def test_the_first_line_of_given_sets_is_right(name):
    results = kept_results(name)
    found = verdict(results, results.records())
    assert decision(results, found) == SAID[name]
    for measure, larger in (("log_loss", False), ("average_precision", True)):
        for combiner, (mean, told) in by_hand(results, measure, larger, found.leader).items():
            assert found.means.at[combiner, measure] == pytest.approx(mean, abs=2e-6)
            assert found.differs(measure, combiner, "probability") == told, (measure, combiner)
    lines = shown(results).splitlines()
    assert " ".join(" ".join(lines[:6]).split()).startswith(SAID[name].replace("`", "")[:150])
    assert max(map(len, lines)) <= 100
    whole = page(results)
    assert whole.index(SAID[name].replace("`", "")[4:11]) < whole.index('id="appendix"')
    assert "≈" not in whole


def shaped(noise: Any = 0.01, costs=None, share=0.4, wild=0.002, **measures: dict[str, float]) -> compare.Results:
    """Results in which combiners have these measures, give or take; the log loss is the first of them."""
    table, names = compare.breast_cancer(), tuple(measures["log_loss"])
    y = (np.arange(len(table.y)) % 100 < 100 * share).astype(int)
    settings = compare.Settings(("random-forest",), leaf_sizes=(4,), n_trees=3, costs=costs)
    results = made_up_results(table._replace(y=y, class_labels=("no", "yes"), name="t.csv"), settings, names)
    random = np.random.default_rng(0)
    for outcome in results.outcomes.values():
        for name in names:
            for measure, values in measures.items():
                scatter = wild if measure != "log_loss" else noise[name] if isinstance(noise, dict) else noise
                value = values[name] + scatter * random.normal()
                if measure == "cost":
                    outcome.costs[name] = value
                elif measure == "top":
                    outcome.positive[name]["top"] = [value] * 4
                else:
                    outcome.measures[name][measure] = value
    return results


def of_both(probability: float, learned: float) -> dict[str, float]:
    return {"probability": probability, "learned": learned}


KEPT = "Keep the mean (`probability`, random-forest, leaf size 4): "
USED = "Use `learned` (random-forest, leaf size 4): "
COSTS = ((0, 1), (5, 0))
CASES = {
    "better": (
        {"log_loss": of_both(0.5, 0.4), "accuracy": of_both(0.9, 0.8)},
        USED + "its probabilities are better than the forest's, log loss",
        ["it is right for 80.0% of rows instead of 90.0%", "`learned` is also worse than `probability` by accuracy"],
    ),
    "kept": (
        {"log_loss": {"learned": 0.5, "probability": 0.502, "vote": 9.0}},
        KEPT + "nothing is better",
        ["`learned` has .499, which may be chance", "Probabilities worse than `probability`'s by log loss: `vote`"],
    ),
    "kept, and something ranks better": (
        {"log_loss": {"probability": 0.5, "vote": 0.6}, "auc": {"probability": 0.7, "vote": 0.8}},
        KEPT + "no probabilities are better",
        ["By AUC `vote` (.800) is better than `probability` (.700)"],
    ),
    "no better than the base rates": (
        {"log_loss": of_both(0.9, 0.672)},
        "Use none of them: no probabilities are told to be better than the base rates alone, log loss .681",
        [],
    ),
    "ties among what is no better": (
        {"log_loss": of_both(0.9, 0.672) | {"isotonic": 0.6725}},
        "Use none of them",
        ["Not told apart from `learned` by log loss: `isotonic`"],
    ),
    "better than the base rates, as the default is not": (
        {"log_loss": of_both(0.7, 0.6), "noise": of_both(0.1, 0.005)},
        USED + "its probabilities are better than the base rates",
        ["for the forest's (.665) tests do not find that, nor do they tell the two apart"],
    ),
    "better by Brier score alone": (
        {"log_loss": of_both(0.5, 0.499), "brier": of_both(0.16, 0.14)},
        USED + "its probabilities are better than the forest's by Brier",
        ["by log loss they are not told apart (.498 against .496)", "no combiner is told to be better"],
    ),
    "rare": (
        {"log_loss": of_both(0.2, 0.1), "share": 0.05, "top": of_both(0.33, 0.41), "accuracy": of_both(0.94, 0.947)},
        "Use `learned`",
        [
            "of 100 rows called most likely (the top 5%), 41 are *yes* instead of 33",
            "accuracy says nothing here, since *no* is right for 94.7%",
        ],
    ),
    "costs": (
        {"log_loss": of_both(0.5, 0.501), "costs": COSTS, "cost": of_both(0.3, 0.2)},
        USED + "decisions by its probabilities cost less than by the forest's, 2",
        ["one decision for all rows costs 57.82."],
    ),
    "costs that tell nothing": (
        {"log_loss": of_both(0.5, 0.4), "costs": COSTS, "cost": of_both(0.2, 0.2)},
        USED + "its probabilities are better than the forest's",
        ["(not told apart)"],
    ),
    "without the default": ({"log_loss": {"vote": 0.5, "learned": 0.4}}, "Of these take `learned`", []),
    "an accuracy of few parts": (
        {"log_loss": of_both(0.5, 0.4), "accuracy": of_both(0.6, 0.7), "wild": 0.2},
        "Use `learned`",
        ["which tests do not tell from the 57.8% of always *no*"],
    ),
    "alone": ({"log_loss": {"vote": 0.5}}, "Nothing to decide: `vote` alone was run.", []),
}


@pytest.mark.room(keep=2)
@pytest.mark.parametrize(("given", "start", "more"), CASES.values(), ids=CASES)
def test_what_is_said(given, start, more):
    results = shaped(**given)
    found = verdict(results, results.records())
    said = decision(results, found)
    assert said.startswith(start)
    everything = " ".join([said, *further(results, found)])
    assert not [words for words in more if words not in everything], everything
    assert "nan" not in everything
    if found.rejects_all:
        assert_nothing_is_starred(results)


def assert_nothing_is_starred(results):
    said = shown(results)
    assert "Use none of them" in said
    assert "*" not in said
    assert "from it" not in said
    assert '<th scope="row" class="best"' not in page(results)


def test_a_loss_ten_times_as_large_is_no_tie():
    """A combiner whose loss varies much is not told apart, and not called alike."""
    results = shaped(log_loss=of_both(0.5, 0.4) | {"isotonic": 0.41, "evidence": 4.0})
    random = np.random.default_rng(1)
    for outcome in results.outcomes.values():
        outcome.measures["evidence"]["log_loss"] = float(40 * random.uniform() ** 4)
    found = verdict(results, results.records())
    assert found.differs("log_loss", "evidence", "learned") == 0
    assert found.ties == ["isotonic"]

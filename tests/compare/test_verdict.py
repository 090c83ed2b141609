"""What the first line says, and whether it is right: on cells of given sets, and on results of known differences."""

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from jaxunc import compare
from jaxunc.compare._page import page
from jaxunc.compare._verdict import BASE_RATES, decision, further, verdict
from tests.compare._made_up import kept_results, made_up_results

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
    pairs = [(name, "probability") for name in (*names, BASE_RATES) if name != "probability"]
    pairs += [(name, leader) for name in (*names, BASE_RATES) if name not in ("probability", leader)]
    share = np.array(list(results.about["data"]["classes"].values())) / results.about["data"]["n_instances"]
    rates = {"log_loss": -np.sum(share * np.log(share)), "average_precision": share.min()}
    values[BASE_RATES] = np.full(len(parts), rates[measure])
    p_values = []
    for one, other in pairs if leader != "probability" else pairs[: len(names)]:
        d = np.round(values[one] - values[other], 6)
        t = d.mean() / np.sqrt((1 / len(d) + 0.2 / 0.8) * d.var(ddof=1)) if np.ptp(d) else 0.0
        p_values.append(2 * stats.t.sf(abs(t), len(d) - 1))
    adjusted, worst = {}, 0.0
    for i, k in enumerate(np.argsort(p_values)):
        worst = max(worst, min(1.0, (len(p_values) - i) * p_values[k]))
        adjusted[k] = worst
    told = {one: adjusted[k] < 0.05 for k, (one, _) in enumerate(pairs[: len(names)])}
    lead = {name: (values[name].mean() - values["probability"].mean()) * (1 if larger else -1) for name in told}
    return {name: (values[name].mean(), int(told[name]) * (1 if lead[name] > 0 else -1)) for name in told}


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
    stream = io.StringIO()
    compare.show(Console(file=stream, width=100), results)
    lines = stream.getvalue().splitlines()
    assert " ".join(" ".join(lines[:6]).split()).startswith(SAID[name].replace("`", "")[:150])
    assert max(map(len, lines)) <= 100
    whole = page(results)
    assert whole.index(SAID[name].replace("`", "")[4:11]) < whole.index('id="appendix"')
    assert "≈" not in whole


def shaped(
    losses: dict[str, float], *, noise: Any = 0.01, classes=("no", "yes"), costs=None, share=0.4, wild=0.002, **more
):
    """Results in which combiners have a log loss, give or take; further measures by keyword."""
    table = compare.breast_cancer()
    y = (np.arange(len(table.y)) % 100 < 100 * share).astype(int)
    settings = compare.Settings(("random-forest",), leaf_sizes=(4,), n_trees=3, costs=costs)
    results = made_up_results(table._replace(y=y, class_labels=classes, name="t.csv"), settings, tuple(losses))
    random = np.random.default_rng(0)
    for outcome in results.outcomes.values():
        for name in losses:
            outcome.measures[name]["log_loss"] = (
                losses[name] + (noise[name] if isinstance(noise, dict) else noise) * random.normal()
            )
            for measure, values in more.items():
                value = values[name] + wild * random.normal()
                if measure == "cost":
                    outcome.costs[name] = value
                elif measure == "top":
                    outcome.positive[name]["top"] = [value] * 4
                else:
                    outcome.measures[name][measure] = value
    return results


CASES = {
    "better": (
        {"losses": {"probability": 0.5, "learned": 0.4}, "accuracy": {"probability": 0.9, "learned": 0.8}},
        "Use `learned` (random-forest, leaf size 4): its probabilities are better than the forest's, log loss",
        ["it is right for 80.0% of rows instead of 90.0%", "`learned` is also worse than `probability` by accuracy"],
    ),
    "kept": (
        {"losses": {"learned": 0.5, "probability": 0.502, "vote": 9.0}},
        "Keep the mean (`probability`, random-forest, leaf size 4): nothing is better",
        ["`learned` has .499, which may be chance", "Probabilities worse than `probability`'s by log loss: `vote`"],
    ),
    "kept, and something ranks better": (
        {"losses": {"probability": 0.5, "vote": 0.6}, "auc": {"probability": 0.7, "vote": 0.8}},
        "Keep the mean (`probability`, random-forest, leaf size 4): no probabilities are better",
        ["By AUC `vote` (.800) is better than `probability` (.700)"],
    ),
    "no better than the base rates": (
        {"losses": {"probability": 0.9, "learned": 0.672}},
        "Use none of them: no probabilities are told to be better than the base rates alone, log loss .681",
        [],
    ),
    "ties among what is no better": (
        {"losses": {"probability": 0.9, "learned": 0.672, "isotonic": 0.6725}},
        "Use none of them",
        ["Not told apart from `learned` by log loss: `isotonic`"],
    ),
    "better than the base rates, as the default is not": (
        {"losses": {"probability": 0.7, "learned": 0.6}, "noise": {"probability": 0.1, "learned": 0.005}},
        "Use `learned` (random-forest, leaf size 4): its probabilities are better than the base rates",
        ["though tests do not tell these from its own"],
    ),
    "better by Brier score alone": (
        {"losses": {"probability": 0.5, "learned": 0.499}, "brier": {"probability": 0.16, "learned": 0.14}},
        "Use `learned` (random-forest, leaf size 4): its probabilities are better than the forest's by Brier",
        ["by log loss they are not told apart (.498 against .496)", "no combiner is told to be better"],
    ),
    "rare": (
        {
            "losses": {"probability": 0.2, "learned": 0.1},
            "share": 0.05,
            "top": {"probability": 0.33, "learned": 0.41},
            "accuracy": {"probability": 0.94, "learned": 0.947},
        },
        "Use `learned`",
        [
            "of 100 rows called most likely (the top 5%), 41 are *yes* instead of 33",
            "accuracy says nothing here, since *no* is right for 94.7%",
        ],
    ),
    "costs": (
        {
            "losses": {"probability": 0.5, "learned": 0.501},
            "costs": ((0, 1), (5, 0)),
            "cost": {"probability": 0.3, "learned": 0.2},
        },
        "Use `learned` (random-forest, leaf size 4): decisions by its probabilities cost less than by the forest's, 2",
        ["one decision for all rows costs 57.82."],
    ),
    "costs that tell nothing": (
        {
            "losses": {"probability": 0.5, "learned": 0.4},
            "costs": ((0, 1), (5, 0)),
            "cost": {"probability": 0.2, "learned": 0.2},
        },
        "Use `learned` (random-forest, leaf size 4): its probabilities are better than the forest's",
        ["(not told apart)"],
    ),
    "without the default": ({"losses": {"vote": 0.5, "learned": 0.4}}, "Of these take `learned`", []),
    "an accuracy of few parts": (
        {"losses": {"probability": 0.5, "learned": 0.4}, "accuracy": {"probability": 0.6, "learned": 0.7}, "wild": 0.2},
        "Use `learned`",
        ["which tests do not tell from the 57.8% of always *no*"],
    ),
    "alone": ({"losses": {"vote": 0.5}}, "Nothing to decide: `vote` alone was run.", []),
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
    stream = io.StringIO()
    compare.show(Console(file=stream, width=100), results)
    assert "Use none of them" in stream.getvalue()
    assert "*" not in stream.getvalue()
    assert "from it" not in stream.getvalue()
    assert '<th scope="row" class="best"' not in page(results)


def test_a_loss_ten_times_as_large_is_no_tie():
    """A combiner whose loss varies much is not told apart, and not called alike."""
    results = shaped({"probability": 0.5, "learned": 0.4, "isotonic": 0.41, "evidence": 4.0})
    random = np.random.default_rng(1)
    for outcome in results.outcomes.values():
        outcome.measures["evidence"]["log_loss"] = float(40 * random.uniform() ** 4)
    found = verdict(results, results.records())
    assert found.differs("log_loss", "evidence", "learned") == 0
    assert found.ties == ["isotonic"]

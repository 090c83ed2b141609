"""Laws of numbers compared: their measures by other code, what is decided of them, and the command from end to end."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from rich.console import Console
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import RepeatedKFold

from jaxunc import compare
from jaxunc.compare import COMPARED_LAWS, Cell, NumberOutcome, Results, Settings, Store
from jaxunc.compare._laws import COVERAGES, LEVELS
from jaxunc.compare._store import describe
from jaxunc.compare._verdict import BASE_RATES, decision, further, shown_rows, verdict
from jaxunc.estimators import UncertainForestRegressor
from tests._refusal import refuses
from tests.compare.test_command import refused, run
from tests.compare.test_verdict import assert_nothing_is_starred

pytestmark = pytest.mark.once

EVERY = [*COMPARED_LAWS, BASE_RATES]


@pytest.fixture(scope="module")
def table() -> compare.Table:
    """Houses whose prices scatter more where the second column is positive."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)).round(3)
    y = 60 * X[:, 0] + rng.normal(size=150) * np.where(X[:, 1] > 0, 30, 5)
    return compare.Table("made up", X, y, (), taken="'price' is taken for a number", names=("a", "b", "c"))


def naive(forest, X, y, X_test) -> dict[str, np.ndarray]:
    """Quantiles of each law, trees asked one by one."""
    found = {
        law: UncertainForestRegressor(FrozenEstimator(forest), law=law).fit(X, y).predict(X_test, quantiles=LEVELS)
        for law in list(COMPARED_LAWS)[:5]
    }
    X32 = X.astype(np.float32)
    unseen = np.stack([~np.isin(np.arange(len(y)), bag) for bag in forest.estimators_samples_])
    each = np.stack([tree.predict(X32) for tree in forest.estimators_])
    some = unseen.any(axis=0)
    apart = y[some] - (each * unseen).sum(axis=0)[some] / unseen.sum(axis=0)[some]
    trees = np.stack([tree.predict(X_test.astype(np.float32)) for tree in forest.estimators_])
    mean, spread = trees.mean(axis=0), trees.std(axis=0)
    found["plain"] = mean[:, None] + np.quantile(apart, LEVELS)
    found["trees"] = mean[:, None] + spread[:, None] * scipy.stats.norm.ppf(LEVELS)
    return found | {BASE_RATES: np.tile(np.quantile(y, LEVELS), (len(X_test), 1))}


@pytest.fixture(scope="module")
def results(table) -> Results:
    """A study of these on two parts."""
    sizes = {"leaf_sizes": (3,), "n_trees": 30, "n_repeats": 1, "n_folds": 2}
    settings = Settings(("random-forest",), tuple(COMPARED_LAWS), numbers=True, **sizes)
    return compare.run(table, settings, quiet=True)


@pytest.mark.exhaustive
def test_measures_are_those_of_loops(table, results):
    splits = RepeatedKFold(n_splits=2, n_repeats=1, random_state=0).split(table.X)
    for (cell, outcome), (train, test) in zip(results.outcomes.items(), splits, strict=True):
        forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=cell.fold)
        forest.fit(table.X[train], table.y[train])
        y = table.y[test]
        for law, q in naive(forest, table.X[train], table.y[train], table.X[test]).items():
            low, high = q[:, 0], q[:, -1]
            held = (low <= y) & (y <= high)
            loss = [
                max(t * (a - b), (t - 1) * (a - b))
                for a, row in zip(y, q, strict=True)
                for t, b in zip(LEVELS, row, strict=True)
            ]
            score = (high - low) + 20 * np.maximum(low - y, 0) + 20 * np.maximum(y - high, 0)
            expected = {"interval_score": score.mean(), "pinball_loss": np.mean(loss), "coverage": held.mean()}
            expected["width"] = (high - low).mean()
            found = outcome.measures[law]
            assert found["seconds"] >= 0
            for name, value in expected.items():
                assert found[name] == pytest.approx(value, rel=1e-4, abs=1 / len(y) if name == "coverage" else 1e-6), (
                    law
                )
            counts = [((q[:, i] <= y) & (y <= q[:, -1 - i])).sum() for i in range(8, -1, -1)]
            np.testing.assert_allclose(outcome.covered[law], counts, atol=1)
            assert abs(sum(outcome.fifths[law]) - held.sum()) <= 1
            np.testing.assert_allclose(outcome.drawn[law][-1], [low[-1], high[-1], y[-1]], rtol=1e-5)
        assert outcome.fifths["size"] == [15] * 5
        assert set(outcome.measures) == set(EVERY)
    np.testing.assert_allclose(COVERAGES, np.arange(1, 10) / 10)


def test_what_is_kept_goes_on_and_what_is_damaged_is_refused(table, tmp_path):
    results = made_up(table, dict.fromkeys(EVERY, 9.0), n_folds=2)
    store = Store(tmp_path, table, results.settings)
    (first, outcome), *others = results.outcomes.items()
    store.add(first, outcome)
    again = Store(tmp_path, table, results.settings)
    assert again.outcomes == {first: outcome}
    for other in others:
        again.add(*other)
    assert again.finish() == results
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["data"]["classes"] == {}
    assert document["data"]["taken"] == table.taken
    assert document["combiners"] == list(COMPARED_LAWS)
    refuses(ValueError, r"data\.sha256 was", Store, tmp_path, table._replace(y=table.y + 1e-9), results.settings)
    for name, wrong in (
        ("measures", {}),
        ("covered", {law: [1] * 8 for law in EVERY}),
        ("covered", {law: [99999] * 9 for law in EVERY}),
        ("fifths", {"size": [1] * 5}),
        ("drawn", {law: [[1.0, 2.0]] for law in EVERY}),
        ("drawn", {law: [[1.0, 2.0, None]] for law in EVERY}),
        ("drawn", {law: [[1.0, 2.0, float("nan")]] for law in EVERY}),
    ):
        entries = [{**document["forests"][0], name: wrong}, *document["forests"][1:]]
        (tmp_path / "results.json").write_text(json.dumps({**document, "forests": entries}))
        refuses(ValueError, r"results\.json is not one of jaxunc compare", Store, tmp_path, table, results.settings)


def made_up(table, losses: dict[str, float], n_folds: int = 10) -> Results:
    """Results of laws with these interval scores, plus the fold's tenth, which all share but for a hundredth."""
    laws = [law for law in losses if law != BASE_RATES]
    settings = Settings(("random-forest", "extra-trees"), laws, (4,), n_repeats=1, n_folds=n_folds, numbers=True)
    outcomes = {}
    for forest in settings.forests:
        for fold in range(n_folds):
            rest = {"pinball_loss": 1.0, "coverage": 0.9, "width": 3.0, "seconds": 0.25}
            shifts = [fold / 10 + (fold * i % 3) / 100 + (forest == "extra-trees") for i in range(1, len(losses) + 1)]
            measures = {
                law: {"interval_score": loss + shift, **rest}
                for (law, loss), shift in zip(losses.items(), shifts, strict=True)
            }
            counts = {law: list(range(2, 20, 2)) for law in losses}
            fifths = {law: [4, 4, 4, 4, 2] for law in losses}
            drawn = {law: [[0.0, 1.0, 0.5], [0.0, 2.0, 3.0]] for law in losses}
            outcome = NumberOutcome(measures, counts, {"size": [4] * 5, **fifths}, drawn)
            outcomes[Cell(forest, 4, 0, fold)] = outcome
    return Results(describe(table, settings) | {"combiners": laws}, outcomes)


DECIDED = {
    "better": ({"learned": 8, "bins": 8.001, "plain": 9, BASE_RATES: 20}, "learned"),
    "nothing better": ({"learned": 9.001, "plain": 9, BASE_RATES: 20}, "plain"),
    "without plain": ({"learned": 8, "bins": 9, BASE_RATES: 20}, "learned"),
    "none": ({"learned": 20, "plain": 20.001, BASE_RATES: 20.002}, "plain"),
    "one": ({"learned": 8, BASE_RATES: 20}, "learned"),
}
SENTENCES = {
    "better": "Use `learned` (random-forest, leaf size 4): its 90% intervals are better than those of one width, "
    "interval score 8.459 against 9.45 on rows that it had not seen; they held 90.0% of the targets, and 50.0% in the "
    "worst fifth of the rows.",
    "nothing better": "Keep residuals of one width (`plain`, random-forest, leaf size 4): nothing is better",
    "without plain": "Of these take `learned` (random-forest, leaf size 4): its 90% intervals have the least",
    "none": "Use none of them: no 90% intervals are told to be better than the target's own quantiles, interval score",
    "one": "Nothing to decide: `learned` alone was run.",
}


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("case", DECIDED)
def test_what_is_decided(table, case, tmp_path):
    losses, leader = DECIDED[case]
    study = made_up(table, losses)
    found = verdict(study, study.records())
    assert found.leader == leader
    sentence = decision(study, found)
    assert sentence.startswith(SENTENCES[case])
    assert ("10 test parts tell differences from " in sentence) == (case in ("nothing better", "none"))
    assert set(re.findall(r"`(\w+)`", sentence)) - set(shown_rows(found)) == set(), "each law that it names is shown"
    assert found.noun == "law"
    assert found.means.at[leader, "worst_fifth"] == 0.5
    said = " ".join(further(study, found))
    assert ("Not told apart from it by interval score: `bins` (8.46)" in said) == (case == "better")
    if case == "none":
        assert "Not told apart from `plain` by interval score: `learned`" in said
        assert_nothing_is_starred(study)
    assert "combiner" not in said
    text = compare.write_page(tmp_path, study).read_text()
    assert "combiner" not in text.split("</style>")[1]
    assert text.count("<img") == 2 + 2 * (len(losses) > 2)
    assert "'price' is taken for a number" in text.replace("&#39;", "'")


@pytest.mark.parametrize(("n_folds", "words"), [(4, "Undecided: 4 test parts are too few"), (10, "Use none of them")])
def test_few_test_parts_do_not_say_that_none_is_to_be_used(table, n_folds, words):
    study = made_up(table, DECIDED["none"][0], n_folds=n_folds)
    found = verdict(study, study.records())
    means = found.means.copy()
    means.loc["learned", "interval_score"] = 19.0  # less than the base rates', which nothing tells
    assert decision(study, found._replace(means=means)).startswith(words)


def test_what_another_measure_tells_is_not_denied(table):
    """Corrected over the default's comparisons alone, quantiles may be better where the default is kept."""
    study = made_up(table, DECIDED["nothing better"][0])
    found = verdict(study, study.records())
    means = found.means.copy()
    means.loc["learned", "pinball_loss"] = 0.5
    other = found._replace(means=means, p_values=found.p_values | {("pinball_loss", "learned", "plain"): 0.01})
    assert decision(study, other) == decision(study, found).replace("nothing is better", "no 90% intervals are better")
    assert "By pinball loss `learned` (0.5) is better than `plain` (1)." in further(study, other)


def test_settings_of_laws():
    assert Settings(numbers=True).counts == "oob"
    assert Settings(combiners=("plain", "learned"), numbers=True).combiners == ("learned", "plain")
    assert set(COMPARED_LAWS) - set(Settings(numbers=True).combiners_for(2)) == {"neighbours"}
    for wrong, said in (
        ({"combiners": ("vote",)}, "--laws='vote' is unknown"),
        ({"forests": ("random-trees",)}, "--forests='random-trees' is unknown"),
        ({"counts": "held_out"}, "--counts, --costs and --positive are for classes"),
        ({"costs": [[0, 1], [1, 0]]}, "for classes"),
    ):
        refuses(ValueError, said, Settings, numbers=True, **wrong)


def test_what_cannot_be_run(table):
    settings = Settings(("random-forest",), ("plain",), (3,), n_trees=3, numbers=True)
    with pytest.raises(ValueError, match="numbers=False are the settings, and the target of made up holds numbers"):
        compare.run(table, Settings(), quiet=True)
    with pytest.raises(ValueError, match=r"numbers=True are the settings, and .* holds classes"):
        compare.run(compare.breast_cancer(), settings, quiet=True)
    few = table._replace(X=table.X[:22], y=table.y[:22])
    with pytest.raises(ValueError, match="DATA has 22 rows, and a training part of --folds=5 fewer than 20"):
        compare.run(few, settings, quiet=True)


@pytest.mark.exhaustive
def test_the_command(table, tmp_path, capsys):
    frame = pd.DataFrame(table.X, columns=list("abc")).assign(price=table.y, grade=np.arange(150) % 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    small = ("--trees", 5, "--folds", 2, "--repeats", 1, "--leaf-sizes", 3, "--forests", "random-forest", "--quiet")
    out, err = run(
        tmp_path / "t.csv", "--target", "price", *small, "--report", tmp_path / "made", "--laws", "learned", "plain"
    )
    assert err == "jaxunc: 'price' is taken for a number, of 150 different values.\n"
    assert out.split()[0] in ("Use", "Keep")
    assert max(len(line) for line in out.splitlines() if not line.startswith("The page: ")) <= 80
    assert "interval score" in out
    assert (tmp_path / "made" / "report.html").exists()
    _, err = run(tmp_path / "t.csv", "--target", "grade", *small, "--combiners", "vote")
    assert err == "jaxunc: 'grade' holds 3 different numbers, taken for classes; --laws takes them for a number.\n"
    message = refused(capsys, "compare", tmp_path / "t.csv", "--target", "price", "--counts", "inbag")
    assert "--counts='inbag' is for classes" in message


def test_a_terminal_without_unicode_gets_ascii(table):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    compare.show(Console(file=stream, width=80), made_up(table, DECIDED["better"][0]))
    stream.flush()
    said = " ".join(stream.buffer.getvalue().decode("ascii").split())
    assert all(word in said for word in ("coverage", "fifth", "seconds"))
    assert "* the one to use." in said

"""Laws of numbers compared: their measures by other code, what is decided of them, and the command from end to end."""

import json
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import RepeatedKFold

from jaxunc import compare
from jaxunc.compare import COMPARED_LAWS, NumberOutcome, Results, Settings, Store
from jaxunc.compare._decision import decision, further
from jaxunc.compare._laws import COVERAGES, LEVELS
from jaxunc.compare._settings import cells
from jaxunc.compare._store import describe
from jaxunc.compare._verdict import BASE_RATES, shown_rows, verdict
from jaxunc.estimators import UncertainForestRegressor
from tests._refusal import refusals, refuses
from tests.compare._made_up import shown
from tests.compare.test_command import run
from tests.compare.test_verdict import assert_nothing_is_starred
from tests.metrics import _reference as reference

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
    fit = lambda law: UncertainForestRegressor(FrozenEstimator(forest), law=law).fit(X, y)
    found = {law: fit(law).predict(X_test, quantiles=LEVELS) for law in list(COMPARED_LAWS)[:5]}
    unseen = np.stack([~np.isin(np.arange(len(y)), bag) for bag in forest.estimators_samples_])
    each, trees = (np.stack([tree.predict(np.float32(rows)) for tree in forest.estimators_]) for rows in (X, X_test))
    some = unseen.any(axis=0)
    apart = y[some] - (each * unseen).sum(axis=0)[some] / unseen.sum(axis=0)[some]
    mean, spread = trees.mean(axis=0), trees.std(axis=0)
    found["plain"] = mean[:, None] + np.quantile(apart, LEVELS)
    found["trees"] = mean[:, None] + spread[:, None] * scipy.stats.norm.ppf(LEVELS)
    return found | {BASE_RATES: np.tile(np.quantile(y, LEVELS), (len(X_test), 1))}


@pytest.mark.exhaustive
def test_measures_are_those_of_loops(table):
    sizes = {"leaf_sizes": (3,), "n_trees": 30, "n_repeats": 1, "n_folds": 2}
    settings = Settings(("random-forest",), tuple(COMPARED_LAWS), numbers=True, **sizes)
    results = compare.run(table, settings, quiet=True)
    splits = RepeatedKFold(n_splits=2, n_repeats=1, random_state=0).split(table.X)
    for (cell, outcome), (train, test) in zip(results.outcomes.items(), splits, strict=True):
        forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=cell.fold)
        forest.fit(table.X[train], table.y[train])
        y = table.y[test]
        for law, q in naive(forest, table.X[train], table.y[train], table.X[test]).items():
            low, high = q[:, 0], q[:, -1]
            held = (low <= y) & (y <= high)
            expected = {"interval_score": reference.interval_score(q[:, [0, -1]], y, 0.9), "width": (high - low).mean()}
            expected["pinball_loss"] = reference.pinball_loss(q, y, LEVELS)
            found = outcome.measures[law]
            assert found["seconds"] >= 0
            assert found["coverage"] == pytest.approx(held.mean(), rel=1e-4, abs=1 / len(y)), law
            assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6), law
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
        ("fifths", {"size": [1] * 5}),
        *(("covered", dict.fromkeys(EVERY, counts)) for counts in ([1] * 8, [99999] * 9)),
        *(("drawn", {law: [[1.0, 2.0, *last]] for law in EVERY}) for last in ([], [None], [float("nan")])),
    ):
        entries = [{**document["forests"][0], name: wrong}, *document["forests"][1:]]
        (tmp_path / "results.json").write_text(json.dumps({**document, "forests": entries}))
        refuses(ValueError, r"results\.json is not one of jaxunc compare", Store, tmp_path, table, results.settings)


def made_up(table, losses: dict[str, float], n_folds: int = 10) -> Results:
    """Results of laws with these interval scores, plus the fold's tenth, which all share but for a hundredth."""
    laws = [law for law in losses if law != BASE_RATES]
    settings = Settings(("random-forest", "extra-trees"), laws, (4,), n_repeats=1, n_folds=n_folds, numbers=True)
    rest = {"pinball_loss": 1.0, "coverage": 0.9, "width": 3.0, "seconds": 0.25}
    counts, drawn = list(range(2, 20, 2)), [[0.0, 1.0, 0.5], [0.0, 2.0, 3.0]]
    fifths = {"size": [4] * 5, **{law: [4, 4, 4, 4, 2] for law in losses}}
    outcomes = {}
    for cell in cells(settings):
        measures = {}
        for i, (law, loss) in enumerate(losses.items(), start=1):
            shift = cell.fold / 10 + (cell.fold * i % 3) / 100 + (cell.forest == "extra-trees")
            measures[law] = {"interval_score": loss + shift, **rest}
        of_laws = dict.fromkeys(losses, counts), fifths, dict.fromkeys(losses, drawn)
        outcomes[cell] = NumberOutcome(measures, *of_laws)
    return Results(describe(table, settings) | {"combiners": laws}, outcomes)


DECIDED = {
    "better": (
        {"learned": 8, "bins": 8.001, "plain": 9, BASE_RATES: 20},
        "Use `learned` (random-forest, leaf size 4): its 90% intervals are better than those of one width, interval "
        "score 8.459 against 9.45 on rows that it had not seen; they held 90.0% of the targets, and 50.0% in the worst "
        "fifth of the rows.",
    ),
    "nothing better": (
        {"plain": 9, "learned": 9.001, BASE_RATES: 20},
        "Keep residuals of one width (`plain`, random-forest, leaf size 4): nothing is better",
    ),
    "without plain": (
        {"learned": 8, "bins": 9, BASE_RATES: 20},
        "Of these take `learned` (random-forest, leaf size 4): its 90% intervals have the least",
    ),
    "none": (
        {"plain": 20.001, "learned": 20, BASE_RATES: 20.002},
        "Use none of them: no 90% intervals are told to be better than the target's own quantiles, interval score",
    ),
    "one": ({"learned": 8, BASE_RATES: 20}, "Nothing to decide: `learned` alone was run."),
}
"""Losses, the leader's first, and how the first line begins."""


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("case", DECIDED)
def test_what_is_decided(table, case, tmp_path):
    losses, start = DECIDED[case]
    leader = next(iter(losses))
    study = made_up(table, losses)
    found = verdict(study, study.records())
    assert found.leader == leader
    sentence = decision(study, found)
    assert sentence.startswith(start)
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


OF_NUMBERS = Settings(("random-forest",), ("plain",), (3,), n_trees=3, numbers=True)
ASKED = {
    "laws": ({"combiners": ("vote",)}, "--laws='vote' is unknown"),
    "forests": ({"forests": ("random-trees",)}, "--forests='random-trees' is unknown"),
    "counts": ({"counts": "held_out"}, "--counts, --costs and --positive are for classes"),
    "costs": ({"costs": [[0, 1], [1, 0]]}, "for classes"),
}
test_refusals = refusals(
    *((name, partial(Settings, numbers=True, **asked), said) for name, (asked, said) in ASKED.items()),
    ("numbers", lambda table: compare.run(table, Settings(), quiet=True), "numbers=False are.* made up holds numbers"),
    ("classes", lambda: compare.run(compare.breast_cancer(), OF_NUMBERS, quiet=True), "numbers=True .* holds classes"),
    (
        "few rows",
        lambda table: compare.run(table._replace(X=table.X[:22], y=table.y[:22]), OF_NUMBERS, quiet=True),
        "22 rows, and a training part of --folds=5",
    ),
)


@pytest.mark.exhaustive
def test_the_command(table, tmp_path):
    frame = pd.DataFrame(table.X, columns=list("abc")).assign(price=table.y, grade=np.arange(150) % 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    small = ("--trees", 5, "--folds", 2, "--repeats", 1, "--leaf-sizes", 3, "--forests", "random-forest", "--quiet")
    laws = ("--laws", "learned", "plain", "--report", tmp_path / "made")
    out, err = run(tmp_path / "t.csv", "--target", "price", *small, *laws)
    assert err == "jaxunc: 'price' is taken for a number, of 150 different values.\n"
    assert out.split()[0] in ("Use", "Keep")
    assert max(len(line) for line in out.splitlines() if not line.startswith("The page: ")) <= 80
    assert "interval score" in out
    assert (tmp_path / "made" / "report.html").exists()
    _, err = run(tmp_path / "t.csv", "--target", "grade", *small, "--combiners", "vote")
    assert err == "jaxunc: 'grade' holds 3 different numbers, taken for classes; --laws takes them for a number.\n"


def test_a_terminal_without_unicode_gets_ascii(table):
    said = " ".join(shown(made_up(table, DECIDED["better"][0]), 80, "ascii").split())
    assert all(word in said for word in ("coverage", "fifth", "seconds"))
    assert "* the one to use." in said

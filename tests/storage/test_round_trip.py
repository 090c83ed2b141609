"""What is loaded answers as what was saved."""

import dataclasses
import pickle

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import jaxunc as ju
from jaxunc import estimators
from jaxunc.estimators import CombinedForestClassifier, UncertainForestRegressor
from jaxunc.regression import NumberLaw
from jaxunc.storage._decode import module_of
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses
from tests._rules import RULES, GiniWeighted, tempered
from tests.storage._objects import NUMBERS, OBJECTS, small_objects

OWN = [GiniWeighted, tempered]
X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def forest() -> ju.Forest:
    return ju.from_sklearn(clone(SMALL).fit(X[:100], Y[:100]))


def round_trip(value, tmp_path, **options):
    ju.save(tmp_path / "x.safetensors", value)
    return ju.load(tmp_path / "x.safetensors", **options)


def made(name, forest) -> ju.Combiner:
    return RULES[name].make(np.asarray(forest.prior), np.arange(forest.n_trees))


@pytest.mark.exhaustive(keep=20)
@pytest.mark.parametrize("name", RULES)
def test_rules(name, forest, tmp_path):
    rule = made(name, forest)
    loaded = round_trip(rule, tmp_path, known=OWN)
    assert jax.tree.structure(loaded) == jax.tree.structure(rule)
    assert eqx.tree_equal(loaded, rule)


def test_rules_of_a_process_with_narrower_numbers(tmp_path):
    for make in (ju.DempsterRule, ju.CautiousRule):
        with jax.enable_x64(False):
            ju.save(tmp_path / "x", make())
        with jax.enable_x64(True):
            chex.assert_trees_all_close(ju.load(tmp_path / "x"), make(), rtol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("name", ["evidence", "median", "weighted_mean", "together", "mean_own_scorer"])
@pytest.mark.exhaustive(keep=1)
def test_bound_forests(name, forest, tmp_path):
    rule = made(name, forest)
    bound = ju.bind(forest, rule)
    chex.assert_trees_all_equal(round_trip(bound, tmp_path, known=OWN).answer(X), bound.answer(X))


@pytest.mark.once
@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.room(keep=1)
def test_objects(name, tmp_path):
    value = small_objects()[name]
    loaded = round_trip(value, tmp_path)
    assert type(loaded) is type(value)
    if isinstance(value, eqx.Module):
        assert jax.tree.structure(loaded) == jax.tree.structure(value)
        assert eqx.tree_equal(loaded, value)


@pytest.mark.room
def test_the_cautious_report_and_settled_votes(forest, tmp_path):
    bound = ju.bind(forest, ju.decisions.CautiousReport(s=2, mass="leaf_size"))
    chex.assert_trees_all_equal(round_trip(bound, tmp_path)(X), bound(X))
    optimal = {"criterion": "optimal", "disagreement": 0.05, "population": "finite"}
    for settings in ({"confidence": 0.9, "max_trees": 5}, optimal):
        vote = ju.voting.bind_vote(forest, **settings)
        loaded = round_trip(vote, tmp_path)
        assert loaded.settings == vote.settings
        chex.assert_trees_all_equal(loaded(X), vote(X))


SMALL = RandomForestClassifier(7, min_samples_leaf=3, random_state=0)
FITTED = {
    "learned": CombinedForestClassifier(RandomForestClassifier(60), random_state=0),
    "dempster": CombinedForestClassifier(combiner="dempster", counts="oob", random_state=0),
    "a rule": CombinedForestClassifier(SMALL, ju.Mean(ju.scorers.laplace), counts="train"),
    "cautious": estimators.CautiousForestClassifier(SMALL, counts="train", s=2),
    "random trees": estimators.RandomDecisionTreesClassifier(3, random_state=0),
    "transduction": estimators.TransductiveTreeClassifier(progress=print),
}


@pytest.mark.once
@pytest.mark.parametrize("name", a_few_of(FITTED, ["a rule", "cautious", "random trees", "transduction"]))
@pytest.mark.room(keep=1)
def test_estimators(name, tmp_path):
    data, labels = X[:100], np.array(["one", "two"])[Y[:100]]
    model = FITTED[name].fit(data, labels)
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    np.testing.assert_array_equal(loaded.predict_proba(data), model.predict_proba(data))
    for name in {"oob_decision_function_", "oob_set_", "oob_score_", "calibration_"} & set(dir(model)):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    loaded.fit(data, labels)  # its parameters are all there
    pickle.loads(pickle.dumps(loaded))


@pytest.mark.exhaustive
def test_many_levels_are_no_header(tmp_path):
    words = tuple(f"word {i}" for i in range(5000))
    columns = ju.tables.Columns(1, ("word",), (True,), (ju.tables.Levels(words, True),))
    rng = np.random.default_rng(0)
    codes, y = rng.integers(5000, size=(500, 1)), rng.integers(2, size=500)
    trees = ju.grow_random_trees(jax.random.key(0), codes, y, n_trees=1, max_depth=2).trees
    assert round_trip(dataclasses.replace(trees, columns=columns), tmp_path).columns == columns
    assert len(str(ju.storage.describe(tmp_path / "x.safetensors").arrays)) < 2000


def test_weights_by_label_come_back(tmp_path):
    forest = RandomForestClassifier(2, min_samples_leaf=20, class_weight={0: 1.0, np.int64(1): 5}, random_state=0)
    model = CombinedForestClassifier(forest, combiner="mean", counts="train").fit(X[:100], Y[:100])
    assert round_trip(model, tmp_path).estimator.class_weight == {0: 1.0, 1: 5}


def test_a_frozen_forest_comes_back_as_its_settings(tmp_path):
    fitted = RandomForestClassifier(5, min_samples_leaf=20, random_state=1).fit(X[:100], Y[:100])
    model = CombinedForestClassifier(FrozenEstimator(fitted), combiner="mean").fit()
    loaded = round_trip(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.estimator.get_params() == fitted.get_params()
    assert not hasattr(loaded.estimator, "estimators_")


def test_own_classes_are_refused_unless_they_are_passed(forest, tmp_path):
    path = tmp_path / "x"
    ju.save(path, ju.bind(forest, GiniWeighted()))
    refuses(ValueError, r"tests\._rules:GiniWeighted.*known=\[GiniWeighted\]", ju.load, path)
    assert isinstance(ju.load(path, known=[GiniWeighted]).combiner, GiniWeighted)


def saving(value):
    return lambda tmp_path: ju.save(tmp_path / "x", value)


def save_within_a_trace(forest, tmp_path):
    jax.jit(lambda counts: ju.save(tmp_path / "x", forest.with_counts(counts)))(forest.counts)


test_refusals = refusals(
    ("object", saving(object()), "object", TypeError),
    ("a function", saving(ju.Mean(lambda counts: counts[..., 1] * 1.0)), "no name", TypeError),
    ("a set", saving({"a": {1, 2}}), "a is a set", TypeError),
    ("bfloat16", lambda tmp_path: ju.save(tmp_path / "x", jnp.zeros(3, jnp.bfloat16)), "bfloat16", TypeError),
    ("a key", lambda key, tmp_path: ju.save(tmp_path / "x", key), "key", TypeError),
    ("traced", save_within_a_trace, "traced", TypeError),
    ("unfitted", saving(CombinedForestClassifier()), "not fitted", NotFittedError),
)


def test_a_file_is_replaced_as_a_whole(forest, tmp_path):
    path = tmp_path / "x"
    ju.save(path, forest)
    before = path.read_bytes()
    refuses(TypeError, "object", ju.save, path, {"forest": forest, "more": object()})
    assert path.read_bytes() == before
    ju.save(path, forest)
    assert path.read_bytes() == before, "the same object, the same bytes"
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_description(forest, tmp_path):
    path = tmp_path / "x"
    ju.save(path, ju.bind(forest, ju.EvidenceAccumulation(forest.prior)))
    found = ju.storage.describe(path)
    assert (found.kind, found.combiner) == ("bound forest", "EvidenceAccumulation")
    assert (found.n_trees, found.n_nodes, found.columns, found.class_labels) == (7, forest.n_nodes, 4, (0, 1))
    assert found.n_bytes == path.stat().st_size
    assert found.n_bytes < 1.2 * sum(leaf.nbytes for leaf in jax.tree.leaves(forest)) + 4096


def test_settings_of_scorers(tmp_path):
    scorer = Partial(ju.scorers.confidence_bounds, family="beta", statistic="height", weighted=False)
    loaded = round_trip(ju.Median(scorer), tmp_path)
    assert jax.tree.structure(loaded) == jax.tree.structure(ju.Median(scorer))


REGRESSORS = {
    "learned": UncertainForestRegressor(NUMBERS, random_state=0),
    "conformal": UncertainForestRegressor(NUMBERS, law="conformal", counts="held_out", held_out_size=0.5),
    "neighbours": UncertainForestRegressor(NUMBERS, law="neighbours", random_state=0),
    "bins of a bag": UncertainForestRegressor(BaggingRegressor(n_estimators=9, max_features=0.5), law="bins"),
    "a constant": UncertainForestRegressor(NUMBERS, random_state=0),
}


@pytest.mark.room
@pytest.mark.once
@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
@pytest.mark.parametrize("name", a_few_of(REGRESSORS, ["learned", "conformal", "neighbours"]))
def test_a_regressor(name, tmp_path):
    """To the bit but for the mean, which scikit-learn's own forest answers where it is there."""
    rows, target = X[:, 1:], np.zeros(150) if name == "a constant" else X[:, 0] * 1e4
    model = REGRESSORS[name].fit(rows, target)
    loaded = round_trip(model, tmp_path)
    exact = lambda one: [
        one.predict(rows, quantiles=[0.06, 0.9]),
        one.predict_interval(rows),
        *one.predict_uncertainty(rows),
    ]
    for again in (loaded, pickle.loads(pickle.dumps(loaded))):
        for own, other in zip(exact(again), exact(model), strict=True):
            np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(again.predict(rows), model.predict(rows), atol=1e-6 * np.ptp(target))
    assert loaded.predict(rows[:0], return_std=True)[1].shape == (0,)
    assert loaded.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    again = round_trip(loaded, tmp_path)
    np.testing.assert_array_equal(again.predict(rows), loaded.predict(rows))
    found = ju.storage.describe(tmp_path / "x.safetensors")
    assert (found.kind, found.columns, found.class_labels) == ("UncertainForestRegressor", 3, None)
    assert found.parameters["law"] == model.law
    loaded.fit(rows, target)
    if name == "learned":  # a former version took an end between steps, which fit refuses now
        loaded.support, loaded.law_ = (0, 5, 2), loaded.law_._replace(support=(0.0, 5.0), step=2.0)
        assert round_trip(loaded, tmp_path).support == (0, 5, 2)
    later = ("weights", "is_local", "support", "strata", "step", "target_map")
    before = {name: part for name, part in model.law_._asdict().items() if name not in later}
    assert module_of(NumberLaw, before)[-5:] == (False, (-np.inf, np.inf), None, 0.0, None)
    moments = round_trip(model.moments_, tmp_path)
    np.testing.assert_array_equal(moments.answer(rows).std, model.moments_.answer(rows).std)


@pytest.mark.parametrize("number", [9, 90])
def test_infinite_levels(number, tmp_path):
    levels = ju.tables.Levels((*map(float, range(number)), np.inf), False)
    columns = ju.tables.Columns(1, None, (True,), (levels,))
    X = np.arange(number + 1.0)[:, None] % (number + 1)
    forest = ju.grow_random_trees(jax.random.key(0), X, np.arange(number + 1) % 2, n_trees=2, nominal=[True])
    forest = dataclasses.replace(forest, trees=dataclasses.replace(forest.trees, columns=columns))
    ju.save(tmp_path / "forest.safetensors", forest)
    assert ju.load(tmp_path / "forest.safetensors").trees.columns == columns

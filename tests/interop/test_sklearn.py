"""Forests from scikit-learn: the same probabilities, the counts behind them, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import jaxunc as ju
from tests._forests import leaf_nodes, toy_data

pytestmark = pytest.mark.once


def members(model):
    return [model] if isinstance(model, DecisionTreeClassifier) else model.estimators_


def expected_counts(tree) -> np.ndarray:
    """Weighted counts of a tree's leaves, sorted: fractions times size."""
    leaf = tree.children_left < 0
    return np.sort((tree.value[:, 0] * tree.weighted_n_node_samples[:, None])[leaf], axis=0)


MODELS = {
    "tree": DecisionTreeClassifier(min_samples_leaf=4, random_state=0),
    "random tree": ExtraTreeClassifier(min_samples_leaf=4, random_state=0),
    "forest": RandomForestClassifier(20, min_samples_leaf=3, random_state=0),
    "extra trees": ExtraTreesClassifier(20, min_samples_leaf=3, random_state=0),
    "entropy, few leaves": RandomForestClassifier(20, criterion="entropy", max_leaf_nodes=12, random_state=0),
    "no bootstrap": RandomForestClassifier(20, bootstrap=False, max_features=1, min_samples_leaf=5, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=3), 20, random_state=0),
    "bagging, columns": BaggingClassifier(
        DecisionTreeClassifier(min_samples_leaf=3), 20, max_features=0.5, bootstrap_features=True, random_state=0
    ),
    "pruned": RandomForestClassifier(20, ccp_alpha=0.005, random_state=0),
}


@pytest.mark.parametrize(("name", "n_classes"), [(name, 2 + 2 * (i % 2)) for i, name in enumerate(MODELS)])
@pytest.mark.exhaustive(keep=2)
def test_probabilities_agree(name, n_classes):
    X, y = toy_data(n_classes)
    model = MODELS[name].fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    probability = ju.bind(forest, ju.Mean(), threads=1).probability(X)
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-6)
    for t, member in enumerate(members(model)):
        reached = leaf_nodes(forest)[t] & (np.asarray(forest.counts)[t].sum(-1) > 0)
        np.testing.assert_allclose(
            np.sort(np.asarray(forest.counts)[t][reached], axis=0), expected_counts(member.tree_), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("labels", [["yes", "no"], [True, False], [-1, 1], [10.0, 2.0], ["b", "a", "c"]])
@pytest.mark.exhaustive(keep=1)
def test_labels(labels):
    X, y = toy_data(len(labels))
    model = RandomForestClassifier(5, random_state=0).fit(X, np.array(labels)[y])
    forest = ju.from_sklearn(model)
    assert forest.class_labels == tuple(sorted(labels))
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    chosen = np.array(forest.class_labels)[np.argmax(ju.bind(forest, ju.Mean()).probability(X), axis=1)]
    assert np.mean(chosen == model.predict(X)) > 0.97, "but for ties"


@pytest.mark.exhaustive
def test_bagged_trees_that_missed_a_class():
    """A tree that never saw a class counts it zero times; the others keep their places.

    A bag numbers the classes for its trees, and some versions of scikit-learn show a tree its sample alone.
    """
    X, y = toy_data(3)
    model = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=5, random_state=0), 4, random_state=0).fit(X, y)
    model.estimators_[1] = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X[y != 1], y[y != 1])
    model.estimators_[2] = DecisionTreeClassifier(random_state=0).fit(X[y == 2], y[y == 2])
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(np.asarray(forest.counts)[1, :, 1], 0)
    np.testing.assert_array_equal(np.asarray(forest.counts)[2, 0], [0, 0, np.sum(y == 2)])


@pytest.mark.exhaustive
def test_class_weights_make_counts_fractional():
    X, y = toy_data(2)
    y = (y + (X[:, 3] > 0.5) > 1).astype(int)
    model = RandomForestClassifier(8, class_weight="balanced", bootstrap=False, min_samples_leaf=4, random_state=0)
    model.fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert not np.issubdtype(forest.count_table.dtype, np.integer)
    np.testing.assert_allclose(forest.prior, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(ju.from_sklearn(model, prior=shares).prior, shares, rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_sample_weights(whole, rng):
    X, y = toy_data(2)
    weight = rng.integers(1, 5, len(X)) if whole else rng.uniform(0.1, 2, len(X))
    model = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X, y, sample_weight=weight)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert np.issubdtype(forest.count_table.dtype, np.integer) == whole
    leaf = np.asarray(ju.leaf_counts(forest, jnp.asarray(X)))[:, 0]
    applied = model.apply(X)
    for node in np.unique(applied):
        at = applied == node
        expected = np.bincount(y[at], weight[at], minlength=2)
        np.testing.assert_allclose(leaf[at], np.tile(expected, (at.sum(), 1)), rtol=1e-6)
    np.testing.assert_allclose(forest.n_samples, weight.sum(), rtol=1e-6)


def test_counts_are_snapped_to_integers():
    """scikit-learn's fractions times the size are off by rounding; the counts are whole all the same."""
    X, y = toy_data(2)
    model = RandomForestClassifier(30, min_samples_leaf=7, random_state=0).fit(X, y)
    raw = np.concatenate([t.tree_.value[:, 0] * t.tree_.weighted_n_node_samples[:, None] for t in model.estimators_])
    assert np.any(raw != np.rint(raw)), "else this test tests nothing"
    forest = ju.from_sklearn(model)
    assert np.issubdtype(forest.count_table.dtype, np.integer)


def test_prior_is_the_class_frequency_of_the_samples():
    X, y = toy_data(2)
    forest = ju.from_sklearn(RandomForestClassifier(10, bootstrap=False, random_state=0).fit(X, y))
    np.testing.assert_allclose(forest.prior, np.bincount(y) / len(y), rtol=1e-6)


def test_feature_names():
    import pandas

    X, y = toy_data(2)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    forest = ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(frame, y))
    assert forest.trees.columns.names == tuple("abcdef")


# What is refused


@pytest.mark.parametrize(
    "model",
    [RandomForestClassifier(3), DecisionTreeClassifier(), BaggingClassifier(DecisionTreeClassifier(), 3)],
    ids=lambda m: type(m).__name__,
)
def test_unfitted(model):
    with pytest.raises(ValueError, match=r"model.*not fitted"):
        ju.from_sklearn(model)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(3),
        DecisionTreeRegressor(),
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=2),
        make_pipeline(StandardScaler(), RandomForestClassifier(3)),
        BaggingClassifier(LogisticRegression(), 3),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("fitted", [False, True])
def test_other_models(model, fitted):
    X, y = toy_data(2)
    if fitted:
        model = model.fit(X, y)
    bag = isinstance(model, BaggingClassifier)
    with pytest.raises(ValueError if bag and not fitted else TypeError, match="model"):
        ju.from_sklearn(model)


@pytest.mark.parametrize("model", [None, "forest.joblib", 3])
def test_no_model_at_all(model):
    with pytest.raises(TypeError, match="model is a"):
        ju.from_sklearn(model)


def test_negative_weights():
    X, y = toy_data(2)
    weight = np.where(np.arange(len(y)) % 5 == 0, -0.5, 1)
    with pytest.raises(ValueError, match=r"model's leaf counts .*negative sample weights"):
        ju.from_sklearn(DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y, sample_weight=weight))


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), RandomForestClassifier(2)], ids=lambda m: type(m).__name__)
def test_a_single_class(model):
    X, y = toy_data(2)
    with pytest.raises(ValueError, match=r"one class only, \[3\]"):
        ju.from_sklearn(model.fit(X, np.full(len(y), 3)))


def test_several_outputs():
    X, y = toy_data(2)
    for model in (RandomForestClassifier(3), DecisionTreeClassifier(), ExtraTreesClassifier(3)):
        with pytest.raises(ValueError, match="2 outputs"):
            ju.from_sklearn(model.fit(X, np.stack([y, 1 - y], axis=1)))


@pytest.mark.parametrize("prior", [[0.5, 0.6], [0.2, 0.3, 0.5], [1.5, -0.5]])
@pytest.mark.exhaustive
def test_priors_that_are_refused(prior):
    X, y = toy_data(2)
    with pytest.raises(ValueError, match="prior"):
        ju.from_sklearn(DecisionTreeClassifier(max_depth=2).fit(X, y), prior=np.array(prior))

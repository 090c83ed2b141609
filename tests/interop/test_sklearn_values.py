"""scikit-learn's boosted trees and regressors: their leaves, their predictions, and what is refused."""

from functools import lru_cache

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import jaxunc as ju
from jaxunc.interop._sklearn_values import from_sklearn_values

from ._near_thresholds import assert_same_leaves, near, summed

pytestmark = pytest.mark.once


@lru_cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(2).astype(np.float32)
    missing = np.where(rng.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
    y = (X[:, 0] + X[:, 2] > 0).astype(int)
    return X, missing, y, y + (X[:, 1] > 0.5)


BOOSTED = {
    "two classes": lambda X, y, z: GradientBoostingClassifier(n_estimators=5).fit(X, np.array(["b", "a"])[y]),
    "exponential": lambda X, y, z: GradientBoostingClassifier(n_estimators=5, loss="exponential").fit(X, y),
    "three classes": lambda X, y, z: GradientBoostingClassifier(n_estimators=3, subsample=0.5).fit(X, z),
    "zero": lambda X, y, z: GradientBoostingClassifier(n_estimators=3, init="zero").fit(X, z),
    "uniform": lambda X, y, z: GradientBoostingClassifier(init=DummyClassifier(strategy="uniform")).fit(X, z),
    "regressor": lambda X, y, z: GradientBoostingRegressor(n_estimators=5, learning_rate=0.3).fit(X, X[:, 0]),
    "huber, stopped early": lambda X, y, z: GradientBoostingRegressor(
        loss="huber", n_iter_no_change=2, init=DummyRegressor(strategy="median")
    ).fit(X, X[:, 0]),
    "quantile, weights": lambda X, y, z: GradientBoostingRegressor(loss="quantile", n_estimators=5).fit(
        X, X[:, 0], sample_weight=1 + y
    ),
    "absolute": lambda X, y, z: GradientBoostingRegressor(loss="absolute_error", n_estimators=5).fit(X, X[:, 0]),
}  # fmt: skip
REGRESSORS = {
    "forest": RandomForestRegressor(5, random_state=0),
    "extra trees": ExtraTreesRegressor(5, random_state=0),
    "poisson": RandomForestRegressor(5, criterion="poisson", random_state=0),
    "tree": DecisionTreeRegressor(random_state=0),
    "random tree": ExtraTreeRegressor(random_state=0),
}


def rows(members, missing, rng):
    thresholds = [
        np.concatenate([m.tree_.threshold[m.tree_.feature == j] for m in members] + [[0.0]]) for j in range(4)
    ]
    X = near(thresholds, 2000, rng)
    return np.where(np.isinf(X) | (np.isnan(X) & (not missing)), np.float32(1), X)


@pytest.mark.parametrize("name", BOOSTED)
@pytest.mark.exhaustive(keep=3)
def test_boosted(name):
    X, _, y, z = data()
    model = BOOSTED[name](X, y, z)
    ours = from_sklearn_values(model)
    Z = rows(np.asarray(model.estimators_).ravel(), False, np.random.default_rng(0))
    leaves = ju.leaf_index(ours.trees, Z)
    assert_same_leaves(leaves, model.apply(Z).reshape(len(Z), -1))
    ju.forest.check_trees(ours.trees)
    is_classifier = hasattr(model, "classes_")
    expected = model.predict_proba(Z) if is_classifier else model.predict(Z)
    np.testing.assert_allclose(ours.predict(Z), expected, rtol=1e-6, atol=1e-6)
    if is_classifier:
        sums = model.decision_function(Z).reshape(len(Z), -1) * (2 if name == "exponential" else 1)
        np.testing.assert_allclose(summed(ours, leaves), sums, rtol=1e-6, atol=1e-6)
        labels = np.array(ours.class_labels)[np.argmax(ours.predict(Z), axis=1)]
        np.testing.assert_array_equal(labels, model.predict(Z))
    assert ours.n_trees // ours.trees_per_stage == model.n_estimators_


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.exhaustive(keep=2)
def test_regressors(name, n_outputs):
    X, missing, *_ = data()
    y = np.abs(X[:, :n_outputs]).squeeze() + 1
    takes_missing = name != "random tree"
    model = REGRESSORS[name].fit(missing if takes_missing else X, y)
    members = getattr(model, "estimators_", [model])
    ours = from_sklearn_values(model)
    Z = rows(members, takes_missing, np.random.default_rng(0))
    assert_same_leaves(ju.leaf_index(ours.trees, Z), model.apply(Z).reshape(len(Z), -1))
    np.testing.assert_allclose(ours.predict(Z), model.predict(Z), rtol=1e-6, atol=1e-6)


def test_names_of_columns():
    pd = pytest.importorskip("pandas")
    X, _, y, _ = data()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = from_sklearn_values(GradientBoostingClassifier(n_estimators=2).fit(frame, y))
    assert model.columns.names == ("a", "b", "c", "d")


def test_refusals():
    X, _, y, _ = data()
    with pytest.raises(TypeError, match="RandomForestClassifier; expected one of GradientBoostingClassifier"):
        from_sklearn_values(RandomForestClassifier(2).fit(X, y))
    with pytest.raises(ValueError, match="not fitted"):
        from_sklearn_values(GradientBoostingRegressor())
    with pytest.raises(ValueError, match="init is a LinearRegression"):
        from_sklearn_values(GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(X, y))
    with pytest.raises(ValueError, match="draws at random"):
        from_sklearn_values(
            GradientBoostingClassifier(n_estimators=2, init=DummyClassifier(strategy="stratified")).fit(X, y)
        )
    other = GradientBoostingRegressor(n_estimators=2).fit(X, y)
    other.loss = "poisson"
    with pytest.raises(ValueError, match="loss is 'poisson'"):
        from_sklearn_values(other)


@pytest.mark.parametrize("losses", [("exponential", "log_loss"), ("log_loss", "exponential")])
def test_the_loss_is_that_of_the_fit(losses):
    X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    known = GradientBoostingClassifier(n_estimators=3, loss=losses[0]).fit(X, X[:, 0] > 0)
    wanted = known.predict_proba(X)
    np.testing.assert_allclose(from_sklearn_values(known.set_params(loss=losses[1])).predict(X), wanted, atol=1e-6)

"""Tests against what other libraries say: SHAP's two value functions, and the contributions of XGBoost."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import jaxunc as ju
from jaxunc.interop import from_xgboost
from tests._forests import toy_data

pytestmark = pytest.mark.once


@pytest.mark.parametrize("settings", [{}, {"max_depth": 4}, {"class_weight": "balanced"}, {"bootstrap": False}])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive(keep=3)
def test_shap(n_classes, settings):
    """The mean probability, by the shares of rows and against rows."""
    shap: Any = pytest.importorskip("shap")
    X, y = toy_data(n_classes)
    model = RandomForestClassifier(10, random_state=0, **settings).fit(X, y)
    forest = ju.from_sklearn(model)
    for background, way in ((None, "tree_path_dependent"), (X[50:90], "interventional")):
        explainer = shap.TreeExplainer(model, background, feature_perturbation=way)
        found = ju.explain(forest, ju.Mean(), X[:20], background=background)
        np.testing.assert_allclose(found.values, explainer.shap_values(X[:20]), rtol=0, atol=2e-6)
        np.testing.assert_allclose(found.base, explainer.expected_value, rtol=0, atol=1e-6)


def test_shap_of_boosted_trees():
    shap: Any = pytest.importorskip("shap")
    X, y = toy_data(2)
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y + X[:, 0])
    ours = ju.from_sklearn_values(model)
    explainer = shap.TreeExplainer(model, X[50:90], feature_perturbation="interventional")
    found = ju.explain(ours, None, X[:20], background=X[50:90])
    np.testing.assert_allclose(found.values[..., 0], explainer.shap_values(X[:20]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("categories", [False, True])
def test_contributions_of_xgboost(missing, categories):
    """Its cover is the sum of second derivatives, which for squared errors is the number of rows."""
    xgboost: Any = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    X[:, 3] = rng.integers(0, 8, 400)
    y = X[:, 0] + (X[:, 1] > 0) * X[:, 2] + np.isin(X[:, 3], (1, 2, 6))
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    kinds = ["q", "q", "q", "c" if categories else "q", "q"]
    data = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    settings = {"max_depth": 5, "max_cat_to_onehot": 1, "seed": 0, "base_score": 0.0}
    booster = xgboost.train(settings, data, 10)
    model = from_xgboost(booster)
    counted = ju.count_leaves(model.trees, X, y > 0)  # any labels
    expected = booster.predict(data, pred_contribs=True)
    found = ju.explain(model, None, X[:50], background=counted)
    np.testing.assert_allclose(found.values[..., 0], expected[:50, :-1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.base, expected[0, -1], rtol=0, atol=1e-5)


def test_plots_of_shap():
    shap: Any = pytest.importorskip("shap")
    X, _ = toy_data(2)
    model = ju.from_sklearn(RandomForestClassifier(5, random_state=0).fit(*toy_data(2)))
    found = ju.explain(model, ju.Mean(), X[:20])
    handed = found.for_shap(data=X[:20])
    assert isinstance(handed, shap.Explanation)
    np.testing.assert_array_equal(handed.values, found.values[..., 1])
    np.testing.assert_allclose(handed.base_values, np.full(20, found.base[1]))
    assert handed.feature_names == list(found.features)

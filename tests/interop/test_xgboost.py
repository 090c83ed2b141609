"""XGBoost's models: its own leaves and sums, and damaged files."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.ensembles import TreeEnsemble
from jaxunc.interop import from_xgboost
from tests._refusal import refuses

from ._adversarial import assert_same_leaves, mutated, rows_at

xgboost: Any = pytest.importorskip("xgboost")
pytestmark = pytest.mark.once


def data(rng, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 5, n) * 2**22
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.7, 0.7])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def thresholds(model: TreeEnsemble) -> list[np.ndarray]:
    """The thresholds of every column; one goes left below the next float."""
    keys, feature, child = (np.asarray(getattr(model.trees, name)) for name in ("threshold", "feature", "child"))
    inner = child != np.arange(child.shape[1])
    bits = np.where(keys < 0, np.iinfo(np.int32).min - keys, keys)
    found = bits.astype(np.int32).view(np.float32)
    return [np.unique(found[inner & (feature == j)]) for j in range(model.n_features)]


def check(model: Any, booster: Any, X: Any, **iterations) -> TreeEnsemble:
    """Compare leaves and sums."""
    made = from_xgboost(model)
    matrix = xgboost.DMatrix(X, enable_categorical=True)
    theirs = booster.predict(matrix, pred_leaf=True, **iterations).reshape(len(X), -1)
    assert_same_leaves(np.asarray(ju.leaf_index(made.trees, X)), theirs)
    raw = np.asarray(made.raw(X))
    margin = booster.predict(matrix, output_margin=True, **iterations).reshape(raw.shape)
    size = max(1.0, float(np.abs(margin).max()))
    np.testing.assert_allclose(raw, margin, atol=2e-5 * size)
    exact = (
        np.asarray(made.base, float)
        + np.array(
            [
                np.asarray(made.leaf_values(X), float)[:, made.outputs_of_trees == k, 0].sum(axis=1)
                for k in range(made.n_outputs)
            ]
        ).T
    )
    np.testing.assert_allclose(raw, exact, atol=1e-6 * size)
    return made


ESTIMATORS = {
    "binary": lambda y: (xgboost.XGBClassifier(n_estimators=30), y > 0),
    "classes": lambda y: (xgboost.XGBClassifier(n_estimators=8), y),
    "forest": lambda y: (xgboost.XGBRFClassifier(n_estimators=12), y),
    "boosted forests": lambda y: (xgboost.XGBClassifier(n_estimators=4, num_parallel_tree=3), y),
    "regression": lambda y: (xgboost.XGBRegressor(n_estimators=20), y * 1e4),
    "targets": lambda y: (xgboost.XGBRegressor(n_estimators=10), np.stack([y, -y], axis=1)),
    "counts": lambda y: (xgboost.XGBRegressor(n_estimators=10, objective="count:poisson"), y),
    "leaf-wise": lambda y: (xgboost.XGBClassifier(n_estimators=10, grow_policy="lossguide", max_leaves=20), y > 0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name, rng):
    X, y = data(rng)
    model, y = ESTIMATORS[name](y)
    model.fit(X, y, sample_weight=rng.integers(1, 4, len(X)))
    X = np.concatenate([X, rows_at(thresholds(from_xgboost(model)), rng, 1500)])
    made = check(model, model.get_booster(), X)
    classifies = hasattr(model, "classes_")
    wanted = model.predict_proba(X) if classifies else model.predict(X)
    np.testing.assert_allclose(made.predict(X), wanted, atol=1e-6 if classifies else 2e-5 * np.abs(wanted).max())
    assert made.class_labels == (tuple(model.classes_.tolist()) if classifies else None)


def test_the_trees_that_answer(rng, tmp_path):
    X, y = data(rng)
    model = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X[:400], y[:400], eval_set=[(X[400:], y[400:])], verbose=False)
    booster, best = model.get_booster(), model.best_iteration + 1
    made = check(model, booster, X, iteration_range=(0, best))
    assert made.n_trees == 3 * best < 3 * booster.num_boosted_rounds()
    np.testing.assert_allclose(made.predict(X), model.predict_proba(X), atol=1e-6)
    whole = check(booster, booster, X)
    for form in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{form}")
        again = from_xgboost(tmp_path / f"model.{form}")
        assert jax.tree.all(jax.tree.map(np.array_equal, again, whole))
        assert again.class_labels == (0, 1, 2)
    np.testing.assert_allclose(whole.first_stages(best).raw(X), made.raw(X))


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_categories(rng, max_cat_to_onehot):
    n = 800
    frame = pd.DataFrame({"x": rng.standard_normal(n), "word": rng.choice(list("cabdef"), n)})
    frame["number"] = rng.integers(0, 70, n) * 10
    y = (frame.x > 0) ^ frame.word.isin(["a", "e"]) ^ (frame.number % 30 == 0)
    frame.loc[rng.random(n) < 0.1, "word"] = None
    frame = frame.astype({"word": "category", "number": "category"})
    frame.loc[rng.random(n) < 0.1, "number"] = None
    settings = {"enable_categorical": True, "max_cat_to_onehot": max_cat_to_onehot, "max_depth": 5}
    model = xgboost.XGBClassifier(n_estimators=12, **settings).fit(frame[:600], y[:600])
    made = check(model, model.get_booster(), frame)
    levels = made.columns.levels
    assert levels is not None
    assert levels[1] is not None
    assert levels[1].values == tuple("abcdef")
    words = frame.astype({"word": object, "number": float})
    np.testing.assert_array_equal(made.raw(words), made.raw(frame))
    codes = np.stack([frame.x, *(frame[name].cat.codes for name in ("word", "number"))], axis=1).astype(np.float32)
    codes[codes[:, 1] < 0, 1] = np.nan
    codes[codes[:, 2] < 0, 2] = np.nan
    of_codes = made.trees.__class__(
        *(getattr(made.trees, name) for name in ("feature", "threshold", "child", "missing_right", "tree_depth")),
        columns=made.columns.of_codes(),
    )
    np.testing.assert_array_equal(ju.leaf_index(of_codes, codes), ju.leaf_index(made.trees, frame))
    weird = np.array([[0, code, 0] for code in (-1, -0.5, 0.5, 2.7, 5.99, 6, 100)], np.float32)
    booster = xgboost.XGBClassifier(n_estimators=12, **settings, feature_types=["q", "c", "c"])
    booster.fit(np.nan_to_num(codes), y)
    check(booster, booster.get_booster(), np.concatenate([np.nan_to_num(codes), np.abs(weird), codes]))


def test_damaged_files(rng):
    X, y = data(rng, 200)
    booster = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(X, y).get_booster()
    made = 0
    for form in ("json", "ubj"):
        content = bytes(booster.save_raw(form))
        for _ in range(150):
            try:
                model = from_xgboost(mutated(content, rng))
            except ValueError:
                continue
            ju.forest.check_trees(model.trees)
            made += 1
    assert made


def test_refusals(rng, tmp_path):
    X, y = data(rng, 100)
    with refuses(ValueError, "not fitted"):
        from_xgboost(xgboost.XGBClassifier())
    with refuses(TypeError, "pass a Booster"):
        from_xgboost(y)
    for settings, said in (
        ({"booster": "dart"}, "dart"),
        ({"booster": "gblinear"}, "gblinear"),
        ({"objective": "survival:cox"}, "survival:cox"),
        ({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, "vectors"),
    ):
        target = np.stack([y, y], axis=1) if "multi_strategy" in settings else y + 1
        model = xgboost.XGBRegressor(n_estimators=2, **settings).fit(X, target)
        with refuses(ValueError, said):
            from_xgboost(model)
    document = json.loads(xgboost.XGBRegressor(n_estimators=2).fit(X, y).get_booster().save_raw("json"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    for name, value in (
        ("left_children", 0),
        ("right_children", 10**6),
        ("split_indices", 99),
        ("split_indices", 2**40),
    ):
        own, tree[name] = tree[name], [value, *tree[name][1:]]
        with refuses(ValueError, "tree 0|split_indices"):
            from_xgboost(json.dumps(document).encode())
        tree[name] = own
    (tmp_path / "model.json").write_text("[]")
    for path in (tmp_path / "model.json", Path(__file__)):
        with refuses(ValueError, "XGBoost model"):
            from_xgboost(path)

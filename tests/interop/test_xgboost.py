"""XGBoost's models: its own leaves and sums, and damaged files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_xgboost
from tests._refusal import refusals, refuses

from ._rows import answers_of, assert_same_leaves, near, raw_of, summed, thresholds, walked

xgboost: Any = pytest.importorskip("xgboost")
VERSION = tuple(map(int, xgboost.__version__.split(".")[:2]))
pytestmark = pytest.mark.once


def data(rng, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 5, n) * 2**22
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.7, 0.7])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def check(model: Any, booster: Any, X: Any, *, compiled: bool = False, **iterations) -> AdditiveTrees:
    """Check leaves and sums by loops in NumPy, which compile nothing; ``compiled`` also as users have them."""
    made = from_xgboost(model)
    matrix = xgboost.DMatrix(X, enable_categorical=True)
    leaves = walked(made.trees, X)
    assert_same_leaves(leaves, booster.predict(matrix, pred_leaf=True, **iterations))
    raw = summed(made, leaves)
    margin = booster.predict(matrix, output_margin=True, **iterations).reshape(raw.shape)
    size = max(1.0, float(np.abs(margin).max()))
    np.testing.assert_allclose(raw, margin, atol=2e-5 * size)
    if compiled:
        np.testing.assert_array_equal(ju.leaf_index(made.trees, X), leaves)
        np.testing.assert_allclose(made.raw(X), raw, atol=1e-6 * size)
    return made


VECTORS = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
# From 3.4 on dropout is a setting of any trees, and the names of other boosters warn.
DART = {"rate_drop": 0.5, "one_drop": 1, **({} if VERSION >= (3, 4) else {"booster": "dart"})}
PARALLEL = {"num_parallel_tree": 2}


def classifier(n_estimators: int, **settings) -> Any:
    """All have twelve trees of up to 32 nodes, and share their programs."""
    return xgboost.XGBClassifier(n_estimators=n_estimators, **{"max_depth": 4} | settings)


def regressor(n_estimators: int, **settings) -> Any:
    return xgboost.XGBRegressor(n_estimators=n_estimators, max_depth=4, **settings)


ESTIMATORS = {
    "binary": lambda y: (classifier(12), y > 0),
    "classes": lambda y: (classifier(4), y),
    "forest": lambda y: (classifier(1, num_parallel_tree=4, subsample=0.8), y),
    "boosted forests": lambda y: (classifier(2, **PARALLEL), y),
    "regression": lambda y: (regressor(12), y * 1e4),
    "targets": lambda y: (regressor(4), np.stack([y, -y, y * y], axis=1)),
    "counts": lambda y: (regressor(12, objective="count:poisson"), y),
    "leaf-wise": lambda y: (classifier(12, max_depth=0, grow_policy="lossguide", max_leaves=16), y > 0),
    "dropout": lambda y: (classifier(4, **DART), y),
    "dropout of forests": lambda y: (regressor(6, normalize_type="forest", **PARALLEL, **DART), y * 10.0),
    "vectors of classes": lambda y: (classifier(12, **VECTORS), y),
    "vectors in forests": lambda y: (classifier(6, **PARALLEL, **VECTORS), y),
    "vectors of targets": lambda y: (regressor(12, **VECTORS), np.stack([y, -2.5 * y, y * y], axis=1)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name, rng):
    X, y = data(rng)
    model, y = ESTIMATORS[name](y)
    model.fit(X, y, sample_weight=rng.integers(1, 4, len(X)))
    more = near(thresholds(from_xgboost(model).trees), 1500, rng)
    X = np.concatenate([X, np.where(np.isinf(more), np.nan, more)])  # XGBoost refuses infinite values
    compiled = name in ("binary", "boosted forests", "vectors in forests")
    made = check(model, model.get_booster(), X, compiled=compiled)
    classifies = hasattr(model, "classes_")
    wanted = model.predict_proba(X) if classifies else model.predict(X)
    atol = 1e-6 if classifies else 2e-5 * np.abs(wanted).max()
    for answer in (answers_of(made, X), *([made.predict(X)] if compiled else ())):
        np.testing.assert_allclose(answer, wanted, atol=atol)
    assert made.class_labels == (tuple(model.classes_.tolist()) if classifies else None)


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_categories(rng, max_cat_to_onehot):
    n = 800
    frame = pd.DataFrame({"x": rng.standard_normal(n), "word": rng.choice(list("cabdef"), n)})
    frame["number"] = rng.integers(0, 70, n) * 10
    y = (frame.x > 0) ^ frame.word.isin(["a", "e"]) ^ (frame.number % 30 == 0)
    frame.loc[rng.random(n) < 0.1, "word"] = None
    frame = frame.astype({"word": "category", "number": "category"})
    frame.loc[rng.random(n) < 0.1, "number"] = None
    settings = {"enable_categorical": True, "max_cat_to_onehot": max_cat_to_onehot, "max_depth": 4}
    model = xgboost.XGBClassifier(n_estimators=12, **settings).fit(frame[:600], y[:600])
    made = check(model, model.get_booster(), frame, compiled=max_cat_to_onehot == 1)
    levels: Any = made.columns.levels
    assert levels[1].values == tuple("abcdef")
    words = frame.astype({"word": object, "number": float})
    np.testing.assert_array_equal(walked(made.trees, words), walked(made.trees, frame))
    codes = np.stack([frame.x, *(frame[name].cat.codes for name in ("word", "number"))], axis=1).astype(np.float32)
    codes[codes[:, 1] < 0, 1] = np.nan
    codes[codes[:, 2] < 0, 2] = np.nan
    parts = ("feature", "threshold", "child", "missing_right", "tree_depth")
    of_codes = ju.forest.Trees(*(getattr(made.trees, name) for name in parts), columns=made.columns.of_codes())
    np.testing.assert_array_equal(walked(of_codes, codes), walked(made.trees, frame))
    weird = np.array([[0, code, 0] for code in (-1, -0.5, 0.5, 2.7, 5.99, 6, 100)], np.float32)
    booster = xgboost.XGBClassifier(n_estimators=12, **settings, feature_types=["q", "c", "c"])
    booster.fit(np.nan_to_num(codes), y)
    check(booster, booster.get_booster(), np.concatenate([np.nan_to_num(codes), np.abs(weird), codes]))


def model_of(document: dict) -> dict:
    return document["learner"]["gradient_booster"]["model"]


@pytest.mark.parametrize("objective", ["multi:softprob", "binary:logistic", "reg:squarederror", "reg:gamma"])
def test_vector_leaves(objective, rng, tmp_path):
    """Answers are XGBoost's, from both forms of a file, also with a base score for each output."""
    X, y = data(rng)
    labels = {"multi:softprob": y, "binary:logistic": np.stack([y > 0, y > 1, y == 1], axis=1)}
    labels = labels.get(objective, np.stack([y + 1, 3.0 - y, 0.5 + y * y], axis=1))
    further = {"num_class": 3} if objective == "multi:softprob" else {}
    for base in ({}, {"base_score": [0.2, 0.3, 0.5]} if VERSION >= (3, 2) else {"base_score": 0.3}):
        matrix = xgboost.DMatrix(X, labels)
        settings = {**VECTORS, "objective": objective, "max_depth": 4, **further, **base}
        booster = xgboost.train(settings, matrix, 5)
        made = check(booster, booster, X)
        assert (made.values.shape[2], made.trees_per_stage, made.n_trees) == (3, 1, 5)
        np.testing.assert_allclose(answers_of(made, X), booster.predict(matrix), atol=1e-6, rtol=1e-5)
        first = booster.predict(matrix, output_margin=True, iteration_range=(0, 2))
        np.testing.assert_allclose(raw_of(made.first_stages(2), X), first, atol=1e-5)
        booster.save_model(tmp_path / "model.ubj")
        assert jax.tree.all(jax.tree.map(np.array_equal, from_xgboost(tmp_path / "model.ubj"), made))
        again = from_xgboost(edited(booster, before_leaf_weights))
        np.testing.assert_array_equal(raw_of(again, X), raw_of(made, X))


def before_leaf_weights(document: dict) -> None:
    """Write vectors as XGBoost before 3.2: one for each node."""
    for tree in model_of(document)["trees"]:
        if "leaf_weights" in tree:
            width, right = int(tree["tree_param"]["size_leaf_vector"]), tree["right_children"]
            leaves = np.reshape(tree.pop("leaf_weights"), (-1, width))
            is_leaf = np.array(tree["left_children"]) < 0
            tree["base_weights"] = np.where(is_leaf[:, None], leaves[np.where(is_leaf, right, 0)], 7.0).ravel().tolist()
            tree["right_children"] = np.where(is_leaf, -1, right).tolist()


def test_vector_leaves_behind_categories(rng):
    """Tests of numbers that are written as tests of sets; XGBoost itself grows such trees up to 3.1 and from 3.4 on."""
    X = np.stack([rng.integers(0, 9, 600), rng.standard_normal(600)], axis=1).astype(np.float32)
    targets = np.stack([X[:, 0] % 3, (X[:, 0] - X[:, 1]) ** 2], axis=1)
    grown = xgboost.train({**VECTORS, "max_depth": 4}, xgboost.DMatrix(X, targets), 4)

    def as_categories(document: dict) -> None:
        document["learner"]["feature_types"] = ["c", "float"]
        document["learner"]["feature_names"] = ["a", "b"]
        for tree in model_of(document)["trees"]:
            tested = [i for i, left in enumerate(tree["left_children"]) if left >= 0 and tree["split_indices"][i] == 0]
            sets = [list(range(max(0, int(np.ceil(tree["split_conditions"][i]))), 9)) for i in tested]
            tree["split_type"] = [int(i in tested) for i in range(len(tree["left_children"]))]
            sizes = [len(codes) for codes in sets]
            tree["categories_nodes"], tree["categories_sizes"] = tested, sizes
            tree["categories_segments"] = np.cumsum([0, *sizes])[:-1].tolist()
            tree["categories"] = [code for codes in sets for code in codes]

    content = edited(grown, as_categories)
    booster = xgboost.Booster(model_file=bytearray(content))
    X[::7, 0] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b"])
    matrix = xgboost.DMatrix(frame, feature_types=["c", "float"])
    made = from_xgboost(content)
    assert made.columns.nominal == (True, False)
    np.testing.assert_allclose(raw_of(made, frame), booster.predict(matrix, output_margin=True), atol=2e-5)
    np.testing.assert_allclose(raw_of(made, X), raw_of(made, frame))


def edited(model: Any, edit: Callable[[dict], Any]) -> bytes:
    document = json.loads(bytes(model.save_raw("json")))
    edit(document)
    return json.dumps(document).encode()


def two_classes(rng, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, 3)).astype(np.float32)
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(int)


def test_a_classifier_with_the_objective_of_a_regressor(rng, tmp_path):
    X, y = two_classes(rng)
    settings = {"n_estimators": 2, "max_depth": 2, "objective": "reg:logistic"}
    model = xgboost.XGBClassifier(**settings).fit(X, y)
    model.save_model(tmp_path / "model.json")
    for given in (model, tmp_path / "model.json"):
        np.testing.assert_allclose(answers_of(from_xgboost(given), X), model.predict_proba(X), atol=1e-6)
    model = xgboost.XGBRegressor(**settings).fit(X, y)
    assert from_xgboost(model).class_labels is from_xgboost(model.get_booster()).class_labels is None


@pytest.mark.parametrize("gamma", [3, 30])
def test_pruned_trees(gamma, rng, tmp_path):
    X, y = two_classes(rng)
    model = xgboost.XGBClassifier(n_estimators=20, tree_method="exact", gamma=gamma).fit(X, y)
    booster = model.get_booster()
    trees = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    assert any(tree["left_children"][0] < 0 and len(tree["left_children"]) > 1 for tree in trees)
    check(model, booster, X)
    again = {"process_type": "update", "updater": "prune", "gamma": 9.0, "verbosity": 0}
    again["objective"] = "binary:logistic"
    pruned = xgboost.train(again, xgboost.DMatrix(X, y), 20, xgb_model=booster)
    check(pruned, pruned, X)
    treelite: Any = pytest.importorskip("treelite")
    made = ju.from_treelite(treelite.frontend.from_xgboost(pruned))
    np.testing.assert_allclose(answers_of(made, X)[:, 1], pruned.predict(xgboost.DMatrix(X)), atol=1e-6)


@pytest.mark.parametrize("missing", [-999, 0.0, np.float32(3), np.inf, -np.inf])
def test_other_numbers_for_missing_values(missing, rng):
    X, y = two_classes(rng)
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = xgboost.XGBClassifier(n_estimators=5, missing=missing)
    model.fit(np.where(np.isnan(holes), missing, holes), y)
    refuses(ValueError, r"takes .* for a missing value .*set_params\(missing=np.nan\)", from_xgboost, model)
    made = from_xgboost(model.set_params(missing=np.nan))
    np.testing.assert_allclose(answers_of(made, holes), model.predict_proba(holes), atol=1e-6)
    old = {"scikit_learn": json.dumps({"missing": float(missing)})}
    with refuses(ValueError, "for a missing value .*Load it into a Booster"):
        from_xgboost(edited(model.get_booster(), lambda d: d["learner"].update(attributes=old)))


def test_best_iterations(rng, tmp_path):
    """Estimators and files have the trees up to the best one, with a warning of files; a booster has all."""
    X, y = two_classes(rng)
    fit = {"eval_set": [(X[200:], y[200:])], "verbose": False}
    settings = {"n_estimators": 60, "learning_rate": 0.5}
    for further in ({}, {"num_parallel_tree": 3, "subsample": 0.7}):
        stopping = xgboost.callback.EarlyStopping(rounds=5)
        model = xgboost.XGBClassifier(callbacks=[stopping], **settings, **further).fit(X[:200], y[:200], **fit)
        model.save_model(tmp_path / "model.json")
        loaded = xgboost.XGBClassifier(early_stopping_rounds=7)
        loaded.load_model(tmp_path / "model.json")
        booster = model.get_booster()
        assert booster.best_iteration + 1 < booster.num_boosted_rounds()
        for one in (model, loaded, model.set_params(n_estimators=3)):
            made = from_xgboost(one)
            np.testing.assert_allclose(answers_of(made, X), one.predict_proba(X), atol=1e-6)
        assert made.n_trees == (booster.best_iteration + 1) * further.get("num_parallel_tree", 1)
        for part_of in (booster, booster[:4], booster[0:4:2]):
            check(part_of, part_of, X)
        for form in ("json", "ubj"):
            booster.save_model(tmp_path / f"model.{form}")
            best = booster.best_iteration
            with pytest.warns(UserWarning, match=rf"best iteration is {best}: the first {best + 1} of"):
                again = from_xgboost(tmp_path / f"model.{form}")
            assert jax.tree.all(jax.tree.map(np.array_equal, again, made))
        longer = xgboost.XGBClassifier(n_estimators=4, **further).fit(X, y, xgb_model=booster)
        np.testing.assert_allclose(answers_of(from_xgboost(longer), X), longer.predict_proba(X), atol=1e-6)
    loaded = xgboost.XGBClassifier(early_stopping_rounds=5)
    loaded.load_model(bytearray(xgboost.XGBClassifier(n_estimators=6).fit(X, y).get_booster().save_raw()))
    np.testing.assert_allclose(answers_of(from_xgboost(loaded), X), loaded.predict_proba(X), atol=1e-6)


OBJECTIVES = {
    **dict.fromkeys(("reg:squarederror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror"), "number"),
    **dict.fromkeys(("reg:squaredlogerror", "count:poisson", "reg:gamma", "reg:tweedie"), "above 0"),
    **dict.fromkeys(("reg:logistic", "binary:logistic", "binary:logitraw"), "two"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "three"),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives_and_base_scores(objective, rng):
    X, y = two_classes(rng)
    number = X[:, 0] + rng.standard_normal(len(X))
    kind = OBJECTIVES[objective]
    labels = {"number": number, "above 0": np.exp(number), "three": np.digitize(number, [-1, 1])}.get(kind, y)
    for base in (None, [0.2, 0.3, 0.5] if kind == "three" else 0.3):
        if isinstance(base, list) and VERSION < (3, 2):
            continue
        settings = {"objective": objective, "max_depth": 2, **({} if base is None else {"base_score": base})}
        settings |= {"num_class": 3} if kind == "three" else {}
        alpha = [0.1, 0.5] if VERSION < (3, 4) else [0.5]
        settings |= {"quantile_alpha": alpha} if objective == "reg:quantileerror" else {}
        rows = xgboost.DMatrix(X, label=labels)
        model = xgboost.train(settings, rows, 3)
        made = check(model, model, X)
        if objective != "multi:softmax":
            answer, theirs = answers_of(made, X), model.predict(rows)
            answer = answer[:, 1] if answer.shape != theirs.shape else answer
            np.testing.assert_allclose(answer, theirs, atol=2e-5 * max(1, float(np.abs(theirs).max())))


def test_what_newer_files_hold(rng):
    X, y = two_classes(rng)
    model = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, y), 3)
    check(edited(model, lambda d: model_of(d).update(weight_drop=[1.0] * 3)), model, X)
    weighted = from_xgboost(edited(model, lambda d: model_of(d).update(weight_drop=[1, 0.5, 2])))
    each = from_xgboost(model)
    np.testing.assert_allclose(weighted.values, np.array([1, 0.5, 2])[:, None, None] * each.values, rtol=1e-6)
    model = xgboost.train(QUANTILES, xgboost.DMatrix(X, X[:, 0]), 2)
    assert from_xgboost(edited(model, lambda d: d.update(version=[3, 3, 0]))).n_outputs == 2


def test_old_files(rng):
    """XGBoost before 1.6 does not say how many trees an iteration adds; before 1.3 logitraw had a probability."""
    X, y = data(rng)
    settings = {"num_parallel_tree": 3, "subsample": 0.6, "max_depth": 2}

    def old(document: dict, attributes: dict | None = None) -> None:
        del document["learner"]["gradient_booster"]["model"]["gbtree_model_param"]["num_parallel_tree"]
        document["learner"]["gradient_booster"]["model"].pop("iteration_indptr", None)
        document["version"] = [1, 0, 2]
        document["learner"]["attributes"] = attributes or {}

    for objective, labels in (("multi:softprob", y), ("binary:logistic", y > 0)):
        further = {"num_class": 3} if objective == "multi:softprob" else {}
        model = xgboost.train(settings | further | {"objective": objective}, xgboost.DMatrix(X, labels), 4)
        made = check(edited(model, old), model, X)
        assert made.trees_per_stage == (9 if further else 1)
        for told in (
            {"best_iteration": "1", "best_ntree_limit": "6"},
            {"best_iteration": "1", "scikit_learn": json.dumps({"best_ntree_limit": 6, "missing": None})},
        ):
            with pytest.warns(UserWarning, match="first 2 of 4 are imported"):
                check(edited(model, lambda d, told=told: old(d, told)), model, X, iteration_range=(0, 2))
    raw = xgboost.train({"objective": "binary:logitraw", "base_score": 0.3}, xgboost.DMatrix(X, y > 0), 2)
    before, now = from_xgboost(edited(raw, old)), from_xgboost(raw)
    np.testing.assert_allclose(np.asarray(before.base) - now.base, np.log(0.3 / 0.7) - 0.3, rtol=1e-5)


def test_words_outside_of_ascii(rng):
    code, x = rng.integers(0, 4, 600), rng.standard_normal(600)
    words = ["süd", "nord", "日本", ""]
    y = (code % 2 == 0) ^ (x > 1)
    frame = lambda names: pd.DataFrame({"größe": pd.Categorical.from_codes(code, names), "a b": x})
    model = xgboost.XGBClassifier(n_estimators=4, enable_categorical=True).fit(frame(words), y)
    encoded = [list(word.encode()) for word in words]
    entry = {"offsets": np.cumsum([0, *map(len, encoded)]).tolist(), "values": [*"".join(words).encode()]}

    def newer(document: dict, version: list) -> None:
        document["version"] = version
        document["learner"]["gradient_booster"]["model"]["cats"]["enc"][0] = entry

    made = from_xgboost(edited(model.get_booster(), lambda d: newer(d, [3, 4, 0])))
    for given in (frame(words), frame(words).astype({"größe": object})):
        np.testing.assert_allclose(answers_of(made, given), model.predict_proba(frame(words)), atol=1e-6)
    for version in ([3, 1, 0], [3, 3, 1]):
        with refuses(ValueError, "column 0 are words outside of ASCII"):
            from_xgboost(edited(model.get_booster(), lambda d, v=version: newer(d, v)))
    if (3, 1) <= VERSION < (3, 4):
        refuses(ValueError, "words outside of ASCII", from_xgboost, model)


def test_files_that_know_codes_alone(rng):
    """Before XGBoost 3.1 no file had the categories: a frame's are codes only if they are 0, 1, …."""
    code, x = rng.integers(0, 4, 600), rng.standard_normal(600)
    y = (code % 2 == 0) ^ (x > 1)
    frame = lambda values: pd.DataFrame({"c": pd.Categorical.from_codes(code, values), "x": x})
    model = xgboost.XGBClassifier(n_estimators=4, enable_categorical=True).fit(frame([10, 7, 30, 20]), y)
    made = from_xgboost(edited(model.get_booster(), lambda d: model_of(d).pop("cats")))
    with refuses(TypeError, r"columns \['c'\] .* are categories, and the model knows the codes"):
        made.predict(frame([10, 7, 30, 20]))
    for given in (frame([0, 1, 2, 3]), pd.DataFrame({"c": code, "x": x})):
        np.testing.assert_allclose(answers_of(made, given), model.predict_proba(frame([10, 7, 30, 20])), atol=1e-6)


def refused(edit: Callable[[dict], Any] | None = None, n_targets: int = 1, **settings) -> Callable:
    """The import of a small model, or of its file with an edit."""

    def read() -> None:
        X, y = two_classes(np.random.default_rng(0))
        targets = np.stack([y, -y], axis=1)[:, :n_targets]
        model = xgboost.train({"max_depth": 2} | settings, xgboost.DMatrix(X, targets), 2)
        from_xgboost(model if edit is None else edited(model, edit))

    return read


def in_tree(name: str, change: Callable) -> Callable[[dict], None]:
    """A document's second tree has another part of this name."""
    if name == "leaf_weights" and VERSION < (3, 2):
        name = "base_weights"
    return lambda document: model_of(document)["trees"][1].update({name: change(model_of(document)["trees"][1][name])})


def of_vectors(name: str, change: Callable) -> Callable:
    return refused(in_tree(name, change), 2, **VECTORS)


def of_tree(name: str, value: int) -> Callable:
    return refused(in_tree(name, lambda own: [value, *own[1:]]))


def in_learner(part: str, n_targets: int = 1, **entries) -> Callable:
    return refused(lambda document: document["learner"][part].update(entries), n_targets)


def one_class() -> None:
    X = np.zeros((9, 1))
    from_xgboost(xgboost.XGBClassifier(n_estimators=2).fit(X, X[:, 0]))


# Plain files of old versions: a base score, the number of columns, …, the version, and what is not used.
OLD = np.array([0.5], "<f4").tobytes() + np.array([3, 0, 1, 1, 1, 0] + [0] * 40, "<i4").tobytes()
UNKNOWN = ("binary:hinge", "survival:cox", "rank:pairwise", "rank:ndcg", "rank:map")
QUANTILES = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5]}


test_refusals = refusals(
    ("not fitted", lambda: from_xgboost(xgboost.XGBClassifier()), "not fitted"),
    ("an array", lambda: from_xgboost(np.zeros(3)), "pass a Booster", TypeError),
    ("one class", one_class, "1 classes, and its trees are for 2.*get_booster"),
    ("a list", lambda: from_xgboost(b"[]"), "XGBoost model"),
    ("a program", lambda: from_xgboost(Path(__file__)), "XGBoost model"),
    ("old", lambda: from_xgboost(OLD), "binary file of an old XGBoost; write it by booster.save_model"),
    ("old, any", lambda: ju.from_any(b"binf" + OLD), "binary file of an old XGBoost; write it by booster.save_model"),
    *((name, in_learner("objective", name=name), f"objective is '{name}'") for name in UNKNOWN),
    ("linear", in_learner("gradient_booster", name="gblinear"), "gblinear"),
    ("expectiles", in_learner("objective", 2, name="reg:expectileerror"), "several expectiles"),
    ("quantiles", refused(lambda d: d.update(version=[3, 4, 0]), **QUANTILES), "several quantiles"),
    ("weights", refused(lambda d: model_of(d).update(weight_drop=[1])), "1 weights of DART for 2"),
    ("best", in_learner("attributes", best_iteration="99"), "best iteration is 99, and has 2"),
    ("best of a word", in_learner("attributes", best_iteration="x"), "expected an integer"),
    ("left", of_tree("left_children", 0), "tree 1"),
    ("right", of_tree("right_children", 10**6), "tree 1"),
    ("column", of_tree("split_indices", 99), "tree 1"),
    ("far column", of_tree("split_indices", 2**40), "split_indices"),
    ("too few", of_vectors("leaf_weights", lambda own: own[:-2]), "no vectors of 2"),
    ("odd", of_vectors("leaf_weights", lambda own: own[:-1]), "no vectors of 2"),
    ("place", of_vectors("right_children", lambda own: [*own[:-1], 10**6]), "no vectors of 2"),
    ("other width", of_vectors("tree_param", lambda own: own | {"size_leaf_vector": "3"}), "hold 3 numbers; the model"),
    ("one number", of_vectors("tree_param", lambda own: own | {"size_leaf_vector": "0"}), "beside ones whose leaves"),
)

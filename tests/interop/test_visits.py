"""Ten million leaves of each library's models: not one is wrong.

Rows lie at thresholds and beside them, at the edges of floats, near 2^24, at timestamps, at zeros, in rare and in
unseen categories. Models are trained with and without missing values, with categories, on several classes, with early
stopping and with weights.
"""

import copy
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

import jaxunc as ju
from jaxunc.forest import Trees

from ._rows import near, thresholds

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]
NUMBERS, CATEGORIES = ("normal", "time", "big", "tiny", "zeros"), ("rare", "word")
N_RARE, N_WORDS = 60, 6


class Training(NamedTuple):
    """Numbers, timestamps, integers near 2^24, subnormal ones, many zeros; categories as codes, some of them rare."""

    X: np.ndarray
    z: np.ndarray
    weight: np.ndarray

    def y(self, classes: int) -> np.ndarray:
        return np.digitize(self.z, np.quantile(self.z, np.arange(1, classes) / classes))


@lru_cache
def training(missing: bool, n: int = 3000) -> Training:
    rng = np.random.default_rng(7)
    X = np.stack([
        rng.normal(size=n).round(2), 1.7e9 + rng.random(n) * 200, 2.0**24 + rng.integers(-40, 40, n),
        rng.normal(size=n) * 1e-39, np.where(rng.random(n) < 0.7, 0, rng.normal(size=n)),
        np.minimum(rng.geometric(0.08, n) - 1, N_RARE - 1), rng.integers(0, N_WORDS, n),
    ], axis=1)  # fmt: skip
    z = X[:, 0] + (X[:, 1] > 1.7e9 + 90.3) + (X[:, 2] % 2) + (X[:, 3] > 0) + (X[:, 4] > 0) * X[:, 0]
    z += X[:, 5] % 3 + (X[:, 6] % 2) * X[:, 0] + 0.3 * rng.normal(size=n)
    if missing:
        X[:, :5][rng.random((n, 5)) < 0.1] = np.nan
    return Training(X, z, rng.integers(1, 5, n).astype(float))


def adversarial(trees: Trees, n: int, seed: int, *, categories: dict[int, list] | None = None) -> np.ndarray:
    """Rows at the thresholds of trees, their neighbours among float32 and float64, edges of floats, and data's values.

    ``categories``: the values of columns that are no numbers.
    """
    rng, bounds = np.random.default_rng(seed), thresholds(trees)
    X = np.concatenate([near(bounds, n // 3, rng), near(bounds, n // 3, rng, np.float64)])
    own = training(True).X[:, : X.shape[1]]
    X = np.concatenate([X, own[rng.integers(0, len(own), n - len(X))]])
    mixed = np.stack([rng.permutation(column) for column in X.T], axis=1)
    for j, values in (categories or {}).items():
        mixed[:, j] = rng.choice(np.array(values, float), n)
    return mixed


def wrong_leaves(trees: Trees, X: object, theirs: np.ndarray) -> tuple[int, int]:
    """Leaves visited, and those that break a one-to-one correspondence with the leaves of the library."""
    ju.forest.check_trees(trees)
    return compared(np.asarray(ju.leaf_index(trees, X)), theirs)


def compared(ours: np.ndarray, theirs: np.ndarray) -> tuple[int, int]:
    theirs = np.asarray(theirs).reshape(len(ours), -1).astype(np.int64)
    assert ours.shape == theirs.shape
    return ours.size, sum(_wrong(a, b) for a, b in zip(ours.T, theirs.T, strict=True))


def _wrong(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Visits of one tree beside the pairs of leaves that are each other's most frequent partners."""
    a, b = (np.unique(side, return_inverse=True)[1] for side in (ours, theirs))
    met = np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1)).reshape(a.max() + 1, -1)
    best, back = met.argmax(axis=1), met.argmax(axis=0)
    mutual = np.flatnonzero(back[best] == np.arange(len(best)))
    return int(met.sum() - met[mutual, best[mutual]].sum())


LEAST, ROWS, TREES = 10_000_000, 9000, 240  # visits of each library; rows and trees of each of its models
KINDS = {
    "plain": {},
    "missing": {"missing": True},
    "categories": {"missing": True, "categories": True},
    "classes": {"missing": True, "categories": True, "classes": 3},
    "stopped": {"missing": True, "stops": True},
    "weights": {"missing": True, "weights": True, "classes": 3},
}
EARLY, ROUNDS = 30, 400


def each(visit) -> None:
    assert_enough({name: visit(**kind) for name, kind in KINDS.items()})


def assert_enough(found: dict[Any, tuple[int, int]]) -> None:
    visits, wrong = (sum(one) for one in zip(*found.values(), strict=True))
    print(f"{visits} leaves visited, {wrong} wrong: {found}")
    assert wrong == 0, found
    assert visits >= LEAST


def rounds(classes: int, stops: bool) -> int:
    return ROUNDS if stops else TREES // (classes if classes > 2 else 1)


def halves(data: Training) -> tuple[slice, slice]:
    return slice(0, len(data.X) * 2 // 3), slice(len(data.X) * 2 // 3, None)


def codes(n: int, unseen: tuple) -> dict[int, list]:
    return {5: [*range(N_RARE), *unseen], 6: [*range(N_WORDS), *unseen, np.nan]} if n > 5 else {}


def framed(X: np.ndarray) -> pd.DataFrame:
    words = {name: [f"w{code:.0f}" for code in X[:, 5 + j]] for j, name in enumerate(CATEGORIES)}
    return pd.DataFrame(X[:, :5], columns=NUMBERS).assign(**words)


def rows_of_words(trees: Trees) -> pd.DataFrame:
    """Numbers at the thresholds, and words, some of them unseen."""
    rng = np.random.default_rng(5)
    drawn = [rng.choice(np.array([*range(number), 99], float), ROWS) for number in (N_RARE, N_WORDS)]
    return framed(np.column_stack([adversarial(trees, ROWS, 4)[:, :5], *drawn]))


def test_xgboost():
    xgboost: Any = pytest.importorskip("xgboost")

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        n, y = 7 if categories else 5, data.y(classes)
        kinds = ["q"] * 5 + ["c"] * (n - 5)
        model = xgboost.XGBClassifier(
            n_estimators=rounds(classes, stops), learning_rate=0.1, max_depth=6, n_jobs=2, feature_types=kinds,
            enable_categorical=categories, max_cat_to_onehot=8, early_stopping_rounds=EARLY if stops else None,
        )  # fmt: skip
        more = {"eval_set": [(data.X[rest, :n], y[rest])], "verbose": False} if stops else {}
        model.fit(data.X[fit, :n], y[fit], sample_weight=data.weight[fit] if weights else None, **more)
        made, booster = ju.from_xgboost(model), model.get_booster()
        X = adversarial(made.trees, ROWS, 1, categories=codes(n, (-1, 0.5, 70)))
        X[np.isinf(X)] = np.nan  # XGBoost refuses infinite values
        matrix = xgboost.DMatrix(X, feature_types=kinds, enable_categorical=categories)
        until = model.best_iteration + 1 if stops else booster.num_boosted_rounds()
        assert not stops or until < ROUNDS
        return wrong_leaves(made.trees, X, booster.predict(matrix, pred_leaf=True, iteration_range=(0, until)))

    each(visit)


def test_lightgbm():
    lightgbm: Any = pytest.importorskip("lightgbm")
    of_kind = iter([{"use_missing": False}, {"zero_as_missing": True}, {"zero_as_missing": True}, {}, {}, {}])

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        n, y = 7 if categories else 5, data.y(classes)
        settings = {"objective": "multiclass", "num_class": 3} if classes > 2 else {"objective": "binary"}
        settings |= {"verbose": -1, "num_threads": 2, "num_leaves": 40, "min_data_per_group": 1} | next(of_kind)
        known = {"categorical_feature": [5, 6] if categories else [], "free_raw_data": False}
        train = lightgbm.Dataset(data.X[fit, :n], y[fit], weight=data.weight[fit] if weights else None, **known)
        valid = [lightgbm.Dataset(data.X[rest, :n], y[rest], reference=train, **known)] if stops else []
        stop = [lightgbm.early_stopping(EARLY, verbose=False)] if stops else []
        model = lightgbm.train(settings, train, rounds(classes, stops), valid_sets=valid, callbacks=stop)
        made = ju.from_lightgbm(model)
        X = adversarial(made.trees, ROWS, 2, categories=codes(n, (-1, -0.5, 0.99, 70, 1e9)))
        assert not stops or model.best_iteration < ROUNDS
        return wrong_leaves(made.trees, X, model.predict(X, pred_leaf=True))

    each(visit)


def test_catboost():
    catboost: Any = pytest.importorskip("catboost")
    of_kind = iter([{}, {"nan_mode": "Max"}, {}, {}, {"grow_policy": "Depthwise"}, {"grow_policy": "Lossguide"}])

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        frame, y = framed(data.X) if categories else data.X[:, :5], data.y(classes)
        pools = [catboost.Pool(
            frame.iloc[part] if categories else frame[part], y[part],
            cat_features=list(CATEGORIES) if categories else None, weight=data.weight[part] if weights else None,
        ) for part in (fit, rest)]  # fmt: skip
        quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 2, "one_hot_max_size": 255}
        stop = {"od_type": "Iter", "od_wait": EARLY, "learning_rate": 0.3} if stops else {}
        # One tree of an iteration has a value for each class.
        n_trees = ROUNDS if stops else TREES
        model = catboost.CatBoostClassifier(iterations=n_trees, depth=6, **quiet, **stop, **next(of_kind))
        model.fit(pools[0], eval_set=pools[1] if stops else None)
        made = ju.from_catboost(model, pool=pools[0] if categories else None)
        assert not stops or made.n_trees == model.best_iteration_ + 1 < ROUNDS
        if not categories:
            X = adversarial(made.trees, ROWS, 3)
            return wrong_leaves(made.trees, X, model.calc_leaf_indexes(X))
        X = rows_of_words(made.trees)
        return wrong_leaves(made.trees, X, model.calc_leaf_indexes(catboost.Pool(X, cat_features=list(CATEGORIES))))

    each(visit)


def test_ydf():
    ydf: Any = pytest.importorskip("ydf")
    ydf.verbose(0)
    numbers = [(name, ydf.Semantic.NUMERICAL) for name in NUMBERS]
    words = [(name, ydf.Semantic.CATEGORICAL) for name in CATEGORIES]

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        frame = framed(data.X).assign(y=data.y(classes), weight=data.weight)
        learner = ydf.GradientBoostedTreesLearner(
            label="y", features=numbers + words * categories, weights="weight" if weights else None,
            num_trees=rounds(classes, stops), max_depth=7, allow_na_conditions=missing,
            early_stopping="MIN_LOSS_FINAL" if stops else "NONE", early_stopping_num_trees_look_ahead=EARLY,
            num_threads=2,
        )  # fmt: skip
        model = learner.train(frame.iloc[fit], valid=frame.iloc[rest])
        made = ju.from_ydf(model)
        X = rows_of_words(made.trees)
        assert not stops or made.n_trees < ROUNDS
        names = [*NUMBERS, *(CATEGORIES if categories else ())]
        return wrong_leaves(made.trees, X[names], model.predict_leaves(X.assign(y=0, weight=1.0)))

    each(visit)


def test_histogram_based_boosting():
    """Leaves are numbered by their values, so that the raw predictions of a stage tell them."""

    @threadpool_limits.wrap(limits=1)  # its threads wait in a loop for each other at every tree
    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data = training(missing)
        n, y = 7 if categories else 5, data.y(classes)
        model: Any = HistGradientBoostingClassifier(
            max_iter=rounds(classes, stops), max_leaf_nodes=40, categorical_features=[5, 6] if categories else None,
            early_stopping=stops, n_iter_no_change=EARLY,
        )  # fmt: skip
        model.fit(data.X[:, :n], y, sample_weight=data.weight if weights else None)
        assert not stops or model.n_iter_ < ROUNDS
        model = copy.deepcopy(model)
        model._baseline_prediction = np.zeros_like(model._baseline_prediction)
        for tree in (tree for stage in model._predictors for tree in stage):
            tree.nodes = tree.nodes.copy()
            tree.nodes["value"] = np.arange(len(tree.nodes))
        made = ju.from_sklearn_values(model)
        X = adversarial(made.trees, ROWS, 6, categories=codes(n, (-1, 70)))
        stages = np.stack([np.array(raw) for raw in model._staged_raw_predict(X)], axis=1)
        theirs = np.diff(stages, axis=1, prepend=0).reshape(len(X), -1)
        ju.forest.check_trees(made.trees)
        return compared(np.asarray(made.leaf_values(X))[:, :, 0].astype(int), theirs)

    each(visit)


def test_other_models_of_sklearn():
    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, y = training(missing), training(missing).y(classes)
        settings: dict[str, Any] = {"max_depth": 8, "random_state": 0}
        n = rounds(classes, stops)
        if missing:  # gradient boosting knows no missing values
            kind = ExtraTreesRegressor if categories else RandomForestRegressor
            target = np.eye(classes)[y] if classes > 2 else y
            model: Any = kind(TREES, n_jobs=2, **settings)
        else:
            target = y
            model = GradientBoostingClassifier(n_estimators=n, n_iter_no_change=EARLY if stops else None, **settings)
        model.fit(data.X, target, sample_weight=data.weight if weights else None)
        made = ju.from_sklearn_values(model)
        X = adversarial(made.trees, ROWS, 7, categories=codes(7, (-1, 70)))
        X[~(np.abs(X) < 3.4e38) & ~np.isnan(X)] = 0  # scikit-learn refuses infinite values
        X = X if missing else np.nan_to_num(X)
        return wrong_leaves(made.trees, X, model.apply(X))

    each(visit)


def test_treelite():
    """Its own trees, of all comparisons, and those that it takes from other libraries."""
    pytest.importorskip("treelite", minversion="4.8")
    from treelite import gtil, sklearn

    from .test_treelite import built

    def counted(model, X):
        made = ju.from_treelite(model)
        return wrong_leaves(made.trees, X, gtil.predict_leaf(model, X, nthread=1))

    rng, edges, found = np.random.default_rng(8), np.random.default_rng(11), []
    for kind in (np.float32, np.float64):
        model = built(rng, np.dtype(kind).name, TREES, 63)
        trees: Any = ju.from_treelite(model).trees
        found.append(counted(model, near(thresholds(trees), ROWS, edges, kind)))
    for missing in (False, True):
        data = training(missing)
        forest = RandomForestRegressor(TREES, max_depth=8, random_state=0, n_jobs=2).fit(data.X, data.z)
        made = sklearn.import_model(forest)
        X = adversarial(ju.from_treelite(made).trees, ROWS, 9, categories=codes(7, (-1, 70)))
        found.append(counted(made, X.astype(np.float64)))
    with threadpool_limits(1):
        boosted = HistGradientBoostingClassifier(max_iter=TREES, early_stopping=False).fit(data.X, data.y(2))
    made = sklearn.import_model(boosted)
    found.append(counted(made, adversarial(ju.from_treelite(made).trees, 2 * ROWS, 10)))
    assert_enough(dict(enumerate(found)))


def test_onnx():
    """Each tree adds the number of its leaf to an output of its own."""
    pytest.importorskip("onnx")
    runtime: Any = pytest.importorskip("onnxruntime")
    from .test_from_onnx import graph, trees

    rng, found = np.random.default_rng(12), []
    for _ in range(5):
        attributes, tree, node = trees(rng, n_trees=TREES, n_nodes=63)
        weights = {"target_treeids": tree.tolist(), "target_nodeids": node.tolist(), "target_ids": tree.tolist()}
        weights |= {"target_weights": node.astype(float).tolist(), "n_targets": TREES}
        model = graph("TreeEnsembleRegressor", attributes | weights)
        made = ju.from_onnx(model)
        X = near(thresholds(made.trees), ROWS, rng)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        theirs = session.run(None, {"X": X})[0]
        found.append(wrong_leaves(made.trees, X, theirs.astype(int)))
    assert_enough(dict(enumerate(found)))

"""Ten million leaves of scikit-learn's, treelite's and ONNX's models: see `test_visits`."""

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

import jaxunc as ju

from ._visit_kinds import EARLY, ROUNDS, ROWS, TREES, adversarial_of, assert_enough, codes, each, rounds
from ._visits import adversarial, compared, training, wrong_leaves

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


def test_histogram_based_boosting():
    """Leaves are numbered by their values, so that the raw predictions of a stage tell them."""

    @threadpool_limits.wrap(limits=1)  # its threads wait in a loop for each other at every tree
    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data = training(missing)
        n, y = 7 if categories else 5, data.y(classes)
        model: Any = HistGradientBoostingClassifier(
            max_iter=rounds(classes, stops),
            max_leaf_nodes=40,
            categorical_features=[5, 6] if categories else None,
            early_stopping=stops,
            n_iter_no_change=EARLY,
        )
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
        return wrong_leaves(made.trees, X, gtil.predict_leaf(model, X, nthread=2))

    rng, found = np.random.default_rng(8), []
    for kind in (np.float32, np.float64):
        model = built(rng, np.dtype(kind).name, TREES, 63)
        trees: Any = ju.from_treelite(model).trees
        found.append(counted(model, adversarial_of(trees, kind)))
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
    from .test_onnx import graph, trees

    rng, found = np.random.default_rng(12), []
    for _ in range(5):
        attributes, tree, node = trees(rng, n_trees=TREES, n_nodes=63)
        weights = {"target_treeids": tree.tolist(), "target_nodeids": node.tolist(), "target_ids": tree.tolist()}
        weights |= {"target_weights": node.astype(float).tolist(), "n_targets": TREES}
        model = graph("TreeEnsembleRegressor", attributes | weights)
        made = ju.from_onnx(model)
        X = adversarial_of(made.trees, np.float32)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        theirs = session.run(None, {"X": X})[0]
        found.append(wrong_leaves(made.trees, X, theirs.astype(int)))
    assert_enough(dict(enumerate(found)))

"""Forests and ensembles that exporters write, and rows that decide at their thresholds."""

from functools import lru_cache

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import jaxunc as ju
from jaxunc.interop._exported import plain_nodes

from ._rows import near

N_TREES, N_FEATURES, ROWS = 9, 4, 2000
ENSEMBLES = ("two classes", "words", "three classes", "three histograms", "numbers", "two numbers")


def data(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, N_FEATURES)).astype(np.float32).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0]) + rng.normal(size=300), np.linspace(-1, 1, n_classes - 1))
    return X, y


@lru_cache
def forest_of(n_classes, n_trees=N_TREES, **settings):
    X, y = data(n_classes)
    settings = {"min_samples_leaf": 2, **settings}
    return ju.from_sklearn(RandomForestClassifier(n_trees, random_state=0, **settings).fit(X, y))


@lru_cache
def ensemble_of(name):
    """Of nine trees with as many nodes, so that programs are shared."""
    X, y = data(3)
    twice = np.stack([np.nan_to_num(X[:, 0]), y], axis=1)
    small, forest = {"max_leaf_nodes": 8}, RandomForestRegressor(N_TREES, max_leaf_nodes=8)
    model, targets = {
        "two classes": (HistGradientBoostingClassifier(max_iter=N_TREES, **small), y > 1),
        "words": (HistGradientBoostingClassifier(max_iter=N_TREES // 3, **small), np.array([*"abc"])[y]),
        "three classes": (GradientBoostingClassifier(n_estimators=N_TREES // 3, **small), y),
        "three histograms": (HistGradientBoostingClassifier(max_iter=N_TREES // 3, **small), y),
        "numbers": (forest, y),
        "two numbers": (forest, twice),
    }[name]
    return ju.from_sklearn_values(model.fit(np.nan_to_num(X) if name == "three classes" else X, targets))


def rows(trees, number=ROWS, dtype: type = np.float32, wide=None):
    """Rows at thresholds and the edges of floats; finite, as a bound forest wants them."""
    nodes = plain_nodes(trees, wide=trees.columns.cuts is not None if wide is None else wide)
    own = [nodes.value[nodes.inner & (nodes.feature == j)] for j in range(trees.n_features)]
    found = near(own, number, np.random.default_rng(1), dtype)
    largest = np.finfo(np.float32).max
    return np.clip(found, -largest, largest).astype(dtype)

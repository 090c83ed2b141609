"""The four forests that are measured, and synthetic data to grow and query them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

TRAINING_SIZE = 15_500
"""Grows W1 to about 1300 nodes a tree and a mean path of 12, W4 to 9000 nodes and 19.6."""

QUERY_POOL = 100_000


@dataclass(frozen=True)
class Workload:
    """One forest and the number of instances it is asked for."""

    name: str
    what: str
    n_features: int
    n_trees: int
    grow: Callable[..., RandomForestClassifier | ExtraTreesClassifier]
    settings: dict
    share_of_instances: float = 1.0
    """Of the instances asked for: less where the slower engines would take minutes."""


@dataclass(frozen=True)
class Scale:
    """How large the measurement is; `QUICK` only shows that everything runs."""

    training_size: int = TRAINING_SIZE
    share_of_trees: float = 1.0

    def trees(self, full: int) -> int:
        """The number of trees at this scale."""
        return max(2, round(full * self.share_of_trees))


FULL = Scale()
# So small that all trees of a tenth of the size share one padded size: programs are compiled once for W1 and W4.
QUICK = Scale(training_size=60, share_of_trees=0.05)

_FOREST, _EXTRA = RandomForestClassifier, ExtraTreesClassifier
WORKLOADS = {
    w.name: w
    for w in (
        Workload("W1", "random forest, 100 trees, min leaf 8", 30, 100, _FOREST, {"min_samples_leaf": 8}),
        Workload("W2", "random forest, 100 trees, depth 8", 30, 100, _FOREST, {"max_depth": 8}),
        Workload("W3", "random forest, 500 trees, min leaf 2", 50, 500, _FOREST, {"min_samples_leaf": 2}, 0.5),
        Workload("W4", "extremely randomised trees, 100, min leaf 1", 30, 100, _EXTRA, {"min_samples_leaf": 1}),
    )
}


@dataclass(frozen=True)
class Data:
    """Training data and instances to score, float32."""

    X: np.ndarray
    y: np.ndarray
    query: np.ndarray


def make_data(n_features: int, n_train: int, n_query: int) -> Data:
    """Two noisy classes; the same for every machine, and the same forest whatever the number of queries.

    Queries beyond the pool repeat it: 100 000 instances are far more than any cache remembers.
    """
    # The generator draws other clusters for other sizes, so the size of the whole is fixed.
    X, y = make_classification(
        20_000 + QUERY_POOL,
        n_features,
        n_informative=min(12, n_features // 2 + 1),
        n_redundant=min(5, n_features // 5),
        flip_y=0.08,
        random_state=0,
    )
    X = X.astype(np.float32)
    pool = X[20_000:]
    query = np.ascontiguousarray(pool[np.arange(n_query) % len(pool)])
    return Data(np.ascontiguousarray(X[:n_train]), y[:n_train], query)


def fit(workload: Workload, data: Data, scale: Scale, *, n_trees: int | None = None, **settings):
    """Grow the workload's forest; ``settings`` replace its own."""
    n_trees = scale.trees(workload.n_trees) if n_trees is None else n_trees
    model = workload.grow(n_trees, random_state=0, n_jobs=-1, **{**workload.settings, **settings})
    return model.fit(data.X, data.y)


def repeat_trees(model, times: int):
    """A forest ``times`` as large, of the same trees over again: cheap to make, as costly to import and to walk."""
    model.estimators_ = list(model.estimators_) * times
    model.n_estimators = len(model.estimators_)
    return model


def describe(model, X: np.ndarray) -> dict:
    """Size of the forest: nodes and leaves a tree, and the tests that an instance passes on its way."""
    sample = X[:1000]
    trees = [estimator.tree_ for estimator in model.estimators_]
    paths = [tree.decision_path(sample).sum() / len(sample) - 1 for tree in trees]
    return {
        "n_trees": len(trees),
        "nodes_per_tree": float(np.mean([tree.node_count for tree in trees])),
        "largest_tree": int(max(tree.node_count for tree in trees)),
        "leaves_per_tree": float(np.mean([tree.n_leaves for tree in trees])),
        "mean_path": float(np.mean(paths)),
        "longest_path": int(max(tree.max_depth for tree in trees)),
    }

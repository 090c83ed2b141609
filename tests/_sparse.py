"""A forest that tests a few of many columns, and sparse instances for it."""

import dataclasses
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.tables import Columns

N_COLUMNS = 90


@lru_cache
def sparse_data(n: int = 300, *, missing: bool = False, seed: int = 0) -> scipy.sparse.csr_array:
    """Numbers of both signs, a fifth of which is stored; of these some are missing, and some are 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_COLUMNS)) * (rng.random((n, N_COLUMNS)) < 0.2)
    X = scipy.sparse.csr_array(X)
    X.data[::17] = 0
    if missing:
        X.data[::5] = np.nan
    return X


@lru_cache
def sparse_labels(n_classes: int, n: int = 300, seed: int = 0) -> np.ndarray:
    score = np.nan_to_num(sparse_data(n, seed=seed).toarray())[:, :8].sum(axis=1)
    return np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))


@lru_cache
def sparse_model(n_classes: int, n_trees: int = 12) -> RandomForestClassifier:
    """A forest of scikit-learn that was fitted on the sparse data themselves."""
    model = RandomForestClassifier(n_trees, max_depth=3, random_state=0)
    return model.fit(sparse_data(), sparse_labels(n_classes))


@lru_cache
def sparse_forest(n_classes: int, n_trees: int = 12) -> ju.Forest:
    return ju.from_sklearn(sparse_model(n_classes, n_trees))


def widened(forest: ju.Forest, places: np.ndarray, number: int) -> ju.Forest:
    """The forest with its columns at these places among so many."""
    inner = np.asarray(forest.trees.child) != np.arange(forest.n_nodes)
    feature = np.where(inner, places[np.asarray(forest.trees.feature)], np.asarray(forest.trees.feature))
    trees = dataclasses.replace(forest.trees, feature=jnp.asarray(feature, jnp.int32), columns=Columns(number, None))
    return dataclasses.replace(forest, trees=trees)

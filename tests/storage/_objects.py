"""Small objects of every kind that is saved."""

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier, UncertainForestRegressor


def table(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Objects with two numeric columns and a nominal one, and labels."""
    rng = np.random.default_rng(0)
    X = np.empty((n, 3), object)
    X[:, 0], X[:, 1] = rng.normal(size=n), rng.integers(5, size=n)
    X[:, 2] = rng.choice(["red", "green", "blue", "grey"], n)
    return X, np.array(["no", "yes"])[(X[:, 0].astype(float) > 0).astype(int)]


NUMBERS = RandomForestRegressor(8, max_leaf_nodes=30, random_state=0)
"""A forest of one shape, whatever it is fitted to."""
OBJECTS = ("forest", "forks", "trees", "rule", "bound", "estimator", "regressor")


@lru_cache(maxsize=1)
def small_objects() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    forest = ju.from_sklearn(DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y))
    nominal, labels = table()
    grown = RandomDecisionTreesClassifier(3, min_samples_leaf=4, random_state=0).fit(nominal, labels)
    return {
        "forest": forest,
        "forks": grown.forest_,
        "trees": ju.grow_random_trees(jax.random.key(0), X, y, n_trees=2, min_samples_leaf=8).trees,
        "rule": ju.Calibrated(ju.Mean(ju.scorers.plausibility), scale=1.5, bias=np.array([0.0, 0.5])),
        "bound": ju.bind(forest, ju.EvidenceAccumulation(forest.prior)),
        "estimator": grown,
        "regressor": UncertainForestRegressor(NUMBERS).fit(X, X[:, 0] + y),
    }

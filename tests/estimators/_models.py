"""One small model of each classifier, for what all have in common."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import jaxunc as ju
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveTreeClassifier,
)

READ_OUTS = ("predict", "predict_proba", "decision_function", "predict_uncertainty", "predict_set", "predict_interval")
READ_OUTS += ("predict_reject", "explain", "leaf_counts", "predict_polled")

SMALL = RandomForestClassifier(8, min_samples_leaf=2, max_leaf_nodes=30, random_state=0)
"""Of so few leaves that all forests have one shape, which is compiled once."""
MODELS: dict[str, Callable[[], Any]] = {
    "combined": lambda: CombinedForestClassifier(forest(), combiner="mean", counts="train", random_state=0),
    "cautious": lambda: CautiousForestClassifier(forest(), counts="train", random_state=0),
    "random trees": lambda: RandomDecisionTreesClassifier(3, min_samples_leaf=4, random_state=0),
    "transduction": lambda: TransductiveTreeClassifier(),
}

OTHERS: dict[str, dict[str, Any]] = {
    "combined": {"estimator": None, "combiner": "vote", "combiner_options": {"no": 1}, "counts": "oob"},
    "cautious": {"estimator": None, "s": 40.0, "mass": "certainty", "counts": "oob", "held_out_size": 0.9},
    "random trees": {"n_estimators": 0, "combiner": "vote", "nominal": None, "missing": "random", "max_depth": 1},
    "transduction": {
        "candidates": "all",
        "min_samples_leaf": 30,
        "combiner": ju.Pooling(),
        "algorithm": "dense",
        "block_size": 0,
    },
}
"""Parameters that would answer otherwise, or not at all."""


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(3, max_depth=3, random_state=0)


@cache
def two_parts() -> list[np.ndarray]:
    """Rows to fit and others, and the classes of both."""
    return train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def sample(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    return X, np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)]


def answers(model: Any, X: Any) -> dict[str, list[np.ndarray]]:
    found = {name: getattr(model, name)(X) for name in READ_OUTS if hasattr(model, name)}
    return {name: [np.asarray(part) for part in (of if isinstance(of, tuple) else (of,))] for name, of in found.items()}

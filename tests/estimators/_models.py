"""One small model of each classifier, for what all have in common."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc import estimators

READ_OUTS = ("predict", "predict_proba", "decision_function", "predict_uncertainty", "predict_set", "predict_interval")
READ_OUTS += ("predict_reject", "explain", "leaf_counts", "predict_polled")

MODELS: dict[str, Callable[[], Any]] = {
    "combined": lambda: estimators.CombinedForestClassifier(forest(), combiner="mean", counts="train", random_state=0),
    "cautious": lambda: estimators.CautiousForestClassifier(forest(), counts="train", random_state=0),
    "random trees": lambda: estimators.RandomDecisionTreesClassifier(3, min_samples_leaf=4, random_state=0),
    "transduction": lambda: estimators.TransductiveTreeClassifier(),
}
LARGE_LEAVES = {"candidates": "all", "min_samples_leaf": 30, "combiner": ju.Pooling()}
OTHERS: dict[str, dict[str, Any]] = {
    "combined": {"estimator": None, "combiner": "vote", "combiner_options": {"no": 1}, "counts": "oob"},
    "cautious": {"estimator": None, "s": 40.0, "mass": "certainty", "counts": "oob", "held_out_size": 0.9},
    "random trees": {"n_estimators": 0, "combiner": "vote", "nominal": None, "missing": "random", "max_depth": 1},
    "transduction": LARGE_LEAVES | {"algorithm": "dense", "block_size": 0},
}
"""Parameters that would answer otherwise, or not at all."""


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(3, max_depth=3, random_state=0)


def sample(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    return X, np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)]


def answers(model: Any, X: Any) -> dict[str, list[np.ndarray]]:
    found = {name: getattr(model, name)(X) for name in READ_OUTS if hasattr(model, name)}
    return {name: [np.asarray(part) for part in (of if isinstance(of, tuple) else (of,))] for name, of in found.items()}

"""Pipelines around a model: opened into transformers and the model, and asked for its rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from jaxunc.tables import is_sparse

Steps = Sequence[tuple[str, Any]]
"""Transformers by their names, in their order."""
THRESHOLDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)


class Opened(NamedTuple):
    """What an estimator is made of."""

    whole: Any
    """A pipeline or a forest, without what freezes it, has searched for it or sets its threshold."""
    forest: Any
    """The last step of the pipeline; else the whole."""
    fitted: bool


def opened(estimator: Any) -> Opened:
    """Return the pipeline or forest, and its last step; fitted wrappers are opened where they are frozen."""
    whole, fitted = _unwrapped(estimator, fitted=False)
    forest = whole
    while isinstance(forest, Pipeline):
        if not (isinstance(forest.steps, list | tuple) and forest.steps and isinstance(forest.steps[-1], list | tuple)):
            return Opened(whole, None, fitted)  # which is refused
        forest, fitted = _unwrapped(forest.steps[-1][1], fitted=fitted)
    return Opened(whole, forest, fitted)


def _unwrapped(model: Any, *, fitted: bool) -> tuple[Any, bool]:
    while True:
        # Searches of any library have a best estimator; thresholds are found for one.
        parts = ("best_estimator_", "estimator_") if isinstance(model, THRESHOLDS) else ("best_estimator_",)
        found = [getattr(model, part) for part in parts if isinstance(model, BaseEstimator) and hasattr(model, part)]
        if isinstance(model, FrozenEstimator):
            model, fitted = model.estimator, True
        elif fitted and found:
            model = found[0]
        else:
            return model, fitted


def steps_of(whole: Any) -> Steps:
    """Return the transformers before the forest, also of pipelines within pipelines; none where there is no pipeline.

    They are the steps themselves, no copies.
    """
    found: list[tuple[str, Any]] = []
    while isinstance(whole, Pipeline):
        found += [(name, step) for name, step in whole.steps[:-1] if step is not None and step != "passthrough"]
        whole, _ = _unwrapped(whole.steps[-1][1], fitted=True)
    return found


def transformed(steps: Steps, X: Any) -> Any:
    """Return rows as the transformers make them; a ValueError if they are not as many, or a step is not fitted."""
    n = n_rows(X)
    try:
        for _, step in steps:
            X = step.transform(X)
    except NotFittedError as error:
        raise ValueError(
            f"a step of {[name for name, _ in steps]} is not fitted, and the forest is: {error} Freeze the whole "
            "fitted pipeline: FrozenEstimator(pipeline)."
        ) from error
    check_rows(X, n, steps)
    return X


def check_rows(X: Any, n: int, steps: Sequence[Any]) -> None:
    if (found := n_rows(X)) != n:
        raise ValueError(
            f"the pipeline's steps {[name for name, _ in steps]} made {found} rows of {n}, and each row needs its "
            "answer. Drop or add rows before fit, not in the pipeline."
        )


def n_rows(X: Any) -> int:
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}; pass the raw columns that the pipeline was fitted on.")
    return X.shape[0] if hasattr(X, "shape") else len(X)


def known_to_sklearn(X: Any) -> Any:
    """Return columns by name, and tables of Arrow, as frames of pandas, which transformers know; others as they are.

    What is no more than an array to be becomes one.
    """
    if not hasattr(X, "shape") and not hasattr(X, "__len__") and hasattr(X, "__array__"):
        return np.asarray(X)
    if isinstance(X, Mapping) and not is_sparse(X):  # some sparse matrices are
        import pandas as pd

        return pd.DataFrame({str(name): column for name, column in X.items()})
    of_arrow: Any = X
    return of_arrow.to_pandas() if hasattr(X, "to_batches") and not hasattr(X, "iloc") else X

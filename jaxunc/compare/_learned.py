"""Combinations learned from the training instances: the pool, and the calibrated means that people choose otherwise."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from jaxunc.combiners import Answer, LearnedPool, Mean
from jaxunc.counting import has_bags
from jaxunc.forest import Forest
from jaxunc.inference import bind
from jaxunc.learning import OobDataset, default_candidates, fit_combiner, oob_dataset

N_FOLDS = 3
"""Number of folds of cross-fitting, where forests have no bootstrap or few trees."""

Answers = Callable[[np.ndarray], Answer]
"""Function from instances to their answers."""


def learn(
    names: Sequence[str], model: Any, forest: Forest, X: np.ndarray, y: np.ndarray, groups: np.ndarray
) -> dict[str, Answers]:
    """Learn those of "learned", "calibrated" and "isotonic" that are named.

    ``model`` is what grew the forest on these instances, or the forest itself if its tests do not depend on labels.
    ``groups`` holds a number for each instance, the same for copies. Where a class has fewer instances than there are
    folds nothing is learned, and all three are the mean.
    """
    if not names:
        return {}
    # Too few rows of a class for folds: the mean stands in for all that learn, so that tables have no gaps.
    apart = np.unique(groups, return_index=True)[1]
    if np.bincount(y[apart], minlength=forest.n_classes).min() < N_FOLDS:
        return dict.fromkeys(names, bind(forest, Mean()).answer)
    how = {"counts": "both" if has_bags(model) else "inbag", "n_folds": N_FOLDS, "groups": groups}
    rows = oob_dataset(model, X, y, **how)
    makers = {"learned": _pool, "calibrated": _calibrated, "isotonic": _isotonic}
    return {name: makers[name](rows) for name in names}


def _pool(rows: OobDataset) -> Answers:
    return rows.bind(fit_combiner(LearnedPool(rows.prior, reads=rows.count_sets), rows).combiner).answer


def _calibrated(rows: OobDataset) -> Answers:
    """Return the calibrated mean with the least loss out of bag."""
    fits = [fit_combiner(rule, rows) for rule in default_candidates(rows)["calibrated mean"]]
    return rows.bind(min(fits, key=lambda fitted: fitted.loss).combiner).answer


def _isotonic(rows: OobDataset) -> Answers:
    """Calibrate each class against the rest by isotonic regression, clipped to 1/(n + 2) where that is too sure."""
    own, y, least = np.asarray(rows.answer(Mean()).probability), np.asarray(rows.y)[: rows.n], 1 / (rows.n + 2)
    fits: list[Any] = [
        IsotonicRegression(out_of_bounds="clip").fit(own[:, c], y == c)
        for c in range(1 if own.shape[1] == 2 else 0, own.shape[1])
    ]
    mean = rows.bind(Mean())

    def answer(X: np.ndarray) -> Answer:
        given = np.asarray(mean.probability(X))
        first = given.shape[1] - len(fits)
        columns = [np.clip(fit.predict(given[:, first + i]), least, 1 - least) for i, fit in enumerate(fits)]
        columns = [1 - columns[0], columns[0]] if first else columns
        shares = np.stack(columns, axis=1).astype(given.dtype)
        shares /= shares.sum(axis=1, keepdims=True)
        logs = np.log(shares)
        return Answer(logs, None, shares, logs)  # pyright: ignore[reportArgumentType]

    return answer

"""Laws by the residuals of the rows that stand behind an answer, in several forms, beside the learned law.

Each is a function of a `Fold` that returns quantiles ``[rows 19]`` at `TAUS`. Residuals are out of bag. The weights of
`jaxunc.neighbour_weights` add to 1 for each row.
"""

from collections.abc import Callable

import numpy as np

import jaxunc as ju
from benchmarks.studies.regression.methods import TAUS, Fold, of_regressor, of_residuals
from jaxunc.regression import target_bins

K = 200
"""Number of rows of the forms that leave the others out."""


def by_weights(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Fold], np.ndarray]:
    """The forest's mean, and quantiles of residuals by changed weights of the rows behind it ``[rows training]``."""

    def quantiles(fold: Fold) -> np.ndarray:
        apart = fold.y - fold.forest.oob_prediction_
        weights = ju.neighbour_weights(fold.forest, fold.X_test, rows=fold.X, y=fold.y).toarray()
        some = ~np.isnan(apart)
        return fold.forest.predict(fold.X_test)[:, None] + weighted(apart[some], change(weights[:, some]))

    return quantiles


def weighted(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The least values up to which lies a share of each row's weight, ``[rows 19]``."""
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weights[:, order], axis=1)
    up_to /= up_to[:, -1:]
    return np.stack([values[order][np.argmax(up_to >= tau, axis=1)] for tau in TAUS], axis=1)


def largest(weights: np.ndarray) -> np.ndarray:
    """The K largest weights of each row, and 0 for the others."""
    k = min(K, weights.shape[1])
    return np.where(weights >= np.partition(weights, -k, axis=1)[:, [-k]], weights, 0)


def by_bins(n_bins: int) -> Callable[[Fold], np.ndarray]:
    """The forest's mean, and quantiles of bins of residuals that leaves count, by the mean of the leaves' shares."""

    def quantiles(fold: Fold) -> np.ndarray:
        apart = fold.y - fold.forest.oob_prediction_
        some = ~np.isnan(apart)
        bins = target_bins(apart[some], n_bins)
        seen = np.stack([np.bincount(bag, minlength=len(apart)) > 0 for bag in fold.forest.estimators_samples_], axis=1)
        forest = ju.count_leaves(ju.from_any(fold.forest).trees, fold.X[some], bins.codes, tree_mask=seen[some])
        p = np.asarray(ju.bind(forest, ju.Mean()).probability(fold.X_test))
        return fold.forest.predict(fold.X_test)[:, None] + bins.quantile(p, TAUS)

    return quantiles


LAW = "neighbours"
FORMS: dict[str, Callable[[Fold], np.ndarray]] = {
    "learned law": of_regressor("learned"),
    "plain residuals": of_residuals,
    "weight": by_weights(lambda weights: weights),
    "root of the weight": by_weights(np.sqrt),
    "200 of most weight": by_weights(largest),
    "200 of most weight, alike": by_weights(lambda weights: np.sign(largest(weights))),
    "20 bins": by_bins(20),
    "100 bins": by_bins(100),
    LAW: of_regressor(LAW),
}

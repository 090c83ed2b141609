"""What the study compares: intervals and quantiles of the library's regressor, and of what people use in its place.

Each method is a function of a `Fold` that returns quantiles ``[rows 19]`` at `TAUS`, whose outer two are the bounds of
the 90 % interval; a method that has an interval alone returns ``[rows 2]``. Forests are the same trees throughout: the
package quantile-forest grows scikit-learn's, from the same seed.
"""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

TAUS = np.round(np.linspace(0.05, 0.95, 19), 2)
MISS = 0.1
"""The part of the rows that an interval may miss."""
N_STRATA, RESAMPLED = 5, 30


class Fold:
    """A fold's rows, and what several methods share: the forest, and the package's with the same trees."""

    def __init__(self, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, settings: dict[str, Any]):
        self.X, self.y, self.X_test, self.settings = X, y, X_test, settings

    @cached_property
    def forest(self) -> RandomForestRegressor:
        """Scikit-learn's forest."""
        return RandomForestRegressor(oob_score=True, **self.settings).fit(self.X, self.y)

    @cached_property
    def quantile_forest(self) -> Any:
        """The package's, with all targets of each leaf."""
        from quantile_forest import RandomForestQuantileRegressor

        return RandomForestQuantileRegressor(max_samples_leaf=None, **self.settings).fit(self.X, self.y)

    @cached_property
    def residuals(self) -> np.ndarray:
        """Those of the rows that some tree has not seen, by these trees."""
        found = self.y - self.forest.oob_prediction_
        return found[~np.isnan(found)]


def of_regressor(law: str, n_bins: int = 20) -> Callable[[Fold], np.ndarray]:
    """The library's regressor of the same forest, by a law."""

    def quantiles(fold: Fold) -> np.ndarray:
        from sklearn.frozen import FrozenEstimator

        from jaxunc.estimators import UncertainForestRegressor

        model = UncertainForestRegressor(FrozenEstimator(fold.forest), law=law, n_bins=n_bins).fit(fold.X, fold.y)
        return np.asarray(model.predict(fold.X_test, quantiles=TAUS.tolist()))

    return quantiles


def of_quantile_forest(fold: Fold) -> np.ndarray:
    """The quantile regression forest as it is."""
    return np.asarray(fold.quantile_forest.predict(fold.X_test, quantiles=TAUS.tolist()))


def with_margin(fold: Fold) -> np.ndarray:
    """Its interval, widened by the rank of how far out-of-bag rows lie outside (CQR out of bag)."""
    own = np.asarray(fold.quantile_forest.predict(fold.X, quantiles=[MISS / 2, 1 - MISS / 2], oob_score=True))
    known = ~np.isnan(own).any(axis=1)
    beyond = np.maximum(own[:, 0] - fold.y, fold.y - own[:, 1])[known]
    return widened(np.asarray(fold.quantile_forest.predict(fold.X_test, quantiles=[MISS / 2, 1 - MISS / 2])), beyond)


def widened(ends: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """Intervals with the conformal margin of how far other rows lie outside of theirs."""
    rank = min(1.0, np.ceil((1 - MISS) * (len(beyond) + 1)) / len(beyond))
    margin = np.quantile(beyond, rank, method="higher")
    return np.sort(ends + np.array([-margin, margin]), axis=1)


def of_residuals(fold: Fold) -> np.ndarray:
    """The forest's mean, and quantiles of its out-of-bag residuals: one width for all."""
    return fold.forest.predict(fold.X_test)[:, None] + np.quantile(fold.residuals, TAUS)


def of_spread(fold: Fold) -> np.ndarray:
    """A normal law with the variance between the trees' means alone, as surrogates of optimizers have it."""
    each = np.stack([tree.predict(fold.X_test) for tree in fold.forest.estimators_])
    return each.mean(axis=0)[:, None] + each.std(axis=0)[:, None] * norm.ppf(TAUS)


def of_crepes(fold: Fold) -> np.ndarray:
    """Crepes out of bag: normalised residuals, the difficulty the variance between trees."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    difficulty = DifficultyEstimator().fit(X=fold.X, learner=fold.forest, scaler=True, oob=True)
    model = WrapRegressor(fold.forest)
    model.calibrate(fold.X, fold.y, de=difficulty, oob=True)
    return np.asarray(model.predict_int(fold.X_test, confidence=1 - MISS))


def of_jackknife(fold: Fold) -> np.ndarray:
    """MAPIE's jackknife+-after-bootstrap: 30 forests of a tenth of the trees."""
    from mapie.regression import JackknifeAfterBootstrapRegressor

    settings = fold.settings | {"n_estimators": max(10, fold.settings["n_estimators"] // 10)}
    how = {"confidence_level": 1 - MISS, "resampling": RESAMPLED, "method": "plus", "random_state": 0}
    model = JackknifeAfterBootstrapRegressor(RandomForestRegressor(**settings), **how)
    _, bounds = model.fit_conformalize(fold.X, fold.y).predict_interval(fold.X_test)
    return np.asarray(bounds)[:, :, 0]


def of_conformal_quantiles(fold: Fold) -> np.ndarray:
    """MAPIE's conformalised quantile regression: boosted quantiles of three quarters of the rows, the rest held out."""
    from mapie.regression import ConformalizedQuantileRegressor

    fit, held = train_test_split(np.arange(len(fold.y)), test_size=0.25, random_state=0)
    model = ConformalizedQuantileRegressor(_boosted(0.5), confidence_level=1 - MISS)
    with threadpool_limits(1):  # of rows so few, others wait for each other
        model.fit(fold.X[fit], fold.y[fit]).conformalize(fold.X[held], fold.y[held])
        _, bounds = model.predict_interval(fold.X_test)
    return np.sort(np.asarray(bounds)[:, :, 0], axis=1)


def of_boosting(fold: Fold) -> np.ndarray:
    """A boosted model for each quantile, sorted."""
    with threadpool_limits(1):
        found = [_boosted(tau).fit(fold.X, fold.y).predict(fold.X_test) for tau in TAUS]
    return np.sort(np.stack(found, axis=1), axis=1)


def _boosted(tau: float) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(loss="quantile", quantile=tau, random_state=0)


METHODS: dict[str, Callable[[Fold], np.ndarray]] = {
    "learned law": of_regressor("learned"),
    "law of residuals": of_regressor("residuals"),
    "conformal form": of_regressor("conformal"),
    "20 bins": of_regressor("bins"),
    "quantile-forest": of_quantile_forest,
    "quantile-forest, margin": with_margin,
    "plain residuals": of_residuals,
    "spread of trees": of_spread,
    "crepes": of_crepes,
    "MAPIE, jackknife+": of_jackknife,
    "MAPIE, CQR": of_conformal_quantiles,
    "boosted quantiles": of_boosting,
    "learned law, 100 bins": of_regressor("learned", 100),
    "100 bins": of_regressor("bins", 100),
}
WITHOUT_FOREST = ("MAPIE, CQR", "boosted quantiles")
"""Methods that are the same for all forests."""
ADDED = ("learned law, 100 bins", "100 bins")
"""Methods that were added after the results of the others had been seen, and are run with 100 trees."""


class Measures(NamedTuple):
    """Sums over a fold's rows, so that folds add up."""

    rows: int
    covered: int
    score: float
    """Of interval scores: width + 2/.1 times how far the target lies outside."""
    loss: float | None
    """Of mean pinball losses over the 19 quantiles; None of an interval alone."""
    strata: list[list[int]]
    """Rows and covered rows of five groups of equal size by width, the narrowest first."""


def measured_by(methods: Mapping[str, Callable[[Any], np.ndarray]], fold: Any, y: np.ndarray) -> dict[str, dict]:
    """{method: measures of its answers to a fold, and "seconds"}."""
    found = {}
    for name, method in methods.items():
        start = time.perf_counter()
        quantiles = method(fold)
        found[name] = measured(quantiles, y)._asdict() | {"seconds": time.perf_counter() - start}
    return found


def measured(quantiles: np.ndarray, y: np.ndarray) -> Measures:
    """Return the measures of quantiles, or of an interval."""
    if not np.isfinite(quantiles).all():
        raise ValueError(f"{np.sum(~np.isfinite(quantiles).all(axis=1))} rows have no finite quantiles.")
    low, high = quantiles[:, 0], quantiles[:, -1]
    covered, width = (low <= y) & (y <= high), high - low
    score = width + 2 / MISS * (np.maximum(low - y, 0) + np.maximum(y - high, 0))
    loss = None
    if quantiles.shape[1] == len(TAUS):
        short = y[:, None] - quantiles
        loss = float(np.maximum(TAUS * short, (TAUS - 1) * short).mean(axis=1).sum())
    parts = np.array_split(np.argsort(width, kind="stable"), N_STRATA)
    strata = [[len(part), int(covered[part].sum())] for part in parts]
    return Measures(len(y), int(covered.sum()), float(score.sum()), loss, strata)

"""What the study compares: intervals of four libraries' boosted regressors, as this library and others make them.

Each method is a function of a `Fold` that returns the ends of 90 % intervals ``[rows 2]``. All methods of a fold share
its models: of all training rows, of three quarters, and for the two outer quantiles of both.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, cross_val_predict

from benchmarks.studies.regression.methods import MISS, widened
from benchmarks.studies.regression.problems import MOST_ROWS, PROBLEMS, Rows
from benchmarks.studies.regression.problems import rows_of as rows_of_regression
from jaxunc.estimators import UncertainForestRegressor

ROUNDS, RATE, LEAVES, DEPTH, N_FOLDS, HELD_OUT, NEAREST = 100, 0.1, 31, 6, 5, 0.25, 25
LIBRARIES = ("LightGBM", "XGBoost", "CatBoost", "scikit-learn")
ENDS = (MISS / 2, 1 - MISS / 2)


def booster(library: str, tau: float | None = None) -> Any:
    """A library's regressor: of the mean, or of a quantile."""
    if library == "LightGBM":
        from lightgbm import LGBMRegressor

        loss = {} if tau is None else {"objective": "quantile", "alpha": tau}
        sizes = {"n_estimators": ROUNDS, "learning_rate": RATE, "num_leaves": LEAVES}
        return LGBMRegressor(**sizes, n_jobs=1, verbose=-1, random_state=0, **loss)
    if library == "XGBoost":
        from xgboost import XGBRegressor

        loss = {} if tau is None else {"objective": "reg:quantileerror", "quantile_alpha": tau}
        sizes = {"n_estimators": ROUNDS, "learning_rate": RATE, "max_depth": DEPTH}
        return XGBRegressor(**sizes, n_jobs=1, random_state=0, **loss)
    if library == "CatBoost":
        return _catboost("RMSE" if tau is None else f"Quantile:alpha={tau}")
    loss = {} if tau is None else {"loss": "quantile", "quantile": tau}
    sizes = {"max_iter": ROUNDS, "learning_rate": RATE, "max_leaf_nodes": LEAVES}
    return HistGradientBoostingRegressor(**sizes, random_state=0, **loss)


def _catboost(loss: str) -> Any:
    from catboost import CatBoostRegressor

    sizes = {"loss_function": loss, "iterations": ROUNDS, "learning_rate": RATE, "depth": DEPTH}
    return CatBoostRegressor(**sizes, random_seed=0, verbose=0, thread_count=1, allow_writing_files=False)


class Fold:
    """A fold's rows, a library, and the models that several methods share."""

    def __init__(self, library: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray):
        self.library, self.X, self.y, self.X_test = library, X, y, X_test
        order = np.random.default_rng(2).permutation(len(y))
        n_held = round(len(y) * HELD_OUT)
        self.fit, self.held = np.sort(order[n_held:]), np.sort(order[:n_held])

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows to fit and rows to answer, five times."""
        return KFold(N_FOLDS, shuffle=True, random_state=1).split(self.X)

    def quantile_models(self, rows: np.ndarray) -> list[Any]:
        """Models of the two outer quantiles, of these rows."""
        return [booster(self.library, tau).fit(self.X[rows], self.y[rows]) for tau in ENDS]

    @cached_property
    def frozen(self) -> Any:
        """The model of three quarters of the rows."""
        return booster(self.library).fit(self.X[self.fit], self.y[self.fit])

    @cached_property
    def quantiles(self) -> np.ndarray:
        """The outer quantiles of the test rows, by models of all training rows."""
        return ends_of(self.quantile_models(np.arange(len(self.y))), self.X_test)


def ends_of(models: list[Any], X: np.ndarray) -> np.ndarray:
    """The answers of two models, the lower first, ``[rows 2]``."""
    return np.sort(np.stack([np.asarray(model.predict(X), float) for model in models], axis=1), axis=1)


def of_regressor(law: str) -> Callable[[Fold], np.ndarray]:
    """`UncertainForestRegressor` with a law, cross-fitted."""

    def interval(fold: Fold) -> np.ndarray:
        model = UncertainForestRegressor(booster(fold.library), law=law, random_state=0).fit(fold.X, fold.y)
        return np.asarray(model.predict_interval(fold.X_test))

    return interval


def of_frozen(fold: Fold) -> np.ndarray:
    """`UncertainForestRegressor` around the model of three quarters, its law learned from the other quarter."""
    model = UncertainForestRegressor(FrozenEstimator(fold.frozen), random_state=0)
    return np.asarray(model.fit(fold.X[fold.held], fold.y[fold.held]).predict_interval(fold.X_test))


def of_all_rows(fold: Fold) -> np.ndarray:
    """Conformalised quantiles of all rows: the margin from models of five folds, added to models of all."""
    beyond = np.empty(len(fold.y))
    for fit, held in fold.folds():
        ends = ends_of(fold.quantile_models(fit), fold.X[held])
        beyond[held] = np.maximum(ends[:, 0] - fold.y[held], fold.y[held] - ends[:, 1])
    return widened(fold.quantiles, beyond)


def of_mapie(fold: Fold) -> np.ndarray:
    """MAPIE's conformalised quantiles: models of three quarters, the margins of both ends from the other quarter."""
    from mapie.regression import ConformalizedQuantileRegressor

    models = [*fold.quantile_models(fold.fit), fold.frozen]
    model = ConformalizedQuantileRegressor(models, confidence_level=1 - MISS, prefit=True)
    model.conformalize(fold.X[fold.held], fold.y[fold.held])
    return np.sort(np.asarray(model.predict_interval(fold.X_test)[1])[:, :, 0], axis=1)


def of_crepes(fold: Fold) -> np.ndarray:
    """Crepes on the same split: residuals over the mean size of out-of-fold ones of the 25 nearest rows."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    X, y = fold.X[fold.fit], fold.y[fold.fit]
    residuals = y - cross_val_predict(booster(fold.library), X, y, cv=N_FOLDS)
    difficulty = DifficultyEstimator().fit(X=X, residuals=residuals, scaler=True, k=NEAREST)
    model = WrapRegressor(fold.frozen)
    model.calibrate(fold.X[fold.held], fold.y[fold.held], de=difficulty)
    return np.asarray(model.predict_int(fold.X_test, confidence=1 - MISS))


def of_catboost(fold: Fold) -> np.ndarray:
    """CatBoost's normal law, a mean and a variance in each leaf."""
    mean, variance = _catboost("RMSEWithUncertainty").fit(fold.X, fold.y).predict(fold.X_test).T
    return mean[:, None] + np.sqrt(variance)[:, None] * norm.ppf(ENDS)


def of_ngboost(fold: Fold) -> np.ndarray:
    """NGBoost's normal law, with its own settings: 500 rounds at a rate of .01."""
    from ngboost import NGBRegressor

    law = NGBRegressor(verbose=False, random_state=0).fit(fold.X, fold.y).pred_dist(fold.X_test)
    return law.loc[:, None] + law.scale[:, None] * norm.ppf(ENDS)


METHODS: dict[str, Callable[[Fold], np.ndarray]] = {
    "learned law": of_regressor("learned"),
    "plain residuals": of_regressor("residuals"),
    "learned law, frozen": of_frozen,
    "CQR, all rows": of_all_rows,
    "CQR, MAPIE": of_mapie,
    "crepes": of_crepes,
    "quantile models": lambda fold: fold.quantiles,
}
ALONE = {"LightGBM": {"NGBoost": of_ngboost}, "CatBoost": {"RMSEWithUncertainty": of_catboost}}
"""Methods that have a library of their own; each stands beside the cell of one library."""


def methods_of(library: str) -> dict[str, Callable[[Fold], np.ndarray]]:
    """All methods of a library's cells."""
    return METHODS | ALONE.get(library, {})


# The problems: fifteen that the law was made on, and those of `benchmarks.studies.regression` besides.

# "Noise apart" depends on columns that the mean does not read; the noise of "prices" grows with the target.
_apart = lambda X: np.where((X[:, 7] > 0.5) & (X[:, 8] > 0.4), 4.0, 0.5)
DRAWN: dict[str, tuple[int, Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]]] = {
    "noise apart": (11, lambda rng, X, y: y + rng.normal(size=len(y)) * _apart(X)),
    "heavy tails": (12, lambda rng, X, y: y + rng.standard_t(3, len(y)) * (0.3 + 2 * X[:, 1])),
    "prices": (13, lambda rng, X, y: np.exp(y / 6 + 0.3 * rng.normal(size=len(y)))),
}
"""{problem: its seed, and its target of friedman1's columns and mean}."""
MADE_ON = (
    *("friedman1", "friedman3", "uneven noise", "skewed noise", "counts", "two peaks", "diabetes progression"),
    *("electricity", "pendigits", "spambase", "waveform-5000", "wine-quality-red", *DRAWN),
)
FRESH = tuple(name for name in PROBLEMS if name not in MADE_ON)
LOPSIDED = ("skewed noise", "counts", "two peaks", "prices", "mostly zero")
"""Drawn problems whose target is not symmetric about its mean."""


def rows_of(name: str, folder: str | None = None) -> Rows:
    """Return a problem's rows, 2000 at most."""
    if name not in DRAWN:
        return rows_of_regression(name, folder)
    seed, target = DRAWN[name]
    X, y = make_friedman1(MOST_ROWS, noise=0.0, random_state=seed)
    return Rows(np.asarray(X, np.float32), target(np.random.default_rng(seed), X, y))

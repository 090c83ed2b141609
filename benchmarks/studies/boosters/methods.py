"""What the study of boosters compares: four libraries' boosted classifiers, as they come and tuned, and mixtures.

Everything is chosen on training rows, in three folds of them that all share. A `Booster` has answers for training rows
by models of the other folds, and answers for new rows by a model of all training rows.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.studies.learning.methods import best_calibrator, fit_calibrator

SETS = (
    "lymph", "iris", "tae", "flags", "seeds", "new-thyroid", "forest-type", "anneal", "skin", "airlines", "electricity",
    "nursery", "page-blocks", "wine-quality-red", "bankLoan", "mushroom", "phishing", "splice", "webdata", "scene",
)  # fmt: skip
"""Sets that nothing here was developed on, of six classes at most: by rows, then by columns."""
LARGE_SETS = (
    "skin", "webdata", "phishing", "bankLoan", "airlines", "electricity", "page-blocks", "mushroom", "nursery",
    "splice", "scene",
)  # fmt: skip
"""Those of which at least 1000 rows are left beyond the 999: by the time of a small cell."""
MOST_ROWS = 4000
LIBRARIES = ("LightGBM", "XGBoost", "CatBoost", "histogram")
N_PARTS, N_SETTINGS, N_FINALISTS, MOST_ROUNDS, PATIENCE, N_ASKED = 3, 24, 4, 500, 20, 10_000
MOST_LEVELS = 255
"""What scikit-learn's histogram boosting takes of levels in a column; columns of more are numbers there."""
LEAST = 1e-6
"""What a probability is raised to where something is chosen by log loss."""
PRIOR_ROWS = 1.0
"""The prior of a mixture's weights, in rows for each member, as in `jaxunc.learning.stack_combiners`."""


class LargeCell(NamedTuple):
    """One fold of a set of which more rows are drawn."""

    data: str
    fold: int
    most_rows: int = MOST_ROWS


class Settings(NamedTuple):
    """What is tuned."""

    rate: float
    depth: int
    least: int
    """Rows in a leaf, at least."""
    pull: float
    """The L2 penalty of leaf values."""
    columns: float
    """Share of the columns that a tree sees."""
    native: bool
    """Whether words are categories, or numbers by the order of their levels."""


def drawn_settings() -> list[Settings | None]:
    """The candidates of all libraries: the library's own settings (None), and 23 drawn from a grid."""
    grid = list(product((0.03, 0.1, 0.3), (2, 4, 6), (1, 5, 20), (0.0, 1.0, 10.0), (0.5, 1.0), (True, False)))
    drawn = np.random.default_rng(0).choice(len(grid), N_SETTINGS - 1, replace=False)
    return [None, *(Settings(*grid[i]) for i in drawn)]


class Rows(NamedTuple):
    """Rows of a set: nominal values as positions among their levels, NaN where missing."""

    X: np.ndarray
    y: np.ndarray
    nominal: np.ndarray

    def at(self, where: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.X[where], self.y[where], self.nominal)


class Booster(NamedTuple):
    """A library's answers, and how they were come by."""

    own: np.ndarray
    """``[rows classes]`` For training rows, by models of the other folds."""
    new: np.ndarray
    """``[instances classes]`` For new rows."""
    settings: Settings | None
    rounds: int | None
    """None: as many as the library takes by itself."""
    seconds: float
    """Of choosing and fitting."""
    answering: float
    """Of `N_ASKED` rows."""


class Fitted(NamedTuple):
    """A fitted model."""

    answer: Callable[[np.ndarray], np.ndarray]
    """Probabilities of all classes, ``[instances classes]``."""
    rounds: int


def as_it_comes(library: str, rows: Rows, X_new: np.ndarray, fold: np.ndarray, seed: int) -> Booster:
    """A library's own settings; words are categories."""
    n_classes, start = int(rows.y.max()) + 1, time.process_time()
    model = fit(library, None, rows, n_classes, seed)
    seconds, own = time.process_time() - start, np.empty((len(rows.y), n_classes))
    for part in range(N_PARTS):
        own[fold == part] = fit(library, None, rows.at(fold != part), n_classes, seed).answer(rows.X[fold == part])
    return Booster(own, model.answer(X_new), None, None, seconds, seconds_of(model.answer, X_new))


def tuned(library: str, rows: Rows, X_new: np.ndarray, fold: np.ndarray, seed: int) -> Booster:
    """The best of 24 settings: all on one fold with early stopping, the best four on the other folds, too."""
    n_classes, start = int(rows.y.max()) + 1, time.process_time()
    held = [(rows.at(fold != part), rows.at(fold == part)) for part in range(N_PARTS)]

    def trial(settings: Settings | None, part: int) -> tuple[np.ndarray, int]:
        model = fit(library, settings, held[part][0], n_classes, seed, held[part][1])
        return model.answer(held[part][1].X), model.rounds

    candidates = drawn_settings()
    if not rows.nominal.any():  # with and without categories are the same model
        candidates = list(dict.fromkeys(one and one._replace(native=False) for one in candidates))
    tried = {settings: [trial(settings, 0)] for settings in candidates}
    finalists = sorted(tried, key=lambda one: loss(tried[one][0][0], held[0][1].y))[:N_FINALISTS]
    answers = {}
    for settings in finalists:
        tried[settings] += [trial(settings, part) for part in range(1, N_PARTS)]
        answers[settings] = np.empty((len(rows.y), n_classes))
        for part, (own, _) in enumerate(tried[settings]):
            answers[settings][fold == part] = own
    best = min(finalists, key=lambda one: loss(answers[one], rows.y))
    rounds = max(1, round(np.mean([n for _, n in tried[best]])))
    model = fit(library, best, rows, n_classes, seed, rounds=rounds)
    seconds = time.process_time() - start
    return Booster(answers[best], model.answer(X_new), best, rounds, seconds, seconds_of(model.answer, X_new))


def loss(probability: np.ndarray, y: np.ndarray) -> float:
    """The log loss by which things are chosen."""
    return float(-np.mean(np.log(np.clip(probability[np.arange(len(y)), y], LEAST, 1))))


def seconds_of(answer: Callable[[np.ndarray], Any], X: np.ndarray) -> float:
    """Processor time of answering `N_ASKED` rows, repeated from these, the second time."""
    asked = np.resize(X, (N_ASKED, X.shape[1]))
    answer(asked)
    start = time.process_time()
    answer(asked)
    return time.process_time() - start


def fit(
    library: str,
    settings: Settings | None,
    rows: Rows,
    n_classes: int,
    seed: int,
    validation: Rows | None = None,
    rounds: int | None = None,
) -> Fitted:
    """Fit a library's classifier: its own rounds, so many rounds, or as many as validation rows want."""
    present = np.unique(rows.y)
    y = np.searchsorted(present, rows.y)
    is_native = rows.nominal if settings is None or settings.native else np.zeros_like(rows.nominal)
    design = partial(_design, library, rows.X, is_native)
    others = None
    if validation is not None:
        seen = np.isin(validation.y, present)  # libraries refuse classes that they were not fitted on
        others = design(validation.X[seen])[0], np.searchsorted(present, validation.y[seen])
        rounds = MOST_ROUNDS
    model, rounds = FITS[library](*design(rows.X), y, settings, seed, rounds, others)

    def answer(X: np.ndarray) -> np.ndarray:
        shares = np.zeros((len(X), n_classes))
        shares[:, present] = model(design(X)[0])
        return np.maximum(shares, 0) / shares.sum(axis=1, keepdims=True)

    return Fitted(answer, rounds)


def _design(library: str, X_fit: np.ndarray, is_native: np.ndarray, X: np.ndarray) -> tuple[Any, np.ndarray]:
    """A table as a library takes it, its words as codes of the levels in the rows of the fit; which columns are words.

    Other words are missing, as NaN is.
    """
    X, words = X.astype(float), is_native.copy()
    if library == "histogram":  # it refuses columns without any value
        is_empty = np.isnan(X_fit).all(axis=0)
        X[:, is_empty], words[is_empty] = 0, False
    for c in np.flatnonzero(words):
        levels = np.unique(X_fit[~np.isnan(X_fit[:, c]), c])
        if library == "histogram" and len(levels) > MOST_LEVELS:
            words[c] = False
        elif len(levels):
            code = np.minimum(np.searchsorted(levels, X[:, c]), len(levels) - 1)
            X[:, c] = np.where(levels[code] == X[:, c], code, np.nan)
    if library != "CatBoost" or not words.any():
        return X, words
    frame = pd.DataFrame(X).astype(object)
    for c in np.flatnonzero(words):
        frame[c] = np.nan_to_num(X[:, c], nan=-1).astype(int)
    return frame, words


def _lightgbm(X, words, y, settings: Settings | None, seed: int, rounds, others):
    from lightgbm import LGBMClassifier, early_stopping

    sizes = {} if rounds is None else {"n_estimators": rounds}
    if settings is not None:
        sizes |= {"learning_rate": settings.rate, "max_depth": settings.depth, "num_leaves": 2**settings.depth}
        sizes |= {
            "min_child_samples": settings.least,
            "reg_lambda": settings.pull,
            "colsample_bytree": settings.columns,
        }
    model = LGBMClassifier(**sizes, n_jobs=1, verbose=-1, random_state=seed)
    extra = {} if others is None else {"eval_set": [others], "callbacks": [early_stopping(PATIENCE, verbose=False)]}
    model.fit(X, y, categorical_feature=np.flatnonzero(words).tolist(), **extra)
    return model.predict_proba, model.best_iteration_ if others else rounds


def _xgboost(X, words, y, settings: Settings | None, seed: int, rounds, others):
    from xgboost import XGBClassifier

    sizes = {} if rounds is None else {"n_estimators": rounds}
    if settings is not None:
        # A row weighs p (1 - p) there, a quarter at most.
        sizes |= {"learning_rate": settings.rate, "max_depth": settings.depth, "min_child_weight": settings.least / 4}
        sizes |= {"reg_lambda": settings.pull, "colsample_bytree": settings.columns}
    stop, extra = ({}, {}) if others is None else ({"early_stopping_rounds": PATIENCE}, {"eval_set": [others]})
    how = {"feature_types": ["c" if is_word else "q" for is_word in words], "enable_categorical": True}
    model = XGBClassifier(**sizes, **stop, **how, n_jobs=1, random_state=seed, tree_method="hist")
    model.fit(X, y, verbose=False, **extra)
    return model.predict_proba, model.best_iteration + 1 if others else rounds


def _catboost(X, words, y, settings: Settings | None, seed: int, rounds, others):
    from catboost import CatBoostClassifier, CatBoostError

    sizes = {} if rounds is None else {"iterations": rounds}
    if settings is not None:
        sizes |= {"learning_rate": settings.rate, "depth": settings.depth}
        sizes |= {"l2_leaf_reg": settings.pull, "rsm": settings.columns}
    stop = {} if others is None else {"early_stopping_rounds": PATIENCE}
    quiet = {"loss_function": "Logloss" if y.max() == 1 else "MultiClass", "verbose": 0, "allow_writing_files": False}
    model = CatBoostClassifier(**sizes, **stop, **quiet, random_seed=seed, thread_count=1)
    data = {"cat_features": np.flatnonzero(words).tolist(), "eval_set": others}
    try:
        model.fit(X, y, **data)
    except CatBoostError:  # it cannot solve for leaf values of some sets without a penalty
        if settings is None or settings.pull:
            raise
        model.set_params(l2_leaf_reg=0.1).fit(X, y, **data)
    return model.predict_proba, model.tree_count_ if others else rounds


def _histogram(X, words, y, settings: Settings | None, seed: int, rounds, others):
    sizes: dict[str, Any] = {} if rounds is None else {"max_iter": rounds}
    if settings is not None:
        sizes |= {"learning_rate": settings.rate, "max_depth": settings.depth, "min_samples_leaf": settings.least}
        sizes |= {"l2_regularization": settings.pull, "max_features": settings.columns}
    stop = {"early_stopping": others is not None, "n_iter_no_change": PATIENCE}
    model = HistGradientBoostingClassifier(**sizes, **stop, categorical_features=words, random_state=seed)
    if others is None:
        model.fit(X, y)
        return model.predict_proba, rounds
    model.fit(X, y, X_val=others[0], y_val=others[1])
    # It keeps the rounds after the best one; the first score is that of no rounds.
    best = max(1, int(np.argmax(model.validation_score_)))
    return lambda X: next(shares for n, shares in enumerate(model.staged_predict_proba(X), 1) if n == best), best


FITS: dict[str, Callable[..., Any]] = dict(zip(LIBRARIES, (_lightgbm, _xgboost, _catboost, _histogram), strict=True))


def calibrated(own: np.ndarray, new: np.ndarray, y: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and new rows, by the best of sixteen calibrators; training rows by a fit on the other folds."""
    best, crossed = best_calibrator(own, y), np.empty_like(own)
    for held in (fold == part for part in range(N_PARTS)):
        crossed[held] = fit_calibrator(best.kind, best.clip, own[~held], y[~held])(own[held])
    return crossed, best(new)


def mixing_weights(members: Sequence[np.ndarray], y: np.ndarray) -> np.ndarray:
    """The weights of an average of probabilities that `jaxunc.learning.stack_combiners` would find."""
    shares = np.stack([np.clip(own[np.arange(len(y)), y], 1e-15, 1) for own in members])
    weights = np.full(len(shares), 1 / len(shares))
    for _ in range(200):
        each = weights[:, None] * shares
        weights = (each / each.sum(axis=0)).sum(axis=1) + PRIOR_ROWS
        weights /= weights.sum()
    return weights

"""Conformal sets of classifiers: do they cover what they promise, and are they as small as those of MAPIE and crepes?

    python -m benchmarks conformal_sets [--data FOLDER] [--sets NAME ...]

A grown-out random forest of 100 trees on the sets of `benchmarks.studies.rules`: at most 2000 rows, two folds of a
five-fold cross-validation. `predict_set(X, coverage=.9)` of the learned pool and of the mean, calibrated by out-of-bag
rows, and of the mean by a quarter of the rows that was held out; MAPIE and crepes by the same quarter.

A cell (`benchmarks.cells`) is a fold of a set.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

import jaxunc as ju
from benchmarks.cells import FoldCell, Study, fold, fold_cells, make_part
from benchmarks.studies.boosted_counts.run import rows_of
from benchmarks.studies.conformal_sets.page import page
from benchmarks.studies.learning.methods import conformal_sets, filled, mapie_sets
from benchmarks.studies.learning.run import Rows
from benchmarks.studies.sets.methods import counted
from benchmarks.studies.sets.run import BY_SIZE, is_sound
from jaxunc.estimators import CombinedForestClassifier

N_FOLDS, N_RUN, N_TREES, HELD_OUT, PROMISE = 5, 2, 100, 0.25, 0.9
TAKES = "35 data sets, two folds each"
RESULTS = Path(__file__).parent


def fitted(X: np.ndarray, y: np.ndarray, seed: int) -> list[tuple[str, CombinedForestClassifier, Any]]:
    """The learned pool and the mean of one forest, and the mean of one held out from: name, model, calibration rows."""
    whole = FrozenEstimator(RandomForestClassifier(N_TREES, random_state=seed).fit(X, y))
    fit, held = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)
    part = FrozenEstimator(RandomForestClassifier(N_TREES, random_state=seed).fit(X[fit], y[fit]))
    return [
        ("learned, oob", CombinedForestClassifier(whole, "learned").fit(X, y), None),
        ("mean, oob", CombinedForestClassifier(whole, "mean").fit(X, y), (X, y)),
        ("mean, held-out", CombinedForestClassifier(part, "mean").fit(), (X[held], y[held])),
    ]


def sets_of(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the sets of all methods ``[rows classes]``; those by class are missing where the library refuses them."""
    found: dict[str, np.ndarray] = {}
    models = fitted(X, y, seed)
    for name, model, calibration in models:
        for by_class in (False, True):
            try:
                how = {"coverage": PROMISE, "by_class": by_class, "calibration": calibration}
                found[name + ", by class" * by_class] = model.predict_set(X_test, **how)
            except ValueError as error:
                if not (by_class and "calibration rows of class" in str(error)):
                    raise
    _, model, (X_held, y_held) = models[-1]
    part = model.estimator_
    shares, own = part.predict_proba(X_test), part.predict_proba(X_held)
    found["MAPIE"] = mapie_sets(part, X_held, y_held, X_test, "lac")
    ways = {"crepes": {}, "crepes, unsmoothed": {"smoothing": False}, "crepes, by class": {"by_class": True}}
    found |= {name: conformal_sets(own, y_held, shares, seed=0, **how) for name, how in ways.items()}
    for name in ("MAPIE", *ways):
        found[f"{name}, completed"] = filled(found[name], shares)
    return found


def run_cell(cell: FoldCell, data: Rows) -> dict:
    """{"sets": {method: counts, as `benchmarks.studies.sets.methods.counted` has them}, "rows": [training, test]}."""
    train, test = fold(data, N_FOLDS, cell.fold)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ju.counting.PureLeavesWarning)
        warnings.filterwarnings("ignore", message=".*rows repeat others")
        found = sets_of(data.X[train], data.y[train], data.X[test], cell.fold)
    sets = {name: counted(members, data.y[test]) for name, members in found.items()}
    return {"sets": sets, "rows": [len(train), len(test)]}


STUDY = Study(str(__doc__), RESULTS, {"main": make_part(BY_SIZE, fold_cells(N_RUN), is_sound, run_cell, rows_of)}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page

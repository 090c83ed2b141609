"""What do leaf counts add to a boosted model? Held-out counts of its leaves against its own probability, and both.

    python -m benchmarks boosted_counts [--data FOLDER] [--sets NAME ...]

Histogram-based gradient boosting with early stopping and scikit-learn's defaults, on the sets of
`benchmarks.studies.rules`: at most 2000 rows, two folds of a five-fold cross-validation. A quarter of the training rows
is held out from boosting. These rows calibrate the model's own probability, are counted in its leaves, and what is
learned is learned from them: each through counts without itself.

A cell (`benchmarks.cells`) is a fold of a set.
"""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import jaxunc as ju
from benchmarks.cells import FoldCell, Study, fold, fold_cells, make_part
from benchmarks.studies.boosted_counts.page import page
from benchmarks.studies.learning.methods import best_calibrator, isotonic, plain_measures
from benchmarks.studies.learning.run import Rows, load_rows
from benchmarks.studies.rules.run import SETS

N_FOLDS, N_RUN, MOST_ROWS, HELD_OUT = 5, 2, 2000, 0.25
TAKES = "35 data sets, two folds each"
RESULTS = Path(__file__).parent


def run_cell(cell: FoldCell, data: Rows) -> dict:
    """{"methods": {method: measures}, "trees": number, "rows": [boosted, held out, classes]}."""
    train, test = fold(data, N_FOLDS, cell.fold)
    X_test, y_test = data.X[test], data.y[test]
    fit, held = train_test_split(train, test_size=HELD_OUT, stratify=data.y[train], random_state=cell.fold)
    X, y = data.X[held], data.y[held]
    model = _boosted(cell, data, fit)
    own_held, own = model.predict_proba(X), model.predict_proba(X_test)
    found = {
        "own": own,
        "own, all rows": _boosted(cell, data, train).predict_proba(X_test),
        "own, isotonic": isotonic(own_held, y)(own),
        "own, calibrated": best_calibrator(own_held, y)(own),
        "own, scaled": blended([own_held], y)([own]),
    }
    trees = ju.from_sklearn_values(model).trees
    forest = ju.count_leaves(trees, X, y)
    known = ju.learning.oob_dataset(forest, X, y, source="leave_one_out")
    pool = ju.learning.fit_combiner(ju.LearnedPool(np.asarray(forest.prior, float)), known).combiner
    rules: dict[str, ju.Combiner] = {"mean of counts": ju.Mean(), "pooling of counts": ju.Pooling()}
    rules |= {"plausibility of counts": ju.Mean(ju.scorers.plausibility)} if forest.n_classes == 2 else {}
    answers = ju.bind(forest, rules | {"learned pool": pool}).probability(X_test)
    found |= {name: np.asarray(shares, float) for name, shares in answers.items()}
    for name, rule in (("mean of counts", ju.Mean()), ("learned pool", pool)):
        without_own = np.asarray(known.answer(rule).probability, float)[: known.n]
        both = blended([own_held, without_own], y)
        found[f"own and {name}"] = both([own, found[name]])
    return {
        "methods": {name: plain_measures(of / of.sum(axis=1, keepdims=True), y_test) for name, of in found.items()},
        "trees": trees.n_trees,
        "rows": [len(fit), len(held), int(data.y.max()) + 1],
    }


def _boosted(cell: FoldCell, data: Rows, rows: np.ndarray) -> HistGradientBoostingClassifier:
    model = HistGradientBoostingClassifier(early_stopping=True, random_state=cell.fold)
    return model.fit(data.X[rows], data.y[rows])


def blended(held: list[np.ndarray], y: np.ndarray):
    """Return softmax(Σ_k a_k log p_k + b) of probabilities p_k, with a and b learned from held-out rows.

    It starts as the first of them, and has the weak prior that calibrators have.
    """
    n_classes = held[0].shape[1]
    features, own, n = _logs(held), np.eye(n_classes)[y], len(y)
    start = np.concatenate([np.eye(len(held))[0], np.zeros(n_classes)])
    strength = np.repeat([1.0, 0.25], [len(held), n_classes])

    def loss(numbers):
        """With its slope."""
        logs = _mixed(features, numbers)
        off, slope = numbers - start, np.exp(logs) - own
        by_scale = np.sum(features * slope, axis=(1, 2))
        value = -np.sum(logs * own) + 0.5 * np.sum(strength * off**2)
        return value / n, (np.concatenate([by_scale, slope.sum(axis=0)]) + strength * off) / n

    numbers = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return lambda given: np.exp(_mixed(_logs(given), numbers))


def _logs(shares: list[np.ndarray]) -> np.ndarray:
    return np.log(np.clip(shares, 1e-4, 1))


def _mixed(features: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return log_softmax(np.tensordot(numbers[: len(features)], features, 1) + numbers[len(features) :], axis=1)


def rows_of(name: str, folder: str | None) -> Rows:
    """The rows of the study of learning, 2000 of them at most."""
    data = load_rows(name, folder)
    if len(data.y) <= MOST_ROWS:
        return data
    kept = np.random.default_rng(0).permutation(len(data.y))[:MOST_ROWS]
    kept = kept[np.bincount(data.y[kept], minlength=data.y.max() + 1)[data.y[kept]] >= N_FOLDS]
    return Rows(data.X[kept], np.unique(data.y[kept], return_inverse=True)[1])


_is_sound = lambda record, _: {"own", "mean of counts", "own and learned pool"} <= set(record["methods"])
STUDY = Study(str(__doc__), RESULTS, {"main": make_part(SETS, fold_cells(N_RUN), _is_sound, run_cell, rows_of)}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page

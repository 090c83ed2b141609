"""Why not a boosted model? The learned pool of a forest beside four libraries' boosters, and mixtures of both.

    python -m benchmarks boosters [--data FOLDER] [--sets NAME ...] [--parts small large]

Boosters as they come and tuned, with the best of sixteen calibrators, on sets that nothing here was developed on; two
of five folds. ``small`` draws below 1000 rows of each set, ``large`` up to 4000 of those that have them. A cell
(`benchmarks.cells`) is a fold of a set in a part.
"""

import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

import jaxunc as ju
from benchmarks.cells import FoldCell, Study, fold, fold_cells, make_part
from benchmarks.data import load
from benchmarks.studies.boosters import methods
from benchmarks.studies.boosters.methods import LIBRARIES, N_PARTS, Booster, LargeCell, Rows, loss, seconds_of
from benchmarks.studies.boosters.page import METHODS, page
from benchmarks.studies.learning.instead import finalists_of
from benchmarks.studies.learning.methods import PLAIN_MEASURES, best_calibrator, plain_measures
from benchmarks.studies.learning.run import N_FOLDS, N_TREES
from jaxunc.counting import even_out_trees
from jaxunc.learning import OobDataset

N_RUN, BELOW = 2, 1000
TAKES = "20 data sets, 40 cells of half a minute to ten minutes; 11 larger ones, 22 cells of up to twenty"
RESULTS = Path(__file__).parent


def rows_of(name: str, folder: str | None = None, most_rows: int = BELOW - 1) -> Rows:
    """At most so many rows, the first of one order, of classes with five rows at least; columns that vary."""
    data = load(name, folder)
    drawn = np.random.default_rng(0).permutation(len(data.y))[:most_rows]
    X, y = data.X[drawn].astype(np.float32), data.y[drawn]
    enough = np.bincount(y)[y] >= N_FOLDS
    X, y = X[enough], np.unique(y[enough], return_inverse=True)[1]
    varying = np.array([len(np.unique(column)) > 1 for column in X.T])
    return Rows(X[:, varying], y, data.nominal[varying])


def run_cell(cell: FoldCell | LargeCell, data: Rows) -> dict:
    """{"methods": {method: measures}, "seconds": {what: [fitting, answering]}, "chosen", "rows", "error", "all"}."""
    start = time.process_time()
    train, test = fold(data, N_FOLDS, cell.fold)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        record = _run(data.at(train), data.at(test), cell.fold)
    return {**record, "all": round(time.process_time() - start, 1)}


def _run(rows: Rows, new: Rows, seed: int) -> dict:
    (X, y, _), X_new = rows, new.X
    found, seconds, chosen, own = {}, {}, {}, {}
    start = time.process_time()
    forest = RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    grown = time.process_time() - start
    found["mean"] = forest.predict_proba(X_new)
    seconds["mean"] = (grown, seconds_of(forest.predict_proba, X_new))
    known = ju.learning.oob_dataset(forest, X, y, counts="both")
    parts = np.empty(len(y), int)
    for part, (_, held) in enumerate(StratifiedKFold(N_PARTS, shuffle=True, random_state=seed).split(X, y)):
        parts[held] = part
    _, first, copies = np.unique(np.nan_to_num(X, nan=-1e30), axis=0, return_index=True, return_inverse=True)
    parts = parts[first[copies]]  # copies of a row are in one fold
    seen = known_out_of_bag(forest, X, y)
    mean = np.asarray(known.answer(ju.Mean()).probability, float)
    found["mean, P"] = best_calibrator(mean, y[seen])(found["mean"])
    found["pool"], pool_own, time_of_pool = _pool(known, X_new, parts[seen])
    seconds["pool"] = (time_of_pool[0] + grown, time_of_pool[1])
    start = time.process_time()
    best_forest = min(finalists_of(X, y, seed), key=lambda one: loss(one.own, y))
    tuning = time.process_time() - start
    found["tuned mean, P"] = best_calibrator(best_forest.own, y)(np.asarray(best_forest.model.predict_proba(X_new)))
    known_tuned = ju.learning.oob_dataset(best_forest.model, X, y, counts="both")
    found["tuned pool"], _, time_of_pool = _pool(known_tuned, X_new, None)
    seconds["tuned pool"] = (time_of_pool[0] + tuning, time_of_pool[1])
    for library in LIBRARIES:
        for name, make in ((library, methods.as_it_comes), (f"{library}, tuned", methods.tuned)):
            model: Booster = make(library, rows, X_new, parts, seed)
            found[name], seconds[name] = model.new, (model.seconds, model.answering)
            own[f"{name}, P"], found[f"{name}, P"] = methods.calibrated(model.own, model.new, y, parts)
            chosen[name] = [model.settings, model.rounds]
    best = min((f"{library}, tuned, P" for library in LIBRARIES), key=lambda name: loss(own[name], y))
    found["best booster"], chosen["best booster"] = found[best], best
    for name, booster in (("best booster", best), ("CatBoost", "CatBoost, P")):
        weights = methods.mixing_weights([pool_own, own[booster][seen]], y[seen])
        chosen[f"pool's weight with {name}"] = round(float(weights[0]), 4)
        found[f"pool and {name}"] = weights[0] * found["pool"] + weights[1] * found[booster]
        found[f"half pool, half {name}"] = (found["pool"] + found[booster]) / 2
    shares = {name: found[name] / found[name].sum(axis=1, keepdims=True) for name in METHODS}
    return {
        "methods": {name: plain_measures(of, new.y) for name, of in shares.items()},
        "seconds": {name: [round(value, 4) for value in of] for name, of in seconds.items()},
        "chosen": chosen,
        "rows": [len(y), int(y.max()) + 1, X.shape[1], round(float(rows.nominal.mean()), 3)],
        "error": round(float(np.mean(mean.argmax(axis=1) != y[seen])), 4),
    }


def known_out_of_bag(forest: RandomForestClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which rows `oob_dataset` keeps: where a row has many copies, one of them is in each bag."""
    out_of_bag = ju.counting.oob_mask(forest, len(y), X=X, y=y)
    return even_out_trees(out_of_bag, y, int(y.max()) + 1).any(axis=1)


def _pool(known: OobDataset, X_new, parts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """The learned pool for new rows, and for training rows by numbers of the other folds; its seconds."""
    start = time.process_time()
    pool = ju.learning.fit_combiner(ju.LearnedPool(known.prior, reads=known.count_sets), known).combiner
    learning = time.process_time() - start
    bound = known.bind(pool, threads=1)
    answer = lambda X: np.asarray(bound.probability(X), float)
    own = np.zeros((known.n, len(known.prior)))
    for part in [] if parts is None else range(N_PARTS):
        others = known.with_weight(np.where(parts == part, 0.0, 1.0))
        crossed = ju.learning.fit_combiner(ju.LearnedPool(known.prior, reads=known.count_sets), others, start=pool)
        own[parts == part] = np.asarray(known.answer(crossed.combiner).probability, float)[parts == part]
    return answer(X_new), own, (learning, seconds_of(answer, X_new))


def _is_sound(record: dict, cell: FoldCell | LargeCell) -> bool:
    widths = {len(record["methods"][name]) for name in METHODS}
    return widths == {len(PLAIN_MEASURES)} and record["rows"][1] > 1 and record["all"] > 0


_large = lambda name: [LargeCell(name, number) for number in range(N_RUN)]
_many_rows = partial(rows_of, most_rows=methods.MOST_ROWS)
PARTS = {
    "small": make_part(methods.SETS, fold_cells(N_RUN), _is_sound, run_cell, rows_of, "small"),
    "large": make_part(methods.LARGE_SETS, _large, _is_sound, run_cell, _many_rows, "large"),
}
STUDY = Study(str(__doc__), RESULTS, PARTS, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page

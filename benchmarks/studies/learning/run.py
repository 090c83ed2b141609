"""What learning the combination brings: learned rules against calibrators, fixed rules and other models.

    python -m benchmarks learning [--data FOLDER] [--sets NAME ...] [--parts grown-out leaves-of-four ...]

Forests of 200 trees, five-fold cross-validation of at most 4000 rows; everything is learned on training rows. Parts:

* ``other-sets``: grown-out random forests on the sets that nothing here was developed on, two folds;
* ``development``: the same on the sets that it was; its cells have log loss by both clips, which those of the other
  parts on these sets, being older, lack;
* ``instead``: on the sets and folds of these two, what users would do instead of learning the combination;
* ``shrinkage``: on the same, hierarchical shrinkage;
* ``grown-out``: random forests on the sets of development, all five folds, with other models and further rules;
* ``leaves-of-four``, ``extra-trees`` (bootstrapped), ``whole-sample`` (extra-trees without bootstrap, cross-fitted) and
  ``random-trees`` (random decision trees, rows leave their own label out), of which one fold is run;
* ``noise``: what the pool's share of noisy labels costs and saves, on twelve sets, two folds.

A cell (`benchmarks.cells`) is a fold of a set in a part.
"""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

import jaxunc as ju
from benchmarks.cells import PartCell as Cell
from benchmarks.cells import Study, fold, make_part
from benchmarks.data import Rows, load
from benchmarks.studies.learning import methods
from benchmarks.studies.learning.further import NOISE, NOISE_SETS, SHRINKAGE, fit_leaf_counts, run_noise, run_shrinkage
from benchmarks.studies.learning.instead import INSTEAD, run_instead
from benchmarks.studies.learning.page import PICTURE, draw_gain, page
from benchmarks.studies.rules.run import SETS, table
from jaxunc.combiners import combiner_by_name
from jaxunc.learning import OobDataset

N_TREES, N_FOLDS, MOST_ROWS = 200, 5, 4000
PARTS = {"grown-out": 5, "leaves-of-four": 1, "extra-trees": 1, "whole-sample": 1, "random-trees": 1, "other-sets": 2,
         "development": 2, "instead": 2, "shrinkage": 2, "noise": 2}  # fmt: skip
"""The parts of the study, and how many of the five folds are run."""
WITH_PEERS, N_PEER_FOLDS = "grown-out", 2
"""The part, and of it the folds, on which other models, and the learned rules that lose, are run too."""
STRENGTHS = (0.5, 1, 2, 3, 5, 8, 12, 20, 40, 80)
"""Values of s that sets are learned from."""
OTHER_SETS = (
    "airlines", "anneal", "arrhythmia", "audiology", "bankLoan", "electricity", "flags", "forest-type", "iris",
    "letter", "lymph", "mushroom", "new-thyroid", "nursery", "optdigits", "page-blocks", "pendigits", "phishing",
    "scene", "seeds", "skin", "soybean", "splice", "tae", "webdata", "wine-quality-red",
)  # fmt: skip
"""Every further set of 140 rows at least that shares no rows with one of `SETS`."""
MOST_PAIRED = 10
"""Classes up to which a cautious forest compares all pairs."""
FIXED = ("laplace", "m-estimate", "pooling", "evidence", "vote")
FIXED_BINARY = ("plausibility", "plausibility-p", "confidence", "epistemic", "beta", "dempster", "dempster-p")
TAKES = "61 data sets, 705 folds"
RESULTS = Path(__file__).parent


def load_rows(name: str, folder: str | None) -> Rows:
    """At most 4000 rows of classes with five rows at least."""
    data = table(load(name, folder))
    X, y = np.asarray(data.X, np.float32), np.asarray(data.y)
    if len(y) > MOST_ROWS:
        kept = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        X, y = X[kept], y[kept]
    enough = np.bincount(y)[y] >= N_FOLDS
    return Rows(X[enough], np.unique(y[enough], return_inverse=True)[1])


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"methods": {method: measures}, "sets": {method: utilities}, "seconds": {what: seconds}}."""
    train, test = fold(data, N_FOLDS, cell.fold)
    X, y, X_test, y_test = data.X[train], data.y[train], data.X[test], data.y[test]
    if cell.part == "instead":
        return run_instead(X, y, X_test, y_test, cell.fold)
    if cell.part == "shrinkage":
        return run_shrinkage(_model(cell.part, cell.fold).fit(X, y), X, y, X_test, y_test)
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    forest, rows_of = _forest(cell, X, y)
    seconds["grow"] = time.perf_counter() - start
    if cell.part == "noise":
        return run_noise(rows_of, X_test, y_test)
    rows, seconds["rows"] = _timed(lambda: rows_of("inbag"))
    wide = rows
    if cell.part not in ("whole-sample", "random-trees"):
        wide, seconds["rows, both"] = _timed(lambda: rows_of("both"))
    own_y = np.asarray(rows.y)[: rows.n]
    own_mean = np.asarray(rows.answer(ju.Mean()).probability, float)

    def probability(rule) -> np.ndarray:
        target = forest if rule.count_sets == ("own",) else wide.forest
        return np.asarray(ju.bind(target, rule).probability(X_test), float)

    found: dict[str, np.ndarray] = {"mean": probability(ju.Mean())}
    calibrator, seconds["calibrate"] = _timed(lambda: methods.best_calibrator(own_mean, own_y))
    found["P"] = calibrator(found["mean"])
    found["isotonic"] = methods.isotonic(own_mean, own_y)(found["mean"])
    found["fixed"] = probability(_best_fixed(rows, forest))
    for name, rule in _learned(forest, wide, cell).items():
        fitted, seconds[name] = _timed(lambda rule=rule: ju.learning.fit_combiner(rule, wide).combiner)
        found[name] = probability(fitted)
    blended, seconds["blend"] = _timed(lambda: ju.learning.stack_combiners(wide.default_candidates(), wide))
    found["blend"] = probability(blended.combiner)
    chosen = min(blended.losses, key=lambda name: blended.losses[name])  # as select_combiner does
    found["selected"] = probability(blended.combiner.rules[chosen])
    if cell.part == WITH_PEERS and cell.fold == 0:
        found |= _by_tree_and_leaf(rows, forest, X_test, seconds)
    if cell.part == WITH_PEERS and cell.fold < N_PEER_FOLDS:
        found |= _peers(cell, X, y, X_test, seconds)
    sets = {name: methods.set_utilities(found[name], y_test) for name in ("mean", "P", "pool", "selected", "blend")}
    sets |= _sets(rows, own_mean, own_y, forest, found["mean"], X_test, y_test)
    return {
        "methods": {name: methods.measures(probs, y_test) for name, probs in found.items()},
        "sets": sets,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "rows": [len(y), int(data.y.max()) + 1],
    }


def _timed(make):
    start = time.perf_counter()
    made = make()
    return made, time.perf_counter() - start


def _forest(cell: Cell, X, y):
    """(forest, what makes out-of-sample rows of a kind of counts)."""
    if cell.part == "random-trees":
        # Random decision trees take no missing values here: a value below all others.
        whole = np.where(np.isnan(X), np.nanmin(X, axis=0) - 1, X).astype(np.float32)
        forest = ju.grow_random_trees(jax.random.key(cell.fold), whole, y, n_trees=N_TREES, min_samples_leaf=4)
        return forest, lambda counts: ju.learning.oob_dataset(forest, whole, y)
    model = _model(cell.part, cell.fold).fit(X, y)
    source: Any = "cross_fit" if cell.part == "whole-sample" else "oob"
    return ju.from_sklearn(model), lambda counts: ju.learning.oob_dataset(model, X, y, source=source, counts=counts)


def _model(part: str, fold: int):
    if part in ("extra-trees", "whole-sample"):
        return ExtraTreesClassifier(N_TREES, bootstrap=part == "extra-trees", random_state=fold)
    return RandomForestClassifier(N_TREES, min_samples_leaf=4 if part == "leaves-of-four" else 1, random_state=fold)


def _learned(forest: ju.Forest, rows: OobDataset, cell: Cell) -> dict[str, ju.Combiner]:
    prior = np.asarray(forest.prior, float)
    pool = {"pool": ju.LearnedPool(prior, reads=rows.count_sets)}
    if cell.part != WITH_PEERS or cell.fold >= N_PEER_FOLDS:
        return pool
    ones, zeros = np.ones(len(prior)), np.zeros(len(prior))
    m_estimate = lambda: ju.Mean(Partial(ju.scorers.m_estimate, m=1.0, prior=prior))
    evidence = ju.EvidenceAccumulation(prior, smoothing=1.0)
    return pool | {
        "m alone": m_estimate(),
        "m, scale, bias": ju.Calibrated(m_estimate(), scale=ones, bias=zeros),
        "evidence, scale, bias": ju.Calibrated(evidence, scale=1.0 / N_TREES * ones, bias=zeros, clip=0.0),
        "temperature": ju.Calibrated(ju.Mean(), clip=1e-3),
        "pool, in-bag": ju.LearnedPool(prior),
    }


def _best_fixed(rows: OobDataset, forest: ju.Forest) -> ju.Combiner:
    """The rule without learned numbers that does best on the out-of-sample rows."""
    names = ("probability", *FIXED, *(FIXED_BINARY if forest.n_classes == 2 else ()))
    rules = {name: combiner_by_name(name, prior=forest.prior, n_samples=forest.n_samples) for name in names}
    return min(rules.values(), key=lambda rule: ju.learning.loss_on(rule, rows))


def _by_tree_and_leaf(rows: OobDataset, forest: ju.Forest, X_test, seconds) -> dict[str, np.ndarray]:
    """Numbers per tree, and per leaf."""
    n_classes = forest.n_classes
    weighted = ju.Weighted(ju.Mean(), np.ones(forest.n_trees))
    rule = ju.Calibrated(weighted, scale=np.ones(n_classes), bias=np.zeros(n_classes), clip=1e-3)
    fitted, seconds["tree weights"] = _timed(lambda: ju.learning.fit_combiner(rule, rows, validation=0.2, n_steps=40))
    leaves, seconds["leaf counts"] = _timed(lambda: fit_leaf_counts(rows, n_steps=40))
    return {
        "tree weights": np.asarray(ju.bind(forest, fitted.combiner).probability(X_test), float),
        "leaf counts": np.asarray(ju.bind(leaves, ju.Mean()).probability(X_test), float),
    }


def _peers(cell: Cell, X, y, X_test, seconds) -> dict[str, np.ndarray]:
    """Models that people use for the same end."""
    cv = min(5, np.bincount(y).min())
    calibrated = lambda method: CalibratedClassifierCV(_model(cell.part, cell.fold), method=method, cv=cv)
    models = {
        "CalibratedClassifierCV, sigmoid": calibrated("sigmoid"),
        "CalibratedClassifierCV, isotonic": calibrated("isotonic"),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=cell.fold),
    }
    found = {}
    for name, model in models.items():
        _, seconds[name] = _timed(lambda model=model: model.fit(X, y))
        found[name] = model.predict_proba(X_test)
    return found


def _sets(rows: OobDataset, own_mean, own_y, forest, mean, X_test, y_test) -> dict[str, list[float]]:
    """Sets that are not made of probabilities and a utility: cautious forests with a learned s, conformal ones."""
    conformal = methods.filled(methods.conformal_sets(own_mean, own_y, mean, seed=0), mean)
    found = {"conformal 90 %": methods.set_utilities(conformal, y_test)}
    if forest.n_classes > 2:  # of two classes these are the same sets
        found["conformal 90 %, adaptive"] = methods.set_utilities(methods.adaptive_sets(own_mean, own_y, mean), y_test)
    if forest.n_classes > MOST_PAIRED:
        return found
    sets = {s: ju.decisions.nondominated(rows.answer(ju.GeneralizedVote(s))) for s in STRENGTHS}
    utilities = {s: methods.set_utilities(np.asarray(members), own_y) for s, members in sets.items()}
    for i, kind in enumerate(("u65", "u80")):
        best = max(STRENGTHS, key=lambda s: utilities[s][i])
        members = ju.decisions.nondominated(ju.bind(forest, ju.GeneralizedVote(best))(X_test))
        found[f"cautious forest, s for {kind}"] = methods.set_utilities(np.asarray(members), y_test)
    return found


def sets_of(part: str) -> tuple[str, ...]:
    """The names of the sets that a part is run on."""
    both = OTHER_SETS + SETS
    return {"other-sets": OTHER_SETS, "instead": both, "shrinkage": both, "noise": NOISE_SETS}.get(part, SETS)


def _is_sound(record: dict, cell: Cell) -> bool:
    usual = {"mean", "P", "isotonic", "pool", "selected"}
    needed = {"instead": INSTEAD, "shrinkage": SHRINKAGE, "noise": NOISE}.get(cell.part, usual)
    return set(needed) <= set(record["methods"])


_cells = lambda part: lambda name: [Cell(part, name, number) for number in range(PARTS[part])]
_parts = {name: make_part(sets_of(name), _cells(name), _is_sound, run_cell, load_rows) for name in PARTS}
STUDY = Study(str(__doc__), RESULTS, _parts, page)
kept, options, run = STUDY.kept, STUDY.options, STUDY.run


def write_page(out: Path) -> None:
    """The page of everything that has been run, and its picture."""
    STUDY.write_page(out)
    draw_gain(kept(out), out / PICTURE)

"""Weights are repeats: a row of weight 0 is as left out, and one of weight 2 is as two, whatever is made of rows.

Growing is random, and its bags hold positions, so what can be compared exactly is not all:

* ``what a row of weight 0 holds``: another target or label there changes no bit, in any mode, bags and all.
* ``left out``: no bit, where rows of weight 0 are taken away before anything is drawn; of frozen forests, to rounding.
* ``repeated``: to rounding, where the structure is given (a frozen forest) or grown without chance (a tree). Rows and
  their repetitions are of one group, so that parts and folds are drawn alike. Out of bag nothing can be compared:
  repeated rows are other positions, and so are their bags.
* ``next to nothing``: weights of 1e-12 are 0 up to what can be seen, where leaves hold other rows, too.

``JAXUNC_TEST_SEED`` draws other rows and weights.
"""

import os
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import jaxunc as ju
from jaxunc import estimators
from jaxunc.counting import TooFewUnseenError
from jaxunc.decisions import Calibration
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, UncertainForestRegressor
from jaxunc.estimators._forest_rows import in_bags
from jaxunc.learning import oob_dataset, select_combiner, stack_combiners
from jaxunc.regression import LAWS, LeafMoments, Moments, check_law, fit_law, target_bins
from tests._refusal import refusals

pytestmark = pytest.mark.room

SEED = int(os.environ.get("JAXUNC_TEST_SEED", "0"))
N = 150
KINDS = {
    "zero": lambda rng: (rng.random(N) < 0.7).astype(float),
    "integers": lambda rng: rng.integers(0, 4, N).astype(float),
    "huge": lambda rng: np.where(rng.random(N) < 0.03, 500.0, 1.0),
}
"""Weights of rows, all of them numbers of repetitions."""
SAME = {"rtol": 2e-5, "atol": 2e-6}
EXACT = {"rtol": 1e-9, "atol": 1e-12}


def drawn(kind: str = "zero") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    y = X[:, 0] + 0.5 * rng.normal(size=N)
    y[:20] = 0.25  # an atom
    return X, y, (y > 0.3).astype(int), KINDS[kind](rng)


NEW = np.random.default_rng(99).normal(size=(40, 3)).astype(np.float32)
GROWN_ON = np.random.default_rng(98).normal(size=(400, 3)).astype(np.float32)
GROWN_FOR = GROWN_ON[:, 0] + 0.5 * np.random.default_rng(97).normal(size=400)


def fit(estimator: Any, *data: Any, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies, few rows and the like, which are tested elsewhere
        return estimator.fit(*data, **how)


def answers(model: Any) -> dict[str, np.ndarray]:
    if isinstance(model, UncertainForestRegressor):
        quantiles, moments = model.predict(NEW, quantiles=[0.1, 0.5, 0.9]), np.array(model.moments_.answer(NEW))
        found = {"quantiles": quantiles, "moments": moments, "law": np.array(model.law_[:3])}
        return found | {"edges": model.bins_.edges, "table": model.bins_.table}
    found = {"probability": model.predict_proba(NEW)}
    if hasattr(model, "forest_"):
        found["prior"] = np.asarray(model.forest_.prior)
    if hasattr(model, "calibration_"):
        found["sets"] = model.predict_set(NEW, coverage=0.7)
    if hasattr(model, "oob_score_"):
        found["score"] = np.array(model.oob_score_)
    return found


def check_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], **tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], err_msg=name, **tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.once
def test_bins_of_weights(kind):
    _, y, _, weight = drawn(kind)
    found = target_bins(y, 12, sample_weight=weight)
    shares = target_bins(y, 12, sample_weight=np.full(N, 1 / N))  # which cannot be numbers of rows
    for weighed, rows in ((found, np.repeat(y, weight.astype(int))), (shares, y)):
        for part, other in zip(weighed[:3], target_bins(rows, 12)[:3], strict=True):
            np.testing.assert_allclose(part, other, **EXACT)
    far = np.where(weight > 0, y, 1e3)
    for least, tolerance in ((0.0, 0.0), (1e-12, 1e-6)):
        weighed = target_bins(far, 12, sample_weight=np.where(weight > 0, weight, least))
        for part, other in zip(weighed[:3], found[:3], strict=True):
            np.testing.assert_allclose(part, other, atol=tolerance, rtol=0)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.once
def test_laws_of_weights(law, kind):
    _, y, _, weight = drawn(kind)
    rng = np.random.default_rng(SEED + 1)
    moments = Moments(y + rng.normal(size=N), rng.uniform(0.1, 1, N), rng.uniform(0, 0.3, N))
    leaves = lambda rows: lambda levels: y[rows][:, None] + np.array(levels) - 0.5
    of = lambda rows: (Moments(*(part[rows] for part in moments)), y[rows], leaves(rows), 1.0)
    every, levels = np.arange(N), np.array([0.05, 0.3, 0.5, 0.95])
    found = fit_law(law, *of(every), sample_weight=weight)
    expected = fit_law(law, *of(np.repeat(every, weight.astype(int))))
    np.testing.assert_allclose(found[:3], expected[:3], rtol=1e-9)
    own = np.zeros((N, 4))
    np.testing.assert_allclose(*(one.quantile(moments, levels, own) for one in (found, expected)), **EXACT)
    y[weight == 0] = 1e6
    little = fit_law(law, *of(every), sample_weight=np.where(weight > 0, weight, 1e-12))
    # The mean square of what is 1e6 apart is a twelfth of nothing.
    np.testing.assert_allclose(*(one.quantile(moments, levels, own) for one in (little, found)), atol=0.05, rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.once
def test_ranks_of_weights(kind, by_class):
    _, _, label, weight = drawn(kind)
    p = np.random.default_rng(SEED).dirichlet([1, 1], N)
    rows = np.repeat(np.arange(N), weight.astype(int))
    weighed = Calibration(Calibration.kept(p, label, weight=weight))
    repeated = Calibration(Calibration.kept(p[rows], label[rows]))
    for coverage in (0.5, 0.83, 0.9):
        found, expected = (one.least(coverage, by_class, [0, 1]) for one in (weighed, repeated))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_weights(kind):
    X, y, _, weight = drawn(kind)
    forest = RandomForestRegressor(5, max_leaf_nodes=8, random_state=0).fit(GROWN_ON, GROWN_FOR)
    rows = np.repeat(np.arange(N), weight.astype(int))
    expected = LeafMoments(forest, X[rows], y[rows])
    found = LeafMoments(forest, X, np.where(weight > 0, y, 1e6), weight=weight)
    np.testing.assert_allclose(np.array(found.answer(NEW)), np.array(expected.answer(NEW)), **SAME)
    assert found.spread == pytest.approx(expected.spread)
    if kind == "zero":  # a tree grown with weights of 1e-12 has leaves of such rows alone, which have no spread
        y[weight == 0], tree = 1e3, DecisionTreeRegressor(min_samples_leaf=3, random_state=0)
        little = LeafMoments(tree.fit(X, y, np.where(weight > 0, 1, 1e-12))).spread
        assert little < 2 * LeafMoments(tree.fit(X[weight > 0], y[weight > 0])).spread


# Estimators, mode by mode.

SHAPE: dict[str, Any] = {"max_leaf_nodes": 8, "random_state": 0}
TREE, WEIGHED_TREE = (DecisionTreeClassifier(max_leaf_nodes=6, class_weight=w) for w in (None, {0: 1, 1: 3}))
SEEDED = DecisionTreeClassifier(max_leaf_nodes=6, random_state=0)
REGRESSORS = {
    "forest": RandomForestRegressor(5, **SHAPE),
    "tree": DecisionTreeRegressor(max_leaf_nodes=6, random_state=0),
    "tree of absolute errors": DecisionTreeRegressor(max_leaf_nodes=6, criterion="absolute_error"),
    "frozen": RandomForestRegressor(5, min_samples_leaf=40, **SHAPE),
}
CLASSIFIERS = {
    "forest": RandomForestClassifier(8, **SHAPE),
    "balanced forest": RandomForestClassifier(8, class_weight="balanced", **SHAPE),
    "tree": SEEDED,
    "bag": BaggingClassifier(TREE, 8, random_state=0),
    "weighted bag": BaggingClassifier(WEIGHED_TREE, 8, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), SEEDED),
    "frozen": RandomForestClassifier(8, min_samples_leaf=40, **SHAPE),
}
BAGS = ("forest", "bag", "weighted bag")  # those of balanced forests hold most rows of a class


def regressor(name: str, law: str, counts: str) -> Any:
    model = clone(REGRESSORS[name])
    model = FrozenEstimator(model.fit(GROWN_ON, GROWN_FOR)) if name == "frozen" else model
    return UncertainForestRegressor(model, law=law, counts=counts, n_bins=6, random_state=0)


def classifier(name: str, kind: str, counts: str) -> Any:
    model = clone(CLASSIFIERS[name])
    model = FrozenEstimator(model.fit(GROWN_ON, GROWN_FOR > 0.3)) if name == "frozen" else model
    if kind == "cautious":
        return CautiousForestClassifier(model, counts=counts, random_state=0)
    return CombinedForestClassifier(model, kind, counts=counts, random_state=0)


MODES = [
    ("numbers", name, law, counts)
    for name in REGRESSORS
    for law in LAWS
    for counts in ("oob", "held_out", "cross_fit")
    if (counts != "oob" or name == "forest") and (counts != "cross_fit" or name != "frozen")
]
MODES += [
    ("classes", name, kind, counts)
    for name in CLASSIFIERS
    for kind in ("mean", "evidence", "cautious")
    for counts in ("inbag", "train", "oob", "held_out")
    if (counts != "oob" or name in BAGS) and (counts != "inbag" or name != "frozen")
]
OTHERS = {
    "random trees": estimators.RandomDecisionTreesClassifier(4, random_state=0),
    "transduction": estimators.TransductiveClassifier(GaussianNB()),
}
# A tree is grown alike from repeated rows, and a frozen forest not at all; parts are drawn by the classes of rows.
GIVEN = [
    (what, name, kind, counts)
    for what, name, kind, counts in MODES
    if name == "frozen" or (name == "tree" and (what, counts) != ("classes", "held_out"))
]
DROPPED = [mode for mode in MODES if mode[3] in ("held_out", "cross_fit") and mode[1] != "frozen"]
# The learned law reads bins that are counted in folds, which are drawn of all rows.
FROZEN = [mode for mode in GIVEN if mode[1] == "frozen" and mode[2] != "learned"]


def fits(mode: tuple[str, str, str, str], kind: str = "zero") -> Any:
    """A function that answers by an estimator of this mode; rows, targets, the same but at weight 0, and weights."""
    X, *targets, weight = drawn(kind)
    what, *rest = mode
    is_number = what == "numbers"
    estimator, y = (regressor(*rest), targets[0]) if is_number else (classifier(*rest), targets[1])
    other = np.where(weight > 0, y, 1e3 if is_number else 1 - y)
    return lambda *data, **how: answers(fit(estimator, *data, **how)), X, y, other, weight


@pytest.mark.parametrize("mode", MODES, ids=", ".join)
@pytest.mark.exhaustive(keep=10)
def test_what_a_row_of_weight_0_holds_and_that_it_is_left_out(mode):
    ask, X, y, other, weight = fits(mode, "integers")
    found, there = ask(X, y, weight), weight > 0
    check_same(ask(X, other, weight), found, rtol=0, atol=0)
    if mode in DROPPED:
        check_same(ask(X[there], y[there], weight[there]), found, rtol=0, atol=0)
    if mode in FROZEN:
        check_same(ask(X, other, np.where(there, weight, 1e-12)), found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", GIVEN, ids=", ".join)
@pytest.mark.exhaustive(keep=6)
def test_a_row_of_weight_2_is_two(mode, kind):
    ask, X, y, _, weight = fits(mode, kind)
    rows = np.repeat(np.arange(N), weight.astype(int))
    check_same(ask(X, y, weight, groups=np.arange(N)), ask(X[rows], y[rows], groups=rows), **SAME)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.exhaustive(keep=1)
def test_what_a_row_of_weight_0_holds_without_counts(name):
    X, _, y, weight = drawn()
    there, ask = weight > 0, lambda *data, **how: answers(fit(clone(OTHERS[name]), *data, **how))
    found = ask(X, np.where(there, y, 1 - y), sample_weight=weight)
    check_same(found, ask(X, y, sample_weight=weight), rtol=0, atol=0)
    check_same(found, ask(X[there], y[there]), **SAME)
    check_same(found, ask(X, np.where(there, y, 2), sample_weight=weight), rtol=0, atol=0)  # a class without weight


# Bags that are drawn by weight, since scikit-learn 1.9, and bags that are weighed.


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.once
def test_rows_of_bags_count_by_their_weights(bootstrap):
    weight, y = np.repeat([0.1, 1.0], 100), np.arange(200.0)
    bag = BaggingRegressor(
        DecisionTreeRegressor(max_depth=1), 100, bootstrap=bootstrap, max_samples=100, random_state=0
    )
    times, counted = in_bags(fit(bag, y[:, None], y, weight), 200, weight)
    light, heavy = ((times > 0) * np.asarray(counted)[:, None]).reshape(2, -1).sum(axis=1)
    assert heavy / light == pytest.approx(10, rel=0.08)


@pytest.mark.once
def test_one_bag_that_weighs_as_many_as_it_has():
    weight, bags = np.array([1.5, 0.5, 1.0]), [[0, 1, 2], [0, 0, 2]]
    times = np.stack([np.bincount(bag, minlength=3) for bag in bags], axis=1)
    trees = [DecisionTreeRegressor().fit(np.eye(3), weight, number * weight) for number in times.T]
    found, counted = in_bags(SimpleNamespace(estimators_samples_=bags, estimators_=trees), 3, weight)
    np.testing.assert_array_equal(found, times * weight[:, None])
    np.testing.assert_array_equal(counted, weight)


# What is learned.


@pytest.mark.parametrize("source", ["held_out", "leave_one_out", "cross_fit"])
@pytest.mark.exhaustive(keep=1)
def test_rows_of_weight_0_are_not_learned_from(source):
    """Rows, losses and folds; to rounding, as other numbers of rows are padded to other shapes."""
    X, _, y, weight = drawn("integers")
    there = weight > 0
    model: Any = RandomForestClassifier(8, max_leaf_nodes=8, random_state=0).fit(GROWN_ON, GROWN_FOR > 0.3)
    if source == "leave_one_out":
        model = ju.count_leaves(ju.from_sklearn(model), X, y.astype(bool), sample_weight=weight)
    odd = np.where(there, y, 1 - y).astype(bool)
    rows = oob_dataset(model, X, odd, source=source, sample_weight=weight)
    left = oob_dataset(model, X[there], y[there].astype(bool), source=source, sample_weight=weight[there])
    assert len(rows) == len(left) == there.sum()
    kept = left.with_weight(np.where(np.arange(len(left)) < 90, 1, 0))
    candidates = {"smooth": ju.Calibrated(ju.Mean(), scale=1.0, bias=np.zeros(2)), "pool": ju.LearnedPool(left.prior)}
    for learn in (select_combiner, stack_combiners):
        found, expected = (learn(candidates, one, n_folds=2).losses for one in (rows, left))
        assert found == pytest.approx(expected, rel=1e-4)
    assert select_combiner(candidates, kept, n_folds=2).losses["smooth"] > 0


# What weighed the growing weighs the counting.

WEIGHTS_OF_CLASSES = {"by label": {0: 1.0, 1: 4.0}, "balanced": "balanced", "balanced_subsample": "balanced_subsample"}
OF_5: dict[str, Any] = {"max_leaf_nodes": 5, "random_state": 0}
WEIGHED = {
    "random forest": lambda w: RandomForestClassifier(30, class_weight=w, **OF_5),
    "extra trees": lambda w: ExtraTreesClassifier(10, class_weight=w, **OF_5),
    "extra trees with bags": lambda w: ExtraTreesClassifier(30, class_weight=w, bootstrap=True, **OF_5),
    "tree": lambda w: DecisionTreeClassifier(class_weight=w, **OF_5),
    "bag": lambda w: BaggingClassifier(DecisionTreeClassifier(max_leaf_nodes=5, class_weight=w), 30, random_state=0),
    "pipeline": lambda w: make_pipeline(StandardScaler(), WEIGHED["random forest"](w)),
    "pipeline of a bag": lambda w: make_pipeline(StandardScaler(), WEIGHED["bag"](w)),
}
BALANCES_BAGS = ("random forest", "extra trees", "extra trees with bags", "pipeline")
CELLS = [
    (name, weights, counts, frozen, weighted)
    for name in WEIGHED
    for weights in WEIGHTS_OF_CLASSES
    for counts in ("train", "oob", "held_out")
    for frozen in (False, True)
    for weighted in (False, True)
    if (weights != "balanced_subsample" or name in BALANCES_BAGS)
    and (counts != "oob" or "bag" in name or name == "random forest")
    and (counts != "held_out" or not frozen)
]


@pytest.mark.parametrize(
    ("name", "weights", "counts", "frozen", "weighted"), CELLS, ids=lambda one: str(one).replace("_", " ")
)
@pytest.mark.exhaustive(keep=6)
def test_class_weights_weigh_the_counts(name, weights, counts, frozen, weighted):
    """The prior is that of the trees' own counts: exactly, without bags and parts; else as near as chance lets it."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = np.array([7, 9])[(X[:, 0] + rng.normal(size=400) > 0.8).astype(int)]
    sample_weight = rng.integers(1, 4, 400).astype(float) if weighted else None
    given = WEIGHTS_OF_CLASSES[weights]
    if not isinstance(given, str) and "bag" not in name.replace("with bags", ""):
        given = {7: 1.0, 9: 4.0}  # a bag tells its trees positions
    model = WEIGHED[name](given)
    how = {} if sample_weight is None else {"sample_weight": sample_weight}
    if frozen:
        last = {} if not how else ({f"{model.steps[-1][0]}__sample_weight": sample_weight} if "pipe" in name else how)
        model = FrozenEstimator(model.fit(X, y, **last))
    own = fit(CombinedForestClassifier(model, "mean", random_state=0), X, y, **how)
    try:
        found = fit(CombinedForestClassifier(model, "mean", counts=counts, random_state=0), X, y, **how)
    except TooFewUnseenError:  # bags that are drawn by weight hold most rows of the rare class
        assert counts == "oob"
        return
    exact = counts == "train" and name in ("extra trees", "tree")
    near = {"rtol": 1e-6} if exact else {"atol": 0.06}
    np.testing.assert_allclose(np.asarray(found.forest_.prior), np.asarray(own.forest_.prior), **near)
    if exact:
        np.testing.assert_allclose(found.predict_proba(X), own.predict_proba(X), rtol=1e-4, atol=1e-6)


LIBRARIES: dict[str, dict[str, Any]] = {
    "xgboost": {"scale_pos_weight": 3.0},
    "lightgbm": {"scale_pos_weight": 3.0},
    "lightgbm, unbalanced": {"is_unbalance": True},
    "lightgbm, by label": {"class_weight": {7: 1.0, 9: 3.0}},
    "lightgbm, balanced": {"class_weight": "balanced"},
}
LIGHTGBM = {"boosting_type": "rf", "num_leaves": 6, "subsample": 0.6, "subsample_freq": 1, "verbose": -1}
# Weights of scikit-learn's kind are those of rows, which no booster keeps.
FORMS = [(name, form) for name in LIBRARIES for form in ("unfitted", "frozen")]
FORMS += [(name, "booster") for name in ("xgboost", "lightgbm", "lightgbm, unbalanced")]


@pytest.mark.parametrize(("name", "form"), FORMS)
@pytest.mark.exhaustive(keep=2)
def test_weights_of_other_libraries_weigh_the_counts(name, form):
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    label = (X[:, 0] + rng.normal(size=400) > 0.8).astype(int)
    y = label if name == "xgboost" else np.array([7, 9])[label]
    library = pytest.importorskip(name.partition(",")[0])
    if name == "xgboost":
        model = library.XGBRFClassifier(n_estimators=4, max_depth=3, **LIBRARIES[name])
    else:
        model = library.LGBMClassifier(n_estimators=4, **LIGHTGBM, **LIBRARIES[name])
    if form != "unfitted":
        model.fit(X[:200], y[:200])
        if form == "booster":
            model, y = (model.get_booster() if name == "xgboost" else model.booster_), label
        model = FrozenEstimator(model)
    found = fit(CombinedForestClassifier(model, "mean", counts="held_out", random_state=0), X[200:], y[200:])
    share = label[200:].mean()
    weighed = 0.5 if "balanced" in name else 3 * share / (1 + 2 * share)
    near = 1e-6 if form != "unfitted" else 0.03  # of a part of the rows
    np.testing.assert_allclose(np.asarray(found.forest_.prior)[1], weighed, atol=near)


def test_files_keep_weights(tmp_path):
    X, y, label, weight = drawn("integers")
    numbers = fit(regressor("forest", "conformal", "oob"), X, y, weight)
    assert len(numbers.law_.weights) == len(numbers.law_.residuals)
    classes = fit(classifier("bag", "mean", "oob"), X, label, weight)
    assert classes.calibration_.shape[1] == 3
    for model, ask in (
        (numbers, lambda one: one.predict(NEW, quantiles=[0.1, 0.9])),
        (classes, lambda one: one.predict_set(NEW, coverage=0.7)),
    ):
        ju.save(tmp_path / "x", model)
        np.testing.assert_array_equal(ask(ju.load(tmp_path / "x")), ask(model))


ROWS, TARGETS, LABELS, _ = drawn()
EVERY, NONE = np.ones(N), np.zeros(N)
LAW = fit_law("residuals", Moments(*np.ones((3, 3))), np.arange(3.0), None, 1.0, sample_weight=np.arange(1.0, 4))
RANKS = Calibration(np.array([[0.5, 0, 3], [0.5, 1, 0.5]], np.float32))
of_ranks = lambda: LAW._replace(is_by_rank=True).quantile(Moments(*np.ones((3, 1))), np.array([0.95]), None)
MASKED = np.ma.masked_less(TARGETS, 0)
test_refusals = refusals(
    ("bins, no weight", lambda: target_bins(TARGETS, sample_weight=NONE), "sample_weight is 0 throughout"),
    ("bins, negative", lambda: target_bins(TARGETS, sample_weight=-EVERY), "finite numbers >= 0"),
    ("bins, length", lambda: target_bins(TARGETS, sample_weight=EVERY[1:]), "one number per instance"),
    ("bins, masked", lambda: target_bins(MASKED), "y is a masked array", TypeError),
    (
        "held out, no weight",
        lambda: classifier("tree", "mean", "held_out").fit(ROWS, LABELS, NONE),
        "zero throughout|at least one non-zero",  # in words of scikit-learn 1.9
    ),
    ("one row", lambda: regressor("tree", "bins", "held_out").fit(ROWS, TARGETS, np.eye(N)[0]), "n_samples = 1"),
    ("masked numbers", lambda: regressor("forest", "bins", "oob").fit(ROWS, MASKED), "y is a masked array, of which"),
    ("ranks", lambda: RANKS.least(0.9, False, [0, 1]), "needs 9 calibration rows, and there are 2, which weigh 3.5"),
    ("ranks of numbers", of_ranks, "needs 19 calibration rows, and there are 3, which weigh 6"),
    ("a law's weights", lambda: check_law(LAW._replace(weights=-LAW.weights)), "weights of a law"),
    ("a law's number of weights", lambda: check_law(LAW._replace(weights=LAW.weights[1:])), "one for each residual"),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("law", ["learned", "conformal", "bins"])
@pytest.mark.parametrize("model", [ExtraTreesRegressor, HistGradientBoostingRegressor])
def test_equal_weights_count_as_none(model, law):
    """In any unit: also where a law shrinks by numbers of rows."""
    if model is HistGradientBoostingRegressor and law == "bins":
        pytest.skip("boosted models have other laws")
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + np.exp(X[:, 1]) * rng.normal(size=200)
    settings = {"n_estimators": 5, "min_samples_leaf": 5} if model is ExtraTreesRegressor else {"max_iter": 5}
    given = FrozenEstimator(model(random_state=0, **settings).fit(X[:100], y[:100]))
    for estimator in [given] if model is HistGradientBoostingRegressor else [given, model(random_state=0, **settings)]:
        fit = UncertainForestRegressor(estimator, law=law, counts="held_out", shrinkage=5.0, random_state=0).fit
        plain, *weighted = [
            fit(X[100:], y[100:], sample_weight=weight).predict_interval(X[:9], 0.8)
            for weight in (None, np.full(100, 0.01), np.full(100, 100.0))
        ]
        for intervals in weighted:
            np.testing.assert_allclose(intervals, plain, rtol=1e-4, atol=1e-4)

"""One model, one row, every answer: sets, intervals, rejections and classes of every classifier agree."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import jaxunc as ju
from jaxunc.decisions import Calibration, promised_sets
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveClassifier,
)
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses
from tests.estimators._models import MODELS, forest, sample

IGNORED = ("ignore::jaxunc.estimators.PureLeavesWarning", "ignore:.*are in every tree's bag")
pytestmark = [pytest.mark.once, pytest.mark.filterwarnings(*IGNORED), pytest.mark.room]

X, Y = sample(120)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
NEW = sample(60)[0][::4] + 0.1
FOREST = RandomForestClassifier(50, min_samples_leaf=2, random_state=0)
KINDS = MODELS | {
    "learned": lambda: CombinedForestClassifier(FOREST, combiner="learned"),
    "out of bag": lambda: CombinedForestClassifier(FOREST, combiner="evidence", counts="oob"),
    "cautious, out of bag": lambda: CautiousForestClassifier(FOREST, s=2),
    "held out": lambda: CombinedForestClassifier(forest(), "mean", None, "held_out", 0.4, random_state=0),
    "any classifier": lambda: TransductiveClassifier(GaussianNB(), combine="pnml"),
}
WITHOUT_LEAVES = "any classifier"
LABELS = {"two classes": Y, "three classes": THREE}
KEPT = [*product(MODELS, ["two classes"]), *product(["cautious", WITHOUT_LEAVES], ["three classes"])]


@pytest.fixture(scope="module", params=a_few_of(product(KINDS, LABELS), KEPT), ids="-".join)
def case(request) -> tuple[str, np.ndarray]:
    name, labels = request.param
    return name, LABELS[labels]


model = pytest.fixture(scope="module")(lambda case: KINDS[case[0]]().fit(X[:80], case[1][:80]))


def test_no_answer_contradicts_another(case, model):
    name, labels = case
    p, rows = model.predict_proba(NEW), np.arange(len(NEW))
    best, named = p.argmax(axis=1), np.searchsorted(model.classes_, model.predict(NEW))
    if not name.startswith("cautious"):  # whose votes name a class
        np.testing.assert_allclose(p[rows, named], p[rows, best], rtol=1e-6)
    sets = {kind: model.predict_set(NEW, utility=kind) for kind in ("u50", "u65", "u80")}
    given = {"calibration": (X[80:104], labels[80:104])}
    sets |= {by: model.predict_set(NEW, coverage=0.7, by_class=by, **given) for by in (False, True)}
    sets |= {"more": model.predict_set(NEW, coverage=0.9, **given)}
    for members in sets.values():
        assert (members.dtype, members.shape) == (bool, p.shape)
        assert members[rows, [best, named]].all()
    assert np.all(sets["more"] >= sets[False]), "more coverage, larger sets"
    interval = model.predict_interval(NEW)
    assert np.all((interval.lower >= 0) & (interval.lower <= p) & (p <= interval.upper) & (interval.upper <= 1.000001))
    plain = model.predict_reject(NEW)
    np.testing.assert_array_equal(plain.label, model.predict(NEW))
    assert not plain.rejected.any()
    for kind, cost in (("u65", 0.35), ("u80", 0.2)):
        decided = ~model.predict_reject(NEW, reject=cost).rejected
        np.testing.assert_array_equal(sets[kind].sum(axis=1)[decided & (best == named)], 1)
        np.testing.assert_array_equal(decided, p.max(axis=1) >= 1 - cost)
    uncertainty = model.predict_uncertainty(NEW)
    np.testing.assert_allclose(uncertainty.total, uncertainty.aleatoric + uncertainty.epistemic, atol=1e-6)
    assert not any(isinstance(part, ju.inference.BoundForest | list) for part in uncertainty)


def test_costs_are_those_of_the_function(model):
    p, classes = model.predict_proba(NEW), model.classes_.tolist()
    first, last = classes[0], classes[-1]
    matrix = 1 - np.eye(len(classes))
    matrix[-1, 0] = 7
    expected = ju.decisions.least_cost(p.astype(np.float32), matrix, reject=0.6)
    table = pd.DataFrame(matrix, index=classes, columns=classes).iloc[::-1, ::-1]
    for costs in (matrix, f"{last}:{first}=7", {last: {first: 7}}, table):
        found = model.predict_reject(NEW, costs=costs, reject=0.6)
        np.testing.assert_array_equal(found.rejected, expected < 0)
        np.testing.assert_array_equal(found.label[expected >= 0], model.classes_[expected[expected >= 0]])
    refuses(ValueError, "costs names the class 'nobody'", model.predict_reject, NEW, costs="nobody:no=5")


WITH_ROWS = ["learned", "out of bag", "held out", "cautious, out of bag"]
SOME = [(name, "two classes") for name in WITH_ROWS[:3]]


@pytest.mark.parametrize(("name", "labels"), a_few_of(product(WITH_ROWS, LABELS), SOME, several=True))
def test_sets_from_rows_that_were_kept(name, labels, tmp_path):
    """The function's, of the probabilities that the rows have without themselves; files keep them."""
    labels = LABELS[labels]
    model = KINDS[name]().fit(X, labels)
    own, position = model.calibration_.T
    assert 0 <= own.min() <= own.max() <= 1
    n = 48 if name == "held out" else len(X)
    assert len(own) in range(n - 3, n + 1)
    np.testing.assert_array_equal(np.bincount(position.astype(int)) <= np.unique(labels, return_counts=True)[1], True)
    if name in ("out of bag", "cautious, out of bag"):
        shares, truth = model.oob_decision_function_, np.unique(labels, return_inverse=True)[1]
        expected = np.where(shares.argmax(axis=1) == truth, 1, shares[np.arange(n), truth])
        np.testing.assert_allclose(own, expected, rtol=1e-6)
    p = model.predict_proba(NEW)
    ju.save(tmp_path / "model", model)
    again = ju.load(tmp_path / "model")
    for by_class in (False, True):
        found = model.predict_set(NEW, coverage=0.8, by_class=by_class)
        sets = np.zeros(p.shape, bool)
        for c in range(p.shape[1]):
            ranked = np.sort(own[(position == c) | (not by_class)])[::-1]
            sets[:, c] = p[:, c].astype(np.float32) >= ranked[int(np.ceil((len(ranked) + 1) * 0.8)) - 1]
        for named in (p.argmax(axis=1), np.searchsorted(model.classes_, model.predict(NEW))):
            sets[np.arange(len(NEW)), named] = True
        np.testing.assert_array_equal(found, sets)
        np.testing.assert_array_equal(again.predict_set(NEW, coverage=0.8, by_class=by_class), found)


def test_rows_of_no_weight_are_none():
    weight = np.where(np.arange(len(Y)) % 3 == 0, 0.0, 2.0)
    for how in ({"counts": "oob"}, {"counts": "held_out", "random_state": 0}):
        model = CombinedForestClassifier(FOREST, "mean", **how).fit(X, Y, sample_weight=weight)
        assert len(model.calibration_) <= (80 if how["counts"] == "oob" else 24)


plain = pytest.fixture(scope="module")(lambda: CombinedForestClassifier(FOREST, "mean").fit(X, Y))
sets = lambda **asked: lambda plain: plain.predict_set(X, **asked)
FEW = (NEW[:5], Y[:5])
OUT_OF_BAG = CombinedForestClassifier(FOREST, "mean", counts="oob")
frozen_by = lambda plain: CombinedForestClassifier(FrozenEstimator(plain.estimator_), "mean").fit()
few_of_a_class = lambda: OUT_OF_BAG.fit(X[:80], Y[:80]).predict_set(X, coverage=0.99, by_class=True)

test_refusals = refusals(
    ("no rows", sets(coverage=0.9), "keeps none: pass calibration=.*counts='oob'"),
    ("two ways", sets(coverage=0.9, utility="u65"), "two ways to a set"),
    ("by_class", sets(by_class=True), "by_class and calibration belong to coverage"),
    ("calibration", sets(calibration=FEW), "by_class and calibration belong to coverage"),
    ("coverage", sets(coverage=1, calibration=FEW), r"coverage=1 must lie in \(0, 1\)"),
    ("few", sets(coverage=0.9, calibration=FEW), "needs 9 calibration rows, and there are 5"),
    ("none", lambda plain: sets(coverage=0.9, calibration=(X[:0], Y[:0]))(frozen_by(plain)), "and there are 0"),
    ("few of a class", few_of_a_class, "needs 99 calibration rows of class 'no'"),
    ("labels", sets(coverage=0.5, calibration=(X[:2], ["no", "maybe"])), "y holds labels that"),
    ("lengths", sets(coverage=0.5, calibration=(X[:5], Y[:2])), "5 rows and 2 labels"),
    ("s", lambda plain: plain.predict_interval(X, s=0), "s=0 must be"),
    ("no leaves", lambda: KINDS[WITHOUT_LEAVES]().fit(X, Y).predict_interval(X[:1], s=1), "has none of"),
    ("rows alone", sets(coverage=0.9, calibration=X), "pass rows and their labels", TypeError),
)


def test_rows_of_the_fit_are_answered_by_the_trees_that_have_not_seen_them(plain):
    """In their order; in any other they are refused."""
    mask = ju.counting.oob_mask(plain.estimator_, len(X), X=X, y=Y)
    own = np.asarray(plain.bound_.probability(X.astype(np.float32), tree_mask=mask))
    position = (Y == "yes").astype(int)
    expected = ju.decisions.conformal_sets(plain.predict_proba(NEW), own, position, coverage=0.95)
    for rows in (X, {f"{j}": X[:, j] for j in range(X.shape[1])}):
        np.testing.assert_array_equal(plain.predict_set(NEW, coverage=0.95, calibration=(rows, Y)), expected)
    kept = CombinedForestClassifier(FOREST, "mean", counts="oob").fit(X, Y)
    with refuses(ValueError, "calibration holds the rows that the forest was grown on.*leave it out"):
        kept.predict_set(NEW, coverage=0.95, calibration=(X, Y))
    frozen = frozen_by(plain)
    for model, rows in product((plain, frozen), (slice(None, None, -1), slice(0, 100))):
        refuses(ValueError, "held out", model.predict_set, NEW, coverage=0.9, calibration=(X[rows], Y[rows]))


def test_what_is_written_or_fitted_after_a_fit_changes_no_row_of_it():
    weight, groups, asked = np.tile([4.0, 1.0, 1.0], 40), np.arange(120) // 2, {"coverage": 0.8, "calibration": (X, Y)}
    model = CombinedForestClassifier(FOREST, "mean").fit(X, Y, weight, groups)
    expected = model.predict_set(NEW, **asked)
    weight[:], groups[:] = np.arange(120), 0
    np.testing.assert_array_equal(model.predict_set(NEW, **asked), expected)
    given = clone(FOREST).fit(X[:80], Y[:80])
    model = CombinedForestClassifier(FrozenEstimator(given), "mean", counts="held_out").fit(X[80:], Y[80:])
    model.set_params(estimator=FOREST)
    for fit in (lambda: given, lambda: given.set_params(random_state=1).fit(NEW, Y[:15])):
        fit()
        refuses(ValueError, "held out", model.predict_set, NEW, coverage=0.8, calibration=(X[79::-1], Y[79::-1]))


def test_groups_of_other_rows_than_a_frozen_forest_has_seen():
    """Rows that it was grown on are answered out of bag, without the groups, and a warning says so."""
    given = clone(FOREST).fit(X[:80], Y[:80])
    asked = {"coverage": 0.8, "calibration": (X[:80], Y[:80])}
    expected = CombinedForestClassifier(FrozenEstimator(given), "mean").fit(X[:80], Y[:80]).predict_set(NEW, **asked)
    for size in (40, 80):
        other = np.random.default_rng(0).normal(size=(size, X.shape[1]))
        groups = np.arange(size) // 20
        model = CombinedForestClassifier(FrozenEstimator(given), "mean").fit(other, Y[:size], groups=groups)
        with pytest.warns(UserWarning, match="taken without groups"):
            np.testing.assert_array_equal(model.predict_set(NEW, **asked), expected)


def test_rows_that_random_trees_count(tmp_path):
    """A file has no rows of the fit, but its leaves count them, also those that follow forks."""
    frame = pd.DataFrame(X).assign(word=THREE).rename(columns=str)
    model = RandomDecisionTreesClassifier(8, random_state=0).fit(frame[:80], Y[:80])
    ju.save(tmp_path / "model", model)
    frozen = CombinedForestClassifier(FrozenEstimator(model.forest_), "evidence")
    for asked, rows in product((model, ju.load(tmp_path / "model"), frozen.fit()), (slice(0, 80), slice(79, None, -1))):
        refuses(ValueError, "held out", asked.predict_set, frame, coverage=0.8, calibration=(frame[rows], Y[rows]))
        assert asked.predict_set(frame, coverage=0.8, calibration=(frame[80:], Y[80:])).any()
    refuses(ValueError, "X has no rows", frozen.fit, frame[:0], Y[:0])
    refuses(ValueError, "inconsistent numbers of samples", frozen.fit, frame, Y[:80])


def test_rows_of_weight_0_are_new_to_the_model(plain):
    """They may calibrate it, and do not count among the rows of its fit; a class of them alone is none."""
    weight = np.repeat([0.0, 1.0, 2.0], 40)[np.random.default_rng(0).permutation(len(X))]
    new, y = weight == 0, np.where(weight == 0, np.where(Y == "yes", "no", "yes"), Y)
    model = CombinedForestClassifier(FOREST, "mean").fit(X, y, sample_weight=weight)
    assert model.predict_set(NEW, coverage=0.8, calibration=(X[new], y[new])).any()
    mask = ju.counting.oob_mask(model.estimator_, len(X), X=X, y=y)
    position = (y == "yes").astype(int)
    own = np.asarray(model.bound_.probability(X.astype(np.float32), tree_mask=mask))
    ranked = Calibration(Calibration.kept(own, position, mask.any(axis=1), weight))
    np.testing.assert_array_equal(
        model.predict_set(NEW, coverage=0.8, calibration=(X, y)),
        promised_sets(
            model.predict_proba(NEW), model.predict_proba(NEW).argmax(1), ranked.least(0.8, False, ["no"] * 2)
        ),
    )
    by_rows = CombinedForestClassifier(FOREST, "mean").fit(scipy.sparse.coo_matrix(X), y, sample_weight=weight)
    assert len(by_rows._rows_of_fit().hashes) == 80
    frozen = CombinedForestClassifier(FrozenEstimator(plain.estimator_), "mean").fit(
        NEW, Y[:15], sample_weight=weight[:15]
    )
    np.testing.assert_array_equal(
        frozen.predict_set(NEW, coverage=0.8, calibration=(X, Y)),
        plain.predict_set(NEW, coverage=0.8, calibration=(X, Y)),
    )
    frozen.set_params(counts="held_out").fit(np.r_[X, NEW], np.r_[Y, Y[:15]], np.repeat([0.0, 1.0], [120, 15]))
    alone = clone(frozen).fit(NEW, Y[:15])
    np.testing.assert_array_equal(frozen.predict_proba(NEW), alone.predict_proba(NEW))
    held_out = CombinedForestClassifier(forest(), "mean", None, "held_out", random_state=0)
    assert held_out.fit(X, np.where(new, "maybe", Y), sample_weight=weight).classes_.tolist() == ["no", "yes"]


@pytest.mark.exhaustive
def test_out_of_bag_sets_cover_what_they_promise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=3000) > 1.2).astype(int)
    grown, found = RandomForestClassifier(100, random_state=0), {}
    for name, how in (("learned", ("learned",)), ("mean", ("mean",)), ("oob", ("mean", None, "oob"))):
        model = CombinedForestClassifier(grown, *how).fit(X[:1000], y[:1000])
        calibration = (X[:1000], y[:1000]) if name == "mean" else None
        for by_class in (False, True):
            sets = model.predict_set(X[1000:], coverage=0.9, by_class=by_class, calibration=calibration)
            right = sets[np.arange(2000), y[1000:]]
            found[name, by_class] = [right.mean(), *(right[y[1000:] == c].mean() for c in (0, 1))]
    assert all(0.87 <= means[0] <= (0.97 if name == "oob" else 0.93) for (name, _), means in found.items()), found
    assert all(min(means) >= 0.85 for (_, by_class), means in found.items() if by_class), found

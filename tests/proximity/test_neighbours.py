"""Rows behind answers: their weights against loops and against what the models themselves say."""

from functools import lru_cache

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, RandomDecisionTreesClassifier, UncertainForestRegressor
from jaxunc.proximity import NeighbourIndex, _neighbours
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(190, 4)).astype(np.float32)
TARGET = DATA[:, 0] + np.abs(DATA[:, 1]) + RNG.normal(size=190)
ROWS, NEW, Y = DATA[:150], DATA[150:], TARGET[:150]
WORDS = np.array(["low", "middle", "high"])[np.digitize(Y, [0.0, 1.5])]
WEIGHT = RNG.uniform(0.2, 3, 150).round(1)
HOLES = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)
SPARSE = sparse.csr_matrix(np.where(RNG.random(ROWS.shape) < 0.5, 0, ROWS))
FOREST = {"n_estimators": 12, "min_samples_leaf": 4, "random_state": 0}


@lru_cache
def forest(kind=RandomForestRegressor, **settings):
    """A forest, grown on the rows."""
    return kind(**FOREST | settings).fit(ROWS, WORDS if "Classifier" in kind.__name__ else Y)


def indicators(labels, classes):
    return (np.asarray(labels)[:, None] == classes).astype(float)


def weighs(target, model, X=NEW, expected=None, *, rows=ROWS, rtol=1e-12, atol=1e-12, **how) -> None:
    """Whether the rows' targets, weighed, are the prediction, or what is expected."""
    expected = model.predict(X) if expected is None else expected
    weights = ju.neighbour_weights(model, X, rows=rows, **how)
    np.testing.assert_allclose(weights @ target, expected, rtol=rtol, atol=atol)


def by_loops(model, new, unseen=None):
    """Weights of all rows in the answers, as the formula says; of training rows by trees that have not seen them."""
    bags = getattr(model, "estimators_samples_", [np.arange(150)] * 12) if model.bootstrap else [np.arange(150)] * 12
    weights, n_trees = np.zeros((len(new), 150)), np.zeros(len(new))
    for bag, inside, reached in zip(bags, model.apply(ROWS).T, model.apply(new).T, strict=True):
        times = np.bincount(bag, minlength=150)
        for i in range(len(new)):
            if unseen is None or times[i] == 0:
                counted = times * (inside == reached[i])
                weights[i] += counted / counted.sum()
                n_trees[i] += 1
    return weights / np.where(n_trees > 0, n_trees, np.nan)[:, None]


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor, RandomForestClassifier])
def test_weights_are_those_of_loops(kind):
    model = forest(kind)
    weights = ju.neighbour_weights(model, NEW, rows=ROWS)
    np.testing.assert_allclose(weights.toarray(), by_loops(model, NEW), rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-12)
    found = ju.neighbours(model, NEW, rows=ROWS, k=7)
    order = np.lexsort((np.broadcast_to(np.arange(150), weights.shape), -by_loops(model, NEW).round(12)), axis=1)[:, :7]
    np.testing.assert_array_equal(found.index, order)
    np.testing.assert_allclose(found.weight, np.take_along_axis(weights.toarray(), order, axis=1), atol=1e-15)
    np.testing.assert_allclose(found.effective, 1 / weights.power(2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.total, 1, rtol=0, atol=1e-12)
    assert found.index.dtype == np.int32
    assert found.ids is None


NUMBERS = {
    "forest": (RandomForestRegressor(**FOREST), ROWS, {}),
    "each row a leaf": (RandomForestRegressor(**FOREST | {"min_samples_leaf": 1}), ROWS, {}),
    "missing values": (RandomForestRegressor(**FOREST), HOLES, {}),
    "sparse rows": (RandomForestRegressor(**FOREST), SPARSE, {}),
    "Poisson deviance": (RandomForestRegressor(**FOREST, criterion="poisson"), ROWS, {}),
    "extra trees": (ExtraTreesRegressor(**FOREST), ROWS, {}),
    "bags of parts": (RandomForestRegressor(**FOREST, max_samples=0.3), ROWS, {}),
    "weights": (RandomForestRegressor(**FOREST), ROWS, {"sample_weight": WEIGHT}),
    "weights without bags": (ExtraTreesRegressor(**FOREST), ROWS, {"sample_weight": WEIGHT}),
    "a tree": (DecisionTreeRegressor(min_samples_leaf=4, random_state=0), ROWS, {}),
    "a bag": (BaggingRegressor(DecisionTreeRegressor(max_depth=4), 12, max_features=0.5, random_state=0), ROWS, {}),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_weighted_targets_are_the_prediction(name):
    model, rows, how = NUMBERS[name]
    target = np.abs(Y)
    model.fit(rows, target, **how)
    for y in (None, target):
        weighs(target, model, None, model.predict(rows), rows=rows, y=y, **how)


CLASSES = {
    "forest": RandomForestClassifier(**FOREST),
    "balanced": RandomForestClassifier(**FOREST, class_weight="balanced"),
    "balanced subsamples": RandomForestClassifier(**FOREST, class_weight="balanced_subsample"),
    "weights by name": ExtraTreesClassifier(**FOREST, class_weight={"low": 3, "middle": 1, "high": 0.2}),
    "entropy": ExtraTreesClassifier(**FOREST, criterion="entropy", bootstrap=True),
    "a tree": DecisionTreeClassifier(min_samples_leaf=4, class_weight="balanced"),
    "a bag": BaggingClassifier(DecisionTreeClassifier(max_depth=3), 12, max_features=0.5, random_state=0),
    "a bag of weighed trees": BaggingClassifier(DecisionTreeClassifier(max_depth=3, class_weight={0: 4}), 12),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("sample_weight", [None, WEIGHT], ids=["alike", "weighed"])
def test_weighted_classes_are_the_probabilities(name, sample_weight):
    model = CLASSES[name].fit(ROWS, WORDS, sample_weight=sample_weight)
    classes = indicators(WORDS, model.classes_)
    weighs(classes, model, NEW, model.predict_proba(NEW), y=WORDS, sample_weight=sample_weight)


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor])
def test_out_of_bag_numbers(kind):
    of_trees = {"min_samples_leaf": 4}
    settings = {"estimator": DecisionTreeRegressor(**of_trees)} if kind is BaggingRegressor else of_trees
    model = kind(n_estimators=30, bootstrap=True, oob_score=True, random_state=0, **settings).fit(ROWS, Y)
    weights = ju.neighbour_weights(model, rows=ROWS, kind="out_of_bag")
    assert not weights.diagonal().any()
    np.testing.assert_allclose(weights @ Y, model.oob_prediction_, rtol=0, atol=1e-12)


def test_out_of_bag_classes_and_rows_of_every_bag():
    model = RandomForestClassifier(30, oob_score=True, min_samples_leaf=2, random_state=0).fit(ROWS, WORDS)
    classes = indicators(WORDS, model.classes_)
    weighs(classes, model, None, model.oob_decision_function_, y=WORDS, kind="out_of_bag")
    model = forest(n_estimators=3)
    found = ju.neighbours(model, rows=ROWS, kind="out_of_bag", k=150)
    never = ~ju.counting.oob_mask(model, 150).any(axis=1)
    assert 5 < never.sum() < 100
    assert (found.index[never] == -1).all()
    assert (found.weight[never] == 0).all()
    assert np.isnan(found.total[never]).all()
    assert np.isnan(found.effective[never]).all()
    np.testing.assert_allclose(found.total[~never], 1, atol=1e-12)
    expected = by_loops(model, ROWS[:20], unseen=True)[~never[:20]]
    places = found.index[:20][~never[:20]]
    of_places = np.where(places >= 0, np.take_along_axis(expected, places, axis=1), 0)
    np.testing.assert_allclose(of_places, found.weight[:20][~never[:20]], atol=1e-12)


def test_rows_of_a_group_are_out_of_bag_together():
    model, groups = forest(n_estimators=30), np.arange(150) // 2
    found = ju.neighbours(model, rows=ROWS, kind="out_of_bag", groups=groups, k=150)
    partner = np.arange(150) ^ 1
    assert not ((found.index == partner[:, None]) & (found.weight > 0)).any()
    doubled, target = np.r_[ROWS, ROWS], np.r_[Y, Y]
    model = RandomForestRegressor(30, random_state=0).fit(doubled, target)
    with pytest.warns(UserWarning, match="repeat others"):
        found = ju.neighbours(model, rows=doubled, kind="out_of_bag", k=20)
    assert not (found.index == (np.arange(300)[:, None] + 150) % 300).any()


def test_leaves_count_trees_in_which_rows_meet():
    for model in (forest(), forest(GradientBoostingRegressor)):
        inside, reached = (model.apply(each).reshape(len(each), -1) for each in (ROWS, NEW))
        expected = (inside[None] == reached[:, None]).mean(axis=2)
        weights = ju.neighbour_weights(model, NEW, rows=ROWS, kind="leaves")
        np.testing.assert_array_equal(weights.toarray(), expected)
        found = ju.neighbours(model, NEW, rows=ROWS, kind="leaves")
        np.testing.assert_allclose(found.total, expected.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(found.effective, found.total**2 / (expected**2).sum(axis=1), rtol=1e-12)
    strangers = ju.neighbours(model, NEW, rows=NEW, kind="leaves", k=1)
    np.testing.assert_array_equal(strangers.weight, 1)


def test_ties_go_to_the_lower_position():
    flat = RandomForestRegressor(3, max_depth=1, bootstrap=False, max_features=1, random_state=0).fit(ROWS, Y)
    weights = ju.neighbour_weights(flat, NEW, rows=ROWS).toarray().round(12)
    found = ju.neighbours(flat, NEW, rows=ROWS, k=20)
    np.testing.assert_array_equal(found.index, np.argsort(-weights, axis=1, kind="stable")[:, :20])


def test_blocks_change_no_bit(monkeypatch):
    index = NeighbourIndex(forest(), ROWS)
    whole, weights = index.neighbours(NEW, 9), index.weights(NEW)
    monkeypatch.setattr(_neighbours, "PAIRS", 300)
    monkeypatch.setattr(_neighbours, "QUERIES", 17)
    for a, b in zip(whole[:4], index.neighbours(NEW, 9)[:4], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (weights != index.weights(NEW)).nnz == 0
    for i in (0, 39):
        for a, b in zip(whole[:4], index.neighbours(NEW[i : i + 1], 9)[:4], strict=True):
            np.testing.assert_array_equal(a[i : i + 1], b)


def test_arrays_of_all_rows_add_as_sparse_lists_do(monkeypatch):
    for model in (forest(), forest(min_samples_leaf=1), forest(max_depth=2)):
        index, answers = NeighbourIndex(model, ROWS), []
        for part in (0, 10**9):
            monkeypatch.setattr(_neighbours, "DENSE", part)
            answers.append(index.neighbours(NEW, 3))
        for name in ("index", "weight"):
            np.testing.assert_array_equal(*(getattr(answer, name) for answer in answers))
        for name in ("total", "effective"):
            np.testing.assert_allclose(*(getattr(answer, name) for answer in answers), rtol=1e-12)


def test_no_queries():
    found = ju.neighbours(forest(), NEW[:0], rows=ROWS, k=3)
    assert [len(part) for part in found[:4]] == [0, 0, 0, 0]
    assert found.index.shape == (0, 3)
    assert ju.neighbour_weights(forest(), NEW[:0], rows=ROWS).shape == (0, 150)


def test_frames_keep_their_index():
    names = list("abcd")
    frame = pd.DataFrame(ROWS, columns=names, index=[f"case {i}" for i in range(150)])
    model = RandomForestRegressor(**FOREST).fit(frame, Y)
    new = pd.DataFrame(NEW, columns=names)
    found = ju.neighbours(model, new, rows=frame, k=2)
    np.testing.assert_array_equal(found.ids, frame.index.to_numpy()[found.index])
    days = frame.set_index(pd.date_range("2026-01-01", periods=150))
    assert ju.neighbours(model, new, rows=days, k=2).ids[0, 1] == days.index[found.index[0, 1]]
    refuses(ValueError, "another order", ju.neighbours, model, new[["b", "a", "c", "d"]], rows=frame)
    every = ju.neighbours(forest(n_estimators=1), rows=frame.set_axis(range(4), axis=1), kind="out_of_bag", k=150)
    assert every.ids is not None
    assert (every.ids[every.index < 0] == None).all()  # noqa: E711


def test_pipelines_and_estimators():
    raw = pd.DataFrame({"word": np.array(["x", "y", "z"])[np.arange(150) % 3], "number": ROWS[:, 0]})
    words = raw[["word"]]
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RandomForestRegressor(**FOREST)).fit(words, Y)
    weighs(Y, model, words[:9], rows=words)
    assert ju.neighbours(model, words[:0], rows=words).index.shape == (0, 10)
    scaled = make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST))
    combined = CombinedForestClassifier(scaled).fit(ROWS, WORDS)
    weighs(indicators(WORDS, combined.classes_), combined, NEW, combined.estimator_.predict_proba(NEW))
    weighs(Y, UncertainForestRegressor(RandomForestRegressor(**FOREST)).fit(ROWS, Y))
    trees = RandomDecisionTreesClassifier(n_estimators=12, random_state=0).fit(ROWS, WORDS)
    leaves = ju.bind(trees.forest_, ju.Mean())
    weighs(indicators(WORDS, trees.classes_), trees, NEW, leaves.probability(NEW), atol=1e-6)


def test_forests_of_this_library_and_files():
    recounted = ju.count_leaves(ju.from_sklearn(forest(RandomForestClassifier)), ROWS, WORDS)
    bound = ju.bind(recounted, ju.Mean())
    weighs(indicators(WORDS, recounted.class_labels), bound, NEW, bound.probability(NEW), atol=1e-6)
    extra = forest(ExtraTreesRegressor)
    weighs(Y, ju.from_sklearn_values(extra), NEW, extra.predict(NEW), rtol=1e-5, atol=1e-5, y=Y)


def test_empty_leaves_are_not_covered():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({name: pd.Categorical(rng.choice(list("abcdefgh"), 60)) for name in "uv"})
    y = rng.integers(0, 2, 60)
    trees = RandomDecisionTreesClassifier(n_estimators=10, random_state=0).fit(X[:30], y[:30])
    weights = ju.neighbour_weights(trees, X, rows=X[:30])
    total = ju.neighbours(trees, X, rows=X[:30]).total
    np.testing.assert_allclose(total, np.asarray(weights.sum(axis=1)).ravel(), atol=1e-12)
    assert total[30:].min() < 0.95
    np.testing.assert_allclose(total[:30], 1, atol=1e-12)


def test_lightgbm_without_bags():
    lightgbm = pytest.importorskip("lightgbm")
    how = {"boosting_type": "rf", "n_estimators": 8, "feature_fraction": 0.5, "verbose": -1, "n_jobs": 1}
    model = lightgbm.LGBMRegressor(**how, min_child_samples=5).fit(ROWS, Y)
    weighs(Y, model, atol=1e-5, y=Y)
    model = lightgbm.LGBMRegressor(**how, bagging_fraction=0.5, bagging_freq=1, min_child_samples=5).fit(ROWS, Y)
    refuses(ValueError, "kind='leaves'", ju.neighbours, model, NEW, rows=ROWS, y=Y)


def test_ydf_by_its_bags():
    ydf = pytest.importorskip("ydf")
    table = {name: ROWS[:, j] for j, name in enumerate("abcd")}
    learner = ydf.RandomForestLearner(label="t", num_trees=12, compute_oob_performances=True, winner_take_all=False)
    model = learner.train({**table, "t": WORDS}, verbose=0)
    classes = indicators(WORDS, np.array(model.label_classes()))
    weighs(classes, model, ROWS, model.predict({**table, "t": WORDS}), atol=1e-5, y=WORDS)
    refuses(ValueError, "pass y", ju.neighbours, model, ROWS, rows=ROWS)


def test_large_matrices_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(_neighbours, "MOST_BYTES", 10_000)
    words = r"40 queries for 150 rows take up to 0\.0 GB.*ask for \d+ queries"
    refuses(ValueError, words, ju.neighbour_weights, forest(), NEW, rows=ROWS)


def ask(model, X=NEW, rows=ROWS, **how):
    return lambda: ju.neighbours(model() if callable(model) else model, X, rows=rows, **how)


BAD, BAGS = ROWS.copy(), "^the bags of this Forest.*not known.*of scikit-learn"
BAD[0, 0] = np.inf
WEIGHED = lambda: ExtraTreesRegressor(**FOREST).fit(ROWS, Y, sample_weight=WEIGHT)
test_refusals = refusals(
    ("k beyond the rows", ask(forest, k=151), "k=151, and there are 150 rows"),
    ("an unknown kind", ask(forest, kind="leafs"), "Did you mean 'leaves'"),
    ("no rows", ask(forest, rows=ROWS[:0]), "rows is empty"),
    ("fewer rows", ask(forest, rows=ROWS[:149]), "there are 149 rows.*was fitted on 150"),
    ("other rows of a tree", ask(lambda: DecisionTreeRegressor().fit(ROWS, Y), rows=DATA[:120]), "not those that this"),
    ("another order", ask(forest, rows=ROWS[::-1]), "not those that this RandomForestRegressor was grown on"),
    ("another column", ask(forest, rows=ROWS[:, :3]), "rows has 3"),
    ("infinity", ask(forest, rows=BAD), r"rows\[0, 0\] is infinite"),
    ("words", ask(forest, rows=np.full((150, 4), "a")), "rows has dtype <U1", TypeError),
    ("labels as targets", ask(forest, y=WORDS), "no numbers", TypeError),
    ("classes as targets", ask(forest, y=np.arange(150) % 3), "does not give the contents"),
    ("targets as labels", ask(lambda: forest(RandomForestClassifier), y=Y), "labels that the forest does not know"),
    ("other labels", ask(lambda: forest(RandomForestClassifier), y=WORDS[::-1]), "does not give the contents"),
    ("too few targets", ask(forest, y=Y[:9]), "y has 9 numbers for 150"),
    ("too few labels", ask(lambda: forest(RandomForestClassifier), y=WORDS[:9]), "y has 9 labels for 150"),
    ("weights that are not told", ask(WEIGHED), r"sizes of its leaves.*\(and its sample_weight\)"),
    ("other weights", ask(WEIGHED, sample_weight=WEIGHT[::-1]), "with its sample_weight"),
    ("negative weights", ask(forest, sample_weight=-WEIGHT), "sample_weight holds -"),
    ("classes that weigh", ask(lambda: CLASSES["weights by name"].fit(ROWS, WORDS)), "class_weight=.*pass y"),
    ("boosted numbers", ask(lambda: forest(GradientBoostingRegressor)), "GradientBoostingRegressor.*kind='leaves'"),
    ("boosted classes", ask(lambda: HistGradientBoostingClassifier(max_iter=2).fit(ROWS, WORDS)), "kind='leaves'"),
    ("medians", ask(lambda: forest(criterion="absolute_error")), "medians"),
    ("constraints", ask(lambda: forest(monotonic_cst=(1, 0, 0, 0))), "monotonic_cst"),
    ("trees without targets", ask(lambda: ju.from_sklearn_values(forest())), "pass y, the rows' targets"),
    ("counts of bags", ask(lambda: ju.from_sklearn(forest(RandomForestClassifier))), f"{BAGS}.*itself: pass that"),
    ("numbers of bags", ask(lambda: ju.from_sklearn_values(forest()), y=Y), "^the bags of this Add.*are not known"),
    ("out of no bag", ask(lambda: forest(ExtraTreesRegressor), None, kind="out_of_bag"), "has no bags that are known"),
    ("new rows out of bag", ask(forest, kind="out_of_bag"), "asks about the rows themselves"),
    ("groups of a prediction", ask(forest, groups=np.arange(150)), "leave groups out"),
    ("weights of leaves", ask(forest, kind="leaves", sample_weight=WEIGHT), "leave y and sample_weight out"),
    ("groups that are missing", ask(forest, None, kind="out_of_bag", groups=[np.nan] * 150), "groups has no label"),
    ("several targets", ask(lambda: RandomForestRegressor(2).fit(ROWS, np.c_[Y, Y])), "predicts 2 numbers"),
    ("what is not fitted", ask(RandomForestRegressor()), "not fitted"),
    ("no model", ask(3), "no importer", TypeError),
    ("traced queries", lambda: jax.jit(lambda X: ask(forest, X)().weight)(NEW), "X or rows is traced", TypeError),
    ("traced rows", lambda: jax.jit(lambda X: ask(forest, rows=X)().weight)(ROWS), "X or rows is traced", TypeError),
)

"""Transduction of trees, in bags of scikit-learn, and around any classifier."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import neighbors, svm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, TransductiveClassifier, TransductiveTreeClassifier
from jaxunc.transduction import KeptNodes
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[Y]
TRAIN, TEST = slice(0, None, 3), slice(49, 110, 10)
HALF, SOME = slice(0, None, 2), slice(1, None, 10)


class GreedyTree(ClassifierMixin, BaseEstimator):
    """A tree of this library, grown on all that it is given, with Laplace's estimates."""

    def __init__(self, nominal=None):
        self.nominal = nominal

    def fit(self, X, y):
        how = {"nominal": self.nominal, "candidates": "all", "min_samples_leaf": 2}
        self.forest_ = ju.transduction.grow_greedy_trees(X, y, **how)
        self.classes_ = np.array(self.forest_.class_labels)
        return self

    def predict_proba(self, X):
        counts = np.asarray(ju.leaf_counts(self.forest_, X))[:, 0] + 1.0
        return counts / counts.sum(axis=1, keepdims=True)


class Forgetful(GaussianNB):
    """A classifier that loses a class once there are more than fifty instances."""

    def fit(self, X, y, sample_weight=None):
        kept = y != WORDS[0] if len(y) > 50 else np.ones(len(y), bool)
        return super().fit(X[kept], y[kept])


def brute(model, X, y, x, weight=None) -> np.ndarray:
    """Answers by label of one instance, by the definition."""
    found = []
    for label in np.unique(y):
        weights = {} if weight is None else {"sample_weight": np.append(weight, 1.0)}
        again = type(model)(**model.get_params()).fit(np.vstack([X, x]), np.append(y, label), **weights)
        found.append(again.predict_proba(x[None])[0])
    return np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combine", ["mean", "pnml"])
def test_brute_force(combine, weighted, rng):
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    weight = rng.integers(1, 4, len(X[TRAIN])).astype(float) if weighted else None
    model = TransductiveClassifier(tree, combine).fit(X[TRAIN], WORDS[TRAIN], sample_weight=weight)
    by_label = np.stack([brute(tree, X[TRAIN], WORDS[TRAIN], x, weight) for x in X[TEST]])
    np.testing.assert_array_equal(model.predict_proba_by_label(X[TEST]), by_label)
    own = np.einsum("icc->ic", by_label)
    expected = by_label.mean(axis=1) if combine == "mean" else own / own.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[TEST]), expected, rtol=1e-14)
    assert model.predict(X[TEST]).tolist() == model.classes_[expected.argmax(axis=1)].tolist()
    assert (model.predict_proba_by_label(X[TEST]) != model.estimator_.predict_proba(X[TEST])[:, None]).any()
    model.fit(scipy.sparse.csc_array(X[TRAIN]), WORDS[TRAIN], sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba_by_label(scipy.sparse.csr_array(X[TEST])), by_label)


def test_trees_are_those_that_are_found_together(rng):
    """Of nominal features; of numbers where an instance has no values of its own."""
    levels = rng.integers(3, size=(60, 4)).astype(float)
    y = (levels[:, 0] + levels[:, 1] + rng.integers(2, size=60) > 2).astype(int)
    for nominal, rows, labels, new in (
        ([0, 1, 2, 3], levels[:40], y[:40], levels[40:50]),
        (None, X[TRAIN], Y[TRAIN], X[TRAIN][::10]),
    ):
        slow = TransductiveClassifier(GreedyTree(nominal)).fit(rows, labels)
        exact = TransductiveTreeClassifier(nominal=nominal, candidates="all", combiner=None).fit(rows, labels)
        np.testing.assert_allclose(slow.predict_proba(new), exact.predict_proba(new), rtol=1e-12)


def test_nearest_neighbours_have_a_closed_form(rng):
    X, new = rng.normal(size=(40, 2)), rng.normal(size=(6, 2))
    y = rng.integers(3, size=40)
    nearest = y[np.argsort(((new[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :4]]
    counts = (nearest[:, :, None] == np.arange(3)).sum(axis=1)
    for combine, expected in (("pnml", (counts + 1) / 7), ("mean", (3 * counts + 1) / 15)):
        model = TransductiveClassifier(neighbors.KNeighborsClassifier(5), combine).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(new), expected, rtol=1e-12)


class Stubborn(GaussianNB):
    def predict_proba(self, X):
        return np.eye(3)[[1 if self.class_count_[0] > 17 else 0] * len(X)]


def test_where_no_model_believes_its_label_pnml_is_the_mean():
    model = TransductiveClassifier(Stubborn(), "pnml").fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[2 / 3, 1 / 3, 0]])


@pytest.mark.exhaustive
def test_frames_and_pipelines(rng):
    frame = pd.DataFrame({"length": X[:, 2], "word": pd.Categorical(rng.choice(["a", "b"], 150))})
    encode = make_column_transformer((OneHotEncoder(), ["word"]), (StandardScaler(), ["length"]))
    model = TransductiveClassifier(make_pipeline(encode, LogisticRegression())).fit(frame[TRAIN], WORDS[TRAIN])
    np.testing.assert_allclose(model.predict_proba(frame[TEST]).sum(axis=1), 1)
    assert model.feature_names_in_.tolist() == ["length", "word"]
    assert set(model.predict(frame[TEST])) <= set(WORDS)
    refuses(ValueError, "feature names", model.predict, frame[["word", "length"]])


def test_all_copies_have_one_seed_and_own_seeds_are_kept():
    forest = RandomForestClassifier(3)
    first, second = (TransductiveClassifier(forest, random_state=0).fit(X[TRAIN], Y[TRAIN]) for _ in range(2))
    found = first.predict_proba(X[TEST])
    for again in (first, second):
        np.testing.assert_array_equal(again.predict_proba(X[TEST]), found)
    assert forest.random_state is None
    seeded = TransductiveClassifier(RandomForestClassifier(3, random_state=4), random_state=0).fit(X[TRAIN], Y[TRAIN])
    expected = brute(RandomForestClassifier(3, random_state=4), X[TRAIN], Y[TRAIN], X[49])
    np.testing.assert_array_equal(seeded.predict_proba_by_label(X[49:50])[0], expected)


def test_no_rows_no_weight_parameters_set_after_fit_and_what_has_no_place_in_files_and_streams(tmp_path):
    model = TransductiveClassifier(GaussianNB()).fit(X[TRAIN], Y[TRAIN])
    expected = model.predict_proba(X[TEST])
    both, weight = np.concatenate([X[TRAIN], X[TRAIN]]), np.repeat([1.0, 0.0], len(Y[TRAIN]))
    weighed = TransductiveClassifier(GaussianNB()).fit(both, np.r_[Y[TRAIN], 2 - Y[TRAIN]], sample_weight=weight)
    np.testing.assert_allclose(weighed.predict_proba(X[TEST]), expected, rtol=1e-10)
    assert (model.predict_proba(X[:0]).shape, model.predict(X[:0]).shape) == ((0, 3), (0,))
    model.set_params(combine="nothing", estimator=None, random_state=5)
    np.testing.assert_array_equal(model.predict_proba(X[TEST]), expected)
    refuses(TypeError, "TransductiveClassifier, which has no place in a file", ju.save, tmp_path / "x", model)
    refuses(TypeError, "TransductiveClassifier", ju.stream, model, X)


@pytest.mark.exhaustive
def test_processes_change_no_answer():
    for make in (lambda n: TransductiveClassifier(GaussianNB(), n_jobs=n), lambda n: bag(n_jobs=n)):
        alone, several = (make(n).fit(X[HALF], WORDS[HALF]) for n in (None, 2))
        np.testing.assert_array_equal(alone.predict_proba(X[SOME]), several.predict_proba(X[SOME]))


def fit(*arguments, X=X, y=Y, sample_weight=None, **settings):
    return lambda: TransductiveClassifier(*arguments, **settings).fit(X, y, sample_weight=sample_weight)


fit_trees = lambda **settings: lambda: TransductiveTreeClassifier(**settings).fit(X, Y)


def forget():
    TransductiveClassifier(Forgetful()).fit(X[TRAIN], WORDS[TRAIN]).predict(X[:1])


COUNTS_OF_OTHERS = ju.LearnedPool([0.3, 0.3, 0.4], reads=("own", "oob"))
test_refusals = refusals(
    ("a class", fit(GaussianNB), "no classifier of scikit-learn", TypeError),
    ("a regressor", fit(LinearRegression()), "no classifier of scikit-learn", TypeError),
    ("no probabilities", fit(svm.LinearSVC()), "has no predict_proba", TypeError),
    ("frozen", fit(FrozenEstimator(GaussianNB())), "frozen", TypeError),
    ("combine", fit(GaussianNB(), "meen"), "Did you mean 'mean'"),
    ("n_jobs", fit(GaussianNB(), n_jobs=0), "n_jobs=0"),
    ("one class", fit(GaussianNB(), y=np.zeros(150)), "1 class"),
    ("one class that weighs", fit(GaussianNB(), sample_weight=(Y == 0).astype(float)), "1 class"),
    ("negative weights", fit(GaussianNB(), sample_weight=np.full(150, -1.0)), "sample_weight holds -1"),
    ("no weights", fit(neighbors.KNeighborsClassifier(), sample_weight=np.ones(150)), "takes none", TypeError),
    ("a class lost", forget, "knows the classes .* after a fit on"),
    ("block_size", fit_trees(block_size=0), "block_size"),
    ("combiner's name", fit_trees(combiner="meen"), "Did you mean 'mean'"),
    ("intervals", fit_trees(combiner=ju.AveragedIntervals(1.0)), "leaf_counts", TypeError),
    ("scores", fit_trees(combiner=ju.Mean(ju.scorers.linear)), "no probabilities"),
    ("counts of others", fit_trees(combiner=COUNTS_OF_OTHERS), "reads the counts"),
)


@pytest.mark.exhaustive
def test_answers_are_those_of_the_function_whatever_the_blocks():
    heard = []
    said = {"combiner": None, "progress": lambda now: heard.append(now[:2])}
    model = TransductiveTreeClassifier(block_size=20, **said).fit(X[::2], Y[::2])
    np.testing.assert_array_equal(model.predict_proba(X[1::2]), ju.transductive_certainty(X[::2], Y[::2], X[1::2]))
    assert heard == [(20, 75), (40, 75), (60, 75), (75, 75)]
    pooled = TransductiveTreeClassifier(combiner=ju.Pooling()).fit(X[::2], Y[::2])
    np.testing.assert_allclose(pooled.predict_proba(X[1::2]), ju.Pooling().probability(model.leaf_counts(X[1::2])))


def test_leaves_are_counted_together_unless_another_combiner_is_asked_for():
    model = TransductiveTreeClassifier().fit(X[::2], Y[::2])
    counts = model.leaf_counts(X[1::2])
    together, probs = counts.sum(axis=1), model.predict_proba(X[1::2])
    np.testing.assert_allclose(probs, together / together.sum(axis=1, keepdims=True), rtol=1e-6)
    assert probs.min() > 0, "one instance of each class is in every pool"
    published = TransductiveTreeClassifier(combiner=None).fit(X[::2], Y[::2])
    assert published.combiner_ is None
    expected = ((counts + 1) / (counts.sum(axis=2, keepdims=True) + 3)).mean(axis=1)
    np.testing.assert_allclose(published.predict_proba(X[1::2]), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["mean", "laplace", "pooling", "evidence", "plausibility-p"])
@pytest.mark.exhaustive(keep=1)
def test_combiners_by_name(name):
    model = TransductiveTreeClassifier(combiner=name).fit(X[:100:2], Y[:100][::2])
    counts = model.leaf_counts(X[1:100:2])
    combiner = ju.combiners.combiner_by_name(name, prior=[0.5, 0.5], n_samples=50)
    np.testing.assert_array_equal(model.predict_proba(X[1:100:2]), combiner.probability(counts))


@pytest.mark.exhaustive
def test_what_is_kept_of_earlier_calls_changes_no_answer():
    rounded = np.round(X, 1)
    rounded[::7, 2] = np.nan
    model = TransductiveTreeClassifier(nominal=[3]).fit(rounded[::2], Y[::2])
    expected = ju.transduction.transductive_leaf_counts(rounded[::2], Y[::2], rounded[1::2], nominal=[3])
    for _ in range(2):
        found = np.concatenate([model.leaf_counts(rounded[i : i + 1]) for i in range(1, 150, 2)])
        np.testing.assert_array_equal(found, expected)
    assert model.bound_._node_store.find(np.ones(75, bool)) is not None


def test_nodes_are_kept_while_they_fit_and_progress_may_be_set_after_fit():
    model, heard = TransductiveTreeClassifier().fit(X, Y), []
    model.bound_._node_store = full = KeptNodes(100)
    model.set_params(progress=lambda now: heard.append(now[:2])).predict(X[:3])
    assert heard == [(3, 3)]
    assert full.find(np.ones(150, bool)) is None
    refuses(TypeError, "progress=3", lambda: model.set_params(progress=3).predict(X[:3]))
    with refuses(TypeError, "TransductiveTreeClassifier takes names"):
        ju.transductive_certainty(X, Y, X[:1], combiner="mean")


bag = lambda n=4, **settings: BaggingClassifier(TransductiveTreeClassifier(), n, random_state=0, **settings)
fitted = pytest.fixture(scope="module")(lambda: bag(12, oob_score=True).fit(X[HALF], WORDS[HALF]))


def test_a_bag_is_the_mean_of_pools_over_its_samples_also_out_of_bag(fitted):
    expected, shares = [], np.zeros((75, 3))
    for rows, tree in zip(fitted.estimators_samples_, fitted.estimators_, strict=True):
        counts = ju.transduction.transductive_leaf_counts(X[HALF][rows], Y[HALF][rows], X[SOME]).sum(axis=1)
        expected.append(counts / counts.sum(axis=1, keepdims=True))
        outside = np.setdiff1d(np.arange(75), rows)
        shares[outside] += tree.predict_proba(X[HALF][outside])
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.oob_decision_function_, shares, rtol=1e-6)
    assert fitted.oob_score_ == np.mean(shares.argmax(axis=1) == Y[HALF])
    probs = fitted.predict_proba(X[SOME])
    np.testing.assert_allclose(probs, np.mean(expected, axis=0), rtol=1e-6)
    assert fitted.predict(X[SOME]).tolist() == fitted.classes_[probs.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X[SOME]), probs)


def test_frames_with_words_and_missing_values(rng):
    word = pd.Categorical(np.where(X[:, 2] > 4.9, "long", "short"))
    frame = pd.DataFrame({"word": word, "width": np.where(rng.random(150) < 0.2, np.nan, X[:, 3])})
    model = bag().fit(frame[HALF], WORDS[HALF])
    assert model.feature_names_in_.tolist() == ["word", "width"]
    assert model.estimators_[0].bound_.columns.is_nominal.tolist() == [True, False]
    assert model.score(frame[SOME], WORDS[SOME]) > 0.8
    assert np.all(np.isfinite(model.predict_proba(frame.assign(word="unheard", width=np.nan))))
    # scikit-learn hands arrays to the trees of a bag, so that columns have places and no names.
    by_place = BaggingClassifier(TransductiveTreeClassifier(nominal=[0]), 2, random_state=0).fit(frame, WORDS)
    assert by_place.estimators_[0].bound_.columns.is_nominal.tolist() == [True, False]
    named = BaggingClassifier(TransductiveTreeClassifier(nominal=["word"]), 2, random_state=0)
    refuses(ValueError, "columns without names", named.fit, frame, WORDS)


def test_a_class_that_samples_lack_is_answered_and_a_sample_of_one_class_is_refused():
    model = bag(6).fit(X[:101], np.r_[Y[:100], 2])
    assert {len(tree.classes_) for tree in model.estimators_} == {2, 3}
    probs = model.predict_proba(X[100:101])
    np.testing.assert_allclose(probs.sum(), 1)
    assert probs[0, 2] > 0
    refuses(ValueError, "1 class", lambda: bag(30).fit(X[45:52], np.r_[[0] * 6, 1]))


ONLY = "only bags of single decision trees are forests"
test_bags_refused = refusals(
    ("a file", lambda fitted, tmp_path: ju.save(tmp_path / "x", fitted), "pickle", TypeError),
    ("a stream", lambda fitted: ju.stream(fitted, X), "BaggingClassifier; what streams is", TypeError),
    ("a forest", lambda fitted: ju.from_sklearn(fitted), ONLY, TypeError),
    ("any model", lambda fitted: ju.from_any(fitted), ONLY, TypeError),
    ("an estimator", lambda: CombinedForestClassifier(bag(2)).fit(X[HALF], Y[HALF]), ONLY, TypeError),
)


@pytest.mark.room
@pytest.mark.parametrize("labels", [[10, 20, 30], ["a", "b", "c"]])
def test_frames_that_list_other_categories(labels):
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 40)
    frame = pd.DataFrame({"a": pd.Categorical.from_codes(code, labels), "b": rng.normal(size=40)})
    inner = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3, categorical_features="from_dtype")
    model = TransductiveClassifier(inner).fit(frame, (code == 1) ^ (rng.random(40) < 0.1))
    asked, listed = np.array(labels)[[0, 2]], np.array(labels)[[2, 0]]
    rows = [pd.DataFrame({"a": pd.Categorical(asked, names), "b": [0.0, 1.0]}) for names in (labels, listed)]
    np.testing.assert_array_equal(model.predict_proba(rows[0]), model.predict_proba(rows[1]))

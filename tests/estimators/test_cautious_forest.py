"""The cautious forest: its sets and intervals, and what it refuses."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, PureLeavesWarning
from tests._refusal import refusals

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*are in every tree's bag")]

X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
# Of a depth that gives all forests one shape, which is compiled once.
SMALL = RandomForestClassifier(20, min_samples_leaf=2, max_depth=4, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    """Cautious enough to be undecided about some."""
    return CautiousForestClassifier(SMALL, s=20, mass="leaf_size").fit(X, y)


@pytest.mark.room
def test_every_face_of_the_answer(fitted):
    vote = ju.bind(fitted.forest_, ju.GeneralizedVote(20, "leaf_size"))(X_test)
    sets = fitted.predict_set(X_test)
    np.testing.assert_array_equal(sets, ju.decisions.nondominated(vote))
    assert sets.dtype == bool
    assert 0 < ju.metrics.determinacy(sets) < 1
    assert ju.metrics.single_set_accuracy(sets, y_test) >= fitted.score(X_test, y_test)
    interval = fitted.predict_interval(X_test)
    for own, bound in zip(interval, ju.bind(fitted.forest_, ju.AveragedIntervals(20))(X_test), strict=True):
        np.testing.assert_array_equal(own, bound)
    probs = fitted.predict_proba(X_test)
    assert np.all((probs >= interval.lower) & (probs <= interval.upper))
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-6)
    predicted = fitted.predict(X_test)
    assert np.all(sets[np.arange(len(sets)), predicted]), "what is predicted is in the set"
    open_ones = sets.all(axis=1)
    np.testing.assert_array_equal(predicted[open_ones], np.argmax(probs[open_ones], axis=1))
    assert fitted.score(X_test, y_test) > 0.9


@pytest.mark.room
def test_explanations(fitted):
    why = fitted.explain(X_test)
    np.testing.assert_array_equal(why.largest_s >= 20, fitted.predict_set(X_test).sum(axis=1) == 1)
    np.testing.assert_allclose(why.support.sum(axis=1) + why.abstaining, 1, rtol=1e-6)
    assert why.abstaining_trees.shape == (len(X_test), 20)
    assert all(isinstance(part, np.ndarray) for part in why)
    changed = clone(fitted).fit(X, y).set_params(s=100)
    np.testing.assert_array_equal(changed.explain(X_test).abstaining, why.abstaining)


@pytest.mark.room
def test_answers_of_its_own_sample(fitted):
    assert fitted.oob_set_.shape == fitted.oob_decision_function_.shape == (len(y), 2)
    assert 0.9 < fitted.oob_score_ < 1
    honest = ju.metrics.single_set_accuracy(fitted.oob_set_, y)
    assert honest <= ju.metrics.single_set_accuracy(fitted.predict_set(X), y), "its own labels are in the leaves"
    assert not hasattr(clone(fitted).set_params(counts="inbag").fit(X, y), "oob_set_")


@pytest.mark.exhaustive
def test_grown_out_forests_decide_too_much_in_their_own_bags():
    """Why out-of-bag counts are the default: pure leaves hardly ever abstain."""
    grown_out = RandomForestClassifier(20, random_state=0)
    with pytest.warns(PureLeavesWarning) as caught:
        inbag = CautiousForestClassifier(grown_out, counts="inbag").fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert ju.metrics.determinacy(inbag.predict_set(X_test)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outside = CautiousForestClassifier(grown_out).fit(X, y)
    assert ju.metrics.determinacy(outside.predict_set(X_test)) < 1


@pytest.mark.room
def test_more_classes_text_labels_and_frames():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = CautiousForestClassifier(SMALL, s=4).fit(X, names)
    sets = model.predict_set(X)
    assert sets.shape == (150, 3)
    assert 1 < ju.metrics.set_size(sets) < 2
    assert model.score(X, names) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("counts", ["inbag", "train", "held_out"])
def test_other_counts_and_fitted_forests(counts):
    assert CautiousForestClassifier(SMALL, counts=counts, random_state=0).fit(X, y).score(X_test, y_test) > 0.9
    others = (X_test, y_test) if counts == "held_out" else (X, y)
    frozen = CautiousForestClassifier(FrozenEstimator(clone(SMALL).fit(X, y)), counts=counts).fit(*others)
    assert frozen.predict_set(X_test).any(axis=1).all()


def test_searches():
    utility = lambda model, X, y: float(ju.metrics.discounted_utility(model.predict_set(X), y))
    model = CautiousForestClassifier(SMALL, counts="train")
    assert GridSearchCV(model, {"s": [1, 200]}, cv=2, scoring=utility).fit(X, y).best_params_ == {"s": 1}


def fit(estimator=SMALL, **settings):
    return lambda: CautiousForestClassifier(estimator, **settings).fit(X, y)


test_refusals = refusals(
    ("s", fit(s=0), "s=0 must be a positive"),
    ("negative s", fit(s=-1.0), "s=-1.0 must be a positive"),
    ("several s", fit(s=np.ones(3)), r"s has shape \(3,\)"),
    ("mass", fit(mass="size"), "mass='size' is unknown"),
    ("counts", fit(counts="bag"), "counts='bag' is unknown"),
    ("no bags", fit(ExtraTreesClassifier(3)), "bootstrap=False"),
    ("a tree", fit(DecisionTreeClassifier()), "DecisionTreeClassifier has none"),
    (
        "a vote that names none",
        lambda: CombinedForestClassifier(SMALL, "generalized_vote", {"s": 1}).fit(X, y),
        "answers with Preference",
        TypeError,
    ),
)

"""scikit-learn's bags of transductive trees: what they answer, which data they take, and what is not possible."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, TransductiveTreeClassifier
from tests._refusal import refuses

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[Y]
TRAIN, TEST = slice(0, None, 2), slice(1, None, 10)


def bag(n: int = 4, **settings) -> BaggingClassifier:
    return BaggingClassifier(TransductiveTreeClassifier(), n, random_state=0, **settings)


@pytest.fixture(scope="module")
def fitted() -> BaggingClassifier:
    return bag().fit(X[TRAIN], WORDS[TRAIN])


def test_a_bag_is_the_mean_of_pools_over_its_samples(fitted):
    expected = []
    for rows in fitted.estimators_samples_:
        counts = ju.transduction.transductive_leaf_counts(X[TRAIN][rows], Y[TRAIN][rows], X[TEST]).sum(axis=1)
        expected.append(counts / counts.sum(axis=1, keepdims=True))
    probs = fitted.predict_proba(X[TEST])
    np.testing.assert_allclose(probs, np.mean(expected, axis=0), rtol=1e-6)
    assert fitted.predict(X[TEST]).tolist() == fitted.classes_[probs.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X[TEST]), probs)


def test_instances_out_of_bag():
    model = bag(12, oob_score=True).fit(X[TRAIN], WORDS[TRAIN])
    probs = np.zeros((75, 3))
    for rows, tree in zip(model.estimators_samples_, model.estimators_, strict=True):
        outside = np.setdiff1d(np.arange(75), rows)
        probs[outside] += tree.predict_proba(X[TRAIN][outside])
    expected = probs / probs.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.oob_decision_function_, expected, rtol=1e-6)
    assert model.oob_score_ == np.mean(expected.argmax(axis=1) == Y[TRAIN])


def test_frames_with_words_and_missing_values(rng):
    word = pd.Categorical(np.where(X[:, 2] > 4.9, "long", "short"))
    frame = pd.DataFrame({"word": word, "width": np.where(rng.random(150) < 0.2, np.nan, X[:, 3])})
    model = bag().fit(frame[TRAIN], WORDS[TRAIN])
    assert model.feature_names_in_.tolist() == ["word", "width"]
    assert model.estimators_[0].bound_.columns.is_nominal.tolist() == [True, False]
    assert model.score(frame[TEST], WORDS[TEST]) > 0.8
    # scikit-learn hands arrays to the trees of a bag, so that columns have places and no names.
    by_place = BaggingClassifier(TransductiveTreeClassifier(nominal=[0]), 2, random_state=0).fit(frame, WORDS)
    assert by_place.estimators_[0].bound_.columns.is_nominal.tolist() == [True, False]
    named = BaggingClassifier(TransductiveTreeClassifier(nominal=["word"]), 2, random_state=0)
    with refuses(ValueError, "columns without names"):
        named.fit(frame, WORDS)


def test_a_class_that_samples_lack_is_answered_and_a_sample_of_one_class_is_refused():
    rare = np.r_[Y[:100], 2]
    model = bag(6).fit(X[:101], rare)
    assert {len(tree.classes_) for tree in model.estimators_} == {2, 3}
    probs = model.predict_proba(X[100:101])
    np.testing.assert_allclose(probs.sum(), 1)
    assert probs[0, 2] > 0
    with refuses(ValueError, "1 class"):
        bag(30).fit(X[45:52], np.r_[[0] * 6, 1])


@pytest.mark.exhaustive
def test_processes_change_no_answer(fitted):
    side_by_side = bag(n_jobs=2).fit(X[TRAIN], WORDS[TRAIN])
    np.testing.assert_array_equal(side_by_side.predict_proba(X[TEST]), fitted.predict_proba(X[TEST]))


def test_what_is_not_possible_is_said(fitted, tmp_path):
    only = "only bags of single decision trees are forests"
    with refuses(TypeError, "pickle"):
        ju.save(tmp_path / "x", fitted)
    with refuses(TypeError, "BaggingClassifier; what streams is"):
        ju.stream(fitted, X)
    for take in (ju.from_sklearn, ju.from_any):
        with refuses(TypeError, only):
            take(fitted)
    with refuses(TypeError, only):
        CombinedForestClassifier(bag(2)).fit(X[TRAIN], Y[TRAIN])

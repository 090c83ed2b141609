"""Certainty by transduction as a classifier: scikit-learn's checks, blocks, nominal columns, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import jaxunc as ju
from jaxunc.estimators import TransductiveTreeClassifier
from jaxunc.transduction._grouped import KeptNodes
from tests._refusal import refuses

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)


@parametrize_with_checks([TransductiveTreeClassifier()])
@pytest.mark.exhaustive(keep=8)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
def test_answers_are_those_of_the_function_whatever_the_blocks():
    heard = []
    said = {"combiner": None, "progress": lambda now: heard.append(now[:2])}
    model = TransductiveTreeClassifier(block_size=20, **said).fit(X[::2], Y[::2])
    np.testing.assert_array_equal(model.predict_proba(X[1::2]), ju.transductive_certainty(X[::2], Y[::2], X[1::2]))
    assert heard == [(20, 75), (40, 75), (60, 75), (75, 75)]
    pooled = TransductiveTreeClassifier(combiner=ju.Pooling()).fit(X[::2], Y[::2])
    np.testing.assert_allclose(pooled.predict_proba(X[1::2]), ju.Pooling().probability(model.leaf_counts(X[1::2])))


def test_leaves_are_counted_together_unless_another_rule_is_asked_for():
    model = TransductiveTreeClassifier().fit(X[::2], Y[::2])
    counts = model.leaf_counts(X[1::2])
    together = counts.sum(axis=1)
    probs = model.predict_proba(X[1::2])
    np.testing.assert_allclose(probs, together / together.sum(axis=1, keepdims=True), rtol=1e-6)
    assert probs.min() > 0, "one instance of each class is in every pool"
    published = TransductiveTreeClassifier(combiner=None).fit(X[::2], Y[::2])
    assert published.combiner_ is None
    expected = ((counts + 1) / (counts.sum(axis=2, keepdims=True) + 3)).mean(axis=1)
    np.testing.assert_allclose(published.predict_proba(X[1::2]), expected, rtol=1e-12)


def test_frames_with_words(rng):
    word = rng.choice(["a", "b", "c"], 120)
    frame = pd.DataFrame({"number": rng.normal(size=120), "word": pd.Series(word, dtype=object)})
    y = np.where(word == "a", "yes", "no")
    model = TransductiveTreeClassifier().fit(frame, y)
    assert model.score(frame, y) == 1
    assert np.all(np.isfinite(model.predict_proba(frame.assign(word="unheard", number=np.nan))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"block_size": 0}, "block_size"), ({"candidates": "few"}, "Choose"), ({"min_samples_leaf": 0}, "at least 1")],
)
def test_refusals(settings, message):
    with refuses(ValueError, message):
        TransductiveTreeClassifier(**settings).fit(X, Y)


@pytest.mark.parametrize("name", ["mean", "laplace", "pooling", "evidence", "plausibility-p"])
@pytest.mark.exhaustive(keep=1)
def test_rules_by_name(name):
    two = Y[:100]
    model = TransductiveTreeClassifier(combiner=name).fit(X[:100:2], two[::2])
    counts = model.leaf_counts(X[1:100:2])
    rule = ju.combiners.combiner_by_name(name, prior=[0.5, 0.5], n_samples=50)
    np.testing.assert_array_equal(model.predict_proba(X[1:100:2]), rule.probability(counts))


@pytest.mark.parametrize(
    ("combiner", "error", "message"),
    [
        ("meen", ValueError, "Did you mean 'mean'"),
        (3, TypeError, "pass a rule"),
        (ju.AveragedIntervals(1.0), TypeError, "leaf_counts"),
        (ju.Mean(ju.scorers.linear), ValueError, "no probabilities"),
        (ju.LearnedPool([0.3, 0.3, 0.4], reads=("own", "oob")), ValueError, "reads the counts"),
    ],
)
def test_rules_without_an_answer_are_refused_by_fit(combiner, error, message):
    with refuses(error, message):
        TransductiveTreeClassifier(combiner=combiner).fit(X, Y)


@pytest.mark.exhaustive
def test_what_is_kept_of_earlier_calls_changes_no_answer():
    rounded = np.round(X, 1)
    rounded[::7, 2] = np.nan
    model = TransductiveTreeClassifier(nominal=[3]).fit(rounded[::2], Y[::2])
    expected = ju.transduction.transductive_leaf_counts(rounded[::2], Y[::2], rounded[1::2], nominal=[3])
    for _ in range(2):
        found = np.concatenate([model.leaf_counts(rounded[i : i + 1]) for i in range(1, 150, 2)])
        np.testing.assert_array_equal(found, expected)
    assert model.bound_._kept.find(np.ones(75, bool)) is not None


def test_nodes_are_kept_while_there_is_room():
    model = TransductiveTreeClassifier().fit(X, Y)
    model.bound_._kept = full = KeptNodes(100)
    model.predict(X[:3])
    assert full.find(np.ones(150, bool)) is None


def test_progress_may_be_set_after_fit_and_is_checked():
    model = TransductiveTreeClassifier().fit(X, Y)
    heard = []
    model.set_params(progress=lambda now: heard.append(now[:2])).predict(X[:3])
    assert heard == [(3, 3)]
    with refuses(TypeError, "progress=3"):
        model.set_params(progress=3).predict(X[:3])
    with refuses(TypeError, "TransductiveTreeClassifier takes names"):
        ju.transductive_certainty(X, Y, X[:1], combiner="mean")

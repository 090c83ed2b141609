"""Certainty by transduction as a classifier: scikit-learn's checks, blocks, nominal columns, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import jaxunc as ju
from jaxunc.estimators import TransductiveTreeClassifier
from tests._refusal import refuses

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)


@parametrize_with_checks([TransductiveTreeClassifier()])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_answers_are_those_of_the_function_whatever_the_blocks():
    heard = []
    model = TransductiveTreeClassifier(block_size=20, progress=lambda *done: heard.append(done)).fit(X[::2], Y[::2])
    np.testing.assert_array_equal(model.predict_proba(X[1::2]), ju.transductive_certainty(X[::2], Y[::2], X[1::2]))
    assert heard == [(20, 75), (40, 75), (60, 75), (75, 75)]
    pooled = TransductiveTreeClassifier(combiner=ju.Pooling()).fit(X[::2], Y[::2])
    np.testing.assert_allclose(pooled.predict_proba(X[1::2]), ju.Pooling().probability(model.leaf_counts(X[1::2])))


def test_frames_with_words(rng):
    word = rng.choice(["a", "b", "c"], 120)
    frame = pd.DataFrame({"number": rng.normal(size=120), "word": pd.Series(word, dtype=object)})
    y = np.where(word == "a", "yes", "no")
    model = TransductiveTreeClassifier().fit(frame, y)
    assert model.score(frame, y) == 1
    assert np.all(np.isfinite(model.predict_proba(frame.assign(word="unheard", number=np.nan))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"block_size": 0}, "block_size"), ({"candidates": "few"}, "Choose"), ({"min_leaf": 0}, "at least 1")],
)
def test_refusals(settings, message):
    with refuses(ValueError, message):
        TransductiveTreeClassifier(**settings).fit(X, Y)

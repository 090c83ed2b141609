"""Logarithms of the probabilities of every classifier."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from jaxunc import estimators
from tests.estimators._models import MODELS, sample

KINDS = MODELS | {"any classifier": lambda: estimators.TransductiveClassifier(LogisticRegression(C=1e-4))}


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.exhaustive(keep=3)
@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
def test_are_those_of_its_probabilities(name):
    rows, labels = sample()
    model = KINDS[name]().fit(rows, labels)
    probs, logs = model.predict_proba(rows[:12]), model.predict_log_proba(rows[:12])
    assert logs.shape == probs.shape
    np.testing.assert_allclose(np.exp(logs), probs, rtol=2e-6, atol=1e-7)
    np.testing.assert_array_equal(np.isneginf(logs), probs == 0)


@pytest.mark.room
def test_are_infinite_where_a_product_leaves_no_probability_as_scikit_learn_asks():
    X, y = (part[:120] for part in load_breast_cancer(return_X_y=True))
    forest = RandomForestClassifier(400, min_samples_leaf=8, random_state=0)
    model = estimators.CombinedForestClassifier(forest, combiner="evidence").fit(X, y)
    logs, finite = model.predict_log_proba(X), np.asarray(model.bound_.log_probability(X))
    lost = model.predict_proba(X) == 0
    assert lost.any()
    assert np.isneginf(logs[lost]).all()
    assert np.isfinite(finite).all()
    np.testing.assert_allclose(logs[~lost], finite[~lost], rtol=1e-4, atol=1e-6)

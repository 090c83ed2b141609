"""Classifiers, streams and scorers compile nothing for further numbers of instances."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc import estimators
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier
from tests._compilations import compilations
from tests._exhaustive import a_few_of

pytestmark = pytest.mark.once

FIRST, MOST = (1, 2, 3, 5, 9, 17, 33, 60, 100, 200, 300, 500, 900), 900
OTHERS = tuple(np.random.default_rng(0).permutation(np.arange(1, MOST))[:15])
Y = np.random.default_rng(1).integers(0, 3, MOST)
X = (np.random.default_rng(2).normal(size=(MOST, 4)) + Y[:, None]).astype(np.float32)
FOREST = RandomForestClassifier(5, max_depth=4, random_state=0)
ALL = ["class", "probability", "uncertainty", "interval", "set", "trees_polled"]

CLASSIFIERS = {
    "learned": (CombinedForestClassifier(FOREST, combiner="learned"), ["predict_uncertainty", "predict_polled"], ALL),
    "cautious": (CautiousForestClassifier(FOREST), ["predict_set", "predict_interval", "explain"], None),
    "random": (estimators.RandomDecisionTreesClassifier(4, random_state=0), ["decision_function"], None),
    "transductive": (estimators.TransductiveTreeClassifier(combiner=None), ["leaf_counts"], None),
    "transductive, by a rule": (estimators.TransductiveTreeClassifier(), [], None),
}


@pytest.mark.parametrize("name", a_few_of(CLASSIFIERS, ["random"]))
@pytest.mark.room
def test_classifiers(name):
    model, further, outputs = CLASSIFIERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few trees leave instances in every bag
        model.fit(X[:150], Y[:150])
    is_slow = name.startswith("transductive")
    calls = [getattr(model, method) for method in ("predict", "predict_proba", *further)]

    def ask(n):
        data = X[: min(n, 70)] if is_slow else X[:n]  # on the host, one by one
        for call in calls:
            call(data)
        list(ju.stream(model, data, outputs=outputs))

    for n in FIRST + ((400, 700) if outputs else ()):  # of votes the rounds of those that are left, too
        ask(n)
    with compilations() as names:
        for n in OTHERS:
            ask(n)
    assert names == []

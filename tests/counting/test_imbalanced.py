"""Forests of imbalanced-learn: their bags are of rows that were sampled anew, and tell no row that was left out."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.room]
SAID = "samples by class first.*counts='held_out' or 'inbag'.*balanced_subsample"


def stand_in(**settings):
    """A forest of a class that says it is imbalanced-learn's, where that is not installed."""
    return type("BalancedForest", (RandomForestClassifier,), {"__module__": "imblearn.ensemble"})(**settings)


def real(**settings):
    ensemble = pytest.importorskip("imblearn.ensemble")
    return ensemble.BalancedRandomForestClassifier(sampling_strategy="all", replacement=True, **settings)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    return X, (X[:, 0] + rng.normal(size=300) > 1).astype(int)


@pytest.mark.parametrize("make", [stand_in, real])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_bags_are_refused_by_name(make, bootstrap):
    (X, y), settings = data(), {"n_estimators": 5, "bootstrap": bootstrap, "random_state": 0}
    model = make(**settings).fit(X, y)
    for call in (
        lambda: ju.counting.oob_mask(model, len(y), X=X, y=y),
        lambda: CombinedForestClassifier(model, counts="oob").fit(X, y),
        lambda: CombinedForestClassifier(FrozenEstimator(model), counts="oob").fit(X, y),
    ):
        refuses(ValueError, SAID, call)
    found = ju.bind(ju.from_any(model), ju.Mean()).probability(X)
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-6)
    held_out = CombinedForestClassifier(model, combiner="mean", counts="held_out").fit(X, y)
    assert np.isfinite(held_out.predict_proba(X)).all()


def test_other_ensembles_of_it_are_refused():
    ensemble = pytest.importorskip("imblearn.ensemble")
    X, y = data()
    for kind, said in (
        (ensemble.BalancedBaggingClassifier, "bag of Pipeline"),
        (ensemble.EasyEnsembleClassifier, "bag of Pipeline"),
        (ensemble.RUSBoostClassifier, "is a RUSBoostClassifier; from_sklearn imports"),
    ):
        refuses(TypeError, said, ju.from_any, kind(n_estimators=2, random_state=0).fit(X, y))

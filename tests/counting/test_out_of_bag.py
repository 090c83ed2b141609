"""Which rows a tree has not seen: only of the rows that grew it, in their order.

Forests of imbalanced-learn, whose bags are of rows that were sampled anew, tell no row that was left out.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.counting import describe_lost_rows
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier
from tests._refusal import refuses

pytestmark = pytest.mark.once

REASON = "are not the rows that this .*Classifier was grown on, in their order"
FORESTS = {
    "forest": RandomForestClassifier(8, random_state=0),
    "large leaves": RandomForestClassifier(8, min_samples_leaf=20, random_state=0),
    "balanced": RandomForestClassifier(8, class_weight="balanced", random_state=0),
    "balanced bags": RandomForestClassifier(8, class_weight="balanced_subsample", random_state=0),
    "weights of classes": RandomForestClassifier(8, class_weight={"a": 3.0, "b": 0.5, "c": 1.0}, random_state=0),
    "small bags": ExtraTreesClassifier(8, bootstrap=True, max_samples=70, random_state=0),
    "pruned": RandomForestClassifier(8, ccp_alpha=0.01, random_state=0),
    "features": BaggingClassifier(DecisionTreeClassifier(), 8, max_features=0.5, random_state=0),
    "parts": BaggingClassifier(DecisionTreeClassifier(), 8, bootstrap=False, max_samples=54, random_state=0),
    "bag": BaggingClassifier(DecisionTreeClassifier(class_weight="balanced"), 8, max_samples=12, random_state=0),
}


def table(n: int = 180) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(n, 6, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_rows_of_a_forest_are_known(name, weighted):
    (X, y), rng = table(), np.random.default_rng(1)
    weighted &= name != "parts"  # of which scikit-learn warns
    weight = rng.random(len(y)) * (rng.random(len(y)) < 0.8) if weighted else None
    model = FORESTS[name].fit(X, y, sample_weight=weight)
    plain = ju.counting.oob_mask(model, len(y))
    for given in (None, weight, np.ones(len(y)), rng.random(len(y))):
        np.testing.assert_array_equal(ju.counting.oob_mask(model, len(y), X=X, y=y, sample_weight=given), plain)
    p = rng.permutation(len(y))
    orders = [(X[p], y[p]), (X[::-1], y[::-1])] + [(X, y[p])] * (name != "bag")  # whose leaves hold few rows
    for rows, labels in orders:
        refuses(ValueError, REASON, ju.counting.oob_mask, model, len(y), X=rows, y=labels)


def test_monotonic_trees_are_known_and_labels_for_other_rows_refused():
    """Their values are no frequencies: the leaves' sizes tell."""
    X, y = table()
    X, y = np.nan_to_num(X), y == "a"
    model = RandomForestClassifier(8, monotonic_cst=[1, 0, 0, 0, 0, -1], random_state=0).fit(X, y)
    assert ju.counting.oob_mask(model, len(y), X=X, y=y).shape == (len(y), 8)
    for rows, labels, words in ((X[::-1], y[::-1], REASON), (X[:-1], y, "labels for")):
        refuses(ValueError, words, ju.counting.oob_mask, model, len(y), X=rows, y=labels)


COMBINED = ({}, {"combiner": "learned"}, {"combiner": "mean", "counts": "oob"})


@pytest.mark.parametrize(
    "make", [*(partial(CombinedForestClassifier, **of) for of in COMBINED), CautiousForestClassifier]
)
@pytest.mark.exhaustive(keep=1)
def test_estimators_refuse_rows_in_another_order(make):
    X, y = table()
    model = RandomForestClassifier(50, random_state=0).fit(X, y)
    p = np.random.default_rng(0).permutation(len(y))
    refuses(ValueError, REASON, lambda: make(FrozenEstimator(model)).fit(X[p], y[p]))


SAID = "samples by class first.*counts='held_out' or 'inbag'.*balanced_subsample"


def imbalanced_stand_in(**settings):
    """A forest of a class that says it is imbalanced-learn's, where that is not installed."""
    return type("BalancedForest", (RandomForestClassifier,), {"__module__": "imblearn.ensemble"})(**settings)


def imbalanced(**settings):
    ensemble = pytest.importorskip("imblearn.ensemble")
    return ensemble.BalancedRandomForestClassifier(sampling_strategy="all", replacement=True, **settings)


def imbalanced_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    return X, (X[:, 0] + rng.normal(size=300) > 1).astype(int)


@pytest.mark.room
@pytest.mark.parametrize("make", [imbalanced_stand_in, imbalanced])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_bags_are_refused_by_name(make, bootstrap):
    (X, y), settings = imbalanced_data(), {"n_estimators": 5, "bootstrap": bootstrap, "random_state": 0}
    model = make(**settings).fit(X, y)
    refuses(ValueError, SAID, ju.counting.oob_mask, model, len(y), X=X, y=y)
    for of in (model, FrozenEstimator(model)):
        refuses(ValueError, SAID, CombinedForestClassifier(of, counts="oob").fit, X, y)
    found = ju.bind(ju.from_any(model), ju.Mean()).probability(X)
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-6)
    held_out = CombinedForestClassifier(model, combiner="mean", counts="held_out").fit(X, y)
    assert np.isfinite(held_out.predict_proba(X)).all()


@pytest.mark.room
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("BalancedBaggingClassifier", "bag of Pipeline"),
        ("EasyEnsembleClassifier", "bag of Pipeline"),
        ("RUSBoostClassifier", "is a RUSBoostClassifier; from_sklearn imports"),
    ],
)
def test_other_ensembles_of_it_are_refused(kind, said):
    made = getattr(pytest.importorskip("imblearn.ensemble"), kind)(n_estimators=2, random_state=0)
    refuses(TypeError, said, ju.from_any, made.fit(*imbalanced_data()))


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ((3, 0, 1), " (3 of 4 of class 'a', 1 of 10 of class 'c', 0 of 6 of class 'b')"),
        ((2, 0, 0), ""),
        ((4, 3, 5), ""),
        ((0, 0, 0), ""),
    ],
    ids=["one class", "few", "all alike", "none"],
)
def test_classes_that_lose_more_rows_than_others(lost, said):
    """Of 4, 6 and 10 rows: three, and more than twice the share of all."""
    kept = np.concatenate([np.arange(size) >= gone for size, gone in zip((4, 6, 10), lost, strict=True)])
    assert describe_lost_rows(kept, np.repeat([0, 1, 2], (4, 6, 10)), ("a", "b", "c")) == said

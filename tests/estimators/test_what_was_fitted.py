"""What was fitted stays: no answer depends on parameters, or on the given forest, of now."""

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

import jaxunc as ju
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveClassifier,
    TransductiveTreeClassifier,
)
from tests._refusal import refuses

pytestmark = pytest.mark.once

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=200) > 0).astype(int)


def forest(**settings) -> RandomForestClassifier:
    return RandomForestClassifier(50, min_samples_leaf=5, random_state=0, **settings)


def polled(model) -> np.ndarray:
    return model.predict_polled(X[:30], confidence=0.9, prior="fitted", training=(X, Y)).n_trees_used


@pytest.mark.exhaustive
def test_the_prior_of_votes_belongs_to_the_fit(tmp_path):
    given = forest().fit(X, Y)
    model = CombinedForestClassifier(FrozenEstimator(given), "mean").fit(X, Y)
    before = polled(model)
    model.set_params(counts="oob", combiner="vote")
    np.testing.assert_array_equal(polled(model), before)
    np.testing.assert_array_equal(polled(pickle.loads(pickle.dumps(model))), before)
    model.set_params(estimator=RandomForestClassifier(3), counts="inbag")
    np.testing.assert_array_equal(polled(model), before)
    ju.save(tmp_path / "model.safetensors", model.set_params(estimator=None))
    refuses(ValueError, "came from a file, which keeps none", lambda: polled(ju.load(tmp_path / "model.safetensors")))
    given.set_params(random_state=1).fit(X, Y)
    refuses(ValueError, "was fitted again since", polled, model)


@pytest.mark.room
def test_sparse_training_rows():
    thin: Any = scipy.sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    model, dense = CombinedForestClassifier(forest(), "mean").fit(thin, Y), thin.toarray()
    expected = model.predict_polled(dense, confidence=0.9, prior="fitted", training=(dense, Y))
    assert expected.n_trees_used.max() <= 50
    for asked, trained in ((dense, thin), (thin, dense), (thin.tocsc(), thin.tocoo())):
        found = model.predict_polled(asked, confidence=0.9, prior="fitted", training=(trained, Y))
        np.testing.assert_array_equal(found.predicted, expected.predicted)
        np.testing.assert_array_equal(found.n_trees_used, expected.n_trees_used)


@pytest.mark.room
def test_missing_values_are_those_of_the_fit():
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    for before, after in (("random", "error"), ("error", "random")):
        model = RandomDecisionTreesClassifier(3, missing=before, random_state=0).fit(X, Y).set_params(missing=after)
        assert get_tags(model).input_tags.allow_nan == (before == "random")
        if before == "error":
            refuses(ValueError, "is NaN", model.predict, holes)
        else:
            assert len(model.predict(holes)) == 200


@pytest.mark.exhaustive
def test_weights_of_one_are_no_weights():
    sets = {}
    for weight in (None, np.ones(200), np.full(200, 2.0)):
        model = CautiousForestClassifier(FrozenEstimator(forest().fit(X, Y))).fit(X, Y, sample_weight=weight)
        sets[None if weight is None else weight[0]] = model.predict_set(X)
        counts = np.asarray(model.forest_.counts)
        np.testing.assert_array_equal(counts, np.rint(counts))
    np.testing.assert_array_equal(sets[None], sets[1.0])
    np.testing.assert_array_equal(sets[None], sets[2.0])
    default = CombinedForestClassifier(FrozenEstimator(forest().fit(X, Y)))
    learned = [default.fit(X, Y, sample_weight=weight).predict_proba(X) for weight in (None, np.ones(200))]
    np.testing.assert_array_equal(learned[0], learned[1])


@pytest.mark.exhaustive
def test_weights_are_repeats_for_what_is_learned():
    rows = ju.learning.oob_dataset(forest().fit(X[:100], Y[:100]), X[100:], Y[100:], source="held_out")
    counts = np.asarray(rows.histograms.count_table)[np.asarray(rows.histograms.code)[:100, :1]]
    once = ju.learning.dataset_from_counts(counts, Y[100:], sample_weight=np.full(100, 3))
    often = ju.learning.dataset_from_counts(np.repeat(counts, 3, 0), np.repeat(Y[100:], 3))
    learned = [ju.learning.fit_combiner(ju.LearnedPool(one.prior), one) for one in (once, often)]
    found = [np.asarray(one.combiner.probability(counts)) for one in learned]
    np.testing.assert_allclose(found[0], found[1], atol=2e-3)


@pytest.mark.room
def test_rows_of_a_class_that_is_in_every_bag():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 4)).astype(np.float32)
    rare = (rows[:, 0] + rng.normal(size=600) > 2.4).astype(int)
    balanced = forest(class_weight="balanced")
    with pytest.warns(UserWarning, match=r"rows of class 1 are out of .* of 50 bags .*the combiner is 'mixture'"):
        model = CombinedForestClassifier(balanced).fit(rows, rare)
    np.testing.assert_array_equal(
        model.predict_proba(rows), CombinedForestClassifier(balanced, "mixture").fit(rows, rare).predict_proba(rows)
    )
    for refused in (CombinedForestClassifier(balanced, "learned"), CautiousForestClassifier(balanced)):
        refuses(ValueError, "class_weight='balanced_subsample'", refused.fit, rows, rare)


ESTIMATORS = [
    RandomDecisionTreesClassifier(2),
    CombinedForestClassifier(RandomForestClassifier(2)),
    CautiousForestClassifier(RandomForestClassifier(2)),
    TransductiveClassifier(RandomForestClassifier(2)),
    TransductiveTreeClassifier(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_what_is_masked_or_absent_is_refused(estimator):
    X, masked = np.arange(24.0).reshape(12, 2), np.arange(12) < 3
    y, weight = np.arange(12) % 2, np.ma.array(np.where(masked, 1e6, 1.0), mask=masked)
    for name in {"sample_weight", "groups"} & {*inspect.signature(estimator.fit).parameters}:
        refuses(TypeError, f"{name} is a masked array", estimator.fit, X, y, **{name: weight})
    labels = np.ma.array(y, mask=masked)
    for odd in (labels, labels[:, None]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refuses(ValueError, "NaN", estimator.fit, X, odd)
    for data in (X, pd.DataFrame(X), {"a": X[:, 0]}):
        refuses(ValueError, "requires y to be passed, but the target y is None", estimator.fit, data, None)


@pytest.mark.exhaustive
def test_groups_of_the_fit():
    groups = np.repeat(np.arange(100), 2)
    model = CombinedForestClassifier(forest(), "mean", counts="oob").fit(X, Y, groups=groups)
    alone = CombinedForestClassifier(forest(), "mean", counts="oob").fit(X, Y, groups=range(200))
    plain = CombinedForestClassifier(forest(), "mean", counts="oob").fit(X, Y)
    np.testing.assert_array_equal(alone.oob_decision_function_, plain.oob_decision_function_)
    assert not np.array_equal(model.oob_decision_function_, plain.oob_decision_function_)
    learned = CombinedForestClassifier(forest(), "learned").fit(X, Y, groups=groups)
    rows = ju.learning.oob_dataset(learned.estimator_, X, Y, counts="both", groups=groups)
    again = ju.learning.fit_combiner(ju.LearnedPool(rows.prior, reads=rows.count_sets), rows)
    np.testing.assert_array_equal(rows.bind(again.combiner).probability(X), learned.predict_proba(X))
    CautiousForestClassifier(forest(), counts="held_out", random_state=0).fit(X, Y, groups=groups)

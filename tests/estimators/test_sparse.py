"""Classifiers are fitted on sparse data and answer them as the same dense ones."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from jaxunc.counting import PureLeavesWarning
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, RandomDecisionTreesClassifier
from tests._refusal import refuses
from tests._sparse import sparse_data, sparse_labels, sparse_model

pytestmark = pytest.mark.once

X, Y = sparse_data(), sparse_labels(2)
FORESTS = {
    "forest": RandomForestClassifier(12, max_depth=3, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(max_depth=3), 12, max_features=0.5, random_state=0),
}


def fitted(kind, forest, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PureLeavesWarning)
        warnings.filterwarnings("ignore", "[0-9]+ of 300 training instances are in every tree's bag")
        return [kind(forest, random_state=0, **settings).fit(data, Y) for data in (X, X.toarray())]


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize("counts", ["inbag", "train", "oob", "held_out"])
@pytest.mark.exhaustive(keep=3)
def test_counts(forest, counts):
    sparse, dense = fitted(CombinedForestClassifier, FORESTS[forest], combiner="mean", counts=counts)
    for model in (sparse, dense):
        for ask in ("predict_proba", "predict", "decision_function"):
            np.testing.assert_array_equal(getattr(model, ask)(X), getattr(model, ask)(X.toarray()))
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=1e-6)
    if counts == "oob":
        assert sparse.oob_score_ == dense.oob_score_


@pytest.mark.exhaustive
def test_what_is_learned_and_sets_of_classes():
    sparse, dense = fitted(CombinedForestClassifier, FORESTS["forest"], combiner="learned")
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(sparse.predict_polled(X).predicted, sparse.predict_polled(X.toarray()).predicted)
    parts = sparse.predict_uncertainty(X)
    np.testing.assert_array_equal(parts.total, sparse.predict_uncertainty(X.toarray()).total)
    sparse, dense = fitted(CautiousForestClassifier, FORESTS["forest"])
    for ask in ("predict_set", "predict", "predict_proba"):
        np.testing.assert_array_equal(getattr(sparse, ask)(X), getattr(sparse, ask)(X.toarray()))
    np.testing.assert_array_equal(sparse.predict_set(X), dense.predict_set(X))
    np.testing.assert_array_equal(sparse.predict_interval(X).lower, sparse.predict_interval(X.toarray()).lower)
    assert sparse.explain(X[:1]) is not None


@pytest.mark.parametrize("form", [scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_formats_duplicates_and_long_indices(form):
    model = CombinedForestClassifier(FORESTS["forest"], "mean", random_state=0).fit(form(X), Y)
    expected = model.predict_proba(X.toarray())
    np.testing.assert_array_equal(model.predict_proba(form(X)), expected)
    twice = scipy.sparse.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    twice.indices, twice.indptr = twice.indices.astype(np.int64), twice.indptr.astype(np.int64)
    np.testing.assert_array_equal(model.predict_proba(twice), expected)
    again = CombinedForestClassifier(FORESTS["forest"], "mean", random_state=0).fit(twice, Y)
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert len(twice.data) == 2 * X.nnz


def test_fitted_forests_and_missing_values():
    model = CombinedForestClassifier(FrozenEstimator(sparse_model(2)), "mean").fit()
    np.testing.assert_allclose(model.predict_proba(X), sparse_model(2).predict_proba(X), atol=1e-6)
    missing = sparse_data(missing=True)
    np.testing.assert_array_equal(model.predict_proba(missing), model.predict_proba(missing.toarray()))
    with refuses(ValueError, "NaN"):  # scikit-learn's trees grow on none that are sparse
        CombinedForestClassifier(FORESTS["forest"], "mean").fit(missing, Y)


@pytest.mark.room
def test_tags_and_what_stays_dense():
    assert get_tags(CombinedForestClassifier()).input_tags.sparse
    assert get_tags(CautiousForestClassifier(DecisionTreeClassifier())).input_tags.sparse
    assert not get_tags(RandomDecisionTreesClassifier()).input_tags.sparse
    refuses(TypeError, r"[Ss]parse data was passed.*toarray", RandomDecisionTreesClassifier(3).fit, X, Y)
    with refuses(TypeError, r"[Ss]parse data was passed.*toarray"):
        RandomDecisionTreesClassifier(3).fit(X.toarray(), Y).predict(X)

"""Sparse instances through models whose leaves hold values: float32 and float64 comparisons, several outputs."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestRegressor

import jaxunc as ju
from tests._sparse import sparse_data, sparse_labels

pytestmark = pytest.mark.once


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_trees(n_classes):
    X, y = sparse_data(), sparse_labels(n_classes)
    model = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0).fit(X, y)
    ensemble = ju.from_sklearn_values(model)
    for ask in (ensemble.raw, ensemble.predict, ensemble.leaf_values):
        np.testing.assert_array_equal(ask(X), ask(X.toarray()))
    np.testing.assert_allclose(ensemble.predict(X.tocsc()), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(list(ensemble.staged(X))[-1], list(ensemble.staged(X.toarray()))[-1])


def test_regressors():
    X, y = sparse_data(), sparse_data().toarray()[:, :2]
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y)
    ensemble = ju.from_sklearn_values(model)
    np.testing.assert_array_equal(ensemble.predict(X), ensemble.predict(X.toarray()))


def test_float64_comparisons():
    """Histogram-based boosting compares float64: a value next to a threshold is not rounded on its way."""
    dense = sparse_data(missing=True).toarray()
    model = HistGradientBoostingClassifier(max_iter=5, max_depth=3, random_state=0).fit(dense, sparse_labels(2))
    ensemble = ju.from_sklearn_values(model)
    assert ensemble.columns.cuts is not None
    near = dense.copy()
    for j, cuts in enumerate(ensemble.columns.cuts):
        if cuts is not None and len(cuts):
            near[::3, j] = cuts[0]
            near[1::3, j] = np.nextafter(cuts[0], np.inf)
    for X in (dense, near):
        data = scipy.sparse.csr_array(X)
        np.testing.assert_array_equal(ensemble.raw(data), ensemble.raw(X))
        np.testing.assert_array_equal(ju.leaf_index(ensemble.trees, data), ju.leaf_index(ensemble.trees, X))
    infinite = np.where(np.arange(dense.shape[1]) == 1, np.inf, dense)
    np.testing.assert_array_equal(ensemble.raw(scipy.sparse.csr_array(infinite)), ensemble.raw(infinite))

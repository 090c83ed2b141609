"""Sparse instances are counted as the same dense ones."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from tests._refusal import refuses
from tests._sparse import sparse_data, sparse_forest, sparse_labels, sparse_model

pytestmark = pytest.mark.once

X, Y = sparse_data(), sparse_labels(3)


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_recount(form):
    data, mask = form(X), np.arange(300 * 12).reshape(300, 12) % 3 > 0
    weights = 1.0 + np.arange(300) % 4
    for how in ({}, {"tree_mask": mask}, {"sample_weight": weights}, {"leaves": ju.leaf_index(sparse_forest(3), data)}):
        found, expected = (ju.count_leaves(sparse_forest(3), x, Y, **how) for x in (data, X.toarray()))
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.prior, expected.prior)
        assert found.trees.columns == sparse_forest(3).trees.columns
    refuses(ValueError, "y has 299 labels for 300 instances", lambda: ju.count_leaves(sparse_forest(3), data, Y[:-1]))


@pytest.mark.room
def test_leave_one_out():
    mask = ju.counting.oob_mask(sparse_model(3), 300, X=X, y=Y)
    counted = ju.count_leaves(sparse_forest(3), X, Y, tree_mask=mask)
    found, expected = (ju.counting.leave_one_out(counted, ju.Mean(), x, Y, tree_mask=mask) for x in (X, X.toarray()))
    np.testing.assert_array_equal(found.probability, expected.probability)


def test_bags_are_checked():
    """By scikit-learn's own leaves of sparse instances, also where each tree saw some columns only."""
    bag = BaggingClassifier(DecisionTreeClassifier(max_depth=3), 8, max_features=0.5, random_state=0).fit(X, Y)
    for model in (sparse_model(3), bag):
        mask = ju.counting.oob_mask(model, 300, X=X.tocsc(), y=Y)
        np.testing.assert_array_equal(mask, ju.counting.oob_mask(model, 300, X=X.toarray(), y=Y))
        with refuses(ValueError, "not the rows that this .* was grown on"):
            ju.counting.oob_mask(model, 300, X=X[::-1].tocsr(), y=Y)
        refuses(ValueError, "y has 299 labels for 300 instances", ju.counting.oob_mask, model, 300, X=X, y=Y[:-1])


def test_a_forest_that_was_fitted_on_sparse_data():
    """The same trees as of dense data, with the same counts; answers are scikit-learn's own."""
    model, forest = sparse_model(3), sparse_forest(3)
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    leaves = np.asarray(ju.leaf_index(forest, X))
    for t, own in enumerate(model.apply(X).T):
        assert len(np.unique(np.stack([own, leaves[:, t]]), axis=1).T) == len(np.unique(own))

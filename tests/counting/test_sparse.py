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
    data, mask, weights = form(X), np.arange(300 * 12).reshape(300, 12) % 3 > 0, 1.0 + np.arange(300) % 4
    for how in ({}, {"tree_mask": mask}, {"sample_weight": weights}, {"leaves": ju.leaf_index(sparse_forest(3), data)}):
        found, expected = (ju.count_leaves(sparse_forest(3), x, Y, **how) for x in (data, X.toarray()))
        np.testing.assert_array_equal(found.counts, expected.counts)
        np.testing.assert_array_equal(found.prior, expected.prior)
        assert found.trees.columns == sparse_forest(3).trees.columns


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
        words = "not the rows that this .* was grown on"
        refuses(ValueError, words, ju.counting.oob_mask, model, 300, X=X[::-1].tocsr(), y=Y)

"""Both kinds of counts in one forest."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.counting import both_counts
from tests._forests import toy_data
from tests._refusal import refuses


@pytest.fixture(scope="module")
def counted():
    X, y = toy_data(3)
    model = RandomForestClassifier(8, random_state=0).fit(X, y)
    inbag = ju.from_sklearn(model)
    return X, inbag, ju.recount(inbag, X, y, tree_mask=ju.oob_mask(model, len(y)))


def test_counts_stand_side_by_side(counted):
    X, inbag, out = counted
    both = both_counts(inbag, out)
    assert (both.n_classes, both.count_kinds) == (3, 2)
    np.testing.assert_array_equal(both.counts[..., :3], inbag.counts)
    np.testing.assert_array_equal(both.counts[..., 3:], out.counts)
    np.testing.assert_array_equal(ju.leaf_counts(both, X[:9])[..., :3], ju.leaf_counts(inbag, X[:9]))
    assert not np.asarray(both.count_table[0]).any()


def test_rules_are_bound_to_the_counts_that_they_read(counted):
    X, inbag, out = counted
    both = both_counts(inbag, out)
    pool = ju.LearnedPool(inbag.prior, both=True, inbag_weight=1e6)
    np.testing.assert_allclose(ju.bind(both, pool).probability(X), ju.bind(inbag, ju.Mean()).probability(X), atol=1e-4)
    with refuses(ValueError, "Mean reads one kind of counts"):
        ju.bind(both, ju.Mean())
    with refuses(ValueError, "LearnedPool reads in-bag and out-of-bag"):
        ju.bind(inbag, pool)


def test_other_trees_are_refused(counted):
    _, inbag, out = counted
    other = ju.from_sklearn(RandomForestClassifier(8, random_state=1).fit(*toy_data(3)))
    with refuses(ValueError, "not of the same trees"):
        both_counts(inbag, other)
    with refuses(ValueError, "one kind of counts each"):
        both_counts(both_counts(inbag, out), out)

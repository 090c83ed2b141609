"""Votes on sparse instances are those on the same dense ones, on every way."""

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.voting import _until_settled, bind_vote
from tests._sparse import sparse_data, sparse_forest

pytestmark = pytest.mark.once


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize(
    "how", [{}, {"criterion": "certain"}, {"criterion": "exact"}, {"population": "finite", "max_trees": 7}], ids=str
)
@pytest.mark.exhaustive(keep=3)
def test_votes(walk, how, monkeypatch):
    bound, X = bind_vote(sparse_forest(3), walk=walk, **how), sparse_data(missing=True)
    expected = bound(X.toarray())
    for found in (bound(X), ju.predict_until_settled(sparse_forest(3), X.tocsc(), **how)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(_until_settled, "SIZES", (64, 128))
    for one, other in zip(bound(X), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for n in (0, 1, 5):
        np.testing.assert_array_equal(bound(X[:n]).votes, expected.votes[:n])

"""Rows to learn from, of sparse data: those of the same dense ones."""

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.learning import _leaks, fit_combiner, oob_dataset
from tests._refusal import refuses
from tests._sparse import sparse_data, sparse_labels, sparse_model

pytestmark = pytest.mark.once

X, Y = sparse_data(), sparse_labels(3)


def assert_same_rows(model, x, dense, y, **how):
    found, expected = (oob_dataset(model, data, y, **how) for data in (x, dense))
    for one, other in zip(jax.tree.leaves(found.histograms), jax.tree.leaves(expected.histograms), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.y, expected.y)
    return found


@pytest.mark.parametrize("counts", ["inbag", "both"])
@pytest.mark.parametrize("source", ["oob", "cross_fit"])
@pytest.mark.exhaustive(keep=2)
def test_rows_of_the_sample(source, counts):
    assert_same_rows(sparse_model(3, 30), X.tocsc(), X.toarray(), Y, source=source, counts=counts)


@pytest.mark.exhaustive
def test_rows_that_were_held_out(monkeypatch):
    new, labels = sparse_data(200, seed=7), sparse_labels(3, 200, seed=7)
    rows = assert_same_rows(sparse_model(3), new, new.toarray(), labels, source="held_out")
    fitted = fit_combiner(ju.LearnedPool(rows.prior), rows, n_steps=3)
    np.testing.assert_array_equal(
        rows.bind(fitted.combiner).probability(new), rows.bind(fitted.combiner).probability(new.toarray())
    )
    with refuses(ValueError, "numbers per tree.*of dense rows"):
        rows.data_for(ju.Weighted(ju.Mean(), np.ones(12)))
    some = X[:, :3].tocsr()
    some.data[:] += 5  # columns that are nearly dense tell that rows are known, as dense ones do
    filled = some.toarray() + np.random.default_rng(0).random((300, 3))
    model = RandomForestClassifier(20, random_state=0).fit(filled, Y)
    monkeypatch.setattr(_leaks, "MOST_DENSE", 900)
    for data in (filled, type(X)(filled)):
        with refuses(ValueError, "the sample that the forest was grown on"):
            oob_dataset(model, data, Y, source="held_out")
    with refuses(ValueError, "y has 299 labels for 300 rows"):
        oob_dataset(sparse_model(3), X, Y[:-1], source="oob")

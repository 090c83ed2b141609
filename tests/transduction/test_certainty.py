"""Probabilities from the leaves, and what is refused."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import jaxunc as ju
from jaxunc.smoothing import SmoothedMean, fit_dirichlet_prior
from jaxunc.transduction import label_average, leave_one_out_leaf_counts
from tests._refusal import refuses

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)


def test_the_equation():
    counts = np.array([[[3, 0, 1], [2, 2, 0], [2, 0, 2]]])
    expected = np.mean([[4 / 7, 1 / 7, 2 / 7], [3 / 7, 3 / 7, 1 / 7], [3 / 7, 1 / 7, 3 / 7]], axis=0)
    np.testing.assert_allclose(label_average(counts), [expected], rtol=1e-15)
    np.testing.assert_allclose(label_average(counts, ju.Mean(ju.scorers.laplace)), [expected], rtol=1e-6)


@pytest.mark.exhaustive
def test_other_rules():
    counts = leave_one_out_leaf_counts(X, Y)
    tree = ju.transduction.grow_greedy_trees(X, Y)
    leaves = np.asarray(tree.counts[0])[np.asarray(tree.trees.is_leaf[0])]
    for rule in (ju.Mean(), ju.Pooling(), SmoothedMean(fit_dirichlet_prior(leaves))):
        probs = ju.transduction.leave_one_out_certainty(X, Y, combiner=rule)
        np.testing.assert_allclose(probs, rule.probability(counts), rtol=1e-6)
        np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)


def test_doubts_are_where_the_errors_are():
    probs = ju.transduction.leave_one_out_certainty(X, Y)
    assert ju.metrics.accuracy(probs, Y) > 0.93
    assert ju.metrics.auc_reliability(probs.max(axis=1), probs.argmax(axis=1) == Y) > 0.7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ju.transductive_certainty(X, Y, X[:, :2]), ValueError, "features"),
        (lambda: ju.transductive_certainty(X, Y[:5], X), ValueError, "one label per instance"),
        (lambda: ju.transductive_certainty(X, np.zeros(150), X), ValueError, "one class only"),
        (lambda: ju.transductive_certainty(X[:0], Y[:0], X), ValueError, "at least one of each"),
        (lambda: ju.transductive_certainty(X, Y, X, candidates="few"), ValueError, "Choose one of"),
        (lambda: ju.transductive_certainty(X, Y, X, min_samples_leaf=0), ValueError, "at least 1"),
        (lambda: ju.transductive_certainty(X, Y, X, min_samples_leaf=1.5), TypeError, "integer"),
        (lambda: ju.transductive_certainty(X, Y, np.full((1, 4), np.inf)), ValueError, "infinite"),
        (lambda: ju.transduction.leave_one_out_certainty(X, np.where(Y, np.nan, 1)), ValueError, "infinite labels"),
        (lambda: ju.transduction.leave_one_out_certainty(X.astype(str), Y, nominal=[7]), ValueError, "nominal"),
        (lambda: label_average(np.ones((3, 1))), ValueError, "two or more"),
        (lambda: label_average(-np.ones((3, 2))), ValueError, "negative"),
    ],
)
def test_refusals(call, error, message):
    with refuses(error, message):
        call()

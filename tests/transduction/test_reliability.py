"""What transduction is compared with: one transduction's divergence and its threshold."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import jaxunc as ju
from jaxunc.transduction import (
    ThresholdStatus,
    j_divergence,
    kukar_kononenko,
    leave_one_out_kukar_kononenko,
    leave_one_out_leaf_counts,
    reliability_of,
    reliability_threshold,
    transductive_leaf_counts,
)
from tests._golden import golden
from tests._refusal import refusals
from tests.transduction._slow import drawn_set

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)


def test_reference_divergences():
    for case in golden("metrics")["kukar_kononenko"]:
        p, q = (np.array(case[name], float) for name in ("counts_inductive", "counts_transductive"))
        with np.errstate(invalid="ignore"):
            found = j_divergence(p / p.sum(), q / q.sum())
        np.testing.assert_allclose(found, float(case["j_divergence_bits"]), rtol=1e-12)
        np.testing.assert_allclose(2.0**-found, case["reliability"], rtol=1e-12)


@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 3])
@pytest.mark.exhaustive
def test_the_label_none_is_the_tree_without_the_instance(candidates, min_samples_leaf, rng):
    X, y, queries, nominal = drawn_set(rng, 60, 3, missing=True)
    settings = {"nominal": nominal, "candidates": candidates}
    own = {**settings, "min_samples_leaf": min_samples_leaf, "inductive": True}
    grow = {**settings, "min_samples_leaf": min_samples_leaf}
    found = transductive_leaf_counts(X, y, queries, **own)
    tree = ju.transduction.grow_greedy_trees(X, y, **grow)
    np.testing.assert_array_equal(found[:, -1], ju.leaf_counts(tree, queries)[:, 0])
    np.testing.assert_array_equal(found[:, :-1], transductive_leaf_counts(X, y, queries, **{**own, "inductive": False}))
    found = leave_one_out_leaf_counts(X, y, **own)
    for i in range(0, len(X), 4):
        others = np.arange(len(X)) != i
        tree = ju.transduction.grow_greedy_trees(X[others], y[others], **grow)
        np.testing.assert_array_equal(found[i, -1], ju.leaf_counts(tree, X[i : i + 1])[0, 0])


def test_reliability_of_predictions():
    found = kukar_kononenko(X[::2], Y[::2], X[1::2])
    assert np.mean(found.predicted == Y[1::2]) > 0.9
    assert np.all((found.reliability > 0) & (found.reliability <= 1))
    counts = leave_one_out_leaf_counts(X, Y, inductive=True)
    again = reliability_of(counts)
    np.testing.assert_array_equal(again.probability, ju.transduction.label_average(counts[:, -1:]))


def test_thresholds():
    reliability = np.array([0.1, 0.2, 0.2, 0.6, 0.8, 0.9])
    found = reliability_threshold(reliability, np.array([0, 0, 1, 1, 1, 1], bool))
    assert found.value == pytest.approx(0.4)
    assert found.gain == pytest.approx(0.9182958 - 0.5 * 0.9182958, abs=1e-6)
    assert found.status == ThresholdStatus.FOUND
    assert reliability_threshold(np.ones(4), np.array([0, 1, 1, 1], bool)).value == -np.inf
    assert reliability_threshold(reliability, np.ones(6, bool)) == (-np.inf, 0.0, ThresholdStatus.TELLS_NOTHING)
    assert reliability_threshold(reliability, np.zeros(6, bool)) == (np.inf, 0.0, ThresholdStatus.TELLS_NOTHING)


@pytest.mark.parametrize(
    ("reliability", "correct"),
    [
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0]),
        ([0.1, 0.2, 0.5, 0.6, 0.8, 0.9], [1, 1, 1, 0, 1, 0]),  # a threshold at .55 gains too, but less
        ([0.1, 0.9], [True, False]),
    ],
)
def test_a_threshold_that_would_call_the_wrong_ones_reliable_calls_none(reliability, correct):
    with pytest.warns(UserWarning, match="calls none reliable"):
        found = reliability_threshold(np.array(reliability), np.array(correct, bool))
    assert found == (np.inf, 0.0, ThresholdStatus.INVERTED)


def test_of_equal_gains_the_threshold_with_more_right_above_it():
    reliability, correct = np.array([0.1, 0.2, 0.8, 0.9]), np.array([1, 0, 0, 1], bool)
    found = reliability_threshold(reliability, correct)
    assert found.value == pytest.approx(0.85)
    assert found.status == ThresholdStatus.FOUND


def test_predictions_that_are_left_out():
    found = leave_one_out_kukar_kononenko(X, Y, algorithm="grouped")
    again = reliability_of(leave_one_out_leaf_counts(X, Y, inductive=True))
    for own, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(own, other)


def test_progress_is_told():
    heard = []
    kukar_kononenko(X[::2], Y[::2], X[1:7:2], progress=lambda now: heard.append(now[:2]))
    assert heard[-1] == (12, 12)  # three labels and none, of three instances


test_refusals = refusals(
    ("no inductive counts", lambda: reliability_of(np.ones((4, 3, 3))), "inductive=True"),
    ("fewer", lambda: reliability_threshold(np.ones(3), np.ones(4, bool)), "one of each"),
    ("NaN", lambda: reliability_threshold(np.array([np.nan]), np.ones(1, bool)), "NaN"),
    ("dense", lambda: kukar_kononenko(X[::2], Y[::2], X[1:7:2], algorithm="dense"), "numeric"),
)

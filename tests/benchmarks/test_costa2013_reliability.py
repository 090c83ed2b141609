"""What transduction is compared with: one transduction's divergence and its threshold."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from benchmarks.studies.costa2013.reliability import (
    ThresholdStatus,
    j_divergence,
    reliability_of,
    reliability_threshold,
)
from jaxunc.transduction import transductive_leaf_counts
from tests._golden import golden

pytestmark = pytest.mark.once

X, Y = load_iris(return_X_y=True)


def test_reference_divergences():
    for case in golden("metrics")["kukar_kononenko"]:
        p, q = (np.array(case[name], float) for name in ("counts_inductive", "counts_transductive"))
        with np.errstate(invalid="ignore"):
            found = j_divergence(p / p.sum(), q / q.sum())
        np.testing.assert_allclose(found, float(case["j_divergence_bits"]), rtol=1e-12)
        np.testing.assert_allclose(2.0**-found, case["reliability"], rtol=1e-12)


def test_reliability_of_predictions():
    found = reliability_of(transductive_leaf_counts(X, Y, inductive=True))
    assert np.mean(found.predicted == Y) > 0.9
    assert np.all((found.reliability > 0) & (found.reliability <= 1))
    np.testing.assert_array_equal(found.probability.argmax(axis=1), found.predicted)


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

"""Doubt about targets: what out-of-bag answers say of rows' own labels and numbers, and which are found by it."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.proximity import target_doubt
from tests._refusal import refusals

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 3)).astype(np.float32)
TARGET = 1e6 + 3 * ROWS[:, 0] + RNG.normal(size=200)
WORDS = np.array(["low", "middle", "high"])[np.digitize(ROWS[:, 0] + 0.3 * RNG.normal(size=200), [-0.5, 0.5])]
FOREST = {"n_estimators": 30, "min_samples_leaf": 3, "random_state": 0}


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_labels_are_doubted_by_their_out_of_bag_probability(weights):
    forest = RandomForestClassifier(**FOREST, oob_score=True, class_weight=weights).fit(ROWS, WORDS)
    position = np.searchsorted(forest.classes_, WORDS)
    expected = 1 - forest.oob_decision_function_[np.arange(200), position]
    np.testing.assert_allclose(target_doubt(forest, WORDS, rows=ROWS), expected, rtol=0, atol=1e-12)
    ours = CombinedForestClassifier(RandomForestClassifier(**FOREST, class_weight=weights)).fit(ROWS, WORDS)
    np.testing.assert_allclose(target_doubt(ours, WORDS, rows=ROWS), expected, rtol=0, atol=1e-12)


def test_a_share_that_is_rounded_above_1_leaves_no_doubt():
    y = np.where(ROWS[:, 0] > 0, "high", "low")
    forest = RandomForestClassifier(4, random_state=0).fit(ROWS[:, :1], y)
    assert np.nanmin(target_doubt(forest, y, rows=ROWS[:, :1])) == 0


@pytest.mark.parametrize(
    "y",
    [TARGET, np.where(np.arange(200) == 7, 1e9, TARGET - 1e6), np.where(ROWS[:, 1] > 0, 1e8, 0) + TARGET],
    ids=["far from 0", "one mistyped", "two clusters"],
)
def test_numbers_are_doubted_by_residual_over_spread(y):
    """Also where squares have no digits left of the spread."""
    forest = RandomForestRegressor(**FOREST, oob_score=True).fit(ROWS, y)
    weights = ju.neighbour_weights(forest, rows=ROWS, kind="out_of_bag").toarray()
    residual = y - forest.oob_prediction_
    spread = np.sqrt((weights * (y - forest.oob_prediction_[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(target_doubt(forest, y, rows=ROWS), np.abs(residual) / spread, 1e-6, 1e-6)


def test_wrong_rows_come_first():
    wrong = np.arange(0, 200, 20)
    mistyped, flipped = TARGET.copy(), WORDS.copy()
    mistyped[wrong] += np.where(ROWS[wrong, 0] > 0, -12, 12)
    flipped[wrong] = np.where(ROWS[wrong, 0] > 0, "low", "high")
    for kind, y, least in ((RandomForestRegressor, mistyped, 9), (RandomForestClassifier, flipped, 6)):
        doubt = target_doubt(kind(**FOREST).fit(ROWS, y), y, rows=ROWS)
        assert np.isin(np.argsort(-doubt)[:10], wrong).sum() >= least


def test_rows_without_trees_and_neighbours_that_agree():
    y = np.where(ROWS[:, 0] > 0, 5.0, 1.0)
    y[3] = 9.0 - y[3]
    forest = RandomForestRegressor(3, min_samples_leaf=20, max_depth=1, random_state=0).fit(ROWS, y)
    seen = ~ju.counting.oob_mask(forest, 200).any(axis=1)
    doubt = target_doubt(forest, y, rows=ROWS)
    assert seen.any()
    np.testing.assert_array_equal(np.isnan(doubt), seen)
    y[3] = 1.0 + 4.0 * (ROWS[3, 0] > 0)
    pure = RandomForestRegressor(12, random_state=0).fit(ROWS[:, :1], y)
    middle = np.abs(ROWS[:, 0]) > 0.5
    assert np.nanmax(target_doubt(pure, y, rows=ROWS[:, :1])[middle]) == 0
    constant = RandomForestRegressor(4, random_state=0).fit(ROWS, np.full(200, 0.1))
    np.testing.assert_array_equal(np.nanmax(target_doubt(constant, np.full(200, 0.1), rows=ROWS)), 0)


def doubted(kind=RandomForestRegressor, y=TARGET, **how):
    model = kind(**FOREST).fit(ROWS, WORDS if "Classifier" in kind.__name__ else TARGET)
    return lambda: target_doubt(model, y, rows=how.get("rows", ROWS))


test_refusals = refusals(
    ("other rows", doubted(rows=ROWS[:100]), "y has 200 numbers for 100"),
    ("other targets", doubted(y=TARGET[::-1]), "rows are not those that this RandomForestRegressor was grown on"),
    ("labels for numbers", doubted(y=WORDS), "y", TypeError),
    ("unknown labels", doubted(RandomForestClassifier, np.full(200, "none")), "labels that the forest does not know"),
    ("no bags", doubted(ExtraTreesClassifier, WORDS), "needs trees that have not seen a row"),
)

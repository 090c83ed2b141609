"""Rows that repeat others: which are copies, and what is kept together."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import jaxunc as ju
from jaxunc.counting import (
    as_groups,
    check_enough_unseen,
    copies_of,
    held_out_split,
    leave_one_out,
    mask_by_group,
    oob_mask,
    rows_together,
)
from jaxunc.counting._counts_modes import even_out_trees
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.learning import oob_dataset
from tests._refusal import refuses

pytestmark = pytest.mark.once


def numbers(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, 2, n)


def n_groups(X: Any, y: Any) -> int:
    groups = copies_of(X, y)
    return len(y) if groups is None else len(np.unique(groups))


def test_copies_of_numbers_are_found():
    X, y = numbers()
    assert copies_of(X, y) is None
    drawn = np.random.default_rng(2).integers(0, 300, 400)
    for rows in (np.tile(np.arange(300), 2), np.repeat(np.arange(300), 3), drawn, np.r_[:300, 7]):
        groups = copies_of(X[rows], y[rows])
        assert groups is not None
        np.testing.assert_array_equal(groups[:, None] == groups, rows[:, None] == rows)
    assert copies_of(X[np.r_[:300, 7]], np.r_[y, 1 - y[7]]) is None  # equal values of another class
    one_number = np.concatenate([X[:, :1], X[:, 1:] > 0], axis=1)
    assert n_groups(one_number[drawn], y[drawn]) == len(np.unique(drawn))
    X, y = load_iris(return_X_y=True)  # rounded
    values = X.astype(np.float32)
    assert len(np.unique(np.c_[values, y], axis=0)) == 149
    assert copies_of(values, y) is None
    assert n_groups(np.repeat(values, 2, axis=0), np.repeat(y, 2)) == 150


def test_gaps_that_were_filled_alike_are_not_copies():
    X, y = numbers()
    X[:20] = X.mean(axis=0)
    y[:20] = np.arange(20) % 2
    assert copies_of(X, y) is None
    groups = copies_of(np.r_[X, X[20:30]], np.r_[y, y[20:30]])
    assert groups is not None
    assert groups.max() + 1 == len(X)
    np.testing.assert_array_equal(groups[len(X) :], groups[20:30])
    assert n_groups(np.tile(X, (2, 1)), np.tile(y, 2)) == len(X)


@pytest.mark.parametrize("columns", [2, 5, 8, 12])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_equal_rows_of_few_values_are_no_copies_unless_all_come_as_often(columns, share):
    rng = np.random.default_rng(1)
    X, y = (rng.random((400, columns)) < share).astype(np.float32), rng.integers(0, 2, 400)
    assert copies_of(X, y) is None
    if columns > 2:
        assert n_groups(np.tile(X, (2, 1)), np.tile(y, 2)) == 400


def test_sparse_rows_missing_values_and_zeros_of_both_signs():
    X, y = numbers(60)
    X = np.where(np.abs(X) < 0.3, 0, X)
    model = RandomForestClassifier(20, random_state=0)
    twice, labels = np.tile(X, (2, 1)), np.tile(y, 2)
    model.fit(twice, labels)
    with pytest.warns(UserWarning, match="60 of 120 rows repeat others"):
        mask = oob_mask(model, 120, X=twice, y=labels)
    np.testing.assert_array_equal(mask[:60], mask[60:])
    assert 0.08 < mask.mean() < 0.2
    sparse: Any = scipy.sparse.csr_matrix(twice)
    with pytest.warns(UserWarning, match="repeat others"):
        np.testing.assert_array_equal(oob_mask(model, 120, X=sparse, y=labels), mask)
    np.testing.assert_array_equal(oob_mask(model, 120, groups=np.tile(np.arange(60), 2)), mask)
    alone = oob_mask(model, 120, X=twice, y=labels, groups=range(120))
    np.testing.assert_array_equal(alone, oob_mask(model, 120))
    refuses(ValueError, r"groups has shape \(3,\)", oob_mask, model, 120, groups=[1, 2, 3])
    odd = X.copy()
    odd[:, 0] = np.where(odd[:, 0] == 0, np.nan, odd[:, 0])
    again = np.where(odd == 0, np.float32(-0.0), odd)
    assert n_groups(np.concatenate([odd, again]), labels) == 60


def polars_column(labels: list) -> Any:
    return pytest.importorskip("polars").Series(labels)


NO_LABEL = ValueError, "no label for 2 of the 9 .*group of its own"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (lambda labels: np.where(labels < 2, np.nan, labels), NO_LABEL),
        (lambda labels: [None if one < 2 else int(one) for one in labels], NO_LABEL),
        (lambda labels: [np.nan if one < 2 else str(one) for one in labels], NO_LABEL),
        (lambda labels: pd.Series(labels).where(labels > 1), NO_LABEL),
        (lambda labels: pd.Series(labels, dtype="Int64").where(labels > 1), NO_LABEL),
        (lambda labels: pd.Series(labels.astype(str), dtype="string").where(labels > 1), NO_LABEL),
        (lambda labels: pd.Series(labels.astype(str), dtype="category").where(labels > 1), NO_LABEL),
        (lambda labels: np.where(labels < 2, np.datetime64("NaT", "D"), labels.astype("M8[D]")), NO_LABEL),
        (lambda labels: polars_column([None if one < 2 else int(one) for one in labels]), NO_LABEL),
        (lambda labels: polars_column([None if one < 2 else str(one) for one in labels]), NO_LABEL),
        (lambda labels: [str(one) if one < 2 else int(one) for one in labels], (TypeError, "labels of the types")),
    ],
)
def test_every_row_has_its_group(kind, said):
    refuses(*said, lambda: as_groups(kind(np.arange(9)), 9))


def test_groups_of_any_kind_are_the_same_and_are_counted():
    labels = np.arange(9) // 2
    for given in (labels, labels.astype(str).tolist(), pd.Series(labels, dtype="Int64"), np.ma.array(labels), range(8)):
        found = as_groups(given, len(given))
        assert (found is None) if isinstance(given, range) else np.array_equal(found, labels)
    X, y = numbers(30)
    model = RandomForestClassifier(2, random_state=0).fit(X, y)
    with refuses(ValueError, "30 rows in 3 groups do not make 5 folds"):
        oob_dataset(model, X, y, source="cross_fit", groups=np.arange(30) // 10)
    refuses(ValueError, "puts all of 1 groups", held_out_split, y, 0.2, 0, np.zeros(30, int))


@pytest.mark.parametrize("weightless", [[0, 1], [4, 8], [2, 10]])
def test_rows_of_weight_0_are_groups_by_themselves(weightless):
    """Wherever they stand; by labels of groups, whatever the rows are, and by copies."""
    X, y = np.repeat(np.arange(4.0)[:, None], 3, axis=0), np.repeat([0, 1], 6)
    weight, expected = np.ones(12), np.repeat(np.arange(4), 3)
    weight[weightless], expected[weightless] = 0, (4, 5)
    labelled = rows_together(scipy.sparse.csr_matrix(X), y, X[:, 0], weight=weight)
    with pytest.warns(UserWarning, match="of 10 rows repeat others"):
        by_copies = rows_together(np.c_[X, X], y, weight=weight)
    for groups in (labelled, by_copies):
        assert groups is not None
        np.testing.assert_array_equal(groups[:, None] == groups, expected[:, None] == expected)
        mask = mask_by_group(np.arange(12)[:, None] % 5 > 0, groups)
        np.testing.assert_array_equal(mask[weight == 0, 0], np.array(weightless) % 5 > 0)


def test_frozen_forests_hold_copies_out_together():
    X, y = numbers(160)
    frozen = FrozenEstimator(RandomForestClassifier(5, min_samples_leaf=5, random_state=0).fit(X[:80], y[:80]))
    rows = np.repeat(np.arange(80, 160), 3)
    model = CombinedForestClassifier(frozen, combiner="mean", counts="held_out")
    with pytest.warns(UserWarning, match="160 of 240 rows repeat others"):
        kept = model.fit(X[rows], y[rows]).calibration_
    np.testing.assert_array_equal(kept, model.fit(X[rows], y[rows], groups=rows).calibration_)


def test_few_trees_without_a_row_have_their_cause_named():
    rng = np.random.default_rng(0)
    position, groups = np.arange(300) % 2, np.arange(300) // 4
    alone = rng.random((300, 100)) < 0.37
    by_weight = rng.random((300, 100)) < np.where(position == 1, 0.01, 0.6)[:, None]
    for mask, rows, words, unsaid in (
        (mask_by_group(alone, groups), alone, r"groups=.*smaller groups.*more trees: about \d+0\.", "weight"),
        (mask_by_group(alone, groups // 25), alone, "More trees would hardly", None),
        (np.zeros((6, 3), bool), alone[:6, :3], "out of 0 of 3 bags", None),
        (by_weight, by_weight, "class_weight='balanced_subsample'.*more trees", "group"),
    ):
        with refuses(ValueError, words) as caught:
            check_enough_unseen(mask, rows, position[: len(rows)], ("no", "yes"))
        assert unsaid is None or unsaid not in str(caught.value)


@pytest.mark.exhaustive
def test_answers_without_a_group_are_those_of_a_count_without_it():
    X, y = numbers(80)
    rng = np.random.default_rng(3)
    groups, weight = rng.integers(0, 25, 80), rng.integers(1, 4, 80)
    forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=6, min_samples_leaf=5)
    counted = ju.count_leaves(forest, X, y, sample_weight=weight)
    found = leave_one_out(counted, ju.Pooling(), X, y, sample_weight=weight, groups=groups)
    for row in (0, 11, 42):
        rest = groups != groups[row]
        without = ju.count_leaves(forest, X[rest], y[rest], sample_weight=weight[rest]).with_prior(counted.prior)
        expected = np.asarray(ju.bind(without, ju.Pooling()).probability(X[[row]]))[0]
        np.testing.assert_allclose(np.asarray(found.probability)[row], expected, rtol=1e-6)


def test_classes_show_as_many_trees():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [300, 60])
    even = rng.random((360, 50)) < 0.37
    assert even_out_trees(even, y, 2) is even
    uneven = rng.random((360, 50)) < np.where(y == 1, 0.15, 0.5)[:, None]
    shown = even_out_trees(uneven, y, 2)
    assert (shown <= uneven).all()
    np.testing.assert_array_equal(shown[y == 1], uneven[y == 1])
    assert abs(shown[y == 0].mean() - shown[y == 1].mean()) < 0.02


def test_a_class_that_is_never_first_in_its_group_is_missed_too():
    y, groups = np.array([0, 1] * 20 + [0, 2]), np.repeat(np.arange(21), 2)
    said = "leaves no instance of class 2 to .*: y holds it in 1 of 21 groups"
    refuses(ValueError, said, held_out_split, y, 0.3, 0, groups)


def test_random_trees_take_held_out_rows():
    X, y = np.random.default_rng(0).integers(0, 4, (120, 3)).astype(float), np.arange(120) % 2
    forest = ju.grow_random_trees(jax.random.key(0), X[:60], y[:60], n_trees=5, nominal=np.ones(3, bool))
    model = CombinedForestClassifier(FrozenEstimator(forest), "mean", counts="held_out").fit(X[60:], y[60:])
    counted = ju.count_leaves(forest, X[60:], y[60:])
    np.testing.assert_array_equal(model.predict_proba(X), ju.bind(counted, ju.Mean()).probability(X))

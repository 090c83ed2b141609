"""Votes of trees that have not seen an instance."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.tables import fit_columns
from jaxunc.voting import _vote_prior, out_of_bag_votes
from tests._refusal import refuses
from tests.voting._votes import drawn_votes, forest_of_votes

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("n_classes", "abstaining"), [(2, 0.0), (3, 0.2)])
def test_votes_are_counted_by_the_mask(n_classes, abstaining, rng, monkeypatch):
    votes = drawn_votes(rng, 90, 12, n_classes, abstaining)
    forest, X = forest_of_votes(votes, n_classes)
    mask = rng.random(votes.shape) < 0.4
    mask[3] = False
    expected = np.stack([((votes == c) & mask).sum(axis=1) for c in range(n_classes)], axis=1)
    np.testing.assert_array_equal(out_of_bag_votes(forest, X, mask), expected)
    monkeypatch.setattr(_vote_prior, "ENTRIES", 12 * 32)
    np.testing.assert_array_equal(out_of_bag_votes(forest, X, mask), expected)
    assert out_of_bag_votes(forest, X[:0], mask[:0]).shape == (0, n_classes)


def test_a_grown_forest(rng):
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 0]) + rng.normal(size=120) > 0).astype(int)
    model = RandomForestClassifier(30, random_state=0).fit(X, y)
    votes = out_of_bag_votes(ju.from_sklearn(model), X, ju.counting.oob_mask(model, 120, X=X, y=y))
    alone = [tree.predict(X).astype(int) for tree in model.estimators_]
    unseen = ju.counting.oob_mask(model, 120)
    expected = np.zeros((120, 2), int)
    for tree, said in enumerate(alone):
        np.add.at(expected, (np.flatnonzero(unseen[:, tree]), said[unseen[:, tree]]), 1)
    np.testing.assert_array_equal(votes, expected)  # leaves of grown-out trees have no ties


FOREST, X = forest_of_votes(np.zeros((4, 3), np.int32), 2)
MASK = np.ones((4, 3), bool)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: out_of_bag_votes(RandomForestClassifier(), X, MASK), TypeError, "from_sklearn"),
        (lambda: out_of_bag_votes(FOREST, X, MASK * 1), TypeError, "pass booleans"),
        (lambda: out_of_bag_votes(FOREST, X, MASK[:2]), ValueError, "tree_mask has shape"),
        (lambda: out_of_bag_votes(FOREST, X, None), TypeError, "tree_mask is None"),
        (lambda: out_of_bag_votes(FOREST, X[:, :0], MASK), ValueError, "column"),
        (lambda: jax.jit(lambda x: out_of_bag_votes(FOREST, x, MASK))(X), TypeError, "outside of jit"),
    ],
)
def test_refusals(call, error, message):
    with refuses(error, message):
        call()


def test_levels_are_looked_up_once():
    X = np.array([[3.0], [5.0], [7.0]] * 4, np.float32)
    codes = np.array([[0], [1], [2]] * 4, np.float32)
    model = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(codes, (X[:, 0] == 5).astype(int))
    forest = ju.from_sklearn(model)
    mask = np.ones((12, 3), bool)
    known = dataclasses.replace(forest.trees, columns=fit_columns(X, nominal=[0]))
    votes = out_of_bag_votes(dataclasses.replace(forest, trees=known), X, mask)
    np.testing.assert_array_equal(votes, out_of_bag_votes(forest, codes, mask))
    np.testing.assert_array_equal(votes, np.where(X == 5, [0, 3], [3, 0]))

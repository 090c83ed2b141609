"""The votes of leaves, those of trees that have not seen an instance, and priors learned from votes."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.tables import fit_columns
from jaxunc.voting import VotePriorWarning, _vote_prior, fit_vote_prior, out_of_bag_votes, stop_after, votes_of_counts
from tests._refusal import refusals
from tests.voting._votes import drawn_votes, forest_of_votes

pytestmark = pytest.mark.once


def test_the_prior_that_drew_the_votes(rng):
    alpha = np.array([0.4, 1.5, 0.8])
    votes = np.array([rng.multinomial(60, p) for p in rng.dirichlet(alpha, size=4000)])
    np.testing.assert_allclose(fit_vote_prior(votes), alpha, rtol=0.1)
    alike = np.array([rng.multinomial(60, p) for p in rng.dirichlet(np.full(3, 0.7), size=4000)])
    found = fit_vote_prior(alike, symmetric=True)
    assert np.all(found == found[0])
    np.testing.assert_allclose(found, 0.7, rtol=0.05)


def test_a_doubtful_sample_stops_later_and_errs_less(rng):
    """Where p is near a half the uniform prior is too sure; the fitted one keeps what it promises."""
    p = rng.beta(12, 12, size=4000)
    votes = (rng.random((4000, 101)) < p[:, None]).astype(np.int32)
    prior = fit_vote_prior(np.stack([(1 - votes).sum(1), votes.sum(1)], axis=1)[:1000], symmetric=True)
    right = (p > 0.5).astype(int)

    def wrong(prior):
        found = stop_after(votes, 2, confidence=0.95, prior=prior)
        settled = np.asarray(found.settled)
        return np.mean(np.asarray(found.predicted)[settled] != right[settled]), np.mean(found.n_trees_used)

    (uniform, early), (fitted, late) = wrong(1.0), wrong(prior)
    assert uniform > 0.07
    assert fitted < 0.055
    assert late > early


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        (np.tile([50, 0], (50, 1)), "differ no more than by chance|do trees disagree"),
        (np.tile([0, 3, 0], (5, 1)), "differ no more than by chance|do trees disagree"),
        (np.repeat([[9, 0], [0, 9]], 4, axis=0), "do trees disagree"),
        (np.array([[7, 6]]), "instances: 1"),
        (np.tile([25, 25], (30, 1)), "differ no more than by chance"),
    ],
    ids=str,
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_votes_that_say_nothing_leave_the_uniform_prior(votes, reason, symmetric):
    with pytest.warns(VotePriorWarning, match=reason):
        np.testing.assert_array_equal(fit_vote_prior(votes, symmetric=symmetric), 1.0)


def test_instances_that_differ_little_and_classes_that_nobody_votes_for(rng):
    """α is large for the former, and the search is of both kinds."""
    votes = rng.binomial(400, rng.beta(30, 30, size=600))
    votes = np.stack([400 - votes, votes], axis=1)
    for symmetric in (False, True):
        np.testing.assert_allclose(fit_vote_prior(votes, symmetric=symmetric), 30, rtol=0.2)
    votes = np.array([rng.multinomial(20, p) for p in rng.dirichlet([0.5, 0.8], size=200)])
    prior = fit_vote_prior(np.insert(votes, 1, 0, axis=1))
    assert prior[1] == pytest.approx(1e-3)
    np.testing.assert_allclose(prior[[0, 2]], fit_vote_prior(votes), rtol=1e-4)


def test_which_class_a_leaf_votes_for():
    tied = np.array([1, 0, 1, 1])
    assert votes_of_counts(np.tile(tied, (6, 1)), np.arange(6)).tolist() == [0, 2, 3, 0, 2, 3]
    assert votes_of_counts(np.array([[0, 0], [2, 2], [1, 3], [0.5, 0.25]]), 7).tolist() == [-1, -1, 1, 0]


@pytest.mark.parametrize(("n_classes", "abstaining"), [(2, 0.0), (3, 0.2)])
def test_votes_are_counted_by_the_mask(n_classes, abstaining, rng, monkeypatch):
    votes = drawn_votes(rng, 90, 12, n_classes, abstaining)
    forest, X = forest_of_votes(votes, n_classes)
    mask = rng.random(votes.shape) < 0.4
    mask[3] = False
    expected = np.stack([((votes == c) & mask).sum(axis=1) for c in range(n_classes)], axis=1)
    np.testing.assert_array_equal(out_of_bag_votes(forest, X, mask), expected)
    monkeypatch.setattr(_vote_prior, "ROUTED_ENTRIES", 12 * 32)
    np.testing.assert_array_equal(out_of_bag_votes(forest, X, mask), expected)
    assert out_of_bag_votes(forest, X[:0], mask[:0]).shape == (0, n_classes)


def test_out_of_bag_votes_of_a_grown_forest(rng):
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


MASK = np.ones((4, 3), bool)


@pytest.fixture(scope="module")
def small():
    """A forest and its four instances."""
    return forest_of_votes(np.zeros((4, 3), np.int32), 2)


test_refusals = refusals(
    ("one vote each", lambda: fit_vote_prior(np.eye(3)), "two votes or more"),
    ("one axis", lambda: fit_vote_prior(np.array([3, 4])), "instances classes"),
    ("negative", lambda: fit_vote_prior(np.array([[3, -4]])), "negative"),
    ("one class", lambda: fit_vote_prior(np.ones((3, 1))), "two or more"),
    ("model", lambda small: out_of_bag_votes(RandomForestClassifier(), small[1], MASK), "from_sklearn", TypeError),
    ("numbers", lambda small: out_of_bag_votes(*small, MASK * 1), "pass booleans", TypeError),
    ("fewer rows", lambda small: out_of_bag_votes(*small, MASK[:2]), "tree_mask has shape"),
    ("no mask", lambda small: out_of_bag_votes(*small, None), "tree_mask is None", TypeError),
    ("no column", lambda small: out_of_bag_votes(small[0], small[1][:, :0], MASK), "column"),
    ("traced", lambda small: jax.eval_shape(lambda x: out_of_bag_votes(small[0], x, MASK), small[1]), "jit", TypeError),
)

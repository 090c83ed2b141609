"""Smoothed forests, and the rules that smooth."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc import smoothing
from jaxunc.smoothing import BetaPrior, MemberSmoothing, SmoothedMean, fit_dirichlet_prior, fit_forest_prior, smooth
from tests._forests import forest_of_leaves, toy_data
from tests._refusal import refusals

N, K = 6, 3


def made(n_classes=2):
    counts = np.random.default_rng(n_classes).integers(0, 9, size=(N, K, n_classes))
    counts[0, 0] = 0
    forest, X = forest_of_leaves(counts)
    return counts, forest, X


@pytest.mark.parametrize(("n_classes", "level"), [(3, "tree"), (2, "forest")])
@pytest.mark.once
def test_smoothed_forests(n_classes, level):
    counts, forest, X = made(n_classes)
    if level == "tree":
        expected = np.stack([smooth(counts[:, t], fit_dirichlet_prior(counts[:, t])) for t in range(K)], axis=1)
    else:
        expected = np.asarray(smooth(counts, fit_dirichlet_prior(counts.reshape(-1, n_classes))))
    smoothed = ju.forest.check_forest(smoothing.smooth_forest(forest, level))
    np.testing.assert_allclose(ju.bind(smoothed, ju.Mean()).probability(X), expected.mean(axis=1), rtol=1e-5)
    prior = fit_forest_prior(forest, level=level)
    rule = SmoothedMean(prior)
    np.testing.assert_allclose(rule.probability(jnp.asarray(counts)), expected.mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize("level", ["tree", "forest"])
@pytest.mark.once
@pytest.mark.exhaustive
def test_priors_are_those_of_leaves_alone(level):
    """What stands in the rows of inner and padding nodes is not looked at: a smoothed forest can be fitted again."""
    X, y = toy_data(2)
    with jax.numpy_dtype_promotion("standard"):  # growing still adds booleans to integers
        forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=2, min_samples_leaf=20)
    again = smoothing.smooth_forest(forest, level, method="moments")
    found = fit_forest_prior(again, method="moments")
    for tree in range(2):
        place = np.unique(np.asarray(ju.leaf_index(again, X))[:, tree])
        leaves = np.asarray(again.count_table)[np.asarray(again.code)[tree, place]]
        expected = fit_dirichlet_prior(leaves, method="moments")
        np.testing.assert_allclose(found.alpha[tree], expected.alpha, rtol=1e-4)


@pytest.mark.exhaustive
def test_a_given_prior_and_gradients():
    counts, forest, X = made()
    prior = BetaPrior(jnp.asarray(2.0), jnp.asarray(1.0), jnp.asarray(0, jnp.int32))
    smoothed = smoothing.smooth_forest(forest, prior)
    expected = np.asarray(smooth(counts, prior)).mean(axis=1)
    np.testing.assert_allclose(ju.bind(smoothed, ju.Mean()).probability(X), expected, rtol=1e-5)

    def answer(alpha):
        by_tree = BetaPrior(alpha, jnp.ones(K), jnp.zeros(K, jnp.int32))
        held = ju.leaf_counts(smoothing.smooth_forest(forest, by_tree), jnp.asarray(X))
        return jnp.sum(held[..., 1]), jnp.sum(SmoothedMean(by_tree)(jnp.asarray(counts))[..., 1])

    slopes = jax.jit(jax.jacrev(answer))(jnp.full(K, 2.0))
    np.testing.assert_allclose(slopes[0], N, rtol=1e-6)
    n = counts.sum(axis=-1)
    by_hand = ((n + 3 - counts[..., 1] - 2) / (n + 3.0) ** 2).sum(axis=0) / K
    np.testing.assert_allclose(slopes[1], by_hand, rtol=1e-5)


@pytest.mark.once
@pytest.mark.exhaustive
def test_members():
    """Two rules that it lies between, masked trees, and a fit that searches; the table of rules has the rest."""
    counts, forest, X = made()
    counts[1] = [[4, 0], [0, 3], [1, 0]]
    counts[2] = [[2, 1], [4, 2], [2, 1]]
    forest, X = forest_of_leaves(counts)
    by_moments = np.asarray(MemberSmoothing().probability(jnp.asarray(counts)))
    np.testing.assert_allclose(by_moments[1], np.mean(counts[1] / counts[1].sum(-1, keepdims=True), 0), rtol=1e-5)
    np.testing.assert_allclose(by_moments[2], [2 / 3, 1 / 3], rtol=1e-5)
    rule, fit = MemberSmoothing("weighted_mle"), partial(fit_dirichlet_prior, method="weighted_mle")
    mask = np.ones((N, K), bool)
    mask[3, 1] = mask[5] = False
    expected = np.array([np.mean(smooth(leaves, fit(leaves)), axis=0) for leaves in counts])
    two = counts[3][[0, 2]]
    expected[3], expected[5] = np.mean(smooth(two, fit(two)), axis=0), 0.5
    np.testing.assert_allclose(ju.bind(forest, rule).probability(X, tree_mask=mask), expected, rtol=5e-5)


@pytest.mark.once
def test_members_without_a_tree():
    """All trees masked: equal shares."""
    answer = jax.jit(lambda leaves: MemberSmoothing().finish(leaves).probability)
    np.testing.assert_allclose(answer(np.full((N, K, 3), np.nan, np.float32)), np.full((N, 3), 1 / 3), rtol=1e-6)


@pytest.mark.once
def test_warnings_of_priors_that_do_nothing():
    pure = np.tile([[4, 0], [0, 4]], (K, 3, 1)).reshape(K, N, 2).swapaxes(0, 1)
    alike = np.tile([[6, 3], [2, 1]], (K, 3, 1)).reshape(K, N, 2).swapaxes(0, 1)
    by_chance = np.where(pure > 0, 3, 2)
    for counts, method, said in (
        (pure, "moments", "3 of 3 fitted priors smooth nothing"),
        (by_chance, "marginal", "3 of 3 fitted priors give all leaves the same"),
    ):
        with pytest.warns(smoothing.PriorWarning, match=said):
            smoothing.smooth_forest(forest_of_leaves(counts)[0], method=method)
    smoothing.smooth_forest(forest_of_leaves(alike)[0], method="marginal")  # they are the same


prior_of = lambda alpha, beta: BetaPrior(np.float32(alpha), np.float32(beta), np.zeros(np.shape(alpha), np.int32))
_of_trees = lambda *numbers: lambda: smoothing.smooth_forest(made()[1], prior_of(*numbers))
TWO = np.ones((2, 2))
test_refusals = refusals(
    ("level", lambda: smoothing.smooth_forest(made()[1], "trees"), "level='trees' is unknown. Did you mean 'tree'"),
    ("four priors", _of_trees(np.ones(4), np.ones(4)), r"shape \(4, 2\); this forest needs \(3, 2\)"),
    ("negative prior of trees", _of_trees(-1, 1), r"parameter -1\.0"),
    ("prior of two axes", lambda: SmoothedMean(prior_of(TWO, TWO)), "expected .trees classes."),
    ("classes", lambda: SmoothedMean(prior_of(1, 1))(np.ones((2, 3))), "prior has 2 classes, but counts have 3"),
    ("negative prior", lambda: SmoothedMean(prior_of(-1, 1)), r"parameter -1\.0"),
    ("method", lambda: MemberSmoothing("mle"), "method='mle'"),
    ("clip", lambda: MemberSmoothing(clip=0.5), "clip=0.5"),
    ("clip in words", lambda: MemberSmoothing(clip="small"), "clip='small' must be a number"),
)

"""Trees that all agree: shares of exactly 0 and 1, which a product by a reciprocal misses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju

N_TREES = np.arange(1, 2049)


def _totals(rule: ju.Combiner, counts: np.ndarray):
    """The statistic of so many trees with the same leaf, correctly rounded."""

    def times(leaf):
        total = N_TREES.reshape(-1, *[1] * leaf.ndim) * np.asarray(leaf, np.float64)
        return total.astype(jnp.result_type(float))

    return jax.tree.map(times, jax.jit(rule.lift)(counts))


@pytest.mark.parametrize("n_classes", [2, 3, 5, 9])
@pytest.mark.parametrize("rule", [ju.Mean(), ju.Vote()], ids=["mean", "vote"])
def test_classes_without_any_share(rule, n_classes):
    counts = np.zeros(n_classes, np.float32)
    counts[1] = 41
    finish = jax.jit(rule.finish)
    probability = np.asarray(finish(_totals(rule, counts)).probability)
    expected = np.broadcast_to(np.eye(n_classes)[1], probability.shape)
    np.testing.assert_array_equal(np.delete(probability, 1, axis=1), np.delete(expected, 1, axis=1))
    np.testing.assert_allclose(probability, expected, rtol=0, atol=0 if n_classes == 2 else 2e-7)


def test_zero_where_scikit_learn_says_zero(forest_of_four_classes):
    model, X = forest_of_four_classes
    theirs = model.predict_proba(X)
    ours = np.asarray(ju.bind(ju.from_sklearn(model), ju.Mean()).probability(X))
    assert 0 < (theirs == 0).sum() < theirs.size
    np.testing.assert_array_equal(ours == 0, theirs == 0)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_slope_of_a_share_of_zero(n_classes):
    """One more instance of a class that no leaf of n has: 1/n in its tree, and over K trees 1/(n K)."""
    counts = np.zeros((4, n_classes), np.float32)
    counts[:, 1] = 5
    slope = np.asarray(jax.jit(jax.grad(lambda counts: ju.Mean().answer(counts).probability[0]))(counts))
    np.testing.assert_allclose(slope[:, 0], 1 / 20, rtol=1e-6)
    np.testing.assert_allclose(slope[:, 1:], 0, atol=1e-8)


def test_slopes_at_the_ends_of_shares_are_not_halved():
    """Of one leaf, where the rules agree; and of the upper bound of a class that alone was counted."""
    slope_of = lambda rule: jax.grad(lambda counts: rule.probability(counts)[2])(np.array([[5, 2, 0]], np.float32))
    expected = slope_of(ju.Mean())
    for rule in (ju.Median(), ju.Maximum()):
        np.testing.assert_allclose(slope_of(rule), expected, rtol=1e-6)
    for counts in ([[0, 5]], [[0, 0, 5]]):
        upper = lambda counts: ju.AveragedIntervals(s=1.0)(counts).upper[-1]
        single = lambda counts: ju.scorers.idm_interval(counts[0], s=1.0).upper[-1]
        slopes = [jax.grad(bound)(np.array(counts, np.float32)) for bound in (upper, single)]
        np.testing.assert_allclose(*slopes, rtol=1e-6, atol=1e-7)


def test_a_number_of_python_for_a_whole_tree_is_weighed():
    class Counted(ju.Combiner):
        merge = "sum"

        def lift(self, counts):
            return {"share": ju.scorers.probability(counts), "trees": 1.0}

        def finish(self, stat):
            return stat["share"] / stat["trees"]

    counts = np.array([[3, 1], [0, 4]])
    np.testing.assert_allclose(ju.Weighted(Counted(), [1, 1])(counts), Counted()(counts))


@pytest.fixture(scope="module")
def forest_of_four_classes():
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    X, y = make_classification(400, 8, n_informative=6, n_classes=4, class_sep=2.0, random_state=0)
    X = X.astype(np.float32)
    return RandomForestClassifier(41, random_state=0).fit(X[:200], y[:200]), X[200:]


@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.exhaustive(keep=1)
def test_how_far_a_mean_is_from_the_true_one(n_classes, rng):
    """Four eps, for any number of trees; a vote between two classes is the nearest float."""
    eps = np.finfo(jnp.result_type(float)).eps
    for n_trees in (1, 3, 41, 500):
        counts = rng.integers(0, 30, (100, n_trees, n_classes)) * (rng.random((100, n_trees, n_classes)) < 0.6)
        counts[..., 0] += counts.sum(axis=-1) == 0
        true = (counts / counts.sum(axis=-1, keepdims=True)).mean(axis=1, dtype=np.longdouble)
        found = ju.combiners.Together(mean=ju.Mean(), vote=ju.Vote()).probability(counts.astype(np.int32))
        assert np.abs(np.asarray(found["mean"]) - true).max() < 4 * eps
        best = counts == counts.max(axis=-1, keepdims=True)
        voted = (best / best.sum(axis=-1, keepdims=True)).mean(axis=1)
        found = np.asarray(found["vote"])
        assert np.abs(found - voted).max() < 4 * eps
        if n_classes == 2:
            np.testing.assert_array_equal(found, voted.astype(found.dtype))

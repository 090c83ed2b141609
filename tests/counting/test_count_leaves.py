"""Several kinds of counts in one forest."""

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data
from tests._refusal import refusals, refuses

BOTH = ("own", "oob")


@pytest.fixture(scope="module")
def counted():
    """Data, a forest with the counts of its bags, those out of bag, and both in one."""
    X, y = toy_data(3)
    model = RandomForestClassifier(8, max_leaf_nodes=30, random_state=0).fit(X, y)
    inbag = ju.from_sklearn(model)
    out = ju.count_leaves(inbag, X, y, tree_mask=ju.counting.oob_mask(model, len(y)))
    return X, inbag, out, inbag.with_count_set("oob", out)


def test_counts_stand_side_by_side(counted):
    X, inbag, out, forest = counted
    assert (forest.n_classes, forest.count_sets) == (3, BOTH)
    np.testing.assert_array_equal(forest.counts, inbag.counts)
    np.testing.assert_array_equal(ju.leaf_counts(forest, X[:9]), ju.leaf_counts(inbag, X[:9]))
    np.testing.assert_array_equal(forest.of_counting("oob").counts, out.counts)
    assert forest.of_counting("oob").count_sets == ("own",)
    side_by_side = forest.reading(BOTH)
    np.testing.assert_array_equal(side_by_side.counts, np.concatenate([inbag.counts, out.counts], axis=-1))
    assert not np.asarray(side_by_side.count_table[0]).any()
    assert repr(forest).endswith("count_sets=('own', 'oob'))")
    assert forest.with_counts(forest.counts * 2).count_sets == BOTH
    assert ju.count_leaves(forest, X, toy_data(3)[1]).count_sets == ("own",)


@pytest.mark.room
def test_each_rule_reads_its_own(counted):
    X, inbag, out, forest = counted
    pool = ju.LearnedPool(inbag.prior, reads=BOTH, inbag_weight=1e6)
    mean = ju.bind(inbag, ju.Mean()).probability(X)
    np.testing.assert_allclose(ju.bind(forest, pool).probability(X), mean, atol=1e-4)
    np.testing.assert_array_equal(ju.bind(forest, ju.Mean()).probability(X), mean)
    outside, plain = ju.LearnedPool(inbag.prior, reads=("oob",)), ju.LearnedPool(inbag.prior)
    np.testing.assert_array_equal(ju.bind(forest, outside).probability(X), ju.bind(out, plain).probability(X))
    # All of them at once, in whatever order, is one routing.
    together = ju.bind(forest, {"outside": outside, "mean": ju.Mean(), "pool": pool}).probability(X)
    for name, rule in {"pool": pool, "mean": ju.Mean(), "outside": outside}.items():
        np.testing.assert_array_equal(together[name], ju.bind(forest, rule).probability(X))
    refuses(ValueError, "counts 'oob' are asked of a forest that has 'own'", ju.bind, inbag, pool)
    words = "own label can be taken out of the forest's own counts alone"
    refuses(ValueError, words, ju.counting.leave_one_out, forest, pool, X, np.zeros(len(X), int))


@pytest.mark.exhaustive
def test_traced_counts_give_the_same_and_have_a_gradient(counted):
    X, inbag, out, _ = counted
    pool = ju.LearnedPool(inbag.prior, reads=BOTH, strength=1.0)
    answer = lambda own: ju.bind(inbag.with_counts(own).with_count_set("oob", out), pool).probability(X[:5])
    counts = inbag.counts.astype(float)
    np.testing.assert_allclose(jax.jit(answer)(counts), answer(counts), atol=1e-6)
    slope = jax.grad(lambda counts: answer(counts)[:, 0].sum())(counts)
    assert np.all(np.isfinite(slope))
    assert np.any(np.asarray(slope) != 0)


@pytest.mark.parametrize("mode", ["parent", "zeros", "sum"])
@pytest.mark.exhaustive(keep=3)
@pytest.mark.room
def test_empty_leaves(mode):
    X, y = toy_data(2)
    X = np.round(np.abs(X[:, :3]) * 2).astype(np.float32)
    forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=4, nominal=[True] * 3).with_empty_leaves(mode)
    half = ju.count_leaves(forest, X[::2], y[::2])
    pool = ju.LearnedPool(forest.prior, reads=BOTH, strength=1.0)
    found = ju.bind(forest.with_count_set("oob", half), pool).probability(X)
    summed = ju.LearnedPool(forest.prior, strength=1.0)
    counts = [np.asarray(ju.leaf_counts(one, X)) for one in (forest, half)]
    np.testing.assert_allclose(found, summed.probability(counts[0] + counts[1]), atol=1e-6)


def _of_other_trees(counted):
    other = ju.from_sklearn(RandomForestClassifier(8, max_leaf_nodes=30, random_state=1).fit(*toy_data(3)))
    return counted[1].with_count_set("oob", other)


def _traced(counted):
    return jax.jit(lambda X: ju.count_leaves(counted[1], X, toy_data(3)[1]).prior)(counted[0])


test_refusals = refusals(
    ("traced", _traced, "an argument of count_leaves is traced.*outside of jit", TypeError),
    ("other trees", _of_other_trees, "not of the same trees"),
    ("own", lambda counted: counted[1].with_count_set("own", counted[2]), "is not free"),
    ("number", lambda counted: counted[1].with_count_set(1, counted[2]), "must be a string", TypeError),
    ("held-out", lambda counted: counted[1].of_counting("held-out"), "counts 'held-out' are asked"),
)


def test_concrete_rows_inside_a_program(counted):
    X, inbag, *_ = counted
    y = toy_data(3)[1]
    leaves = np.asarray(ju.leaf_index(inbag, X))
    found = jax.jit(lambda prior: ju.count_leaves(inbag.with_prior(prior), X, y, leaves=leaves).counts)(inbag.prior)
    np.testing.assert_array_equal(found, ju.count_leaves(inbag, X, y).counts)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_leaves_of_narrow_types(dtype):
    X, y = toy_data(2)
    model = RandomForestClassifier(3, max_leaf_nodes=50, random_state=0).fit(X, y)
    forest = ju.from_sklearn(model)
    leaves = np.asarray(ju.leaf_index(forest, X))
    assert 63 < leaves.max() <= np.iinfo(dtype).max
    found, expected = (ju.count_leaves(forest, X, y, leaves=given).counts for given in (leaves.astype(dtype), leaves))
    np.testing.assert_array_equal(found, expected)

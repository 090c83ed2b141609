"""Empty leaves of multi-way tests: the four modes, on every way, and what they commute with."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.inference import _leaves, _merge_leaves
from jaxunc.inference._by_rows import ByRows
from tests._refusal import refuses
from tests.random_trees._multiway import reached_leaves
from tests.random_trees.test_random_trees import grown, mixed

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def forest():
    return grown(5, 7)


def unseen(n: int) -> np.ndarray:
    """Rows whose nominal values no tree has seen."""
    X, _, nominal = mixed(60)
    return np.where(nominal, 9, X[:n])


@pytest.mark.parametrize("mode", ju.forest.MODES)
@pytest.mark.room
def test_empty_leaves(mode, forest, monkeypatch):
    """Every mode, against a walk by the definition; values that were not seen among them. By rows, too, where a leaf
    table would be large."""
    counts, forest = np.asarray(forest.counts, float), forest.with_empty_leaves(mode)
    queries = mixed(40, seed=1)[0]
    queries[::7, 1], queries[1::7, 3], queries[2::7, 1], queries[3::7, 3] = 9, 3, np.nan, -100
    expected, of_trees, met_any = np.zeros((40, 7, 3)), np.zeros((40, 7, 3)), 0
    first, members = np.asarray(forest.trees.forks.first), np.asarray(forest.trees.forks.node)
    child = np.asarray(forest.trees.child)
    for i, x in enumerate(queries):
        for t in range(7):
            leaves, met = reached_leaves(forest, t, x)
            met_any += met is not None
            each = counts[t, leaves]
            if met is not None and mode == "zeros":
                each = np.zeros((1, 3))
            if met is not None and mode == "parent":
                each = sum(below(child[t], counts[t], node) for node in members[first[met] : first[met + 1]])[None]
            expected[i, t] = each.sum(0)
            scores = (each + 1) / (each.sum(-1, keepdims=True) + 3)
            of_trees[i, t] = scores.mean(0) if mode == "average" else (each.sum(0) + 1) / (each.sum() + 3)
    assert 20 < met_any < 200
    if mode == "average":
        refuses(ValueError, "'average' have no counts", ju.leaf_counts, forest, queries)
    else:
        np.testing.assert_array_equal(ju.leaf_counts(forest, queries), expected)
    bound = ju.bind(forest, ju.Mean(ju.scorers.laplace))
    mask = np.arange(280).reshape(40, 7) % 3 > 0
    shares, of_masked = of_trees.mean(1), np.average(of_trees, 1, np.broadcast_to(mask[..., None], of_trees.shape))
    np.testing.assert_allclose(bound.probability(queries), shares, atol=1e-6)
    masked = bound.probability(queries, tree_mask=mask)
    np.testing.assert_allclose(masked, of_masked, atol=1e-6)
    np.testing.assert_array_equal(bound.probability(queries[5:9], tree_mask=mask[5:9]), masked[5:9])
    if mode in ("sum", "average"):
        refuses(ValueError, "cannot be traced|followed on the host", jax.jit(lambda x: bound(x)), jnp.asarray(queries))
    else:
        np.testing.assert_allclose(jax.jit(lambda x: bound(x))(jnp.asarray(queries)), bound(queries), atol=1e-5)
        monkeypatch.setattr(_merge_leaves, "LARGEST_LEAF_TABLE", 0)
        bound = ju.bind(forest, ju.Mean(ju.scorers.laplace))
        np.testing.assert_allclose(bound.probability(queries), shares, atol=1e-6)
        np.testing.assert_allclose(bound.probability(queries, tree_mask=mask), of_masked, atol=1e-6)
    assert isinstance(bound.engine, ByRows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["sum", "average"])
def test_leaves_are_followed_in_parts(mode, monkeypatch):
    forest = grown(5, 7, sample_weight=np.linspace(0.1, 2, 60)).with_empty_leaves(mode)
    queries = mixed(40, seed=1)[0]
    queries[::2, 1], queries[::3, 3] = 9, 3
    bound = ju.bind(forest, ju.Mean(ju.scorers.laplace))
    whole = bound(queries), ju.leaf_counts(forest.with_empty_leaves("sum"), queries)
    walks = mock.Mock(wraps=_leaves._walk_on)
    monkeypatch.setattr(_leaves, "_walk_on", walks)
    monkeypatch.setattr(_leaves, "UNDER_WAY", 5)
    np.testing.assert_array_equal(bound(queries), whole[0])
    np.testing.assert_array_equal(ju.leaf_counts(forest.with_empty_leaves("sum"), queries), whole[1])
    members = np.diff(forest.trees.forks.first).max()
    assert max(len(call.args[-1]) for call in walks.call_args_list) <= max(5, members)


def check_slope(function, forest) -> None:
    """Of a sum of squares of what is linear in the counts."""
    counts = forest.counts.astype(float)
    slope = jax.grad(lambda counts: jnp.sum(function(counts) ** 2))(counts)
    assert float(jnp.sum(slope * counts)) == 2 * float(jnp.sum(function(counts) ** 2))


@pytest.mark.exhaustive
def test_sums_are_differentiable_and_do_not_overflow():
    X, y, _ = mixed(60)
    forest, queries = grown(5, 7, max_depth=2), unseen(5)
    heavy = ju.count_leaves(forest, X, y, sample_weight=np.full(60, 2.0**26))
    assert heavy.count_table.dtype == jnp.int32
    counts = np.asarray(ju.leaf_counts(forest, queries), float)
    np.testing.assert_array_equal(ju.leaf_counts(heavy, queries), 2.0**26 * counts)
    check_slope(lambda counts: ju.leaf_counts(forest.with_counts(counts), queries), forest)
    traced = jax.jit(lambda counts: ju.leaf_counts(forest.with_counts(counts), queries))
    np.testing.assert_array_equal(traced(forest.counts), counts)


@pytest.mark.parametrize("mode", ["sum", "parent"])
def test_rows_that_are_known_while_a_program_is_traced(mode, forest):
    """The host reads their leaves, as it does outside."""
    forest, queries = forest.with_empty_leaves(mode), unseen(5)
    read = {
        "counts": lambda: ju.leaf_counts(forest, queries),
        "outside": lambda: ju.outside_share(forest, queries, rows=queries[:3]),
        "neighbours": lambda: ju.neighbours(forest, queries, rows=queries[:3], k=3, kind="leaves").weight,
    }
    within = jax.jit(lambda: {name: jnp.asarray(function()) for name, function in read.items()})()
    for name, function in read.items():
        np.testing.assert_allclose(within[name], function(), rtol=1e-6, err_msg=name)


@pytest.mark.exhaustive
def test_modes_of_empty_leaves_and_counting_commute(forest):
    """Instances in empty leaves count in the parent, whenever that is chosen."""
    (X, y, _), (other, labels, _) = mixed(60), mixed(200, seed=1)
    for weight in (None, np.linspace(0.1, 2, 200)):
        first = {
            mode: ju.count_leaves(forest.with_empty_leaves(mode), other, labels, sample_weight=weight)
            for mode in ju.forest.MODES
        }
        of_grown = ju.count_leaves(forest, X, y).with_empty_leaves("parent")
        assert not np.array_equal(first["parent"].counts, of_grown.counts)
        for mode in ju.forest.MODES:
            assert first[mode].with_empty_leaves(mode) is first[mode]
            for target in ju.forest.MODES:
                changed = first[mode].with_empty_leaves(target).counts
                np.testing.assert_allclose(changed, first[target].counts, rtol=0 if weight is None else 1e-6)


@pytest.mark.exhaustive
def test_counts_of_parents_are_traceable_where_trees_are_known(forest):
    parents = lambda counts: forest.with_counts(counts).with_empty_leaves("parent").counts
    np.testing.assert_array_equal(jax.jit(parents)(forest.counts), forest.with_empty_leaves("parent").counts)
    check_slope(parents, forest)
    refuses(ValueError, "before jit", jax.jit(lambda forest: forest.with_empty_leaves("parent").counts), forest)


@pytest.mark.exhaustive
@pytest.mark.parametrize("prior", ["tree", "forest"])
def test_modes_and_smoothing_commute(prior, forest):
    """A prior's instances are added once to what an empty leaf is given, whenever its mode is chosen."""
    alpha, queries = ju.smoothing.fit_forest_prior(forest, level=prior), unseen(20)
    by_tree = np.broadcast_to(alpha.alpha, (7, 3))
    for mode in ("parent", "zeros"):
        before = ju.smoothing.smooth_forest(forest.with_empty_leaves(mode), alpha)
        after = ju.smoothing.smooth_forest(forest, alpha).with_empty_leaves(mode)
        np.testing.assert_array_equal(before.counts, after.counts)
        plain = np.asarray(ju.leaf_counts(forest.with_empty_leaves(mode), queries))
        np.testing.assert_allclose(ju.leaf_counts(after, queries), plain + by_tree, rtol=1e-6)
        np.testing.assert_array_equal(after.count_table[0], 0)
        np.testing.assert_allclose(
            ju.bind(after, ju.Mean()).probability(queries),
            ju.bind(forest.with_empty_leaves(mode), ju.smoothing.SmoothedMean(alpha)).probability(queries),
            atol=1e-6,
        )


def below(children, counts, node: int) -> np.ndarray:
    child = children[node]
    return counts[node] if child == node else below(children, counts, child) + below(children, counts, child + 1)


@pytest.mark.exhaustive
def test_leave_one_out_with_empty_leaves():
    """An instance that was counted in an empty leaf is not taken out of the leaves of its siblings."""
    forest = grown(6, 7)
    other, labels, _ = mixed(40, seed=1)
    counted = ju.count_leaves(forest, other, labels)
    answer = ju.counting.leave_one_out(counted, ju.Pooling(), other, labels)
    counts = np.array(ju.leaf_counts(counted, other))
    for i, x in enumerate(other):
        for t in range(7):
            counts[i, t, labels[i]] -= reached_leaves(forest, t, x)[1] is None
    np.testing.assert_allclose(answer.class_scores, ju.Pooling()(jnp.asarray(counts)), atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_leaf_sizes_as_masses(weight, unseen):
    """Of integers they are other planes than of fractions, whose sums may be integers, or none."""
    X, nominal = mixed(60)[0][:, :2], np.array([False, True])
    forest = grown(5, 7, X=X, nominal=nominal, max_depth=2, sample_weight=np.full(60, weight))
    queries = np.where(unseen & nominal, 9, X[:16])
    rule = ju.GeneralizedVote(1.5 * weight, "leaf_size")
    found, expected = ju.bind(forest, rule)(queries), rule(ju.leaf_counts(forest, queries))
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-6)
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-6)

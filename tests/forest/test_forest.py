"""The arrays of a forest and their invariants."""

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.forest._assemble import snap_to_integers
from tests._forests import leaf_nodes, padded, toy_data, toy_forest, toy_model
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def forest():
    return toy_forest(3)


@pytest.mark.exhaustive
def test_properties(forest):
    depths, sizes = zip(*((one.get_depth(), one.tree_.node_count) for one in toy_model(3).estimators_), strict=True)
    assert forest.depth == max(depths)
    assert forest.n_nodes == 2 ** int(np.ceil(np.log2(max(sizes))))
    assert forest.class_labels == (0, 1, 2)
    assert forest.trees.columns.names is None
    assert float(forest.n_samples) == len(toy_data(3)[0])
    np.testing.assert_allclose(np.sum(forest.prior), 1, rtol=1e-6)
    assert "n_trees=12" in repr(forest)
    for valid in (forest, padded(forest, 2 * forest.n_nodes)):
        assert ju.forest.check_forest(valid) is valid


def test_counts_are_integers_and_add_up_in_a_table_of_distinct_ones(forest):
    assert forest.count_table.dtype == jnp.int32
    np.testing.assert_array_equal(np.asarray(forest.counts).sum((1, 2)), len(toy_data(3)[0]))
    np.testing.assert_array_equal(np.asarray(forest.counts)[~leaf_nodes(forest)], 0)
    np.testing.assert_array_equal(forest.count_table[0], 0)
    used = np.asarray(forest.count_table)[np.unique(np.asarray(forest.code))]
    assert len(np.unique(used, axis=0)) == len(used)


def test_with_counts(forest, rng):
    counts = jnp.asarray(rng.uniform(0, 5, (12, forest.n_nodes, 3)))
    child = np.asarray(forest.trees.child)
    other = forest.with_counts(counts)
    reached = np.zeros(child.shape, bool)
    reached[:, 0] = True
    for tree, node in np.argwhere(child != np.arange(forest.n_nodes)):
        reached[tree, child[tree, node] : child[tree, node] + 2] = True
    kept = np.where((reached & leaf_nodes(forest))[..., None], counts, 0)
    np.testing.assert_array_equal(other.counts, kept, "inner and padding nodes have none, whatever is given for them")
    np.testing.assert_array_equal(other.trees.feature, forest.trees.feature)
    total = jax.jit(jax.grad(lambda c: jnp.sum(forest.with_counts(c).counts ** 2)))(counts)
    np.testing.assert_allclose(total, 2 * kept, rtol=1e-6)


def test_with_counts_beyond_32_bits_and_with_prior(forest):
    found = np.asarray(forest.with_counts(np.full(forest.counts.shape, 5 * 10**9)).counts, float)
    np.testing.assert_array_equal(np.unique(found), [0, 5e9], "zeros in inner nodes")
    prior = np.array([0.5, 0.25, 0.25])
    np.testing.assert_array_equal(forest.with_prior(prior).prior, prior)


def test_forests_are_pytrees_and_pickle(forest):
    through = jax.jit(lambda f: f)(forest)
    for again in (jax.tree.map(lambda a: a, forest), through, pickle.loads(pickle.dumps(forest))):
        assert eqx.tree_equal(again, forest)
    assert through.class_labels == forest.class_labels


def test_snap_to_integers():
    counts = np.array([[2.0000000000002, 3 - 2e-13], [0.5, 1.25], [1e6 + 1e-4, 3.0]])
    sizes = counts.sum(1)
    np.testing.assert_array_equal(snap_to_integers(counts, sizes), [[2, 3], [0.5, 1.25], [1e6, 3]])


BROKEN = {
    "child before its parent": ("child", "root", 0, "children must lie after"),
    "child beyond the nodes": ("child", "inner", lambda f: f.n_nodes + 5, "inside the tree's nodes"),
    "child without a sibling": ("child", "inner", lambda f: f.n_nodes - 1, "inside the tree's nodes"),
    "leaf that lets go": ("threshold", "leaf", 0, "leaf's threshold"),
    "feature beyond the data": ("feature", "inner", lambda f: f.n_features, "n_features"),
    "negative feature": ("feature", "inner", -1, "n_features"),
    "code beyond the table": ("code", "leaf", lambda f: f.count_table.shape[0], "row of count_table"),
    "negative code": ("code", "leaf", -1, "row of count_table"),
    "depth too small": ("tree_depth", (0,), 1, "must end in a leaf"),
    "depth beyond the nodes": ("tree_depth", (0,), lambda f: f.n_nodes, "must end in a leaf"),
    "negative count": ("count_table", (1, 0), -1, "counts and n_samples must be finite"),
    "infinite count": ("count_table", (1, 0), np.inf, "counts and n_samples must be finite"),
    "prior that adds to two": ("prior", ..., lambda f: 2 * f.prior, "prior"),
    "negative prior": ("prior", ..., np.array([-0.5, 1.0, 0.5]), "prior"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_forests_are_named(name, forest):
    field, place, value, match = BROKEN[name]
    nodes = leaf_nodes(forest)
    place = {"root": (0, 1), "inner": np.argwhere(~nodes)[0], "leaf": np.argwhere(nodes)[0]}.get(str(place), place)
    read = lambda f: getattr(f.trees if hasattr(forest.trees, field) else f, field)
    array = np.array(read(forest), float if value is np.inf else None)
    array[place if place is ... else tuple(place)] = value(forest) if callable(value) else value
    broken = eqx.tree_at(read, forest, jnp.asarray(array))
    refuses(ValueError, match, ju.forest.check_forest, broken)


@pytest.fixture(scope="module")
def with_forks():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (60, 3)).astype(np.float32)
    return ju.grow_random_trees(jax.random.key(0), X, rng.integers(0, 2, 60), n_trees=3, nominal=np.ones(3, bool))


@pytest.mark.exhaustive
def test_forks_are_checked(with_forks):
    """Scrambled ones would send instances on without end, or to where they do not belong."""
    assert ju.forest.check_forest(with_forks) is with_forks
    assert ju.forest.check_trees(with_forks.trees) is with_forks.trees
    trees, forks = with_forks.trees, with_forks.trees.forks
    empty = tuple(np.argwhere(np.asarray(trees.feature) < 0)[0])
    node, first = np.asarray(forks.node), np.asarray(forks.first)
    changes = {
        "children in another order": ("node", np.roll(node, 1)),
        "a child that is no node": ("node", np.where(np.arange(len(node)) == 3, trees.n_nodes, node)),
        "a child twice": ("node", np.where(np.arange(len(node)) == first[1] - 1, node[first[1] - 2], node)),
        "the root": ("node", np.where(np.arange(len(node)) == 0, 0, node)),
        "an empty leaf as a child": ("node", np.where(np.arange(len(node)) == 0, empty[1], node)),
        "ends in disorder": ("first", np.concatenate([first[:1], first[2:], first[1:2]])),
        "ends beyond": ("first", first + 1),
        "another tree": ("tree", np.roll(np.asarray(forks.tree), forks.number // 2)),
        "no such tree": ("tree", np.full(forks.number, 3)),
    }
    for field, values in changes.values():
        of = lambda f, field=field: getattr(f.trees.forks, field)
        broken = eqx.tree_at(of, with_forks, jnp.asarray(values, jnp.int32))
        refuses(ValueError, "multi-way test", ju.forest.check_forest, broken)
    for value, words in ((-1 - forks.number, "one of the forks"), (-2, "multi-way test")):
        feature = np.array(trees.feature)
        feature[empty] = value
        broken = eqx.tree_at(lambda f: f.trees.feature, with_forks, jnp.asarray(feature))
        refuses(ValueError, words, ju.forest.check_forest, broken)


def _first_count(value) -> np.ndarray:
    """Counts of which the first is so."""
    counts = np.array(toy_forest(3).counts, float)
    counts[0, 0, 0] = value
    return counts


def _with_fewer_codes(forest):
    return eqx.tree_at(lambda f: f.code, forest, forest.code[:, :-1])


PRIORS = {"of two": [0.5, 0.5], "of 3/2": [0.5] * 3, "negative": [-0.5, 1.0, 0.5], "missing": [np.nan, 0.5, 0.5]}
test_refusals = refusals(
    ("two classes", lambda forest: forest.with_counts(np.asarray(forest.counts)[:, :, :2]), "counts has shape"),
    ("fewer trees", lambda forest: forest.with_counts(np.asarray(forest.counts)[:-1]), "counts has shape"),
    ("negative", lambda forest: forest.with_counts(_first_count(-1).astype(np.int32)), "negative"),
    ("NaN", lambda forest: forest.with_counts(_first_count(np.nan)), "NaN"),
    ("infinite", lambda forest: forest.with_counts(_first_count(np.inf)), "infinite"),
    *((f"prior {what}", lambda forest, p=p: forest.with_prior(np.array(p)), "prior") for what, p in PRIORS.items()),
    ("fewer codes", lambda forest: ju.forest.check_forest(_with_fewer_codes(forest)), "share one shape"),
)


@pytest.mark.parametrize("order", [("own", "grown"), ("grown", "own")])
def test_count_sets_before_and_after_the_mode(with_forks, order):
    """The counts of forks, which the mode "parent" reads, are there for each set."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 7, (60, 3)).astype(np.float32)  # levels that the trees have not seen
    counted = ju.count_leaves(with_forks, X, rng.integers(0, 2, 60))
    later = counted.with_count_set("grown", with_forks).with_empty_leaves("parent").reading(order)
    parent = with_forks.with_empty_leaves("parent")
    first = counted.with_empty_leaves("parent").with_count_set("grown", parent).reading(order)
    np.testing.assert_array_equal(later.fork_counts, first.fork_counts)
    table = lambda counts: parent.with_count_set("grown", parent.with_counts(counts)).reading(order).counts
    np.testing.assert_array_equal(jax.jit(table)(parent.counts), table(parent.counts))

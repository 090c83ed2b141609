"""No program depends on how many instances are asked about: after a few sizes any other compiles nothing."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.decisions import CautiousReport, nondominated
from jaxunc.inference import BoundForest
from jaxunc.inference._by_rows import ByRows
from jaxunc.inference._drive import MOST_FREQUENT, MOST_UNCOMPILED, _is_frequent, over_rows
from tests._compilations import compilations
from tests._forests import toy_forest
from tests._sparse import sparse_data, sparse_forest

pytestmark = pytest.mark.once

MOST = 900
FIRST = (1, 2, 3, 5, 10, 20, 60, 100, 200, 500, 900)
"""A size for each shape that batches up to `MOST` are cut into, or so."""
OTHERS = tuple(np.random.default_rng(0).permutation(np.arange(1, MOST))[:50])

N_CLASSES = 3
X = np.random.default_rng(1).normal(size=(MOST, 6)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, N_CLASSES, MOST)
MISSING = np.where(np.random.default_rng(3).random(X.shape) < 0.1, np.nan, X).astype(np.float32)
MASK = np.random.default_rng(4).random((MOST, 12)) < 0.7
forest = partial(toy_forest, N_CLASSES)


def bound_forest(walk: str, by_rows: bool):
    rule = CautiousReport(1.0)
    bound = BoundForest(ByRows.of(forest(), rule, walk), rule, 2) if by_rows else ju.bind(forest(), rule, walk=walk)
    return lambda n: (bound(X[:n]), bound(MISSING[:n]), bound(X[:n], tree_mask=MASK[:n]))


def read_outs_and_collected_planes():
    mean, median = ju.bind(forest(), ju.Mean()), ju.bind(forest(), ju.combiners.Median())
    reads = mean, mean.probability, mean.log_probability, mean.answer, median
    return lambda n: [read(X[:n]) for read in reads]


def leaves_and_counts(n: int) -> None:
    for walk in ("blocks", "levels"):
        ju.leaf_index(forest(), MISSING[:n], walk=walk)
    ju.leaf_counts(forest(), X[:n])
    counted = ju.count_leaves(forest(), X[:n], Y[:n], tree_mask=MASK[:n])
    ju.counting.leave_one_out(counted, ju.Mean(), X[:n], Y[:n])


def sharded_forests():
    mesh = jax.make_mesh((1, 1), ("data", "tree"))
    sharded = [ju.shard(ju.bind(forest(), ju.Mean(), walk=walk), mesh) for walk in ("blocks", "levels")]
    return lambda n: [(one.answer(X[:n]), one(X[:n], tree_mask=MASK[:n])) for one in sharded]


def empty_leaves(mode: str):
    words = np.floor(2.5 * np.abs(X))
    grown = ju.grow_random_trees(jax.random.key(3), words[:100], Y[:100], n_trees=4, nominal=np.ones(6, bool))
    given = grown.with_empty_leaves(mode)
    bound = ju.bind(given, ju.Mean())
    return lambda n: (bound(words[:n]), mode == "average" or ju.leaf_counts(given, words[:n]))


def votes():
    bound = [ju.voting.bind_vote(forest(), walk=walk) for walk in ("blocks", "levels")]
    bound.append(ju.voting.bind_vote(forest(), criterion="certain"))
    return lambda n: [vote(X[:n]) for vote in bound]


def sparse_rows():
    bound, halves = ju.bind(sparse_forest(3), ju.Mean()), sparse_data(MOST, seed=1)
    return lambda n: (bound.probability(halves[:n]), ju.leaf_index(bound.forest, halves[:n]))


ASKED = {
    **{
        f"{walk}{', by rows' * by_rows}": lambda walk=walk, by_rows=by_rows: bound_forest(walk, by_rows)
        for walk in ("blocks", "levels")
        for by_rows in (False, True)
    },
    "read-outs": read_outs_and_collected_planes,
    "leaves": lambda: leaves_and_counts,
    "sharded": sharded_forests,
    **{f"empty leaves, {mode}": lambda mode=mode: empty_leaves(mode) for mode in ("sum", "average", "parent")},
    "votes": votes,
    "sparse": sparse_rows,
}
FURTHER = {"empty": range(50, MOST, 50), "votes": (30, 100, 400, 700), "sparse": (4, 8, 16, 32, 64, 128, 300)}
"""How many pairs are followed depends on the data, by powers of two; votes have rounds of those that are left."""


def later_programs(ask, further=()) -> list[str]:
    for n in (*FIRST, *further):
        ask(n)
    with compilations() as names:
        for n in OTHERS[: 20 if further else None]:
            ask(n)
    return names


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ASKED)
def test_no_program_is_for_a_number_of_rows(name):
    assert later_programs(ASKED[name](), FURTHER.get(name.partition(" ")[0], ())) == []


@pytest.mark.exhaustive
def test_leaves_are_those_of_one_program():
    """Cut and padded, traced as a whole or row by row: at the ends of all shapes, and beyond the largest."""
    many = np.tile(X, (20, 1))
    whole = np.asarray(jax.jit(lambda x: ju.leaf_index(forest(), x))(many))
    np.testing.assert_array_equal(ju.leaf_index(forest(), many, walk="levels"), whole)
    for n in (0, 1, 8, 9, 64, 65, 256, 257, 1024, 1025, 1537, 2048, 2049, len(many)):
        leaves = ju.leaf_index(forest(), many[:n])
        assert isinstance(leaves, jax.Array)
        assert leaves.dtype == np.int32
        np.testing.assert_array_equal(leaves, whole[:n])
    mapped = jax.vmap(lambda x: ju.leaf_index(forest(), x))(jnp.asarray(many[:500]).reshape(5, 100, 6))
    np.testing.assert_array_equal(mapped.reshape(500, -1), whole[:500])


@pytest.mark.exhaustive
def test_functions_of_rows():
    """Sets of a preference, as outputs of streams have them; a number stands for all rows."""
    preference = jax.tree.map(np.asarray, ju.bind(forest(), ju.GeneralizedVote(1.0))(X))
    some = lambda n: jax.tree.map(lambda part: part[:n] if part.ndim else part, preference)
    assert later_programs(lambda n: over_rows(nondominated, some(n))) == []
    np.testing.assert_array_equal(over_rows(nondominated, preference), nondominated(preference))


@pytest.mark.parametrize("n", [7, 100, 5000])
def test_a_frequent_number_of_instances(n):
    """A program joins its parts and cuts off their padding, once as many were asked about often; the bits stay."""
    x = np.resize(X, (n, X.shape[1]))
    mask = np.resize(MASK[:, : forest().n_trees], (n, forest().n_trees))
    bound = ju.bind(forest(), ju.Mean())
    answer = lambda: (bound.answer(x), bound.answer(x, tree_mask=mask))
    first = jax.tree.map(np.asarray, answer())
    with compilations(joining=True) as names:
        for _ in range(MOST_UNCOMPILED):
            bound.answer(x)
        assert names == []
        last = answer()
    assert names == ["jit(_join_on_device)"]
    assert not any(array.committed for array in jax.tree.leaves(last))
    jax.tree.map(np.testing.assert_array_equal, first, last)
    traced = jax.jit(lambda: bound(x))()
    np.testing.assert_array_equal(traced, last[0].class_scores)


def test_few_numbers_of_instances_are_frequent():
    """Programs that join parts do not add up where every number of instances is asked about often."""
    numbers = range(5, 5 + MOST_FREQUENT + 8)
    with compilations():  # which forgets the calls before
        for _ in range(MOST_UNCOMPILED):
            assert not any(map(_is_frequent, numbers))
        for _ in range(2):
            assert [n for n in numbers if _is_frequent(n)] == [*numbers[:MOST_FREQUENT]]

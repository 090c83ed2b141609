"""No program depends on how many instances are asked about: after a few sizes any other compiles nothing."""

import jax
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.decisions import CautiousReport, nondominated
from jaxunc.inference import BoundForest
from jaxunc.inference._by_rows import ByRows
from jaxunc.inference._drive import over_rows
from tests._compilations import compilations
from tests._forests import toy_forest

pytestmark = pytest.mark.once

MOST = 900
FIRST = (1, 2, 3, 5, 10, 20, 60, 100, 200, 500, 900)
"""A size for each shape that batches up to `MOST` are cut into, or so."""
OTHERS = tuple(np.random.default_rng(0).permutation(np.arange(1, MOST))[:50])

N_CLASSES = 3
X = np.random.default_rng(1).normal(size=(MOST, 6)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, N_CLASSES, MOST)
MISSING = np.where(np.random.default_rng(3).random(X.shape) < 0.1, np.nan, X).astype(np.float32)
MASK = np.random.default_rng(4).random((MOST, 100)) < 0.7


def later_programs(ask, sizes=OTHERS) -> list[str]:
    """What is compiled for further sizes."""
    for n in FIRST:
        ask(n)
    with compilations() as names:
        for n in sizes:
            ask(n)
    return names


@pytest.fixture(scope="module")
def forest() -> ju.Forest:
    return toy_forest(N_CLASSES)


@pytest.fixture(scope="module")
def nominal() -> ju.Forest:
    """With empty leaves."""
    words = np.floor(2.5 * np.abs(X[:100]))
    return ju.grow_random_trees(jax.random.key(3), words, Y[:100], n_trees=4, nominal=np.ones(6, bool))


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.exhaustive
def test_bound_forests(forest, walk, by_rows):
    rule = CautiousReport(1.0)
    bound = BoundForest(ByRows.of(forest, rule, walk), rule, 2) if by_rows else ju.bind(forest, rule, walk=walk)

    def ask(n):
        bound(X[:n])
        bound(MISSING[:n])
        bound(X[:n], tree_mask=MASK[:n, : forest.n_trees])

    assert later_programs(ask) == []


def read_outs_and_collected_planes(forest):
    mean, median = ju.bind(forest, ju.Mean()), ju.bind(forest, ju.combiners.Median())
    reads = mean, mean.probability, mean.log_probability, mean.answer, median
    return lambda n: [read(X[:n]) for read in reads]


def leaves_and_counts(forest):
    def ask(n):
        for walk in ("blocks", "levels"):
            ju.leaf_index(forest, MISSING[:n], walk=walk)
        ju.leaf_counts(forest, X[:n])
        counted = ju.count_leaves(forest, X[:n], Y[:n], tree_mask=MASK[:n, : forest.n_trees])
        ju.counting.leave_one_out(counted, ju.Mean(), X[:n], Y[:n])

    return ask


def sharded_forests(forest):
    mesh = jax.make_mesh((1, 1), ("data", "tree"))
    sharded = [ju.shard(ju.bind(forest, ju.Mean(), walk=walk), mesh) for walk in ("blocks", "levels")]
    mask = lambda n: MASK[:n, : forest.n_trees]
    return lambda n: [(one.answer(X[:n]), one(X[:n], tree_mask=mask(n))) for one in sharded]


@pytest.mark.parametrize("asked", [read_outs_and_collected_planes, leaves_and_counts, sharded_forests])
@pytest.mark.exhaustive
def test_what_forests_are_asked(forest, asked):
    assert later_programs(asked(forest)) == []


@pytest.mark.parametrize("mode", ["sum", "average", "parent"])
@pytest.mark.exhaustive
def test_empty_leaves(nominal, mode):
    forest, words = nominal.with_empty_leaves(mode), np.floor(2.5 * np.abs(X))
    bound = ju.bind(forest, ju.Mean())

    def ask(n):
        bound(words[:n])
        if mode != "average":
            ju.leaf_counts(forest, words[:n])

    for n in range(50, MOST, 50):  # how many pairs are followed depends on the data, by powers of two
        ask(n)
    assert later_programs(ask, OTHERS[:20]) == []


@pytest.mark.exhaustive
def test_leaves_are_those_of_one_program(forest):
    """Cut and padded, or traced as a whole: at the ends of all shapes, and beyond the largest."""
    many = np.tile(X, (20, 1))
    whole = np.asarray(jax.jit(lambda x: ju.leaf_index(forest, x))(many))
    for n in (0, 1, 8, 9, 64, 65, 256, 257, 1024, 1025, 1537, 2048, 2049, len(many)):
        leaves = ju.leaf_index(forest, many[:n])
        assert isinstance(leaves, jax.Array)
        assert leaves.dtype == np.int32
        np.testing.assert_array_equal(leaves, whole[:n])


@pytest.mark.exhaustive
def test_votes(forest):
    votes = [ju.voting.bind_vote(forest, walk=walk) for walk in ("blocks", "levels")]
    votes.append(ju.voting.bind_vote(forest, criterion="certain"))
    for n in (30, 100, 400, 700):  # the rounds of fewer instances that are left
        for vote in votes:
            vote(X[:n])
    assert later_programs(lambda n: [vote(X[:n]) for vote in votes]) == []


@pytest.mark.exhaustive
def test_functions_of_rows(forest):
    """Sets of a preference, as outputs of streams have them; a number stands for all rows."""
    preference = jax.tree.map(np.asarray, ju.bind(forest, ju.GeneralizedVote(1.0))(X))
    some = lambda n: jax.tree.map(lambda part: part[:n] if part.ndim else part, preference)
    assert later_programs(lambda n: over_rows(nondominated, some(n))) == []
    np.testing.assert_array_equal(over_rows(nondominated, preference), nondominated(preference))

"""Many classes: wide planes say to the bit what planes do, by programs of one size, up to a thousand classes."""

from functools import lru_cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.inference import _by_table, _packed_trees, _planes, cut, leaf_table
from jaxunc.inference._drive import Chunk, Shapes
from jaxunc.smoothing import MemberSmoothing
from tests._exhaustive import a_few_of
from tests._forests import forest_of_leaves, random_counts, toy_data, toy_forest
from tests._refusal import refusals
from tests._rules import RULES, by_rule
from tests.inference._same import FURTHER, assert_same_bits, check_parts, rule_of

pytestmark = pytest.mark.room

KEPT, WALKS = "pooling", ("blocks", "levels")
BY_CLASS = "one vs rest, a list"
"""A combiner for each class, which has numbers for each class."""
OF_CLASSES = [name for name, rule in RULES.items() if not rule.binary_only]
MADE = [*OF_CLASSES, *(name for name in FURTHER if name != "uncertainty, plausibility")]
NINE = ("pooling", "together", "weighted_pooling")
"""Of nine classes, from which on `Pooling` has one array."""
MANY, WIDE = 10**9, 2


def data(n_classes: int = 3) -> tuple[ju.Forest, np.ndarray, np.ndarray]:
    forest, X = toy_forest(n_classes), np.array(toy_data(n_classes)[0][:150])
    X[::7, 1] = np.nan
    return forest, X, np.random.default_rng(7).random((len(X), forest.n_trees)) < 0.7


def both_ways(monkeypatch, answer):
    found = []
    for width in (MANY, WIDE):
        monkeypatch.setattr(_planes, "WIDE", width)
        found.append(answer())
    return found


@pytest.mark.parametrize(("name", "walk"), a_few_of(product(MADE, WALKS), [(KEPT, "blocks")], several=True))
def test_as_by_planes(name, walk, monkeypatch, tolerance):
    """One row, few, blocks and padding; in one call, and in parts. To the bit, where trees are merged in order."""
    n_classes = 9 if name in NINE else 3
    forest, X, mask = data(n_classes)

    def answer():
        bound = ju.bind(forest, rule_of(name, n_classes, forest.n_trees), walk=walk)
        assert bound.engine.packed.spec.layout.is_wide == (_planes.WIDE == WIDE)
        few = [bound.answer(X[:n]) for n in (1, 40)] if walk == "blocks" else []
        return [*few, bound.answer(X), bound.answer(X, tree_mask=mask), bound.answer(np.nan_to_num(X))]

    planes, wide = both_ways(monkeypatch, answer)
    if walk == "blocks":
        assert_same_bits(wide, planes)
    for a, b in zip(jax.tree.leaves(wide), jax.tree.leaves(planes), strict=True):
        tolerance.check(a, b, scale=1.0, what=name)


@pytest.mark.parametrize("name", ["mean", pytest.param("vote of intervals", marks=pytest.mark.exhaustive)])
def test_parts_and_padding_of_the_trees(name, monkeypatch):
    forest, X, mask = data()
    X = np.nan_to_num(X)
    monkeypatch.setattr(_planes, "WIDE", WIDE)
    packed = ju.bind(forest, rule_of(name, forest.n_classes, forest.n_trees)).engine.packed
    check_parts(packed, packed, X, mask)


@pytest.mark.parametrize(
    "merge", ["sum", *(pytest.param(m, marks=pytest.mark.exhaustive) for m in ("min", "exact_sum"))]
)
def test_gradients_are_those_of_planes(merge, monkeypatch, rng):
    forest, X, mask = data()
    table = rng.random((forest.n_trees, forest.n_nodes, 5)).round(1).astype(np.float32)
    weights = rng.random((len(X), 5)).astype(np.float32)

    def loss(table, mask):
        merged = ju.inference.merge_leaves(forest, table, X, merge=merge, tree_mask=mask)
        merged = merged.value if merge == "exact_sum" else merged
        return jnp.sum(weights * jnp.where(jnp.isfinite(merged), merged, 0))

    planes, wide = both_ways(monkeypatch, lambda: [jax.jit(jax.grad(loss))(table, one) for one in (None, mask)])
    for a, b in zip(wide, planes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@lru_cache
def wide_forest(n_classes: int, n: int = 40, n_trees: int = 3) -> tuple[ju.Forest, np.ndarray, np.ndarray]:
    counts = random_counts(np.random.default_rng(n_classes), (n, n_trees), n_classes)
    return *forest_of_leaves(counts), counts


@pytest.mark.parametrize("name", a_few_of([name for name in MADE if name != BY_CLASS], [KEPT]))
def test_programs_do_not_grow_with_the_classes(name):
    def size(n_classes: int) -> int:
        forest, X, _ = wide_forest(n_classes)
        rule = rule_of(name, n_classes, forest.n_trees)
        packed = ju.bind(forest, rule).engine.packed
        program = jax.make_jaxpr(lambda x: rule.finish(packed.merge(x)))(X)
        return str(program).count(" = ")  # equations, those of loops and functions included

    assert size(60) == size(40)


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_thousand_classes(name):
    """A thousand rows at once; class scores of some by the float64 loops, and all probabilities add to 1."""
    forest, X, counts = wide_forest(1000, 1000, 5)
    rule, prior = RULES[name], np.arange(1, 1001) / 500500
    # A clip below 1/classes, which the default is not.
    made = MemberSmoothing(clip=1e-5) if name == "member_smoothing" else rule_of(name, 1000, 5)
    answers = by_rule(ju.bind(forest, made).answer(X))
    references = rule.reference if isinstance(rule.reference, dict) else {"": rule.reference}
    weights = rule.weights(np.arange(5.0)).tolist()
    for row in np.linspace(0, 999, 2 if rule.kind == "pi" else 12).astype(int):
        for key, reference in references.items():
            expected = np.asarray(reference(counts[row].astype(float), prior, weights))
            least = 1e-3 if rule.probability_from == "shares" and key != "evidence" else 1.0
            np.testing.assert_allclose(answers[key].class_scores[row], expected, rtol=3e-5, atol=3e-5 * least)
    for answer in answers.values():
        assert answer.probability.shape == (1000, 1000)
        np.testing.assert_allclose(np.asarray(answer.probability, float).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("mode", ["own", "traced"])
def test_memory_is_linear_in_the_classes(mode):
    """Temporary memory of the program that merges, of as many rows; and the leaf table by rows, not by nodes."""

    def peak(n_classes: int) -> float:
        forest, X, _ = wide_forest(n_classes)
        if mode == "own":
            packed = ju.bind(forest, ju.Pooling()).engine.packed
            assert [len(rows) for rows in packed.rows] == [1 + len(forest.count_table)]
            lowered = jax.jit(lambda x: packed.merge(x)).lower(X)
        else:
            fold = lambda table: ju.inference.merge_leaves(forest, table, X, merge="exact_sum")
            lowered = jax.jit(fold).lower(leaf_table(forest, ju.Pooling()))
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert peak(160) < 5 * peak(40)


def test_an_accelerator_walks_all_blocks_of_a_call(monkeypatch):
    """Of classes so many that not all rows of a call go together."""
    forest, X, _ = data()
    expected = ju.bind(forest, ju.Mean()).probability(X)
    monkeypatch.setattr(_planes, "WIDE", 2)
    monkeypatch.setattr(_packed_trees, "MERGED_NUMBERS", 64 * forest.n_classes)
    monkeypatch.setattr(_by_table, "MERGED_NUMBERS", 100 * forest.n_classes)
    bound = ju.bind(forest, ju.Mean(), walk="levels")
    assert bound._engine(False).call().shapes.single == (100, 64)
    np.testing.assert_allclose(bound.probability(X), expected, rtol=1e-5)


test_refusals = refusals(  # before anything is computed: memory would not do
    *(
        (pairs.__name__, lambda pairs=pairs: ju.bind(wide_forest(2000, 200, 5)[0], pairs(1.0)), words)
        for pairs in (ju.GeneralizedVote, ju.LearnedVote, ju.ExplainedVote)
        for words in [rf"{pairs.__name__} of 2000 classes makes \d+ numbers of each leaf.* GB"]
    )
)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_every_number_of_instances_is_cut_where_calls_are_small(threads):
    """Shapes below those that threads share, as combiners of many numbers and explanations have."""
    shapes = Shapes(Chunk(32, 32), None, (Chunk(8, 8),))
    for n in range(400):
        parts = cut(n, shapes, threads)
        assert [0, *(part.stop for part in parts)] == [*(part.start for part in parts), n]
        assert all(part.stop - part.start <= part.chunk.rows for part in parts)

"""Random decision trees: their distribution, what they do not depend on, and what is refused."""

from collections import Counter
from functools import lru_cache
from unittest import mock

import jax
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jaxunc as ju
from jaxunc.inference import _by_rows
from jaxunc.random_trees import _grow_random_trees
from jaxunc.random_trees._sample import encode
from jaxunc.tables import Columns, Levels
from tests._forests import leaf_nodes, order_key
from tests._refusal import refusals, refuses
from tests.random_trees._exact import exact_roots, exact_trees, of_sizes

pytestmark = pytest.mark.once

SMALL = np.array([[0.5, 1, 0], [2, 1, 1], [-3, 0, 1], [2, 4, 4], [7, 2, 4], [1e-40, 2, 7.0]])
LABELS = np.array([0, 1, 0, 1, 1, 0])
N_TREES = 2048


def mixed(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two numeric and two nominal features (one with gaps between its codes), three classes."""
    rng = np.random.default_rng(seed)
    codes = np.array([-2, 1, 4, 5, 6, 30])
    X = [rng.normal(size=n), rng.integers(0, 4, n), np.round(rng.normal(size=n), 1), codes[rng.integers(0, 6, n)]]
    return np.column_stack(X).astype(np.float32), rng.integers(0, 3, n), np.array([False, True, False, True])


def grown(key: int, n_trees: int, **settings) -> ju.Forest:
    """Trees of 60 instances of `mixed`, unless others are given."""
    X, y, nominal = mixed(60)
    return ju.grow_random_trees(jax.random.key(key), **{"X": X, "y": y, "nominal": nominal} | settings, n_trees=n_trees)


def same_trees(a: ju.Forest, b: ju.Forest) -> None:
    for mine, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(mine, other)


def leaf_sizes(forest: ju.Forest) -> list[tuple[int, ...]]:
    sizes = np.asarray(forest.counts).sum(-1)
    return [tuple(sorted(row[row > 0].tolist())) for row in sizes]


def assert_distributed(found: list, expected: dict) -> None:
    """Chi-square, rare outcomes together; the key is fixed, so a right grower passes always."""
    counts = Counter(found)
    assert set(counts) <= set(expected), set(counts) - set(expected)
    common = [outcome for outcome, p in expected.items() if p * len(found) >= 8]
    rest = 1 - sum(expected[outcome] for outcome in common)
    observed, wanted = [counts[o] for o in common], [expected[o] * len(found) for o in common]
    if rest * len(found) > 1:
        observed, wanted = [*observed, len(found) - sum(observed)], [*wanted, rest * len(found)]
    assert len(observed) > 1
    wanted = np.array(wanted) * sum(observed) / sum(wanted)
    from scipy.stats import chisquare

    assert chisquare(observed, wanted).pvalue > 1e-3


@lru_cache
def small_forest(nominal, min_samples_leaf: int) -> tuple[ju.Forest, dict]:
    """Many trees of a few instances, and their exact distribution."""
    kinds = np.array(nominal, bool)
    X = np.where(kinds, np.rint(SMALL), SMALL)
    how = {"n_trees": N_TREES, "min_samples_leaf": min_samples_leaf, "nominal": kinds}
    forest = ju.grow_random_trees(jax.random.key(1), X, LABELS, **how)
    return ju.forest.check_forest(forest), exact_trees(X, kinds, min_samples_leaf)


@pytest.mark.exhaustive(keep=2)  # each value once
@pytest.mark.parametrize("nominal", [(0, 0, 0), (0, 1, 1)], ids=str)
@pytest.mark.parametrize("min_samples_leaf", [1, 2])
@pytest.mark.room
def test_leaf_sizes(nominal, min_samples_leaf):
    forest, exact = small_forest(nominal, min_samples_leaf)
    assert_distributed(leaf_sizes(forest), of_sizes(exact))


def depths(forest: ju.Forest) -> np.ndarray:
    """How many binary tests deep each node is, ``[trees nodes]``; -1 for padding."""
    child, leaf = np.asarray(forest.trees.child), leaf_nodes(forest)
    depth = np.full(child.shape, -1)
    depth[:, 0] = 0
    for level in range(child.shape[1]):
        tree, node = np.nonzero((depth == level) & ~leaf)
        if not tree.size:
            return depth
        for side in (0, 1):
            depth[tree, child[tree, node] + side] = level + 1
    raise AssertionError("a node is its own descendant")


@pytest.mark.exhaustive
@pytest.mark.parametrize("min_samples_leaf", [1, 2])
def test_depths(min_samples_leaf):
    """How deep leaves of which size lie, together for each tree."""
    forest, exact = small_forest((0, 0, 0), min_samples_leaf)
    sizes, deep = np.asarray(forest.counts).sum(-1), depths(forest)
    found = [
        tuple(sorted(zip(d[n > 0].tolist(), n[n > 0].astype(int).tolist(), strict=True)))
        for d, n in zip(deep, sizes, strict=True)
    ]
    assert_distributed(found, exact)
    expected = Counter()
    for leaves, p in exact.items():
        expected[max(depth for depth, _ in leaves)] += p
    assert_distributed([max(depth for depth, _ in leaves) for leaves in found], expected)
    assert forest.depth == max(expected)


ROWS, TREES = 12, 8


@pytest.mark.exhaustive
@settings(max_examples=8)
@given(
    hnp.arrays(
        np.float32,
        (ROWS, 3),
        elements=st.one_of(st.integers(-2, 2), st.floats(-1024.0, 1024.0, width=32, allow_subnormal=False)),
    ),
    hnp.arrays(np.int64, ROWS, elements=st.integers(0, 1)),
    st.integers(0, 2**31 - 1),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(0, 4)),
)
def test_any_sample(X, y, seed, min_samples_leaf, max_depth):
    """Leaves are parts of the sample, large enough and not too deep, whatever the blocks."""
    y[:2] = 0, 1
    how = {"n_trees": TREES, "min_samples_leaf": min_samples_leaf, "max_depth": max_depth}
    grow = lambda: ju.grow_random_trees(jax.random.key(seed), X, y, **how)
    forest = ju.forest.check_forest(grow())
    counts, deep = np.asarray(forest.counts), depths(forest)
    np.testing.assert_array_equal(counts.sum(axis=1), np.tile(np.bincount(y), (TREES, 1)))
    sizes = counts.sum(axis=-1)[(deep >= 0) & leaf_nodes(forest)]
    assert sizes.min() >= min_samples_leaf
    assert deep.max() == forest.depth <= (ROWS - 1 if max_depth is None else max_depth)
    with mock.patch.object(_grow_random_trees, "BLOCK_LANES", 3 * ROWS):
        same_trees(forest, grow())


@pytest.mark.parametrize("min_samples_leaf", [1, 2])
@pytest.mark.exhaustive
def test_first_test(min_samples_leaf):
    """Features, thresholds and operators: of the root, since every node is drawn for alike."""
    how = {"n_trees": N_TREES, "min_samples_leaf": min_samples_leaf, "max_depth": 1}
    forest = ju.grow_random_trees(jax.random.key(2), SMALL, LABELS, **how)
    tests = [test for test in exact_roots(SMALL, min_samples_leaf) if test]
    named = {(test[0], int(order_key([test[1]])[0]) - test[2]): test for test in tests}
    roots = (np.asarray(getattr(forest.trees, name))[:, 0].tolist() for name in ("feature", "threshold", "child"))
    found = [named[feature, threshold] if child else None for feature, threshold, child in zip(*roots, strict=True)]
    assert_distributed(found, exact_roots(SMALL, min_samples_leaf))
    assert forest.depth == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("min_samples_leaf", "limits"),
    [
        (1, {"BLOCK_LANES": 61, "NODE_CHUNK": 64}),
        (3, {"BLOCK_LANES": 130, "NODE_CHUNK": 64}),
        (3, {"MOST_CELLS": 1024}),  # many values, which are counted in few trees at a time
    ],
)
def test_trees_do_not_depend_on_blocks_and_chunks(monkeypatch, min_samples_leaf, limits):
    grow = lambda n: grown(3, n, min_samples_leaf=min_samples_leaf)
    whole = grow(11)
    for name, value in (limits | {"LANE_CHUNK": 64}).items():
        monkeypatch.setattr(_grow_random_trees, name, value)
    blocks = mock.Mock(wraps=_grow_random_trees.grow_block)
    monkeypatch.setattr(_grow_random_trees, "grow_block", blocks)
    same_trees(whole, grow(11))
    assert blocks.call_count > 2
    few = grow(5)
    width = min(few.n_nodes, whole.n_nodes)
    np.testing.assert_array_equal(few.trees.threshold[:, :width], whole.trees.threshold[:5, :width])


@pytest.mark.room
def test_counts_are_those_of_the_sample():
    (X, y, _), weight = mixed(60), np.arange(60) % 4
    forest = grown(4, 11, min_samples_leaf=3, sample_weight=weight)
    again = ju.count_leaves(ju.forest.check_forest(forest), X, y, sample_weight=weight)
    # Instances of weight 0 were left out, and may be in empty leaves.
    np.testing.assert_array_equal(again.counts, forest.counts)
    np.testing.assert_allclose(again.prior, forest.prior)
    assert float(forest.n_samples) == weight.sum()


@pytest.mark.room
def test_missing_numbers_go_where_their_node_sends_them():
    X, y, nominal = mixed(60)
    rng = np.random.default_rng(0)
    X = np.where((rng.random(X.shape) < 0.3) & ~np.array(nominal, bool), np.nan, X)
    forest = grown(4, 7, X=X, missing="random")
    np.testing.assert_array_equal(ju.count_leaves(ju.forest.check_forest(forest), X, y).counts, forest.counts)
    inner = np.asarray(forest.trees.child) != np.arange(forest.n_nodes)
    numeric = inner & ~np.array(nominal, bool)[np.maximum(forest.trees.feature, 0)]
    right = np.asarray(forest.trees.missing_right)[numeric]
    assert abs(right.mean() - 0.5) < 4 * 0.5 / np.sqrt(right.size)
    known = np.where(np.isnan(X), 0, X).astype(np.float32)
    thresholds = (grown(4, 7, X=known, missing=missing).trees.threshold for missing in ("error", "random"))
    np.testing.assert_array_equal(*thresholds)


@pytest.mark.parametrize(
    ("X", "change"),
    [
        (np.ones((9, 2)), {}),
        (np.ones((9, 2)), {"nominal": np.array([True, False])}),
        (np.arange(18.0).reshape(9, 2), {"min_samples_split": 10}),
        (np.arange(18.0).reshape(9, 2), {"min_samples_leaf": 5}),
        (np.arange(18.0).reshape(9, 2), {"max_depth": 0}),
    ],
    ids=["constant", "constant nominal", "few instances", "large leaves", "no depth"],
)
@pytest.mark.exhaustive
def test_single_leaves(X, change):
    y = np.arange(9) % 2
    forest = ju.grow_random_trees(jax.random.key(7), X, y, n_trees=3, **change)
    assert forest.depth == 0
    assert forest.trees.forks is None
    np.testing.assert_array_equal(ju.leaf_counts(forest, X), np.broadcast_to([5, 4], (9, 3, 2)))


@pytest.mark.exhaustive
def test_labels_are_not_looked_at_and_a_multi_way_test_is_one_step_deep():
    """Other labels, the same tests: pure nodes are split like any other."""
    y = mixed(60)[1]
    forests = [grown(8, 7, y=labels) for labels in (y, y[::-1])]
    for name in ("feature", "threshold", "child"):
        np.testing.assert_array_equal(*(getattr(forest.trees, name) for forest in forests))
    assert not np.array_equal(forests[0].counts, forests[1].counts)
    forest = grown(8, 7, max_depth=1)
    for t, root in enumerate(np.asarray(forest.trees.feature)[:, 0]):
        assert set(np.asarray(forest.trees.feature)[t][~leaf_nodes(forest)[t]].tolist()) == {int(root)}
    assert forest.depth > 1


@pytest.mark.exhaustive
def test_thresholds_of_subnormals_and_signed_zeros():
    """x < t and x <= t are told apart at the smallest steps of float32."""
    tiny = np.float32(1e-45)
    X = np.array([[-tiny], [-0.0], [0.0], [tiny]], np.float32)
    forest = ju.grow_random_trees(jax.random.key(9), X, [0, 1, 1, 0], n_trees=30)
    assert set(leaf_sizes(forest)) <= {(1, 1, 2), (1, 3), (4,)}
    np.testing.assert_array_equal(ju.count_leaves(forest, X, [0, 1, 1, 0]).counts, forest.counts)


@pytest.mark.exhaustive
def test_data_frames_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2, 3, 4], "b": [0, 1, 0, 1]})
    forest = _grow(X=frame, y=["x", "y", "x", "y"], n_trees=1, nominal=np.array([False, True]))()
    assert forest.trees.columns.names == ("a", "b")
    assert forest.class_labels == ("x", "y")
    refuses(ValueError, "mode='none' is unknown", forest.with_empty_leaves, "none")


@pytest.mark.exhaustive
def test_words_grow_the_trees_of_their_codes():
    """However the nominal columns are named; missing words are a level of their own."""
    pandas = pytest.importorskip("pandas")
    X, _, nominal = mixed(60)
    X[:, 3] = np.searchsorted(np.unique(X[:, 3]), X[:, 3])
    X[:, 1] += X[:, 1] == 3  # a gap between codes is none between levels
    frame = pandas.DataFrame(X, columns=list("abcd"))
    words = frame.assign(
        b=frame["b"].map(dict(zip([0, 1, 2, 4], ["one", "two", "z", None], strict=True))),
        d=pandas.Categorical.from_codes(X[:, 3].astype(int), list("tuvwxz")),
    )
    grow = lambda data, nominal: grown(8, 5, X=data, min_samples_leaf=2, nominal=nominal)
    codes = frame.assign(b=frame["b"].replace(4, 3))
    expected = grow(codes, nominal)
    for named in ("auto", ["b", "d"], [1, 3], nominal):
        same_trees(grow(words, named), expected)
    same_trees(grow(words.to_numpy(dtype=object), "auto"), grow(codes.to_numpy(), nominal))
    same_trees(grow(frame.to_numpy(), [1, 3]), grow(codes.to_numpy(), nominal))
    refuses(TypeError, r"columns \['d'\].*no numbers", grow, words, ["b"])


def test_booleans_say_of_numbers_that_they_are_codes():
    """In a frame with words too; a gap between codes is a place for unseen values."""
    pandas = pytest.importorskip("pandas")
    X, y, nominal = mixed(60)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(b=np.array(list("pqrs"))[X[:, 1].astype(int)])
    sample = encode(frame, y, nominal, None, "error")
    levels = Levels(("p", "q", "r", "s"), False)
    assert sample.columns == Columns(
        4, ("a", "b", "c", "d"), tuple(nominal.tolist()), (None, levels, None, None), (False,) * 4
    )
    same = encode(X, y, nominal, None, "error")
    np.testing.assert_array_equal(sample.boundaries, same.boundaries)
    np.testing.assert_array_equal(sample.data.keys, same.data.keys)
    assert same.columns == Columns(4, nominal=tuple(nominal.tolist()))
    assert encode(X, y, np.zeros(4, bool), None, "error").columns == Columns(4)


GOOD = {"X": np.arange(8.0).reshape(4, 2), "y": [0, 1, 0, 1]}


_grow = lambda **change: lambda: ju.grow_random_trees(**{"key": jax.random.key(0), **GOOD, **change})
_by_key = lambda key: ju.grow_random_trees(key, **GOOD, n_trees=2)


def _grow_on_words():
    pandas = pytest.importorskip("pandas")
    _grow(X=pandas.DataFrame({"a": [1.0] * 4, "b": list("abab")}))()


TWO_NOMINAL, TRACED = np.ones(2, bool), "traced.*in a loop over keys"
test_refusals = refusals(
    ("number as a key", _grow(key=0), "key is 0; pass one typed key", TypeError),
    ("old key", _grow(key=np.zeros(2, np.uint32)), "typed key", TypeError),
    ("two keys", lambda: _grow(key=jax.random.split(jax.random.key(0)))(), "one typed key", TypeError),
    ("NaN", _grow(X=np.full((4, 2), np.nan)), r"X\[0, 0\] is NaN.*impute"),
    ("too large", _grow(X=np.full((4, 2), 1e39)), "infinite or too large"),
    ("one axis", _grow(X=np.arange(4.0)), "X has shape"),
    ("no column", _grow(X=np.zeros((4, 0))), "X has shape"),
    ("text", _grow(X=np.full((4, 2), "a")), "X has dtype", TypeError),
    ("sparse", _grow(X=scipy.sparse.csr_matrix(np.eye(4))), "sparse", TypeError),
    ("words", _grow_on_words, r"X's columns \['b'\].*no numbers", TypeError),
    ("mixed labels", _grow(y=np.array([1, "a", 1, 1], object)), "labels of the types int, str", TypeError),
    ("missing label", _grow(y=np.array([1, 0, 1, None], object)), "labels of the types NoneType, int", TypeError),
    ("one class", _grow(y=[1, 1, 1, 1]), "one class only"),
    ("two labels", _grow(y=[0, 1]), "y has shape"),
    ("label NaN", _grow(y=[0, 1, np.nan, 0]), "y holds NaN"),
    ("no tree", _grow(n_trees=0), "n_trees=0 must be at least 1"),
    ("empty leaves", _grow(min_samples_leaf=0), "need not end"),
    ("three nominal", _grow(nominal=np.ones(3, bool)), "nominal=.* does not fit X"),
    ("nominal twice", _grow(nominal=np.array([1, 1])), "positions .each once. or one boolean"),
    ("codes of halves", _grow(X=np.full((4, 2), 0.5), nominal=TWO_NOMINAL), "nominal feature 0.*integers"),
    ("large codes", _grow(X=np.full((4, 2), 2.0**25), nominal=TWO_NOMINAL), "nominal feature 0.*integers"),
    ("no weight", _grow(sample_weight=np.zeros(4)), "0 for every instance"),
    ("negative weight", _grow(sample_weight=[1, 1, 1, -1]), "sample_weight holds"),
    ("traced key", lambda: jax.jit(_by_key)(jax.random.key(0)), TRACED, TypeError),
    ("mapped keys", lambda: jax.vmap(_by_key)(jax.random.split(jax.random.key(0), 2)), TRACED, TypeError),
)


def test_too_many_values(monkeypatch):
    monkeypatch.setattr(_grow_random_trees, "MOST_CELLS", 100)
    refuses(ValueError, "too many to count", _grow(nominal=TWO_NOMINAL, min_samples_leaf=2))


@pytest.mark.parametrize("max_depth", [0, 1])
@pytest.mark.exhaustive
def test_fractions_do_not_drift(max_depth):
    X, y, weight = np.arange(2**18, dtype=np.float32)[:, None], np.arange(2**18) % 2, np.full(2**18, 0.1)
    forest = _grow(X=X, y=y, n_trees=2, max_depth=max_depth, sample_weight=weight)()
    np.testing.assert_allclose(forest.counts.sum(1, dtype=float), 2**17 * 0.1, rtol=2e-7)


class Mirrored(ju.Combiner):
    """`CautiousRule` with the other sign, which merges by the maximum."""

    merge = "max"

    def lift(self, counts):
        return -ju.CautiousRule().lift(counts)

    def finish(self, stat):
        return ju.CautiousRule().finish(-stat)


def test_averages_of_maxima_are_those_of_minima(monkeypatch):
    """Also of a batch that fills a stretch of rows: its answer is JAX's, too."""
    monkeypatch.setattr(_by_rows, "STRETCH", 32)
    X, y, nominal = mixed(60)
    forest = ju.grow_random_trees(jax.random.key(5), X, np.asarray(y) > 0, n_trees=7, nominal=nominal)
    rows = mixed(32, seed=1)[0].astype(np.float32)
    rows[::2, 1] = 9  # a level that no tree has seen
    forest = forest.with_empty_leaves("average")
    found, expected = (ju.bind(forest, rule).answer(rows) for rule in (Mirrored(), ju.CautiousRule()))
    np.testing.assert_array_equal(found.probability, expected.probability)
    assert isinstance(found.probability, jax.Array)

"""Sets of categories as bits of words: the answers that trees of binary tests give, to the last bit."""

import pickle
from typing import Any

import jax
import numpy as np
import pytest
from scipy import sparse

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import interval_nodes
from jaxunc.inference import _by_table, _packed_trees, _plan
from jaxunc.tables import encode_rows
from tests._forests import toy_forest
from tests.inference._same import assert_equal, check_parts, check_stays_in_thread
from tests.interop._random_sets import KINDS, random_sets, rows_of

pytestmark = pytest.mark.room


def packed_of(bound: Any) -> ju.inference.PackedTrees:
    assert isinstance(bound.engine, _by_table.ByTable)
    return bound.engine.packed


def bound_twice(forest: ju.Forest, combiner: ju.Combiner, walk: Any = "blocks") -> tuple[Any, Any]:
    bound = ju.bind(forest, combiner, threads=1, walk=walk)
    assert packed_of(bound).spec.words
    with pytest.MonkeyPatch.context() as patch:
        for module in (_by_table, _packed_trees):
            patch.setattr(module, "compact", _plan.CompactTrees)
        binary = ju.bind(forest, combiner, threads=1, walk=walk)
    assert not packed_of(binary).spec.words
    return bound, binary


def drawn(rng: np.random.Generator, kind: str = "narrow", n_trees: int = 8) -> AdditiveTrees:
    while _plan.compact((model := random_sets(rng, kind, n_trees=n_trees)).trees).sets is None:
        pass
    return model


def counted(rng: np.random.Generator, model: AdditiveTrees, X: np.ndarray, n_classes: int = 2) -> ju.Forest:
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, len(X) - n_classes))
    return ju.count_leaves(model.trees, X, y)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 7, 64, 300, 2500])
def test_random_sets(rng, kind, walk, n):
    model = drawn(rng, kind)
    X = rows_of(rng, model, n)[1]
    values, missing = encode_rows(X, model.columns, infinite=True)
    x, forest = np.asarray(values), model._as_forest()
    mask = rng.random((n, forest.n_trees)) < 0.6
    bound, binary = bound_twice(forest, ju.additive._additive_trees.LeafSum(), walk)
    whole = np.where(np.isnan(x), np.float32(1), x)
    for rows, more in ((x, missing), (whole, False)):
        encoded = ju.tables.Encoded(rows, more)
        assert_equal(bound.answer(encoded), binary.answer(encoded))
        assert_equal(bound._run(encoded, mask, None), binary._run(encoded, mask, None))


@pytest.mark.parametrize("most", [(4, 10**6), (5, 10**6), (10**6, 150), (0, 10**6)])
def test_sets_of_the_first_trees(rng, monkeypatch, most):
    """Where there are too many, trees behind the first ones test intervals."""
    model = drawn(rng, n_trees=40)
    monkeypatch.setattr(_plan, "MOST_WORDS", most[0])
    monkeypatch.setattr(_plan, "MOST_ENTRIES", most[1])
    few, all_tests = _plan._compact(model.trees, ju.forest.interval_tests(model.trees)), interval_nodes(model.trees)[0]
    if not most[0]:
        assert few is None
        return
    assert few is not None
    bits = np.asarray(few.bit)
    assert 0 < np.count_nonzero(bits != _plan.WHOLE) < len(all_tests)
    is_first = (bits != _plan.WHOLE).any(axis=1)
    assert is_first[0] or not {test.tree for test in all_tests} & {0}
    X = rows_of(rng, model, 200, finite=True)[1]
    monkeypatch.setattr(_packed_trees, "compact", lambda trees: few)
    monkeypatch.setattr(_by_table, "compact", lambda trees: few)
    assert_equal(*(one(X) for one in bound_twice(counted(rng, model, X), ju.Mean())))


WAYS = {
    "sparse": lambda bound, X: bound.probability(sparse.csr_array(X)),
    "a mesh": lambda bound, X: ju.shard(bound, jax.make_mesh((1, 1), ("data", "tree"))).probability(X),
    "a program": lambda bound, X: jax.jit(lambda bound, X: bound.probability(X))(bound, X),
    "exported": lambda bound, X: jax.jit(bound.export().call)(X[:70]),
    "a copy": lambda bound, X: pickle.loads(pickle.dumps(bound)).probability(X),
}


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in(rng, way):
    model = drawn(rng, n_trees=12)
    X = rows_of(rng, model, 90, finite=True)[0].astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0
    bound, binary = bound_twice(counted(rng, model, X, 3), ju.Mean())
    for rows in (X, np.where(rng.random(X.shape) < 0.1, np.nan, X).astype(np.float32)):
        assert_equal(WAYS[way](bound, rows), WAYS[way](binary, rows))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "combiner",
    [ju.GeneralizedMixture(reference="median"), ju.ExplainedVote(1.0, "certainty"), ju.OneVsRest(ju.DempsterRule())],
)
def test_planes_of_all_kinds(rng, combiner):
    model = drawn(rng)
    X = rows_of(rng, model, 90, finite=True)[0].astype(np.float32)
    assert_equal(*(one(X) for one in bound_twice(counted(rng, model, X, 40), combiner)))


@pytest.mark.once
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only on a CPU a program may run in the caller's thread")
@pytest.mark.parametrize("n", [1, 8])
def test_few_rows_stay_in_the_thread_that_calls(rng, n):
    model = drawn(rng, n_trees=100)
    forest = counted(rng, model, rows_of(rng, model, 90, finite=True)[0])
    assert check_stays_in_thread(ju.bind(forest, ju.Mean()), n, True).spec.words


@pytest.mark.exhaustive
def test_parts_of_the_trees(rng):
    model = drawn(rng, n_trees=12)
    X = rows_of(rng, model, 50, finite=True)[0].astype(np.float32)
    packed, binary = (packed_of(one) for one in bound_twice(counted(rng, model, X), ju.Mean()))
    x = np.where(np.isnan(X), np.float32(0), X)
    check_parts(packed, binary, x, rng.random((50, 12)) < 0.7)


def test_what_is_walked_is_short(rng):
    """As deep as the tests are, and without the nodes that made them."""
    model = drawn(rng, n_trees=20)
    own, compact = model.trees, _plan.compact(model.trees)
    tests, within = interval_nodes(own)
    child = np.array(own.child)
    for test in tests:
        child[test.tree, test.node] = test.child
    np.testing.assert_array_equal(compact.trees.tree_depth, _plan._heights(child)[0][:, 0])
    used = np.asarray(compact.trees.child) != np.arange(compact.trees.n_nodes)
    n_inner = np.asarray(own.child) != np.arange(own.n_nodes)
    np.testing.assert_array_equal(used.sum(axis=1), (n_inner & ~within).sum(axis=1))
    assert _plan.compact(own).trees is compact.trees
    assert _plan.compact(compact.trees).sets is None


def test_trees_without_sets_are_walked_as_they_are():
    trees = toy_forest(2).trees
    assert _plan.compact(trees).trees is trees

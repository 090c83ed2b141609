"""Sparse instances are answered as the same dense ones, to the bit, and only what trees test is made dense."""

import copy
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.inference import BoundForest, _drive
from jaxunc.inference._by_rows import ByRows
from jaxunc.inference._by_table import ByTable
from jaxunc.inference._drive import Chunk, Shapes
from tests._exhaustive import a_few_of
from tests._profiles import agree_at_once
from tests._refusal import refuses
from tests._sparse import N_COLUMNS, sparse_data, sparse_forest, sparse_labels, widened
from tests.inference._same import assert_equal
from tests.random_trees.test_random_trees import grown, mixed

pytestmark = [pytest.mark.once, pytest.mark.room]

FORMS = [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_formats_and_readouts(form):
    forest, X = sparse_forest(3), sparse_data(missing=True)
    bound, data, dense = ju.bind(forest, ju.Mean()), form(X), X.toarray()
    for ask in (bound, bound.probability, bound.log_probability, bound.answer):
        assert_equal(ask(data), ask(dense))
    mask = np.random.default_rng(0).random((len(dense), forest.n_trees)) < 0.7
    assert_equal(bound(data, tree_mask=mask), bound(dense, tree_mask=mask))
    assert_equal(ju.leaf_index(forest, data), ju.leaf_index(forest, dense))
    assert_equal(ju.leaf_index(forest.trees, data), ju.leaf_index(forest, dense))
    assert_equal(ju.leaf_counts(forest, data), ju.leaf_counts(forest, dense))


SIZES = (0, 1, 7, 64, 65, 300)


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.exhaustive(keep=2)
def test_numbers_of_rows_and_engines(walk, by_rows):
    forest, X = sparse_forest(3), sparse_data()
    rule = ju.EvidenceAccumulation(forest.prior)
    bound = BoundForest(ByRows.of(forest, rule, walk), rule, 2) if by_rows else ju.bind(forest, rule, walk=walk)
    assert isinstance(bound.engine, ByRows if by_rows else ByTable)
    for n in SIZES:
        assert_equal(bound(X[:n]), bound(X[:n].toarray()))
    missing = sparse_data(missing=True)
    assert_equal(bound(missing), bound(missing.toarray()))


@pytest.mark.exhaustive
def test_chunks_are_bounded_by_what_is_dense(monkeypatch):
    """However many columns are tested; what is left of a batch goes through smaller calls."""
    forest, X = sparse_forest(3), sparse_data()
    dense = {n: ju.bind(forest, ju.Mean()).probability(X[:n].toarray()) for n in (1, 65, 300)}
    leaves = ju.leaf_index(forest, X.toarray())
    for most in (1, 10 * N_COLUMNS, 70 * N_COLUMNS):
        monkeypatch.setattr(_drive, "MOST_DENSE", most)
        bound = ju.bind(forest, ju.Mean())
        assert_equal({n: bound.probability(X[:n]) for n in dense}, dense)
        assert_equal(ju.leaf_index(forest, X), leaves)


def test_shapes_that_are_bounded():
    rows = ju.tables.encode_rows(scipy.sparse.csr_array((5, 2**13)), ju.tables.Columns(2**13)).values
    chunk = lambda n: Chunk(n, 64)
    shapes = Shapes(chunk(2048), chunk(8192), (chunk(1), chunk(64), chunk(512)))
    assert _drive.cap_shapes(shapes, np.zeros((5, 2**13))) == shapes
    assert _drive.cap_shapes(shapes, rows) == Shapes(chunk(512), None, (chunk(1), chunk(64)))
    assert _drive.cap_shapes(shapes, rows.of(np.arange(2**10), ju.tables.Columns(2**10))) == shapes
    few = rows.of(np.arange(2**11), ju.tables.Columns(2**11))
    assert _drive.cap_shapes(shapes, few) == shapes._replace(large=None)
    assert _drive.cap_shapes(Shapes(chunk(2048), chunk(8192)), rows) == Shapes(chunk(2048))


def test_forests_that_test_every_column_or_none():
    X, y = sparse_data(), sparse_labels(2)
    some = X[:, :3].tocsr()
    every = ju.from_sklearn(RandomForestClassifier(20, random_state=0).fit(some, y))
    bound = ju.bind(every, ju.Mean())
    assert_equal(bound(some), bound(some.toarray()))
    assert bound._on_tested[0] is bound
    none = ju.from_sklearn(RandomForestClassifier(3, min_samples_leaf=len(y)).fit(X, y))
    assert_equal(ju.bind(none, ju.Mean())(X), ju.bind(none, ju.Mean())(X.toarray()))


@pytest.mark.parametrize("mode", a_few_of(ju.forest.MODES, ["sum", "average"]))
@pytest.mark.exhaustive
def test_random_trees_with_nominal_columns(mode):
    """Grown on dense codes: empty leaves are followed for sparse instances, too."""
    X = mixed(60)[0]
    forest = grown(5, 7, X=np.where(np.isnan(X) | (np.abs(X) < 0.7), 0, X)).with_empty_leaves(mode)
    queries = np.where(np.abs(mixed(40, seed=1)[0]) < 1, 0, mixed(40, seed=1)[0])
    bound, data = ju.bind(forest, ju.Mean(ju.scorers.laplace)), scipy.sparse.csr_array(queries)
    assert_equal(bound(data), bound(queries))
    if mode != "average":
        assert_equal(ju.leaf_counts(forest, data), ju.leaf_counts(forest, queries))


@pytest.mark.exhaustive
def test_eight_threads_at_once():
    batches = [sparse_data(900, seed=1)[i : i + 100] for i in range(0, 800, 100)]
    agree_at_once(ju.bind(sparse_forest(3), ju.Mean(), threads=2).probability, batches)


@pytest.mark.exhaustive
def test_memory_of_many_columns():
    """20 000 instances of 100 000 columns would be 8 GB; the forest tests some two hundred of them."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.permutation(100_000)[:N_COLUMNS])
    forest, (n, stored) = sparse_forest(2), (20_000, 200_000)
    columns = np.where(rng.random(stored) < 0.5, rng.choice(places, stored), rng.integers(0, 100_000, stored))
    entries = rng.normal(size=stored), (rng.integers(0, n, stored), columns)
    X = scipy.sparse.coo_array(entries, shape=(n, 100_000)).tocsr()
    narrow, y = X[:, places].toarray(), rng.integers(0, 2, n)

    def ask(forest, X):
        bound = ju.bind(forest, ju.Mean())
        return bound.probability(X), ju.leaf_index(forest, X), ju.count_leaves(forest, X, y).counts

    expected = jax.tree.map(np.asarray, ask(forest, narrow))
    wide = widened(forest, places, 100_000)
    tracemalloc.start()
    try:
        found = ask(wide, X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6, f"{peak / 1e6:.0f} MB"
    assert_equal(found, expected)


def test_frames_of_sparse_columns_and_copies():
    """Frames are made dense as a whole: they say nothing of rows by themselves."""
    pandas = pytest.importorskip("pandas")
    bound, X = ju.bind(sparse_forest(2), ju.Mean()), sparse_data()
    frame = pandas.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X))
    expected = np.asarray(bound.probability(X))
    assert_equal(bound.probability(frame), expected)
    assert_equal(bound.probability(frame.sparse.to_coo()), expected)
    assert "_on_tested" not in vars(copy.copy(bound))
    assert_equal(copy.deepcopy(bound).probability(X), expected)


def test_what_takes_no_sparse_data():
    forest, X = sparse_forest(2), sparse_data()
    traced = lambda prior: ju.bind(forest, ju.EvidenceAccumulation(prior)).probability(X)
    for ask in (
        lambda: ju.inference.merge_leaves(forest, jnp.ones((forest.n_trees, forest.n_nodes)), X),
        lambda: jax.jit(traced)(0.5),
        lambda: ju.grow_random_trees(jax.random.key(0), X, sparse_labels(2), n_trees=2),
        lambda: ju.transduction.grow_greedy_trees(X, sparse_labels(2)),
        lambda: ju.tables.fit_columns(X),
        lambda: ju.shard(ju.bind(forest, ju.Mean()), jax.make_mesh((1, 1), ("data", "tree")))(X),
        lambda: ju.transductive_certainty(X, sparse_labels(2), X[:2]),
    ):
        refuses(TypeError, r"sparse matrix, but this takes dense data alone; pass X(_train)?\.toarray\(\)", ask)
    infinite = X.copy()
    infinite.data[0] = np.inf
    refuses(ValueError, r"X\[0, .*is infinite", ju.bind(forest, ju.Mean()), infinite)
    refuses(ValueError, r"X has 5 features.*data had 90", ju.bind(forest, ju.Mean()), X[:, :5])

"""What the compiled programs take: memory and number, never the clock."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold

import jaxunc as ju
from jaxunc.inference import cut
from jaxunc.inference._bind import merge_and_finish
from jaxunc.inference._walk import SPLIT_BYTES
from tests._compilations import compilations
from tests._forests import padded, toy_data, toy_forest

pytestmark = [pytest.mark.once, pytest.mark.room]

INSTANCES, TREES = 100_000, 100


@pytest.fixture(scope="module")
def large():
    """Shapes of a forest of 100 trees with 2048 nodes and of 100 000 instances; nothing of it is computed."""
    forest = jax.eval_shape(lambda f: padded(f, 2048), toy_forest(2, TREES))
    return forest, jax.ShapeDtypeStruct((INSTANCES, forest.n_features), jnp.float32)


def megabytes(function, *shapes) -> float:
    return jax.jit(function).lower(*shapes).compile().memory_analysis().temp_size_in_bytes / 1e6


def leaf_table(rule, forest):
    return jax.eval_shape(lambda f: ju.inference.leaf_table(f, rule), forest)


RULES = {"mean": ju.Mean(), "pooling": ju.Pooling(), "evidence": ju.EvidenceAccumulation(0.375)}


@pytest.mark.parametrize("rule", [*RULES.values(), ju.combiners.Together(**RULES)], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.exhaustive(keep=1)
def test_a_fold_needs_twenty_megabytes_at_most(rule, missing, large):
    forest, X = large
    fold = lambda forest, table, X: ju.inference.merge_leaves(forest, table, X, merge=rule.merge, missing=missing)
    assert megabytes(fold, forest, leaf_table(rule, forest), X) <= 20


def test_masks_and_gradients_need_little_more(large):
    forest, X = large
    mask, table = jax.ShapeDtypeStruct((INSTANCES, TREES), bool), leaf_table(ju.Mean(), forest)
    fold = lambda table, forest, X, mask=None: ju.inference.merge_leaves(forest, table, X, tree_mask=mask)
    assert megabytes(fold, table, forest, X, mask) <= 20
    loss = lambda *given: sum(jnp.sum(part**2) for part in jax.tree.leaves(fold(*given)))
    # Of the gradient 40 would be one number for every instance and tree.
    assert megabytes(jax.grad(loss), table, forest, X) < INSTANCES * TREES * 4 / 2e6


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only on a CPU a program may run in the caller's thread")
@pytest.mark.parametrize("missing", [False, True])
def test_the_program_of_one_row_counts_as_cheap(missing, rng):
    """So that it runs in the caller's thread, whatever the number of trees and columns."""
    X = rng.normal(size=(300, 200))
    forest = ju.from_sklearn(RandomForestClassifier(300, max_depth=3, random_state=0).fit(X, X[:, 0] > 0))
    bound = ju.bind(forest, ju.EvidenceAccumulation(0.5))
    operations = bound.lower(1, missing=missing).compile().cost_analysis()
    assert isinstance(operations, dict)
    assert 0 < operations["flops"] < 1000
    given = np.where(rng.random(X.shape) < 0.2, np.nan, X) if missing else X
    together = np.asarray(bound(given[:9]))
    np.testing.assert_array_equal(together[:1], bound(given[:1]))
    np.testing.assert_array_equal(together[8:], bound(given[8:9]))


@pytest.mark.exhaustive
def test_ten_forests_of_a_cross_validation_compile_once():
    """Every fold has its own number of nodes and of instances; the chunk program is one."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :13]  # a shape that no other test has
    forests, parts = [], []
    for train, test in KFold(10, shuffle=True, random_state=0).split(X):
        forests.append(ju.from_sklearn(RandomForestClassifier(11, random_state=0).fit(X[train], y[train])))
        parts.append(X[test])
    assert len({len(part) for part in parts}) > 1
    assert len({forest.n_nodes for forest in forests}) == 1, "node counts pad to one power of two here"
    rule = ju.EvidenceAccumulation(forests[0].prior)
    with compilations() as first:
        ju.bind(forests[0], rule).probability(parts[0])
    assert any("merge_" in name for name in first)
    with compilations() as rest:
        for forest, part in zip(forests[1:], parts[1:], strict=True):
            ju.bind(forest, ju.EvidenceAccumulation(forest.prior)).probability(part)
    # JAX's own copy of the result to the device is a program for each length.
    assert set(rest) <= {"jit(stage)"}


@pytest.mark.exhaustive
def test_batches_of_any_size_share_few_programs():
    X = toy_data(2)[0]
    bound = ju.bind(toy_forest(2, 7), ju.Mean(), threads=2)
    large = np.tile(X, (100, 1))
    with compilations() as names:
        for n in (*(2**k for k in range(11)), 30, 255, 257, 2048, 2049, 5000, 8191, 8192, 16_384, 20_000, 40_000):
            assert bound.probability(large[:n]).shape == (n, 2)
    # The powers of two up to 4096, and 16 384.
    assert sum("merge_" in name for name in names) <= 14


@pytest.mark.exhaustive
def test_settings_and_calls_on_counts_do_not_recompile():
    X, forest = toy_data(2)[0], toy_forest(2)
    score = lambda smoothing: ju.bind(forest, ju.EvidenceAccumulation(0.375, smoothing)).score(X)
    score(0.1)
    with compilations() as names:
        for smoothing in (0.2, 0.5, 1.0):
            score(smoothing)
    assert names == []
    counts = jnp.arange(170, dtype=jnp.int32).reshape(17, 5, 2)
    for rule in (ju.Vote(), ju.Pooling(), ju.DempsterRule()):
        rule(counts)
        with compilations() as names:
            rule(counts + 1)
        assert not any("combine" in name for name in names)


@pytest.mark.exhaustive
def test_shapes_are_enough_to_lower(large):
    """Binding inside a program needs no values: the forest may be a tracer."""
    forest, _ = large
    X = jax.ShapeDtypeStruct((300, forest.n_features), jnp.float32)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), forest)
    lowered = jax.jit(lambda forest, X: ju.bind(forest, ju.Mean()).probability(X)).lower(shapes, X)
    assert lowered.out_info.shape == (300, 2)


def test_rows_that_a_mesh_of_explicit_axes_deals_out_are_answered():
    """On one device; `eight_devices` has more."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    X, bound = toy_data(2)[0][:64], ju.bind(toy_forest(2, 5), ju.Mean())
    rows = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))
    answer = jax.jit(bound.probability)(rows)
    np.testing.assert_allclose(answer, bound.probability(X), rtol=1e-6)
    assert answer.sharding.spec[0] == "data"
    y = np.zeros(64, int)
    accuracy = float(jax.jit(ju.metrics.accuracy)(answer, y))
    np.testing.assert_allclose(accuracy, ju.metrics.accuracy(np.asarray(answer), y), rtol=1e-6)


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="it divides what slices a large array, however small")
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("depth", [None, 3, 4])
def test_few_instances_stay_in_the_thread_that_calls(n, missing, depth):
    """XLA on CPU hands a program over that counts 1000 operations, and an operation that touches more than 512 KB."""
    X, y = toy_data(2)
    model = RandomForestClassifier(TREES, max_depth=depth, random_state=0).fit(X, y)
    forest = padded(ju.from_sklearn(model), 4096)
    call = ju.bind(forest, ju.Mean())._engine(missing).call()
    assert call.spec.complete == (depth or 0)
    chunk = cut(n, call.shapes, 1)[0]
    x = jax.ShapeDtypeStruct((chunk.chunk.rows, forest.n_features), jnp.float32)
    given = ju.Mean(), "probability", call.arrays, x, None, chunk.number
    program = merge_and_finish.jitted.lower(call.spec, chunk.chunk.block, *given).compile()
    assert call.arrays[0].nodes.nbytes > 3 * SPLIT_BYTES, "else nothing would be split"
    assert program.cost_analysis()["flops"] < 1000
    assert "outer_dimension_partitions" not in program.as_text()

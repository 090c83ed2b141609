"""What the compiled programs take: memory and number, never the clock."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold

import jaxunc as ju
from jaxunc.inference._walk import SPLIT_BYTES
from tests._compilations import compilations
from tests._forests import padded, toy_data, toy_forest
from tests.inference._same import check_stays_in_thread

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
    fold = lambda forest, X, table: ju.inference.merge_leaves(forest, table, X, merge=rule.merge, missing=missing)
    assert megabytes(fold, *large, leaf_table(rule, large[0])) <= 20


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


@pytest.mark.exhaustive
def test_the_forests_of_a_cross_validation_compile_once():
    """Every fold has its own number of nodes and of instances; the chunk program is one."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :13]  # a shape that no other test has
    folds = list(KFold(10, shuffle=True, random_state=0).split(X))[5:]  # the last one has a row less
    model = RandomForestClassifier(11, random_state=0)
    forests = [ju.from_sklearn(model.fit(X[train], y[train])) for train, _ in folds]
    assert len({len(test) for _, test in folds}) > 1
    assert len({forest.n_nodes for forest in forests}) == 1, "node counts pad to one power of two here"
    ask = lambda i: ju.bind(forests[i], ju.EvidenceAccumulation(forests[i].prior)).probability(X[folds[i][1]])
    with compilations() as first:
        ask(0)
    assert any("merge_" in name for name in first)
    with compilations() as rest:
        for i in range(1, 5):
            ask(i)
    # JAX's own copy of the result to the device is a program for each length.
    assert set(rest) <= {"jit(stage)"}


@pytest.mark.exhaustive
def test_batches_of_any_size_share_few_programs():
    bound, large = ju.bind(toy_forest(2, 7), ju.Mean(), threads=2), np.tile(toy_data(2)[0], (100, 1))
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


@lru_cache
def forest_of_depth(depth):
    model = RandomForestClassifier(TREES, max_depth=depth, random_state=0).fit(*toy_data(2))
    return padded(ju.from_sklearn(model), 4096)


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="it divides what slices a large array, however small")
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("depth", [None, 3, 4])
def test_few_instances_stay_in_the_thread_that_calls(n, missing, depth):
    call = check_stays_in_thread(ju.bind(forest_of_depth(depth), ju.Mean()), n, missing)
    assert call.spec.complete == (depth or 0)
    assert call.arrays[0].nodes.nbytes > 3 * SPLIT_BYTES, "else nothing would be split"

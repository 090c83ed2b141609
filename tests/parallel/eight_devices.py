"""Tests that need eight devices: `test_devices` runs this file in a process that has them.

(The suite itself has one; virtual devices must be asked for before JAX starts.)
"""

import re
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestRegressor

import jaxunc as ju
from jaxunc.combiners import has_tree_fields, merge_kinds
from jaxunc.decisions import expected_utility_set
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.inference import _device_calls, _merge_leaves
from jaxunc.inference._by_rows import ByRows
from jaxunc.parallel import ShardedForest
from tests._compilations import compilations
from tests._forests import forest_of_leaves, forest_with_all_leaves, random_counts, toy_data, toy_forest, toy_model
from tests._profiles import Calls, agree_at_once, profiled
from tests._refusal import refuses
from tests._rules import RULES, make

SHAPES = [(8, 1), (1, 8), (2, 4), (4, 2)]
TREES = 11
"""No multiple of any number of places along 'tree'."""
COLLECTIVE = re.compile(r"= .* (all-to-all|all-gather|all-reduce|reduce-scatter|collective-permute)(-start)?\(")


class Merged(ju.Combiner):
    """What a rule merges, unfinished: `finish` is the same program on the same statistic, and takes long to compile."""

    rule: ju.Combiner

    @property
    def merge(self):
        return self.rule.merge

    def lift(self, counts):
        return self.rule.lift(counts)

    def finish(self, stat):
        return stat


grid = lambda data, tree: jax.make_mesh((data, tree), ("data", "tree"))
mask_of = lambda n: np.arange(n)[:, None] % 5 != np.arange(TREES) % 5


grown_forest = lambda n_classes=2: forest_with_all_leaves(n_classes, TREES)


def merges() -> ju.Combiner:
    """Every kind of merge: sums, exact ones, extremes, collected planes, weights per tree."""
    weighted = make("weighted_veto", 2, TREES)
    return ju.combiners.Together(
        sum=ju.Mean(), exact=ju.Pooling(), extreme=ju.Maximum(), collected=ju.Median(), weighted=weighted
    )


@lru_cache
def bound(walk: str = "blocks") -> ju.BoundForest:
    return ju.bind(grown_forest(), merges(), walk=walk)


@lru_cache
def mean() -> ju.BoundForest:
    return ju.bind(grown_forest(), ju.Mean())


def data(n: int = 397, *, missing: bool = False) -> np.ndarray:
    X = toy_data(2)[0][:n].copy()
    if missing:
        X[3, 0] = X[5, 1] = np.nan
    return X


def check(answer, expected, *, close: bool = False):
    """Bit for bit, but for a few last digits of probabilities, whose exponentials some compilers round by their place;
    or to 1e-6 of the value, or of 1 where that is larger."""
    assert jax.tree.structure(answer) == jax.tree.structure(expected)
    parts = jax.tree_util.tree_leaves_with_path(expected)
    for (path, b), a in zip(parts, jax.tree.leaves(answer), strict=True):
        where = jax.tree_util.keystr(path)
        eps = 1e-6 if close else 64 * jnp.finfo(b.dtype).eps if where.endswith("probability") else 0
        np.testing.assert_allclose(a, b, rtol=eps, atol=eps, err_msg=where)


def agree(sharded, X, mask=None):
    """Answers are those of one device; shards of trees round sums of floats once more."""
    close = sharded.mesh.shape["tree"] > 1
    check(sharded.answer(X, tree_mask=mask), sharded.bound.answer(X, tree_mask=mask), close=close)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_answers_as_on_one_device(shape):
    sharded = ju.shard(bound(), grid(*shape))
    agree(sharded, data())
    if shape in [(8, 1), (2, 4)]:
        agree(sharded, data(missing=True), mask_of(397))


def test_an_answer_does_not_depend_on_how_many_rows_a_device_has():
    forest = grown_forest(3)
    sharded, X = ju.shard(ju.bind(forest, ju.AveragedIntervals(1.0)), grid(8, 1)), data(30)
    expected = jax.tree.map(np.asarray, sharded.bound.answer(X))
    for n in (1, 3, 8, 9):
        check(sharded.answer(X[:n]), jax.tree.map(lambda part, n=n: part[:n], expected))


@lru_cache
def law_of_numbers():
    X = data(missing=True)
    y = np.nan_to_num(X[:, 0]) + np.random.default_rng(0).normal(size=397)
    law = UncertainForestRegressor(RandomForestRegressor(TREES, random_state=0), n_bins=8).fit(X, y).bound_
    law.law = law.law._replace(weight=0.7)
    return law.asking(0.8, [0.1, 0.5])


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers(shape):
    """Regressors and their moments: 397 rows leave the last stretch short."""
    X, law = data(missing=True), law_of_numbers()
    sharded, moments = ju.shard(law, grid(*shape)), ju.shard(law.moments, grid(*shape))
    mask, close = mask_of(397), shape[1] > 1
    for rows in (X, X[:3], X[:0]):
        check(sharded.answer(rows), law.answer(rows), close=close)
    check(moments.answer(X, tree_mask=mask), law.moments.answer(X, tree_mask=mask), close=close)
    if shape == (8, 1):
        found, expected = (list(ju.stream(one, [X[:200], X[200:]])) for one in (sharded, law))
        assert all(a.equals(b) for a, b in zip(found, expected, strict=True))


def kind_of(rule: ju.Combiner):
    """All that shards see of a rule: the merges, types and axes of its planes, and whether it differs by tree."""
    table = jax.eval_shape(lambda: ju.inference.leaf_table(grown_forest(), rule))
    parts = zip(merge_kinds(rule.merge, table), jax.tree.leaves(table), strict=True)
    return frozenset((merge, part.dtype.name, part.ndim) for merge, part in parts), has_tree_fields(rule)


def test_every_kind_of_rule_merges_as_on_one_device():
    """The first rule of the table of each kind: those of one kind are the same program."""
    rules = {name: make(name, 2, TREES) for name in RULES} | {"report": ju.decisions.CautiousReport(2.0)}
    first = {kind_of(rule): name for name, rule in reversed(rules.items())}
    assert 5 < len(first) < len(rules)
    one = ju.bind(grown_forest(), ju.combiners.Together(**{name: Merged(rules[name]) for name in first.values()}))
    agree(ju.shard(one, grid(2, 4)), data(missing=True), mask_of(397))


@pytest.mark.parametrize("shape", [(8, 1), (2, 4)])
def test_wide_planes_of_many_classes(shape):
    """Their rows are on every device; padding trees read neutral ones."""
    many, X = forest_of_leaves(random_counts(np.random.default_rng(7), (101, TREES), 40))
    X[3, 0] = np.nan
    weighted = ju.Weighted(ju.Mean(), np.arange(1.0, TREES + 1))
    rules = ju.combiners.Together(sum=ju.Mean(), exact=ju.Pooling(), collected=ju.Median(), weighted=weighted)
    one = ju.bind(many, rules)
    assert one.engine.packed.spec.layout.is_wide
    for mask in (None, mask_of(101)):
        agree(ju.shard(one, grid(*shape)), X, mask)


@pytest.mark.parametrize("shape", SHAPES)
def test_at_most_two_collectives(shape):
    """One in fact, whatever the rule has: its planes travel together. None without tree shards."""
    # Accelerators bring the answers together, too.
    for sharded, n, most in ((ju.shard(bound(), grid(*shape)), 397, 1), (by_levels(shape), 400, 2)):
        text = sharded.lower(n).compile().as_text()
        found = [line.strip() for line in text.splitlines() if COLLECTIVE.search(line)]
        assert len(found) == most * (shape[1] > 1), found


def test_the_form_for_accelerators():
    agree(ju.shard(bound("levels"), grid(2, 4)), data(missing=True), mask_of(397))


@lru_cache
def by_levels(shape=(4, 2)):
    return ju.shard(ju.bind(toy_forest(2, TREES), ju.Mean(), walk="levels"), grid(*shape))


def calls(sharded, rows) -> Calls:
    return profiled(lambda: jax.block_until_ready(sharded.probability(rows)))


@pytest.mark.parametrize("shape", [(8, 1), (4, 2)])
def test_a_call_of_accelerators_is_one_program(shape):
    """Rows that lie on the mesh stay there, and the marks alone are fetched; those of one device go to all at once."""
    sharded, rows = by_levels(shape), np.tile(data(), (10, 1)).astype(np.float32)
    for n in (1, 1000, 3001):
        given, expected = rows[:n], sharded.bound.probability(rows[:n])
        placements = {0: dealt_out(given, grid(*shape), *(["data"] if n == 1000 else [])), 1: jnp.asarray(given)}
        for sent, there in placements.items():
            assert calls(sharded, there) == Calls(programs=1, sent=sent, fetched=1)
            answer = sharded.probability(there)
            assert len(answer.devices()) == 8
            check(answer, expected, close=shape[1] > 1)
        assert calls(sharded, given) == Calls(programs=1, sent=2, fetched=2)
        assert len(sharded.probability(given).devices()) == 1


def test_blocks_of_accelerators_change_no_bit(monkeypatch):
    X, mask, sharded = data(missing=True), mask_of(397), by_levels()
    expected = sharded.answer(X, tree_mask=mask)
    monkeypatch.setattr(ShardedForest, "_block", lambda self, spec: 30)
    for rows in (X, jnp.asarray(X)):
        check(sharded.answer(rows, tree_mask=mask), expected)
        check(sharded.answer(rows, tree_mask=jnp.asarray(mask)), expected)
    monkeypatch.setattr(_device_calls, "TRANSFER_BYTES", 128 * X.shape[1] * 4)
    check(sharded.answer(X, tree_mask=mask), expected)


def test_rows_of_accelerators_wherever_they_lie():
    """On one device, committed; on axes of the type Explicit, in any way; on other devices; of other types."""
    sharded, X = by_levels(), data(368).astype(np.float32)
    expected, mesh = sharded.probability(X), explicit()
    others = jax.make_mesh((4,), ("rows",), devices=jax.devices()[4:])
    places = [(mesh, "data"), (mesh, ("data", "other")), (mesh, None, "other"), (mesh,), (others, "rows")]
    for rows in (jax.device_put(X, jax.devices()[3]), *(dealt_out(X, *place) for place in places)):
        check(sharded.probability(rows), expected)
    check(sharded.probability(jnp.asarray(X > 0)), sharded.probability((X > 0).astype(np.float32)))


def test_rows_that_accelerators_refuse():
    sharded, X = by_levels(), data(368).astype(np.float64)
    X[70, 2], X[3, 1] = np.inf, np.nan
    too_large = np.where(np.isinf(X), 1e39, X)
    for rows in (X, too_large, jnp.asarray(X), dealt_out(X, grid(4, 2), "data")):
        refuses(ValueError, r"X\[70, 2\] is infinite or too large", sharded, rows)
    given = jnp.asarray(data(64)) + 0
    answer, expected = sharded(given), sharded(data(64))
    given.delete()
    check(answer, expected)
    refuses(ValueError, "X was deleted", sharded, given)
    refuses(TypeError, "sparse", sharded, scipy.sparse.csr_array(data(64)))


@pytest.mark.parametrize("shape", [(8, 1), (4, 2)])
def test_ten_threads_at_once(shape):
    sharded, rows = by_levels(shape), jnp.asarray(data().astype(np.float32))
    agree_at_once(sharded.probability, [rows] * 10)


def test_a_batch_is_answered_where_it_lies():
    """On one device, whichever, by the form for accelerators; rows of a mesh by way of the host."""
    forest, X = toy_forest(2, 3), toy_data(2)[0][:64].astype(np.float32)
    bound, vote = ju.bind(forest, ju.Mean(), walk="levels"), ju.voting.bind_vote(forest, walk="levels")
    mask, device = mask_of(64)[:, :3], jax.devices()[3]
    expected, there = bound.probability(X, tree_mask=mask), jax.device_put(X, device)
    for given in (mask, jnp.asarray(mask), jax.device_put(mask, device)):
        answer = bound.probability(there, tree_mask=given)
        assert answer.devices() == {device}
        np.testing.assert_array_equal(answer, expected)
    dealt = jax.device_put(X, jax.NamedSharding(grid(8, 1), jax.P("data")))
    np.testing.assert_array_equal(bound.probability(dealt, tree_mask=mask), expected)
    for given in (there, dealt):
        np.testing.assert_array_equal(vote(given).n_trees_used, vote(X).n_trees_used)


def test_batches_of_any_size_and_kind_share_programs():
    pandas = pytest.importorskip("pandas")
    X, sharded = np.tile(data(), (60, 1)), ju.shard(mean(), grid(4, 2))
    whole = mean().probability(X)
    with compilations() as names:
        for n in (0, 1, 3, 1023, 5000, 20_000):
            check(sharded.probability(X[:n]), whole[:n], close=True)
    assert sum(name == "jit(merge_on_mesh)" for name in names) <= 5  # of 1, 256, 1024, 2048 and 4096 rows
    with compilations() as again:
        for n in (2, 1024, 4999, 19_999):
            assert sharded.probability(X[:n]).shape == (n, 2)
    assert not any("chunk" in name for name in again)
    frame = pandas.DataFrame(X[:9].astype(float))
    for kind in (jnp.asarray(X[:9]), frame, np.asfortranarray(X[:9]), X[:9].astype(np.float64)):
        check(sharded.probability(kind), whole[:9], close=True)


def test_every_readout():
    sharded, X = ju.shard(mean(), grid(8, 1)), data(50)
    for name in ("__call__", "score", "probability", "log_probability", "answer"):
        check(getattr(sharded, name)(X), getattr(sharded.bound, name)(X))
    assert "data=8, tree=1" in repr(sharded)
    assert sharded.mesh.size == 8


@pytest.mark.parametrize("n_tree", [2, 4, 8])
def test_a_device_has_its_own_trees_alone(n_tree):
    one = ju.bind(forest_with_all_leaves(2, 16), ju.Pooling())
    whole = sum(array.nbytes for array in jax.tree.leaves(one.engine.packed.arrays[:3]))
    on_device = dict.fromkeys(jax.devices(), 0)
    for array in ju.shard(one, grid(8 // n_tree, n_tree)).arrays:
        for part in array.addressable_shards:
            on_device[part.device] += part.data.nbytes
    assert set(on_device.values()) == {whole // n_tree}


def test_meshes_of_any_order_and_kind():
    """The axes by their names; 'Auto' or 'Explicit'; some of the devices."""
    turned = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("tree", "data"))
    auto = jax.make_mesh((2, 4), ("data", "tree"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    three = jax.make_mesh((1, 3), ("data", "tree"), devices=jax.devices()[5:])
    for mesh in (turned, auto, three):
        agree(ju.shard(mean(), mesh), data(30))


def test_more_places_than_trees_and_rows_that_are_mapped_over_are_refused():
    words = r"8 places along 'tree', but the forest has 5 trees.*make_mesh\(\(8, 1\)"
    refuses(ValueError, words, ju.shard, ju.bind(toy_forest(2, 5), ju.Mean()), grid(1, 8))
    program = jax.jit(jax.vmap(lambda x: mean()(x[None])))
    refuses(ValueError, r"jax\.vmap maps over.*all rows in one call", program, dealt_out(data(368), explicit(), "data"))


def test_a_leaf_table_that_would_be_large(monkeypatch):
    """One device looks leaves up by their rows then; several have a share of the table each."""
    monkeypatch.setattr(_merge_leaves, "LARGEST_LEAF_TABLE", 0)
    other = ju.bind(grown_forest(), ju.Mean())
    assert isinstance(other.engine, ByRows)
    check(ju.shard(other, grid(2, 4))(data(30)), mean()(data(30)), close=True)


def test_a_forest_on_another_device_is_dealt_out_from_there():
    """As for accelerators that it does not fit: bound on the host, dealt out to the others."""
    with jax.default_device(jax.devices()[3]):
        one = ju.bind(ju.from_sklearn(toy_model(2, TREES)), ju.Mean())
    mesh = jax.make_mesh((1, 4), ("data", "tree"), devices=jax.devices()[4:])
    sharded = ju.shard(one, mesh)
    assert {part.device for array in sharded.arrays for part in array.addressable_shards} == set(jax.devices()[4:])
    agree(sharded, data(30, missing=True))


def explicit(shape=(4, 2), kinds=("Explicit", "Explicit")):
    axes = tuple(jax.sharding.AxisType[kind] for kind in kinds)
    return jax.make_mesh(shape, ("data", "other"), axis_types=axes)


def dealt_out(array, mesh, *axes):
    return jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)))


def test_sets_of_rows_of_explicit_axes():
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 368).astype(np.float32)
    matrix = np.random.default_rng(1).normal(size=(7, 3))
    decided = expected_utility_set(dealt_out(probs, explicit(), "data"), matrix)
    np.testing.assert_array_equal(decided, expected_utility_set(probs, matrix))


@pytest.mark.parametrize("walk", ["blocks", "levels"])
def test_rows_of_explicit_axes_under_jit(walk):
    """What a mesh deals out is answered where it lies, bit for bit, and stays dealt out."""
    program, mesh = jax.jit(lambda x, mask: bound(walk).answer(x, tree_mask=mask)), explicit()
    X, mask = data(368, missing=True), mask_of(368)
    expected = bound(walk).answer(X, tree_mask=mask)
    placed = dealt_out(X, mesh, "data")
    answer = program(placed, dealt_out(mask, mesh, "data"))
    check(answer, expected)
    assert {leaf.sharding.spec[0] for leaf in jax.tree.leaves(answer)} == {"data"}
    if walk == "blocks":
        assert not COLLECTIVE.search(program.lower(placed, mask).compile().as_text())
        check(program(X, dealt_out(mask, mesh, "data")), expected)


def test_meshes_of_explicit_axes_of_any_form():
    X = data(368)
    both, half = explicit(), explicit(kinds=("Explicit", "Auto"))
    places = ["data", "other"], [("data", "other")], [None, "other"], []
    placed = [*(dealt_out(X, both, *axes) for axes in places), dealt_out(X, half, "data")]
    program = jax.jit(mean().answer)
    for one in placed:
        check(program(one), mean().answer(X))
    with jax.set_mesh(both):
        check(program(X), mean().answer(X))
    inside = jax.jit(lambda forest, x: ju.bind(forest, ju.Mean()).answer(x))
    check(inside(grown_forest(), placed[0]), inside(grown_forest(), X))


def test_functions_of_explicit_rows():
    forest, mesh, X, y = grown_forest(), explicit(), data(368), toy_data(2)[1][:368]
    rows, labels = dealt_out(X, mesh, "data"), dealt_out(y, mesh, "data")
    table, number = np.asarray(forest.counts[..., 0], np.float32), np.ones(TREES, np.float32)
    for function in (
        lambda x, y: ju.leaf_index(forest, x),
        lambda x, y: ju.leaf_counts(forest, x),
        lambda x, y: ju.inference.merge_leaves(forest, {"a": table, "b": number}, x, merge="sum"),
        lambda x, y: ju.counting.leave_one_out(forest, ju.Mean(), x, y).class_scores,
    ):
        program = jax.jit(function)
        check(program(rows, labels), program(X, y))
    slope = jax.jit(jax.grad(lambda table, x: (ju.inference.merge_leaves(forest, table, x, merge="sum") ** 2).mean()))
    check(slope(table, rows), slope(table, X), close=True)


def test_weights_and_rows_of_one_explicit_mesh():
    forest, mesh, X = grown_forest(), explicit((8, 1)), data(368)
    weights = np.linspace(0.5, 1.5, TREES, dtype=np.float32)
    loss = lambda weights, x: (ju.bind(forest, ju.Weighted(ju.Mean(), weights)).score(x) ** 2).mean()
    slope, everywhere = jax.jit(jax.grad(loss)), dealt_out(weights, mesh)
    for rows in (dealt_out(X, mesh, "data"), X):
        check(slope(everywhere, rows), slope(weights, X), close=True)


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_bound_forest_in_a_shard_map(check_vma):
    forest, mesh, X = grown_forest(), explicit((8, 1)), data(368)
    for ask in (mean().probability, lambda x: ju.leaf_index(forest, x)):
        mapped = jax.shard_map(ask, mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P("data"), check_vma=check_vma)
        check(jax.jit(mapped)(dealt_out(X, mesh, "data")), ask(X))


def test_metrics_of_explicit_rows():
    """Each has its arrays whole: it gives the bits that it gives without a mesh, under jit and outside."""
    mesh, X, y, m = explicit(), data(368), toy_data(2)[1][:368], ju.metrics
    probs, logs = np.asarray(mean().probability(X)), np.asarray(mean().log_probability(X))
    intervals, sets = ju.scorers.Interval(probs - 0.1, probs + 0.1), probs >= probs.max(axis=1, keepdims=True) - 0.2
    given = dict.fromkeys((m.accuracy, m.brier_score, m.reliability_curve), (probs, y))
    given |= {m.auc: (probs[:, 1], y), m.log_loss_from_logs: (logs, y), m.risk_coverage_curve: (probs[:, 1], y == 1)}
    given |= {m.discounted_utility: (sets, y), m.interval_brier: (intervals, y)}
    for metric, arrays in given.items():
        placed = jax.tree.map(lambda array: dealt_out(array, mesh, "data"), arrays)
        for program in (metric, jax.jit(lambda *arrays, metric=metric: metric(*arrays))):
            check(program(*placed), program(*arrays))

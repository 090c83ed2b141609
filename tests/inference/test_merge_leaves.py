"""Rules through a forest: the same answers and gradients as from the tensor of leaf counts, for every rule."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.inference import _merge_leaves, leaf_table
from jaxunc.inference._by_rows import ByRows
from tests._exhaustive import a_few_of
from tests._forests import forest_of_leaves, leaf_nodes, padded, random_counts, toy_data, toy_forest
from tests._rules import RULES, by_rule, check_same, make
from tests.inference._same import assert_equal

TREES = 12
FEW = [("mean", 2), ("dempster", 2), ("weighted_together", 2), ("together", 3)]
DIFFERENTIATED = [("evidence", 2), ("dempster", 2), ("weighted_mean", 2), ("together", 3)]


@lru_cache
def forest_with_all_leaves(n_classes: int) -> ju.Forest:
    """A fitted forest whose leaves were given all kinds of counts: interior, pure, tied, empty."""
    forest = toy_forest(n_classes, TREES)
    counts = random_counts(np.random.default_rng(7), (forest.n_trees, forest.n_nodes), n_classes)
    return forest.with_counts(jnp.asarray(counts * leaf_nodes(forest)[..., None]))


@lru_cache
def leaves(n_classes: int) -> jax.Array:
    return ju.leaf_counts(forest_with_all_leaves(n_classes), jnp.asarray(toy_data(n_classes)[0]))


@lru_cache
def bound(name: str, n_classes: int, threads: int = 1) -> ju.BoundForest:
    return ju.bind(forest_with_all_leaves(n_classes), make(name, n_classes, TREES), threads=threads)


@lru_cache
def bound_answer(name: str, n_classes: int):
    return bound(name, n_classes).answer(toy_data(n_classes)[0])


@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), [("evidence", 2), ("weighted_together", 2), ("together", 3)])
@pytest.mark.exhaustive
def test_a_leaf_table_that_would_be_large_is_not_made(name, n_classes, tolerance, monkeypatch):
    forest, rule = forest_with_all_leaves(n_classes), make(name, n_classes, TREES)
    X = toy_data(n_classes)[0]
    mask = np.arange(len(X) * TREES).reshape(-1, TREES) % 3 > 0
    expected = ju.bind(forest, rule).answer(X, tree_mask=mask)
    monkeypatch.setattr(_merge_leaves, "LARGEST_LEAF_TABLE", 0)
    bound = ju.bind(forest, rule)
    check_same(tolerance, name, bound.answer(X, tree_mask=mask), expected)
    assert isinstance(bound.engine, ByRows)


@pytest.mark.room
@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), FEW)
@pytest.mark.exhaustive(keep=1)
def test_a_mask_drops_trees(name, n_classes, tolerance):
    """One mask for all instances is the smaller forest; the rows of a mask are independent."""
    X = toy_data(n_classes)[0]
    kept, all_leaves = np.array([0, 2, 3, 7, 8]), np.asarray(leaves(n_classes))
    mask = np.isin(np.arange(TREES), kept)
    masked = bound(name, n_classes).answer(X, tree_mask=np.tile(mask, (len(X), 1)))
    expected = make(name, n_classes, kept).answer(jnp.asarray(all_leaves[:, kept]))
    check_same(tolerance, name, masked, expected)

    mixed = np.tile(mask, (len(X), 1))
    mixed[::2] = True
    answer = bound(name, n_classes).answer(X, tree_mask=mixed)
    rows = lambda tree, step: jax.tree.map(lambda a: np.asarray(a)[step], tree)
    check_same(tolerance, name, rows(answer, slice(1, None, 2)), rows(masked, slice(1, None, 2)))
    check_same(tolerance, name, rows(answer, slice(0, None, 2)), rows(bound_answer(name, n_classes), slice(0, None, 2)))


@pytest.mark.once
@pytest.mark.parametrize("name", ["vote", "pooling", "dempster"])
@pytest.mark.exhaustive
def test_weights_of_zero_and_one_are_a_mask(name, tolerance):
    X = toy_data(2)[0]
    mask = np.arange(TREES) % 3 != 1
    weighted = ju.Weighted(make(name, 2, TREES), mask.astype(float))
    answer = ju.bind(forest_with_all_leaves(2), weighted).answer(X)
    check_same(tolerance, name, answer, bound(name, 2).answer(X, tree_mask=np.tile(mask, (len(X), 1))))


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), [("dempster", 2), ("together", 3)])
def test_no_tree_and_no_instance(name, n_classes):
    """All trees masked: equal shares, or the prior."""
    X, n_columns = toy_data(n_classes)[0], toy_data(n_classes)[0].shape[1]
    probability = bound(name, n_classes).probability(X, tree_mask=np.zeros((len(X), TREES), bool))
    for key, answer in by_rule(probability).items():
        rule = make("evidence", n_classes, TREES)
        expected = rule.prior if "evidence" in (name, key) else np.full(n_classes, 1 / n_classes)
        np.testing.assert_allclose(answer, np.tile(expected, (len(X), 1)), rtol=1e-6)
    for part in by_rule(bound(name, n_classes).answer(X[:0])).values():
        assert part.probability.shape == (0, n_classes)
        assert n_classes > 2 or part.score.shape == (0,)
    assert ju.leaf_index(forest_with_all_leaves(n_classes), jnp.zeros((0, n_columns))).shape == (0, TREES)


@pytest.mark.once
@pytest.mark.parametrize("name", ["together", "weighted_together"])
@pytest.mark.exhaustive
def test_padding_nodes_change_nothing(name):
    forest = forest_with_all_leaves(2)
    larger = ju.forest.check_forest(padded(forest, 4 * forest.n_nodes))
    X = toy_data(2)[0]
    assert_equal(ju.bind(larger, make(name, 2, TREES)).answer(X), bound_answer(name, 2))
    np.testing.assert_array_equal(ju.leaf_index(larger, jnp.asarray(X)), ju.leaf_index(forest, jnp.asarray(X)))


@pytest.mark.exhaustive
def test_ten_thousand_trees(rng, tolerance):
    counts = random_counts(rng, (3, 10_000), 2, largest=8)
    forest, X = forest_of_leaves(counts)
    rules = ju.combiners.Together(mean=ju.Mean(), pooling=ju.Pooling(), evidence=ju.EvidenceAccumulation(0.375))
    expected = rules.answer(jnp.asarray(counts))
    check_same(tolerance, "mean", ju.bind(forest, rules).answer(X), expected)


@pytest.mark.once
@pytest.mark.parametrize("name", ["mean", "vote", "pooling", "dempster"])
@pytest.mark.exhaustive(keep=1)
def test_a_lead_of_one_in_a_billion_is_no_tie(name):
    counts = np.full((3, 4, 2), 10**9)
    counts[0, :, 1] += 1
    counts[1, :, 0] += 1
    forest, X = forest_of_leaves(counts)
    assert jnp.issubdtype(forest.count_table.dtype, jnp.integer)
    margin = ju.margin(ju.bind(forest, make(name, 2, 4))(X))
    np.testing.assert_array_equal(np.sign(margin), [1, -1, 0])


# Gradients


def _total(answer):
    total = 0.0
    for one in by_rule(answer).values():
        for part in (one.class_scores, one.log_probability):
            slopes = jnp.linspace(0.5, 1.7, part.shape[-1])[None]
            rows = jnp.linspace(1.0, 2.0, part.shape[0])[:, None]
            total += jnp.sum(jnp.where(jnp.isfinite(part), part, 0.0) * slopes * rows)
    return total


@jax.jit
def _gradients(forest, rule, counts, X, mask):
    """By the counts ``[trees nodes classes]`` and the rule, streamed and through the tensor."""

    def streamed(rule, counts):
        other = forest.with_counts(counts)
        stat = ju.inference.merge_leaves(other, leaf_table(other, rule), X, merge=rule.merge, tree_mask=mask)
        return _total(rule.finish(stat))

    def through_tensor(rule, counts):
        leaf_counts = ju.leaf_counts(forest.with_counts(counts), X)
        return _total(rule.answer(leaf_counts))

    return jax.grad(streamed, (1, 0))(rule, counts), jax.grad(through_tensor, (1, 0))(rule, counts)


@pytest.mark.parametrize(("name", "n_classes"), a_few_of(DIFFERENTIATED, DIFFERENTIATED[:2], several=True))
@pytest.mark.room
def test_gradients_are_those_through_the_tensor(name, n_classes, x64):
    """At interior, pure, tied and empty leaves."""
    forest = forest_with_all_leaves(n_classes)
    X = jnp.asarray(toy_data(n_classes)[0])
    rule = make(name, n_classes, TREES)
    counts = forest.counts.astype(float)
    streamed, expected = _gradients(forest, rule, counts, X, None)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(streamed), jax.tree.leaves(expected), strict=True):
        where = jax.tree_util.keystr(path)
        a, b = np.asarray(a, float), np.asarray(b, float)
        assert np.all(np.isfinite(a)), where
        np.testing.assert_allclose(
            a, b, rtol=1e-9 if x64 else 2e-4, atol=(1e-10 if x64 else 2e-5) * max(1, np.abs(b).max()), err_msg=where
        )
    if RULES[name].differentiable:
        assert np.abs(np.asarray(streamed[0])).max() > 0


@pytest.mark.exhaustive
def test_a_masked_tree_has_no_gradient(rng):
    forest, X = forest_with_all_leaves(2), jnp.asarray(toy_data(2)[0])
    mask = (rng.random((len(X), TREES)) < 0.5) & (np.arange(TREES) != 4)
    by_tree = _gradients(forest, make("evidence", 2, TREES), forest.counts.astype(float), X, jnp.asarray(mask))[0][0]
    np.testing.assert_array_equal(np.abs(by_tree[4:6]).max(axis=(1, 2)) > 0, [False, True])


@pytest.mark.once
@pytest.mark.exhaustive
def test_bound_forests_are_differentiable():
    """Binding inside a program that is differentiated: by the rule's settings and the forest's counts."""
    forest = forest_with_all_leaves(2)
    X = jnp.asarray(toy_data(2)[0])
    rule = lambda smoothing: ju.EvidenceAccumulation(0.375, smoothing)
    by_binding = lambda smoothing, own: ju.bind(forest.with_counts(own), rule(smoothing)).log_probability(X)
    of_tensor = lambda smoothing, own: rule(smoothing).log_probability(ju.leaf_counts(forest.with_counts(own), X))
    slope = lambda answer: jax.jit(jax.grad(lambda *point: jnp.mean(answer(*point)[:, 1]), (0, 1)))
    point = jnp.asarray(0.3), forest.counts.astype(float)
    for a, b in zip(slope(by_binding)(*point), slope(of_tensor)(*point), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.room
@pytest.mark.once
def test_what_is_known_inside_a_traced_program_is_answered_there():
    """Data and forests that a program closes over have values: they are answered while it is traced."""
    forest, known, X = forest_with_all_leaves(2), bound("mean", 2), toy_data(2)[0]
    answers = {
        "bound": lambda: known.probability(X),
        "leaf_index": lambda: ju.leaf_index(forest, X),
        "leaf_counts": lambda: ju.leaf_counts(forest, X),
        "count_leaves": lambda: ju.count_leaves(forest, X, toy_data(2)[1]).counts,
    }
    for name, answer in answers.items():
        inside = jax.jit(lambda answer=answer: answer())()
        np.testing.assert_array_equal(inside, answer(), err_msg=name)


# Merges of one's own


class Extremes(ju.Combiner):
    """The least and the largest frequency of class 1, over the number of trees."""

    merge = {"least": "min", "most": "max", "trees": "sum"}  # noqa: RUF012

    def lift(self, counts):
        share = ju.scorers.probability(counts) + 0.5
        return {"least": share, "most": share, "trees": jnp.ones(())}

    def finish(self, stat):
        return {"least": stat["least"], "most": stat["most"], "trees": stat["trees"] + 0 * stat["least"]}


class Unfinished(Extremes):
    """What merges to one number may be part of an answer as it is."""

    def finish(self, stat):
        return stat


@pytest.mark.room
@pytest.mark.once
def test_minimum_and_maximum(rng):
    counts = random_counts(rng, (50, TREES), 2) + np.array([0, 1])
    forest, X = forest_of_leaves(counts)
    share = counts[..., 1] / counts.sum(-1)
    for answer in (Extremes().answer(jnp.asarray(counts)), ju.bind(forest, Extremes()).answer(X)):
        np.testing.assert_allclose(answer["least"], share.min(1), rtol=1e-6)
        np.testing.assert_allclose(answer["most"], share.max(1), rtol=1e-6)
        np.testing.assert_array_equal(answer["trees"], TREES)
    mask = rng.random((50, TREES)) < 0.5
    mask[:, 0] = True
    masked = ju.bind(forest, Extremes()).answer(X, tree_mask=mask)
    np.testing.assert_allclose(masked["least"], np.where(mask, share, np.inf).min(1), rtol=1e-6)
    np.testing.assert_allclose(masked["most"], np.where(mask, share, -np.inf).max(1), rtol=1e-6)
    np.testing.assert_array_equal(masked["trees"], mask.sum(1))
    for answer in (Unfinished().answer(jnp.asarray(counts)), ju.bind(forest, Unfinished()).answer(X)):
        assert np.all(np.asarray(answer["trees"]) == TREES)


@pytest.mark.once
@pytest.mark.parametrize("merge", ["min", "max"])
@pytest.mark.exhaustive
def test_the_first_tree_that_attains_an_extreme_gets_the_gradient(merge, rng):
    forest, X = forest_of_leaves(np.ones((40, 6, 2)))
    table = jnp.asarray(rng.integers(0, 3, size=(6, forest.n_nodes)).astype(float))  # full of ties
    mask = rng.random((40, 6)) < 0.7
    mask[:, -1] = True
    pull = rng.normal(size=40)

    @jax.jit
    def gradient(table, mask):
        merged = lambda table: ju.inference.merge_leaves(forest, table, jnp.asarray(X), merge=merge, tree_mask=mask)
        return jax.grad(lambda table: jnp.sum(merged(table) * pull))(table)

    index = np.asarray(ju.leaf_index(forest, jnp.asarray(X)))
    values = np.asarray(table)[np.arange(6), index]
    for in_mask in (mask, np.ones_like(mask)):
        barred = np.inf if merge == "min" else -np.inf
        first = getattr(np.where(in_mask, values, barred), f"arg{merge}")(axis=1)
        expected = np.zeros(table.shape)
        np.add.at(expected, (first, index[np.arange(40), first]), pull)
        np.testing.assert_allclose(gradient(table, jnp.asarray(in_mask)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.once
def test_ties_of_an_extreme_have_one_gradient_on_both_ways():
    """A rule's own call and the streamed fold send the gradient of tied trees the same way."""
    forest, X = forest_of_leaves(np.tile(np.array([[3.0, 5.0]]), (1, 4, 1)))
    X, counts, table = jnp.asarray(X), forest.counts.astype(float), lambda other: leaf_table(other, Extremes())
    fold = lambda other: ju.inference.merge_leaves(other, table(other), X, merge=Extremes().merge)
    by_tensor = lambda own: jnp.sum(Extremes().answer(ju.leaf_counts(forest.with_counts(own), X))["most"])
    streamed = lambda own: jnp.sum(fold(forest.with_counts(own))["most"])
    expected = jax.grad(streamed)(counts)
    assert np.abs(expected[0]).max() > 0
    assert np.abs(expected[1:]).max() == 0
    np.testing.assert_allclose(jax.grad(by_tensor)(counts), expected, atol=1e-7)


class ExactTotals(Unfinished):
    merge = "exact_sum"

    def lift(self, counts):
        return counts


def whole(total) -> np.ndarray:
    """The integer that two floats are."""
    return np.asarray(total.high, np.float64).astype(object) + np.asarray(total.low, np.float64).astype(object)


@pytest.mark.parametrize("largest", [10, 2**24 + 3, 2**31 - 1])
@pytest.mark.exhaustive
def test_exact_sums_of_counts_are_exact(largest, rng):
    counts = rng.integers(0, largest, size=(3, 5000, 2), endpoint=True).astype(np.int32)
    counts[0] = largest
    forest, X = forest_of_leaves(counts)
    expected = counts.astype(object).sum(axis=1)
    for total in (ExactTotals().answer(jnp.asarray(counts)), ju.bind(forest, ExactTotals()).answer(X)):
        assert np.all(whole(total) == expected)


def test_sums_of_floats_are_compensated(rng, x64):
    """Exact ones to twice the precision; of ten thousand trees that add up to little plain ones are off by 1e-4."""
    values = rng.uniform(0, 1, size=(2, 3000, 2)).astype(np.float64 if x64 else np.float32)
    total = ExactTotals().answer(jnp.asarray(values))
    expected = values.astype(np.longdouble).sum(axis=1)
    actual = np.asarray(total.high).astype(np.longdouble) + np.asarray(total.low).astype(np.longdouble)
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=1e-15 if x64 else 1e-12)
    counts = np.tile(np.array([[1, 2], [2, 1]]), (5000, 1))[None].astype(np.int32)
    counts[0, 0] = [1, 3]
    score = ju.Mean().score(jnp.asarray(counts))
    np.testing.assert_allclose(score[0], (0.25 - 1 / 6) / 10_000, rtol=1e-6 if x64 else 1e-2)


@pytest.mark.once
@pytest.mark.exhaustive
def test_fold_under_jit_vmap_and_alone(rng, tolerance):
    forest = forest_with_all_leaves(2)
    X = jnp.asarray(toy_data(2)[0])
    table = {
        "plane": jnp.asarray(rng.normal(size=(TREES, forest.n_nodes))),
        "planes": jnp.asarray(rng.normal(size=(TREES, forest.n_nodes, 3))),
        "tree": jnp.asarray(rng.normal(size=TREES)),
    }
    eager = ju.inference.merge_leaves(forest, table, X)
    index = np.asarray(ju.leaf_index(forest, X))
    rows = np.arange(TREES)
    tolerance.check(eager["plane"], np.asarray(table["plane"])[rows, index].sum(1), scale=TREES)
    tolerance.check(eager["planes"], np.asarray(table["planes"])[rows, index].sum(1), scale=TREES)
    tolerance.check(eager["tree"], np.asarray(table["tree"]).sum(), scale=TREES)
    compiled = jax.jit(ju.inference.merge_leaves)(forest, table, X)
    jax.tree.map(lambda a, b: tolerance.check(a, b, scale=TREES), compiled, eager)
    mapped = jax.jit(jax.vmap(lambda x: ju.inference.merge_leaves(forest, table, x)))(X.reshape(8, 50, 6))
    tolerance.check(mapped["planes"].reshape(400, 3), eager["planes"], scale=TREES)
    by_table = jax.jit(jax.vmap(lambda t: ju.inference.merge_leaves(forest, t, X)))(
        jax.tree.map(lambda a: jnp.stack([a, 2 * a]), table)
    )
    tolerance.check(by_table["plane"][1], 2 * eager["plane"], scale=2 * TREES)


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_forms_for_cpu_and_accelerator_agree(tolerance):
    forest, X = forest_with_all_leaves(3), jnp.asarray(toy_data(3)[0])
    rules = make("together", 3, TREES)
    table = leaf_table(forest, rules)
    mask = jnp.asarray(np.arange(len(X))[:, None] % 5 != np.arange(TREES) % 5)

    def everything(walk):
        index = ju.leaf_index(forest, X, walk=walk)
        folded = [
            ju.inference.merge_leaves(forest, table, X, merge=rules.merge, tree_mask=m, walk=walk) for m in (None, mask)
        ]
        pull = lambda scores: jnp.sum(ju.inference.merge_leaves(forest, scores, X, walk=walk) ** 2)
        return index, folded, jax.grad(pull)(table["mean"]["score"]), ju.bind(forest, rules, walk=walk).answer(X)

    by_blocks, by_levels = everything("blocks"), everything("levels")
    np.testing.assert_array_equal(by_levels[0], by_blocks[0])
    for a, b in zip(jax.tree.leaves(by_levels), jax.tree.leaves(by_blocks), strict=True):
        tolerance.check(a, b, scale=10.0)


@pytest.mark.exhaustive
@pytest.mark.once
def test_per_tree_fields_reach_their_tree(tolerance):
    """A fold of one's own with a `tree_field`: lift sees its tree's entry, streamed or not, through any nesting."""

    class Shifted(Unfinished):
        shift: jax.Array = ju.combiners.tree_field()
        merge = "sum"

        def lift(self, counts):
            return jnp.sum(counts, axis=-1).astype(self.shift.dtype) * self.shift

    shift = jnp.linspace(-1, 1, TREES)
    rule = ju.combiners.Together(
        a=Shifted(shift), b=ju.Weighted(ju.combiners.Together(c=Shifted(shift)), np.full(TREES, 2.0))
    )
    forest, X = forest_with_all_leaves(2), toy_data(2)[0]
    expected = np.sum(np.asarray(leaves(2)).sum(-1) * np.asarray(shift), axis=1)
    for answer in (rule.answer(leaves(2)), ju.bind(forest, rule).answer(X)):
        tolerance.check(answer["a"], expected, scale=100.0)
        tolerance.check(answer["b"]["c"], 2 * expected, scale=100.0)


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("name", ["together", "median", "weighted_veto"])
def test_trees_in_parts(name, walk, tolerance):
    """A slice of a plan is a plan: trees advanced by blocks, or merged apart and joined, answer as all at once."""
    forest, rule, X = forest_with_all_leaves(2), make(name, 2, TREES), jnp.asarray(toy_data(2)[0])
    mask = jnp.asarray(np.arange(len(X))[:, None] % 5 != np.arange(TREES) % 5)
    stream = ju.inference.PackedTrees.of(forest.trees, leaf_table(forest, rule), rule.merge, missing=True, walk=walk)
    parts = [stream.of_trees(start, stop) for start, stop in ((0, 1), (1, 8), (8, TREES))]
    for one in (None, mask):
        whole = stream.merge(X, one)
        masks = [None] * 3 if one is None else [one[:, :1], one[:, 1:8], one[:, 8:]]
        advanced = stream.start(len(X), masked=one is not None)
        for part, own in zip(parts, masks, strict=True):
            advanced = part.advance(advanced, X, own)
        each = [p.advance(p.start(len(X), masked=one is not None), X, own) for p, own in zip(parts, masks, strict=True)]
        joined = stream.join(stream.join(each[0], each[1]), each[2])
        if walk == "blocks":
            assert_equal(stream.result(advanced), whole)
        for found in (stream.result(advanced), stream.result(joined)):
            for a, b in zip(jax.tree.leaves(rule.finish(found)), jax.tree.leaves(rule.finish(whole)), strict=True):
                tolerance.check(a, b, scale=10.0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("merge", ["sum", "exact_sum", "min", "max", "collect"])
@pytest.mark.exhaustive(keep=3)
@pytest.mark.room(keep=1)
def test_forward_mode_is_the_transpose_of_backward_mode(merge, masked):
    forest, rng, X = toy_forest(2, TREES), np.random.default_rng(0), toy_data(2)[0][:70]
    shape, dtype = (forest.n_trees, forest.n_nodes), jnp.result_type(float)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)
    table = {"number": draw(*shape), "two": draw(*shape, 2)}
    table |= {} if merge == "collect" else {"tree": draw(forest.n_trees)}
    mask = rng.random((70, forest.n_trees)) < 0.6 if masked and merge != "collect" else None
    run = lambda table: jax.tree.leaves(ju.inference.merge_leaves(forest, table, X, merge=merge, tree_mask=mask))
    moves = jax.tree.map(lambda part: draw(*part.shape), table)
    out, pushed = jax.jvp(run, (table,), (moves,))
    # The low part of an exact sum is a rounding error, which has no slope.
    pulls = [draw(*part.shape) for part in out]
    pulled = jax.vjp(run, table)[1](pulls)[0]
    along = lambda first, second: sum(float(jnp.vdot(a, b)) for a, b in zip(first, second, strict=True))
    sizes = [jax.tree.leaves(part) for part in (moves, pulled)]
    np.testing.assert_allclose(along(pushed, pulls), along(*sizes), rtol=1e-4, atol=1e-3)


@pytest.mark.room
def test_derivatives_in_the_weights():
    forest, X = toy_forest(2, TREES), jnp.asarray(toy_data(2)[0][:20])
    loss = lambda weights: ju.bind(forest, ju.Weighted(ju.Mean(), weights)).score(X).mean() ** 2
    weights = jnp.linspace(0.5, 1.5, TREES)
    ways = jax.jacfwd(loss), jax.grad(loss), jax.hessian(loss), jax.jacrev(jax.jacrev(loss))
    forward, backward, mixed, twice = jax.jit(lambda weights: [way(weights) for way in ways])(weights)
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(mixed, twice, rtol=1e-3, atol=1e-6)

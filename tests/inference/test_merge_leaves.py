"""Rules through a forest: the same answers and gradients as from the tensor of leaf counts, for every rule."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._exhaustive import a_few_of
from tests._forests import forest_of_leaves, forest_with_all_leaves, random_counts, toy_data, toy_forest
from tests._rules import PRIORS, RULES, by_rule, check_same, make

TREES = 12
FEW = [("mean", 2), ("dempster", 2), ("weighted_together", 2), ("together", 3)]
DIFFERENTIATED = [("evidence", 2), ("dempster", 2), ("weighted_mean", 2), ("together", 3)]


@lru_cache
def leaves(n_classes: int) -> jax.Array:
    return ju.leaf_counts(forest_with_all_leaves(n_classes), jnp.asarray(toy_data(n_classes)[0]))


@lru_cache
def bound(name: str, n_classes: int) -> ju.BoundForest:
    return ju.bind(forest_with_all_leaves(n_classes), make(name, n_classes, TREES), threads=1)


@pytest.mark.room
@pytest.mark.once
@pytest.mark.parametrize(("name", "n_classes"), FEW)
@pytest.mark.exhaustive(keep=1)
def test_a_mask_drops_trees(name, n_classes, tolerance):
    """One mask for all instances is the smaller forest; the rows of a mask are independent, and one may have no tree:
    equal shares, or the prior.
    """
    X, kept, rule = toy_data(n_classes)[0], np.array([0, 2, 3, 7, 8]), bound(name, n_classes)
    mask = np.tile(np.isin(np.arange(TREES), kept), (len(X), 1))
    masked = rule.answer(X, tree_mask=mask)
    expected = make(name, n_classes, kept).answer(jnp.asarray(np.asarray(leaves(n_classes))[:, kept]))
    check_same(tolerance, name, masked, expected)
    mask[::2], mask[-1] = True, False
    answer = rule.answer(X, tree_mask=mask)
    rows = lambda answer, start: jax.tree.map(lambda part: np.asarray(part)[start:-1:2], answer)
    check_same(tolerance, name, rows(answer, 1), rows(masked, 1))
    check_same(tolerance, name, rows(answer, 0), rows(rule.answer(X), 0))
    for key, each in by_rule(answer).items():
        expected = PRIORS[n_classes] if key == "evidence" else 1 / n_classes
        np.testing.assert_allclose(each.probability[-1], expected, rtol=1e-6)


@pytest.mark.exhaustive
def test_ten_thousand_trees(rng, tolerance):
    counts = random_counts(rng, (3, 10_000), 2, largest=8)
    forest, X = forest_of_leaves(counts)
    rules = ju.combiners.Together(mean=ju.Mean(), pooling=ju.Pooling(), evidence=ju.EvidenceAccumulation(0.375))
    check_same(tolerance, "mean", ju.bind(forest, rules).answer(X), rules.answer(jnp.asarray(counts)))


@pytest.mark.once
def test_a_lead_of_one_in_a_billion_is_no_tie():
    counts = np.full((3, 4, 2), 10**9)
    counts[0, :, 1] += 1
    counts[1, :, 0] += 1
    forest, X = forest_of_leaves(counts)
    assert jnp.issubdtype(forest.count_table.dtype, jnp.integer)
    rules = {name: make(name, 2, 4) for name in ("mean", "vote", "pooling", "dempster")}
    for name, scores in ju.bind(forest, rules)(X).items():
        np.testing.assert_array_equal(np.sign(ju.margin(scores)), [1, -1, 0], err_msg=name)


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
    """By the counts ``[trees nodes classes]`` and the rule, bound inside of the program and through the tensor."""
    bound = lambda rule, counts: _total(ju.bind(forest.with_counts(counts), rule).answer(X, tree_mask=mask))
    through_tensor = lambda rule, counts: _total(rule.answer(ju.leaf_counts(forest.with_counts(counts), X)))
    return jax.grad(bound, (1, 0))(rule, counts), jax.grad(through_tensor, (1, 0))(rule, counts)


@pytest.mark.parametrize(("name", "n_classes"), a_few_of(DIFFERENTIATED, DIFFERENTIATED[:2], several=True))
@pytest.mark.room
def test_gradients_are_those_through_the_tensor(name, n_classes, x64):
    """At interior, pure, tied and empty leaves."""
    forest, X = forest_with_all_leaves(n_classes), jnp.asarray(toy_data(n_classes)[0])
    streamed, expected = _gradients(forest, make(name, n_classes, TREES), forest.counts.astype(float), X, None)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(streamed), jax.tree.leaves(expected), strict=True):
        where = jax.tree_util.keystr(path)
        assert np.all(np.isfinite(a)), where
        atol = (1e-10 if x64 else 2e-5) * max(1, np.abs(b).max())
        np.testing.assert_allclose(a, b, rtol=1e-9 if x64 else 2e-4, atol=atol, err_msg=where)
    if RULES[name].differentiable:
        assert np.abs(np.asarray(streamed[0])).max() > 0


@pytest.mark.exhaustive
def test_a_masked_tree_has_no_gradient(rng):
    forest, X = forest_with_all_leaves(2), jnp.asarray(toy_data(2)[0])
    mask = (rng.random((len(X), TREES)) < 0.5) & (np.arange(TREES) != 4)
    by_tree = _gradients(forest, make("evidence", 2, TREES), forest.counts.astype(float), X, jnp.asarray(mask))[0][0]
    np.testing.assert_array_equal(np.abs(by_tree[4:6]).max(axis=(1, 2)) > 0, [False, True])


@pytest.mark.once
def test_what_is_known_inside_a_traced_program_is_answered_there():
    """Data and forests that a program closes over have values: they are answered while it is traced."""
    forest, known, X = forest_with_all_leaves(2), bound("mean", 2), toy_data(2)[0]
    for answer in (
        lambda: known.probability(X),
        lambda: ju.bind(forest, known.combiner, walk="levels").probability(X),
        lambda: ju.leaf_index(forest, X),
        lambda: ju.leaf_counts(forest, X),
        lambda: ju.count_leaves(forest, X, toy_data(2)[1]).counts,
    ):
        np.testing.assert_array_equal(jax.jit(lambda answer=answer: answer())(), answer())


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
    share, mask = counts[..., 1] / counts.sum(-1), rng.random((50, TREES)) < 0.5
    mask[:, 0] = True
    counts, bound, all_trees = jnp.asarray(counts), ju.bind(forest, Extremes()), np.ones_like(mask)
    for answer, used in (
        (Extremes().answer(counts), all_trees),
        (bound.answer(X), all_trees),
        (bound.answer(X, tree_mask=mask), mask),
    ):
        np.testing.assert_allclose(answer["least"], np.where(used, share, np.inf).min(1), rtol=1e-6)
        np.testing.assert_allclose(answer["most"], np.where(used, share, -np.inf).max(1), rtol=1e-6)
        np.testing.assert_array_equal(answer["trees"], used.sum(1))
    for answer in (Unfinished().answer(counts), ju.bind(forest, Unfinished()).answer(X)):
        assert np.all(np.asarray(answer["trees"]) == TREES)


@pytest.mark.once
@pytest.mark.parametrize("merge", ["min", "max"])
@pytest.mark.exhaustive
def test_the_first_tree_that_attains_an_extreme_gets_the_gradient(merge, rng):
    forest, X = forest_of_leaves(np.ones((40, 6, 2)))
    table = jnp.asarray(rng.integers(0, 3, size=(6, forest.n_nodes)).astype(float))  # full of ties
    mask, pull = rng.random((40, 6)) < 0.7, rng.normal(size=40)
    mask[:, -1] = True

    @jax.jit
    def gradient(table, mask):
        merged = lambda table: ju.inference.merge_leaves(forest, table, jnp.asarray(X), merge=merge, tree_mask=mask)
        return jax.grad(lambda table: jnp.sum(merged(table) * pull))(table)

    index = np.asarray(ju.leaf_index(forest, jnp.asarray(X)))
    values, barred = np.asarray(table)[np.arange(6), index], np.inf if merge == "min" else -np.inf
    for in_mask in (mask, np.ones_like(mask)):
        first = getattr(np.where(in_mask, values, barred), f"arg{merge}")(axis=1)
        expected = np.zeros(table.shape)
        np.add.at(expected, (first, index[np.arange(40), first]), pull)
        np.testing.assert_allclose(gradient(table, jnp.asarray(in_mask)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.once
def test_ties_of_an_extreme_have_one_gradient_on_both_ways():
    """A rule's own call and the streamed fold send the gradient of tied trees the same way."""
    forest, X = forest_of_leaves(np.tile(np.array([[3.0, 5.0]]), (1, 4, 1)))
    by_counts = _gradients(forest, ju.Maximum(), forest.counts.astype(float), jnp.asarray(X), None)
    streamed, expected = (np.abs(gradient[0]) for gradient in by_counts)
    assert expected[0].max() > 0 == expected[1:].max()
    np.testing.assert_allclose(streamed, expected, atol=1e-7)


class ExactTotals(Unfinished):
    merge = "exact_sum"

    def lift(self, counts):
        return counts


@pytest.mark.parametrize("largest", [10, 2**24 + 3, 2**31 - 1])
@pytest.mark.exhaustive
def test_exact_sums_of_counts_are_exact(largest, rng):
    counts = rng.integers(0, largest, size=(3, 5000, 2), endpoint=True).astype(np.int32)
    counts[0] = largest
    forest, X = forest_of_leaves(counts)
    expected = counts.astype(object).sum(axis=1)
    for total in (ExactTotals().answer(jnp.asarray(counts)), ju.bind(forest, ExactTotals()).answer(X)):
        high, low = (np.asarray(part, np.float64).astype(object) for part in (total.high, total.low))
        assert np.all(high + low == expected)


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
    forest, X = forest_with_all_leaves(2), jnp.asarray(toy_data(2)[0])
    shapes = {"plane": (TREES, forest.n_nodes), "planes": (TREES, forest.n_nodes, 3), "tree": (TREES,)}
    table = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    fold = lambda table, X: ju.inference.merge_leaves(forest, table, X)
    check = lambda found, expected: jax.tree.map(lambda a, b: tolerance.check(a, b, scale=2 * TREES), found, expected)
    leaves = np.arange(TREES), np.asarray(ju.leaf_index(forest, X))
    eager, expected = fold(table, X), {name: np.asarray(table[name])[leaves].sum(1) for name in ("plane", "planes")}
    check(eager, expected | {"tree": np.asarray(table["tree"]).sum()})
    check(jax.jit(fold)(table, X), eager)
    mapped = jax.jit(jax.vmap(fold, (None, 0)))(table, X.reshape(8, 50, 6))
    check(mapped["planes"].reshape(400, 3), eager["planes"])
    by_table = jax.jit(jax.vmap(fold, (0, None)))(jax.tree.map(lambda a: jnp.stack([a, 2 * a]), table), X)
    check(by_table["plane"][1], 2 * eager["plane"])


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
    inner = ju.Weighted(ju.combiners.Together(c=Shifted(shift)), np.full(TREES, 2.0))
    rule = ju.combiners.Together(a=Shifted(shift), b=inner)
    forest, X = forest_with_all_leaves(2), toy_data(2)[0]
    expected = np.sum(np.asarray(leaves(2)).sum(-1) * np.asarray(shift), axis=1)
    for answer in (rule.answer(leaves(2)), ju.bind(forest, rule).answer(X)):
        tolerance.check(answer["a"], expected, scale=100.0)
        tolerance.check(answer["b"]["c"], 2 * expected, scale=100.0)


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("merge", ["sum", "exact_sum", "min", "max", "collect"])
@pytest.mark.exhaustive(keep=3)
@pytest.mark.room(keep=1)
def test_forward_mode_is_the_transpose_of_backward_mode(merge, masked, walk):
    forest, rng, X = toy_forest(2, TREES), np.random.default_rng(0), toy_data(2)[0][:70]
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.result_type(float))
    table = {"number": draw(TREES, forest.n_nodes), "two": draw(TREES, forest.n_nodes, 2)}
    table |= {} if merge == "collect" else {"tree": draw(TREES)}
    mask = rng.random((70, TREES)) < 0.6 if masked and merge != "collect" else None
    fold = lambda table: ju.inference.merge_leaves(forest, table, X, merge=merge, tree_mask=mask, walk=walk)
    run = lambda table: jax.tree.leaves(fold(table))
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


@pytest.mark.once
def test_integers_and_bools_neither_wrap_nor_lack_a_neutral_value(rng):
    forest, X = forest_of_leaves(random_counts(rng, (20, TREES), 2))
    leaves = np.asarray(ju.leaf_index(forest, X))
    table = rng.integers(-100, 100, (TREES, forest.n_nodes)).astype(np.int8)
    mask = rng.random((20, TREES)) < 0.5
    mask[:, 0] = True
    values = np.take_along_axis(table, leaves.T, axis=1).T.astype(int)  # [instances trees]
    expected = {"min": np.where(mask, values, 999).min(axis=1), "max": np.where(mask, values, -999).max(axis=1)}
    expected["sum"] = np.where(mask, values, 0).sum(axis=1)
    for merge, numbers in expected.items():
        np.testing.assert_array_equal(ju.inference.merge_leaves(forest, table, X, merge=merge, tree_mask=mask), numbers)
    exact = ju.inference.merge_leaves(forest, table, X, merge="exact_sum", tree_mask=mask)
    np.testing.assert_array_equal(exact.value, expected["sum"])
    flags = ju.inference.merge_leaves(forest, table > 0, X, merge="max", tree_mask=mask)
    np.testing.assert_array_equal(flags, expected["max"] > 0)

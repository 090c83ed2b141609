"""Planes of every type of number, two of them in one element; columns of bits, which say to the bit what planes say."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.combiners import Together
from tests._forests import toy_data, toy_forest
from tests.inference._same import assert_same_bits, check_parts, merged, rule_of

KINDS = {
    "sum": ("float16", "bfloat16", "float32", "float64"),
    "exact_sum": ("uint8", "int16", "int32", "uint32", "int64", "float32", "float64"),
    "max": ("float16", "float32", "float64"),
}
"""Types by merge; the wide ones in the float64 run alone."""


@pytest.mark.exhaustive
def test_planes_of_every_type(rng, x64):
    """Three of each type, some in pairs and some alone: each merged as if there were no other."""
    forest, X = toy_forest(3), toy_data(3)[0]
    kinds = {merge: [dtype for dtype in KINDS[merge] if x64 or "64" not in dtype] for merge in KINDS}
    draw = lambda: rng.integers(0, 9, (forest.n_trees, forest.n_nodes, 3))
    values = {merge: {dtype: draw() for dtype in dtypes} for merge, dtypes in kinds.items()}
    table = {merge: {k: jnp.asarray(v, jnp.dtype(k)) for k, v in planes.items()} for merge, planes in values.items()}
    merged = ju.inference.merge_leaves(forest, table, X, merge={merge: merge for merge in KINDS}, walk="blocks")
    leaves = np.arange(forest.n_trees), np.asarray(ju.leaf_index(forest, X))
    for merge, planes in values.items():
        for dtype, plane in planes.items():
            reached, found = plane[leaves], merged[merge][dtype]
            if merge == "exact_sum":
                found = np.asarray(found.high, float) + np.asarray(found.low, float)
            expected = reached.max(1) if merge == "max" else reached.sum(1)
            np.testing.assert_array_equal(np.asarray(found, float), expected, err_msg=f"{merge} of {dtype}")


@pytest.mark.parametrize(
    ("rule", "largest"), [(ju.OneVsRest(ju.Pooling()), 9), (ju.Pooling(), 5 * 10**9)], ids=["one against rest", "large"]
)
@pytest.mark.exhaustive
def test_counts_of_either_width(rule, largest, rng, tolerance):
    """Sums over classes are wide integers where JAX has any, and so are counts beyond 32 bits."""
    forest, X = toy_forest(3), toy_data(3)[0]
    forest = forest.with_counts(rng.integers(0, largest, forest.counts.shape))
    expected, found = rule.answer(ju.leaf_counts(forest, X)), ju.bind(forest, rule).answer(X)
    tolerance.check(found.class_scores, expected.class_scores, scale=1.0)
    tolerance.check(found.probability, expected.probability, scale=1.0)


MASSES = ("equal", "leaf_size", "certainty")
RULES = {
    **{f"vote by {mass}": ju.GeneralizedVote(2.0, mass) for mass in MASSES},
    **{f"report by {mass}": ju.decisions.CautiousReport(2.0, mass) for mass in MASSES},
    "pooling": ju.Pooling(),
    "together": Together(few=ju.GeneralizedVote(1.0, "leaf_size"), mean=ju.Mean(), many=ju.GeneralizedVote(3.0)),
}


def counted(n_classes: int, kind: str) -> ju.Forest:
    """A forest with whole counts, fractions, or sums over its trees beyond 32 bits."""
    factor = {"whole": 1, "fractions": 1.37, "large": 10**7}[kind]
    return toy_forest(n_classes).with_counts(np.asarray(toy_forest(n_classes).counts) * factor)


def both_ways(rule, forest, walk: str = "blocks"):
    table = ju.inference.leaf_table(forest, rule)
    of_table = ju.inference.PackedTrees.of(forest.trees, table, rule.merge, missing=False, walk=walk)
    return of_table, ju.bind(forest, rule, walk=walk).engine.packed


OTHERS = [(2, "fractions"), (2, "large"), (3, "whole")]


@pytest.mark.room(keep=1)
@pytest.mark.parametrize(
    ("name", "n_classes", "kind"),
    [
        *((name, 2, "whole") for name in RULES if "vote" not in name),
        *(("together", *other) for other in OTHERS),
        *(pytest.param(name, *other, marks=pytest.mark.exhaustive) for name in RULES for other in OTHERS),
    ],
)
def test_merges_as_planes_do(name, n_classes, kind):
    forest, X = counted(n_classes, kind), toy_data(n_classes)[0][:100]
    of_table, of_rows = both_ways(RULES[name], forest)
    assert_same_bits(merged(of_rows, X), merged(of_table, X))


@pytest.mark.room
@pytest.mark.once
@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("name", ["report by leaf_size", "together", "median", "weighted_veto"])
@pytest.mark.exhaustive(keep=1)
def test_masks_padding_and_parts_of_the_trees(name, walk, rng):
    forest, X = counted(2, "whole"), toy_data(2)[0][:100]
    of_table, of_rows = both_ways(RULES[name] if name in RULES else rule_of(name, 2, forest.n_trees), forest, walk)
    check_parts(of_rows, of_table, X, rng.random((len(X), forest.n_trees)) < 0.7, walk)


@pytest.mark.room
@pytest.mark.once
def test_votes_need_no_columns_of_their_own_and_sums_are_short_where_they_fit():
    """A report's votes lie in the signs of its bounds, and those of ten classes in words."""
    layout = lambda name, n_classes, kind="whole": both_ways(RULES[name], counted(n_classes, kind))[1].spec.layout
    for name, n_classes, columns in (
        ("report by equal", 2, ("float32",) * 2),
        ("report by certainty", 2, ("float32",) * 3),
        ("vote by leaf_size", 2, ("uint32",)),
        ("vote by equal", 3, ("uint32",)),
    ):
        assert layout(name, n_classes).columns == columns
    for kind, merge in (("whole", "short_sum"), ("large", "exact_sum")):
        assert set(layout("vote by leaf_size", 2, kind).planes.kinds) == {merge}

"""Columns of bits say what planes say, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.combiners import Together
from tests._forests import toy_data, toy_forest

MASSES = ("equal", "leaf_size", "certainty")
RULES = {
    **{f"vote by {mass}": ju.GeneralizedVote(2.0, mass) for mass in MASSES},
    **{f"report by {mass}": ju.decisions.CautiousReport(2.0, mass) for mass in MASSES},
    "pooling": ju.Pooling(),
    "together": Together(few=ju.GeneralizedVote(1.0, "leaf_size"), mean=ju.Mean(), many=ju.GeneralizedVote(3.0)),
}


def counted(n_classes: int, kind: str) -> ju.Forest:
    """A forest with whole counts, fractions, or sums over its trees beyond 32 bits."""
    forest = toy_forest(n_classes)
    factor = {"whole": 1, "fractions": 1.37, "large": 10**7}[kind]
    return forest if kind == "whole" else forest.with_counts(np.asarray(forest.counts) * factor)


def both_ways(rule, forest, walk: str = "blocks"):
    """The trees packed from a table of all leaves, and from distinct rows."""
    table = ju.inference.leaf_table(forest, rule)
    of_table = ju.inference.PackedTrees.of(forest.trees, table, rule.merge, missing=False, walk=walk)
    return of_table, ju.bind(forest, rule, walk=walk).engine.packed


def assert_same_bits(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


OTHERS = [(2, "fractions"), (2, "large"), (3, "whole")]


@pytest.mark.parametrize(
    ("name", "n_classes", "kind"),
    [
        *((name, 2, "whole") for name in RULES if "vote" not in name),
        *(("together", *other) for other in OTHERS),
        *(pytest.param(name, *other, marks=pytest.mark.exhaustive) for name in RULES for other in OTHERS),
    ],
)
def test_merges_as_planes_do(name, n_classes, kind):
    forest, X = counted(n_classes, kind), jnp.asarray(toy_data(n_classes)[0][:100])
    of_table, of_rows = both_ways(RULES[name], forest)
    assert_same_bits(of_rows.merge(X), of_table.merge(X))


@pytest.mark.once
@pytest.mark.parametrize("walk", ["blocks", "levels"])
def test_masks_padding_and_parts_of_the_trees(walk, rng):
    forest, X = counted(2, "whole"), jnp.asarray(toy_data(2)[0][:100])
    mask = rng.random((len(X), forest.n_trees)) < 0.7
    of_table, of_rows = both_ways(RULES["report by leaf_size"], forest, walk)
    expected = of_table.merge(X, jnp.asarray(mask))
    assert_same_bits(of_rows.merge(X, jnp.asarray(mask)), expected)
    padded = np.pad(mask, ((0, 0), (0, 2)), constant_values=True)
    assert_same_bits(of_rows.padded(2).merge(X, jnp.asarray(padded))["vote"]["mass"], expected["vote"]["mass"])
    halves = of_rows.of_trees(0, 2), of_rows.of_trees(2, forest.n_trees)
    carry = halves[1].advance(halves[0].advance(of_rows.start(len(X)), X), X)
    if walk == "blocks":
        assert_same_bits(of_rows.result(carry), of_table.merge(X))


@pytest.mark.once
def test_votes_need_no_columns_of_their_own():
    """A report's votes lie in the signs of its bounds, and those of ten classes in words."""
    columns = lambda name, n_classes: both_ways(RULES[name], counted(n_classes, "whole"))[1].spec.layout.columns
    assert columns("report by equal", 2) == ("float32",) * 2
    assert columns("report by certainty", 2) == ("float32",) * 3
    assert columns("vote by leaf_size", 2) == ("uint32",)
    assert columns("vote by equal", 3) == ("uint32",)


@pytest.mark.once
def test_sums_are_short_only_where_they_fit():
    kinds = lambda kind: set(both_ways(RULES["vote by leaf_size"], counted(2, kind))[1].spec.layout.planes.kinds)
    assert kinds("whole") == {"short_sum"}
    assert kinds("large") == {"exact_sum"}

"""The test that each instance chooses among those of padded samples (in JAX, with int64).

Cut i of a numeric feature has the i + 1 lowest instances of the sample below it; only the last instance of a value has
a cut. An instance x with value 5 that is no part of the sample sees the cuts from two sides:

    sorted values    2    3    3    7    9   (padding)
    cut number       0    -    2    3
    x is            above     ?   below

Which side of cut 2 it takes is for its threshold, halfway between 3 and 7, to say. So the best cut is the larger of two
numbers of the table: the largest score "x above" of the cuts before a place, and the largest score "x below" of those
behind it. Leave-one-out (`_beside_itself`) looks at the two cuts beside x by themselves, since these change without x.

All scores are integers (`jaxunc.transduction.entropy_table`), so that equal gains tie exactly, on every machine. Then
the order decides: the first feature, the lowest cut or code. Every ``argmax`` and ``>=`` here keeps that order.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int64

from jaxunc._numerics import jit

from ._cuts import LOWEST, halfway
from ._node_tables import Known, NumericTable, Rules, ScoreTable
from ._nominal_tests import own_or_other
from ._scores import Beside, cuts_beside


class Chosen(NamedTuple):
    """The best test for each pair."""

    stays: Bool[Array, " pairs"]
    """Whether no test gains: the sample is the leaf."""
    feature: Int[Array, " pairs"]
    place: Int[Array, " pairs"]
    """Rank of the value below the cut, or the code that is tested for."""
    side: Bool[Array, " pairs"]
    """Whether the instance is above the cut, or has another value."""


class _Cuts(NamedTuple):
    """The best cuts of some pairs, feature by feature."""

    score: Int64[Array, "pairs numeric"]
    is_above: Bool[Array, "pairs numeric"]
    cut: Int[Array, "pairs numeric"]


@jit(static_argnames="rules")
def choose(
    known: Known, table: ScoreTable, item: Int[Array, " pairs"], instance: Int[Array, " pairs"], rules: Rules
) -> Chosen:
    """Return the best test for each pair of a table's item and an instance.

    Of equal scores the first feature wins, and within it the lowest cut or code.
    """
    find = partial(_beside_itself, boundaries=rules.boundaries) if rules.is_own else _inserted
    cuts = find(known, table, item, instance)
    code, nominal = known.query_code[instance], table.nominal
    at = item[:, None], jnp.arange(code.shape[1]), jnp.maximum(code, 0)
    # A value that the training set lacks has no test of its own; index 0 above only keeps the gather in range.
    own = jnp.where(code >= 0, nominal.own[at], LOWEST)
    best, second = ((nominal.best, nominal.best_score), (nominal.second, nominal.second_score))
    values = own_or_other(code, own, [part[item] for part in best], [part[item] for part in second])
    # Back in the order of the data's columns before argmax: the first feature wins, numeric or nominal.
    score = jnp.concatenate([cuts.score, values.score], axis=1)[:, known.place]
    feature = score.argmax(axis=1)
    row = known.place[feature][:, None]
    # A rank says which value the cut lies behind in any sample; a place in this padded one would not.
    rank = table.numeric.rank[item[:, None], jnp.arange(cuts.cut.shape[1]), cuts.cut]
    place = jnp.concatenate([rank, values.code.astype(rank.dtype)], axis=1)
    side = jnp.concatenate([cuts.is_above, values.is_other], axis=1)
    place, side = (jnp.take_along_axis(part, row, axis=1)[:, 0] for part in (place, side))
    # Both are sums of the same integers, so <= means no gain at all, not a gain below some tolerance.
    return Chosen(score.max(axis=1) <= table.parent[item], feature, place, side)


def _count_below(rank: Int[Array, "items numeric size"], item, sought: Int[Array, "pairs numeric"]):
    """Count the ranks of each pair's item that are below the sought one, feature by feature.

    The ranks are sorted, and their number is a power of two.
    """
    row, size = jnp.arange(rank.shape[1]), rank.shape[2]

    # The count is built from its highest bit on. Bit size itself is tried, too: all ranks may be below.
    def step(i, count):
        further = count + (size >> i)
        # Beyond the end the minimum only keeps the gather in range: ``further <= size`` refuses that step.
        found = rank[item[:, None], row, jnp.minimum(further, size) - 1]
        return jnp.where((further <= size) & (found < sought), further, count)

    return jax.lax.fori_loop(0, size.bit_length(), step, jnp.zeros(sought.shape, jnp.int32))


def _inserted(known: Known, table: ScoreTable, item, instance) -> _Cuts:
    """Return the best cuts for instances that are no part of the sample."""
    numeric, rank = table.numeric, known.query_rank[instance]
    count = _count_below(numeric.rank, item, rank + 1)
    read = _reader(item, numeric)
    # All cuts before the value below x have x above; so has the one beyond it, if its threshold is below x.
    lower, upper = (_value(known, read(numeric.rank, at)) for at in (count - 1, count))
    has_both = (count > 0) & (count < table.size[item][:, None])
    passes = has_both & (halfway(lower, upper) < known.query_value[instance])
    # Cuts before ``end`` have x above. Below the lowest value (count 0) there is none: first[0] is the lowest score.
    end = jnp.maximum(count - 1 + passes.astype(count.dtype), 0)
    above, below = read(numeric.first, end), read(numeric.last, end)
    # A tie takes the cut further below.
    is_above = above >= below
    cut = jnp.where(is_above, read(numeric.lowest_first, end - 1), read(numeric.lowest_last, end))
    return _Cuts(jnp.where(is_above, above, below), is_above, cut)


def _beside_itself(known: Known, table: ScoreTable, item, instance, *, boundaries: bool) -> _Cuts:
    """Return the best cuts for instances of the sample, each left out: the two beside it are judged without it."""
    numeric, rank = table.numeric, known.query_rank[instance]
    # Instances begin … end - 1 have the value of x; cut begin - 1 lies just below them, cut end - 1 just above.
    begin, end = _count_below(numeric.rank, item, rank), _count_below(numeric.rank, item, rank + 1)
    read = _reader(item, numeric)
    lower, upper = (_value(known, read(numeric.rank, at)) for at in (begin - 1, end))
    beside = Beside(
        has_left=begin > 0,
        has_right=end < table.size[item][:, None],
        alone=end - begin == 1,
        goes_left=known.query_value[instance] <= halfway(lower, upper),
        lower=read(numeric.value_class, begin - 1),
        own=_class_without(numeric, item, begin, end, known.query_label[instance]),
        upper=read(numeric.value_class, end),
    )
    # All other cuts stand as they are without x: neither their thresholds nor the classes at them change.
    is_test = cuts_beside(beside, boundaries)
    further_above = jnp.where(beside.has_right, end, numeric.rank.shape[2])
    # From low to high, so that argmax takes the lowest of equals. The cuts beside x are read by their own scores, which
    # the table has whether the cut is a test with x or not: without x it may be one, or be none any more.
    parts = (
        read(numeric.first, jnp.maximum(begin - 1, 0)),
        jnp.where(is_test[0], read(numeric.score_above, begin - 1), LOWEST),
        jnp.where(is_test[1], read(numeric.score_below, end - 1), LOWEST),
        read(numeric.last, further_above),
    )
    cuts = read(numeric.lowest_first, begin - 2), begin - 1, end - 1, read(numeric.lowest_last, further_above)
    kind = jnp.stack(parts).argmax(axis=0)
    return _Cuts(
        jnp.stack(parts).max(axis=0), kind < 2, jnp.choose(kind, [jnp.asarray(cut) for cut in cuts], mode="clip")
    )


def _class_without(numeric: NumericTable, item, begin, end, label):
    """Return the class of the others with an instance's value; -1 if they have several, or there are none."""
    row, kinds = jnp.arange(begin.shape[1]), jnp.arange(numeric.below.shape[1], dtype=jnp.int32)

    def upto(at):
        counts = numeric.below[item[:, None, None], kinds[:, None], row, jnp.maximum(at - 1, 0)[:, None]]
        return jnp.where(at[:, None] > 0, counts, 0)

    # Counts up to a place are sums, so the instances with the value are a difference; x itself is taken off.
    counts = upto(end) - upto(begin) - (kinds == label[:, None]).astype(numeric.below.dtype)[:, :, None]
    return jnp.where((counts > 0).sum(axis=1) == 1, counts.argmax(axis=1).astype(jnp.int32), -1)


def _reader(item, numeric: NumericTable):
    """Return a reader of tables at places ``[pairs numeric]`` of the pairs' items.

    Places beyond either end are read as the ends.
    """
    row = jnp.arange(numeric.rank.shape[1])

    def read(part, place):
        return part[item[:, None], row, jnp.clip(place, 0, part.shape[2] - 1)]

    return read


def _value(known: Known, rank):
    """Return the value of a rank, feature by feature."""
    return known.value[jnp.arange(len(known.value)), jnp.clip(rank, 0, known.value.shape[1] - 1)]

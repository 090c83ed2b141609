"""The test that each instance chooses among those of padded samples (in JAX, with int64)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int64

from jaxunc.greedy import LOWEST, halfway

from ._node_tables import Known, NumericTable, Rules, ScoreTable
from ._nominal_tests import own_or_other
from ._scores import Beside, cuts_beside


class Chosen(NamedTuple):
    """The best test for each pair."""

    stays: Bool[Array, " pairs"]
    """Whether none gains: the sample is the leaf."""
    feature: Int[Array, " pairs"]
    place: Int[Array, " pairs"]
    """The rank of the value below the cut, or the code that is tested for."""
    side: Bool[Array, " pairs"]
    """Whether the instance is above the cut, or has another value."""


class _Cuts(NamedTuple):
    """The best cuts of some pairs, feature by feature."""

    score: Int64[Array, "pairs numeric"]
    is_above: Bool[Array, "pairs numeric"]
    cut: Int[Array, "pairs numeric"]


@partial(jax.jit, static_argnames="rules")
def choose(
    known: Known, table: ScoreTable, item: Int[Array, " pairs"], instance: Int[Array, " pairs"], rules: Rules
) -> Chosen:
    """The best test for each pair of an item of the table and an instance: the first feature's, and the lowest."""
    find = partial(_beside_itself, boundaries=rules.boundaries) if rules.is_own else _inserted
    cuts = find(known, table, item, instance)
    code, nominal = known.query_code[instance], table.nominal
    at = item[:, None], jnp.arange(code.shape[1]), jnp.maximum(code, 0)
    own = jnp.where(code >= 0, nominal.own[at], LOWEST)
    best, second = ((nominal.best, nominal.best_score), (nominal.second, nominal.second_score))
    values = own_or_other(code, own, [part[item] for part in best], [part[item] for part in second])
    score = jnp.concatenate([cuts.score, values.score], axis=1)[:, known.place]
    feature = score.argmax(axis=1)
    row = known.place[feature][:, None]
    rank = table.numeric.rank[item[:, None], jnp.arange(cuts.cut.shape[1]), cuts.cut]
    place = jnp.concatenate([rank, values.code.astype(rank.dtype)], axis=1)
    side = jnp.concatenate([cuts.is_above, values.is_other], axis=1)
    place, side = (jnp.take_along_axis(part, row, axis=1)[:, 0] for part in (place, side))
    return Chosen(score.max(axis=1) <= table.parent[item], feature, place, side)


def _count_below(rank: Int[Array, "items numeric size"], item, sought: Int[Array, "pairs numeric"]):
    """How many of each item's ranks are below the sought one: sorted ones, of which the number is a power of two."""
    row, size = jnp.arange(rank.shape[1]), rank.shape[2]

    def step(i, count):
        further = count + (size >> i)
        found = rank[item[:, None], row, jnp.minimum(further, size) - 1]
        return jnp.where((further <= size) & (found < sought), further, count)

    return jax.lax.fori_loop(0, size.bit_length(), step, jnp.zeros(sought.shape, jnp.int32))


def _inserted(known: Known, table: ScoreTable, item, instance) -> _Cuts:
    """The best cuts for instances that are no part of the sample."""
    numeric, rank = table.numeric, known.query_rank[instance]
    count = _count_below(numeric.rank, item, rank + 1)
    read = _reader(item, numeric)
    # All cuts before the value below x have x above; so has the one beyond it, if its threshold is below x.
    lower, upper = (_value(known, read(numeric.rank, at)) for at in (count - 1, count))
    has_both = (count > 0) & (count < table.size[item][:, None])
    passes = has_both & (halfway(lower, upper) < known.query_value[instance])
    end = jnp.maximum(count - 1 + passes.astype(count.dtype), 0)
    above, below = read(numeric.first, end), read(numeric.last, end)
    is_above = above >= below
    cut = jnp.where(is_above, read(numeric.lowest_first, end - 1), read(numeric.lowest_last, end))
    return _Cuts(jnp.where(is_above, above, below), is_above, cut)


def _beside_itself(known: Known, table: ScoreTable, item, instance, *, boundaries: bool) -> _Cuts:
    """The best cuts for instances of the sample, each left out: the two beside it are judged without it."""
    numeric, rank = table.numeric, known.query_rank[instance]
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
    is_test = cuts_beside(beside, boundaries)
    further_above = jnp.where(beside.has_right, end, numeric.rank.shape[2])
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
    """The class of the others with an instance's value; -1 if they have several, or there are none."""
    row, kinds = jnp.arange(begin.shape[1]), jnp.arange(numeric.below.shape[1], dtype=jnp.int32)

    def upto(at):
        counts = numeric.below[item[:, None, None], kinds[:, None], row, jnp.maximum(at - 1, 0)[:, None]]
        return jnp.where(at[:, None] > 0, counts, 0)

    counts = upto(end) - upto(begin) - (kinds == label[:, None]).astype(numeric.below.dtype)[:, :, None]
    return jnp.where((counts > 0).sum(axis=1) == 1, counts.argmax(axis=1).astype(jnp.int32), -1)


def _reader(item, numeric: NumericTable):
    """Reads a table at places ``[pairs numeric]`` of the pairs' items; places beyond either end are the ends."""
    row = jnp.arange(numeric.rank.shape[1])

    def read(part, place):
        return part[item[:, None], row, jnp.clip(place, 0, part.shape[2] - 1)]

    return read


def _value(known: Known, rank):
    """The value of a rank, feature by feature."""
    return known.value[jnp.arange(len(known.value)), jnp.clip(rank, 0, known.value.shape[1] - 1)]

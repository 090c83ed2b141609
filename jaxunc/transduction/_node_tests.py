"""Tests of padded samples, and the one that each pair chooses: programs of the algorithm by nodes (in JAX, with int64).

`tables` makes the scores of all tests of many samples at once; `choose` looks up the best one for each pair.

Cut i of a numeric feature has the i + 1 lowest instances of the sample below it; only the last instance of a value has
a cut. An instance x with value 5 that is not part of the sample sees the cuts from two sides:

    sorted values    2    3    3    7    9   (padding)
    cut number       0    -    2    3
    x is            above     ?   below

The threshold of cut 2, halfway between 3 and 7, decides which side of it x takes. So the best cut is the larger of two
numbers of the table: the largest score "x above" of the cuts before a place, and the largest score "x below" of those
behind it. For leave-one-out `_beside_itself` takes the two cuts beside x by themselves, since these change without x.

All scores are integers (`entropy_table`), so that equal gains tie exactly, on every machine. Then the order decides:
the first feature, the lowest cut or code. Every ``argmax`` and ``>=`` here keeps that order.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float64, Int, Int64

from jaxunc._numerics import jit

from ._presorted import LOWEST, halfway, parts_classes
from ._scores import Beside, Change, cuts_beside, own_or_other, parts_a_value, side_scores


class DeviceData(NamedTuple):
    """A training set and the instances that are inserted, on the device; the last instance is padding."""

    rank: Int[Array, "numeric instances"]
    """Rank of each instance's value; padding has a rank above all."""
    value: Float64[Array, "numeric ranks"]
    """Value of each rank."""
    code: Int[Array, "nominal instances"]
    label: Int[Array, " instances"]
    place: Int[Array, " features"]
    """Place of each feature, the numeric ones coming before the nominal ones."""
    entropy: Int64[Array, " sizes"]
    query_rank: Int[Array, "queries numeric"]
    query_value: Float64[Array, "queries numeric"]
    query_code: Int[Array, "queries nominal"]
    query_label: Int[Array, " queries"]
    """Class of the instance itself, for leave-one-out."""


class Options(NamedTuple):
    """Options that programs are compiled for."""

    n_classes: int
    n_codes: int
    boundaries: bool
    is_own: bool


class NumericTable(NamedTuple):
    """The cuts of a sample; cut i has the i + 1 lowest instances below."""

    rank: Int[Array, "numeric size"]
    """Ranks of the sample's instances, sorted."""
    below: Int[Array, "classes numeric size"]
    """Class counts of the i + 1 lowest instances."""
    value_class: Int[Array, "numeric size"]
    """Class of the instances with this value; -1 for several."""
    score_below: Int64[Array, "numeric size"]
    """Scores with x below the cut, whether the cut is a test or not."""
    score_above: Int64[Array, "numeric size"]
    best_before: Int64[Array, "numeric size+1"]
    """Largest ``score_above`` of the tests among the first i cuts, at place i."""
    best_from: Int64[Array, "numeric size+1"]
    """Largest ``score_below`` of the tests from cut i on, at place i."""
    lowest_before: Int[Array, "numeric size"]
    """Lowest cut with the score ``best_before`` of the next place."""
    lowest_from: Int[Array, "numeric size"]
    """Lowest cut with the score ``best_from`` of this place."""


class NominalTable(NamedTuple):
    """The tests for values of nominal features; see `NominalTests`."""

    inside: Int64[Array, "nominal codes"]
    """Scores with the instance inside."""
    best: Int[Array, " nominal"]
    """Code of the best test with the instance outside."""
    second: Int[Array, " nominal"]
    best_score: Int64[Array, " nominal"]
    second_score: Int64[Array, " nominal"]


class ScoreTable(NamedTuple):
    """Tables of a sample under a change."""

    numeric: NumericTable
    nominal: NominalTable
    size: Int[Array, ""]
    parent: Int64[Array, ""]
    """Score of no test: that of the sample itself."""


@jit(static_argnames="options")
def tables(
    data: DeviceData,
    members: Int[Array, "items size"],
    gained: Int[Array, " items"],
    lost: Int[Array, " items"],
    min_samples_leaf,
    options: Options,
) -> ScoreTable:
    """Return the tables of each item, which is a sample (padded with the last instance) and a change."""
    make_table = partial(_table, data, min_samples_leaf=min_samples_leaf, options=options)
    return jax.vmap(make_table)(members, gained, lost)


def _table(data: DeviceData, members, gained, lost, *, min_samples_leaf, options: Options) -> ScoreTable:
    # The last instance is padding (`DeviceData`): it pads samples to a program's size and must count nowhere.
    is_real = members < data.label.shape[0] - 1
    kinds = jnp.arange(options.n_classes, dtype=jnp.int32)
    totals = ((data.label[members] == kinds[:, None]) & is_real).sum(axis=1, dtype=jnp.int32)
    change = Change(gained, lost if options.is_own else None)
    # The class counts with the change: the score of no test, which a test has to exceed.
    after = totals + jnp.where(kinds == gained, change.gains, 0)
    after -= jnp.where(kinds == lost, change.removed * change.differs, 0)
    return ScoreTable(
        numeric=_numeric(data, members, totals, change, min_samples_leaf, options),
        nominal=_nominal(data, members, is_real, totals, change, min_samples_leaf, options),
        size=is_real.sum(dtype=jnp.int32),
        parent=data.entropy[after].sum() - data.entropy[after.sum()],
    )


def _numeric(data: DeviceData, members, totals, change: Change, min_samples_leaf, options: Options) -> NumericTable:
    k, at = options.n_classes, jnp.arange(len(members), dtype=jnp.int32)
    # Sorted by value, and those of a value by class: it has several if the first and the last differ.
    # One sort for both: rank times classes plus class. Padding has the largest rank, so it ends up behind the sample.
    width = jnp.int32 if (data.label.shape[0] + 1) * k < 2**31 else jnp.int64
    keys = jnp.sort(data.rank[:, members].astype(width) * k + data.label[members].astype(width), axis=1)
    rank, label = (part.astype(jnp.int32) for part in jnp.divmod(keys, k))
    step = rank[:, 1:] != rank[:, :-1]
    edge = jnp.ones((len(rank), 1), bool)
    begins, ends = jnp.concatenate([edge, step], axis=1), jnp.concatenate([step, edge], axis=1)
    # Where the block of equal values begins and ends, for every place in it.
    start = _running(jnp.maximum, jnp.where(begins, at, 0))
    stop = _running(jnp.minimum, jnp.where(ends, at, len(members) - 1), reverse=True)
    first_class = jnp.take_along_axis(label, start, axis=1)
    value_class = jnp.where(first_class == jnp.take_along_axis(label, stop, axis=1), first_class, -1)
    below = _running(jnp.add, (label == jnp.arange(k, dtype=jnp.int32)[:, None, None]).astype(jnp.int32))
    # A cut has something above it: not behind the last instance of the sample, nor in the padding.
    is_test = ends & (at < totals.sum(dtype=jnp.int32) - 1)
    if options.boundaries:
        # The class of the next place: at the end of a block that is the next value's.
        is_test &= parts_classes(value_class, jnp.roll(value_class, -1, axis=1))
    # Beyond the sample, where padding is, counts of a side would be negative.
    inside = jnp.minimum(below, totals[:, None, None])
    score_below, score_above = side_scores(
        data.entropy, inside, totals[:, None, None] - inside, change, min_samples_leaf
    )
    best_before, lowest_before = _from_below(jnp.where(is_test, score_above, LOWEST))
    best_from, lowest_from = _from_above(jnp.where(is_test, score_below, LOWEST))
    return NumericTable(
        rank, below, value_class, score_below, score_above, best_before, best_from, lowest_before, lowest_from
    )


def _running(merge, numbers, *, reverse: bool = False):
    """Return the running ``merge`` of all numbers up to each along the last axis, or from each on.

    By doubling, in a loop: JAX's own cumulative functions take seconds to compile.
    """
    size = numbers.shape[-1]

    def step(i, merged):
        by = jnp.left_shift(1, i).astype(jnp.int32)
        source = jnp.arange(size, dtype=jnp.int32) + jnp.where(reverse, by, -by)
        is_there = (source >= 0) & (source < size)
        return jnp.where(is_there, merge(merged, merged[..., jnp.clip(source, 0, size - 1)]), merged)

    return jax.lax.fori_loop(0, (size - 1).bit_length(), step, numbers)


def _from_below(score: Int64[Array, "numeric size"]):
    """Return the largest of the first i scores at place i, and the lowest place of the largest up to each."""
    running = _running(jnp.maximum, score)
    running = jnp.pad(running, ((0, 0), (1, 0)), constant_values=LOWEST)
    at = jnp.arange(score.shape[1], dtype=jnp.int32)
    # A new record is strictly larger than all before, so the running place is the lowest with the largest score.
    return running, _running(jnp.maximum, jnp.where(score > running[:, :-1], at, 0))


def _from_above(score: Int64[Array, "numeric size"]):
    """Return the largest score from each place on, and its lowest place."""
    running = _running(jnp.maximum, score, reverse=True)
    running = jnp.pad(running, ((0, 0), (0, 1)), constant_values=LOWEST)
    n, at = score.shape[1], jnp.arange(score.shape[1], dtype=jnp.int32)
    # From above a record need only be equal, for the same reason: the lower of two equals wins.
    return running, _running(jnp.minimum, jnp.where(score >= running[:, 1:], at, n - 1), reverse=True)


def _nominal(
    data: DeviceData, members, is_real, totals, change: Change, min_samples_leaf, options: Options
) -> NominalTable:
    n_nominal, removed = len(data.code), change.removed
    cell = data.label[members] * n_nominal + jnp.arange(n_nominal, dtype=jnp.int32)[:, None]
    cell = cell * options.n_codes + data.code[:, members]
    counts = jnp.zeros(options.n_classes * n_nominal * options.n_codes, totals.dtype)
    # Padding adds 0 instead of being left out: one scatter of a fixed shape.
    counts = counts.at[cell].add(is_real.astype(totals.dtype)[None])
    inside = counts.reshape(options.n_classes, n_nominal, options.n_codes)
    outside = totals[:, None, None] - inside
    score_inside, score_outside = side_scores(data.entropy, inside, outside, change, min_samples_leaf)
    n_inside, n_outside = inside.sum(axis=0), outside.sum(axis=0)
    # The instance that is left out does not justify a test: either side must hold another one.
    score_inside = jnp.where(parts_a_value(n_inside, n_outside, removed, 0), score_inside, LOWEST)
    score_outside = jnp.where(parts_a_value(n_inside, n_outside, 0, removed), score_outside, LOWEST)
    best = score_outside.argmax(axis=1).astype(jnp.int32)
    # Without the best test: for an instance whose own value that test is for.
    others = jnp.where(jnp.arange(options.n_codes, dtype=jnp.int32) == best[:, None], LOWEST, score_outside)
    return NominalTable(
        score_inside, best, others.argmax(axis=1).astype(jnp.int32), score_outside.max(axis=1), others.max(axis=1)
    )


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


@jit(static_argnames="options")
def choose(
    data: DeviceData, table: ScoreTable, item: Int[Array, " pairs"], instance: Int[Array, " pairs"], options: Options
) -> Chosen:
    """Return the best test for each pair of a table's item and an instance.

    Among equal scores the first feature wins, and within it the lowest cut or code.
    """
    find = partial(_beside_itself, boundaries=options.boundaries) if options.is_own else _inserted
    cuts = find(data, table, item, instance)
    code, nominal = data.query_code[instance], table.nominal
    at = item[:, None], jnp.arange(code.shape[1]), jnp.maximum(code, 0)
    # A value that the training set lacks has no test of its own; index 0 above only keeps the gather in range.
    own_score = jnp.where(code >= 0, nominal.inside[at], LOWEST)
    best, second = ((nominal.best, nominal.best_score), (nominal.second, nominal.second_score))
    values = own_or_other(code, own_score, [part[item] for part in best], [part[item] for part in second])
    # Back in the order of the data's columns before argmax: the first feature wins, numeric or nominal.
    score = jnp.concatenate([cuts.score, values.score], axis=1)[:, data.place]
    feature = score.argmax(axis=1)
    row = data.place[feature][:, None]
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
        probe = rank[item[:, None], row, jnp.minimum(further, size) - 1]
        return jnp.where((further <= size) & (probe < sought), further, count)

    return jax.lax.fori_loop(0, size.bit_length(), step, jnp.zeros(sought.shape, jnp.int32))


def _inserted(data: DeviceData, table: ScoreTable, item, instance) -> _Cuts:
    """Return the best cuts for instances that are not part of the sample."""
    numeric, rank = table.numeric, data.query_rank[instance]
    count = _count_below(numeric.rank, item, rank + 1)
    read = _reader(item, numeric)
    # All cuts before the value below x have x above; so has the one beyond it, if its threshold is below x.
    lower, upper = (_value(data, read(numeric.rank, at)) for at in (count - 1, count))
    has_both = (count > 0) & (count < table.size[item][:, None])
    passes = has_both & (halfway(lower, upper) < data.query_value[instance])
    # Cuts before ``end`` have x above. Below the lowest value (count 0) there is none: best_before[0] is `LOWEST`.
    end = jnp.maximum(count - 1 + passes.astype(count.dtype), 0)
    above, below = read(numeric.best_before, end), read(numeric.best_from, end)
    # A tie takes the cut further below.
    is_above = above >= below
    cut = jnp.where(is_above, read(numeric.lowest_before, end - 1), read(numeric.lowest_from, end))
    return _Cuts(jnp.where(is_above, above, below), is_above, cut)


def _beside_itself(data: DeviceData, table: ScoreTable, item, instance, *, boundaries: bool) -> _Cuts:
    """Return the best cuts for instances of the sample, each left out: the two beside it are taken without it."""
    numeric, rank = table.numeric, data.query_rank[instance]
    # Instances begin … end - 1 have the value of x; cut begin - 1 lies just below them, cut end - 1 just above.
    begin, end = _count_below(numeric.rank, item, rank), _count_below(numeric.rank, item, rank + 1)
    read = _reader(item, numeric)
    lower, upper = (_value(data, read(numeric.rank, at)) for at in (begin - 1, end))
    beside = Beside(
        has_left=begin > 0,
        has_right=end < table.size[item][:, None],
        alone=end - begin == 1,
        goes_left=data.query_value[instance] <= halfway(lower, upper),
        lower=read(numeric.value_class, begin - 1),
        equal=_class_without(numeric, item, begin, end, data.query_label[instance]),
        upper=read(numeric.value_class, end),
    )
    # All other cuts stand as they are without x: neither their thresholds nor the classes at them change.
    is_test = cuts_beside(beside, boundaries)
    further_above = jnp.where(beside.has_right, end, numeric.rank.shape[2])
    # From low to high, so that argmax takes the lowest of equals. The cuts beside x are read by their own scores, which
    # the table has whether the cut is a test with x or not: without x it may be one, or be none any more.
    parts = (
        read(numeric.best_before, jnp.maximum(begin - 1, 0)),
        jnp.where(is_test[0], read(numeric.score_above, begin - 1), LOWEST),
        jnp.where(is_test[1], read(numeric.score_below, end - 1), LOWEST),
        read(numeric.best_from, further_above),
    )
    cuts = read(numeric.lowest_before, begin - 2), begin - 1, end - 1, read(numeric.lowest_from, further_above)
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


def _value(data: DeviceData, rank):
    """Return the value of a rank, feature by feature."""
    return data.value[jnp.arange(len(data.value)), jnp.clip(rank, 0, data.value.shape[1] - 1)]

"""Tables of the tests of padded samples and their scores under a change, many samples at once (in JAX, with int64)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float64, Int, Int64

from jaxunc._numerics import jit

from ._cuts import LOWEST, parts_classes
from ._scores import Change, parts_a_value, side_scores


class Known(NamedTuple):
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


class Rules(NamedTuple):
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
    first: Int64[Array, "numeric size+1"]
    """Largest ``score_above`` of the first tests: none, one, two, …"""
    last: Int64[Array, "numeric size+1"]
    """Largest ``score_below`` of the tests from the first, the second, … on."""
    lowest_first: Int[Array, "numeric size"]
    """Lowest cut with the score ``first``, one further."""
    lowest_last: Int[Array, "numeric size"]


class NominalTable(NamedTuple):
    """The tests for values of nominal features; see `NominalTests`."""

    own: Int64[Array, "nominal codes"]
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


@jit(static_argnames="rules")
def tables(
    known: Known,
    members: Int[Array, "items size"],
    gained: Int[Array, " items"],
    lost: Int[Array, " items"],
    min_samples_leaf,
    rules: Rules,
) -> ScoreTable:
    """Return the tables of each item, which is a sample (padded with the last instance) and a change."""
    one = partial(_table, known, min_samples_leaf=min_samples_leaf, rules=rules)
    return jax.vmap(one)(members, gained, lost)


def _table(known: Known, members, gained, lost, *, min_samples_leaf, rules: Rules) -> ScoreTable:
    # The last instance is padding (`Known`): it pads samples to a program's size and must count nowhere.
    is_real = members < known.label.shape[0] - 1
    kinds = jnp.arange(rules.n_classes, dtype=jnp.int32)
    totals = ((known.label[members] == kinds[:, None]) & is_real).sum(axis=1, dtype=jnp.int32)
    change = Change(gained, lost if rules.is_own else None)
    # The class counts with the change: the score of no test, which a test has to exceed.
    after = totals + jnp.where(kinds == gained, change.gains, 0)
    after -= jnp.where(kinds == lost, change.removed * change.differs, 0)
    return ScoreTable(
        numeric=_numeric(known, members, totals, change, min_samples_leaf, rules),
        nominal=_nominal(known, members, is_real, totals, change, min_samples_leaf, rules),
        size=is_real.sum(dtype=jnp.int32),
        parent=known.entropy[after].sum() - known.entropy[after.sum()],
    )


def _numeric(known: Known, members, totals, change: Change, min_samples_leaf, rules: Rules) -> NumericTable:
    k, at = rules.n_classes, jnp.arange(len(members), dtype=jnp.int32)
    # Sorted by value, and those of a value by class: it has several if the first and the last differ.
    # One sort for both: rank times classes plus class. Padding has the largest rank, so it ends up behind the sample.
    width = jnp.int32 if (known.label.shape[0] + 1) * k < 2**31 else jnp.int64
    keys = jnp.sort(known.rank[:, members].astype(width) * k + known.label[members].astype(width), axis=1)
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
    if rules.boundaries:
        # The class of the next place: at the end of a block that is the next value's.
        is_test &= parts_classes(value_class, jnp.roll(value_class, -1, axis=1))
    # Beyond the sample, where padding is, counts of a side would be negative.
    inside = jnp.minimum(below, totals[:, None, None])
    score_below, score_above = side_scores(
        known.entropy, inside, totals[:, None, None] - inside, change, min_samples_leaf
    )
    first, lowest_first = _from_below(jnp.where(is_test, score_above, LOWEST))
    last, lowest_last = _from_above(jnp.where(is_test, score_below, LOWEST))
    return NumericTable(rank, below, value_class, score_below, score_above, first, last, lowest_first, lowest_last)


def _running(merge, numbers, *, reverse: bool = False):
    """Return the running ``merge`` of all numbers up to each along the last axis, or from each on.

    By doubling, in a loop: JAX's own cumulative functions take seconds to compile.
    """
    size = numbers.shape[-1]

    def step(i, found):
        by = jnp.left_shift(1, i).astype(jnp.int32)
        source = jnp.arange(size, dtype=jnp.int32) + jnp.where(reverse, by, -by)
        is_there = (source >= 0) & (source < size)
        return jnp.where(is_there, merge(found, found[..., jnp.clip(source, 0, size - 1)]), found)

    return jax.lax.fori_loop(0, (size - 1).bit_length(), step, numbers)


def _from_below(score: Int64[Array, "numeric size"]):
    """Return the largest of the first none, one, two, …; and the lowest place of the largest of the first one, …"""
    running = _running(jnp.maximum, score)
    running = jnp.pad(running, ((0, 0), (1, 0)), constant_values=LOWEST)
    at = jnp.arange(score.shape[1], dtype=jnp.int32)
    # A new record is strictly larger than all before, so the running place is the lowest with the largest score.
    return running, _running(jnp.maximum, jnp.where(score > running[:, :-1], at, 0))


def _from_above(score: Int64[Array, "numeric size"]):
    """Return the largest from the first, the second, … on, of none at last; and its lowest place."""
    running = _running(jnp.maximum, score, reverse=True)
    running = jnp.pad(running, ((0, 0), (0, 1)), constant_values=LOWEST)
    n, at = score.shape[1], jnp.arange(score.shape[1], dtype=jnp.int32)
    # From above a record need only be equal, for the same reason: the lower of two equals wins.
    return running, _running(jnp.minimum, jnp.where(score >= running[:, 1:], at, n - 1), reverse=True)


def _nominal(known: Known, members, is_real, totals, change: Change, min_samples_leaf, rules: Rules) -> NominalTable:
    n_nominal, removed = len(known.code), change.removed
    cell = known.label[members] * n_nominal + jnp.arange(n_nominal, dtype=jnp.int32)[:, None]
    cell = cell * rules.n_codes + known.code[:, members]
    counts = jnp.zeros(rules.n_classes * n_nominal * rules.n_codes, totals.dtype)
    # Padding adds 0 instead of being left out: one scatter of a fixed shape.
    counts = counts.at[cell].add(is_real.astype(totals.dtype)[None])
    inside = counts.reshape(rules.n_classes, n_nominal, rules.n_codes)
    outside = totals[:, None, None] - inside
    own, other = side_scores(known.entropy, inside, outside, change, min_samples_leaf)
    n_inside, n_outside = inside.sum(axis=0), outside.sum(axis=0)
    # The instance that is left out is no reason for a test: either side must hold another one.
    own = jnp.where(parts_a_value(n_inside, n_outside, removed, 0), own, LOWEST)
    other = jnp.where(parts_a_value(n_inside, n_outside, 0, removed), other, LOWEST)
    best = other.argmax(axis=1).astype(jnp.int32)
    # The best without the best: what is left for an instance whose own value the best test is for.
    others = jnp.where(jnp.arange(rules.n_codes, dtype=jnp.int32) == best[:, None], LOWEST, other)
    return NominalTable(own, best, others.argmax(axis=1).astype(jnp.int32), other.max(axis=1), others.max(axis=1))

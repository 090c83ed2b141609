"""Algorithm by nodes, for accelerators: samples of like sizes at once, in programs for padded sizes."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import padded_rows, power_of_two

from ._node_tests import DeviceData, Options, choose, tables
from ._pairs import Pairs, Samples, by_number
from ._scores import Change

SMALLEST, FACTOR = 64, 4
"""Sizes of padded samples: the first of these, or a power of the second times it; each has a program of its own."""

MOST_TABLE = 2**28
"""Largest size of a table, in bytes."""

MOST_ITEMS, PAIRS = 256, 2048
"""Number of samples, and of pairs, that are looked at in one call."""


class _Item(NamedTuple):
    """A sample under a change, and the pairs that it has."""

    members: np.ndarray
    change: Change
    pairs: np.ndarray


def table_bytes(pairs: Pairs) -> int:
    """Return about how many bytes the table of the whole training set takes."""
    sample = pairs.sample
    numbers = _pad_size(sample.n) * (48 + 12 * sample.n_classes) * max(len(sample.numeric), 1)
    return numbers + len(sample.nominal) * sample.n_codes * (24 + 8 * sample.n_classes)


def descend_nodes(pairs: Pairs) -> None:
    """Follow all pairs down to their leaves, many samples at a time."""
    sample, samples = pairs.sample, Samples(pairs.sample.n)
    members = np.arange(sample.n, dtype=np.int32)
    _arrive(pairs, samples, members, np.arange(pairs.n))
    if not samples.largest:
        return
    # Powers of two, so that data of like size share programs.
    n_codes = power_of_two(sample.n_codes)
    options = Options(sample.n_classes, n_codes, pairs.settings.boundaries, pairs.is_own)
    # Scores are int64: with fewer digits equal gains would be rounded apart, or different ones together.
    with jax.enable_x64(True):
        data = _device_data(pairs)
        for size, items in _batches(pairs, samples):
            for chosen, arriving in _children(pairs, data, options, size, items):
                _arrive(pairs, samples, chosen, arriving)
            pairs.report()


def _arrive(pairs: Pairs, samples: Samples, chosen: np.ndarray, arriving: np.ndarray) -> None:
    totals = np.bincount(pairs.label[chosen], minlength=pairs.sample.n_classes)
    waits = pairs.waiting(totals, arriving)
    if waits.any():
        samples.add(chosen, arriving[waits])


def _pad_size(size: int) -> int:
    padded = SMALLEST
    while padded < size:
        padded *= FACTOR
    return padded


def _batches(pairs: Pairs, samples: Samples) -> Iterator[tuple[int, list[_Item]]]:
    """Yield items of the same padded size, the largest first; as many as a call takes."""
    waiting: list[_Item] = []
    while waiting or samples.largest:
        size = _pad_size(len(waiting[0].members) if waiting else samples.largest)
        most = _items_of(pairs, size)
        while len(waiting) < most and samples.largest and _pad_size(samples.largest) == size:
            members, _, pairs_there = samples.take()
            waiting += [_Item(members, change, pairs_there[at]) for change, at in pairs.changes(pairs_there)]
        yield size, waiting[:most]
        waiting = waiting[most:]


def _items_of(pairs: Pairs, size: int) -> int:
    """Return how many items of a padded size are looked at in one call: a power of two."""
    per_item = size * max(pairs.sample.columns.number, 1) * (48 + 12 * pairs.sample.n_classes)
    return 1 << int(np.log2(np.clip(MOST_TABLE // per_item, 1, MOST_ITEMS)))


def _device_data(pairs: Pairs) -> DeviceData:
    """Return the training set and the instances on the device, their numbers padded to powers of two."""
    sample, queries = pairs.sample, pairs.queries
    n, n_queries = (power_of_two(number + 1) for number in (sample.n, queries.n))
    after = [(0, 0), (0, n - sample.n)]
    value = np.full((len(sample.numeric), n), np.inf)
    np.put_along_axis(value, sample.rank.astype(np.intp), sample.value, axis=1)
    places = np.argsort(np.concatenate([sample.numeric, sample.nominal]))
    # As long as the padded set, so that sets of like size share programs.
    entropy = np.pad(pairs.settings.entropy, (0, n + 1 - len(pairs.settings.entropy)), mode="edge")
    labels = pairs.label if pairs.is_own else np.zeros(queries.n, np.int32)
    return DeviceData(
        # Padding ranks above all, so that a sort puts it last.
        rank=jnp.asarray(np.pad(sample.rank, after, constant_values=n), jnp.int32),
        value=jnp.asarray(value),
        code=jnp.asarray(np.pad(sample.code, after), jnp.int32),
        label=jnp.asarray(padded_rows(sample.label, n), jnp.int32),
        place=jnp.asarray(places, jnp.int32),
        entropy=jnp.asarray(entropy),
        query_rank=jnp.asarray(padded_rows(queries.rank, n_queries), jnp.int32),
        query_value=jnp.asarray(padded_rows(queries.value, n_queries)),
        query_code=jnp.asarray(padded_rows(queries.code, n_queries), jnp.int32),
        query_label=jnp.asarray(padded_rows(labels, n_queries), jnp.int32),
    )


def _children(
    pairs: Pairs, data: DeviceData, options: Options, size: int, items: list[_Item]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Send the pairs of all items on: the instances of each child, and the pairs that choose it."""
    most = _items_of(pairs, size)
    members = np.full((most, size), data.label.shape[0] - 1, np.int32)
    change = np.zeros((2, most), np.int32)
    for i, item in enumerate(items):
        members[i, : len(item.members)] = item.members
        change[:, i] = item.change.gained, item.change.lost or 0
    table = tables(data, members, change[0], change[1], pairs.settings.min_samples_leaf, options)
    all_pairs = np.concatenate([item.pairs for item in items])
    item_of = np.repeat(np.arange(len(items), dtype=np.int32), [len(item.pairs) for item in items])
    choices = []
    for begin in range(0, len(all_pairs), PAIRS):
        some, items_of_some = all_pairs[begin : begin + PAIRS], item_of[begin : begin + PAIRS]
        padding = (0, PAIRS - len(some))
        instance = np.pad(some // pairs.n_labels, padding, mode="edge").astype(np.int32)
        choices.append((choose(data, table, np.pad(items_of_some, padding, mode="edge"), instance, options), len(some)))
    # Read after all calls are made: a device works on the next while the host waits for the first.
    stays, feature, threshold, side = (
        np.concatenate([np.asarray(choice[i])[:number] for choice, number in choices]) for i in range(4)
    )
    # Item, feature, place and side as one integer, as in the grouped algorithm; int64, since the product exceeds 32
    # bits.
    stride = max(data.label.shape[0], options.n_codes)
    tests = ((item_of.astype(np.int64) * pairs.sample.columns.number + feature) * stride + threshold) * 2 + side
    for i, item in enumerate(items):
        which = stays & (item_of == i)
        if which.any():
            totals = np.bincount(pairs.label[item.members], minlength=pairs.sample.n_classes)
            pairs.end(all_pairs[which], pairs.with_instance(totals, all_pairs[which])[1])
    for test, some in by_number(tests[~stays], all_pairs[~stays]):
        test, is_outside = divmod(test, 2)
        test, threshold = divmod(test, stride)
        i, feature = divmod(test, pairs.sample.columns.number)
        yield _members_on_side(pairs, items[i].members, feature, threshold, bool(is_outside)), some


def _members_on_side(pairs: Pairs, members: np.ndarray, feature: int, threshold: int, is_outside: bool) -> np.ndarray:
    """Return the instances on one side of a test."""
    sample = pairs.sample
    if sample.columns.is_nominal[feature]:
        passes = sample.code[np.searchsorted(sample.nominal, feature), members] == threshold
    else:
        passes = sample.rank[np.searchsorted(sample.numeric, feature), members] <= threshold
    return members[passes != is_outside]

"""Dense algorithm, for nominal features alone: each step takes all pairs one test down.

The sample of a pair's node is a row of a matrix. On the host, pairs that have ended are dropped after each step. On an
accelerator one program follows all pairs, block by block.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64

from jaxunc._numerics import jit, multiple_of, padded_rows

from ._pairs import Pairs
from ._presorted import LOWEST
from ._scores import is_leaf, parts_a_value, scores_with

HOST_BLOCK, DEVICE_BLOCK = 2**19, 2**24
"""Largest number of entries in a block's matrix."""

STEP = 64
"""Multiple to which programs pad instances and pairs, so that the folds of a set share them."""


class Dense(NamedTuple):
    """A training set of nominal features; a test is a feature and a value. Padding is 0."""

    passes: Bool[Array | np.ndarray, "tests instances"]
    """Whether an instance has the value of a test."""
    by_class: Float[Array | np.ndarray, "instances columns"]
    """Indicators of an instance's class ``[classes]``, then of class and tested value together ``[classes tests]``."""
    entropy: Int64[Array | np.ndarray, " sizes"]  # `entropy_table`


class DensePairs(NamedTuple):
    """Some pairs of an instance and a label (`Pairs`), each at a node of its tree."""

    members: Bool[Array | np.ndarray, "pairs instances"]
    """Whether an instance is in the sample of the pair's node; the inserted instance is none of these."""
    has_value: Bool[Array | np.ndarray, "pairs tests"]
    """Whether the inserted instance has the value of a test."""
    label_indicator: Int[Array | np.ndarray, "pairs classes"]
    """Indicator of the label with which the instance is inserted; zeros for none."""

    def rows(self, which) -> "DensePairs":
        """Return the pairs that ``which`` selects, a mask or indices."""
        return DensePairs(*(part[which] for part in tuple(self)))


def dense_work(pairs: Pairs) -> int:
    """Return how many products the dense algorithm's first step takes; 0 if a numeric feature forbids the algorithm."""
    sample = pairs.sample
    if len(sample.numeric):
        return 0
    feature, _ = _tests(pairs)
    return pairs.n * sample.n * len(feature) * sample.n_classes


def descend_dense(pairs: Pairs, *, on_host: bool) -> None:
    """Follow all pairs down to their leaves, block by block, by NumPy or on the accelerator, and record the leaves."""
    if not pairs.n:
        return
    step, most_entries = (1, HOST_BLOCK) if on_host else (STEP, DEVICE_BLOCK)
    n = multiple_of(step, pairs.sample.n)
    tests = _tests(pairs)
    dense = _dense_set(pairs, tests, n)
    # A pair is a row of two matrices: its sample, and the counts of each class and test.
    width = max(n, len(dense.passes) * pairs.sample.n_classes)
    block_size = multiple_of(step, max(min(most_entries // width, pairs.n), 1))
    if not on_host:
        _follow_on_device(pairs, dense, tests, block_size)
        return
    for begin in range(0, pairs.n, block_size):
        block = np.arange(begin, min(begin + block_size, pairs.n))
        _follow_on_host(pairs, block, dense, _insert(pairs, block, tests))
        pairs.report()


def _dense_set(pairs: Pairs, tests: tuple[np.ndarray, np.ndarray], n: int) -> Dense:
    """Return the training set of the pairs, padded to ``n`` instances; ``tests`` are those of `_tests`."""
    sample = pairs.sample
    feature, code = tests
    passes = np.zeros((len(feature), n), bool)
    passes[:, : sample.n] = sample.code[feature] == code[:, None]
    label = np.zeros((n, sample.n_classes), np.float32)  # indicators
    label[np.arange(sample.n), pairs.label] = 1
    # All counts of a step are one product: members times [class indicators | class and value indicators].
    label_and_test = (label[:, :, None] * passes.T[:, None, :]).reshape(n, -1)
    # Entries 0 … n + 1, so that the shape depends on the padded size alone; those added are not read.
    entropy = pairs.settings.entropy
    entropy = np.pad(entropy, (0, n + 2 - len(entropy)), mode="edge")
    return Dense(passes, np.concatenate([label, label_and_test], axis=1), entropy)


def _insert(pairs: Pairs, number: np.ndarray, tests: tuple[np.ndarray, np.ndarray]) -> DensePairs:
    """Return the pairs with the numbers ``number``, all at the root; ``tests`` is the result of `_tests`."""
    instance, label = np.divmod(number, pairs.n_labels)
    feature, code = tests
    members = np.ones((len(number), pairs.sample.n), bool)
    if pairs.leaves_out:
        # Leave-one-out: the instance leaves the sample, and comes back with the label of the pair.
        members[np.arange(len(number)), instance] = False
    has_value = pairs.queries.code[instance][:, feature] == code
    return DensePairs(members, has_value, np.eye(pairs.n_labels, pairs.sample.n_classes, dtype=np.int32)[label])


def _tests(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return (feature, value) of every test on the pairs' training set, ``[tests]``; the first is chosen on ties."""
    code = pairs.sample.code
    occurs = np.zeros((len(code), pairs.sample.n_codes), bool)
    occurs[np.arange(len(code))[:, None], code] = True
    feature, value = np.nonzero(occurs)
    return feature, value


def _follow_on_host(pairs: Pairs, pairs_left: np.ndarray, dense: Dense, inserted: DensePairs) -> None:
    """Follow the pairs with the numbers ``pairs_left`` to their leaves on the host, and record these in ``pairs``.

    Each pair goes from node to node by its best test, until there is none. ``inserted`` has these pairs at the root,
    and ``dense`` is the training set.
    """
    settings = pairs.settings
    while len(pairs_left):
        test, counts, ends = _best_tests(dense, inserted, np.matmul, settings.min_samples_leaf, settings.boundaries)
        pairs.end(pairs_left[ends], counts[ends])
        goes_on = ~ends
        pairs_left, inserted, test = pairs_left[goes_on], inserted.rows(goes_on), test[goes_on]
        passes_test = inserted.has_value[np.arange(len(pairs_left)), test]
        # Members on the instance's side of the test stay in its node.
        stays = dense.passes[test] == passes_test[:, None]
        inserted = inserted._replace(members=inserted.members & stays)


def _follow_on_device(pairs: Pairs, dense: Dense, tests: tuple[np.ndarray, np.ndarray], block_size: int) -> None:
    """Follow all pairs to their leaves by one program on the accelerator, and record these in ``pairs``.

    The program takes ``block_size`` pairs at a time. ``tests`` is the result of `_tests`, ``dense`` the training set.
    """
    feature, code = tests
    settings = pairs.settings
    has_value = padded_rows(pairs.queries.code[:, feature] == code, multiple_of(STEP, pairs.queries.n))
    pair_number = np.arange(multiple_of(block_size, pairs.n), dtype=np.int32)
    pair_number = np.minimum(pair_number, pairs.n - 1).reshape(-1, block_size)  # the last pair pads the last block
    options = {"n_labels": pairs.n_labels, "leaves_out": pairs.leaves_out, "boundaries": settings.boundaries}
    with jax.enable_x64(True):  # entropies are int64
        counts = np.asarray(
            _leaves(dense, has_value, pair_number, pairs.sample.n, settings.min_samples_leaf, **options)
        )
    pairs.end(np.arange(pairs.n), counts[: pairs.n])
    pairs.report()


@jit(static_argnames=("n_labels", "leaves_out", "boundaries"))
def _leaves(
    dense: Dense,
    has_value: Bool[Array, "queries tests"],
    number: Int[Array, "blocks pairs_of_block"],
    n_instances,
    min_samples_leaf,
    *,
    n_labels: int,
    leaves_out: bool,
    boundaries: bool,
) -> Int[Array, "pairs classes"]:
    """Return the class counts of the leaves of the pairs with the numbers ``number``; the inserted instance counts.

    ``has_value`` says whether a query has the value of a test; ``n_instances`` is the number of training instances
    without padding. ``n_labels`` and ``leaves_out`` are those of `Pairs`, ``min_samples_leaf`` and ``boundaries`` those
    of `InductionSettings`.
    """
    # Sums of ones are exact in float32 up to 2²⁴, if no unit of the device rounds them.
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    n = dense.passes.shape[1]
    n_classes = dense.by_class.shape[1] // (1 + len(dense.passes))

    def follow_block(number):
        """Return the class counts ``[pairs classes]`` of the leaves of a block of pairs ``number``."""
        instance = number // n_labels
        position = jnp.arange(n, dtype=jnp.int32)
        members = jnp.broadcast_to(position < n_instances, (len(number), n))
        if leaves_out:
            members = members & (position != instance[:, None])
        label_indicator = (number % n_labels)[:, None] == jnp.arange(n_classes, dtype=jnp.int32)
        inserted = DensePairs(members, has_value[instance], label_indicator.astype(jnp.int32))

        def step(state):
            """Return (pairs one test further down, class counts of the nodes before it, whether pairs have ended)."""
            at_nodes, _, _ = state
            test, counts, ends = _best_tests(dense, at_nodes, product, min_samples_leaf, boundaries)
            passes_test = jnp.take_along_axis(inserted.has_value, test[:, None], axis=1)
            # A pair that has ended keeps its members, so its counts stay what they were while others go on.
            stays = ends[:, None] | (dense.passes[test] == passes_test)
            return inserted._replace(members=at_nodes.members & stays), counts, ends

        def goes_on(state):
            _, _, ends = state
            return ~jnp.all(ends)

        start = inserted, jnp.zeros_like(inserted.label_indicator), jnp.zeros(len(number), bool)
        _, counts, _ = jax.lax.while_loop(goes_on, step, start)
        return counts

    return jax.lax.map(follow_block, number).reshape(-1, n_classes)


def _best_tests(dense: Dense, inserted: DensePairs, product, min_samples_leaf, boundaries: bool):
    """Return (best test, class counts, whether a leaf) of the node of each pair; the inserted instance counts.

    ``inserted`` are the pairs at their nodes, and ``product`` multiplies matrices of the same module, NumPy or
    ``jax.numpy``. ``min_samples_leaf`` and ``boundaries`` are those of `InductionSettings`.
    """
    members, has_value, label_indicator = inserted
    entropy = dense.entropy
    xp = members.__array_namespace__()
    k = label_indicator.shape[1]
    n_tests = has_value.shape[1]
    # Counts by a matrix product of 0 and 1, the one step that a device does fast.
    products = product(members.astype(np.float32), dense.by_class).astype(np.int32)
    without = products[:, :k]  # class counts of the node
    inside = products[:, k:].reshape(len(products), k, n_tests)  # class counts with each test's value
    totals = without + label_indicator
    n_inside = inside.sum(axis=1)
    # Only tests with training instances on both sides: the inserted instance alone does not justify a test.
    is_test = parts_a_value(n_inside, without.sum(axis=1)[:, None] - n_inside, 0, 0)
    by_class = [inside[:, c] + xp.where(has_value, label_indicator[:, c, None], 0) for c in range(k)]
    inside = xp.stack(by_class)  # [classes pairs tests]
    scores = scores_with(entropy, inside, totals.T[:, :, None] - inside, min_samples_leaf)
    scores = xp.where(is_test, scores, LOWEST)
    node_score = entropy[totals].sum(axis=1) - entropy[totals.sum(axis=1)]
    has_no_gain = scores.max(axis=1) <= node_score
    return scores.argmax(axis=1), totals, is_leaf(without, totals, boundaries, min_samples_leaf) | has_no_gain

"""Votes polled in rounds that the host drives: on accelerators, and where a vote is judged as a whole.

A round walks some trees for the instances that are left, padded to one of few sizes, and looks for the first tree at
which each is settled: the answer is the sequential rule's, whatever rounds and sizes are.
"""

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt

from jaxunc._numerics import jit, padded_rows, take
from jaxunc.inference import Plan, Walk, by_column, column_keys, walk_levels, walk_tree

from ._judge import Judge
from ._stop_after import StoppingResult, poll, poll_judged
from ._stopping_rules import StoppingRule

LEAST_SIZE = 256
"""Number of instances in the smallest round; each next size is four times as large."""

LENGTHS = (8, 16, 32, 64, 128)
"""Number of trees in a round: an eighth of those polled so far, about."""


def poll_by_rounds(
    plan: Plan,
    classes: UInt[Array, "trees nodes"],
    n_classes: int,
    rule: StoppingRule | Judge,
    x: Float[np.ndarray, "n features"],
    max_trees: int,
    *,
    missing: bool,
    walk: Walk,
    depth: int,
) -> StoppingResult:
    """Poll at most ``max_trees`` trees for every instance."""
    n, n_trees = len(x), len(classes)
    votes, polled = np.zeros((n, n_classes), np.int32), np.zeros(n, np.int32)
    settled, live, t = np.zeros(n, bool), np.arange(n), 0
    while len(live) and t < max_trees:
        length = next((size for size in LENGTHS if size >= t // 8), LENGTHS[-1])
        length = min(length, n_trees)
        start = min(t, n_trees - length)  # a slice of fixed length, of which the first trees may be old
        end = min(start + length, max_trees)
        rows = _padded(x[live])
        polled_votes = _votes(plan, classes, rows, start, length=length, missing=missing, walk=walk, depth=depth)
        polled_votes = np.asarray(polled_votes)[: len(live), t - start : end - start].astype(np.int32)
        result = _continue(rule, polled_votes, votes[live], t)
        votes[live], polled[live], settled[live] = result.votes, result.n_trees_used, result.settled
        live, t = live[~result.settled], end
    return StoppingResult(polled, votes.argmax(axis=1).astype(np.int32), settled, votes)


def _padded(rows: np.ndarray) -> np.ndarray:
    size = LEAST_SIZE
    while size < len(rows):
        size *= 4
    return padded_rows(rows, size)


@jit(static_argnames=("length", "missing", "walk", "depth"))
def _votes(plan, classes, x, start, *, length: int, missing: bool, walk: Walk, depth: int):
    """Return the votes of ``length`` trees from ``start`` on, ``[instances trees]``: a slice of a plan is a plan."""
    some_trees, of_leaves = jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, length), (plan, classes))
    keys = column_keys(x, missing=missing)
    if walk == "levels":
        return take(of_leaves.reshape(-1), walk_levels(some_trees, keys, depth))
    rows_of_keys = by_column(keys)
    poll = lambda _, tree: (None, take(tree[1], walk_tree(tree[0], rows_of_keys)))  # noqa: E731
    return lax.scan(poll, None, (some_trees, of_leaves))[1].T


def _continue(rule: StoppingRule | Judge, polled_votes: np.ndarray, votes: np.ndarray, t: int) -> StoppingResult:
    """Where the votes of further trees leave instances that have polled ``t`` and were not settled."""
    if not isinstance(rule, StoppingRule):
        return poll_judged(rule, polled_votes, votes, t)
    result = poll(rule, _padded(polled_votes), _padded(votes), np.int32(t))
    return StoppingResult(*(np.asarray(array)[: len(polled_votes)] for array in result))

"""Votes counted until each instance is settled: in rounds, after which settled instances are dropped, or at once.

| function | where | stopping rules |
|---|---|---|
| `poll_part` | one program on a CPU, in rounds; few instances go one by one, through several trees at once | tables |
| `poll_by_levels` | one program on an accelerator: all trees vote, then the votes are counted in order | tables |
| `poll_by_rounds` | rounds driven by the host, open instances padded to one of few sizes | `ProbabilityRule` |

All of them check the rule after every tree. So the answer is the sequential rule's for any rounds, blocks and sizes.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, Shaped, UInt

from jaxunc._numerics import count_before, jit, padded_rows, take
from jaxunc.inference import (
    HostProgram,
    Plan,
    Walk,
    by_column,
    column_keys,
    in_blocks,
    keys_of_one,
    look_up_together,
    walk_levels,
    walk_tree,
)

from ._stop_after import ProbabilityRule, StoppingResult, poll_on_host
from ._stopping_rules import StoppingRule

SHORTEST, LONGEST = 4, 128  # least and largest number of trees in a round of the compiled program

FEW = 16  # largest number of instances that are polled one by one, without rounds, in the thread that calls

SMALL, LANES, TOGETHER = 64, 1024, 24
"""Blocks of up to `SMALL` instances walk several trees at once: `LANES` pairs of an instance and a tree, and
`TOGETHER` trees at most. A step of a loop costs as much as hundreds of pairs."""

LEAST_SIZE = 256  # number of instances in the smallest round of the host; each next size is four times as large

LENGTHS = (8, 16, 32, 64, 128)  # numbers of trees in a round of the host: about an eighth of the trees used so far


class Polled(NamedTuple):
    """The vote on each of n instances, counted up to the tree that settled it, or over all trees if none did.

    ``votes`` has a row for each class, or a single row, for class 1 (`StoppingRule.n_rows`).
    """

    n_trees_used: Int32[Array, "n"]
    settled: Bool[Array, "n"]
    votes: Int32[Array, "rows n"]


class _Outcome(NamedTuple):
    """The votes of some instances so far, and the tree that settled each of them."""

    settled_at: Int32[Array, "n"]  # number of trees that settled the vote; 0 while it is open
    votes: Int32[Array, "rows n"]


class _Kept(NamedTuple):
    """The instances that are still open, at the front of ``order`` and ``votes``, and the outcome of all instances."""

    order: Int32[Array, "n"]  # positions of the open instances among all
    votes: Int32[Array, "rows n"]
    n_open: Int32[Array, ""]  # number of open instances; entries behind them have no meaning
    outcome: _Outcome


class _Round(NamedTuple):
    """The state of the votes on all instances between two rounds."""

    kept: _Kept
    t: Int32[Array, ""]  # number of trees that have voted
    length: Int32[Array, ""]  # number of trees in the next round


@partial(HostProgram, static_argnames=("missing", "blocks"))
def poll_part(
    plan: Plan,
    classes: UInt[Array, "trees places"],
    rule: StoppingRule,
    x: Float[Array, "n features"],
    n: Int32[Array, ""],
    max_trees: Int32[Array, ""],
    *,
    missing: bool,
    blocks: tuple[int, ...],
) -> Polled:
    """Count votes for the first ``n`` instances of ``x`` until each is settled, with at most ``max_trees`` trees.

    ``classes`` has the class that each place of ``plan`` votes for; ``missing`` says whether values may be missing.
    ``blocks`` are sizes of blocks, in descending order. A size is used while its blocks are more than half full; the
    last size takes all instances that are left. The number of rows of ``x`` is a multiple of each size.
    """
    rows = x.shape[0]
    n_columns = x.shape[1] * (1 + missing)  # of `column_keys`
    if rows <= FEW:
        return _polled(_poll_one_by_one(plan, classes, rule, x, n, max_trees, missing=missing), max_trees)
    # What an instance costs in a round, in trees (measured): its keys are gathered anew, so columns count. A tree costs
    # three levels for its top, its vote and the rule, and those below.
    cost_of_round = (20 + n_columns) / (3 + jnp.mean(plan.top.rest))

    def lengthen_for_few(n_open, length):
        """Return ``length``, the number of trees in a round, raised if only few instances (``n_open``) are open.

        Blocks of `SMALL` instances walk `LANES` // `SMALL` trees at once, so a round has at least these. A single such
        block stops by itself once it is settled, so its round may be the longest.
        """
        length = jnp.where(n_open <= 4 * SMALL, jnp.maximum(length, LANES // SMALL), length)
        return jnp.where(n_open <= SMALL, LONGEST, length)

    def poll_round(state: _Round) -> _Round:
        """Count the votes of the next round's trees for all open instances, and keep those that are open afterwards."""
        end = jnp.minimum(state.t + state.length, max_trees)
        # Two buffers for order and votes: to read and scatter one array in a loop would copy it for every block.
        previous = state.kept
        kept = _Kept(jnp.zeros_like(previous.order), jnp.zeros_like(previous.votes), jnp.int32(0), previous.outcome)
        start = jnp.int32(0)
        for size in blocks:
            n_left = previous.n_open - start
            # A block that is more than half full is cheaper than several smaller ones, since a block costs as much as
            # some two hundred instances (measured). Blocks of the smallest size take all that is left.
            n_rounded_up = size - 1 if size == blocks[-1] else (size - 1) // 2
            n_blocks = jnp.maximum((n_left + n_rounded_up) // size, 0)

            def poll_block(i, kept, start=start, size=size):
                """Add the votes of the round's trees for block ``i``, and keep its open instances."""
                # Rows behind the open ones are walked with the block; ``is_instance`` keeps them out of results.
                index = lax.dynamic_slice_in_dim(previous.order, start + i * size, size)
                votes = lax.dynamic_slice_in_dim(previous.votes, start + i * size, size, axis=1)
                is_instance = start + i * size + jnp.arange(size, dtype=jnp.int32) < previous.n_open
                keys = by_column(column_keys(x.at[index].get(mode="promise_in_bounds"), missing=missing))
                outcome = _poll_block(plan, classes, rule, keys, votes, is_instance, state.t, end)
                return _keep(kept, index, is_instance, outcome)

            kept = lax.fori_loop(0, n_blocks, poll_block, kept)
            start = start + n_blocks * size
        # Rounds grow longer where few votes settle. The first counts as one tree: only its last can settle votes, if it
        # was not lengthened.
        n_trees = jnp.where(state.t == 0, 1, end - state.t)
        settled_share = (previous.n_open - kept.n_open) / (previous.n_open * n_trees)
        # A round of L trees wastes about share · L² / 2 walks on settled instances, and has a cost of its own: this L
        # costs the least per tree.
        length = jnp.sqrt(2 * cost_of_round / jnp.maximum(settled_share, 1e-9))  # of none settled, LONGEST
        length = jnp.clip(length, SHORTEST, LONGEST).astype(jnp.int32)
        return _Round(kept, end, lengthen_for_few(kept.n_open, length))

    no_votes = _Outcome(jnp.zeros(rows, jnp.int32), jnp.zeros((rule.n_rows, rows), jnp.int32))
    first_length = lengthen_for_few(n, jnp.clip(rule.first, 1, max_trees))
    start = _Round(_Kept(jnp.arange(rows, dtype=jnp.int32), no_votes.votes, n, no_votes), jnp.int32(0), first_length)
    is_unfinished = lambda state: (state.kept.n_open > 0) & (state.t < max_trees)
    return _polled(lax.while_loop(is_unfinished, poll_round, start).kept.outcome, max_trees)


def _polled(outcome: _Outcome, max_trees) -> Polled:
    """Return ``outcome`` as a `Polled`; instances that are not settled have used ``max_trees`` trees."""
    settled = outcome.settled_at > 0
    return Polled(jnp.where(settled, outcome.settled_at, max_trees), settled, outcome.votes)


def _keep(kept: _Kept, index, is_instance, of_block: _Outcome) -> _Kept:
    """Return ``kept`` with the outcome ``of_block`` of a block, and with the block's open instances appended.

    ``index`` has the positions of the block's instances among all; ``is_instance`` is False for padding.
    """
    n_rows = kept.order.shape[0]
    # An index beyond the end (``n_rows``) is dropped by the scatter: the mask costs no branch.
    target = jnp.where(is_instance, index, n_rows)
    outcome = _Outcome(
        kept.outcome.settled_at.at[target].set(of_block.settled_at, mode="drop"),
        kept.outcome.votes.at[:, target].set(of_block.votes, mode="drop"),
    )
    is_open = is_instance & (of_block.settled_at == 0)
    open_target = jnp.where(is_open, kept.n_open + count_before(is_open), n_rows)
    return _Kept(
        kept.order.at[open_target].set(index, mode="drop"),
        kept.votes.at[:, open_target].set(of_block.votes, mode="drop"),
        kept.n_open + jnp.sum(is_open, dtype=jnp.int32),
        outcome,
    )


def _poll_block(plan: Plan, classes, rule: StoppingRule, keys, votes, is_instance, t, end) -> _Outcome:
    """Count the votes of the trees from ``t`` up to, but not with, ``end`` for the n instances of a block.

    ``keys`` are the instances' order keys by column, and ``votes [rows n]`` their votes by the trees before ``t``.
    ``is_instance [n]`` is False for padding. ``classes`` has the class that each place of ``plan`` votes for. A block
    of up to `SMALL` instances stops once all are settled.
    """
    size = len(is_instance)
    settled_at = jnp.where(is_instance, 0, 1)  # padding counts as settled
    carry = (t, votes, settled_at)  # as `_count` has it

    def vote_of_tree(t):
        """Return the class ``[n]`` that tree ``t`` votes for, after its walk."""
        tree = jax.tree.map(lambda array: lax.dynamic_index_in_dim(array, t, keepdims=False), plan)
        return take(lax.dynamic_index_in_dim(classes, t, keepdims=False), walk_tree(tree, keys))

    def poll_group(carry):
        """Count the votes of the next trees, which are walked together."""
        first_tree, _, _ = carry
        group_size = min(LANES // size, TOGETHER)
        group_votes = look_up_together(plan, keys, first_tree, group_size, classes)  # tree after tree
        vote_in_group = lambda t: lax.dynamic_slice_in_dim(group_votes, (t - first_tree) * size, size)
        group_end = jnp.minimum(first_tree + group_size, end)
        return _count(rule, vote_in_group, carry, group_end, stops_early=True)

    if size > SMALL:
        # To ask a large block whether all of it is settled would cost a seventh of its walks; it hardly ever is.
        _, votes, settled_at = _count(rule, vote_of_tree, carry, end, stops_early=False)
    else:
        goes_on = partial(_goes_on, end, stops_early=True)
        _, votes, settled_at = lax.while_loop(goes_on, poll_group, carry)
    return _Outcome(settled_at, votes)


def _poll_one_by_one(plan: Plan, classes, rule: StoppingRule, x, n, max_trees, *, missing: bool) -> _Outcome:
    """Count the votes for the first ``n`` instances of ``x``, one by one, so that none waits for another.

    ``classes`` has the class that each place of ``plan`` votes for, and at most ``max_trees`` trees vote. ``missing``
    says whether values may be missing.
    """

    def poll_row(i, outcomes):
        """Return ``outcomes`` with that of row ``i``, which is polled as a block of one instance."""
        keys = keys_of_one(lax.dynamic_slice_in_dim(x, i, 1), missing=missing).reshape(-1, 1)
        no_votes = jnp.zeros((rule.n_rows, 1), jnp.int32)
        is_instance = jnp.ones(1, bool)
        first_tree = jnp.minimum(i, 0)  # 0, as a traced number
        outcome = _poll_block(plan, classes, rule, keys, no_votes, is_instance, first_tree, max_trees)
        return jax.tree.map(lambda total, row: lax.dynamic_update_slice_in_dim(total, row, i, -1), outcomes, outcome)

    rows = len(x)
    start = _Outcome(jnp.zeros(rows, jnp.int32), jnp.zeros((rule.n_rows, rows), jnp.int32))
    return lax.fori_loop(0, n, poll_row, start)


def _count(rule: StoppingRule, vote_of: Callable[[Array], Array], carry, end, *, stops_early: bool):
    """Return ``carry`` after the votes of the trees before number ``end``; ``rule`` is checked after each tree.

    ``carry`` is a tuple: the number of trees so far, the votes ``[rows n]``, and the number of trees that settled each
    instance, 0 while it is open ``[n]``. ``vote_of(t)`` returns the classes ``[n]`` that tree t votes for. With
    ``stops_early`` counting ends once all instances are settled.
    """

    def step(carry):
        """Count the votes of one tree."""
        t, votes, settled_at = carry
        # Settled instances are walked on with the others; only ``add`` leaves them alone.
        is_open = settled_at == 0
        votes = rule.add(votes, vote_of(t), is_open)
        return t + 1, votes, jnp.where(is_open & rule.holds(votes, t + 1), t + 1, settled_at)

    return lax.while_loop(partial(_goes_on, end, stops_early=stops_early), step, carry)


def _goes_on(end, carry, *, stops_early: bool) -> Bool[Array, ""]:
    """Return whether trees before ``end`` are left; with ``stops_early`` also whether an instance is still open.

    ``carry`` is that of `_count`.
    """
    t, _, settled_at = carry
    return (t < end) & jnp.any(settled_at == 0) if stops_early else t < end


@partial(HostProgram, static_argnames=("max_trees", "missing", "depth", "block"))
def poll_by_levels(
    plan: Plan,
    classes: UInt[Array, "trees places"],
    rule: StoppingRule,
    x: Shaped[Array, "n features"],
    *,
    max_trees: int,
    missing: bool,
    depth: int,
    block: int,
) -> tuple[StoppingResult, Array]:
    """Return the stopped vote on each instance, and a mark of missing or infinite values, on an accelerator.

    The mark is that of `in_blocks`. All of the first ``max_trees`` trees are walked. ``classes`` has the class that
    each place of ``plan`` votes for. ``missing`` says whether values of ``x`` may be missing, ``depth`` how many levels
    are unrolled, and ``block`` how many instances are walked at a time.
    """
    plan, classes = jax.tree.map(lambda array: array[:max_trees], (plan, classes))

    def poll_block(x):
        return _poll_at_once(rule, take(classes.reshape(-1), walk_levels(plan, column_keys(x, missing=missing), depth)))

    return in_blocks(poll_block, block, x)


def _poll_at_once(rule: StoppingRule, votes: UInt[Array, "n trees"]) -> StoppingResult:
    """Return the result of each instance at the first tree at which ``rule`` holds, from the votes of all trees.

    The counts after every tree are made at once. A loop over the trees would launch some kernels for each tree, which
    takes longer than running them.
    """
    n, n_trees = votes.shape
    no_votes = jnp.zeros((rule.n_rows, n), jnp.int32)
    all_open = jnp.ones(n, bool)
    votes_of_tree = jax.vmap(lambda vote: rule.add(no_votes, vote, all_open))
    counts = jnp.cumsum(votes_of_tree(votes.T), axis=0)  # [trees rows n]
    tree_count = jnp.arange(1, n_trees + 1, dtype=jnp.int32)
    holds = jax.vmap(rule.holds)(counts, tree_count)
    settled = jnp.any(holds, axis=0)
    polled = jnp.where(settled, jnp.argmax(holds, axis=0).astype(jnp.int32) + 1, n_trees)
    counts_polled = jnp.take_along_axis(counts, (polled - 1)[None, None], axis=0)[0]  # [rows n], after ``polled`` trees
    by_class = rule.by_class(counts_polled, polled)
    return StoppingResult(polled, jnp.argmax(by_class, axis=1).astype(jnp.int32), settled, by_class)


class RoundsWalk(NamedTuple):
    """How the trees of a round are walked."""

    missing: bool  # whether values are missing
    walk: Walk
    depth: int  # number of levels that are unrolled


def poll_by_rounds(
    plan: Plan,
    classes: UInt[Array, "trees nodes"],
    n_classes: int,
    rule: ProbabilityRule,
    x: Float[np.ndarray, "n features"],
    max_trees: int,
    *,
    way: RoundsWalk,
) -> StoppingResult:
    """Count votes for the rows ``x`` round by round, with at most ``max_trees`` trees; the host drops settled rows.

    ``classes`` has the class that each place of ``plan`` votes for. ``way`` says how the trees of a round are walked.
    """
    n, n_trees = len(x), len(classes)
    votes = np.zeros((n, n_classes), np.int32)
    polled = np.zeros(n, np.int32)
    settled = np.zeros(n, bool)
    open_rows = np.arange(n)
    t = 0  # number of trees that have voted
    while len(open_rows) and t < max_trees:
        # Programs are compiled for few lengths: the last round begins with trees that have voted before.
        length = min(next((size for size in LENGTHS if size >= t // 8), LENGTHS[-1]), n_trees)
        start = min(t, n_trees - length)
        end = min(start + length, max_trees)
        classes_of_round = np.asarray(_votes(plan, classes, _padded(x[open_rows]), start, length=length, way=way))
        new_votes = classes_of_round[: len(open_rows), t - start : end - start].astype(np.int32)
        result = poll_on_host(rule, new_votes, votes[open_rows], t)
        votes[open_rows] = result.votes
        polled[open_rows] = result.n_trees_used
        settled[open_rows] = result.settled
        open_rows = open_rows[~result.settled]
        t = end
    return StoppingResult(polled, votes.argmax(axis=1).astype(np.int32), settled, votes)


def _padded(rows: np.ndarray) -> np.ndarray:
    """Return ``rows`` padded to the smallest size that holds them: `LEAST_SIZE`, or a power of 4 times it."""
    size = LEAST_SIZE
    while size < len(rows):
        size *= 4
    return padded_rows(rows, size)


@jit(static_argnames=("length", "way"))
def _votes(plan, classes, x, start, *, length: int, way: RoundsWalk):
    """Return the class that each tree votes for, for the rows ``x``, ``[instances trees]``.

    The trees are the ``length`` ones from number ``start`` on. ``classes`` has the class that each place of ``plan``
    votes for.
    """
    trees, place_classes = jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, length), (plan, classes))
    keys = column_keys(x, missing=way.missing)
    if way.walk == "levels":
        return take(place_classes.reshape(-1), walk_levels(trees, keys, way.depth))
    keys_by_column = by_column(keys)

    def poll_tree(_, tree_and_classes):
        """Return (None, votes of one tree), as `jax.lax.scan` expects."""
        tree, classes_of_tree = tree_and_classes
        return None, take(classes_of_tree, walk_tree(tree, keys_by_column))

    _, votes = lax.scan(poll_tree, None, (trees, place_classes))
    return votes.T

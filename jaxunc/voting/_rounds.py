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
    """The votes of a part's instances at the tree that settled each of them, or of all trees.

    The rows of ``votes`` are those of a `StoppingRule`.
    """

    n_trees_used: Int32[Array, "n"]
    settled: Bool[Array, "n"]
    votes: Int32[Array, "rows n"]


class _Outcome(NamedTuple):
    """The votes of a part's instances so far, and when each was settled."""

    settled_at: Int32[Array, "n"]  # number of trees that settled the vote; 0 while it is open
    votes: Int32[Array, "rows n"]


class _Kept(NamedTuple):
    """The open instances of a part, at the front of ``order`` and ``votes``, and the outcome of all instances."""

    order: Int32[Array, "n"]  # positions of the open instances in the part
    votes: Int32[Array, "rows n"]
    live: Int32[Array, ""]  # number of open instances; entries behind them have no meaning
    outcome: _Outcome


class _Round(NamedTuple):
    """The state of a part's vote between two rounds."""

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
    ``blocks`` are numbers of instances that are walked together, in descending order. A size serves blocks that it
    fills by half or more; the last size serves the rest. The number of rows of ``x`` is a multiple of each size.
    """
    rows, n_columns = x.shape[0], x.shape[1] * (1 + missing)
    if rows <= FEW:
        return _polled(_poll_one_by_one(plan, classes, rule, x, n, max_trees, missing=missing), max_trees)
    # What an instance costs in a round, in trees (measured): its keys are gathered anew, so columns count. A tree costs
    # three levels for its top, its vote and the rule, and those below.
    cost_of_round = (20 + n_columns) / (3 + jnp.mean(plan.top.rest))

    def of_few(live, length):
        """Return the ``length`` of a round, longer if few instances are ``live``.

        Small blocks walk trees in groups, and a single block stops once its instances are settled.
        """
        length = jnp.where(live <= 4 * SMALL, jnp.maximum(length, LANES // SMALL), length)
        return jnp.where(live <= SMALL, LONGEST, length)

    def one_round(state: _Round) -> _Round:
        """Let all open instances vote with the trees of one round, and keep those that are open afterwards."""
        end = jnp.minimum(state.t + state.length, max_trees)
        # Two buffers for order and votes: reading and scattering the same array in a loop would copy it for every
        # block.
        old = state.kept
        kept = _Kept(jnp.zeros_like(old.order), jnp.zeros_like(old.votes), jnp.int32(0), old.outcome)
        start = jnp.int32(0)
        for size in blocks:
            left = old.live - start
            # A block that is more than half full is cheaper than several smaller ones, since a block costs as much as
            # some two hundred instances (measured). Blocks of the smallest size take all that is left.
            number = (left + (size - 1) // (1 if size == blocks[-1] else 2)) // size
            number = jnp.maximum(number, 0)

            def block(i, kept, start=start, size=size):
                """Add the votes of the round's trees for block ``i``, and keep its open instances."""
                # Beyond ``live`` lie rows without meaning: they are walked with the block, but ``real`` keeps them out
                # of results.
                index = lax.dynamic_slice_in_dim(old.order, start + i * size, size)
                votes = lax.dynamic_slice_in_dim(old.votes, start + i * size, size, axis=1)
                real = start + i * size + jnp.arange(size, dtype=jnp.int32) < old.live
                keys = by_column(column_keys(x.at[index].get(mode="promise_in_bounds"), missing=missing))
                outcome = _poll_block(plan, classes, rule, keys, votes, real, state.t, end)
                return _keep(kept, index, real, outcome)

            kept = lax.fori_loop(0, number, block, kept)
            start = start + number * size
        # Rounds grow longer where few votes settle. The first round, which ends when votes first can settle, counts as
        # one tree.
        trees = jnp.where(state.t == 0, 1, end - state.t)
        share = (old.live - kept.live) / (old.live * trees)
        # A round of L trees wastes about share · L² / 2 walks on settled instances, and costs a round: this L is the
        # best.
        length = jnp.sqrt(2 * cost_of_round / jnp.maximum(share, 1e-9))
        length = jnp.clip(length, SHORTEST, LONGEST).astype(jnp.int32)
        return _Round(kept, end, of_few(kept.live, length))

    nothing = _Outcome(jnp.zeros(rows, jnp.int32), jnp.zeros((rule.n_rows, rows), jnp.int32))
    first = of_few(n, jnp.clip(rule.first, 1, max_trees))
    start = _Round(_Kept(jnp.arange(rows, dtype=jnp.int32), nothing.votes, n, nothing), jnp.int32(0), first)
    goes_on = lambda state: (state.kept.live > 0) & (state.t < max_trees)
    return _polled(lax.while_loop(goes_on, one_round, start).kept.outcome, max_trees)


def _polled(outcome: _Outcome, max_trees) -> Polled:
    """Return the outcome as `Polled`: votes that are still open have used ``max_trees`` trees."""
    settled = outcome.settled_at > 0
    return Polled(jnp.where(settled, outcome.settled_at, max_trees), settled, outcome.votes)


def _keep(kept: _Kept, index, real, polled: _Outcome) -> _Kept:
    """Return ``kept`` with a block's outcome ``polled``, and with its open instances behind those of earlier blocks.

    ``index`` has the instances' positions in the part; only entries marked ``real`` are instances.
    """
    rows = kept.order.shape[0]
    # An index beyond the end is dropped by the scatter: the mask costs no branch.
    place = jnp.where(real, index, rows)
    outcome = _Outcome(
        kept.outcome.settled_at.at[place].set(polled.settled_at, mode="drop"),
        kept.outcome.votes.at[:, place].set(polled.votes, mode="drop"),
    )
    on = real & (polled.settled_at == 0)
    behind = jnp.where(on, kept.live + count_before(on), rows)
    return _Kept(
        kept.order.at[behind].set(index, mode="drop"),
        kept.votes.at[:, behind].set(polled.votes, mode="drop"),
        kept.live + jnp.sum(on, dtype=jnp.int32),
        outcome,
    )


def _poll_block(plan: Plan, classes, rule: StoppingRule, keys, votes, real, t, end) -> _Outcome:
    """Count the votes of a block from tree ``t`` to ``end``; a small block stops once all of it is settled.

    ``keys`` are the block's order keys by column, ``votes [rows n]`` those before tree ``t``; what is not ``real`` is
    padding. ``classes`` has the class that each place of ``plan`` votes for.
    """
    # Entries that are not instances count as settled.
    carry, size = (t, votes, jnp.where(real, 0, 1)), len(real)

    def vote_of(t):
        tree = jax.tree.map(lambda array: lax.dynamic_index_in_dim(array, t, keepdims=False), plan)
        return take(lax.dynamic_index_in_dim(classes, t, keepdims=False), walk_tree(tree, keys))

    def some(carry):
        """Count the votes of the next trees, which are walked together."""
        start, number = carry[0], min(LANES // size, TOGETHER)
        cast = look_up_together(plan, keys, start, number, classes)
        vote_of = lambda t: lax.dynamic_slice_in_dim(cast, (t - start) * size, size)
        return _count(rule, vote_of, carry, jnp.minimum(start + number, end), stops_early=True)

    if size > SMALL:
        # To ask a large block whether all of it is settled would cost a seventh of its walks; it hardly ever is.
        _, votes, settled_at = _count(rule, vote_of, carry, end, stops_early=False)
    else:
        _, votes, settled_at = lax.while_loop(partial(_goes_on, end, True), some, carry)
    return _Outcome(settled_at, votes)


def _poll_one_by_one(plan: Plan, classes, rule: StoppingRule, x, n, max_trees, *, missing: bool) -> _Outcome:
    """Count the votes for the first ``n`` instances of ``x``, one by one, so that none waits for another.

    The arguments are those of `poll_part`.
    """

    def poll_row(i, out):
        keys = keys_of_one(lax.dynamic_slice_in_dim(x, i, 1), missing=missing).reshape(-1, 1)
        none, real, t = jnp.zeros((rule.n_rows, 1), jnp.int32), jnp.ones(1, bool), jnp.minimum(i, 0)
        outcome = _poll_block(plan, classes, rule, keys, none, real, t, max_trees)
        return jax.tree.map(lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, i, -1), out, outcome)

    rows = len(x)
    nothing = _Outcome(jnp.zeros(rows, jnp.int32), jnp.zeros((rule.n_rows, rows), jnp.int32))
    return lax.fori_loop(0, n, poll_row, nothing)


def _count(rule: StoppingRule, vote_of: Callable[[Array], Array], carry, end, *, stops_early: bool):
    """Return ``carry`` after the votes of the trees up to ``end``; the rule is checked after each tree.

    ``carry`` holds the number of trees so far, the votes, and the number of trees that settled each vote (0 while
    open). ``vote_of(t)`` has the votes of tree t. With ``stops_early`` counting ends once all votes are settled.
    """

    def step(carry):
        t, votes, settled_at = carry
        # Settled instances are walked on with the others; only ``add`` leaves them alone.
        open_ = settled_at == 0
        votes = rule.add(votes, vote_of(t), open_)
        return t + 1, votes, jnp.where(open_ & rule.holds(votes, t + 1), t + 1, settled_at)

    return lax.while_loop(partial(_goes_on, end, stops_early), step, carry)


def _goes_on(end, stops_early: bool, carry) -> Bool[Array, ""]:
    """Return whether trees before ``end`` are left and, with ``stops_early``, instances that are not settled.

    ``carry`` is as for `_count`.
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
    """Count the votes of ``max_trees`` trees as `stop_after` does; also return the mark of the rows (`in_blocks`).

    ``classes`` has the class that each place of ``plan`` votes for. ``missing`` says whether values of ``x`` may be
    missing, ``depth`` how many levels are unrolled, and ``block`` how many instances are walked at a time.
    """
    plan, classes = jax.tree.map(lambda array: array[:max_trees], (plan, classes))

    def poll_block(x):
        return _poll_at_once(rule, take(classes.reshape(-1), walk_levels(plan, column_keys(x, missing=missing), depth)))

    return in_blocks(poll_block, block, x)


def _poll_at_once(rule: StoppingRule, votes: UInt[Array, "n trees"]) -> StoppingResult:
    """Count the votes up to every tree at once, and stop each instance at the first tree at which the rule holds.

    A loop over the trees would launch some kernels for each tree, which takes longer than running them.
    """
    n, n_trees = votes.shape
    none, everyone = jnp.zeros((rule.n_rows, n), jnp.int32), jnp.ones(n, bool)
    counts = jnp.cumsum(jax.vmap(lambda vote: rule.add(none, vote, everyone))(votes.T), axis=0)
    number = jnp.arange(1, n_trees + 1, dtype=jnp.int32)
    holds = jax.vmap(rule.holds)(counts, number)
    settled = jnp.any(holds, axis=0)
    polled = jnp.where(settled, jnp.argmax(holds, axis=0).astype(jnp.int32) + 1, n_trees)
    by_class = rule.by_class(jnp.take_along_axis(counts, (polled - 1)[None, None], axis=0)[0], polled)
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
    """Count votes for the rows ``x`` round by round, with ``max_trees`` trees in all at most.

    The host drops settled rows in between. ``classes`` has the class that each place of ``plan`` votes for.
    """
    n, n_trees = len(x), len(classes)
    votes, polled, settled = np.zeros((n, n_classes), np.int32), np.zeros(n, np.int32), np.zeros(n, bool)
    open_, t = np.arange(n), 0
    while len(open_) and t < max_trees:
        # Programs are compiled for few lengths: the last round begins with trees that have voted before.
        length = min(next((size for size in LENGTHS if size >= t // 8), LENGTHS[-1]), n_trees)
        start = min(t, n_trees - length)
        end = min(start + length, max_trees)
        classes_of_round = np.asarray(_votes(plan, classes, _padded(x[open_]), start, length=length, way=way))
        new_votes = classes_of_round[: len(open_), t - start : end - start].astype(np.int32)
        result = poll_on_host(rule, new_votes, votes[open_], t)
        votes[open_], polled[open_], settled[open_] = result.votes, result.n_trees_used, result.settled
        open_, t = open_[~result.settled], end
    return StoppingResult(polled, votes.argmax(axis=1).astype(np.int32), settled, votes)


def _padded(rows: np.ndarray) -> np.ndarray:
    """Return the rows padded to the smallest size of a round that holds them."""
    size = LEAST_SIZE
    while size < len(rows):
        size *= 4
    return padded_rows(rows, size)


@jit(static_argnames=("length", "way"))
def _votes(plan, classes, x, start, *, length: int, way: RoundsWalk):
    """Return the votes for the rows ``x`` of the ``length`` trees from number ``start`` on, ``[instances trees]``.

    ``classes`` has the class that each place of ``plan`` votes for.
    """
    some_trees, of_leaves = jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, length), (plan, classes))
    keys = column_keys(x, missing=way.missing)
    if way.walk == "levels":
        return take(of_leaves.reshape(-1), walk_levels(some_trees, keys, way.depth))
    rows_of_keys = by_column(keys)
    poll = lambda _, tree: (None, take(tree[1], walk_tree(tree[0], rows_of_keys)))
    return lax.scan(poll, None, (some_trees, of_leaves))[1].T

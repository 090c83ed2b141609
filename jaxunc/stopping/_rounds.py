"""Votes heard tree by tree in one compiled program, in rounds after which settled instances are dropped.

Every instance is asked after every tree, so the answer is the sequential rule's, whatever rounds and blocks are.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt

from jaxunc._numerics import count_before, take
from jaxunc.routing._plan import Plan, column_keys
from jaxunc.routing._walk import walk_tree

from ._rules import Rule

SHORTEST, LONGEST = 8, 128
"""Trees in a round."""


class Heard(NamedTuple):
    """What became of the instances of a part."""

    n_polled: Int32[Array, "n"]
    settled: Bool[Array, "n"]
    votes: Int32[Array, "rows n"]


class _Round(NamedTuple):
    """Where a part stands between two rounds: the instances that are not settled come first, in their order."""

    order: Int32[Array, "n"]
    votes: Int32[Array, "rows n"]
    live: Int32[Array, ""]
    t: Int32[Array, ""]
    length: Int32[Array, ""]
    heard: Heard


class _Kept(NamedTuple):
    """What a round writes: those that go on, and what became of all."""

    order: Int32[Array, "n"]
    votes: Int32[Array, "rows n"]
    live: Int32[Array, ""]
    heard: Heard


@partial(jax.jit, static_argnames=("missing", "blocks"))
def hear_part(
    plan: Plan,
    classes: UInt[Array, "trees places"],
    rule: Rule,
    x: Float[Array, "n features"],
    n: Int32[Array, ""],
    max_trees: Int32[Array, ""],
    *,
    missing: bool,
    blocks: tuple[int, ...],
) -> Heard:
    """Hear at most ``max_trees`` trees for the first ``n`` instances of ``x``.

    ``blocks``: instances that are walked at a time, descending: as many of a size as there are, the last for the rest.
    The number of rows of ``x`` is a multiple of each.
    """
    rows, n_columns = x.shape[0], x.shape[1] * (1 + missing)
    cost_of_round = 0.8 + n_columns / 25  # what an instance costs in a round, in trees

    def one_round(state: _Round) -> _Round:
        end = jnp.minimum(state.t + state.length, max_trees)
        kept = _Kept(jnp.zeros_like(state.order), jnp.zeros_like(state.votes), jnp.int32(0), state.heard)
        start = jnp.int32(0)
        for size in blocks:
            left = state.live - start
            number = left // size if size != blocks[-1] else (left + size - 1) // size

            def block(i, kept, start=start, size=size):
                index = lax.dynamic_slice_in_dim(state.order, start + i * size, size)
                votes = lax.dynamic_slice_in_dim(state.votes, start + i * size, size, axis=1)
                real = start + i * size + jnp.arange(size, dtype=jnp.int32) < state.live
                keys = column_keys(x.at[index].get(mode="promise_in_bounds"), missing=missing).T
                found = _hear_block(plan, classes, rule, keys, votes, real, state.t, end)
                return _keep(kept, index, real, *found)

            kept = lax.fori_loop(0, number, block, kept)
            start = start + number * size
        # Where nothing settles the rounds grow longer; the first, which ends when votes first can, says little.
        trees = jnp.where(state.t == 0, 1, end - state.t)
        share = (state.live - kept.live) / (state.live * trees)
        length = jnp.sqrt(2 * cost_of_round / jnp.maximum(share, 1e-9))
        length = jnp.clip(length, SHORTEST, LONGEST).astype(jnp.int32)
        return _Round(kept.order, kept.votes, kept.live, end, length, kept.heard)

    nothing = Heard(jnp.zeros(rows, jnp.int32), jnp.zeros(rows, bool), jnp.zeros((rule.n_rows, rows), jnp.int32))
    first = jnp.clip(rule.first, 1, max_trees)
    start = _Round(jnp.arange(rows, dtype=jnp.int32), nothing.votes, n, jnp.int32(0), first, nothing)
    return lax.while_loop(lambda state: (state.live > 0) & (state.t < max_trees), one_round, start).heard


def _keep(kept: _Kept, index, real, votes, polled, done) -> _Kept:
    """What became of a block written down, and those that go on behind the others that do."""
    rows = kept.order.shape[0]
    place = jnp.where(real, index, rows)
    heard = Heard(
        kept.heard.n_polled.at[place].set(polled, mode="drop"),
        kept.heard.settled.at[place].set(done, mode="drop"),
        kept.heard.votes.at[:, place].set(votes, mode="drop"),
    )
    on = real & ~done
    behind = jnp.where(on, kept.live + count_before(on), rows)
    return _Kept(
        kept.order.at[behind].set(index, mode="drop"),
        kept.votes.at[:, behind].set(votes, mode="drop"),
        kept.live + jnp.sum(on, dtype=jnp.int32),
        heard,
    )


def _hear_block(plan: Plan, classes, rule: Rule, keys, votes, real, t, end):
    """The votes of a block from tree ``t`` to ``end``, or until all of it is settled."""

    def one(carry):
        t, votes, polled, done = carry
        tree = jax.tree.map(lambda array: lax.dynamic_index_in_dim(array, t, keepdims=False), plan)
        vote = take(lax.dynamic_index_in_dim(classes, t, keepdims=False), walk_tree(tree, keys))
        votes = rule.add(votes, vote, ~done)
        polled = jnp.where(done, polled, t + 1)
        return t + 1, votes, polled, done | rule.holds(votes, t + 1)

    go_on = lambda carry: (carry[0] < end) & ~jnp.all(carry[3])  # noqa: E731
    _, votes, polled, done = lax.while_loop(go_on, one, (t, votes, jnp.full(real.shape, t), ~real))
    return votes, polled, done & real

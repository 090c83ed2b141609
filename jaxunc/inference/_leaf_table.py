"""Leaf tables: what a rule lifts from the leaves of a forest."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import jit
from jaxunc._types import PyTree
from jaxunc.combiners import (
    Combiner,
    Together,
    as_combiner,
    check_own_scorers,
    check_tree_fields,
    columns_of,
    has_tree_fields,
    lift_rows,
    lift_tree,
    tree_axes,
    warn_if_sizes_are_lost,
)
from jaxunc.forest import Forest, check_is_forest

LARGEST_LEAF_TABLE = 2**30
"""Bytes that a leaf table may take on the host before it costs more memory than it saves time."""


def leaf_table(forest: Forest, combiner: Combiner) -> PyTree:
    """Return what a rule lifts from every leaf: arrays ``[trees nodes]`` or ``[trees nodes stat]``, and ``[trees]``.

    Computed per distinct count vector, unless fields of the rule differ from tree to tree. For `fold`; differentiable
    in the rule and the forest's counts. Raises a ValueError if the rule does not suit the forest (its number of
    classes, of trees, the counts that it reads).

    Parameters
    ----------
    forest
        The forest, whose counts the rule reads.
    combiner
        The rule.
    """
    combiner = as_combiner(combiner)
    table, code = _checked_rows(forest, combiner)
    warn_if_sizes_are_lost(combiner, table)
    if not _is_by_rows(combiner, table):
        check_own_scorers(combiner, table)
        return _lift_table(combiner, table, code)
    return _spread(_lift(combiner, table), code)


def lifted_rows(forest: Forest, combiner: Combiner) -> tuple[PyTree, Int32[Array, "trees nodes"]] | None:
    """Return what a rule lifts from each distinct count vector, and which of them each node has.

    None where it has no values on the host, or differs from tree to tree. Raises as `leaf_table` does.
    """
    table, code = _checked_rows(forest, combiner)
    if not _is_by_rows(combiner, table):
        return None
    lifted = _lift(combiner, table)
    if not is_concrete(lifted):  # inside someone's program
        return None
    warn_if_sizes_are_lost(combiner, table)
    return lifted, code


def _lift(combiner: Combiner, table: Num[Array, "distinct classes"]) -> PyTree:
    """Lift the rows. Rules of one kind share a program, also where they stand side by side."""
    if not isinstance(combiner, Together):
        check_own_scorers(combiner, table)
        return lift_rows(combiner, table)
    rules, given = combiner.rules, combiner.count_sets
    return {name: _lift(rule, columns_of(table, given, rule.count_sets)) for name, rule in rules.items()}


def _is_by_rows(combiner: Combiner, table: Num[Array, "distinct classes"]) -> bool:
    return not has_tree_fields(combiner) and is_concrete(combiner, table)


def _checked_rows(forest: Forest, combiner: Combiner) -> tuple[Num[Array, "distinct classes"], Array]:
    check_is_forest(forest)
    forest = forest.reading(combiner.count_sets)
    check_tree_fields(combiner, forest.n_trees)
    # Arrays alone: a forest's labels are no reason to compile again.
    return forest.leaf_rows()


def is_large(forest: Forest, combiner: Combiner) -> bool:
    """Whether the leaf table would take more than `LARGEST_LEAF_TABLE`."""
    table, code = _checked_rows(forest, combiner)
    if not _is_by_rows(combiner, table):
        return _bytes(jax.eval_shape(leaf_table, forest, combiner)) > LARGEST_LEAF_TABLE
    one = jax.ShapeDtypeStruct((1, table.shape[1]), table.dtype)
    return code.size * _bytes(jax.eval_shape(partial(_lift, combiner), one)) > LARGEST_LEAF_TABLE


def _bytes(lifted: PyTree) -> int:
    return sum(math.prod(part.shape) * part.dtype.itemsize for part in jax.tree.leaves(lifted) if part.ndim)


@jit
def _lift_table(combiner: Combiner, table: Num[Array, "distinct classes"], code: Int32[Array, "trees nodes"]) -> PyTree:
    if has_tree_fields(combiner):
        return jax.vmap(lift_tree, in_axes=(tree_axes(combiner), 0))(combiner, table[code])
    return _spread(lift_tree(combiner, table), code)


@jit
def _spread(stat: PyTree, code: Int32[Array, "trees nodes"]) -> PyTree:
    """Spread values of distinct count vectors over the nodes that have them."""
    return jax.tree.map(lambda part: part[code] if part.ndim else jnp.broadcast_to(part, code.shape[:1]), stat)

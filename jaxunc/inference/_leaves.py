"""The counts of the leaves that instances fall into."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import along_instances, counts_dtype, jit, narrowest_dtype
from jaxunc.forest import Forest, check_is_forest
from jaxunc.tables import InstancesLike, SparseRows, encode_traced

from ._following import counts_reached, empty_pairs, follow, round_up
from ._index import leaf_index_on_host, on_host, planned_leaf_index
from ._plan import Plan, known_plan, make_plan
from ._tested import on_tested


def leaf_counts(forest: Forest, X: InstancesLike) -> Num[Array, "instances trees classes"]:
    """Class counts of the leaf that each instance ends in, for every tree.

    The tensor that `bind` avoids: instances × trees × classes numbers. Differentiable in the
    forest's counts; traceable, unless empty leaves are followed. Instances in an empty leaf are given what
    `Forest.with_empty_leaves` says. Raises as `leaf_index` does, and a ValueError for the mode "average", which
    averages what a rule says and not counts, or if the mode "sum" is traced.

    Parameters
    ----------
    forest
        The forest.
    X
        Instances, as for `leaf_index`.

    Returns
    -------
    Num[Array, "instances trees classes"]
        Counts of the type that the forest holds.
    """
    check_is_forest(forest)
    refuse_average(forest)
    values = on_host(forest.trees, X)
    if isinstance(values, SparseRows):
        trees, values = on_tested(forest.trees, values)
        forest = dataclasses.replace(forest, trees=trees)
    plan = make_plan(forest.trees, missing=True) if values is None else known_plan(forest.trees)
    if values is None:
        in_each = lambda x: planned_leaf_counts(forest, plan, x, planned_leaf_index(forest.trees, plan, x))  # noqa: E731
        return along_instances(in_each, encode_traced(X, forest.trees.columns))
    if forest.follows_forks or not is_concrete(forest.count_table, forest.code):
        return planned_leaf_counts(forest, plan, values, leaf_index_on_host(forest.trees, plan, values))
    table, code = forest.leaf_rows()
    return jax.device_put(leaf_index_on_host(forest.trees, plan, values, then=partial(_rows_of, table, code)))


@jit
def _rows_of(table, code, leaves):
    """The counts in each tree's leaf, where all numbers are in bounds."""
    row = code.at[jnp.arange(len(code)), leaves].get(mode="promise_in_bounds")
    return table.at[row].get(mode="promise_in_bounds")


def refuse_average(forest: Forest) -> None:
    """Raise a ValueError if empty leaves have no counts of their own."""
    if forest.follows_forks and forest.empty_leaves == "average":
        raise ValueError(
            "empty leaves of the mode 'average' have no counts of their own: the scores of several leaves are "
            "averaged. Bind a rule, or choose forest.with_empty_leaves('sum')."
        )


def planned_leaf_counts(
    forest: Forest, plan: Plan, X: InstancesLike | SparseRows, leaves: Array | np.ndarray
) -> Num[Array, "instances trees classes"]:
    """`leaf_counts` by a plan that is made already, with missing values, where the leaves are known."""
    if not forest.follows_forks:
        table, code = forest.leaf_rows()
        return table[code[jnp.arange(forest.n_trees), leaves]]
    if not is_concrete(X, forest.trees):
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are followed on the host and cannot be traced. "
            "Inside jit, grad or vmap pass forest.with_empty_leaves('parent') or 'zeros', which stream."
        )
    empty = empty_pairs(forest.trees, leaves)
    rows = np.asarray(leaves)
    if is_concrete(forest.count_table, forest.code):
        counts = np.asarray(forest.count_table)[np.asarray(forest.code)[np.arange(forest.n_trees), rows]]
        sums = counts_reached(forest, plan, X, empty)
        # Sums may be too large for integers.
        counts = counts.astype(counts_dtype(counts, np.zeros(0, narrowest_dtype(sums))))
        counts[empty.instance, empty.tree] = sums
        return jax.device_put(counts)
    counts = forest.count_table[forest.code[jnp.arange(forest.n_trees), leaves]]
    counts = counts.at[empty.instance, empty.tree].set(0)
    for pair, node in follow(forest.trees, plan, X, empty):
        more = (0, round_up(len(pair)) - len(pair))
        instance = np.pad(empty.instance[pair], more, constant_values=len(counts))
        tree, node = np.pad(empty.tree[pair], more), np.pad(node, more)
        counts = counts.at[instance, tree].add(forest.count_table[forest.code[tree, node]], mode="drop")
    return counts

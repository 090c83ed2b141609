"""The leaf table of a combiner, and the pure merge of its leaves, for use inside a caller's programs.

`leaf_table` returns the statistic that a combiner lifts from every leaf, and `merge_leaves` merges the statistics of
the leaves that instances reach. The engine `Traced` does both in every program: its answers are differentiable in the
combiner and in the counts.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int32, Num

from jaxunc._checks import check_bool, check_numbers, check_one_of, check_readable, is_concrete
from jaxunc._numerics import copy_in, jit, map_over_devices, own_settings, varying_as
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
    lifted_together,
    read_answer,
    tree_axes,
    warn_if_sizes_are_lost,
)
from jaxunc.forest import Forest, Trees, check_is_forest
from jaxunc.tables import Encoded, InstancesLike, MaskLike, encode_traced

from ._packed_trees import PackedTrees, Spec, merge_scalars, pack_by_place
from ._plan import Plan, column_keys, make_plan, node_at
from ._planes import WIDE, cut, rejoin
from ._walk import Walk, block_size, by_column, default_walk, over_blocks, unrolled_depth, walk_levels, walk_tree

LARGEST_LEAF_TABLE = 2**30
"""Bytes that a leaf table may take on the host before it costs more memory than it saves time."""


def leaf_table(forest: Forest, combiner: Combiner) -> PyTree:
    """Return the statistic that a combiner lifts from every leaf, for `merge_leaves`.

    The result is a pytree of arrays ``[trees nodes]`` or ``[trees nodes stat]``, and of numbers per tree ``[trees]``.
    Each distinct count vector is lifted once, unless fields of the combiner differ from tree to tree. The result is
    differentiable in the combiner and the forest's counts.

    Parameters
    ----------
    forest
        The forest, whose counts the combiner reads.
    combiner
        The combiner.

    Raises
    ------
    ValueError
        If the combiner does not suit the forest's number of classes or trees, or reads counts that the forest lacks.
    """
    combiner = as_combiner(combiner)
    table, code = _checked_rows(forest, combiner)
    warn_if_sizes_are_lost(combiner, table)
    if not _is_by_rows(combiner, table):
        check_own_scorers(combiner, table)
        return _lift_table(combiner, table, code)
    return _expand(_lift(combiner, table), code)


def lifted_rows(forest: Forest, combiner: Combiner) -> tuple[PyTree, Int32[Array, "trees nodes"]] | None:
    """Return (statistics lifted from the distinct count vectors ``[distinct ...]``, index of each node's vector).

    The result is None if the statistics are traced, or if fields of the combiner differ from tree to tree. Raises the
    errors of `leaf_table`.
    """
    table, code = _checked_rows(forest, combiner)
    if not _is_by_rows(combiner, table):
        return None
    lifted = _lift(combiner, table)
    if not is_concrete(lifted):  # inside a caller's program
        return None
    warn_if_sizes_are_lost(combiner, table)
    return lifted, code


def _checked_rows(forest: Forest, combiner: Combiner) -> tuple[Num[Array, "distinct classes"], Array]:
    """Return (distinct count vectors, row of each node) of the counts that the combiner reads (`Forest.leaf_rows`).

    Raises the errors of `leaf_table`.
    """
    check_is_forest(forest)
    forest = forest.reading(combiner.count_sets)
    check_tree_fields(combiner, forest.n_trees)
    # Arrays, not a forest: its class labels are static, so that programs would be compiled for each set of labels.
    return forest.leaf_rows()


def _is_by_rows(combiner: Combiner, table: Num[Array, "distinct classes"]) -> bool:
    """Return whether each row of ``table`` is lifted once, outside of programs.

    It is if neither the combiner nor the table is traced, and no field of the combiner differs from tree to tree.
    """
    return not has_tree_fields(combiner) and is_concrete(combiner, table)


def _lift(combiner: Combiner, table: Num[Array, "distinct classes"]) -> PyTree:
    """Return the statistics lifted from the rows of a count ``table``; for a `Together` those of each rule, by name.

    Combiners of one class share a program, also in a `Together`.
    """
    if not isinstance(combiner, Together):
        check_own_scorers(combiner, table)
        return lift_rows(combiner, table)
    rules, count_sets = combiner.rules, combiner.count_sets
    return {name: _lift(rule, columns_of(table, count_sets, rule.count_sets)) for name, rule in rules.items()}


@jit
def _lift_table(combiner: Combiner, table: Num[Array, "distinct classes"], code: Int32[Array, "trees nodes"]) -> PyTree:
    """Return the leaf table of a combiner, lifted by a compiled program.

    The program serves where the combiner or the counts are traced, or fields of the combiner differ from tree to tree.
    ``table`` and ``code`` are those of `Forest.leaf_rows`.
    """
    if has_tree_fields(combiner):
        return jax.vmap(lift_tree, in_axes=(tree_axes(combiner), 0))(combiner, table[code])
    return _expand(lift_tree(combiner, table), code)


@jit
def _expand(stat: PyTree, code: Int32[Array, "trees nodes"]) -> PyTree:
    """Return a statistic ``[rows ...]``, lifted from count vectors, as one of the nodes, ``[trees nodes ...]``.

    ``code`` has the row of each node. A number for all trees becomes an array ``[trees]``.
    """
    return jax.tree.map(lambda array: array[code] if array.ndim else jnp.broadcast_to(array, code.shape[:1]), stat)


def is_large(forest: Forest, combiner: Combiner) -> bool:
    """Return whether the leaf table of ``forest`` for ``combiner`` would take more bytes than `LARGEST_LEAF_TABLE`."""
    table, code = _checked_rows(forest, combiner)
    if not _is_by_rows(combiner, table):
        return _bytes(jax.eval_shape(leaf_table, forest, combiner)) > LARGEST_LEAF_TABLE
    n_rows = lifted_together(combiner, table)  # as many as will be lifted at a time, so that lifting is traced once
    some_rows = jax.ShapeDtypeStruct((n_rows, table.shape[1]), table.dtype)
    lifted = jax.tree.leaves(jax.eval_shape(partial(_lift, combiner), some_rows))
    # Wide arrays are not expanded to the nodes: their rows per count vector are needed in any case.
    narrow = [array for array in lifted if math.prod(array.shape[1:]) <= WIDE]
    # Each node takes the bytes of one row, and `_bytes` counts those of ``n_rows``: both sides are n_rows times larger.
    return code.size * _bytes(narrow) > LARGEST_LEAF_TABLE * n_rows


def _bytes(lifted: PyTree) -> int:
    """Return the number of bytes of the arrays in ``lifted``, a statistic; numbers for all trees do not count."""
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in jax.tree.leaves(lifted) if array.ndim)


def merge_leaves(
    forest: Trees | Forest,
    leaf_table: PyTree,
    X: InstancesLike,
    *,
    merge: PyTree = "sum",
    tree_mask: MaskLike | None = None,
    missing: bool = True,
    walk: Walk | None = None,
) -> PyTree:
    """Walk instances to their leaves, and return the statistics of the leaves merged over the trees.

    The function is pure and traceable: use it inside ``jit``, ``vmap`` and ``grad``. For data of the host `bind` is
    faster, since it uses all cores.

    Parameters
    ----------
    forest
        The forest, or its trees.
    leaf_table
        A pytree of statistics per leaf, ``[trees nodes]`` or ``[trees nodes stat]``, and of numbers per tree,
        ``[trees]``, such as the function `leaf_table` returns.
    X
        Instances ``[instances features]``, NumPy, JAX or pandas; compared as float32, NaN being a missing value.
    merge
        ``"sum"``, ``"exact_sum"``, ``"min"`` or ``"max"``, or a pytree prefix of ``leaf_table`` with these as leaves.
    tree_mask
        Which trees count for which instance, booleans ``[instances trees]``; default all.
    missing
        Whether X may hold NaN. False saves a fifth of the time; a NaN then goes left or right by its bits.
    walk
        The way instances are walked to their leaves, as for `bind`.

    Returns
    -------
    PyTree
        The merged statistics: ``[instances]`` or ``[instances stat]``; for numbers per tree a scalar, or
        ``[instances]`` under a mask. Exact sums are `TwoFloat`.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit the forest, a merge or the walk is unknown, or empty leaves of the forest are followed
        (`Forest.with_empty_leaves`). If a bound forest would refuse X (infinite values aside; of a traced X only the
        shape is checked), or its number of instances is symbolic.

    Notes
    -----
    Gradient with respect to ``leaf_table``, forward and backward: the instances are routed again instead of storing
    ``[instances trees]`` indices. The first tree of equal minima or maxima gets the gradient. X has none.

    Memory: O(instances · stat), a block of intermediate values beside it.
    """
    check_is_forest(forest, or_trees=True)
    if isinstance(forest, Forest) and forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are followed on the host, by bind, which lifts what "
            "they sum up to. Pass forest.with_empty_leaves('parent') or 'zeros', whose leaves have counts."
        )
    trees = forest.trees if isinstance(forest, Forest) else forest
    X = encode_traced(X, trees.columns)
    if not isinstance(X.shape[0], int):
        raise ValueError(
            f"X has {X.shape[0]} instances, a number that is not known; merge_leaves walks blocks of a known size. "
            "What bind returns answers any number in a program that is exported."
        )
    tree_mask = as_mask(tree_mask, X.shape[0], trees.n_trees)
    tree_mask = None if tree_mask is None else copy_in(tree_mask)
    check_bool("missing", missing)
    for values in jax.tree.leaves(leaf_table):
        check_numbers("leaf_table", values)
    planes, scalars, layout = cut(leaf_table, merge, trees.n_trees, trees.n_nodes)
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    walk = walk or default_walk()
    spec = Spec(layout, missing, walk, unrolled_depth(walk, trees))
    plan = make_plan(trees, missing=missing)
    merged = map_over_devices(partial(_merge_beside, spec), X, tree_mask, beside=(plan, planes, scalars))
    with own_settings():  # collected planes hold NaN for masked trees, which a user's debugging settings would refuse
        return rejoin(layout, *merged)


def as_mask(mask, n_instances: Any, n_trees: int):
    """Return the tree mask ``mask`` as an array ``[instances trees]`` of NumPy or JAX; None for None.

    Raises a TypeError unless ``mask`` holds booleans, and a ValueError unless its shape is (n_instances, n_trees).
    """
    if mask is None:
        return None
    check_readable("tree_mask", mask)
    mask = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"tree_mask has dtype {mask.dtype}; pass booleans, True where the tree counts.")
    if mask.shape != (n_instances, n_trees):
        raise ValueError(f"tree_mask has shape {mask.shape}; expected {(n_instances, n_trees)} (instances, trees).")
    return mask


def merge_lifted(forest: Forest, combiner: Combiner, X: jax.Array, mask: Any) -> PyTree:
    """Return the merged statistic of encoded instances ``X``; leaves are lifted in the same (traced) program.

    ``mask`` is a tree mask or None. Raises a ValueError if empty leaves are followed.
    """
    encoded = Encoded(X, missing=True)
    return merge_leaves(forest, leaf_table(forest, combiner), encoded, merge=combiner.merge, tree_mask=mask)


class Traced(eqx.Module):
    """The engine of a traced combiner or forest: every program that answers also lifts the leaves."""

    walk: ClassVar[None] = None
    """A forest bound again (`BoundForest.with_rule`) takes the default walk."""
    forest: Forest

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner) -> "Traced":
        """Return the engine of ``forest``; raise a ValueError if the combiner does not suit it."""
        jax.eval_shape(leaf_table, forest, combiner)
        return cls(forest)


def answer_traced(engine: Traced, combiner: Combiner, readout: str | None, values: Any, mask: Any) -> PyTree:
    """Return the answer for encoded instances ``values``, or one ``readout`` of it; ``mask`` is a tree mask or None."""
    return read_answer(combiner.finish(merge_lifted(engine.forest, combiner, values, mask)), readout)


FloatIndices: TypeAlias = tuple[list[int], list[int]]
"""(indices of the planes, indices of the numbers per tree) that are floats: only these have tangents."""


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _merge(spec: Spec, plan: Plan, planes, scalars, x, mask):
    """Return (merged planes, merged numbers per tree) of instances ``x``, with gradients in ``planes`` and ``scalars``.

    ``planes``, ``scalars`` and the layout in ``spec`` are those of `cut`. ``plan`` and ``spec`` agree in ``missing``.
    """
    totals = merge_scalars(spec.layout.scalars, scalars)
    tables, rows = pack_by_place(planes, plan, spec.layout)
    packed = PackedTrees(plan, tables, scalars, totals, rows, sets=None, spec=spec)
    return packed.results(packed.merge_to_carry(x, mask))


@_merge.defjvp
@own_settings()
def _merge_jvp(spec, primals, tangents):
    """Return (merged statistic, its tangents): the rule by which JAX differentiates `_merge`.

    ``primals`` are the arguments of `_merge` behind ``spec``. Of their ``tangents`` those of planes and of numbers per
    tree are used: instances have none. `_push_tangents` makes tangents, and its transpose `_pull_cotangents` gradients.
    Each walks to the leaves again, so that leaves need not be stored.
    """
    _, planes, scalars, _, _ = primals
    _, plane_tangents, scalar_tangents, _, _ = tangents
    merged = _merge(spec, *primals)
    merged_planes, merged_scalars = merged
    residuals = lax.stop_gradient((*primals, merged))
    # Only floats have tangents, which are pushed through in the order of `floats`.
    float_planes = [i for i, plane in enumerate(planes) if _is_float(plane)]
    float_scalars = [i for i, number in enumerate(scalars) if _is_float(number)]
    floats = float_planes, float_scalars
    in_tangents = [plane_tangents[i] for i in float_planes], [scalar_tangents[i] for i in float_scalars]
    zero_outs = (
        [jnp.zeros_like(_high_part(merged_planes[i])) for i in float_planes],
        [jnp.zeros_like(_high_part(merged_scalars[i])) for i in float_scalars],
    )
    start, unravel = ravel_pytree((in_tangents, zero_outs))

    # `custom_linear_solve` is the only function of JAX that takes a transpose and works under `vmap`. `push` is its
    # "solve": (in_tangents, out) ↦ (in_tangents, out + tangents of what is merged), both in one vector. `pull` is the
    # transpose. The matrix is unused.
    def push(_, vector):
        in_tangents, out = unravel(vector)
        out = jax.tree.map(jnp.add, out, _push_tangents(spec, floats, residuals, in_tangents))
        return ravel_pytree((in_tangents, out))[0]

    def pull(_, vector):
        in_tangents, out = unravel(vector)
        in_tangents = jax.tree.map(jnp.add, in_tangents, _pull_cotangents(spec, floats, residuals, out))
        return ravel_pytree((in_tangents, out))[0]

    solution = lax.custom_linear_solve(lambda vector: vector, start, push, pull)
    _, out_tangents = unravel(solution)
    return merged, tuple(map(_as_tangents, merged, floats, out_tangents))


def _is_float(part: Array) -> bool:
    """Return whether the array ``part`` holds floats, and so has tangents."""
    return jnp.issubdtype(part.dtype, jnp.floating)


def _high_part(part: Any) -> Array:
    """Return the array of a merged plane ``part`` that has a gradient: ``high`` of a `TwoFloat`, else all of it."""
    return getattr(part, "high", part)


def _as_tangents(parts: list, indices: list[int], out_tangents: list[Array]) -> list:
    """Return a tangent for each of ``parts``, merged planes or numbers per tree.

    The parts at ``indices`` have those in ``out_tangents``; the tangents of other parts are zeros.
    """

    def zero_tangent(leaf):
        return jnp.zeros_like(leaf) if _is_float(leaf) else np.zeros(leaf.shape, jax.dtypes.float0)

    tangents = jax.tree.map(zero_tangent, parts)
    for i, tangent in zip(indices, out_tangents, strict=True):
        # A part that is no array is a `TwoFloat`.
        tangents[i] = tangent if isinstance(parts[i], jax.Array) else tangents[i]._replace(high=tangent)
    return tangents


def _push_tangents(
    spec: Spec, floats: FloatIndices, residuals: tuple, in_tangents: tuple[list, list]
) -> tuple[list, list]:
    """Return (tangents of merged planes, tangents of merged numbers per tree), for those whose indices are ``floats``.

    ``in_tangents`` are (tangents of these planes, tangents of these numbers) before merging. ``residuals`` are the
    arguments of `_merge` behind ``spec``, and behind them its result.
    """
    _, _, scalars, x, mask, (merged, merged_scalars) = residuals
    float_planes, float_scalars = floats
    in_plane_tangents, in_scalar_tangents = in_tangents
    kinds = [spec.layout.planes.kinds[i] for i in float_planes]

    def step(outs, t, leaf, hits, _):
        """Return ``outs``, a block's tangents, with those of the leaves ``leaf`` of tree t added where ``hits``."""
        new_outs = []
        for kind, out, in_tangent, hit in zip(kinds, outs, in_plane_tangents, hits, strict=True):
            leaf_tangent = jnp.where(hit, in_tangent[t, leaf], 0)
            new_outs.append(out.at[:, t].set(leaf_tangent) if kind == "collect" else out + leaf_tangent)
        return new_outs

    zero_tangents = varying_as(x, [jnp.zeros_like(_high_part(merged[i])) for i in float_planes])

    def block(whole, start, size, visit):
        """Return ``whole``, the tangents of all instances, with those of a block of ``size`` written at ``start``."""
        outs = visit(step, [jnp.zeros_like(lax.dynamic_slice_in_dim(part, start, size)) for part in whole])
        return [lax.dynamic_update_slice_in_dim(part, out, start, 0) for part, out in zip(whole, outs, strict=True)]

    # The last block overwrites the tangents of instances that were in the block before: they must be complete again.
    plane_tangents = _over_leaves(spec, float_planes, residuals, zero_tangents, block, count_twice=True)
    scalar_tangents = []
    for i, in_tangent in zip(float_scalars, in_scalar_tangents, strict=True):
        contributes = _contributing_trees(spec.layout.scalars.kinds[i], scalars[i], merged_scalars[i], mask)
        tangent = jnp.sum(jnp.where(contributes, in_tangent, 0), axis=1)
        scalar_tangents.append(tangent.reshape(_high_part(merged_scalars[i]).shape))
    return plane_tangents, scalar_tangents


def _pull_cotangents(spec: Spec, floats: FloatIndices, residuals: tuple, out: tuple[list, list]) -> tuple[list, list]:
    """Return (cotangents of planes, cotangents of numbers per tree): the transpose of `_push_tangents`.

    ``out`` has the cotangents of the two values that `_push_tangents` returns. Other arguments are the same.
    """
    _, planes, scalars, _, mask, (_, merged_scalars) = residuals
    float_planes, float_scalars = floats
    plane_outs, scalar_outs = out
    kinds = [spec.layout.planes.kinds[i] for i in float_planes]

    def step(tables, t, leaf, hits, pulls):
        """Return the cotangents ``tables`` with a block's ``pulls`` added where it ``hits`` a ``leaf`` of tree t."""
        new_tables = []
        for kind, table, pull, hit in zip(kinds, tables, pulls, hits, strict=True):
            # Collected planes have a cotangent per tree.
            cotangent = pull[:, t] if kind == "collect" else pull
            new_tables.append(table.at[t, leaf].add(jnp.where(hit, cotangent, 0)))
        return new_tables

    def block(tables, start, size, visit):
        pulls = [lax.dynamic_slice_in_dim(plane_out, start, size) for plane_out in plane_outs]
        return visit(step, tables, pulls)

    zero_tables = [jnp.zeros_like(planes[i]) for i in float_planes]
    tables = _over_leaves(spec, float_planes, residuals, zero_tables, block)
    scalar_cotangents = []
    for i, pull in zip(float_scalars, scalar_outs, strict=True):
        contributes = _contributing_trees(spec.layout.scalars.kinds[i], scalars[i], merged_scalars[i], mask)
        scalar_cotangents.append(jnp.sum(jnp.where(contributes, jnp.reshape(pull, (-1, 1)), 0), axis=0))
    return tables, scalar_cotangents


def _over_leaves(
    spec: Spec, floats: list[int], residuals: tuple, carry: list, body: Callable, *, count_twice: bool = False
) -> list:
    """Return the last carry of ``carry = body(carry, start, size, visit)``, called for each block of instances.

    The block has ``size`` instances from ``start`` on. ``visit(step, inner, rows)`` returns the last ``inner`` of
    ``inner = step(inner, tree, leaf, hits, rows)``, called for each tree. There ``leaf [block]`` are the leaves that
    the block's instances reach, and ``rows`` is passed on. ``hits`` has an array for each of the planes with the
    indices ``floats``: which instances get a contribution from this tree. To a minimum or maximum only the first tree
    that attains it contributes.

    ``spec`` and ``residuals`` are as for `_push_tangents`. The last block overlaps the one before; with
    ``count_twice`` instances in both count twice, else once.
    """
    plan, planes, _, x, mask, (merged, _) = residuals
    n, n_trees = x.shape[0], plan.nodes.shape[0]
    tables = [planes[i] for i in floats]
    n_columns = x.shape[1] * (1 + spec.missing)
    size = min(block_size(spec.walk, n_trees, n_columns), max(n, 1), spec.block)

    def block(carry, start, first):
        """Return the carry of ``body`` for the block at ``start``, whose new instances begin at ``first``."""
        rows_of = lambda array: lax.dynamic_slice_in_dim(array, start, size)
        keys = column_keys(rows_of(x), missing=spec.missing)
        is_new = jnp.ones(size, bool) if count_twice else start + jnp.arange(size) >= first
        contributes = is_new[None] if mask is None else rows_of(mask).T & is_new  # [1 or trees, block]
        # To a minimum or maximum, merged before, only trees contribute whose leaf attains it; None for other planes.
        extremes = [rows_of(merged[i]) if spec.layout.planes.kinds[i] in ("min", "max") else None for i in floats]
        leaf_of = _leaves_by_tree(spec, plan, keys)

        def visit(step, inner, of_rows=None):
            """Return ``inner``, folded by ``step`` over all trees; ``of_rows`` is passed on to ``step``."""

            def fold_tree(t, inner_and_attained):
                """Fold tree t; ``attained`` tells for each plane whether an earlier tree attained its extreme."""
                inner, attained = inner_and_attained
                leaf = leaf_of(t)
                tree_contributes = contributes[0] if mask is None else contributes[t]
                hits, attained = _hits(tables, t, leaf, tree_contributes, extremes, attained)
                return step(inner, t, leaf, hits, of_rows), attained

            shapes = spec.layout.shapes(size)
            not_attained = varying_as(x, [jnp.zeros(shapes[i], bool) for i in floats])
            inner, _ = lax.fori_loop(0, n_trees, fold_tree, (inner, not_attained))
            return inner

        return body(carry, start, size, visit)

    return over_blocks(block, carry, n, size) if n and floats else carry


def _hits(
    tables: list[Array], t: Array, leaf: Array, contributes: Array, extremes: list[Array | None], attained: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Return (which instances tree ``t`` contributes to, ``attained`` after this tree), an array for each plane.

    ``tables`` are the planes, and ``leaf [block]`` the leaves that a block's instances reach in the tree. ``contributes
    [block]`` tells whether the tree counts for an instance. ``extremes`` has the merged values of minima and maxima,
    None for other planes. ``attained`` tells whether an earlier tree attained them.
    """
    hits, attained_so_far = [], []
    for table, extreme, is_attained in zip(tables, extremes, attained, strict=True):
        hit = contributes if table.ndim == 2 else contributes[:, None]
        if extreme is not None:
            hit = hit & (table[t, leaf] == extreme) & ~is_attained
            is_attained = is_attained | hit
        hits.append(hit)
        attained_so_far.append(is_attained)
    return hits, attained_so_far


def _leaves_by_tree(spec: Spec, plan: Plan, keys: Int32[Array, "block columns"]) -> Callable[[Any], Array]:
    """Return a function that takes a tree's index, and returns the leaf ``[block]`` of each instance in that tree.

    ``keys`` are the block's, made by `column_keys`. A leaf is a node of its tree.
    """
    if spec.walk == "levels":  # all trees are walked now, since they are walked together
        n_trees, n_places = plan.nodes.shape
        places = walk_levels(plan, keys, spec.depth).T - jnp.arange(n_trees)[:, None] * n_places
        return lambda tree: places[tree] - plan.n_exits
    rows_of_keys = by_column(keys)

    def leaf_of(tree):
        tree_plan = jax.tree.map(lambda array: array[tree], plan)
        return node_at(tree_plan, walk_tree(tree_plan, rows_of_keys))

    return leaf_of


def _contributing_trees(kind: str, values: Array, out: Any, mask: Any) -> Array:
    """Return whether each tree's number contributes to the merged number: ``[instances trees]``, or ``[1 trees]``.

    To a minimum or maximum only the first tree that attains it contributes. ``kind`` is the name of the merge, ``values
    [trees]`` are the trees' numbers, and ``out`` is the merged number, one or one for each instance. Without a ``mask``
    (None) the result has a single row.
    """
    contributes = jnp.ones((1, len(values)), bool) if mask is None else mask
    if kind in ("min", "max"):
        contributes = contributes & (values == jnp.reshape(out, (-1, 1)))
        contributes = contributes & (jnp.cumsum(contributes, axis=1) == 1)  # the first that attains it
    return contributes


_merge_jitted = jit(_merge, static_argnums=0)


def _merge_beside(spec: Spec, beside: tuple, x: Any, mask: Any) -> Any:
    """Return `_merge` of instances ``x``, with the arguments in the order that `map_over_devices` passes.

    ``beside`` is (plan, planes, scalars).
    """
    return _merge_jitted(spec, *beside, x, mask)

"""Lifting counts: what the leaves of one tree contribute."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import warn_of_fractions
from jaxunc._numerics import float_dtype, jit
from jaxunc._types import PyTree

from ._merge import merge_kinds

if TYPE_CHECKING:
    from ._combiner import Combiner


def tree_axes(fold: "Combiner") -> PyTree:
    """Return the pytree of vmapped axes: 0 for each array of a rule with a leading tree axis, None for all others."""

    def axis(path, leaf):
        node: Any = fold
        for key in path:
            if isinstance(key, jax.tree_util.GetAttrKey):
                fields = {f.name: f for f in getattr(node, "__dataclass_fields__", {}).values()}
                # The first field on the way decides: all arrays below a field by tree have trees in front.
                if key.name in fields and fields[key.name].metadata.get("per_tree"):
                    return 0 if jnp.ndim(leaf) else None  # one number serves all trees
                node = getattr(node, key.name)
            elif isinstance(key, jax.tree_util.DictKey):
                node = node[key.key]
            elif isinstance(key, jax.tree_util.SequenceKey):
                node = node[key.idx]
            else:
                return None
        return None

    return jax.tree_util.tree_map_with_path(axis, fold)


def has_tree_fields(fold: "Combiner") -> bool:
    """Return whether any field of the rule differs from tree to tree."""
    return bool(jax.tree.leaves(tree_axes(fold)))


def check_tree_fields(fold: "Combiner", n_trees: int) -> None:
    """Raise a ValueError unless every per-tree field has one entry per tree."""

    def check(path, axis, leaf):
        if axis == 0 and (jnp.ndim(leaf) == 0 or leaf.shape[0] != n_trees):
            raise ValueError(
                f"{type(fold).__name__}{jax.tree_util.keystr(path)} has shape {jnp.shape(leaf)}, but there are "
                f"{n_trees} trees: pass one entry per tree, shape ({n_trees},)."
            )

    jax.tree_util.tree_map_with_path(check, tree_axes(fold), fold, is_leaf=lambda x: x is None)


def warn_if_sizes_are_lost(fold: "Combiner", counts: Num[Array, "... classes"]) -> None:
    """Warn of counts that look like frequencies if the rule reads leaf sizes."""
    if fold.reads_sizes:
        warn_of_fractions(counts)


def lift_tree(fold: "Combiner", counts: Num[Array, "rows classes"]) -> PyTree:
    """Lift one tree's leaves, checking that the statistic has the shape that a rule promises."""
    stat = fold.lift(counts)
    rows = counts.shape[0]
    for path, part in jax.tree_util.tree_leaves_with_path(stat):
        shape = jnp.shape(part)
        if shape and shape[0] != rows:
            raise ValueError(
                f"{type(fold).__name__}.lift returned an array of shape {shape} at stat{jax.tree_util.keystr(path)} "
                f"for counts of shape {counts.shape}; expected ({rows},), ({rows}, …) or a scalar for the whole tree."
            )
    kinds = merge_kinds(fold.merge, stat)
    parts, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, stat))
    # Only exact sums keep integers: other merges carry floats.
    parts = [p if kind == "exact_sum" else p.astype(float_dtype(p)) for kind, p in zip(kinds, parts, strict=True)]
    return jax.tree.unflatten(structure, parts)


_lift_rows_once = jit(lift_tree)


def lift_rows(fold: "Combiner", counts: Num[Array, "distinct classes"]) -> PyTree:
    """Lift a power of two of count vectors that are the same for all trees (outside a trace)."""
    # In parts of fixed length they need no program for each length.
    length = next(part for part in (_LONG, _SHORT, len(counts)) if len(counts) % part == 0)
    parts = [_lift_rows_once(fold, counts[start : start + length]) for start in range(0, len(counts), length)]
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *rows: _joined(rows), *parts)


_SHORT, _LONG = 1024, 16384


def _joined(rows: tuple[Array, ...]) -> Array:
    """Join parts of a table one after the other; a number for the whole tree is the same in all."""
    return jnp.asarray(np.concatenate(rows)) if rows[0].ndim else rows[0]


def columns_of(
    counts: Num[Array, "... columns"], given: tuple[str, ...], asked: tuple[str, ...]
) -> Num[Array, "... asked_columns"]:
    """Return the asked columns of counts that stand side by side in the order of the given names."""
    if given == asked:
        return counts
    n_classes = counts.shape[-1] // len(given)
    starts = [n_classes * given.index(name) for name in asked]
    parts = [counts[..., start : start + n_classes] for start in starts]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)

"""Lifting counts tree by tree, merging the contributions, and reading the answer."""

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, Num, PyTree

from jaxunc._checks import is_concrete, warn_of_fractions
from jaxunc._numerics import float_dtype
from jaxunc.forest import Forest

from ._answer import Answer
from ._merge import accumulator, merge_kinds

if TYPE_CHECKING:
    from ._fold import Fold


def tree_axes(fold: "Fold") -> PyTree:
    """For each array of a fold 0 if it has a leading tree axis, else None."""

    def axis(path, leaf):
        node: Any = fold
        for key in path:
            if isinstance(key, jax.tree_util.GetAttrKey):
                fields = {f.name: f for f in getattr(node, "__dataclass_fields__", {}).values()}
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


def has_tree_fields(fold: "Fold") -> bool:
    """Whether any field of the fold differs from tree to tree."""
    return bool(jax.tree.leaves(tree_axes(fold)))


def check_tree_fields(fold: "Fold", n_trees: int) -> None:
    """Raise a ValueError unless every per-tree field has one entry per tree."""

    def check(path, axis, leaf):
        if axis == 0 and (jnp.ndim(leaf) == 0 or leaf.shape[0] != n_trees):
            raise ValueError(
                f"{type(fold).__name__}{jax.tree_util.keystr(path)} has shape {jnp.shape(leaf)}, but there are "
                f"{n_trees} trees: pass one entry per tree, shape ({n_trees},)."
            )

    jax.tree_util.tree_map_with_path(check, tree_axes(fold), fold, is_leaf=lambda x: x is None)


def warn_if_sizes_are_lost(fold: "Fold", counts: Num[Array, "... classes"]) -> None:
    """Warn of counts that look like frequencies if the rule reads leaf sizes."""
    if fold.reads_sizes:
        warn_of_fractions(counts)


def _lift_rows(fold: "Fold", counts: Num[Array, "rows classes"]) -> PyTree:
    """Lift one tree's leaves, checking that the statistic has the shape that a fold promises."""
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


_lift_rows_once = jax.jit(_lift_rows)


def lift_forest(fold: "Fold", forest: Forest) -> PyTree:
    """The leaf table of a forest: planes ``[trees nodes]`` or ``[trees nodes stat]``, scalars ``[trees]``.

    Computed per distinct count vector, unless fields differ from tree to tree.
    """
    check_tree_fields(fold, forest.n_trees)
    # Arrays alone: a forest's labels are no reason to compile again.
    table, code = forest.count_table, forest.code
    warn_if_sizes_are_lost(fold, table)
    if has_tree_fields(fold) or not is_concrete(fold, table):
        return _lift_table(fold, table, code)
    return _spread(lift_rows(fold, table), code)


def lift_rows(fold: "Fold", counts: Num[Array, "distinct classes"]) -> PyTree:
    """Lift a power of two of count vectors that are the same for all trees (outside a trace)."""
    # In parts of fixed length they need no program for each length.
    length = next(part for part in (_LONG, _SHORT, len(counts)) if len(counts) % part == 0)
    parts = [_lift_rows_once(fold, counts[start : start + length]) for start in range(0, len(counts), length)]
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *rows: _joined(rows), *parts)


_SHORT, _LONG = 1024, 16384


@jax.jit
def _lift_table(fold: "Fold", table: Num[Array, "distinct classes"], code: Int32[Array, "trees nodes"]) -> PyTree:
    if has_tree_fields(fold):
        return jax.vmap(_lift_rows, in_axes=(tree_axes(fold), 0))(fold, table[code])
    return _spread(_lift_rows(fold, table), code)


@jax.jit
def _spread(stat: PyTree, code: Int32[Array, "trees nodes"]) -> PyTree:
    """From distinct count vectors to the nodes that have them."""
    return jax.tree.map(lambda part: part[code] if part.ndim else jnp.broadcast_to(part, code.shape[:1]), stat)


def _joined(rows: tuple[Array, ...]) -> Array:
    """Parts of a table one after the other; a number for the whole tree is the same in all."""
    return jnp.asarray(np.concatenate(rows)) if rows[0].ndim else rows[0]


def read_answer(answer: PyTree, readout: str | None) -> PyTree:
    """One read-out of every `Answer` in a pytree; None returns the answers themselves."""
    if readout is None:
        return answer
    is_answer = lambda node: isinstance(node, Answer)  # noqa: E731
    answers = [node for node in jax.tree.leaves(answer, is_leaf=is_answer) if is_answer(node)]
    if readout != "class_scores" and not answers:
        raise ValueError(f"this rule has no {readout}: it answers with {type(answer).__name__}. Call it directly.")
    if readout == "score" and any(node.score is None for node in answers):
        raise ValueError(
            "score is defined for two classes only; for more use the class scores (call the rule) or .probability."
        )
    if any(getattr(node, readout) is None for node in answers):
        raise ValueError(
            f"{readout} is not defined for scores without a bound, such as those of linear and ucb. Rank by the class "
            "scores (call the rule), or use Pooling, which gives leaves that weight and probabilities too."
        )
    return jax.tree.map(lambda node: getattr(node, readout) if is_answer(node) else node, answer, is_leaf=is_answer)


def _masked(part: Array, passing: Bool[Array, "trees rows"], neutral: float | int) -> Array:
    """What trees contribute to each row, numbers for a whole tree too; the neutral value where they do not count."""
    part = part if part.ndim > 1 else jnp.broadcast_to(part[:, None], passing.shape)
    return jnp.where(passing.reshape(*passing.shape, *[1] * (part.ndim - 2)), part, jnp.asarray(neutral, part.dtype))


@partial(jax.jit, static_argnames="readout")
def combine_counts(
    fold: "Fold",
    counts: Num[Array, "... trees classes"],
    readout: str | None,
    mask: Bool[Array, "... trees"] | None = None,
) -> PyTree:
    """Lift each tree's counts, merge those that the mask lets pass in the order of the trees, finish."""
    *lead, n_trees, n_classes = counts.shape
    check_tree_fields(fold, n_trees)
    by_tree = jnp.moveaxis(counts, -2, 0).reshape(n_trees, -1, n_classes)
    stat = jax.vmap(_lift_rows, in_axes=(tree_axes(fold), 0))(fold, by_tree)
    passing = None if mask is None else jnp.moveaxis(mask, -1, 0).reshape(n_trees, -1)

    def with_lead(part):  # a scalar of the tree stays a scalar
        return part.reshape((*lead, *part.shape[1:])) if part.ndim else part

    return read_answer(fold.finish(jax.tree.map(with_lead, _merge_trees(fold, stat, passing))), readout)


@partial(jax.jit, static_argnames="readout")
def combine_contributions(
    fold: "Fold", stat: PyTree, readout: str | None, mask: Bool[Array, "rows trees"] | None = None
) -> PyTree:
    """Merge what the leaves of each tree contribute, ``[trees rows]``, in the order of the trees; finish."""
    merged = _merge_trees(fold, stat, None if mask is None else mask.T)
    return read_answer(fold.finish(merged), readout)


@partial(jax.jit, static_argnames="readout")
def combine_rows(
    fold: "Fold",
    stat: PyTree,
    rows: Int32[Array, "instances trees"],
    readout: str | None,
    mask: Bool[Array, "instances trees"] | None = None,
) -> PyTree:
    """Merge rows of what `lift_rows` returned, one for each instance and tree, in the order of the trees; finish."""
    pick = lambda part: part.at[rows.T].get(mode="promise_in_bounds")  # noqa: E731
    by_tree = jax.tree.map(lambda part: pick(part) if part.ndim else jnp.broadcast_to(part, rows.shape[1:]), stat)
    merged = _merge_trees(fold, by_tree, None if mask is None else mask.T)
    return read_answer(fold.finish(merged), readout)


def _merge_trees(fold: "Fold", stat: PyTree, passing: Bool[Array, "trees rows"] | None) -> PyTree:
    parts, structure = jax.tree.flatten(stat)
    kinds = merge_kinds(fold.merge, stat)
    sums = [accumulator(kind, part.dtype) for kind, part in zip(kinds, parts, strict=True)]

    def include(carry, contribution):
        merged = (
            c if acc.include is None else acc.include(c, v) for acc, c, v in zip(sums, carry, contribution, strict=True)
        )
        return list(merged), None

    if passing is not None:
        parts = [_masked(part, passing, acc.neutral) for acc, part in zip(sums, parts, strict=True)]

    start = [acc.start(() if acc.collects else p.shape[1:], p.dtype) for acc, p in zip(sums, parts, strict=True)]
    carry, _ = lax.scan(include, start, parts)

    merged = [
        jnp.moveaxis(part, 0, 1) if acc.collects else acc.result(c)
        for acc, c, part in zip(sums, carry, parts, strict=True)
    ]
    return jax.tree.unflatten(structure, merged)

"""The steps of an answer: lift each tree's leaves, merge what they contribute, finish, read the answer.

`combine_counts` takes them for counts ``[... trees classes]``. Where instances are streamed, `jaxunc.inference` takes
the same steps one by one.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Num

from jaxunc._checks import is_concrete, outside_traces, warn_of_fractions
from jaxunc._numerics import float_dtype, jit
from jaxunc._types import PyTree
from jaxunc.scorers import score_bound

from ._answer import read_answer
from ._merge import Merging, merge_kinds


@jit(static_argnames="readout")
def combine_counts(
    combiner: PyTree,
    counts: Num[Array, "... trees classes"],
    readout: str | None,
    mask: Bool[Array, "... trees"] | None = None,
) -> PyTree:
    """Lift each tree's counts, merge those that the mask lets pass in the order of the trees, finish."""
    *lead, n_trees, n_classes = counts.shape
    by_tree = jnp.moveaxis(counts, -2, 0).reshape(n_trees, -1, n_classes)
    check_tree_fields(combiner, n_trees)
    # Arrays [trees rows ...], and numbers per tree [trees].
    stat = jax.vmap(lift_tree, in_axes=(tree_axes(combiner), 0))(combiner, by_tree)
    passing = None if mask is None else jnp.moveaxis(mask, -1, 0).reshape(n_trees, -1)

    def with_lead(part):  # a scalar of the tree stays a scalar
        return part.reshape((*lead, *part.shape[1:])) if part.ndim else part

    return read_answer(combiner.finish(jax.tree.map(with_lead, merged(combiner, stat, passing))), readout)


def lift_tree(combiner: PyTree, counts: Num[Array, "rows classes"]) -> PyTree:
    """Lift one tree's leaves, checking that the statistic has the shape that a combiner promises."""
    stat = combiner.lift(counts)
    rows = counts.shape[0]
    for path, part in jax.tree_util.tree_leaves_with_path(stat):
        shape = jnp.shape(part)
        if shape and shape[0] != rows:
            raise ValueError(
                f"{type(combiner).__name__}.lift returned an array of shape {shape} at "
                f"stat{jax.tree_util.keystr(path)} for counts of shape {counts.shape}; expected ({rows},), "
                f"({rows}, …) or a scalar for the whole tree."
            )
    kinds = merge_kinds(combiner.merge, stat)
    parts, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, stat))
    # Only exact sums keep integers: other merges carry floats.
    parts = [p if kind == "exact_sum" else p.astype(float_dtype(p)) for kind, p in zip(kinds, parts, strict=True)]
    return jax.tree.unflatten(structure, parts)


def merged(combiner: PyTree, stat: PyTree, passing: Bool[Array, "trees rows"] | None) -> PyTree:
    """Merge the statistics of those trees that pass, in the order of the trees."""
    parts, structure = jax.tree.flatten(stat)
    merging = Merging.of(combiner.merge, stat)
    if passing is not None:
        parts = merging.mask(parts, passing)
    carry = merging.scan(lambda tree: tree, merging.start([part.shape[1:] for part in parts]), parts)
    return jax.tree.unflatten(structure, merging.result(carry))


_lift_rows_once = jit(lift_tree)
_SHORT, _LONG, _LIFTED_NUMBERS = 1024, 16384, 2**22
_MOST_LIFTED = 2**29
"""Numbers that may be lifted in all, 2 GB of 32 bits: some times as much is in use while they are packed."""


MANY = 32
"""Classes up to which each is worth numbers of its own in what is computed with pairs of them, or kept for a part."""


def lifted_together(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> int:
    """Return how many of the count vectors one program lifts: in such parts they need none for each number."""
    n_rows, n_classes = counts.shape
    lengths = (_LONG, _SHORT, n_rows) if n_classes <= MANY else (_length(combiner, counts), n_rows)
    return next(part for part in lengths if n_rows % part == 0)


def lift_rows(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> PyTree:
    """Lift a power of two of count vectors that are the same for all trees (outside a trace)."""
    if (length := lifted_together(combiner, counts)) == len(counts):
        return _lift_rows_once(combiner, counts)
    rows = np.asarray(counts)  # cut and joined on the host, where that compiles nothing
    parts = [_lift_rows_once(combiner, rows[start : start + length]) for start in range(0, len(rows), length)]

    def join(*rows):  # a number for the whole tree is the same in all parts
        return jax.device_put(np.concatenate(rows)) if rows[0].ndim else rows[0]

    return jax.tree.map(join, *parts)


def _length(combiner: PyTree, counts: Num[Array, "distinct classes"]) -> int:
    """Rows that are lifted at a time where classes are many: a power of two."""
    n_rows, n_classes = counts.shape
    lifted = jax.eval_shape(_lift_rows_once, combiner, jax.ShapeDtypeStruct((1, n_classes), counts.dtype))
    numbers = max(n_classes, *(math.prod(part.shape) for part in jax.tree.leaves(lifted)))
    if n_rows * numbers > _MOST_LIFTED:
        raise ValueError(
            f"{type(combiner).__name__} of {n_classes} classes makes {numbers} numbers of each leaf, and there are "
            f"{n_rows} distinct ones (padded): {n_rows * numbers * 4 / 2**30:.0f} GB. Pass a combiner that compares no "
            "pairs of classes, such as Mean or Pooling, or a forest with fewer leaves."
        )
    return min(_SHORT, 1 << max(_LIFTED_NUMBERS // numbers, 1).bit_length() - 1)


# Fields that differ from tree to tree.


def tree_axes(combiner: PyTree) -> PyTree:
    """Return the axes to map a combiner over trees by: 0 for arrays with a leading tree axis, None for all others."""

    def axis(path, leaf):
        node: Any = combiner
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

    return jax.tree_util.tree_map_with_path(axis, combiner)


def has_tree_fields(combiner: PyTree) -> bool:
    """Return whether any field of the combiner differs from tree to tree."""
    return bool(jax.tree.leaves(tree_axes(combiner)))


def check_tree_fields(combiner: PyTree, n_trees: int) -> None:
    """Raise a ValueError unless every per-tree field has one entry per tree."""

    def check(path, axis, leaf):
        if axis == 0 and (jnp.ndim(leaf) == 0 or leaf.shape[0] != n_trees):
            raise ValueError(
                f"{type(combiner).__name__}{jax.tree_util.keystr(path)} has shape {jnp.shape(leaf)}, but there are "
                f"{n_trees} trees: pass one entry per tree, shape ({n_trees},)."
            )

    jax.tree_util.tree_map_with_path(check, tree_axes(combiner), combiner, is_leaf=lambda x: x is None)


# What is checked of counts first.


def warn_if_sizes_are_lost(combiner: PyTree, counts: Num[Array, "... classes"]) -> None:
    """Warn of counts that look like frequencies if the combiner reads leaf sizes."""
    if combiner.reads_sizes:
        warn_of_fractions(counts)


def check_own_scorers(combiner: PyTree, counts: Num[Array, "... classes"]) -> None:
    """Refuse a combiner whose scorer, a user's own, gives these leaves scores beyond its width; traced ones pass.

    Their probabilities would be cut in silence.
    """
    scorers = list(combiner._own_scorers())
    if not scorers or not is_concrete(scorers, counts):
        return
    for scorer in scorers:
        with outside_traces():
            scores, bound = np.asarray(scorer(counts)), score_bound(scorer, counts.shape[-1])
        if scores.shape not in (counts.shape, counts.shape[:-1]):  # lifting says what is wrong
            continue
        if scores.size and np.abs(scores).max(initial=0, where=~np.isnan(scores)) > bound * (1 + 1e-4):
            place = np.unravel_index(np.nanargmax(np.abs(scores)), scores.shape)
            raise ValueError(
                f"the scorer {getattr(scorer.func, '__name__', 'of the combiner')} gives the leaf "
                f"{np.asarray(counts)[place[: counts.ndim - 1]].tolist()} the score {scores[place]:.6g}; scores up to "
                f"±{bound:.6g} read as probabilities. Declare how far they reach, @jaxunc.scorers.scorer(width=…): inf "
                "for scores without a bound, which have no probability."
            )

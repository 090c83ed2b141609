"""Which leaf an instance falls into, tree by tree."""

from collections.abc import Callable
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float32, Int32, Num, Shaped

from jaxunc._checks import check_one_of, is_concrete
from jaxunc._numerics import along_instances, jit
from jaxunc.forest import Forest, Trees, check_is_forest
from jaxunc.tables import InstancesLike, SparseRows, encode_rows, encode_traced

from ._drive import Chunk, Part, Shapes, cut, drive_on_host
from ._plan import Plan, column_keys, known_plan, make_plan, node_at
from ._tested import bounded, on_tested
from ._walk import (
    Walk,
    are_few,
    block_size,
    by_column,
    default_walk,
    over_blocks,
    unrolled_depth,
    walk_few,
    walk_levels,
    walk_tree,
)

SMALL, CHUNK = (1, 8, 64, 256, 512), 2048
"""Instances of compiled calls on the host."""


def leaf_index(trees: Trees | Forest, X: InstancesLike, *, walk: Walk | None = None) -> Int32[Array, "instances trees"]:
    """The node that each instance ends in, for every tree.

    Raises a ValueError or TypeError as a bound
    forest does where columns are not the trees' or hold no numbers; of a traced X only the shape is checked. No
    gradient.

    Parameters
    ----------
    trees
        The trees, or a forest of them.
    X
        Instances ``[instances features]``, NumPy, JAX, pandas or a sparse matrix. They are compared as float32; NaN is
        a missing value, ±inf and subnormals are compared exactly.
    walk
        As for `bind`.

    Returns
    -------
    Int32[Array, "instances trees"]
        Places of leaves among the nodes of each tree.
    """
    check_is_forest(trees, "trees", or_trees=True)
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    trees = trees.trees if isinstance(trees, Forest) else trees
    if (values := on_host(trees, X)) is not None:
        trees, values = on_tested(trees, values)
        return jax.device_put(leaf_index_on_host(trees, known_plan(trees), values, walk))
    plan = make_plan(trees, missing=True)
    return along_instances(lambda x: planned_leaf_index(trees, plan, x, walk), encode_traced(X, trees.columns))


def on_host(trees: Trees, X: InstancesLike) -> Float32[np.ndarray, "instances features"] | SparseRows | None:
    """The instances if they and the trees have values and do not lie on an accelerator; sparse ones as rows.

    Those of the host are cut into calls of few shapes; others go through a program of their number.
    """
    if not is_concrete(trees, X):
        return None
    values = encode_rows(X, trees.columns, infinite=True).values
    if isinstance(values, SparseRows):
        return values
    return None if isinstance(values, jax.Array) and jax.default_backend() != "cpu" else np.asarray(values)


def leaf_index_on_host(
    trees: Trees,
    plan: Plan,
    values: Float32[np.ndarray, "instances features"] | SparseRows,
    walk: Walk | None = None,
    then: Callable[[Int32[Array, "instances trees"]], Array] = lambda leaves: leaves,
) -> Int32[np.ndarray, "instances trees"] | Shaped[np.ndarray, "instances trees *each"]:
    """`leaf_index` of any number of instances, or what ``then`` makes of it, by programs of few shapes."""
    return drive_on_host(
        lambda part: then(planned_leaf_index(trees, plan, np.asarray(part.of(values)), walk, part)),
        cut(len(values), bounded(_shapes(trees, walk or default_walk()), values), 1),
        1,
        ahead=jax.default_backend() != "cpu",
    )


def planned_leaf_index(
    trees: Trees,
    plan: Plan,
    X: Num[Array | np.ndarray, "instances features"],
    walk: Walk | None = None,
    part: Part | None = None,
):
    """`leaf_index` by a plan that is made already, with missing values; of a part only the blocks that are filled."""
    walk = walk or default_walk()
    number = None if part is None or part.chunk.rows == part.chunk.block else np.int32(part.n_blocks)
    block = None if part is None or number is None else part.chunk.block
    return _leaf_index(plan, X, number, block=block, walk=walk, depth=unrolled_depth(walk, trees))


def _shapes(trees: Trees, walk: Walk) -> Shapes:
    size = block_size(walk, trees.n_trees, 2 * trees.n_features)
    if walk == "levels":
        least, middle = (Chunk(min(rows, size), min(rows, size)) for rows in (1024, 32768))
        return Shapes(middle, Chunk(size, size), (least,))
    small = tuple(Chunk(rows, min(rows, size)) for rows in SMALL)
    return Shapes(Chunk(CHUNK, size), Chunk(8 * CHUNK, size), small)


@jit(static_argnames=("block", "walk", "depth"))
def _leaf_index(plan: Plan, x, number, *, block: int | None, walk: Walk, depth: int):
    """Find the leaves of all blocks, or of so many of this size."""
    n, n_trees = x.shape[0], plan.nodes.shape[0]
    size = block or block_size(walk, n_trees, 2 * x.shape[1])

    def one(out, start, _):
        rows = min(size, n)
        keys = column_keys(lax.dynamic_slice_in_dim(x, start, rows), missing=True)
        if walk == "levels":
            first = jnp.arange(n_trees, dtype=jnp.int32) * plan.nodes.shape[1] + plan.n_exits
            leaves = walk_levels(plan, keys, depth) - first
        elif are_few(rows, n_trees):
            first = jnp.arange(n_trees, dtype=jnp.int32)[:, None] * plan.nodes.shape[1]
            leaves = jax.vmap(node_at)(plan, walk_few(plan, keys) - first).T
        else:
            rows_of_keys = by_column(keys)
            leaf_of = lambda _, tree: (None, node_at(tree, walk_tree(tree, rows_of_keys)))  # noqa: E731
            leaves = lax.scan(leaf_of, None, plan)[1].T
        return lax.dynamic_update_slice_in_dim(out, leaves, start, axis=0)

    out = jnp.zeros((n, n_trees), jnp.int32)
    return over_blocks(one, out, n, size, number) if n else out

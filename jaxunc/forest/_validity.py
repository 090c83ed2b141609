"""What must hold of a forest's arrays, as small jit-able checks with messages.

Gathers clamp an index that is out of range without a word, so arrays that come from elsewhere (files, other
libraries, hand-made trees) are checked before they are used.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool

from jaxunc._numerics import NAN_LAST

from ._forest import Forest


def _leaf(forest: Forest) -> jax.Array:
    return forest.child == jnp.arange(forest.n_nodes, dtype=jnp.int32)


def _children_after_parents(forest: Forest) -> jax.Array:
    index = jnp.arange(forest.n_nodes, dtype=jnp.int32)
    inner_ok = (forest.child > index) & (forest.child < forest.n_nodes - 1)
    return jnp.all(_leaf(forest) | inner_ok)


def _leaves_absorb(forest: Forest) -> jax.Array:
    return jnp.all(~_leaf(forest) | (forest.threshold == NAN_LAST))


def _features_in_range(forest: Forest) -> jax.Array:
    return jnp.all((forest.feature >= 0) & (forest.feature < forest.n_features))


def _codes_in_range(forest: Forest) -> jax.Array:
    return jnp.all((forest.code >= 0) & (forest.code < forest.count_table.shape[0]))


def _depths_reach_leaves(forest: Forest) -> jax.Array:
    """After as many levels as a tree's depth, every node that is reached is a leaf."""
    child = jnp.clip(forest.child, 0, forest.n_nodes - 1)
    right = jnp.clip(child + 1, 0, forest.n_nodes - 1)
    leaf, trees = _leaf(forest), jnp.arange(forest.n_trees)[:, None]

    def descend(level, reached):
        going = reached & ~leaf & (level < forest.tree_depth)[:, None]
        below = jnp.zeros_like(reached).at[trees, child].max(going).at[trees, right].max(going)
        return (reached & ~going) | below

    root = jnp.zeros((forest.n_trees, forest.n_nodes), bool).at[:, 0].set(True)
    return jnp.all(leaf | ~lax.fori_loop(0, jnp.max(forest.tree_depth), descend, root))


def _counts_admissible(forest: Forest) -> jax.Array:
    return jnp.all(jnp.isfinite(forest.count_table) & (forest.count_table >= 0))


def _prior_is_distribution(forest: Forest) -> jax.Array:
    return jnp.all(forest.prior >= 0) & (jnp.abs(jnp.sum(forest.prior) - 1) < 1e-4)


_CHECKS = {
    "children_after_parents": (
        _children_after_parents,
        "an inner node's children must lie after it and inside the tree's nodes",
    ),
    "leaves_absorb": (_leaves_absorb, "a leaf's threshold must be 2**31 - 1, so that a walk stays in it"),
    "features_in_range": (_features_in_range, "every tested feature must be one of the n_features columns"),
    "codes_in_range": (_codes_in_range, "every code must be a row of count_table"),
    "depths_reach_leaves": (_depths_reach_leaves, "a walk of tree_depth tests must end in a leaf"),
    "counts_admissible": (_counts_admissible, "class counts must be finite and >= 0"),
    "prior_is_distribution": (_prior_is_distribution, "prior must hold probabilities that add to 1"),
}


def validity(forest: Forest) -> dict[str, Bool[Array, ""]]:
    """Each invariant of a forest by name and whether it holds; traceable."""
    return {name: check(forest) for name, (check, _) in _CHECKS.items()}


def check_forest(forest: Forest) -> Forest:
    """Return the forest, or raise a ValueError that names every invariant that does not hold."""
    shapes = {name: getattr(forest, name).shape for name in ("feature", "threshold", "child", "missing_right", "code")}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"node arrays of a forest must share one shape (trees, nodes), but have {shapes}.")
    broken = [_CHECKS[name][1] for name, holds in jax.jit(validity)(forest).items() if not np.asarray(holds)]
    if broken:
        raise ValueError("the arrays make no valid forest: " + "; ".join(broken) + ".")
    return forest

"""What must hold of the arrays of trees and forests, as small jit-able checks with messages.

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
from ._trees import Trees


def _absorbs(trees: Trees) -> jax.Array:
    return trees.child == jnp.arange(trees.n_nodes, dtype=jnp.int32)


def _children_after_parents(trees: Trees) -> jax.Array:
    index = jnp.arange(trees.n_nodes, dtype=jnp.int32)
    inner_ok = (trees.child > index) & (trees.child < trees.n_nodes - 1)
    return jnp.all(_absorbs(trees) | inner_ok)


def _leaves_absorb(trees: Trees) -> jax.Array:
    return jnp.all(~_absorbs(trees) | (trees.threshold == NAN_LAST))


def _features_in_range(trees: Trees) -> jax.Array:
    n_forks = 0 if trees.forks is None else trees.forks.number
    empty = _absorbs(trees) & (trees.feature >= -n_forks)
    return jnp.all(((trees.feature >= 0) | empty) & (trees.feature < trees.n_features))


def _depths_reach_leaves(trees: Trees) -> jax.Array:
    """After as many levels as a tree's depth, every node that is reached is a leaf."""
    child = jnp.clip(trees.child, 0, trees.n_nodes - 1)
    right = jnp.clip(child + 1, 0, trees.n_nodes - 1)
    leaf, rows = _absorbs(trees), jnp.arange(trees.n_trees)[:, None]

    def descend(level, reached):
        going = reached & ~leaf & (level < trees.tree_depth)[:, None]
        below = jnp.zeros_like(reached).at[rows, child].max(going).at[rows, right].max(going)
        return (reached & ~going) | below

    root = jnp.zeros((trees.n_trees, trees.n_nodes), bool).at[:, 0].set(True)
    return jnp.all(leaf | ~lax.fori_loop(0, jnp.max(trees.tree_depth), descend, root))


def _codes_in_range(forest: Forest) -> jax.Array:
    return jnp.all((forest.code >= 0) & (forest.code < forest.count_table.shape[0]))


def _counts_admissible(forest: Forest) -> jax.Array:
    tables = [forest.count_table, *([] if forest.fork_counts is None else [forest.fork_counts])]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(table) & (table >= 0)) for table in tables]))


def _prior_is_distribution(forest: Forest) -> jax.Array:
    return jnp.all(forest.prior >= 0) & (jnp.abs(jnp.sum(forest.prior) - 1) < 1e-4)


_OF_TREES = {
    "children_after_parents": (
        _children_after_parents,
        "an inner node's children must lie after it and inside the tree's nodes",
    ),
    "leaves_absorb": (_leaves_absorb, "a leaf's threshold must be 2**31 - 1, so that a walk stays in it"),
    "features_in_range": (
        _features_in_range,
        "every tested feature must be one of the n_features columns, and an empty leaf's one of the forks",
    ),
    "depths_reach_leaves": (_depths_reach_leaves, "a walk of tree_depth tests must end in a leaf"),
}
_OF_COUNTS = {
    "codes_in_range": (_codes_in_range, "every code must be a row of count_table"),
    "counts_admissible": (_counts_admissible, "class counts must be finite and >= 0"),
    "prior_is_distribution": (_prior_is_distribution, "prior must hold probabilities that add to 1"),
}
_FORKS = (
    "the children and the empty leaves of every multi-way test must together be all that lies below its node, once "
    "each, or instances would be routed on without end"
)


def validity(forest: Trees | Forest) -> dict[str, Bool[Array, ""]]:
    """Each invariant of trees or of a forest by name and whether it holds; traceable. (Forks: `check_trees` alone.)"""
    if isinstance(forest, Trees):
        return {name: check(forest) for name, (check, _) in _OF_TREES.items()}
    return validity(forest.trees) | {name: check(forest) for name, (check, _) in _OF_COUNTS.items()}


def check_trees(trees: Trees) -> Trees:
    """Return the trees, or raise a ValueError that names every invariant that does not hold."""
    _check_shapes({name: getattr(trees, name) for name in ("feature", "threshold", "child", "missing_right")})
    _raise_if_broken(trees, "trees", _OF_TREES)
    if not _forks_are_whole(trees):
        raise ValueError(f"the arrays make no valid trees: {_FORKS}.")
    return trees


def check_forest(forest: Forest) -> Forest:
    """Return the forest, or raise a ValueError that names every invariant that does not hold."""
    trees = forest.trees
    names = ("feature", "threshold", "child", "missing_right")
    _check_shapes({name: getattr(trees, name) for name in names} | {"code": forest.code})
    _raise_if_broken(forest, "forest", _OF_TREES | _OF_COUNTS)
    if not _forks_are_whole(trees):
        raise ValueError(f"the arrays make no valid forest: {_FORKS}.")
    n_forks = 0 if trees.forks is None else trees.forks.number
    if forest.fork_counts is not None and len(forest.fork_counts) < n_forks:
        raise ValueError(
            f"fork_counts has {len(forest.fork_counts)} rows for {n_forks} multi-way tests; one is needed each."
        )
    return forest


def _check_shapes(arrays: dict[str, Array]) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"node arrays of a forest must share one shape (trees, nodes), but have {shapes}.")


def _raise_if_broken(checked: Trees | Forest, what: str, checks: dict) -> None:
    holds = jax.jit(validity)(checked)
    broken = [checks[name][1] for name, one in holds.items() if not np.asarray(one)]
    if broken:
        raise ValueError(f"the arrays make no valid {what}: " + "; ".join(broken) + ".")


def _forks_are_whole(trees: Trees) -> bool:
    """Whether the children and empty leaves of each fork partition the subtree of one node (on the host)."""
    if trees.forks is None:
        return True
    forks, child, label = trees.forks, np.asarray(trees.child), np.array(trees.fork)
    tree, first, node = (np.asarray(part) for part in (forks.tree, forks.first, forks.node))
    reached = np.asarray(trees.is_leaf) | (child != np.arange(trees.n_nodes))
    n_trees, n_nodes = child.shape
    if first.shape != (forks.number + 1,) or first[0] != 0 or first[-1] != len(node) or np.any(np.diff(first) < 1):
        return False
    if np.any((tree < 0) | (tree >= n_trees)) or np.any((node < 1) | (node >= n_nodes)):
        return False
    owner = np.repeat(np.arange(forks.number), np.diff(first))
    empty = np.nonzero(label >= 0)
    if np.any(tree[label[empty]] != empty[0]) or np.any(label[tree[owner], node] >= 0):
        return False
    parts = np.bincount(label[empty], minlength=forks.number) + np.diff(first)
    label[tree[owner], node] = owner
    labelled = label >= 0
    # A node that is the child of two forks, or of one twice, has one label.
    if np.count_nonzero(labelled) != parts.sum() or not reached[labelled].all():
        return False
    return _each_becomes_one(child, label, parts)


def _each_becomes_one(child: np.ndarray, label: np.ndarray, parts: np.ndarray) -> bool:
    """Whether the nodes with each fork's label ``[trees nodes]``, so many as ``parts``, become one from the bottom up.

    Two siblings of one fork become their parent, in all trees at a time, until the node of the multi-way test is left;
    that keeps the label which it may have as another test's child. ``label`` and ``parts`` are used up.
    """
    n_nodes, child, label = child.shape[1], child.ravel(), label.ravel()
    inner = np.flatnonzero(child != np.arange(child.size) % n_nodes)
    parent = np.full(child.size, -1)
    for side in (0, 1):
        parent[inner - inner % n_nodes + child[inner] + side] = inner
    fresh = np.flatnonzero(label >= 0)
    while len(fresh):
        place = np.sort(parent[fresh])  # a parent is looked at when either child has got its label
        place = place[np.diff(place, prepend=-1) > 0]  # np.unique hashes, which takes far longer
        left = place - place % n_nodes + child[place]
        joins = (label[left] >= 0) & (label[left] == label[left + 1])
        place, fork = place[joins], label[left[joins]]
        np.subtract.at(parts, fork, 1)
        place, fork = place[parts[fork] > 1], fork[parts[fork] > 1]
        if np.any(label[place] >= 0):
            return False
        label[place] = fork
        fresh = place
    return bool(np.all(parts == 1))

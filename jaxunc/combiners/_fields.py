"""The fields of combiners: which numbers can be learned, and which differ from tree to tree."""

from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxunc._checks import check_one_of, check_within
from jaxunc._types import PyTree

Domain = Literal["real", "positive", "unit", "simplex", "log_simplex", "ordered", "fixed"]
DOMAINS = get_args(Domain)
"""Where a learned number may lie: see `learned_field`."""


def learned_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` that `jaxunc.learning.fit_combiner` may change, and where its values lie.

    Parameters
    ----------
    domain
        ``"real"``; ``"positive"``; ``"unit"``, between 0 and 1; along the last axis ``"simplex"``, probabilities
        (a single number: that of class 1), ``"log_simplex"``, their logarithms, or ``"ordered"``, increasing;
        ``"fixed"``, not to be learned. Array fields that declare nothing are real.
    spread
        Expected move of the value from where it starts, as a standard deviation: a difference of a real number, of the
        logarithm of a positive one, of the log odds between 0 and 1 and on a simplex. Learning a value from few
        instances is held back accordingly; by one instance's log loss at one standard deviation.
    nearest
        Where learning starts from a bound of the domain, from which nothing pulls a value away: so far from it.
    **kwargs
        As for `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the body of a class.
    """
    return eqx.field(metadata=_metadata(domain, spread, nearest), **kwargs)


def tree_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` with one entry per tree along its leading axis (a weight, a reliability).

    `lift` sees the entry of its own tree; binding, blocks and shards slice the field alike. A number without axes is
    shared by all trees.

    Parameters
    ----------
    domain, spread, nearest, **kwargs
        See `learned_field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the class body.
    """
    return eqx.field(metadata={"per_tree": True, **_metadata(domain, spread, nearest)}, **kwargs)


def _metadata(domain: Domain, spread: float, nearest: float) -> dict[str, Any]:
    check_one_of("domain", domain, DOMAINS)
    check_within("spread", spread, "(0, inf)")
    check_within("nearest", nearest, "(0, inf)")
    return {"domain": domain, "spread": float(spread), "nearest": float(nearest)}


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

"""A combiner's numbers that can be learned, as real numbers without bounds ("free"), and back."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import check_collection
from jaxunc.combiners import Combiner
from jaxunc.scorers import declared


class Parameter(NamedTuple):
    """An array of a combiner: where it stands, and what it may become. Static, hashable."""

    name: str
    """Path of the array: names of fields, with dots between."""
    domain: str
    spread: float
    nearest: float
    """Distance from a bound at which learning starts, for a value that lies on the bound."""
    per_tree: bool


def parameters_of(combiner: Combiner) -> tuple[Parameter | None, ...]:
    """Return the parameter of every array of a combiner, in the order of its leaves; None for what is not learned."""
    return tuple(_parameter(combiner, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(combiner))


def _parameter(combiner: Combiner, path: tuple, leaf) -> Parameter | None:
    node: Any = combiner
    domain, spread, nearest, per_tree, names = "real", 1.0, 0.01, False, []
    for key in path:
        domains = declared(node).domains if callable(getattr(node, "func", None)) else {}
        if isinstance(key, jax.tree_util.GetAttrKey):
            field = getattr(type(node), "__dataclass_fields__", {}).get(key.name)
            metadata = {} if field is None else field.metadata
            domain, spread = metadata.get("domain", "real"), metadata.get("spread", 1.0)
            nearest = metadata.get("nearest", nearest)
            per_tree = per_tree or bool(metadata.get("per_tree"))
            names.append(key.name)
            node = getattr(node, key.name, None)
        elif isinstance(key, jax.tree_util.DictKey):
            domain = domains.get(key.key, "real")
            names.append(str(key.key))
            node = node[key.key] if isinstance(node, dict) else getattr(node, "keywords", {}).get(key.key)
        elif isinstance(key, jax.tree_util.SequenceKey):
            names.append(str(key.idx))
            node = node[key.idx] if isinstance(node, (list, tuple)) else node
    if domain == "fixed" or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
        return None
    # A single number of two classes' probabilities is that of class 1.
    domain = "unit" if domain == "simplex" and jnp.ndim(leaf) == 0 else domain
    return Parameter(".".join(names), domain, spread, nearest, per_tree)


def to_free(domain: str, value: Array, nearest: float = 0.01) -> Float[Array, "..."]:
    """Return a value as real numbers; one at a bound as if it were ``nearest`` away from it."""
    if domain == "positive":
        # At 0 the logarithm has no slope to leave by, so learning starts a little inside.
        return jnp.log(jnp.where(value > 0, value, nearest))
    if domain == "unit":
        inside = jnp.where(value <= 0, nearest, jnp.where(value >= 1, 1 - nearest, value))
        return jnp.log(inside) - jnp.log1p(-inside)
    if domain == "simplex":
        return _centred(jnp.log(jnp.where(value > 0, value, nearest / value.shape[-1])))
    if domain == "log_simplex":
        return _centred(value)
    if domain == "ordered":
        steps = jnp.log(jnp.maximum(jnp.diff(value, axis=-1), nearest))
        return jnp.concatenate([value[..., :1], steps], axis=-1)
    return value


def from_free(domain: str, free: Array) -> Array:
    """Return the value that real numbers stand for."""
    if domain == "positive":
        return jnp.exp(free)
    if domain == "unit":
        return jax.nn.sigmoid(free)
    if domain == "simplex":
        return jax.nn.softmax(free, axis=-1)
    if domain == "log_simplex":
        return jax.nn.log_softmax(free, axis=-1)
    if domain == "ordered":
        return jnp.cumsum(jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], axis=-1), axis=-1)
    return free


def _centred(logs: Array) -> Array:
    # A softmax does not see a common shift; centred, the penalty does not either.
    return logs - jnp.mean(logs, axis=-1, keepdims=True)


def learnable(combiner: Combiner, freeze: tuple[str, ...]) -> tuple[Parameter | None, ...]:
    """Return `parameters_of`, without those that are to stay as they are.

    Raises a ValueError if a name in ``freeze`` is none, or nothing is left to learn.
    """
    check_collection("freeze", freeze, "names of fields, such as ('bias',)")
    found = parameters_of(combiner)
    names = [p.name for p in found if p is not None]
    for name in freeze:
        if not any(_matches(name, known) for known in names):
            raise ValueError(f"freeze names {name!r}, but {type(combiner).__name__} can learn {sorted(names)}.")
    left = tuple(None if p is None or any(_matches(name, p.name) for name in freeze) else p for p in found)
    if not any(left):
        raise ValueError(
            f"{type(combiner).__name__} has nothing to learn"
            + (f" beside {sorted(names)}, which freeze names." if names else ": no field of it holds real numbers. ")
            + ("" if names else "LearnedPool has, and Calibrated(Mean()), or around any combiner with probabilities ")
            + ("" if names else "that does not keep what every tree says, as medians and mixtures do.")
        )
    return left


def _matches(name: str, known: str) -> bool:
    return known == name or known.startswith(name + ".") or known.endswith("." + name)


def split(combiner: Combiner, spec: tuple[Parameter | None, ...]) -> tuple[list[Array], list, Any]:
    """Split a combiner into the free numbers of what is learned, its leaves, and its structure."""
    leaves, structure = jax.tree.flatten(combiner)
    free = [
        to_free(p.domain, jnp.asarray(leaf, jnp.result_type(float)), p.nearest)
        for p, leaf in zip(spec, leaves, strict=True)
        if p is not None
    ]
    return free, leaves, structure


def join(spec: tuple[Parameter | None, ...], free: list[Array], leaves: list, structure) -> Combiner:
    """Return the combiner with these numbers."""
    rest = iter(free)
    leaves = [
        leaf if p is None else from_free(p.domain, next(rest)).astype(jnp.result_type(leaf))
        for p, leaf in zip(spec, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)


def penalty(spec: tuple[Parameter | None, ...], free: list[Array], start: list[Array]) -> Float[Array, ""]:
    """Return half the squared differences from the start, in spreads: less a Gaussian log density, per instance."""
    spreads = [p.spread for p in spec if p is not None]
    parts = [jnp.sum(((u - v) / s) ** 2) for u, v, s in zip(free, start, spreads, strict=True)]
    return 0.5 * sum(parts, jnp.zeros(()))


def is_finite(arrays) -> bool:
    """Return whether every number is finite."""
    return all(bool(np.all(np.isfinite(np.asarray(a)))) for a in jax.tree.leaves(arrays))

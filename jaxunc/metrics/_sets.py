"""Set-valued predictions as the metrics take them."""

from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import is_concrete

from ._instances import as_array, check_columns

Sets: TypeAlias = Bool[Array | np.ndarray, "instances classes"]
"""Set of classes predicted for each instance, as bools: whether each class is in it."""


def checked_sets(membership, *, name: str = "membership") -> Bool[Array, "instances classes"]:
    """Return the sets as JAX's; a TypeError unless they are bools, a ValueError for a wrong shape or an empty set."""
    membership = as_array(membership)
    if membership.dtype != bool:
        raise TypeError(
            f"{name} has dtype {membership.dtype}; expected booleans [instances classes], True for each class in the "
            "set, as jaxunc.decisions makes them. From class indices: np.eye(n_classes, dtype=bool)[y]."
        )
    check_columns(membership, name=name)
    if not len(membership):
        raise ValueError(f"{name} is empty: a mean over no instances is undefined.")
    if is_concrete(membership):
        empty = ~np.asarray(membership).any(axis=1)
        if empty.any():
            raise ValueError(
                f"{name} holds {empty.sum()} empty sets (the first in row {np.argmax(empty)}); a prediction names one "
                "class at least. Where nothing is known, let it hold all."
            )
    return jnp.asarray(membership)


def sizes_of(membership: Bool[Array, "instances classes"]) -> Int32[Array, "instances"]:
    """Return the number of classes in each set."""
    return jnp.sum(membership, axis=1, dtype=jnp.int32)


def nan_unless_sets(value: Float[Array, ""], sizes: Int32[Array, "instances"]) -> Float[Array, ""]:
    """Return the value, or NaN if a set is empty: under a trace nothing can be raised."""
    return jnp.where(jnp.all(sizes > 0), value, jnp.nan)

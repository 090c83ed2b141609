"""Class counts in a type that holds them."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import as_native, check_class_axis, check_counts, check_numbers, is_concrete

from ._two_float import float_dtype

AnyCounts = TypeVar("AnyCounts", Array, np.ndarray)


def as_counts(counts) -> Num[Array, "..."]:
    """Return the counts for JAX. Integers of the host that do not fit its 32 bits become floats.

    Floats of 16 bits become float32: they hold no count beyond 65504, and fewer digits than a sum over trees needs.
    Bools count one instance or none. Raises a TypeError for what holds no numbers.
    """
    check_numbers("counts", counts)
    if not isinstance(counts, jax.Array) and is_concrete(counts):
        # On the host: as soon as JAX has them, numbers beyond 32 bits are cut without a word.
        counts = as_native(np.asarray(counts))
        narrow = jax.dtypes.canonicalize_dtype(counts.dtype)
        if np.issubdtype(narrow, np.integer) and narrow != counts.dtype and counts.size:
            limits = np.iinfo(narrow)
            if counts.min() < limits.min or counts.max() > limits.max:
                counts = counts.astype(jnp.result_type(float))
    counts = jnp.asarray(counts)
    if counts.dtype == jnp.bool_:
        return counts.astype(jnp.int32)
    narrow_float = jnp.issubdtype(counts.dtype, jnp.floating) and counts.dtype.itemsize < 4
    return counts.astype(jnp.float32) if narrow_float else counts


def checked_counts(counts) -> Num[Array, "... classes"]:
    """Return the counts for JAX, as `as_counts` does, after checking them.

    Raises a ValueError unless the last axis can be the classes and, outside a trace, they are finite and >= 0.
    """
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    return counts


def counts_dtype(*tables) -> jnp.dtype:
    """Return the dtype that holds all of these counts: that of floats if there are any, else of the widest integers."""
    dtypes = [jax.dtypes.canonicalize_dtype(table.dtype) for table in tables]
    if any(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes):
        return float_dtype(*tables)
    return jnp.dtype(np.result_type(*dtypes))


def less_own(counts: AnyCounts, own: AnyCounts) -> AnyCounts:
    """Counts less what an instance itself adds to them, of one dtype; both of NumPy or of JAX.

    What is left of a leaf that held the instance alone is nothing, not a rounding error.
    """
    left = counts - own
    nothing = 4 * float(np.finfo(np.float32).eps) * counts.astype(float_dtype(counts))
    return left.__array_namespace__().where(left.astype(nothing.dtype) <= nothing, left.dtype.type(0), left)

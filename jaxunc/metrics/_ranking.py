"""Scores in their exact order: the keys that are sorted in their place, and the edges of groups of equal scores."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Integer, Real

from jaxunc._numerics import order_key

from ._instances import check_no_nan


def checked_scores(score, *, name: str) -> Real[Array, "..."]:
    """Return the scores for JAX. 64-bit numbers that it would cut to 32 become ranks on the host, in the same order.

    Ranks among all of them, so that scores of different columns can be compared too.
    """
    check_no_nan(score, name=name)
    if isinstance(score, np.ndarray) and jax.dtypes.canonicalize_dtype(score.dtype) != score.dtype:
        _, rank = np.unique(score, return_inverse=True)
        score = rank.reshape(score.shape).astype(np.int32)
    return jnp.asarray(score)


def sort_key(score: Real[Array, "instances"]) -> Integer[Array, "instances"]:
    """Return ints in the order of the scores: XLA would flush subnormals, and a float32 cannot hold every integer."""
    if not jnp.issubdtype(score.dtype, jnp.floating):
        return score
    if score.dtype != jnp.float64:
        return order_key(score)
    bits = lax.bitcast_convert_type(score, jnp.int64)
    return jnp.where(bits < 0, jnp.iinfo(jnp.int64).min - bits, bits)


def group_edges(keys: Integer[Array, "instances"]) -> tuple[Bool[Array, "instances"], Bool[Array, "instances"]]:
    """Return which of the sorted keys are the first, and which the last, of a group of equal keys."""
    differs, edge = keys[1:] != keys[:-1], jnp.ones(1, bool)
    return jnp.concatenate([edge, differs]), jnp.concatenate([differs, edge])

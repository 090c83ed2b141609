"""Scores in their exact order: what is sorted instead of them, and where groups of equal scores begin and end."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Integer, Real

from jaxunc._numerics import order_key

from ._instances import check_no_nan


def checked_scores(score, *, name: str) -> Real[Array, "..."]:
    """The scores for JAX. 64-bit numbers that it would cut to 32 become ranks, on the host: the order is the same.

    Ranks among all of them, so that scores of different columns can be compared too.
    """
    check_no_nan(score, name=name)
    if isinstance(score, np.ndarray) and jax.dtypes.canonicalize_dtype(score.dtype) != score.dtype:
        _, rank = np.unique(score, return_inverse=True)
        score = rank.reshape(score.shape).astype(np.int32)
    return jnp.asarray(score)


def sort_key(score: Real[Array, "instances"]) -> Integer[Array, "instances"]:
    """Integers in the order of the scores: XLA would flush subnormals, and a float32 cannot hold every integer."""
    if not jnp.issubdtype(score.dtype, jnp.floating):
        return score
    if score.dtype != jnp.float64:
        return order_key(score)
    bits = lax.bitcast_convert_type(score, jnp.int64)
    return jnp.where(bits < 0, jnp.iinfo(jnp.int64).min - bits, bits)


def group_edges(keys: Integer[Array, "instances"]) -> tuple[Bool[Array, "instances"], Bool[Array, "instances"]]:
    """Of keys in order: which are the first of a group of equal keys, and which the last."""
    differs, edge = keys[1:] != keys[:-1], jnp.ones(1, bool)
    return jnp.concatenate([edge, differs]), jnp.concatenate([differs, edge])

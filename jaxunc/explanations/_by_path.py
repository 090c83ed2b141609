"""Shapley values of leaf statistics, path by path: the definition, by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._numerics import jit

from ._paths import Paths


def values_by_path(
    paths: Paths,
    passing: Float[np.ndarray, "paths columns"],
    stat: Float[np.ndarray, "paths stat"],
    keys: Int32[Array, "instances features"],
    missing: Bool[Array, "instances features"],
) -> Float[Array, "instances features stat"]:
    """Return the shares of each column, for order keys of instances and which of their values are missing.

    Of a path with the statistic v, column i has v (o_i - z_i) ∫ Π_{f≠i} (t o_f + (1 - t) z_f) dt over t from 0 to 1: o_f
    is 1 if the instance passes the tests of f, else 0, and z_f is the chance to. Gauss and Legendre's points make it
    exact.
    """
    at, weight = np.polynomial.legendre.leggauss(max(1, -(-paths.column.shape[1] // 2)))
    dtype = jnp.result_type(float)
    numbers = (passing, stat, (at + 1) / 2, weight / 2)
    return _values(tuple(map(jnp.asarray, paths)), *(jnp.asarray(part, dtype) for part in numbers), keys, missing)


@jit
def _values(paths, z, stat, at, weight, keys, missing):
    column, low, high, passes_missing = paths
    place, n_features = jnp.maximum(column, 0), keys.shape[1]

    def one(instance):
        key, is_missing = (part[place] for part in instance)
        passes = jnp.where(is_missing, passes_missing, (key > low) & (key <= high)) | (column < 0)
        gain = passes.astype(z.dtype) - z
        factor = z[..., None] + gain[..., None] * at
        one = jnp.ones_like(factor[:, :1])
        before = jnp.cumprod(jnp.concatenate([one, factor[:, :-1]], axis=1), axis=1)
        behind = jnp.cumprod(jnp.concatenate([one, factor[:, :0:-1]], axis=1), axis=1)[:, ::-1]
        share = (before * behind) @ weight * gain
        shares = jnp.where(column < 0, 0, share)[..., None] * stat[:, None]
        return jnp.zeros((n_features, stat.shape[1]), z.dtype).at[place].add(shares)

    return jax.lax.map(one, (keys, missing))

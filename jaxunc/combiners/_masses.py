"""The mass of a tree in a vote, in pieces that add up without rounding."""

from typing import Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Num

from jaxunc._checks import check_one_of
from jaxunc._numerics import TwoFloat, float_dtype, sum_in_order

Mass: TypeAlias = Literal["equal", "leaf_size", "certainty"]
"""Mass of a tree's vote: 1, the size of its leaf, or how certain its interval is."""

_LIMB = 16


def check_mass(mass: str) -> None:
    """Raise a ValueError unless there is such a mass."""
    check_one_of("mass", mass, get_args(Mass))


def tree_mass(counts: Num[Array, "... classes"], s: Array, mass: Mass) -> dict[str, Array]:
    """The masses of leaves with these counts, as planes for exact sums: ``units``, or the limbs of large integers."""
    if mass == "equal":
        return {"units": jnp.ones(())}
    whole = jnp.issubdtype(counts.dtype, jnp.integer)
    if mass == "leaf_size" and whole:
        if counts.shape[-1] == 2 and jnp.iinfo(counts.dtype).max < 1 << 31:
            return {"units": jnp.sum(counts.astype(jnp.uint32), axis=-1, dtype=jnp.uint32)}
        # The sum of many large counts does not fit 32 bits: in two parts, each of which does.
        counts = counts.astype(jnp.int32) if counts.dtype.itemsize < 4 else counts
        low, high = counts & ((1 << _LIMB) - 1), counts >> _LIMB
        return {name: jnp.sum(limb, axis=-1, dtype=jnp.uint32) for name, limb in (("low", low), ("high", high))}
    size = sum_in_order(counts.astype(float_dtype(counts)))
    return {"units": size if mass == "leaf_size" else size / (size + s)}


def share_out(pieces: dict[str, Array], where: Bool[Array, "... k"]) -> dict[str, Array]:
    """Return the mass of a tree for each column in which it takes part."""
    return {name: jnp.where(where, piece[..., None], 0) for name, piece in pieces.items()}


def total_of(pieces: dict[str, TwoFloat]) -> TwoFloat:
    """Return the merged mass: exact for integers up to 2⁴⁶ in float32."""
    if "high" not in pieces:
        return pieces["units"]
    # A power of two moves no digits, so only the last sum could round; as a pair of floats it does not.
    return jax.tree.map(lambda part: part * 2.0**_LIMB, pieces["high"]).plus(pieces["low"])


def beyond_half(mass: TwoFloat, total: TwoFloat, kind: Mass) -> Array:
    """Return 2 mass - total, whose sign is exact: that of the sums, rounded only then.

    The masses of certainty are rounded themselves, so what is within rounding of a half is a half.
    """
    excess = TwoFloat(2 * mass.high, 2 * mass.low).minus(total).value
    if kind != "certainty":
        return excess
    slack = 1e-12 if excess.dtype == jnp.float64 else 1e-6
    return jnp.where(jnp.abs(excess) <= slack * total.high, 0.0, excess)

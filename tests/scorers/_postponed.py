"""Scorers of one's own in a module whose annotations are texts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import jaxunc as ju


def power_of_lead(counts: jax.Array, *, power: int, scale: float = 1.0, centred: bool = False) -> jax.Array:
    """A loop as long as the setting says; a switch and a number beside it."""
    share = ju.scorers.probability(counts)
    return scale * jnp.prod(jnp.stack([share] * power), axis=0) - (0.1 if centred else 0.0)


@ju.scorers.scorer(width=4.0, static=("steps",), reads_sizes=True)
def declared(counts: jax.Array, *, steps: tuple[int, ...], weight: jax.Array | float) -> jax.Array:
    """A tuple that chooses the program, and a whole number that does not."""
    return weight * jnp.sum(jnp.stack([ju.scorers.probability(counts) / step for step in steps]), axis=0)

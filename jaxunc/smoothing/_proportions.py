"""Summary of the leaves for a fit: their class proportions, by weight, and how these vary.

Here and in the files that fit, `xp` is NumPy (concrete counts: float64, on the host) or `jax.numpy` (under a trace).
"""

from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxunc._numerics import add_up, log1p_minus


class Leaves(NamedTuple):
    """Leaves as an artificial sample: proportions and weights ``[... leaves]``; statistics ``[... classes]``."""

    proportions: Any
    """Class proportions ``[... leaves classes]``, zeros replaced where the fit cannot have them."""
    weight: Any
    """Shares of the sample ``[... leaves]``; 0 for leaves without instances."""
    mean: Any
    raw_mean: Any
    """Mean of the proportions as they are, with their zeros."""
    equal: Any
    """Whether all leaves have the same proportions, ``[...]``."""
    pure: Any
    """Whether all leaves are pure, ``[...]``."""
    empty: Any
    """Whether no leaf has instances, ``[...]``."""


def leaves_of(counts, times, *, by_size: bool, clip: float | None, xp: ModuleType) -> Leaves:
    """Return the leaves' proportions, each as often as ``times`` says.

    ``clip`` takes the place of 0, at the cost of the other classes.
    """
    size = add_up(counts, -1)
    filled = size > 0
    raw = counts / xp.where(filled, size, 1)[..., None]
    weight = xp.where(filled, times * (size if by_size else 1.0), 0.0)
    total = add_up(weight, -1, keepdims=True)
    weight = weight / xp.where(total > 0, total, 1)
    if xp is jnp:
        # Fused into all that reads them, they would be compiled many times over.
        weight, raw = lax.optimization_barrier((weight, raw))
    absent = (raw == 0) & filled[..., None]
    proportions = raw
    if clip is not None:
        # What clip adds is taken from the others in proportion, so that shares still add to 1.
        proportions = xp.where(absent, clip, raw * (1 - clip * add_up(absent, -1, keepdims=True).astype(raw.dtype)))
    largest = xp.where(filled[..., None], proportions, -1).max(axis=-2)
    smallest = xp.where(filled[..., None], proportions, 2).min(axis=-2)
    return Leaves(
        proportions,
        weight,
        _mean(weight, proportions),
        _mean(weight, raw),
        equal=(largest - smallest <= 4 * xp.finfo(counts.dtype).eps).all(axis=-1),
        pure=(add_up(absent, -1) == counts.shape[-1] - 1).all(axis=-1, where=filled),
        empty=~filled.any(axis=-1),
    )


def variance(leaves: Leaves, xp: ModuleType):
    """Return the variance of each class's proportion ``[... classes]``, of the sample as a population."""
    apart = xp.where((leaves.weight > 0)[..., None], leaves.proportions - leaves.mean[..., None, :], 0)
    return _mean(leaves.weight, apart * apart)


def mean_log_gap(leaves: Leaves, xp: ModuleType):
    """Mean of ``log p`` less the logarithm of the mean of ``p``, ``[... classes]``: never positive.

    The mean of log(1+x) - x with x = p/mean - 1, whose own mean is zero: proportions that hardly differ lose nothing.
    """
    mean = leaves.mean[..., None, :]
    apart = (leaves.proportions - mean) / xp.where(mean > 0, mean, 1)
    return _mean(leaves.weight, log1p_minus(xp.where((leaves.weight > 0)[..., None], apart, 0), xp))


def _mean(weight, values):
    return add_up(weight[..., None] * values, -2)

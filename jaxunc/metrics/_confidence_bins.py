"""Predictions of the top label by bins of their confidence."""

from typing import Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import check_integer, check_one_of

Strategy: TypeAlias = Literal["uniform", "quantile"]
"""Strategy of the bins: of equal width, or of equal numbers of instances."""


class Binned(NamedTuple):
    """The confidence of each instance, whether its predicted class is the true one, and its bin."""

    confidence: Float[Array, "instances"]
    correct: Bool[Array, "instances"]
    bin_of: Int32[Array, "instances"]


def checked_bins(n_bins: int, strategy: str) -> int:
    """Return the number of bins; an error unless it is an integer >= 1 and the strategy is known."""
    check_one_of("strategy", strategy, ("uniform", "quantile"))
    check_integer("n_bins", n_bins, 1)
    return int(n_bins)


def binned(
    probs: Float[Array, "instances classes"], y: Int32[Array, "instances"], n_bins: int, strategy: str
) -> Binned:
    """Return the predicted classes by bins: ((b-1)/B, b/B], or up to the confidence of rank ⌈bn/B⌉."""
    n = probs.shape[0]
    confidence = jnp.max(probs, axis=-1)
    if strategy == "uniform":
        # Rounded once from the exact quotients: a confidence of 0.3 then lies in the bin that ends at 0.3.
        edges = jnp.asarray(np.arange(1, n_bins) / n_bins, probs.dtype)
    else:
        ranks = np.array([-(-b * n // n_bins) for b in range(1, n_bins)], dtype=int)
        # Bins are taken as they are: the gradient is that of the confidences.
        edges = jnp.sort(lax.stop_gradient(confidence))[ranks - 1]
    bin_of = jnp.sum(confidence[:, None] > edges[None, :], axis=1, dtype=jnp.int32)
    return Binned(confidence, lax.argmax(probs, axis=1, index_dtype=jnp.int32) == y, bin_of)

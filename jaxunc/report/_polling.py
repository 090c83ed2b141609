"""How many trees a vote of the forest needs."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Num

from jaxunc.stopping import stop_after

CONFIDENCE = 0.99
"""Of the class to be that of a forest without end."""

POLL_MEASURES = ("n_polled", "settled", "accuracy", "whole_accuracy", "same")
"""Mean trees polled, share of votes that are settled, accuracy of the polled and of the whole vote, and how often both
say the same."""


def polling(leaves: Num[Array, "instances trees classes"], y: Int[Array, "instances"]) -> dict[str, float]:
    """`POLL_MEASURES` of a majority vote that stops for each instance once it is settled; of the leaves' counts."""
    votes, n_classes = jnp.argmax(leaves, axis=-1).astype(jnp.int32), leaves.shape[-1]
    heard = stop_after(votes, n_classes, confidence=CONFIDENCE)
    whole = jnp.argmax(jnp.sum(votes[..., None] == jnp.arange(n_classes), axis=1), axis=1)
    values = heard.n_polled, heard.settled, heard.predicted == y, whole == y, heard.predicted == whole
    return {name: round(float(np.mean(of)), 7) for name, of in zip(POLL_MEASURES, map(np.asarray, values), strict=True)}

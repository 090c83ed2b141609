"""Measures of how many trees a vote of the forest needs."""

import numpy as np
from jaxtyping import Array, Int, Num

from jaxunc.voting import stop_after, votes_of_counts

CONFIDENCE = 0.99
"""Confidence that the class is that of a forest without end."""

POLL_MEASURES = ("n_polled", "settled", "accuracy", "whole_accuracy", "same")
"""Mean trees polled, share of votes that are settled, accuracy of the polled and of the whole vote, and how often both
say the same."""


def polling(leaves: Num[Array, "instances trees classes"], y: Int[Array, "instances"]) -> dict[str, float]:
    """Return `POLL_MEASURES` of a majority vote that stops for each instance once it is settled, from leaf counts."""
    n_trees, n_classes = leaves.shape[1:]
    votes = votes_of_counts(np.asarray(leaves), np.arange(n_trees)).astype(np.int32)
    result = stop_after(votes, n_classes, confidence=CONFIDENCE)
    whole = np.stack([np.sum(votes == c, axis=1) for c in range(n_classes)], axis=1).argmax(axis=1)
    values = result.n_trees_used, result.settled, result.predicted == y, whole == y, result.predicted == whole
    return {name: round(float(np.mean(of)), 7) for name, of in zip(POLL_MEASURES, map(np.asarray, values), strict=True)}

"""Votes, and the stopping rule as the paper writes it: a loop over instances and trees in float64."""

import numpy as np
from scipy.special import betainc

from tests._forests import forest_of_leaves


def drawn_votes(rng, n: int, n_trees: int, n_classes: int) -> np.ndarray:
    """Votes ``[instances trees]``: some instances are clear, some doubtful, some tied from end to end."""
    p = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    votes = np.array([rng.choice(n_classes, size=n_trees, p=row) for row in p])
    votes[: n // 10] = np.arange(n_trees) % 2
    return votes.astype(np.int32)


def forest_of_votes(votes: np.ndarray, n_classes: int):
    """A forest whose trees vote so, and its instances."""
    return forest_of_leaves(2 * np.eye(n_classes)[votes] + 1)


def naive(votes, n_classes: int, confidence: float, settled) -> tuple[np.ndarray, ...]:
    """Trees heard, class, whether settled, and votes; ``settled(counts, t)`` says when."""
    found = []
    for row in votes:
        counts, done = np.zeros(n_classes, int), False
        for t, vote in enumerate(row, start=1):
            counts[vote] += 1
            if done := bool(settled(counts, t)):
                break
        found.append((t, counts.argmax(), done, counts))
    return tuple(np.array(column) for column in zip(*found, strict=True))


def lower_bound(counts, alpha=1.0) -> float:
    """Eq. 8 for the class in the lead."""
    alpha = np.broadcast_to(alpha, len(counts))
    leader = counts.argmax()
    rivals = [j for j in range(len(counts)) if j != leader]
    shape = counts + alpha
    return float(np.prod([betainc(shape[j], shape[leader], 0.5) for j in rivals]))

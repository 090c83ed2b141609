"""Many rows of few distinct ones: the float64 loops see each distinct one, the library every row."""

from functools import lru_cache

import numpy as np

from tests._forests import positive_counts, random_counts
from tests._rules import expected_scores

SIZES = (40_007, 1_000_003)
"""Numbers of rows, beyond those at which compilers turn to other programs; multiples of nothing."""
DISTINCT, TREES = 200, 5


@lru_cache
def drawn(n_rows: int) -> np.ndarray:
    """Which distinct row each row is."""
    return np.random.default_rng(n_rows).integers(0, DISTINCT, n_rows)


@lru_cache
def distinct_leaves(n_classes: int, positive: bool = False) -> np.ndarray:
    """Leaves ``[distinct trees classes]`` of all kinds, empty ones included; or the interior of their domain."""
    made = positive_counts if positive else random_counts
    return made(np.random.default_rng(n_classes), (DISTINCT, TREES), n_classes)


@lru_cache
def distinct_scores(name: str, n_classes: int) -> dict[str, np.ndarray]:
    """The class scores of a rule of the table, by the loops."""
    return expected_scores(name, distinct_leaves(n_classes))

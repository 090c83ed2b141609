"""Instances where trees of other libraries go wrong first: at their thresholds, and at the edges of floats."""

import numpy as np

EDGES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 3.4028235e38, -3.4028235e38, 2**24, 2**24 + 1],
    np.float32,
)


def threshold_rows(thresholds: list, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return float32 rows whose values are thresholds of their columns, neighbours of these, or edges."""
    columns = []
    for own in thresholds:
        own = np.asarray(own, np.float32)
        with np.errstate(over="ignore"):
            near = [own, np.nextafter(own, np.float32(np.inf)), np.nextafter(own, np.float32(-np.inf))]
        columns.append(rng.choice(np.concatenate([*near * 4, EDGES]), number))
    return np.stack(columns, axis=1)


def assert_leaves_agree(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Check that the leaves ``[instances trees]`` of each tree are the same but for their numbers."""
    assert ours.shape == theirs.shape
    for t in range(ours.shape[1]):
        pairs = len(np.unique(np.stack([ours[:, t], theirs[:, t]]), axis=1).T)
        assert pairs == len(np.unique(ours[:, t])) == len(np.unique(theirs[:, t])), f"tree {t}"

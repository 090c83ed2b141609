"""Rows that lie where importers go wrong: at thresholds, at zero, beyond float32, missing."""

import numpy as np

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-40, 1e-36, -1e-36, 1e-30, 1e300, -1e300, 1.0])
"""Values for every column; also those that LightGBM takes for 0, up to the float32 next to 1e-35."""
ODD = np.concatenate([ODD, *(np.nextafter(s * float(np.float32(1e-35)), [-np.inf, 0, np.inf]) for s in (-1, 1))])
ODD = np.concatenate([ODD, np.array([1e-35, -1e-35], np.float32).astype(np.float64), 2.0**24 + np.array([-1, 0, 1, 2])])


def near_thresholds(rng, X, thresholds, n_rows):
    """Return rows of which each cell is a value of its column, a threshold, a neighbour of one, or an odd value."""
    found = np.empty((n_rows, X.shape[1]))
    for j in range(X.shape[1]):
        own = np.asarray(thresholds.get(j, ()), np.float64)
        near = np.concatenate([own, np.nextafter(own, np.inf), np.nextafter(own, -np.inf), own + 0.5, -own])
        pools = [pool for pool in (X[:, j], near, near, ODD) if len(pool)]
        kind = rng.integers(0, len(pools), n_rows)
        found[:, j] = np.choose(kind, [rng.choice(pool, n_rows) for pool in pools])
    return found


def assert_one_to_one(ours, theirs):
    """Assert that leaf ids ``[rows trees]`` are the same leaves under other names."""
    assert ours.shape == theirs.shape
    for t in range(ours.shape[1]):
        pairs = np.unique(np.stack([ours[:, t], theirs[:, t]]), axis=1)
        for side in pairs:
            assert len(np.unique(side)) == pairs.shape[1], f"tree {t}: leaves are mixed up"

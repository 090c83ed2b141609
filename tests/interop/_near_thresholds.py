"""Instances where imported trees go wrong first: next to their thresholds, and at the edges of floats."""

import numpy as np

EDGES = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-45,
    -1e-45,
    1e-310,
    2.0**24,
    2.0**24 + 1,
    -0.5,
    0.5,
    1.7e9,
]


def near(thresholds: list, number: int, rng: np.random.Generator, dtype: type = np.float32) -> np.ndarray:
    """Return rows whose values are thresholds of their columns, their neighbours in the type, integers, or edges."""
    columns = []
    for own in thresholds:
        with np.errstate(over="ignore"):
            own = np.asarray(own, np.float64).astype(dtype)
            steps = [own, np.nextafter(own, dtype(np.inf)), np.nextafter(own, dtype(-np.inf)), np.array(EDGES, dtype)]
        pool = np.concatenate([*steps, np.arange(-2, 70, dtype=dtype), np.arange(8, dtype=dtype) + dtype(0.99)])
        columns.append(rng.choice(pool, number))
    return np.stack(columns, axis=1)


def assert_same_leaves(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Check that the leaves ``[instances trees]`` are the same, whatever their numbers."""
    ours, theirs = np.asarray(ours, np.int64), np.asarray(theirs, np.int64)
    assert ours.shape == theirs.shape
    for t in range(ours.shape[1]):
        pairs = np.unique(np.stack([ours[:, t], theirs[:, t]]), axis=1)
        assert all(len(np.unique(side)) == pairs.shape[1] for side in pairs), f"tree {t}"


def mutations(content: bytes, number: int, rng: np.random.Generator):
    """Yield the content with a few bytes changed, or cut off."""
    for i in range(number):
        changed = bytearray(content)
        if i % 8 == 0:
            yield bytes(changed[: rng.integers(len(changed))])
            continue
        for place in rng.integers(len(changed), size=rng.integers(1, 4)):
            changed[place] = rng.choice(
                [0, 1, 0xFF, 0x80, int(rng.integers(256)), changed[place] ^ (1 << rng.integers(8))]
            )
        yield bytes(changed)


def summed(model, leaves: np.ndarray) -> np.ndarray:
    """Return the sums of leaf values of an ensemble ``[instances outputs]`` in float64, the base included."""
    leaves, values = np.asarray(leaves), np.asarray(model.values, np.float64)
    reached = values[np.arange(leaves.shape[1]), leaves]
    total = np.tile(np.asarray(model.base, np.float64), (len(leaves), 1))
    if reached.shape[2] == model.n_outputs:
        return total + reached.sum(axis=1)
    for t, output in enumerate(model.outputs_of_trees):
        total[:, output] += reached[:, t, 0]
    return total

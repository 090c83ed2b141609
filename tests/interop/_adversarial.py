"""Rows that decide at every threshold, and what to compare on them."""

import numpy as np


def rows_at(thresholds: list[np.ndarray], rng: np.random.Generator, n: int, dtype=np.float32) -> np.ndarray:
    """Rows whose columns are thresholds of that column, their neighbours in this type, and what is easily mistaken."""
    columns = []
    for own in thresholds:
        own = np.asarray(own, np.float64).astype(dtype)
        around = [own, np.nextafter(own, dtype(-np.inf)), np.nextafter(own, dtype(np.inf))]
        tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(np.float32).max
        odd = np.array([np.nan, 0.0, -0.0, tiny, -tiny, huge, -huge, 2**24, 2**24 + 2, 1, -1], dtype)
        columns.append(rng.choice(np.concatenate([*around, odd, rng.standard_normal(20).astype(dtype)]), n))
    return np.stack(columns, axis=1)


def assert_same_leaves(ours: np.ndarray, theirs: np.ndarray) -> None:
    """In every tree each of our leaves is one of theirs, and the other way round."""
    for t in range(theirs.shape[1]):
        pairs = {*zip(ours[:, t].tolist(), theirs[:, t].tolist(), strict=True)}
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}), f"tree {t}"


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with a few bytes changed, or cut off."""
    changed = bytearray(content)
    if rng.random() < 0.2:
        return bytes(changed[: rng.integers(len(changed))])
    for place in rng.integers(0, len(changed), rng.integers(1, 4)):
        changed[place] = rng.choice(list(b'0123456789-.eE[]{}",:nul')) if rng.random() < 0.7 else rng.integers(256)
    return bytes(changed)

"""Training sets and rows on which importers go wrong first, and leaves compared by the million."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

import jaxunc as ju
from jaxunc.forest import Trees

from ._near_thresholds import near

NUMBERS, CATEGORIES = ("normal", "time", "big", "tiny", "zeros"), ("rare", "word")
N_RARE, N_WORDS = 60, 6


class Training(NamedTuple):
    """Numbers, timestamps, integers near 2^24, subnormal ones, many zeros; categories as codes, some of them rare."""

    X: np.ndarray
    z: np.ndarray
    weight: np.ndarray

    def y(self, classes: int) -> np.ndarray:
        """Labels of so many classes."""
        return np.digitize(self.z, np.quantile(self.z, np.arange(1, classes) / classes))


@lru_cache
def training(missing: bool, n: int = 3000) -> Training:
    """A training set with or without missing values."""
    rng = np.random.default_rng(7)
    X = np.stack([
        rng.normal(size=n).round(2), 1.7e9 + rng.random(n) * 200, 2.0**24 + rng.integers(-40, 40, n),
        rng.normal(size=n) * 1e-39, np.where(rng.random(n) < 0.7, 0, rng.normal(size=n)),
        np.minimum(rng.geometric(0.08, n) - 1, N_RARE - 1), rng.integers(0, N_WORDS, n),
    ], axis=1)  # fmt: skip
    z = X[:, 0] + (X[:, 1] > 1.7e9 + 90.3) + (X[:, 2] % 2) + (X[:, 3] > 0) + (X[:, 4] > 0) * X[:, 0]
    z += X[:, 5] % 3 + (X[:, 6] % 2) * X[:, 0] + 0.3 * rng.normal(size=n)
    if missing:
        X[:, :5][rng.random((n, 5)) < 0.1] = np.nan
    return Training(X, z, rng.integers(1, 5, n).astype(float))


def adversarial(trees: Trees, n: int, seed: int, *, categories: dict[int, list] | None = None) -> np.ndarray:
    """Rows at the thresholds of trees, their neighbours among float32 and float64, edges of floats, and data's values.

    ``categories``: the values of columns that are no numbers.
    """
    rng, bounds = np.random.default_rng(seed), thresholds(trees)
    X = np.concatenate([near(bounds, n // 3, rng), near(bounds, n // 3, rng, np.float64)])
    own = training(True).X[:, : X.shape[1]]
    X = np.concatenate([X, own[rng.integers(0, len(own), n - len(X))]])
    mixed = np.stack([rng.permutation(column) for column in X.T], axis=1)
    for j, values in (categories or {}).items():
        mixed[:, j] = rng.choice(np.array(values, float), n)
    return mixed


def thresholds(trees: Trees) -> list[np.ndarray]:
    """The numbers that each column is compared with."""
    keys, feature, child = (np.asarray(getattr(trees, name)) for name in ("threshold", "feature", "child"))
    inner = child != np.arange(child.shape[1])
    numbers = np.where(keys < 0, np.iinfo(np.int32).min - keys, keys).astype(np.int32).view(np.float32)
    cuts = trees.columns.cuts or (None,) * trees.columns.number
    found = []
    for j, own in enumerate(cuts):
        tested = np.unique(numbers[inner & (feature == j)]) if own is None else np.array(own)
        found.append(np.append(tested[np.isfinite(tested)], 0.0))
    return found


def wrong_leaves(trees: Trees, X: object, theirs: np.ndarray) -> tuple[int, int]:
    """Leaves visited, and those that break a one-to-one correspondence with the leaves of the library."""
    ju.forest.check_trees(trees)
    return compared(np.asarray(ju.leaf_index(trees, X)), theirs)


def compared(ours: np.ndarray, theirs: np.ndarray) -> tuple[int, int]:
    """The same, of leaf numbers ``[instances trees]``."""
    theirs = np.asarray(theirs).reshape(len(ours), -1).astype(np.int64)
    assert ours.shape == theirs.shape
    return ours.size, sum(_wrong(a, b) for a, b in zip(ours.T, theirs.T, strict=True))


def _wrong(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Visits of one tree beside the pairs of leaves that are each other's most frequent partners."""
    a, b = (np.unique(side, return_inverse=True)[1] for side in (ours, theirs))
    met = np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1)).reshape(a.max() + 1, -1)
    best, back = met.argmax(axis=1), met.argmax(axis=0)
    mutual = np.flatnonzero(back[best] == np.arange(len(best)))
    return int(met.sum() - met[mutual, best[mutual]].sum())

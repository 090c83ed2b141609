"""Small data, as the studies are asked about them."""

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.data import DataSet


def small_set(name: str, n: int, n_classes: int = 2) -> DataSet:
    """Numbers that tell the class, with ties; words; and numbers that tell nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    X = np.column_stack([(y + rng.normal(size=n)).round(1), rng.integers(0, 3, n), rng.normal(size=n)])
    labels, levels = ("a", "b", "c")[:n_classes], {"w": ["x", "y", "z"]}
    return DataSet(name, X, y, labels, np.array([False, True, False]), ("n", "w", "m"), levels)


def classified(n: int, n_classes: int, **settings) -> tuple[np.ndarray, np.ndarray]:
    """Rows of six columns in float32, and their classes."""
    X, y = make_classification(n, 6, n_informative=4, n_classes=n_classes, random_state=0, **settings)
    return X.astype(np.float32), y

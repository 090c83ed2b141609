"""A small data set, as the studies of trees are asked about it."""

import numpy as np

from benchmarks.data import DataSet


def small_set(name: str, n: int, n_classes: int = 2) -> DataSet:
    """Numbers that tell the class, with ties; words; and numbers that tell nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    X = np.column_stack([(y + rng.normal(size=n)).round(1), rng.integers(0, 3, n), rng.normal(size=n)])
    labels, levels = ("a", "b", "c")[:n_classes], {"w": ["x", "y", "z"]}
    return DataSet(name, X, y, labels, np.array([False, True, False]), ("n", "w", "m"), levels)

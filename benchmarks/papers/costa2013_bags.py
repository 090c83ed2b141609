"""Bagging beside transduction: for a test set, and for instances that are left out one by one."""

import numpy as np

import jaxunc as ju
from benchmarks.data import DataSet

MANY = 20
"""Trees of the larger bags."""


def drawn_outside(rng: np.random.Generator, n: int, least: int) -> np.ndarray:
    """Bootstrap samples ``[trees n]``: as many as it takes for every instance to be outside of ``least`` of them."""
    outside, rows = np.zeros(n, int), []
    while outside.min() < least:
        rows.append(rng.integers(n, size=n))
        outside += np.bincount(rows[-1], minlength=n) == 0
    return np.array(rows)


def left_out_counts(data: DataSet, n_trees: int) -> np.ndarray:
    """Leaf counts ``[instances trees classes]`` of bags that were grown without the instance.

    A bootstrap sample that misses an instance is one of the others: each instance has its own bag, the first
    ``n_trees`` that miss it, and all instances share a few dozen trees instead of having n bags.
    """
    n = len(data.y)
    rows = drawn_outside(np.random.default_rng(0), n, n_trees)
    outside = np.stack([np.bincount(row, minlength=n) == 0 for row in rows], axis=1)
    forest = ju.transduction.grow_greedy_trees(data.X, data.y, samples=rows, nominal=data.nominal)
    chosen = np.argsort(~outside, axis=1, kind="stable")[:, :n_trees]
    return np.take_along_axis(np.asarray(ju.leaf_counts(forest, data.X)), chosen[..., None], axis=1)


def counts_of_test(data: DataSet, train: np.ndarray, test: np.ndarray, n_trees: int, seed: int) -> np.ndarray:
    """Leaf counts ``[test trees classes]`` of a bag of the training instances."""
    rows = np.random.default_rng(seed).integers(len(train), size=(n_trees, len(train)))
    forest = ju.transduction.grow_greedy_trees(data.X[train], data.y[train], samples=rows, nominal=data.nominal)
    return np.asarray(ju.leaf_counts(forest, data.X[test]))

"""Greedy trees as they are defined: one instance, one label, one tree at a time, gains in fractions of integers."""

from fractions import Fraction
from itertools import pairwise

import numpy as np


def slow_leaf(X, y, x, label: int, *, nominal=(), n_classes: int, candidates: str, min_samples_leaf: int) -> np.ndarray:
    """Class counts of the leaf of x in the tree of (X, y) and (x, label), followed down the whole sample's splits."""
    sample = np.arange(len(X))
    columns = [known(X[:, f], f in nominal) for f in range(X.shape[1])]
    own = [known(x[f : f + 1], f in nominal)[0] for f in range(len(x))]
    while True:
        without = np.bincount(y[sample], minlength=n_classes)
        totals = without + np.eye(n_classes, dtype=int)[label]
        pure = min(np.count_nonzero(totals), np.count_nonzero(without) if candidates == "boundary" else 2) < 2
        if pure or totals.sum() < 2 * min_samples_leaf or len(sample) < 2:
            return totals
        best, chosen = likelihood([totals]), None
        for f, column in enumerate(columns):
            for passes, goes in tests(column[sample], own[f], y[sample], f in nominal, candidates):
                sides = [np.bincount(y[sample[passes == side]], minlength=n_classes) for side in (True, False)]
                sides[1 - goes][label] += 1
                if min(side.sum() for side in sides) >= min_samples_leaf and (found := likelihood(sides)) > best:
                    best, chosen = found, passes == goes
        if chosen is None:
            return totals
        sample = sample[chosen]


def known(column: np.ndarray, is_nominal: bool) -> np.ndarray:
    """Missing numbers below all others, missing names as a name that comes last."""
    return np.where(np.isnan(column), 1e6 if is_nominal else -np.inf, column)


def tests(column, own, labels, is_nominal: bool, candidates: str):
    """Every test of a feature: which of the sample pass, and whether x does."""
    values = np.unique(column)
    if is_nominal:
        for value in values if len(values) > 1 else ():
            yield column == value, bool(own == value)
        return
    for low, high in pairwise(values):
        classes = {*labels[column == low].tolist(), *labels[column == high].tolist()}
        if candidates == "all" or len(classes) > 1:
            threshold = (low + high) / 2
            threshold = threshold if threshold < high else low
            yield column <= threshold, bool(own <= threshold)


def likelihood(sides) -> Fraction:
    """Two to the power of minus n times the entropy, exactly."""
    power = lambda n: int(n) ** int(n) if n else 1
    value = Fraction(1)
    for counts in sides:
        value /= power(counts.sum())
        for count in counts:
            value *= power(count)
    return value


def drawn_set(rng, n: int, n_classes: int, *, missing: bool = False):
    """Features of all kinds, with ties, and their nominal ones: X, y, queries, nominal."""
    codes, quarters, few = rng.integers(0, 4, n), rng.integers(0, 9, n) / 4, rng.integers(0, 3, n)
    numbers = rng.standard_normal(n).astype(np.float32)
    X = np.column_stack([codes, quarters, few, numbers, np.full(n, 2.0)]).astype(float)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X[:, 3] += y
    X = X.astype(np.float32).astype(float)
    shift = rng.integers(-2, 3, (6, 5)) * np.array([0, 1 / 8, 0, 0.5, 1])
    queries = np.concatenate([X[:2], X[rng.integers(0, n, 6)] + shift]).astype(np.float32).astype(float)
    queries[0, [0, 2]] = 77  # seen nowhere
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
        queries[rng.random(queries.shape) < 0.2] = np.nan
    return X, y, queries, (0, 2)

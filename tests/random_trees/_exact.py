"""The distribution of random decision trees on a few instances, by enumeration of the published construction."""

from collections import Counter, defaultdict
from fractions import Fraction
from functools import lru_cache

import numpy as np


def exact_trees(X, nominal, min_samples_leaf: int, min_split: int = 2) -> dict[tuple[tuple[int, int], ...], float]:
    """The probability of each multiset of leaves (depth, size), sorted; empty leaves are left out.

    A multi-way test is one step deep.
    """
    X = [tuple(row) for row in np.asarray(X).tolist()]
    d, half = len(X[0]), Fraction(1, 2)

    def tests(rows: tuple[int, ...], feature: int):
        """Every test of a feature, its probability and the non-empty children, None where it is rejected."""
        if nominal[feature]:
            values = sorted({X[i][feature] for i in rows})
            children = [tuple(i for i in rows if X[i][feature] == v) for v in values]
            sizes = sorted(map(len, children))
            yield Fraction(1), children if len(sizes) > 1 and sizes[-2] >= min_samples_leaf else None
            return
        for value, times in Counter(X[i][feature] for i in rows).items():
            for strict in (True, False):
                left = tuple(i for i in rows if X[i][feature] < value or (not strict and X[i][feature] == value))
                right = tuple(i for i in rows if i not in left)
                fits = min(len(left), len(right)) >= min_samples_leaf
                yield half * Fraction(times, len(rows)), [left, right] if fits else None

    @lru_cache(None)
    def grown(rows: tuple[int, ...], used: frozenset, tries: int) -> dict:
        if len(rows) < min_split or tries == d:
            return {((0, len(rows)),): Fraction(1)}
        free = [f for f in range(d) if f not in used]
        if not free:
            return {((0, len(rows)),): Fraction(1)}
        result = defaultdict(Fraction)
        for feature in free:
            after = used | {feature} if nominal[feature] else used
            for p, children in tests(rows, feature):
                p /= len(free)
                if children is None:
                    for leaves, q in grown(rows, after, tries + 1).items():
                        result[leaves] += p * q
                    continue
                together = {(): Fraction(1)}
                for child in children:
                    below, combined = grown(child, after, 0), defaultdict(Fraction)
                    for a, q in together.items():
                        for b, r in below.items():
                            deeper = tuple((depth + 1, size) for depth, size in b)
                            combined[tuple(sorted(a + deeper))] += q * r
                    together = combined
                for leaves, q in together.items():
                    result[leaves] += p * q
        return dict(result)

    exact = grown(tuple(range(len(X))), frozenset(), 0)
    assert sum(exact.values()) == 1
    return {leaves: float(p) for leaves, p in exact.items()}


def of_sizes(trees: dict[tuple[tuple[int, int], ...], float]) -> dict[tuple[int, ...], float]:
    """The probability of each multiset of leaf sizes, sorted."""
    result = defaultdict(float)
    for leaves, p in trees.items():
        result[tuple(sorted(size for _, size in leaves))] += p
    return dict(result)


def exact_roots(X, min_samples_leaf: int) -> dict[tuple, float]:
    """Numeric features: the probability of each (feature, value, strict) at the root, None for no test."""
    X = np.asarray(X)
    n, d = X.shape
    accepted, rejected = defaultdict(float), 0.0
    for feature in range(d):
        for value in X[:, feature]:
            for strict in (True, False):
                left = (X[:, feature] < value) if strict else (X[:, feature] <= value)
                if min(left.sum(), n - left.sum()) >= min_samples_leaf:
                    accepted[feature, float(value), strict] += 0.5 / n / d
                else:
                    rejected += 0.5 / n / d
    tries = sum(rejected**k for k in range(d))
    return {**{test: p * tries for test, p in accepted.items()}, **({None: rejected**d} if rejected else {})}

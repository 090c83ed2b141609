"""Venn-Abers predictors, exact and in O(n log n): isotonic regression with the new row in either class."""

import bisect
from collections.abc import Sequence

import numpy as np

Block = tuple[int, int]
"""How many positives, and how many rows."""


def venn_abers_pair(scores: np.ndarray, positive: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Isotonic fits at each new score, once as a negative (p0) and once as a positive (p1).

    Rows of equal scores are one block. The isotonic fits of all beginnings, and of all ends, of the sorted blocks are
    kept as stacks that share their lower parts. A new row joins its neighbours in both until the means increase; the
    order of joins does not matter, so that this is the fit of all rows and the new one.

    Parameters
    ----------
    scores
        ``[rows]`` Scores of the rows that calibrate.
    positive
        ``[rows]`` Whether they are positive.
    new
        ``[instances]`` Scores that are asked for.

    Returns
    -------
    tuple
        p0 and p1, ``[instances]`` each.
    """
    levels, at = np.unique(scores, return_inverse=True)
    rows = np.bincount(at, minlength=len(levels)).tolist()
    positives = np.bincount(at[np.asarray(positive, bool)], minlength=len(levels)).tolist()
    blocks = list(zip(positives, rows, strict=True))
    before = _stacks(blocks)
    after = _stacks([(n - p, n) for p, n in reversed(blocks)])  # mirrored: ends of the list, of negatives
    places = levels.tolist()
    asked, where = np.unique(new, return_inverse=True)
    found = [[_fitted(float(score), label, places, blocks, before, after) for score in asked] for label in (0, 1)]
    p0, p1 = np.asarray(found, float).reshape(2, -1)
    return p0[where], p1[where]


def merged_pair(p0: np.ndarray, p1: np.ndarray) -> np.ndarray:
    """One probability of a pair: p1 / (1 - p0 + p1), the least regret by log loss (Vovk, Petej and Fedorova 2015)."""
    return p1 / (1 - p0 + p1)


def merged_pairs(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """One probability of several pairs, by geometric means, as cross Venn-Abers predictors have it."""
    ones = np.exp(np.mean([np.log(p1) for _, p1 in pairs], axis=0))
    zeros = np.exp(np.mean([np.log(1 - p0) for p0, _ in pairs], axis=0))
    return ones / (zeros + ones)


def _stacks(blocks: list[Block]) -> list[tuple[int, int, int]]:
    """The top block of the isotonic fit of each beginning, and how many blocks lie before it: where to read on."""
    tops: list[tuple[int, int, int]] = []
    for end, (p, n) in enumerate(blocks):
        below = end
        while below and tops[below - 1][0] * n >= p * tops[below - 1][1]:
            more_p, more_n, below = tops[below - 1]
            p, n = p + more_p, n + more_n
        tops.append((p, n, below))
    return tops


def _fitted(score, label, places, blocks, before, after) -> float:
    """The fit's value at a new row of that score and label."""
    left = bisect.bisect_left(places, score)
    same = left < len(places) and places[left] == score
    p, n = (blocks[left][0] + label, blocks[left][1] + 1) if same else (label, 1)
    right = len(places) - left - same  # how many blocks lie after it
    while True:
        if left and before[left - 1][0] * n >= p * before[left - 1][1]:
            more_p, more_n, left = before[left - 1]
            p, n = p + more_p, n + more_n
        elif right and (after[right - 1][1] - after[right - 1][0]) * n <= p * after[right - 1][1]:
            negatives, more_n, right = after[right - 1]
            p, n = p + more_n - negatives, n + more_n
        else:
            return p / n

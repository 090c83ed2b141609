"""The law of a boosted model's errors, learned from residuals that are out of fold."""

import math
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np

from ._bins import weighted_quantiles
from ._law import FLOORS, LEVELS, NumberLaw, in_order, order_of, pinball
from ._leaf_scales import scale_steps

SHRINKAGES, GAINS = (10.0, 50.0), (1.0, 1.3, 1.6)
"""Candidates of the shrinkage of steps, and of the gain of their sum, since shrunk steps are too flat."""
LENGTHS = 10
"""Number of lengths that are tried beside 0: steps of the first 1/10, 2/10 … of the trees."""
MOST_SCORED = 8_000
"""Largest number of residuals by which settings are compared."""
FEW_ROWS = 50
"""Number of residuals below which nothing is learned, and all rows have one s."""


class Fold(NamedTuple):
    """Rows whose residuals give a model's leaves their steps, and rows of another fold, to which steps are applied."""

    leaves: np.ndarray
    """Leaves of the rows that make steps ``[trees counted]``; ``residual`` and ``weight`` are theirs, ``[counted]``."""
    residual: np.ndarray
    weight: np.ndarray
    other_leaves: np.ndarray
    """Leaves of the other rows ``[trees others]``; ``other_residual`` and ``other_weight`` are theirs, ``[others]``."""
    other_residual: np.ndarray
    other_weight: np.ndarray
    n_nodes: int  # number of nodes of a tree


class Scale(NamedTuple):
    """Settings that turn the steps of leaves into s² of a row, and the residuals divided by s."""

    shrinkage: float  # λ of `scale_steps`
    gain: float
    """Factor of the sum of steps."""
    length: float
    """Share of the trees whose steps count: the first ones."""
    factor: float
    """Factor of s², by which standardised residuals have a mean square of 1."""
    floor: float  # number that is added to s²
    residuals: np.ndarray
    """Standardised residuals of the rows of all folds, in ascending order."""
    weights: np.ndarray
    """How often each of ``residuals`` counts; empty where all count alike."""
    order: np.ndarray
    """Position of each residual's row among the rows of all folds, one fold after the other."""
    deviation: np.ndarray
    """s of the rows of all folds, one fold after the other."""


def learn_scale(folds: Iterable[Fold], score: str, *, constant: bool = False) -> Scale:
    """Return the shrinkage, gain, length and floor of steps whose quantiles score best on the folds' other rows.

    Parameters
    ----------
    folds
        Folds, each with residuals of a model that has not seen the rows.
    score
        ``"interval_score"`` of 90 % intervals, or ``"crps"``.
    constant
        Whether all rows have one s²: the mean square.
    """
    bases, totals, residuals, weights = [], [], [], []
    for fold in folds:
        base, total = _sum_steps(fold, (SHRINKAGES[0],) if constant else SHRINKAGES, 0 if constant else LENGTHS)
        bases.append(np.full(total.shape[-1], base))
        totals.append(total)
        residuals.append(fold.other_residual)
        weights.append(fold.other_weight)
    base, r, w = map(np.concatenate, (bases, residuals, weights))
    total = np.concatenate(totals, axis=2)
    scored = np.random.default_rng(0).permutation(len(r))[:MOST_SCORED]
    log_square = base[scored] + np.array(GAINS)[:, None, None] * total[:, None, :, scored]
    log_square[:, :, 0] = 0  # no steps: one s for all rows, whose size the quantiles of residuals make up for
    log_square = log_square.reshape(-1, *log_square.shape[2:])  # [settings lengths rows], in the order of `product`
    setting, length, floor = _best_setting(log_square, r[scored], w[scored], np.array(LEVELS[score]))
    (shrinkage_index, shrinkage), gain = tuple(product(enumerate(SHRINKAGES), GAINS))[setting]
    s = np.sqrt(np.exp(base + gain * total[shrinkage_index, length] if length else np.zeros(len(r))) + floor)
    factor = float(np.average((r / s) ** 2, weights=w)) or 1.0
    z, weight = r / s / math.sqrt(factor), None if (w == w[:1]).all() else w
    by_row = *in_order(z, weight), order_of(z, weight), s * math.sqrt(factor)
    return Scale(shrinkage, gain, length / LENGTHS, factor, factor * floor, *by_row)


def _best_setting(log_square: np.ndarray, r: np.ndarray, w: np.ndarray, levels: np.ndarray) -> tuple[int, int, float]:
    """Return the positions of the best setting and length in ``log_square``, and the best number to add to s².

    The best has the least pinball loss of the quantiles at ``levels``, on residuals ``r`` with weights ``w``; of equal
    losses the first. ``log_square [settings lengths rows]`` is log s² before that number is added.
    """
    best, smallest, error = (0, 0, 0.0), math.inf, float(np.average(r**2, weights=w))
    weight = None if (w == w[:1]).all() else w
    for (setting, length), _ in np.ndenumerate(log_square[:, :, 0]):
        square = np.exp(log_square[setting, length])
        for floor in FLOORS if length and error else (0.0,):
            s = np.sqrt(square + floor * error)
            z, z_weights = (r / s, np.zeros(0)) if weight is None else in_order(r / s, weight)
            quantiles = weighted_quantiles(z, z_weights if len(z_weights) else np.ones(len(z)), levels)
            loss = pinball(s[:, None] * quantiles, r, levels, weight)
            if loss < smallest * (1 - 1e-9):
                best, smallest = (setting, length, floor * error), loss
    return best


def _sum_steps(fold: Fold, shrinkages: tuple[float, ...], n_lengths: int) -> tuple[float, np.ndarray]:
    """Return the base of log s², and the sums of steps over the first trees for a fold's other rows.

    The sums are ``[shrinkages lengths rows]``, for 0 to ``n_lengths`` tenths of the trees; 0 for no trees.
    """
    n_trees, n = fold.other_leaves.shape
    totals, start = np.zeros((len(shrinkages), n_lengths + 1, n)), 0
    base, steps = scale_steps(fold.leaves, fold.residual, fold.weight, shrinkages, fold.n_nodes)
    for k in range(1, n_lengths + 1):
        totals[:, k] = totals[:, k - 1]
        for t in range(start, end := trees_of(k / LENGTHS, n_trees)):
            totals[:, k] += steps[:, t].take(fold.other_leaves[t], axis=1)
        start = end
    return base, totals


def trees_of(length: float, n_trees: int) -> int:
    """Return how many of the first trees have steps that count: the share ``length`` of ``n_trees``."""
    return round(length * n_trees)


def scale_law(scale: Scale, spread: float, *, by_rank: bool = False) -> NumberLaw:
    """Return the law of a scale's standardised residuals; with ``by_rank`` quantiles are at conformal ranks.

    ``spread`` is the mean square of the residuals.
    """
    return NumberLaw(1.0, 0.0, 1e-6 * (math.sqrt(spread) or 1.0), scale.residuals, by_rank, scale.weights)

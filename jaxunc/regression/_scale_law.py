"""The law of a boosted model's errors, learned from residuals that are out of fold."""

import math
from collections.abc import Iterable
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
    """A fold of a cross-validation: rows from whose residuals the steps of leaves are made, and other rows."""

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
    """What makes s² of a row from the steps of its leaves, and the residuals divided by s."""

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
    """Return the `Scale` by which quantiles of residuals score best.

    It makes s², the variance of each row's error. Its settings are compared on rows that made no steps: the other rows
    of each `Fold`.

    Parameters
    ----------
    folds
        Folds, each with residuals of a model that has not seen the rows.
    score
        ``"interval_score"`` of 90 % intervals, or ``"crps"``.
    constant
        Whether all rows have one s²: the mean square of the residuals.
    """
    bases, totals, residuals, weights = [], [], [], []
    for fold in folds:
        base, total = _sum_steps(fold, (SHRINKAGES[0],) if constant else SHRINKAGES, 0 if constant else LENGTHS)
        bases.append(np.full(total.shape[-1], base))
        totals.append(total)
        residuals.append(fold.other_residual)
        weights.append(fold.other_weight)
    # Rows of all folds, one fold after the other.
    base, r, w = map(np.concatenate, (bases, residuals, weights))
    total = np.concatenate(totals, axis=2)
    # Candidates are compared on a sample of the rows.
    sample = np.random.default_rng(0).permutation(len(r))[:MOST_SCORED]
    log_square = base[sample] + np.array(GAINS)[:, None, None] * total[:, None, :, sample]
    log_square[:, :, 0] = 0  # no steps: one s for all rows, whose size the quantiles of residuals make up for
    # [settings lengths rows], where a setting is a pair of a shrinkage and a gain.
    log_square = log_square.reshape(-1, *log_square.shape[2:])
    setting, length, floor = _best_setting(log_square, r[sample], w[sample], np.array(LEVELS[score]))
    shrinkage_index, gain_index = divmod(setting, len(GAINS))
    shrinkage, gain = SHRINKAGES[shrinkage_index], GAINS[gain_index]
    # s of all rows by the best candidate, and the factor that gives r / s a mean square of 1.
    best_log_square = base + gain * total[shrinkage_index, length] if length else np.zeros(len(r))
    s = np.sqrt(np.exp(best_log_square) + floor)
    factor = float(np.average((r / s) ** 2, weights=w)) or 1.0
    z = r / s / math.sqrt(factor)
    weight = None if (w == w[:1]).all() else w
    z_ascending, z_weights = in_order(z, weight)
    return Scale(
        shrinkage=shrinkage,
        gain=gain,
        length=length / LENGTHS,
        factor=factor,
        floor=factor * floor,
        residuals=z_ascending,
        weights=z_weights,
        order=order_of(z, weight),
        deviation=s * math.sqrt(factor),
    )


def _best_setting(log_square: np.ndarray, r: np.ndarray, w: np.ndarray, levels: np.ndarray) -> tuple[int, int, float]:
    """Return (setting, length, floor) of the least loss: two positions in ``log_square``, and the number added to s².

    ``log_square [settings lengths rows]`` is log s² of the rows before the floor is added. The loss is the pinball loss
    of quantiles at ``levels``, on residuals ``r [rows]`` with weights ``w [rows]``. Of equal losses the first wins.
    """
    mean_square = float(np.average(r**2, weights=w))
    weight = None if (w == w[:1]).all() else w
    best = (0, 0, 0.0)
    least_loss = math.inf
    n_settings, n_lengths, _ = log_square.shape
    for setting, length in np.ndindex(n_settings, n_lengths):
        square = np.exp(log_square[setting, length])
        # At length 0 all rows have one s, and its size does not matter.
        shares = FLOORS if length and mean_square else (0.0,)
        for share in shares:
            floor = share * mean_square
            s = np.sqrt(square + floor)
            loss = pinball(_scaled_quantiles(r, s, weight, levels), r, levels, weight)
            if loss < least_loss * (1 - 1e-9):  # not if it is less by rounding alone
                best = (setting, length, floor)
                least_loss = loss
    return best


def _scaled_quantiles(r: np.ndarray, s: np.ndarray, weight: np.ndarray | None, levels: np.ndarray) -> np.ndarray:
    """Return each row's s times the quantiles of the residuals r / s, ``[rows levels]``; ``weight`` None: all alike."""
    z = r / s
    z_weights = np.zeros(0)  # empty: all count alike
    if weight is not None:
        z, z_weights = in_order(z, weight)
    if not len(z_weights):
        z_weights = np.ones(len(z))
    return s[:, None] * weighted_quantiles(z, z_weights, levels)


def _sum_steps(fold: Fold, shrinkages: tuple[float, ...], n_lengths: int) -> tuple[float, np.ndarray]:
    """Return (base of log s², sums over the first trees of the steps of leaves that a fold's other rows reach).

    A step is a leaf's term of log s² (`scale_steps`). The sums are ``[shrinkages lengths rows]``; length k, up to
    ``n_lengths``, means the first k tenths of the trees.
    """
    n_trees, n = fold.other_leaves.shape
    totals = np.zeros((len(shrinkages), n_lengths + 1, n))
    base, steps = scale_steps(fold.leaves, fold.residual, fold.weight, shrinkages, fold.n_nodes)
    start = 0
    for k in range(1, n_lengths + 1):
        end = trees_of(k / LENGTHS, n_trees)
        totals[:, k] = totals[:, k - 1]
        for t in range(start, end):
            totals[:, k] += steps[:, t].take(fold.other_leaves[t], axis=1)
        start = end
    return base, totals


def trees_of(length: float, n_trees: int) -> int:
    """Return how many of the first trees have steps that count: the share ``length`` of ``n_trees``, rounded."""
    return round(length * n_trees)


def scale_law(scale: Scale, spread: float, *, by_rank: bool = False) -> NumberLaw:
    """Return the law that draws quantiles from the standardised residuals of a ``scale``.

    With ``by_rank`` quantiles are residuals at conformal ranks. ``spread`` is the mean square of the residuals before
    they are divided by s.
    """
    return NumberLaw(
        weight=1.0,
        added=0.0,
        least=1e-6 * (math.sqrt(spread) or 1.0),
        residuals=scale.residuals,
        is_by_rank=by_rank,
        weights=scale.weights,
    )

"""Tests of every pair of methods."""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from jaxunc._checks import check_bool

from ._corrections import corrected

Correction: TypeAlias = Literal["holm", "bonferroni", "none"]
"""Adjustment of the p-values of many tests, by its name."""


class PairwiseTests(NamedTuple):
    """The result of a test of every pair of methods."""

    p_values: Float[np.ndarray, "methods methods"]
    """Adjusted p-values, symmetric; 1 on the diagonal."""
    wins: Int[np.ndarray, "methods methods"]
    """Number of blocks on which the row's method is strictly better than the column's."""


def pairwise(
    values: Float[np.ndarray, "blocks methods"],
    p_value: Callable[[Float[np.ndarray, "blocks"]], float],
    *,
    threshold: float,
    larger_is_better: bool,
    correction: Correction,
) -> PairwiseTests:
    """Apply a test to each pair's differences; those below the threshold are 0, and no win."""
    check_bool("larger_is_better", larger_is_better)
    gains = values[:, :, None] - values[:, None, :] if larger_is_better else values[:, None, :] - values[:, :, None]
    gains = np.where(np.abs(gains) < threshold, 0.0, gains)
    p_values = np.ones(gains.shape[1:])
    first, second = np.triu_indices_from(p_values, k=1)
    family = np.array([p_value(gains[:, i, j]) for i, j in zip(first, second, strict=True)])
    p_values[first, second] = p_values[second, first] = corrected(family, correction)
    return PairwiseTests(p_values, np.sum(gains > 0, axis=0))

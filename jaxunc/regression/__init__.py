"""Forests that predict numbers: means and variances of leaves, targets in bins, laws of residuals."""

from ._bins import TargetBins, checked_levels, target_bins
from ._law import LAWS, SCORES, NumberLaw, fit_law, interval_levels
from ._moments import LeafMeans, LeafMoments, Moments, checked_target, checked_weight, leaf_means

__all__ = ["LeafMoments", "target_bins"]

"""Forests that predict numbers: means and variances of leaves, targets in bins, laws of residuals."""

from ._bins import TargetBins, check_bins, checked_levels, target_bins
from ._law import LAWS, SCORES, BoundLaw, NumberAnswer, NumberLaw, check_law, fit_law, interval_levels
from ._moments import LeafMeans, LeafMoments, LeafTable, Moments, MomentSums, checked_target, checked_weight, leaf_means

__all__ = ["LeafMoments", "target_bins"]

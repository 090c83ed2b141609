"""Forests that predict numbers: means and variances of leaves, targets in bins, laws of residuals."""

from ._bins import TargetBins, check_bins, checked_levels, checked_limits, interval_levels, target_bins
from ._distribution import NumberDistribution
from ._law import LAWS, LEAVES_ALONE, SCORES, BoundLaw, NumberAnswer, NumberLaw, check_law, fit_law, in_order, order_of
from ._law import LEVELS as LEVELS_OF_SCORES
from ._leaf_scales import LARGEST_LOG, LINKS, LeafScales, ScaleTable, scale_steps, scale_table
from ._moments import LeafMeans, LeafMoments, LeafTable, Moments, MomentSums, checked_target, checked_weight, leaf_means
from ._scale_law import FEW_ROWS, Fold, learn_scale, scale_law, trees_of
from ._strata import LEAST_ROWS, Strata, strata_of
from ._target_map import INVERSES, TargetMap, steps_of_transformer, target_map

__all__ = ["LeafMoments", "NumberDistribution", "target_bins"]

"""A tree's own prior for its leaves: empirical Bayes smoothing, and the intervals that it leaves."""

from ._prior import (
    BetaPrior,
    DirichletPrior,
    PriorStatus,
    PriorWarning,
    correction_interval,
    fit_beta_prior,
    fit_dirichlet_prior,
    smooth,
)
from ._smoothed_forest import MemberSmoothing, SmoothedMean, fit_forest_prior, smooth_forest

__all__ = [
    "MemberSmoothing",
    "SmoothedMean",
    "correction_interval",
    "fit_beta_prior",
    "fit_forest_prior",
    "smooth",
    "smooth_forest",
]

"""A tree's own prior for its leaves: empirical Bayes smoothing, and the intervals that it leaves."""

from ._correction import correction_interval, predictive_mass, smooth
from ._fit import fit_beta_prior, fit_dirichlet_prior
from ._forest import fit_forest_prior, smooth_forest
from ._prior import BetaPrior, DirichletPrior, PriorStatus, PriorWarning
from ._smoothing_rules import MemberSmoothing, SmoothedMean

__all__ = [
    "BetaPrior",
    "DirichletPrior",
    "MemberSmoothing",
    "PriorStatus",
    "PriorWarning",
    "SmoothedMean",
    "correction_interval",
    "fit_beta_prior",
    "fit_dirichlet_prior",
    "fit_forest_prior",
    "predictive_mass",
    "smooth",
    "smooth_forest",
]

"""A tree's own prior for its leaves: empirical Bayes smoothing, and the intervals that it leaves."""

from ._correction import correction_interval, predictive_mass, smooth
from ._fit import fit_beta_prior, fit_dirichlet_prior
from ._prior import BetaPrior, DirichletPrior, PriorStatus

__all__ = [
    "BetaPrior",
    "DirichletPrior",
    "PriorStatus",
    "correction_interval",
    "fit_beta_prior",
    "fit_dirichlet_prior",
    "predictive_mass",
    "smooth",
]

"""Scores of one leaf, read from its counts: plain functions, any leading axes, differentiable."""

from ._confidence import confidence_bounds
from ._declaration import declared, reads_sizes, score_bound, score_width, scorer
from ._density import beta_densities
from ._grid import grid_support_degrees
from ._likelihood_mass import likelihood_mass
from ._linear import linear, ucb
from ._plausibility import class_one, log_support_degrees, plausibility, support
from ._probability import probability
from ._settings import ChosenScorer, as_partial
from ._smoothed import laplace, m_estimate
from ._uncertainty import LeafUncertainty, degrees_of_preference, mass, uncertainty

__all__ = [
    "LeafUncertainty",
    "beta_densities",
    "confidence_bounds",
    "degrees_of_preference",
    "grid_support_degrees",
    "laplace",
    "likelihood_mass",
    "linear",
    "log_support_degrees",
    "m_estimate",
    "mass",
    "plausibility",
    "probability",
    "scorer",
    "ucb",
    "uncertainty",
]

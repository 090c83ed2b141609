"""Scores of one leaf, read from its counts: plain functions, any leading axes, differentiable."""

from ._confidence_bounds import confidence_bounds
from ._declaration import ChosenScorer, as_partial, declared, reads_sizes, score_bound, score_width, scorer
from ._frequencies import laplace, linear, m_estimate, probability, ucb
from ._grid import beta_densities, grid_support_degrees
from ._likelihood import likelihood_mass
from ._plausibility import (
    LeafUncertainty,
    class_one,
    degrees_of_preference,
    log_support_degrees,
    mass,
    plausibility,
    support,
    uncertainty,
)

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

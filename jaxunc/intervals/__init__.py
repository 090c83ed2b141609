"""Probabilities that are known as intervals: what few instances leave open."""

from jaxunc._checks import FractionsWarning

from ._imprecise_dirichlet import (
    Interval,
    check_strength,
    checked_strength,
    differences,
    dominance,
    idm_interval,
    single_strength,
    undominated,
)

__all__ = ["Interval"]

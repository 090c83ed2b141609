"""Probabilities that are known as intervals: what few instances leave open."""

from jaxunc._checks import FractionsWarning, warn_of_fractions

from ._dominance import differences, dominance
from ._idm import idm_interval
from ._interval import Interval
from ._strength import checked_strength

__all__ = [
    "FractionsWarning",
    "Interval",
    "checked_strength",
    "differences",
    "dominance",
    "idm_interval",
    "warn_of_fractions",
]

"""Probabilities that are known as intervals: what few instances leave open."""

from ._dominance import differences, dominance
from ._fractions import FractionsWarning, warn_of_fractions
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

"""Probabilities that are known as intervals: what few instances leave open."""

from jaxunc._checks import FractionsWarning

from ._dominance import differences, dominance, undominated
from ._idm import idm_interval
from ._interval import Interval
from ._strength import check_strength, checked_strength, one_strength

__all__ = ["FractionsWarning", "Interval", "dominance", "idm_interval"]

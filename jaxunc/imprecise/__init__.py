"""Probabilities that are known as intervals: what few instances leave open."""

from jaxunc._checks import FractionsWarning

from ._dominance import dominance
from ._idm import idm_interval
from ._interval import Interval

__all__ = ["FractionsWarning", "Interval", "dominance", "idm_interval"]

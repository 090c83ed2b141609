"""Probabilities that are known as intervals: what few instances leave open."""

from ._interval import Interval

__all__ = ["Interval"]

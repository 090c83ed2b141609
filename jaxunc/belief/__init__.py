"""Mass functions as arrays: combination set by set, the reference of the closed forms, and what is read from them."""

from ._masses import combine_masses, pignistic

__all__ = ["combine_masses", "pignistic"]

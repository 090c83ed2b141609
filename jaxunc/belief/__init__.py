"""Mass functions as arrays: combination set by set, the reference of the closed forms."""

from ._conjunctive import conjunctive_fold

__all__ = ["conjunctive_fold"]

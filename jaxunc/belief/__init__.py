"""Mass functions as arrays: combination set by set, the reference of the closed forms, and what is read from them."""

from ._folds import cautious_fold, conjunctive_fold, pignistic

__all__ = ["cautious_fold", "conjunctive_fold", "pignistic"]

"""Mass functions as arrays: combination set by set, the reference of the closed forms, and what is read from them."""

from ._cautious import cautious_fold
from ._commonality import commonality
from ._conjunctive import conjunctive_fold
from ._discount import discount
from ._distance import jousselme_distance
from ._pignistic import pignistic

__all__ = ["cautious_fold", "commonality", "conjunctive_fold", "discount", "jousselme_distance", "pignistic"]

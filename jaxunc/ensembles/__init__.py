"""Models whose leaves hold values that are added: boosted trees, forests of regression trees."""

from ._links import LINKS, Link
from ._tree_ensemble import TreeEnsemble, check_ensemble

__all__ = ["LINKS", "Link", "TreeEnsemble", "check_ensemble"]

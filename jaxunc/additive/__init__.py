"""Models whose leaves hold values that are added: boosted trees, forests of regression trees."""

from ._links import LINKS, apply_link
from ._tree_ensemble import AdditiveTrees, check_additive, uncounted_forest
from ._virtual import AdditiveUncertainty, uncertainty, virtual_ensemble

__all__ = [
    "LINKS",
    "AdditiveTrees",
    "AdditiveUncertainty",
    "check_additive",
    "uncertainty",
    "virtual_ensemble",
]

"""Models whose leaves hold values that are added: boosted trees, forests of regression trees."""

from ._links import LINKS, apply_link
from ._tree_ensemble import TreeEnsemble, check_ensemble, uncounted_forest
from ._virtual import EnsembleUncertainty, uncertainty, virtual_ensemble

__all__ = [
    "LINKS",
    "EnsembleUncertainty",
    "TreeEnsemble",
    "check_ensemble",
    "uncertainty",
    "virtual_ensemble",
]

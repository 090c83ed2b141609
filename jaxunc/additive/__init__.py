"""Models whose leaves hold values that are added: boosted trees, forests of regression trees."""

from ._additive_trees import (
    LINKS,
    AdditiveTrees,
    AdditiveUncertainty,
    apply_link,
    check_additive,
    uncertainty,
    uncounted_forest,
    virtual_ensemble,
)

__all__ = [
    "LINKS",
    "AdditiveTrees",
    "AdditiveUncertainty",
    "check_additive",
    "uncertainty",
    "virtual_ensemble",
]

"""Models whose leaves hold values that are added: boosted trees and forests of regression trees."""

from ._additive_trees import (
    LINKS,
    AdditiveTrees,
    AdditiveUncertainty,
    LeafSum,
    apply_link,
    check_additive,
    uncounted_forest,
    virtual_ensemble,
)

__all__ = ["AdditiveTrees"]

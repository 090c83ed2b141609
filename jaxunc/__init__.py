"""jaxunc: what the leaf counts of a forest of decision trees can say.

``import jaxunc as ju``: import a fitted forest (`from_sklearn`), choose a rule (`Mean`, `EvidenceAccumulation`, …),
`bind` them, and score.
"""

from jaxunc import (
    belief,
    combiners,
    comparison,
    estimators,
    forest,
    growing,
    imprecise,
    interop,
    metrics,
    plotting,
    routing,
    scorers,
)
from jaxunc.combiners import (
    Answer,
    BetaAggregation,
    CautiousRule,
    DempsterRule,
    EpistemicWeighting,
    EvidenceAccumulation,
    Fold,
    GeneralizedMixture,
    Maximum,
    Mean,
    Median,
    OneVsRest,
    Pooling,
    Together,
    Uncertainty,
    UncertaintyDecomposition,
    Vote,
    Weighted,
    margin,
    tree_field,
)
from jaxunc.forest import Forest, check_forest
from jaxunc.growing import grow_random_trees
from jaxunc.interop import from_sklearn, oob_mask
from jaxunc.routing import BoundForest, bind, leaf_counts, leaf_index, leave_one_out, recount

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BetaAggregation",
    "BoundForest",
    "CautiousRule",
    "DempsterRule",
    "EpistemicWeighting",
    "EvidenceAccumulation",
    "Fold",
    "Forest",
    "GeneralizedMixture",
    "Maximum",
    "Mean",
    "Median",
    "OneVsRest",
    "Pooling",
    "Together",
    "Uncertainty",
    "UncertaintyDecomposition",
    "Vote",
    "Weighted",
    "belief",
    "bind",
    "check_forest",
    "combiners",
    "comparison",
    "estimators",
    "forest",
    "from_sklearn",
    "grow_random_trees",
    "growing",
    "imprecise",
    "interop",
    "leaf_counts",
    "leaf_index",
    "leave_one_out",
    "margin",
    "metrics",
    "oob_mask",
    "plotting",
    "recount",
    "routing",
    "scorers",
    "tree_field",
]

"""Rules that make one answer of many leaves, and the contract that they keep."""

from jaxunc._numerics import TwoFloat

from ._answer import Answer, kind_of, margin
from ._averaged_intervals import AveragedIntervals
from ._beta import BetaAggregation
from ._blend import Stack
from ._calibrated import Calibrated
from ._cautious import CautiousRule
from ._combine import combine_counts, merged, read_answer
from ._combiner import Combiner
from ._dempster import DempsterRule
from ._epistemic import EpistemicWeighting
from ._evidence import EvidenceAccumulation
from ._explained_vote import ExplainedVote, Explanation
from ._fields import DOMAINS, learned_field, tree_field
from ._generalized_mixture import GeneralizedMixture
from ._generalized_vote import GeneralizedVote
from ._given import as_rule, check_is_rule
from ._learned_pool import LearnedPool
from ._learned_vote import LearnedVote
from ._lift import (
    check_tree_fields,
    columns_of,
    has_tree_fields,
    lift_rows,
    lift_tree,
    tree_axes,
    warn_if_sizes_are_lost,
)
from ._maximum import Maximum
from ._mean import Mean
from ._median import Median
from ._merge import Merging, merge_kinds
from ._names import CONFIGURED, RULES, SCORERS, check_name, rule_by_name
from ._one_vs_rest import OneVsRest
from ._own_scorers import check_own_scorers
from ._pooling import Pooling
from ._preference import Preference
from ._together import Together
from ._uncertainty import Uncertainty, UncertaintyDecomposition
from ._vote import Vote
from ._weighted import Weighted

__all__ = [
    "CONFIGURED",
    "DOMAINS",
    "RULES",
    "SCORERS",
    "Answer",
    "AveragedIntervals",
    "BetaAggregation",
    "Calibrated",
    "CautiousRule",
    "Combiner",
    "DempsterRule",
    "EpistemicWeighting",
    "EvidenceAccumulation",
    "ExplainedVote",
    "Explanation",
    "GeneralizedMixture",
    "GeneralizedVote",
    "LearnedPool",
    "LearnedVote",
    "Maximum",
    "Mean",
    "Median",
    "OneVsRest",
    "Pooling",
    "Preference",
    "Stack",
    "Together",
    "TwoFloat",
    "Uncertainty",
    "UncertaintyDecomposition",
    "Vote",
    "Weighted",
    "learned_field",
    "margin",
    "rule_by_name",
    "tree_field",
]

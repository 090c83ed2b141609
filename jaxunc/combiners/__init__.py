"""Rules that make one answer of many leaves, and the contract that they keep."""

from jaxunc._numerics import TwoFloat

from ._answer import Answer, kind_of, margin
from ._belief_rules import CautiousRule, DempsterRule
from ._by_name import CONFIGURED, RULES, SCORERS, check_name, rule_by_name
from ._combiner import (
    DOMAINS,
    Combiner,
    check_own_scorers,
    check_tree_fields,
    columns_of,
    combine_counts,
    has_tree_fields,
    learned_field,
    lift_rows,
    lift_tree,
    merged,
    read_answer,
    tree_axes,
    tree_field,
    warn_if_sizes_are_lost,
)
from ._evidence import EvidenceAccumulation
from ._explained_vote import ExplainedVote, Explanation
from ._generalized_vote import GeneralizedVote, LearnedVote, Preference
from ._learned_pool import LearnedPool
from ._merge import Merging, merge_kinds
from ._one_vs_rest import OneVsRest
from ._score_combiners import BetaAggregation, EpistemicWeighting, GeneralizedMixture, Maximum, Mean, Median
from ._shares import Pooling, Vote
from ._together import Stack, Together, as_rule, check_is_rule
from ._uncertainty import AveragedIntervals, Uncertainty, UncertaintyDecomposition
from ._wrapped import Calibrated, Weighted

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

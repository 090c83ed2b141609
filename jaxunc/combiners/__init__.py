"""Combination rules, called combiners: they make one answer of many leaves. And the contract that they keep."""

from jaxunc._numerics import TwoFloat
from jaxunc.scorers import SCORERS

from ._answer import (
    Answer,
    check_own_scorers,
    check_tree_fields,
    columns_of,
    combine_counts,
    has_tree_fields,
    kind_of,
    lift_rows,
    lift_tree,
    lifted_together,
    margin,
    merged,
    read_answer,
    tree_axes,
    typed_by_answer,
    warn_if_sizes_are_lost,
)
from ._belief_rules import CautiousRule, DempsterRule
from ._by_name import COMBINERS, CONFIGURED, check_name, combiner_by_name
from ._combiner import DOMAINS, Combiner, check_is_combiner, learned_field, tree_field
from ._compound import Calibrated, Stack, Together, Weighted, as_combiner
from ._explained_vote import ExplainedVote, Explanation
from ._generalized_vote import GeneralizedVote, LearnedVote, Preference
from ._learned_pool import LearnedPool
from ._merge import Merging, merge_kinds
from ._one_vs_rest import OneVsRest
from ._score_combiners import BetaAggregation, EpistemicWeighting, GeneralizedMixture, Maximum, Mean, Median
from ._sums import EvidenceAccumulation, Pooling, Vote
from ._uncertainty import AveragedIntervals, Uncertainty, UncertaintyDecomposition

__all__ = [
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
    "GeneralizedMixture",
    "GeneralizedVote",
    "LearnedPool",
    "LearnedVote",
    "Maximum",
    "Mean",
    "Median",
    "OneVsRest",
    "Pooling",
    "Stack",
    "UncertaintyDecomposition",
    "Vote",
    "Weighted",
    "learned_field",
    "margin",
    "tree_field",
]

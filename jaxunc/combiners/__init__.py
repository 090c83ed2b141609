"""Combination rules, called combiners: they make one answer of many leaves. And the contract that they keep."""

from jaxunc._numerics import TwoFloat
from jaxunc.scorers import SCORERS

from ._answer import Answer, kind_of, margin, read_answer, typed_by_answer
from ._belief_rules import CautiousRule, DempsterRule
from ._by_name import COMBINERS, CONFIGURED, check_name, combiner_by_name
from ._combiner import Combiner, check_is_combiner
from ._evidence import EvidenceAccumulation
from ._explained_vote import ExplainedVote, Explanation
from ._fields import DOMAINS, check_tree_fields, has_tree_fields, learned_field, tree_axes, tree_field
from ._generalized_vote import GeneralizedVote, LearnedVote, Preference
from ._learned_pool import LearnedPool
from ._lift import (
    check_own_scorers,
    combine_counts,
    lift_rows,
    lift_tree,
    lifted_together,
    merged,
    warn_if_sizes_are_lost,
)
from ._merge import Merging, merge_kinds
from ._one_vs_rest import OneVsRest
from ._score_combiners import BetaAggregation, EpistemicWeighting, GeneralizedMixture, Maximum, Mean, Median
from ._shares import Pooling, Vote
from ._stack import Stack
from ._together import Together, as_combiner, columns_of
from ._uncertainty import AveragedIntervals, Uncertainty, UncertaintyDecomposition
from ._wrapped import Calibrated, Weighted

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

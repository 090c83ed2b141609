"""Many leaves → one answer: the contract of a fold, and the rules."""

from ._answer import Answer, margin
from ._averaged_intervals import AveragedIntervals
from ._beta import BetaAggregation
from ._blend import Blend
from ._calibrated import Calibrated
from ._cautious import CautiousRule
from ._dempster import DempsterRule
from ._epistemic import EpistemicWeighting
from ._evidence import EvidenceAccumulation
from ._explained_vote import ExplainedVote, Explanation
from ._fields import DOMAINS, learned_field, tree_field
from ._fold import Fold
from ._generalized_mixture import GeneralizedMixture
from ._generalized_vote import GeneralizedVote
from ._learned_pool import LearnedPool
from ._learned_vote import LearnedVote
from ._maximum import Maximum
from ._mean import Mean
from ._median import Median
from ._names import CONFIGURED, RULES, SCORERS, rule_by_name
from ._one_vs_rest import OneVsRest
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
    "Blend",
    "Calibrated",
    "CautiousRule",
    "DempsterRule",
    "EpistemicWeighting",
    "EvidenceAccumulation",
    "ExplainedVote",
    "Explanation",
    "Fold",
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
    "Together",
    "Uncertainty",
    "UncertaintyDecomposition",
    "Vote",
    "Weighted",
    "learned_field",
    "margin",
    "rule_by_name",
    "tree_field",
]

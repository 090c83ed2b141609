"""How many trees settle a vote: inference on ensembles of infinite size."""

from ._critical_votes import critical_final_votes, critical_votes
from ._expected_trees import TreePlan, expected_trees, plan_trees
from ._majority import majority_probability
from ._prior import VotePriorWarning, fit_vote_prior
from ._stop_after import Stopped, stop_after
from ._until_settled import BoundVote, Settled, bind_vote, predict_until_settled
from ._win_probability import win_probability

__all__ = [
    "BoundVote",
    "Settled",
    "Stopped",
    "TreePlan",
    "VotePriorWarning",
    "bind_vote",
    "critical_final_votes",
    "critical_votes",
    "expected_trees",
    "fit_vote_prior",
    "majority_probability",
    "plan_trees",
    "predict_until_settled",
    "stop_after",
    "win_probability",
]

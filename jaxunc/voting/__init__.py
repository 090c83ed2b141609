"""Votes that stop as soon as enough trees have settled them: inference on ensembles of infinite size."""

from ._critical_votes import critical_final_votes, critical_votes
from ._ensemble_vote import ensemble_vote_probability
from ._expected_trees import ForestSize, expected_trees, forest_size_for
from ._leader import Criterion, Population
from ._leaf_votes import votes_of_counts
from ._majority import majority_probability
from ._optimal_votes import OptimalVotes, optimal_votes
from ._out_of_bag_votes import out_of_bag_votes
from ._prior import VotePriorWarning, fit_vote_prior
from ._stop_after import StoppingResult, stop_after
from ._until_settled import BoundVote, VoteResult, bind_vote, predict_until_settled
from ._win_probability import win_probability

__all__ = [
    "BoundVote",
    "ForestSize",
    "OptimalVotes",
    "StoppingResult",
    "VotePriorWarning",
    "VoteResult",
    "bind_vote",
    "critical_final_votes",
    "critical_votes",
    "ensemble_vote_probability",
    "expected_trees",
    "fit_vote_prior",
    "forest_size_for",
    "majority_probability",
    "optimal_votes",
    "out_of_bag_votes",
    "predict_until_settled",
    "stop_after",
    "win_probability",
]

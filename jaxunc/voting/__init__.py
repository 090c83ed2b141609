"""Votes that stop as soon as enough trees have settled them: inference on ensembles of infinite size."""

from ._expected_trees import ForestSize, expected_trees, forest_size_for
from ._leader_probability import Criterion, Population
from ._optimal_boundary import OptimalVotes, optimal_votes
from ._stop_after import StoppingResult, stop_after
from ._stopping_rules import critical_final_votes, critical_votes
from ._until_settled import BoundVote, VoteResult, bind_vote, predict_until_settled
from ._vote_prior import VotePriorWarning, fit_vote_prior, out_of_bag_votes, votes_of_counts
from ._win_probability import win_probability

__all__ = [
    "critical_votes",
    "expected_trees",
    "fit_vote_prior",
    "forest_size_for",
    "optimal_votes",
    "out_of_bag_votes",
    "predict_until_settled",
    "stop_after",
    "win_probability",
]

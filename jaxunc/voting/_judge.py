"""Judges of votes that no table settles: each distinct vote is judged as a whole, on the host."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32

from ._final_weights import is_final_weights
from ._leader import Criterion, Population, Votes, leader_probability
from ._overtaken import allowed_loss, loss
from ._prior import checked_prior
from ._stopping_rules import optimal_table


class Judge(NamedTuple):
    """A function of votes ``[n classes]`` and the number of trees polled, abstaining ones among them.

    Settings instead of a closure, so that bound votes are copied and pickled.
    """

    n_trees: int
    promise: float
    """The confidence, or the disagreement of criterion "optimal"."""
    criterion: Criterion
    population: Population
    alpha: Float[np.ndarray, "classes"]
    least: Int32[np.ndarray, "2 polled"] | None = None
    """By t the least votes for each class, for criterion "optimal" where no tree has abstained."""

    def __call__(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return which votes are settled."""
        top = np.sort(votes, axis=1)
        settled = top[:, -1] > top[:, -2]  # a tied rival is a factor of one half
        settled[settled] = self._is_settled(votes[settled], t)
        return settled

    def _is_settled(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        if self.least is not None:
            return self._is_settled_optimally(votes, t, self.least)
        if self.population == "finite":
            return self._stays(votes, t, self.promise)
        polled = np.full(len(votes), t)
        if self.criterion != "exact":
            return self._probability(votes, polled, self.criterion) > self.promise
        # The exact probability lies between the product of its factors and the least of them.
        low = self._probability(votes, polled, "bound")
        # The leader and the runner-up: their factor is the least of all.
        worst = np.sort(votes, axis=1)[:, :-3:-1]
        high = _two_classes(worst, self.alpha) if np.all(self.alpha == self.alpha[0]) else np.ones_like(low)
        # The integral is computed only where its bounds do not decide.
        open_ = (low <= self.promise) & (high > self.promise)
        low[open_] = self._probability(votes[open_], polled[open_], "exact")
        return low > self.promise

    def _is_settled_optimally(self, votes: Votes, t: int, table: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Read the table where all trees have voted; keep the promise in each single instance where some abstained."""
        least = np.where(table[:, t] < 0, t + 1, table[:, t])
        settled = np.any(votes >= least, axis=1)
        abstained = votes.sum(axis=1) < t
        settled[abstained] = self._stays(votes[abstained], t, 1 - self.promise)
        return settled

    def _stays(self, votes: Votes, t: int, confidence: float) -> Bool[np.ndarray, "n"]:
        """Return whether the leader is that of all trees, with that probability at least."""
        allowed = allowed_loss(confidence)
        return loss(votes, np.full(len(votes), t), self.n_trees, self.alpha, most=allowed) < allowed

    def _probability(self, votes: Votes, polled, criterion: Criterion) -> Float[np.ndarray, "n"]:
        return leader_probability(votes, polled, self.n_trees, criterion, self.population, self.alpha)


def make_judge(
    n_classes: int,
    n_trees: int,
    promise: float,
    criterion: Criterion,
    population: Population,
    prior,
    *,
    max_trees: int | None = None,
) -> Judge:
    """Return the judge of whether votes are settled, for what `make_rule` has no table of.

    That is three classes or more, and a finite population of two with trees that abstain. Raises a ValueError for the
    exact probability of a finite population of three classes or more, and for weights of final counts.
    """
    if population == "finite" and criterion == "exact" and n_classes > 2:
        raise ValueError(
            "criterion='exact' of a finite population has no tractable form for three classes and more; "
            "choose criterion='bound' (1 less the sum over the rivals) or 'certain'."
        )
    least = None
    if criterion == "optimal":
        if is_final_weights(prior, population, n_trees):
            raise ValueError(
                "prior weighs the final counts of trees that all vote, but some leaves are empty or tied, and their "
                "trees abstain; pass α instead, one number or one for each class."
            )
        least = optimal_table(n_classes, n_trees, promise, population, prior, max_trees=max_trees)
    return Judge(n_trees, promise, criterion, population, checked_prior(prior, n_classes), least)


def _two_classes(votes, alpha):
    return leader_probability(votes, votes.sum(axis=1), 0, "bound", "infinite", alpha[:2])

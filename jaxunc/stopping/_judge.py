"""Judges of votes that no table settles: each distinct vote is judged as a whole, on the host."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._leader import Criterion, Population, Votes, leader_probability
from ._overtaken import allowed_loss, loss
from ._prior import checked_prior


class Judge(NamedTuple):
    """A function of votes ``[n classes]`` and the number of trees polled, abstaining ones among them.

    Settings instead of a closure, so that bound votes are copied and pickled.
    """

    n_trees: int
    confidence: float
    criterion: Criterion
    population: Population
    alpha: Float[np.ndarray, "classes"]

    def __call__(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return which votes are settled."""
        top = np.sort(votes, axis=1)
        settled = top[:, -1] > top[:, -2]  # a tied rival is a factor of one half
        settled[settled] = self._is_settled(votes[settled], t)
        return settled

    def _is_settled(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        polled = np.full(len(votes), t)
        if self.population == "finite":
            allowed = allowed_loss(self.confidence)
            return loss(votes, polled, self.n_trees, self.alpha, most=allowed) < allowed
        if self.criterion != "exact":
            return self._probability(votes, polled, self.criterion) > self.confidence
        # The exact probability lies between the product of its factors and the least of them.
        low = self._probability(votes, polled, "bound")
        # The leader and the runner-up: their factor is the least of all.
        worst = np.sort(votes, axis=1)[:, :-3:-1]
        high = _two_classes(worst, self.alpha) if np.all(self.alpha == self.alpha[0]) else np.ones_like(low)
        # The integral is computed only where its bounds do not decide.
        open_ = (low <= self.confidence) & (high > self.confidence)
        low[open_] = self._probability(votes[open_], polled[open_], "exact")
        return low > self.confidence

    def _probability(self, votes: Votes, polled, criterion: Criterion) -> Float[np.ndarray, "n"]:
        return leader_probability(votes, polled, self.n_trees, criterion, self.population, self.alpha)


def make_judge(
    n_classes: int, n_trees: int, confidence: float, criterion: Criterion, population: Population, prior
) -> Judge:
    """Return the judge of whether votes are settled, for what `make_rule` has no table of.

    That is three classes or more, and a finite population of two with trees that abstain. Raises a ValueError for the
    exact probability of a finite population of three classes or more.
    """
    if population == "finite" and criterion == "exact" and n_classes > 2:
        raise ValueError(
            "criterion='exact' of a finite population has no tractable form for three classes and more; "
            "choose criterion='bound' (1 less the sum over the rivals) or 'certain'."
        )
    return Judge(n_trees, confidence, criterion, population, checked_prior(prior, n_classes))


def _two_classes(votes, alpha):
    return leader_probability(votes, votes.sum(axis=1), 0, "bound", "infinite", alpha[:2])

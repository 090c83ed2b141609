"""Judges of votes that no table settles: each distinct vote is judged as a whole, on the host."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from ._leader import Criterion, Population, Votes, leader_probability
from ._overtaken import allowed_loss, loss
from ._prior import checked_prior

Judge = Callable[[Votes, int], Bool[np.ndarray, "n"]]
"""Function of votes ``[n classes]`` and the number of trees polled (abstaining ones among them): which are settled."""


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
    alpha, allowed = checked_prior(prior, n_classes), allowed_loss(confidence)

    def is_settled(votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        polled = np.full(len(votes), t)
        if population == "finite":
            return loss(votes, polled, n_trees, alpha, most=allowed) < allowed
        if criterion != "exact":
            return leader_probability(votes, polled, n_trees, criterion, population, alpha) > confidence
        # The exact probability lies between the product of its factors and the least of them.
        low = leader_probability(votes, polled, n_trees, "bound", population, alpha)
        # The leader and the runner-up: their factor is the least of all.
        worst = np.sort(votes, axis=1)[:, :-3:-1]
        high = _two_classes(worst, alpha) if np.all(alpha == alpha[0]) else np.ones_like(low)
        # The integral is computed only where its bounds do not decide.
        open_ = (low <= confidence) & (high > confidence)
        low[open_] = leader_probability(votes[open_], polled[open_], n_trees, criterion, population, alpha)
        return low > confidence

    def judge(votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        top = np.sort(votes, axis=1)
        settled = top[:, -1] > top[:, -2]  # a tied rival is a factor of one half
        settled[settled] = is_settled(votes[settled], t)
        return settled

    return judge


def _two_classes(votes, alpha):
    return leader_probability(votes, votes.sum(axis=1), 0, "bound", "infinite", alpha[:2])

"""When a vote is settled, where no table says it: each distinct vote is judged as a whole, on the host."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from ._leader import Criterion, Population, Votes, leader_probability
from ._prior import checked_prior

Judge = Callable[[Votes], Bool[np.ndarray, "n"]]


def make_judge(
    n_classes: int, n_trees: int, confidence: float, criterion: Criterion, population: Population, prior
) -> Judge:
    """Whether votes ``[n classes]`` are settled, for what `make_rule` has no table of: three classes or more.

    Raises a ValueError for the exact probability of a finite population.
    """
    if population == "finite" and criterion == "exact":
        raise ValueError(
            "criterion='exact' of a finite population has no tractable form for three classes and more; "
            "choose criterion='bound' (1 less the sum over the rivals) or 'certain'."
        )
    alpha = checked_prior(prior, n_classes)

    def judge(votes: Votes) -> Bool[np.ndarray, "n"]:
        top = np.sort(votes, axis=1)
        settled = top[:, -1] > top[:, -2]  # a tied rival is a factor of one half
        if criterion == "exact":  # between the product of its factors and the least of them
            low = leader_probability(votes[settled], n_trees, "bound", population, alpha)
            worst = np.stack([votes[settled].max(axis=1), top[settled, -2]], axis=1)
            high = _two_classes(worst, alpha) if np.all(alpha == alpha[0]) else np.ones_like(low)
            open_ = (low <= confidence) & (high > confidence)
            low[open_] = leader_probability(votes[settled][open_], n_trees, criterion, population, alpha)
            settled[settled] = low > confidence
        else:
            found = leader_probability(votes[settled], n_trees, criterion, population, alpha)
            settled[settled] = found > confidence
        return settled

    return judge


def _two_classes(votes, alpha):
    return leader_probability(votes, 0, "bound", "infinite", alpha[:2])

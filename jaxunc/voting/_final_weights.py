"""Priors that weigh the final counts of a finite population of votes of two classes."""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp

from jaxunc._checks import check_numbers, is_concrete
from jaxunc.tables import NumbersLike


def is_final_weights(prior: NumbersLike, population: str, n_trees: int) -> bool:
    """Return whether a prior weighs the final counts of a finite population, 0 to n_trees votes for class 1."""
    # With one tree the two numbers are an α for each class, and there is nothing to stop.
    return population == "finite" and n_trees > 1 and is_concrete(prior) and np.shape(prior) == (n_trees + 1,)


def checked_weights(prior: NumbersLike) -> Float[np.ndarray, "ones"]:
    """Return weights of final counts that add to 1; a ValueError for negative ones, or only zeros."""
    check_numbers("prior", prior)
    weights = np.asarray(prior, float)
    if not (np.all(weights >= 0) and np.all(np.isfinite(weights)) and weights.sum() > 0):
        raise ValueError(
            "prior has an entry for each final count of the votes for class 1, which must be weights: finite, not "
            "negative, and not all 0."
        )
    return weights / weights.sum()


def leads_at_the_end(votes: Int[np.ndarray, "n 2"], weights: Float[np.ndarray, "ones"]) -> Float[np.ndarray, "n"]:
    """Return the probability that the class in the lead is that of all trees, by weights of their final counts.

    Class 0 wins ties. NaN for votes that the weights exclude, unless all trees have voted.
    """
    distinct, which = np.unique(votes, axis=0, return_inverse=True)
    found = np.array([_leads(int(zeros), int(ones), weights) for zeros, ones in distinct])
    return found[which.reshape(-1)] if len(found) else np.zeros(0)


def _leads(zeros: int, ones: int, weights: Float[np.ndarray, "ones"]) -> float:
    n_trees, n = len(weights) - 1, zeros + ones
    if n == n_trees:
        return 1.0
    # The weight of a final count, times the share of its orders that begin with these votes in their order.
    final = ones + np.flatnonzero(weights[ones : n_trees - zeros + 1])
    if not len(final):
        return float("nan")
    log_ways = lambda of, some: gammaln(of + 1) - gammaln(some + 1) - gammaln(of - some + 1)  # noqa: E731
    chance = np.log(weights[final]) + log_ways(n_trees - n, final - ones) - log_ways(n_trees, final)
    chance = np.exp(chance - logsumexp(chance))
    return float(chance[(2 * final > n_trees) == (ones > zeros)].sum())

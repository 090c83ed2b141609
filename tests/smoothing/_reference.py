"""The smoothing of leaves in float64, from the definitions, with SciPy's special functions and optimiser."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, digamma, gammaln


def sample(counts, *, by_size: bool, clip: float | None):
    """Proportions ``[leaves classes]`` and weights ``[leaves]`` of the leaves with instances."""
    counts = np.asarray(counts, float)
    counts = counts[counts.sum(axis=1) > 0]
    proportions = []
    for leaf in counts:
        p = leaf / leaf.sum()
        if clip is not None:
            absent = p == 0
            p = np.where(absent, clip, p * (1 - clip * absent.sum()))
        proportions.append(p)
    return np.array(proportions), counts.sum(axis=1) if by_size else np.ones(len(counts))


def likelihood(alpha, counts, *, by_size: bool, clip: float):
    """Log likelihood of the artificial sample under Dirichlet(α)."""
    p, weight = sample(counts, by_size=by_size, clip=clip)
    log_density = gammaln(np.sum(alpha)) - gammaln(alpha).sum() + (np.log(p) * (alpha - 1)).sum(axis=1)
    return float(weight @ log_density)


def marginal(alpha, counts):
    """Log probability of the counts, but for the binomial coefficients."""
    counts = np.asarray(counts, float)
    if counts.shape[1] == 2:
        return float(np.sum(betaln(counts[:, 0] + alpha[0], counts[:, 1] + alpha[1]) - betaln(*alpha)))
    size, total = counts.sum(axis=1), np.sum(alpha)
    return float(np.sum(gammaln(counts + alpha) - gammaln(alpha)) + np.sum(gammaln(total) - gammaln(size + total)))


def best(objective, n_classes: int):
    """Where an objective of α is largest, by a search that knows nothing of it (to about 1e-5)."""
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000, "maxfev": 10_000}
    found = minimize(lambda x: -objective(np.exp(x)), np.zeros(n_classes), method="Nelder-Mead", options=options)
    return np.exp(found.x)


def marginal_gain(alpha, counts):
    """The log likelihood of the counts at α less that of one probability for all leaves."""
    counts = np.asarray(counts, float)
    size, total, mean = counts.sum(axis=1), np.sum(alpha), counts.sum(axis=0) / counts.sum()
    own = np.sum(gammaln(counts + alpha) - gammaln(alpha) - counts * np.log(mean))
    return float(own + np.sum(gammaln(total) - gammaln(size + total)))


def best_of_many_marginals(counts):
    """The largest gain that searches from many starts end at (0 at infinity), and how many different ones they do."""
    counts = np.asarray(counts, float)
    size, mean = counts.sum(axis=1), counts.sum(axis=0) / counts.sum()

    def falling(log_alpha):
        alpha = np.exp(log_alpha)
        total = alpha.sum()
        slope = np.sum(digamma(counts + alpha) - digamma(alpha), axis=0)
        slope = slope - np.sum(digamma(size + total) - digamma(total))
        return -marginal_gain(alpha, counts), -slope * alpha

    options = {"method": "L-BFGS-B", "jac": True, "bounds": [(-20, 20)] * len(mean)}
    ends = [-minimize(falling, np.log(mean) + start, **options).fun for start in np.linspace(-8, 12, 6)]
    return max(0.0, *ends), len(set(np.round(ends, 1)))


def moments(counts, *, by_size: bool):
    """α by moments."""
    p, weight = sample(counts, by_size=by_size, clip=None)
    weight = weight / weight.sum()
    mean = weight @ p
    spread = weight @ (p - mean) ** 2
    return mean * (np.sum(mean * (1 - mean)) / np.sum(spread) - 1)

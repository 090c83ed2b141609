"""Dirichlet prior of the votes for an instance, before the first tree is polled."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Num
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from jaxunc._checks import check_bool, check_class_axis, check_counts, is_concrete, warn
from jaxunc.smoothing import PriorStatus, fit_dirichlet_prior
from jaxunc.tables import NumbersLike

SMALLEST, LARGEST = 1e-3, 1e4
"""Range of a fitted α: a class that nobody votes for sends it beyond."""


class VotePriorWarning(UserWarning):
    """No prior could be fitted to the votes; the uniform one stands in for it."""


def fit_vote_prior(
    vote_counts: Num[Array | np.ndarray, "instances classes"], *, symmetric: bool = False
) -> Float[np.ndarray, "classes"]:
    r"""Fit the Dirichlet prior under which the votes for a sample of instances are most likely.

    Maximises :math:`\sum_h \log B(t^h + \alpha) - \log B(\alpha)`, the Dirichlet-multinomial likelihood. The paper's
    uniform prior (α = 1) believes that most instances are doubtful; most are not, and where they are (it names liver
    and threenorm) it stops too early.

    Parameters
    ----------
    vote_counts
        Votes of several trees for instances that the trees were not grown on (held out, or out of bag)
        ``[instances classes]``; instances without a vote say nothing, nor do trees that abstain.
    symmetric
        Whether all classes share one α: then nothing is assumed about which class is common, and votes of three
        classes and more are settled by the fast tables.

    Returns
    -------
    np.ndarray
        The prior α ``[classes]``, within [1e-3, 1e4], as functions of this room take it. All 1, with a warning,
        where no finite, positive α is the most likely: trees that never disagree on any instance, or instances that
        differ no more than by chance (one instance, or all alike). Such a sample is too small or too plain to learn
        from: taken at its word, one vote would settle all, or no number of votes any.

    Raises
    ------
    ValueError
        If votes are negative or not finite, or have another shape. If no instance has two votes: one vote each says
        nothing about how votes agree.

    Warns
    -----
    VotePriorWarning
        If the uniform prior is returned for that reason, or since the search did not converge.

    References
    ----------
    Hernández-Lobato et al. 2011, section 4 (the failure); the remedy is not in the paper.
    """
    check_bool("symmetric", symmetric)
    check_class_axis(vote_counts, "vote_counts")
    check_counts(vote_counts, "vote_counts")
    counts = np.asarray(vote_counts, float)
    if counts.ndim != 2:
        raise ValueError(f"vote_counts has shape {counts.shape}; expected [instances classes].")
    counts = counts[counts.sum(axis=1) > 0]
    if not (counts.sum(axis=1) >= 2).any():
        raise ValueError("no instance has two votes or more; how far votes agree cannot be seen from one each.")
    if symmetric:
        found = _symmetric(counts)
        alpha, status = np.full(counts.shape[1], found), _status_of_one(found)
    else:
        fitted = fit_dirichlet_prior(counts, "marginal")
        alpha, status = np.asarray(fitted.alpha, float), PriorStatus(int(fitted.status))
    if status is PriorStatus.FITTED:
        # Scaled as a whole, which keeps the mean; single entries are cut only where a class has hardly any votes.
        return np.clip(alpha * min(1, LARGEST / alpha.max()), SMALLEST, LARGEST)
    warn(
        f"{_REASONS[status]}, so no prior can be learned from these votes (instances: {len(counts)}), and the uniform "
        "one is returned. Pass votes for more instances, which the trees were not grown on.",
        VotePriorWarning,
    )
    return np.ones(counts.shape[1])


_REASONS = {
    PriorStatus.PURE: "on no instance do trees disagree",
    PriorStatus.CONCENTRATED: "instances differ no more than by chance",
    PriorStatus.NOT_CONVERGED: "the search for the most likely prior did not converge",
}


def _status_of_one(alpha: float) -> PriorStatus:
    """Return the status of a fitted α: at an end of the range nothing was found."""
    if alpha < 1.05 * SMALLEST:
        return PriorStatus.PURE
    return PriorStatus.CONCENTRATED if alpha > LARGEST / 1.05 else PriorStatus.FITTED


def _symmetric(counts: np.ndarray) -> float:
    distinct, times = np.unique(counts, axis=0, return_counts=True)
    n_classes, sizes = counts.shape[1], distinct.sum(axis=1)

    def minus_log_likelihood(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        of_classes = (gammaln(distinct + alpha) - gammaln(alpha)).sum(axis=1)
        return -times @ (of_classes + gammaln(n_classes * alpha) - gammaln(sizes + n_classes * alpha))

    found: Any = minimize_scalar(minus_log_likelihood, bounds=np.log([SMALLEST, LARGEST]))
    return float(np.exp(found.x))


def checked_prior(prior: NumbersLike, n_classes: int) -> Any:
    """Return α ``[classes]``; a ValueError unless there is one positive, finite number, or one for each class."""
    if not is_concrete(prior):
        return prior
    alpha = np.asarray(prior)
    is_number = alpha.dtype.kind in "iuf" and alpha.shape in ((), (n_classes,))
    if not (is_number and np.all(alpha > 0) and np.all(np.isfinite(alpha))):
        raise ValueError(
            f"prior={prior!r} must be one positive number, or one for each of the {n_classes} classes; "
            "1 is the uniform prior, and fit_vote_prior learns it from votes."
        )
    return np.broadcast_to(alpha.astype(float), (n_classes,))

"""Priors of leaves, Beta and Dirichlet, and leaves corrected by them: probabilities, intervals and masses."""

import enum
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Shaped

from jaxunc._checks import is_concrete, warn_of_fractions
from jaxunc._numerics import checked_counts, copy_in, float_dtype, jit, shares_of, sum_in_order
from jaxunc.intervals import Interval


class PriorStatus(enum.IntEnum):
    """Outcome of a fit, by the numbers that ``status`` holds."""

    FITTED = 0
    """The parameters are finite and positive."""
    CONCENTRATED = 1
    """The best prior has infinite weight: all leaves have the same proportions (as a single leaf has), or, by marginal
    likelihood, chance explains best how they differ. The parameters add to 2¹⁰⁰, which stands for ∞. Every leaf is
    smoothed to the mean proportions, which are its own if all are the same."""
    PURE = 2
    """The best prior has no weight, since every leaf is pure (moments and marginal likelihood). The parameters are 0;
    nothing is smoothed."""
    EMPTY = 3
    """There is no leaf with instances (under a trace; elsewhere an error). The parameters are 0."""
    NOT_CONVERGED = 4
    """The search ended before it was as exact as it should be; the parameters are the last ones."""


class PriorWarning(UserWarning):
    """A fitted prior smooths nothing, smooths all leaves alike, or is inexact."""


class BetaPrior(NamedTuple):
    """Beta(α, β), a prior of the probability of class 1 in a leaf. A pytree; leading axes are those of the trees."""

    alpha: Float[Array | np.ndarray, "..."]
    """α ≥ 0: instances of class 1 that the prior is worth."""
    beta: Float[Array | np.ndarray, "..."]
    """β ≥ 0: instances of class 0."""
    status: Int32[Array | np.ndarray, "..."]
    """Outcome of the fit, a `PriorStatus`."""

    @property
    def concentration(self) -> Float[Array, "... 2"]:
        """Parameters in the order of the classes, [β, α], which `smooth` adds to the counts."""
        return jnp.stack([copy_in(self.beta), copy_in(self.alpha)], axis=-1)


class DirichletPrior(NamedTuple):
    """Dirichlet(α), a prior of the class probabilities in a leaf. A pytree; leading axes are those of the trees."""

    alpha: Float[Array | np.ndarray, "... classes"]
    """α ≥ 0: instances of each class that the prior is worth."""
    status: Int32[Array | np.ndarray, "..."]
    """Outcome of the fit, a `PriorStatus`."""

    @property
    def concentration(self) -> Float[Array, "... classes"]:
        """Parameters in the order of the classes, which `smooth` adds to the counts."""
        return copy_in(self.alpha)


def checked_concentration(prior: BetaPrior | DirichletPrior) -> Float[Array, "... classes"]:
    """Return the parameters in the order of the classes; a ValueError if some cannot be a prior's."""
    if not hasattr(prior, "concentration"):
        raise TypeError(
            f"prior is a {type(prior).__name__}; pass what fit_beta_prior or fit_dirichlet_prior returned, or "
            "BetaPrior(alpha, beta, 0), DirichletPrior(alpha, 0)."
        )
    alpha = prior.concentration
    if not is_concrete(alpha):
        return alpha
    wrong = (values := np.asarray(alpha))[~((values >= 0) & np.isfinite(values))]
    if wrong.size:
        raise ValueError(
            f"the prior has the parameter {wrong[0]}; they must be finite numbers >= 0. For a prior of infinite "
            "weight take parameters that add to 2**100."
        )
    return alpha


def smooth(
    counts: Shaped[Array | np.ndarray, "... classes"], prior: BetaPrior | DirichletPrior
) -> Float[Array, "... classes"]:
    r"""Leaf probabilities drawn towards a prior: the posterior mean.

    .. math:: \hat p_c = \frac{n_c + \alpha_c}{n + \sum \alpha}

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0.
    prior
        A prior that `fit_beta_prior` or `fit_dirichlet_prior` returned, or one of your own. Its leading axes are the
        first ones of the counts: one prior for each of ``[trees]`` goes with counts ``[trees leaves classes]``.

    Returns
    -------
    Array
        Probabilities ``[... classes]``, adding to 1.

    Raises
    ------
    ValueError
        If the classes or the leading axes do not fit or, outside a trace, counts or the prior's parameters are negative
        or not finite.

    Notes
    -----
    Leaf without instances: the prior's mean. A CONCENTRATED prior gives its mean to all leaves, a PURE one leaves them
    as they are (without instances: 1/C). Gradient: (1 - p̂_c)/(n + Σα) along n_c and along α_c.

    References
    ----------
    Sutton-Charani 2020, equations 1 and 2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(smooth(jnp.array([[0, 2], [0, 0]]), BetaPrior(1.0, 1.0, 0)))
    [[0.25 0.75]
     [0.5  0.5 ]]
    """
    counts, alpha = _aligned(counts, prior)
    return _smooth(counts, alpha)


def correction_interval(
    counts: Shaped[Array | np.ndarray, "... classes"], prior: BetaPrior | DirichletPrior
) -> Interval:
    r"""Probabilities as intervals whose width is how far smoothing moves them.

    .. math:: \delta_c = |\tilde p_c - \hat p_c|, \qquad
              [\tilde p_c - \delta_c/2,\; \tilde p_c + \delta_c/2] \cap [0, 1]

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0.
    prior
        See `smooth`.

    Returns
    -------
    Interval
        A closed interval for each class ``[... classes]``. For two classes one mirrors the other.

    Raises
    ------
    ValueError
        As for `smooth`.

    Notes
    -----
    Clipped to [0, 1] as in the published code: as printed, the lower end is negative where p̂ > 3 p̃. The interval is
    centred at the relative frequency p̃; the corrected p̂ lies outside, unless δ = 0. Leaf without instances: p̃ is
    undefined, and the interval is [0, 1]. More than two classes: each by itself (not in the paper).

    δ is computed as (Σα/(n + Σα)) \|α_c/Σα - p̃_c\|, which keeps its digits in large leaves. Gradient: smooth but for
    the kink at δ = 0 (0 there along δ) and the clip.

    References
    ----------
    Sutton-Charani 2020, equation 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> interval = correction_interval(jnp.array([[1, 3], [0, 2]]), BetaPrior(1.0, 1.0, 0))
    >>> print(interval.lower[:, 1].round(4), interval.upper[:, 1].round(4))
    [0.7083 0.875 ] [0.7917 1.    ]
    """
    counts, alpha = _aligned(counts, prior)
    return Interval(*_correction(counts, alpha))


@jit
def _smooth(counts, alpha):
    return shares_of(counts + alpha)


@jit
def _correction(counts, alpha):
    share, moved = shares_of(counts), _moved(counts, alpha)
    total = sum_in_order(counts, keepdims=True)
    # A pure leaf touches the end of [0, 1] exactly, also where the other class's half rounds.
    lower = jnp.where(total > 0, jnp.maximum(share - moved / 2, 0.0), 0.0)
    upper = jnp.where(total > 0, jnp.minimum(share + moved / 2, 1.0), 1.0)
    return lower, upper


def _moved(counts, alpha):
    """Return how far smoothing moves the relative frequencies."""
    total, weight = sum_in_order(counts, keepdims=True), sum_in_order(alpha, keepdims=True)
    shrunk = weight / jnp.where(total + weight > 0, total + weight, 1.0)
    return shrunk * jnp.abs(shares_of(alpha) - shares_of(counts))


def _aligned(counts, prior: BetaPrior | DirichletPrior):
    """Return counts as floats, and the prior's parameters with axes that go with them."""
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    alpha = checked_concentration(prior)
    shape, lead = counts.shape, alpha.shape[:-1]
    if alpha.shape[-1] != shape[-1]:
        raise ValueError(
            f"the prior has {alpha.shape[-1]} classes, but counts have {shape[-1]} (shape {shape}). Fit it to counts "
            "of the same classes."
        )
    if lead != shape[: len(lead)] or len(lead) >= len(shape):
        raise ValueError(
            f"the prior has leading axes {lead}, but counts have shape {shape}; they must begin with the same axes, "
            "such as a prior for each of [trees] and counts [trees leaves classes]."
        )
    alpha = alpha.reshape(*lead, *[1] * (len(shape) - 1 - len(lead)), shape[-1])
    dtype = float_dtype(counts)
    return counts.astype(dtype), alpha.astype(dtype)

"""Fitted priors of the leaves' class probabilities, and how their fits ended."""

import enum
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from jaxunc._checks import is_concrete


class PriorStatus(enum.IntEnum):
    """Outcome of a fit, by the numbers that ``status`` holds."""

    FITTED = 0
    """The parameters are finite and positive."""
    CONCENTRATED = 1
    """The best prior has infinite weight: all leaves have the same proportions (a single leaf has), or, by marginal
    likelihood, no finite one explains how they differ better than chance. The parameters add to 2¹⁰⁰, which stands for
    ∞; every leaf is smoothed to the mean proportions, which are its own if all are the same."""
    PURE = 2
    """The best prior has no weight, since every leaf is pure (moments and marginal likelihood). The parameters are 0;
    nothing is smoothed."""
    EMPTY = 3
    """There is no leaf with instances (under a trace; elsewhere an error). The parameters are 0."""
    NOT_CONVERGED = 4
    """The search ended before it was as exact as it should be; the parameters are the last ones."""


class PriorWarning(UserWarning):
    """A fitted prior does not do what one may expect of it."""


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
        """Parameters in the order of the classes, [β, α]: what `smooth` adds to the counts."""
        return jnp.stack([jnp.asarray(self.beta), jnp.asarray(self.alpha)], axis=-1)


class DirichletPrior(NamedTuple):
    """Dirichlet(α), a prior of the class probabilities in a leaf. A pytree; leading axes are those of the trees."""

    alpha: Float[Array | np.ndarray, "... classes"]
    """α ≥ 0: instances of each class that the prior is worth."""
    status: Int32[Array | np.ndarray, "..."]
    """Outcome of the fit, a `PriorStatus`."""

    @property
    def concentration(self) -> Float[Array, "... classes"]:
        """Parameters in the order of the classes: what `smooth` adds to the counts."""
        return jnp.asarray(self.alpha)


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

"""The likelihood of the leaves' proportions as draws from a Dirichlet prior: an exponential family, one maximum."""

from types import ModuleType

import jax
import jax.numpy as jnp

from jaxunc._numerics import digamma_gaps, sum_in_order

from ._root import Equations, find_root


def fit_likelihood(mean, log_gap, start, active, xp: ModuleType):
    """Return α ``[... classes]`` with ψ(α_c) - ψ(κ) = log μ_c + gap_c, and whether the search converged.

    ``mean`` μ and ``log_gap`` (mean of log p, less log μ) say all that the likelihood depends on.
    """
    if xp is jnp:
        r, log_total, converged = _solve(mean, log_gap, start, active)
    else:
        r, log_total, converged = find_root(_equations(mean, log_gap, xp), mean, start, active, xp)
    return mean * xp.exp(r + log_total[..., None]), converged


def _equations(mean, log_gap, xp: ModuleType) -> Equations:
    def equations(r, t):
        """Evaluate F = r - h(α) + h(κ) - gap and its slopes, where h(x) = log x - ψ(x)."""
        alpha, total = mean * xp.exp(r + t[..., None]), xp.exp(t)[..., None]
        (gap, own), (whole_gap, whole) = digamma_gaps(alpha, xp), digamma_gaps(total, xp)
        return r - gap + whole_gap - log_gap, 1 + own, own - whole

    return equations


@jax.custom_jvp
def _solve(mean, log_gap, start, active):
    return tuple(find_root(_equations(mean, log_gap, jnp), mean, start, active, jnp))


@_solve.defjvp
def _solve_jvp(primals, tangents):
    """Apply the implicit function theorem, in the same unknowns: nothing cancels here either."""
    (mean, log_gap, start, active), (d_mean, d_gap, *_) = primals, tangents
    r, t, converged = _solve(mean, log_gap, start, active)
    _, slope, by_total = _equations(mean, log_gap, jnp)(r, t)
    share = mean * jnp.exp(r)
    # The mean stands in the equations and in the scale of α: both ways it moves the root.
    d_value = d_gap - (slope - 1) * d_mean / mean
    missing = jnp.sum(share * d_value / slope, axis=-1) + jnp.sum(d_mean * jnp.expm1(r), axis=-1)
    fall = sum_in_order(share * by_total / slope)
    dt = jnp.where(active, missing / jnp.where(active, fall, 1.0), 0.0)
    dr = jnp.where(active[..., None], (d_value - by_total * dt[..., None]) / slope, 0.0)
    no_tangent = jnp.zeros(converged.shape, jax.dtypes.float0)
    return (r, t, converged), (dr, dt, no_tangent)

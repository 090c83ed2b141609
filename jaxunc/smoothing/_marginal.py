"""The marginal likelihood of the leaves' counts: Dirichlet-multinomial, beta-binomial for two classes."""

from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import digamma_gaps

from ._proportions import Leaves
from ._root import Equations, find_root


class Tally(NamedTuple):
    """How often which counts occur: all that the marginal likelihood depends on."""

    counts: Any
    """``[... classes values]``: sums along the last axis are vectorised."""
    times: Any
    """How many leaves have this count of the class, ``[... classes values]`` (of all classes: ``1`` for them)."""
    sizes: Any
    """``[... values]``"""
    size_times: Any
    """How many leaves have this size, ``[... values]``."""

    @classmethod
    def of(cls, counts, times, xp: ModuleType) -> "Tally":
        """Of leaves ``[... leaves classes]``, each as often as ``times`` says; values of one tree are put together."""
        if xp is not np or counts.ndim != 2:
            return cls(xp.swapaxes(counts, -1, -2), times[..., None, :], counts.sum(axis=-1), times)
        columns = [_together(column, times) for column in counts.T]
        longest = max(len(values) for values, _ in columns)
        padded = [[np.pad(part, (0, longest - len(part))) for part in column] for column in columns]
        values, value_times = (np.stack(part) for part in zip(*padded, strict=True))
        return cls(values, value_times, *_together(counts.sum(axis=-1), times))


def _together(values, times):
    """The distinct values, and how often each occurs."""
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, times)


def overdispersed(counts, times, leaves: Leaves, xp: ModuleType):
    """Whether leaves differ by more than chance, ``[...]``: else the likelihood grows with κ without end.

    The coefficient of 1/κ at κ = ∞ is half of Σ_leaves (Σ_c n_c (n_c - 1)/μ_c - n (n - 1)), here without cancellation:
    Σ_leaves n² Σ_c (p_c - μ_c)²/μ_c less (classes - 1) Σ_leaves n.
    """
    size = counts.sum(axis=-1)
    mean = leaves.mean[..., None, :]
    apart = xp.where(size[..., None] > 0, leaves.proportions - mean, 0)
    distance = (apart * apart / xp.where(mean > 0, mean, 1)).sum(axis=-1)
    by_chance = ((leaves.mean > 0).sum(axis=-1) - 1).astype(counts.dtype) * (times * size).sum(axis=-1)
    return (times * size * size * distance).sum(axis=-1) > by_chance * (1 + 64 * xp.finfo(counts.dtype).eps)


def fit_marginal(counts, times, mean, start, active, xp: ModuleType):
    """α ``[... classes]`` where the marginal likelihood is stationary, and whether the search converged."""
    return (_solve if xp is jnp else partial(_found, xp=np))(counts, times, mean, start, active)


def _found(counts, times, mean, start, active, xp: ModuleType):
    r, t, converged = find_root(_equations(Tally.of(counts, times, xp), mean, xp), mean, start, active, xp)
    return mean * xp.exp(r + t[..., None]), converged


def _equations(tally: Tally, mean, xp: ModuleType) -> Equations:
    seen = mean > 0

    def equations(r, t):
        """With S(n, a) = Σ_leaves ψ(n+a) - ψ(a): F = log S(n, κ) - log S(n_c, α_c)."""
        alpha, total = xp.where(seen, mean * xp.exp(r + t[..., None]), 1.0), xp.exp(t)
        own, own_slope = _score(tally.counts, tally.times, alpha[..., None], xp)
        whole, whole_slope = _score(tally.sizes, tally.size_times, total[..., None], xp)
        whole, whole_slope = whole[..., None], whole_slope[..., None]
        own, own_slope = xp.where(seen, own, 1.0), xp.where(seen, own_slope, -1.0)
        slope = -own_slope / own
        value = xp.where(seen, xp.log(whole / own), 0.0)
        return value, slope, xp.where(seen, slope + whole_slope / whole, 0.0)

    return equations


def _score(n, times, a, xp: ModuleType):
    """Σ ψ(n+a) - ψ(a) along the last axis, and its derivative along log a."""
    gap, own = digamma_gaps(a, xp)
    further_gap, further = digamma_gaps(n + a, xp)
    value = xp.log1p(n / a) + (gap - further_gap)
    slope = a / (n + a) * further - own - n / (n + a)
    return (times * value).sum(axis=-1), (times * slope).sum(axis=-1)


@jax.custom_jvp
def _solve(counts, times, mean, start, active):
    return _found(counts, times, mean, start, active, jnp)


@_solve.defjvp
def _solve_jvp(primals, tangents):
    """The implicit function theorem. The mean is but the scale that α is searched on."""
    (counts, times, mean, start, active), (d_counts, *_) = primals, tangents
    alpha, converged = _solve(counts, times, mean, start, active)
    seen = (mean > 0) & active[..., None]
    safe = jnp.where(seen, alpha, 1.0)
    total = jnp.sum(jnp.where(seen, alpha, 0.0), axis=-1)
    total = jnp.where(active, total, 1.0)

    def scores(counts):
        by_class, by_size = jnp.swapaxes(counts, -1, -2), jnp.sum(counts, axis=-1)
        own, own_slope = _score(by_class, times[..., None, :], safe[..., None], jnp)
        whole, whole_slope = _score(by_size, times, total[..., None], jnp)
        return own - whole[..., None], (whole, own_slope, whole_slope)

    _, d_score, (whole, own_slope, whole_slope) = jax.jvp(scores, (counts,), (d_counts,), has_aux=True)
    whole = jnp.where(active, whole, 1.0)[..., None]
    b, b_whole = jnp.where(seen, -own_slope / whole, 1.0), -whole_slope[..., None] / whole
    share = jnp.where(seen, alpha, 0.0) / total[..., None]
    push = jnp.where(seen, d_score / whole, 0.0)
    fall = jnp.sum(share * (b - b_whole) / b, axis=-1)
    d_total = jnp.where(active, jnp.sum(share * push / b, axis=-1) / jnp.where(active, fall, 1.0), 0.0)
    d_log = jnp.where(seen, (push + b_whole * d_total[..., None]) / b, 0.0)
    return (alpha, converged), (alpha * d_log, jnp.zeros(converged.shape, jax.dtypes.float0))

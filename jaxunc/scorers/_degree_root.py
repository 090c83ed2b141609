"""The root at which a leaf's likelihood meets the ramp of its degree of support: see `jaxunc.scorers._plausibility`."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from jaxunc._numerics import lambert_w_of_exp, log1p_minus


class DegreeRoot(NamedTuple):
    """The point where log L meets log z, for the class whose count is w against v."""

    log_degree: Array
    log_ratio_for: Array  # log(θ/p)
    log_ratio_against: Array  # log((1-θ)/(1-p))
    pull: Array  # -∂log L/∂θ ≥ 0
    slope: Array  # -h' ≥ 1


class DegreeLeaf(NamedTuple):
    """The quantities that the root depends on: the counts for and against a class, and its prior P."""

    w: Array
    v: Array
    lead: Array  # w - v P/(1-P), so that z₀ = lead/N; exact at P = 1/2
    rest: Array  # 1 - P

    @property
    def n(self):
        return self.w + self.v

    @property
    def reach(self):
        """r = 1 - z₀."""
        return self.v / (self.n * self.rest)

    def where(self, condition, w, v, lead) -> "DegreeLeaf":
        """Return the leaf where the condition holds, a harmless one elsewhere: each branch is evaluated everywhere."""
        pick = lambda own, other: jnp.where(condition, own, other)
        return DegreeLeaf(pick(self.w, w), pick(self.v, v), pick(self.lead, lead), pick(self.rest, 0.5))


def degree_root(leaf: DegreeLeaf) -> DegreeRoot:
    """Solve for log π of the class whose counts, for and against, and prior the leaf holds."""
    w, v = leaf.w, leaf.v
    # A fixed number, so that all leaves of a batch run the same program; enough for the slowest of them.
    steps = 20 if w.dtype == jnp.float64 else 10
    unopposed, empty = (v == 0) & (w > 0), (w == 0) & (v == 0)
    losing = (leaf.lead <= 0) & ~unopposed
    # Both branches run for every leaf; each sees harmless numbers where the other one is asked, so no NaN reaches
    # the result or its gradient.
    log_z, s = _losing_root(leaf.where(losing & ~empty, 1.0, 1.0, 0.0), steps)
    log_z_win, s_win = _winning_root(leaf.where(~losing & ~unopposed, 2.0, 1.0, 1.0), steps)
    log_z, s = jnp.where(losing, log_z, log_z_win), jnp.where(losing, s, s_win)
    s = jnp.where(unopposed, _unopposed_point(jnp.where(unopposed, w, 1.0), leaf.rest, steps), s)
    log_z, s = jnp.where(unopposed | empty, 0.0, log_z), jnp.where(empty, 0.0, s)
    # At w = 0 the slope in w is infinite; it is taken at the smallest normal float instead: large and finite.
    far = jnp.log(jnp.where(s * v > 0, s * v, 1.0)) - np.log(jnp.finfo(w.dtype).tiny)
    near = jnp.log1p(jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(w.dtype).max / 4))
    pull = _pull(s, leaf)
    return DegreeRoot(
        log_degree=log_z,
        log_ratio_for=jnp.where((w == 0) & ~empty, far, jnp.where(unopposed | empty, 0.0, near)),
        log_ratio_against=jnp.where(empty, 0.0, jnp.log1p(-s)),
        pull=pull,
        slope=1 + leaf.rest * jnp.exp(log_z) * pull,
    )


def _log_likelihood(s, w, v):
    """log L at the point s of the way from the maximum (s = 0) to θ = 1 (s = 1)."""
    # Capped below overflow: the logarithm of the quotient is still right to rounding, and its gradient stays finite.
    ratio = jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(s.dtype).max / 4)
    return jnp.where(w > 0, w * log1p_minus(ratio), -s * v) + v * log1p_minus(-s)


def _pull(s, leaf: DegreeLeaf):
    """-∂log L/∂θ = N² s / ((w + s v)(1 - s))."""
    n, below = leaf.n, leaf.w + s * leaf.v
    return n * (s / (1 - s)) * (n / jnp.where(below > 0, below, 1.0))


def _losing_root(leaf: DegreeLeaf, steps):
    """(log z, s) where z₀ ≤ 0: iterate on log z, since z may be far below the smallest float."""
    z0, reach = leaf.lead / leaf.n, leaf.reach

    def locate(log_z):
        z = jnp.exp(log_z)
        return z, (z - z0) / reach

    # Both are upper bounds: log L at z = 0, and from KL(p|θ) ≥ 2(θ-p)².
    curvature = 4 * leaf.n * leaf.rest * leaf.rest
    bound = (lambert_w_of_exp(jnp.log(curvature) - curvature * z0 * z0) - jnp.log(curvature)) / 2
    start = jnp.minimum(_log_likelihood(-z0 / reach, leaf.w, leaf.v), bound)
    # As N → 0 the start approaches z = 1, where the likelihood is 0: stay off it.
    start = jnp.minimum(start, -jnp.finfo(z0.dtype).eps)

    def newton(_, log_z):
        z, s = locate(log_z)
        step = (_log_likelihood(s, leaf.w, leaf.v) - log_z) / (1 + leaf.rest * z * _pull(s, leaf))
        # From the right Newton never overshoots on a concave function; the minimum only takes back rounding.
        return jnp.minimum(log_z + step, start)

    log_z = lax.fori_loop(0, steps, newton, start)
    return log_z, locate(log_z)[1]


def _winning_root(leaf: DegreeLeaf, steps):
    """(log z, s) where z₀ > 0: iterate on s, since z may differ from z₀ or from 1 by less than an ulp."""
    z0, reach = leaf.lead / leaf.n, leaf.reach
    tiny = jnp.finfo(z0.dtype).tiny

    def log_of(z, s):
        return jnp.where(z < 0.5, jnp.log(jnp.maximum(z, tiny)), jnp.log1p(-reach * (1 - s)))

    log_z0 = log_of(z0, 0.0)
    curvature = 4 * leaf.n * leaf.rest * leaf.rest
    bound = jnp.minimum(-2 * log_z0, jnp.exp(lambert_w_of_exp(jnp.log(curvature))))
    most = 1 - 1e-3
    # Both are upper bounds: from KL(p|θ) ≥ 2(θ-p)², and from φ(-s) ≤ -s²/2 (tight where v is small).
    start = jnp.minimum(jnp.sqrt(bound / curvature) / reach, jnp.sqrt(-2 * log_z0 / leaf.v))

    def newton(_, s):
        z = z0 + reach * s
        step = (_log_likelihood(s, leaf.w, leaf.v) - log_of(z, s)) / (1 + leaf.rest * z * _pull(s, leaf))
        return jnp.clip(s + z * jnp.expm1(step) / reach, 0.0, most)

    s = lax.fori_loop(0, steps, newton, jnp.minimum(start, most))
    return log_of(z0 + reach * s, s), s


def _unopposed_point(w, rest, steps):
    """The limit of s as v → 0 (there z → 1): the root of φ(-s) + (1-s)/(w(1-P)), needed for the gradient alone."""
    scale = 1 / (w * rest)

    def newton(_, s):
        value = log1p_minus(-s) + scale * (1 - s)
        return jnp.clip(s + value / (s / (1 - s) + scale), 0.0, 1 - 1e-3)

    return lax.fori_loop(0, steps, newton, jnp.minimum(jnp.sqrt(2 * scale), 1 - 1e-3))

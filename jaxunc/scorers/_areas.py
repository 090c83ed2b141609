"""Overlap areas: how much of a leaf's distribution and of its mirror image lie on top of each other.

Their complements are integrals over z = 2θ-1. With t = (w⁺-w⁻)/N, β the density of z when θ ~ Beta(w⁺+1, w⁻+1), and
2J the number of coin tosses that decide (N, or N+1 for odd N):

    binomial        A(t),  A(z) = I_{z²}(1/2, J) = 2J γ(J) ∫₀^z (1-u²)^{J-1} du
    beta            ∫₀¹ [β(z) - β(-z)] dz
    beta-binomial   ∫₀¹ [β(z) - β(-z)] A(z) dz

The binomial one follows from 2P(X<N/2) + P(X=N/2) = 2 I_q(J, J) and the quadratic transformation of the incomplete beta
function. The third follows from the first, because a beta-binomial is a binomial with a θ that is drawn. They hold for
real counts too. Every integrand is positive, so nothing cancels; each is a polynomial for integer counts, and close to
a normal density for large ones. Gauss-Legendre nodes on the part of [0, 1] that matters are enough for both. Odd in the
lead, the integrals are returned with its sign: smooth through ties.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._numerics import ceil_div

from ._heights import Leaf, log_central, log_mode_mass
from ._likelihood import log_likelihood

_BLOCK = 1024


class _Precision(NamedTuple):
    """Settings of the quadrature for one precision: the nodes, and the standard deviations that they must span."""

    nodes: int
    reach: float
    certain: float
    """|t| √N from which the overlap rounds to nothing."""


def _precision(dtype) -> _Precision:
    return _Precision(64, 8.3, 12.0) if dtype == jnp.float64 else _Precision(32, 5.5, 8.2)


@lru_cache
def _rule(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes x and weights on [0, 1], and the matrix that integrates a function from 0 to each x."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    values = np.polynomial.legendre.legvander(x, nodes)
    degree = np.arange(nodes)
    # Through Legendre polynomials: their primitives are known, so the matrix is exact for polynomials of the degree.
    coefficients = (2 * degree[:, None] + 1) / 2 * (values[:, :nodes].T * weights)
    # ∫_{-1}^x P_k = (P_{k+1} - P_{k-1}) / (2k+1), and x + 1 for k = 0
    below = np.concatenate([-np.ones((nodes, 1)), values[:, : nodes - 1]], axis=1)
    primitives = (values[:, 1:] - below) / (2 * degree + 1)
    return (x + 1) / 2, weights / 2, primitives @ coefficients / 2


def _constants(precision: _Precision, dtype) -> tuple[Array, Array, Array]:
    x, weights, cumulate = _rule(precision.nodes)
    return jnp.asarray(x, dtype), jnp.asarray(weights, dtype), jnp.asarray(cumulate, dtype)


def _apply(weights, values):
    """Sum over nodes, in full precision on accelerators too."""
    return jnp.matmul(weights, values, precision=lax.Precision.HIGHEST)


def binomial_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """±(1 - c) for the area of Bin(N, p̂)."""
    # A(z) with J raised by one, so that small leaves have no pole at z = 1: γ(J) [(2J+1) ∫ (1-u²)^J du - z (1-z²)^J]
    precision = _precision(lead.dtype)
    x, weights, _ = _constants(precision, lead.dtype)
    j, t = (leaf.total + leaf.odd) / 2, lead / leaf.total
    # Beyond some standard deviations nothing is left to integrate; nodes spread over all of [0, 1] would miss the peak.
    end = jnp.clip(t, -precision.reach / jnp.sqrt(2 * j), precision.reach / jnp.sqrt(2 * j))
    u = end * x[:, None]
    integral = end * _apply(weights, jnp.exp(j * jnp.log1p(-u * u)))
    last = t * jnp.exp(leaf.log_even_power(j))
    return jnp.clip(jnp.exp(log_central(j)) * ((2 * j + 1) * integral - last), -1.0, 1.0)


class _QuadratureNodes(NamedTuple):
    """Points of (0, 1) that cover the mass of β, ``[nodes leaves]``."""

    z: Array
    rest: Array
    """1 - z."""
    scale: Array
    """dz/dx, where x are the nodes on [0, 1]."""

    @property
    def log_ratio_and_product(self) -> tuple[Array, Array]:
        """log((1+z)/(1-z)) and log(1-z²), both to relative precision."""
        near = self.z < 0.5
        inner, rest = jnp.where(near, self.z, 0.0), jnp.where(near, 0.5, self.rest)
        above, below = jnp.log1p(self.z), jnp.where(near, jnp.log1p(-inner), jnp.log(rest))
        return above - below, jnp.where(near, jnp.log1p(-inner * inner), above + below)


def _nodes(leaf: Leaf, precision: _Precision, x: Array) -> _QuadratureNodes:
    end = leaf.lead / leaf.total + precision.reach / jnp.sqrt(leaf.total + 3)
    # Up to z = 1, where fractional counts make powers (1-z)^0.3: 1-z = (1-x)³ makes them smooth.
    whole, x = end >= 1, x[:, None]
    part = end * x
    rest = jnp.where(whole, (1 - x) ** 3, 1 - part)
    z = jnp.where(whole, x * (3 - x * (3 - x)), part)
    return _QuadratureNodes(z, rest, jnp.where(whole, 3 * (1 - x) ** 2, end))


def _beta_difference(leaf: Leaf, lead, nodes: _QuadratureNodes):
    """β(z) - β(-z) = (β(z) + β(-z)) tanh(lead · artanh z), times dz/dx."""
    t = leaf.lead / leaf.total
    mode = jnp.log((leaf.total + 1) / 2) + log_mode_mass(leaf)
    density = jnp.exp(mode + log_likelihood(nodes.z, nodes.rest, nodes.z - t, leaf.more, leaf.fewer))
    # As a product with tanh: the difference of the two densities would cancel near an even leaf.
    turn = nodes.log_ratio_and_product[0] / 2
    return nodes.scale * density * (1 + jnp.exp(-2 * leaf.lead * turn)) * jnp.tanh(lead * turn)


def _within_one(value, leaf: Leaf, lead, precision: _Precision):
    certain = leaf.lead * (leaf.lead / leaf.total) > precision.certain**2
    return jnp.where(certain, jnp.sign(lead), jnp.clip(value, -1.0, 1.0))


def beta_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """±(1 - c) for the area of Beta(w⁺+1, w⁻+1)."""
    precision = _precision(lead.dtype)
    x, weights, _ = _constants(precision, lead.dtype)
    value = _apply(weights, _beta_difference(leaf, lead, _nodes(leaf, precision, x)))
    return _within_one(value, leaf, lead, precision)


def beta_binomial_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """±(1 - c) for the area of BetaBin(N, w⁺+1, w⁻+1)."""
    precision = _precision(lead.dtype)
    x, weights, cumulate = _constants(precision, lead.dtype)
    nodes = _nodes(leaf, precision, x)
    j = (leaf.total + leaf.odd) / 2
    power = jnp.exp(j * nodes.log_ratio_and_product[1])
    tosses = jnp.exp(log_central(j)) * ((2 * j + 1) * _apply(cumulate, nodes.scale * power) - nodes.z * power)
    value = _apply(weights, _beta_difference(leaf, lead, nodes) * tosses)
    return _within_one(value, leaf, lead, precision)


def in_blocks(function, leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """Apply a function of flat leaves block by block, so that its nodes take little memory."""
    flat = jax.tree.map(jnp.ravel, (leaf, lead))
    if lead.size <= _BLOCK:
        return function(*flat).reshape(lead.shape)
    n_blocks = ceil_div(lead.size, _BLOCK)

    def block(part):
        filled = jnp.pad(part, (0, n_blocks * _BLOCK - part.size), constant_values=1)
        return filled.reshape(n_blocks, _BLOCK)

    # One block after the other: all at once each leaf would have as many numbers as there are nodes.
    return lax.map(lambda one: function(*one), jax.tree.map(block, flat)).ravel()[: lead.size].reshape(lead.shape)

"""Heights in the middle: how probable an even outcome is under a leaf's distribution, in logarithms.

A leaf has the counts w⁺ of class 1 and w⁻ of class 0; N is their sum, p̂ = w⁺/N and d = (w⁺-w⁻)/2. Let b(N, d) be
C(N, N/2+d) 2^{-N}, and γ(j) = b(2j, 0). Let o = 1 where the middle lies between two integers (N odd), else 0, and
j = (N-o)/2. Then all heights f_mid in the middle are short products, also for real counts:

    binomial        f_mid = r γ(j) (1-t²)^j                t = (w⁺-w⁻)/N, r = 1 or N/(N+1)
    beta-binomial   f_mid = a b(N,d) γ(j) / b(2N-o,d)      a = (N+1)/(2N+1) or 1/2
    beta            f_mid = (N+1) b(N,d)

(o = 1: the mean of the two terms beside the middle, which these products equal.) The height c is f_mid itself, or
normalised, divided by the maximum of f. By Stirling's formula at half integers

    log b(n, d) = ½ log(2/(π(n+1))) - (n+1)/2 S(2d/(n+1)) + δ(n+1) - e(n/2+d) - e(n/2-d),   e(x) = δ(2x+1) - δ(x+½),

with S = `entropy_gap` and δ = `stirling_error`, in which nothing is singular at a count of zero. In the normalised
heights the terms are grouped so that each vanishes at a tie: log c keeps its relative precision there.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._numerics import entropy_gap, log1p_minus, safe_divide, stirling_error

from ._likelihood import nothing_beside

_LOG_PI = 1.1447298858494002


class Leaf(NamedTuple):
    """The two counts of each leaf, the larger one first, whichever class it is of. No leaf is empty."""

    more: Float[Array, "..."]
    """The larger count."""
    fewer: Float[Array, "..."]
    """The smaller count, positive: see `_likelihood.count_or_nothing`."""
    lead: Float[Array, "..."]
    """more - fewer, exact."""
    odd: Float[Array, "..."]
    """1 where the middle lies between two integers (N odd), else 0."""

    @property
    def total(self) -> Array:
        """N, the sum of both counts."""
        return self.more + self.fewer

    def log_one_minus_square(self, shift: float) -> Array:
        """Return log(1 - t²), where t = lead/(N + 2 ``shift``) is the lead's share if both counts grow by ``shift``."""
        n = self.total + 2 * shift
        ratio = safe_divide(self.lead, n)
        # Two forms: the square while it is small, else the product of both shares, in which nothing cancels.
        is_near = ratio < 0.7
        product = 4 * safe_divide(self.more + shift, n) * safe_divide(self.fewer + shift, n)
        by_square = jnp.log1p(-(jnp.where(is_near, ratio, 0.0) ** 2))
        by_product = jnp.log(jnp.where(is_near, 1.0, product))
        return jnp.where(is_near, by_square, by_product)

    def log_even_power(self, j: Array) -> Array:
        """Return j log(4 p̂ (1-p̂)): the log likelihood of ``j`` tosses of each class, relative to a fair coin's."""
        # With a power j below 1/2 the stand-in for a count of zero would not be negligible.
        zero_count = (self.fewer <= 2 * nothing_beside(self.total)) & (j > 0) & (j < 0.5)
        return jnp.where(zero_count, -1e4, j * self.log_one_minus_square(0.0))  # exp(-1e4) rounds to 0

    def entropy_gap(self, shift: float) -> Array:
        """Return S(t) (`jaxunc._numerics.entropy_gap`) for t = lead/(N + 2 ``shift``)."""
        n = self.total + 2 * shift
        return entropy_gap(safe_divide(self.lead, n), safe_divide(2 * (self.fewer + shift), n))


def _errors(*arguments) -> list[Array]:
    """Return a list of the `stirling_error` of each argument, computed in one call; all are arrays of one shape."""
    return list(stirling_error(jnp.stack(arguments)))


def log_even_mass(leaf: Leaf) -> Array:
    """Return the log probability that N tosses of a fair coin give the leaf's counts, log(C(N, w⁺) 2^{-N})."""
    n = leaf.total + 1
    a, b = leaf.more + 0.5, leaf.fewer + 0.5
    err_n, err_a, err_b, err_2a, err_2b = _errors(n, a, b, 2 * a, 2 * b)
    return (
        (jnp.log(2 / n) - _LOG_PI) / 2 - n / 2 * leaf.entropy_gap(0.5) + (err_n + (err_a - err_2a) + (err_b - err_2b))
    )


def log_central(j: Float[Array, "..."]) -> Array:
    """Return the log probability that 2j tosses of a fair coin give j heads, log(C(2j, j) 4^{-j})."""
    err_once, err_twice = _errors(j + 0.5, 2 * j + 1)
    return -(jnp.log(j + 0.5) + _LOG_PI) / 2 + (2 * err_once - err_twice)


def _beside_own(count):
    """Return w φ(1/(2w)) = w log(1 + 1/(2w)) - ½ for each ``count`` w > 0, where φ(x) = log(1+x) - x."""
    # The form for small counts is finite as w → 0; that for large ones does not cancel.
    is_small = count < 1
    small = jnp.where(is_small, count, 0.5)
    large = jnp.where(is_small, 1.0, count)
    of_small = small * (jnp.log1p(2 * small) - jnp.log(2 * small)) - 0.5
    return jnp.where(is_small, of_small, large * log1p_minus(0.5 / large))


def _mode_correction(leaf: Leaf) -> Array:
    """Return `log_mode_mass` of a leaf less log √(2(N+1)/(π(2w⁺+1)(2w⁻+1))), its leading term."""
    a, b = leaf.more + 0.5, leaf.fewer + 0.5
    err_n, err_a, err_b, err_2a, err_2b = _errors(leaf.total + 1, a, b, 2 * a, 2 * b)
    # Terms of the same order are put together in pairs: each pair is small, while the single terms grow with N.
    of_total = 2 * _beside_own(leaf.total / 2)  # N φ(1/N)
    terms = of_total - _beside_own(leaf.more) - _beside_own(leaf.fewer)
    return terms + (err_n + (err_a - err_2a) + (err_b - err_2b))


def log_mode_mass(leaf: Leaf) -> Array:
    """Return the log of the probability that Bin(N, p̂) gives the leaf's own counts, which are its mode."""
    n = leaf.total + 1
    return (jnp.log(2 / n) - _LOG_PI - leaf.log_one_minus_square(0.5)) / 2 + _mode_correction(leaf)


def binomial_height(leaf: Leaf, normalized: bool) -> Array:
    """Return the log probability of an even outcome under Bin(N, p̂), less the mode's if ``normalized``."""
    n, o = leaf.total, leaf.odd
    j = (n - o) / 2
    log_powers = jnp.log1p(-o / (n + 1)) + leaf.log_even_power(j)
    if not normalized:
        return log_powers + log_central(j)
    err_once, err_twice = _errors(j + 0.5, 2 * j + 1)
    log_roots = (leaf.log_one_minus_square(0.5) + jnp.log1p(o / (n + 1 - o))) / 2  # of γ(j) and of the mode's mass
    return log_powers + log_roots + ((2 * err_once - err_twice) - _mode_correction(leaf))


def beta_binomial_height(leaf: Leaf, normalized: bool) -> Array:
    """Return the log probability of an even outcome under BetaBin(N, w⁺+1, w⁻+1), less the mode's if ``normalized``."""
    # Terms of log b(N,d) less those of log b(2N-o,d), grouped; γ and the factor a follow (the module's docstring).
    n, o = leaf.total, leaf.odd
    outer = 2 * n + 1 - o
    entropies = outer / 2 * entropy_gap(leaf.lead / outer, 1 - leaf.lead / outer) - (n + 1) / 2 * leaf.entropy_gap(0.5)
    # n/2 ± d + 1/2 for the n = 2N - o of b(2N-o, d).
    above = (outer + leaf.lead) / 2
    below = (outer - leaf.lead) / 2
    err_above, err_2above, err_below, err_2below, err_n, err_outer = _errors(
        above, 2 * above, below, 2 * below, n + 1, outer
    )
    outer_errors = (err_2above - err_above) + (err_2below - err_below)
    a, b = leaf.more + 0.5, leaf.fewer + 0.5
    middle = (n + 1 - o) / 2
    if normalized:
        err_a, err_b, err_m, err_2m, err_once, err_twice = _errors(a, b, middle, 2 * middle, n + 0.5, 2 * n + 1)
        log_factor = (leaf.log_one_minus_square(0.5) + o * jnp.log1p(-0.5 / (n + 1))) / 2
        inner_errors = (2 * err_m - err_a - err_b) + (err_n - err_2m)
        return entropies + log_factor + inner_errors + (outer_errors - (err_outer - err_once) - (err_twice - err_once))
    err_a, err_b, err_m, err_2a, err_2b, err_2m = _errors(a, b, middle, 2 * a, 2 * b, 2 * middle)
    log_factor = jnp.where(o > 0, -jnp.log(2.0).astype(n.dtype), jnp.log((n + 1) / (2 * n + 1)))
    log_factor = log_factor + (jnp.log(outer / (n + 1)) - jnp.log(middle) - _LOG_PI) / 2
    inner_errors = (err_n - err_outer) + (err_a - err_2a) + (err_b - err_2b) + (2 * err_m - err_2m)
    return entropies + log_factor + inner_errors + outer_errors


def beta_height(leaf: Leaf, normalized: bool) -> Array:
    """Return the log density of Beta(w⁺+1, w⁻+1) at θ = 1/2, less the mode's if ``normalized``."""
    if normalized:
        return -leaf.total / 2 * leaf.entropy_gap(0.0)
    return jnp.log(leaf.total + 1) + log_even_mass(leaf)

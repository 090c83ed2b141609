"""The leaves' proportions as draws from a Dirichlet prior: their summary, and the likelihood, which has one maximum.

`_marginal_likelihood` uses equations of the same form, and the same search (`find_root`). With κ = Σα and the mean μ of
the proportions let α_c = μ_c κ exp(r_c). A likelihood is stationary where

    F_c(r_c, log κ) = 0 for every class c,    and    Σ_c μ_c (exp(r_c) - 1) = 0.

Given κ, each r_c is the root of an increasing function. Then the sum is a function of log κ alone, positive for small κ
and negative for large ones, so that the search cannot leave a bracket. In these unknowns nothing cancels, however large
κ is: r is of the order 1/κ, and so are the numbers that it is computed from. The argument ``xp`` is NumPy or
`jax.numpy`, and ψ the digamma function.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxunc._numerics import add_up, digamma_gaps, divide_by_shared, log1p_minus, sum_in_order

Equations = Callable[[Any, Any], tuple[Any, Any, Any]]
"""A function (r [... classes], log κ [...]) → F, its slope along r (positive) and its slope along log κ."""

LOWEST, HIGHEST = -18.0, 69.0
"""Bracket of log κ: below it a prior's weight is as good as none, above it as good as infinite."""
_OUTER = 80  # largest number of steps of the outer search in `find_root`
_INNER = 60  # and of the inner one


class Leaves(NamedTuple):
    """The leaves that a prior is fitted to: their class proportions, their weights, and statistics of both."""

    proportions: Any
    """Class proportions ``[... leaves classes]``, zeros replaced if ``clip`` was given to `leaves_of`."""
    weight: Any
    """Shares of the sample ``[... leaves]``; 0 for leaves without instances."""
    mean: Any
    """Weighted mean of the proportions ``[... classes]``."""
    raw_mean: Any
    """Weighted mean of the proportions before zeros were replaced ``[... classes]``."""
    equal: Any
    """Whether all leaves have the same proportions, ``[...]``."""
    pure: Any
    """Whether all leaves are pure, ``[...]``."""
    empty: Any
    """Whether no leaf has instances, ``[...]``."""


def leaves_of(counts, times, *, by_size: bool, clip: float | None, xp: ModuleType) -> Leaves:
    """Return `Leaves` for ``counts [... leaves classes]``, where each leaf occurs ``times [... leaves]``.

    Leaves weigh as their sizes with ``by_size``, else alike. ``clip`` replaces proportions of 0 unless it is None.
    """
    size = add_up(counts, -1)
    has_instances = size > 0
    # A true quotient, rounded once: a product with the reciprocal would be rounded anew wherever it is subtracted.
    divide = np.divide if xp is np else divide_by_shared
    raw = divide(counts, xp.where(has_instances, size, 1)[..., None])
    weight = xp.where(has_instances, times * (size if by_size else 1.0), 0.0)
    total = add_up(weight, -1, keepdims=True)
    weight = weight / xp.where(total > 0, total, 1)
    if xp is jnp:
        # Without the barrier the compiler would repeat both in every expression that reads them.
        weight, raw = lax.optimization_barrier((weight, raw))
    is_absent = (raw == 0) & has_instances[..., None]
    proportions = raw
    if clip is not None:
        # The other classes pay for clip in proportion, so that shares still add to 1.
        n_absent = add_up(is_absent, -1, keepdims=True).astype(raw.dtype)
        proportions = xp.where(is_absent, clip, raw * (1 - clip * n_absent))
    # Empty leaves get -1 and 2, so that they are neither the largest nor the smallest.
    largest = xp.where(has_instances[..., None], proportions, -1).max(axis=-2)
    smallest = xp.where(has_instances[..., None], proportions, 2).min(axis=-2)
    return Leaves(
        proportions=proportions,
        weight=weight,
        mean=_mean(weight, proportions),
        raw_mean=_mean(weight, raw),
        equal=(largest - smallest <= 4 * xp.finfo(counts.dtype).eps).all(axis=-1),
        pure=(add_up(is_absent, -1) == counts.shape[-1] - 1).all(axis=-1, where=has_instances),
        empty=~has_instances.any(axis=-1),
    )


def spreads(leaves: Leaves, xp: ModuleType):
    """Return how far the class proportions p vary between ``leaves``, and how far within them: two arrays ``[...]``.

    Between leaves it is Σ_c of the weighted variance of p_c, without Bessel's correction. Within them it is the
    weighted mean of Σ_c p_c (1 - p_c). Both add to Σ_c μ_c (1 - μ_c), where μ is the mean of p.
    """
    # Neither is computed as a difference to that sum: the other may be nearly all of it.
    weight = leaves.weight[..., None]
    p = leaves.proportions
    # From the heaviest leaf: the mean is rounded by more than it differs from a leaf that outweighs all others.
    heaviest = xp.argmax(weight, axis=-2, keepdims=True)
    deviation = xp.where(weight > 0, p - xp.take_along_axis(p, heaviest, axis=-2), 0)
    deviation = xp.where(weight > 0, deviation - _mean(leaves.weight, deviation)[..., None, :], 0)
    # Beside 1 small numbers lose their digits. So the deviation of a class of more than half, and 1 - p of such a one,
    # are added up from the other classes.
    is_major = (leaves.mean > 0.5)[..., None, :]
    deviation = xp.where(is_major, -add_up(xp.where(is_major, 0, deviation), -1, keepdims=True), deviation)
    is_most = p > 0.5
    others = xp.where(is_most, add_up(xp.where(is_most, 0, p), -1, keepdims=True), 1 - p)
    squares = deviation * deviation, p * others
    return tuple(add_up(_mean(leaves.weight, square), -1) for square in squares)


def mean_log_gap(leaves: Leaves, xp: ModuleType):
    """Return the mean over ``leaves`` of log p less the log of the mean of p, their proportions; ``[... classes]``."""
    # It is the mean of log(1+x) - x with x = p/mean - 1 (x has mean 0), which keeps its digits for nearly equal p.
    # Below x = -1/2, where x may round to -1, log(1+x) is taken of p/mean.
    mean = leaves.mean[..., None, :]
    divisor = xp.where(mean > 0, mean, 1)
    deviation = xp.where((leaves.weight > 0)[..., None], (leaves.proportions - mean) / divisor, 0)
    is_low = deviation < -0.5
    # Both forms are computed everywhere: each takes a harmless number where it is not used.
    low = xp.log(xp.where(is_low, leaves.proportions / divisor, 1)) - deviation
    usual = log1p_minus(xp.where(is_low, 0, deviation), xp)
    return _mean(leaves.weight, xp.where(is_low, low, usual))


def _mean(weight, values):
    """Return the mean ``[... classes]`` of ``values [... leaves classes]``, with weights that add to 1 over leaves."""
    return add_up(weight[..., None] * values, -2)


def fit_likelihood(mean, log_gap, start, active, xp: ModuleType):
    """Return the α ``[... classes]`` of the largest likelihood of proportions, and whether the search converged.

    That likelihood depends only on the ``mean`` μ of the proportions and on their ``log_gap`` (`mean_log_gap`).
    ``start`` is a guess of log κ. Trees that are not ``active [...]`` are not searched.
    """
    if xp is jnp:
        r, log_total, converged = _solve(mean, log_gap, start, active)
    else:
        r, log_total, converged = find_root(_equations(mean, log_gap, xp), mean, start, active, xp)
    return mean * xp.exp(r + log_total[..., None]), converged


def _equations(mean, log_gap, xp: ModuleType) -> Equations:
    """Return the equations ψ(α_c) - ψ(κ) = log μ_c + gap_c, which hold where the likelihood is largest."""

    def equations(r, t):
        """Return F = r - h(α) + h(κ) - gap, and its slopes along r and t = log κ; h(x) is log x - ψ(x)."""
        alpha = mean * xp.exp(r + t[..., None])
        total = xp.exp(t)[..., None]
        gap, slope = digamma_gaps(alpha, xp)  # h, and the slope of -h along log α
        total_gap, total_slope = digamma_gaps(total, xp)
        return r - gap + total_gap - log_gap, 1 + slope, slope - total_slope

    return equations


@jax.custom_jvp
def _solve(mean, log_gap, start, active):
    """Return what `find_root` returns for `_equations`, with a derivative; arguments are those of `fit_likelihood`."""
    return tuple(find_root(_equations(mean, log_gap, jnp), mean, start, active, jnp))


@_solve.defjvp
def _solve_jvp(primals, tangents):
    """Return the value of `_solve`, and its derivative along the tangents of the mean and of the gap.

    F_c(r_c, log κ) = 0 and Σ_c μ_c (exp(r_c) - 1) = 0 are differentiated, by the implicit function theorem: with t =
    log κ

        slope_c dr_c + by_total_c dt + (slope_c - 1) dμ_c/μ_c - dgap_c = 0,
        Σ_c (exp(r_c) - 1) dμ_c + μ_c exp(r_c) dr_c = 0.

    Here slope - 1 is ∂F/∂log μ, as α = μ κ exp(r). The first gives dr; put into the second, it gives dt = rise / fall.
    """
    mean, log_gap, start, active = primals
    d_mean, d_gap, *_ = tangents
    r, t, converged = _solve(mean, log_gap, start, active)
    _, slope, by_total = _equations(mean, log_gap, jnp)(r, t)
    share = mean * jnp.exp(r)
    dr_times_slope = d_gap - (slope - 1) * d_mean / mean  # at equal κ
    rise = jnp.sum(share * dr_times_slope / slope, axis=-1) + jnp.sum(d_mean * jnp.expm1(r), axis=-1)
    fall = sum_in_order(share * by_total / slope)  # of the sum over classes, along log κ
    dt = jnp.where(active, rise / jnp.where(active, fall, 1.0), 0.0)
    dr = jnp.where(active[..., None], (dr_times_slope - by_total * dt[..., None]) / slope, 0.0)
    no_tangent = jnp.zeros(converged.shape, jax.dtypes.float0)
    return (r, t, converged), (dr, dt, no_tangent)


class Root(NamedTuple):
    """The root of `Equations`, and whether the search for it converged."""

    r: Any
    log_total: Any
    converged: Any


class _State(NamedTuple):
    """The state of the outer search of `find_root`: r, t = log κ, the bracket of t, and the last step of t."""

    r: Any
    t: Any
    low: Any
    high: Any
    step: Any


def find_root(equations: Equations, mean, start, active, xp: ModuleType, r=0.0, ends=(LOWEST, HIGHEST)) -> Root:
    """Return the root (r, log κ) of ``equations`` for which α = μ κ e^r adds to κ, and whether the search converged.

    ``mean [... classes]`` is μ. ``start [...]`` and ``r`` are guesses of log κ and of r, and ``ends`` is the bracket of
    log κ, of numbers or arrays ``[...]``. Trees that are not ``active [...]`` are not searched, and have r = 0.
    """
    # An inner search (`settle`) solves F = 0 for r at a given κ, an outer one Σ μ e^r = 1 for κ; t is log κ.
    tolerance = 1e-11 if mean.dtype == "float64" else 1e-5

    def settle(r, t):
        """Return the r that solves F = 0 at ``t``, by Newton's method from ``r``; F is concave, or nearly straight."""

        def improve(state):
            """Return the next r, and the step to it, for ``state`` = (r, last step)."""
            r, _ = state
            value, slope, _ = equations(r, t)
            # At most a factor e² at a time: far from the root Newton's step may leave the range of exp.
            step = xp.where(active[..., None], xp.clip(-value / slope, -2.0, 2.0), 0.0)
            return r + step, step

        # The last step is taken, so the error that is left is of the order of its square.
        is_moving = lambda state: xp.any(xp.abs(state[1]) > tolerance)
        first_state = improve((r, r))  # the second r stands for a last step, which is not read
        settled_r, _ = loop(improve, is_moving, first_state, _INNER, xp)
        return settled_r

    def improve(state):
        """Return the state after one step of the outer search: Newton's, or to the middle of the bracket."""
        r = settle(state.r, state.t)
        _, slope, by_total = equations(r, state.t)
        excess = xp.log1p(add_up(mean * xp.expm1(r), -1))  # log Σ μ e^r: 0 at the root
        share = mean * xp.exp(r)
        fall = add_up(share * by_total / slope, -1) / add_up(share, -1)  # of the excess, along t
        # The sum falls with κ, so its sign says on which side of the root κ is: the bracket only shrinks.
        low = xp.where(excess > 0, state.t, state.low)
        high = xp.where(excess > 0, state.high, state.t)
        next_t = state.t + excess / xp.where(fall > 0, fall, 1.0)
        # Newton's step where it stays in the bracket, else the middle of it.
        is_inside = (fall > 0) & (next_t >= low) & (next_t <= high)
        next_t = xp.where(active, xp.where(is_inside, next_t, (low + high) / 2), 0.0)
        return _State(r, next_t, low, high, next_t - state.t)

    start = xp.where(active, xp.clip(start, LOWEST + 1, HIGHEST - 1), 0.0)
    low, high = (xp.zeros_like(start) + end for end in ends)
    r = xp.where(active[..., None], xp.zeros_like(mean) + r, 0.0)
    first_state = improve(_State(r, start, low, high, start))  # the last start stands for a step, which is not read
    last_state = loop(improve, lambda state: xp.any(xp.abs(state.step) > tolerance), first_state, _OUTER, xp)
    r = settle(last_state.r, last_state.t)
    return Root(r, last_state.t, xp.abs(last_state.step) <= tolerance)


def loop(body: Callable[..., Any], going: Callable[..., Any], state, limit: int, xp: ModuleType):
    """Return ``state`` after ``body(state)`` replaced it while ``going(state)`` held, at most ``limit`` times.

    The loop runs on the host if ``xp`` is NumPy, and is traced if it is `jax.numpy`.
    """
    if xp is np:
        for _ in range(limit):
            if not going(state):
                break
            state = body(state)
        return state

    # The state of the traced loop has the number of steps in front.
    def goes_on(counted):
        n_steps, state = counted
        return (n_steps < limit) & going(state)

    def step(counted):
        n_steps, state = counted
        return n_steps + 1, body(state)

    _, state = lax.while_loop(goes_on, step, (0, state))
    return state

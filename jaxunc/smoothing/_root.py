"""The equations that all likelihoods of a Dirichlet prior share, and their root.

With κ = Σα and the mean μ of the proportions let α_c = μ_c κ exp(r_c). A likelihood is stationary where

    F_c(r_c, log κ) = 0 for every class c,    and    Σ_c μ_c (exp(r_c) - 1) = 0.

Given κ, each r_c is the root of a function that increases; then the sum, positive for small κ and negative for large
ones, is a function of log κ alone. So the search cannot leave a bracket. In these unknowns nothing cancels, however
large κ is: r is of the order 1/κ, and so is what it is computed from.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from jaxunc._numerics import add_up

Equations = Callable[[Any, Any], tuple[Any, Any, Any]]
"""Equations: (r [... classes], log κ [...]) → F, its slope along r (positive) and its slope along log κ."""

LOWEST, HIGHEST = -18.0, 69.0
"""Bracket of log κ: beyond it a prior has no weight, or all."""
_OUTER, _INNER = 80, 60


class Root(NamedTuple):
    """Root of the equations: r, log κ, and whether the search converged."""

    r: Any
    log_total: Any
    converged: Any


class _State(NamedTuple):
    r: Any
    t: Any
    low: Any
    high: Any
    step: Any


def find_root(equations: Equations, mean, start, active, xp: ModuleType, r=0.0, ends=(LOWEST, HIGHEST)) -> Root:
    """Find the root where ``active``; elsewhere r = 0 and log κ = 0.

    ``start`` and ``r``: guesses of log κ and of r; ``ends``: what brackets log κ.
    """
    tolerance = 1e-11 if mean.dtype == "float64" else 1e-5

    def settle(r, t):
        """Solve for r at this κ, by Newton's method on functions that are concave or nearly straight."""

        def improve(state):
            r, _ = state
            value, slope, _ = equations(r, t)
            # At most a factor e² at a time: far from the root Newton's step may leave the range of exp.
            step = xp.where(active[..., None], xp.clip(-value / slope, -2.0, 2.0), 0.0)
            return r + step, step

        # The last step is taken, so the error left is of the order of its square.
        going = lambda state: xp.any(xp.abs(state[1]) > tolerance)  # noqa: E731
        return loop(improve, going, improve((r, r)), _INNER, xp)[0]

    def improve(state):
        r = settle(state.r, state.t)
        _, slope, by_total = equations(r, state.t)
        excess = xp.log1p(add_up(mean * xp.expm1(r), -1))
        share = mean * xp.exp(r)
        fall = add_up(share * by_total / slope, -1) / add_up(share, -1)
        # The sum falls with κ, so its sign says on which side of the root κ is: the bracket only shrinks.
        low = xp.where(excess > 0, state.t, state.low)
        high = xp.where(excess > 0, state.high, state.t)
        new = state.t + excess / xp.where(fall > 0, fall, 1.0)
        # Newton's step where it stays in the bracket, else the middle of it.
        inside = (fall > 0) & (new >= low) & (new <= high)
        new = xp.where(active, xp.where(inside, new, (low + high) / 2), 0.0)
        return _State(r, new, low, high, new - state.t)

    start = xp.where(active, xp.clip(start, LOWEST + 1, HIGHEST - 1), 0.0)
    low, high = (xp.zeros_like(start) + end for end in ends)
    r = xp.where(active[..., None], xp.zeros_like(mean) + r, 0.0)
    first = improve(_State(r, start, low, high, start))
    last = loop(improve, lambda s: xp.any(xp.abs(s.step) > tolerance), first, _OUTER, xp)
    r = settle(last.r, last.t)
    return Root(r, last.t, xp.abs(last.step) <= tolerance)


def loop(body: Callable[..., Any], going: Callable[..., Any], state, limit: int, xp: ModuleType):
    """Run at most ``limit`` rounds: as a loop of the host, or of the program that is traced."""
    if xp is np:
        for _ in range(limit):
            if not going(state):
                break
            state = body(state)
        return state
    counted = lax.while_loop(lambda s: (s[0] < limit) & going(s[1]), lambda s: (s[0] + 1, body(s[1])), (0, state))
    return counted[1]

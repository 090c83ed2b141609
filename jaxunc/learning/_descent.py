"""Steps towards a minimum, one at a time, and when to stop taking them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxunc._numerics import jit

MEMORY = 30
"""Number of steps that L-BFGS remembers."""
SHORTEST = 2.0**-20
"""Shortest step that a search along a line tries."""
ENOUGH = 1e-5
"""Share of the objective below which a gain is small; three such steps in a row are the last: rows tell no more."""


class Step(NamedTuple):
    """State of a descent after a step."""

    numbers: Any
    value: float
    steepest: float
    """Largest slope in absolute value."""
    is_last: bool
    """Whether nothing more is to be gained."""
    curvature: tuple = ()
    """Changes by the last steps: (differences of numbers, differences of slopes)."""


class WeighedPart(NamedTuple):
    """A part of the rows, and its share in the objective."""

    share: float
    problem: Any


@jit(static_argnums=(0, 1, 2))
def _value_and_slope(objective: Callable[..., Any], shape: tuple, layout: tuple, flat, problem):
    return jax.value_and_grad(lambda at: objective(shape, _unravelled(layout, at), problem))(flat)


def _unravelled(layout: tuple, flat):
    """Return the arrays that stand in a vector one after the other."""
    structure, shapes = layout
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return jax.tree.unflatten(
        structure,
        [flat[end - int(np.prod(shape)) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)],
    )


def _layout(numbers) -> tuple[tuple, np.ndarray]:
    """Return what `_unravelled` needs, and the vector."""
    leaves, structure = jax.tree.flatten(numbers)
    flat = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in leaves])
    return (structure, tuple(jnp.shape(leaf) for leaf in leaves)), flat


def _evaluated(objective, shape, layout, parts: Sequence[WeighedPart], at: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the objective and its slope."""
    flat = jnp.asarray(at, jnp.result_type(float))
    found = [_value_and_slope(objective, shape, layout, flat, part.problem) for part in parts]
    # All parts are dispatched before the first is read: their programs run while the host waits.
    shares = np.array([part.share for part in parts])
    values, slopes = (np.stack([np.asarray(one, float) for one in each]) for each in zip(*found, strict=True))
    return float(shares @ values), shares @ slopes


def value_at(objective: Callable[..., Any], shape: tuple, numbers, parts: Sequence[WeighedPart]) -> float:
    """Return the objective, by the program that `descend` runs."""
    layout, flat = _layout(numbers)
    return _evaluated(objective, shape, layout, parts, flat)[0]


def descend(
    objective: Callable[..., Any],
    shape: tuple,
    numbers,
    parts: Sequence[WeighedPart],
    *,
    curvature: tuple = (),
    enough: float = ENOUGH,
) -> Iterator[Step]:
    """Yield the steps of L-BFGS, each of a length that makes the objective fall enough (Armijo).

    All but the objective and its slope runs on the host, in float64: one program is compiled, once, and serves all
    parts of a size. ``curvature`` is what an earlier descent on nearly the same objective has found.
    """
    layout, at = _layout(numbers)
    dtype, evaluate = jnp.result_type(float), partial(_evaluated, objective, shape, layout, parts)

    def step(at, value: float, slope, is_last: bool) -> Step:
        steepest = float(np.max(np.abs(slope)))
        whole = _unravelled(layout, jnp.asarray(at, dtype))
        return Step(whole, value, steepest, is_last or steepest < 1e-6, tuple(pairs))

    pairs = deque(curvature, MEMORY)
    noise, few = 4 * float(jnp.finfo(dtype).eps), 0
    value, slope = evaluate(at)
    yield step(at, value, slope, False)
    while True:
        direction = -_preconditioned(slope, pairs)
        if not direction @ slope < 0:  # the memory misleads: start it anew
            pairs.clear()
            direction = -_preconditioned(slope, pairs)
        length, fall = 1.0, float(direction @ slope)
        while True:
            there = at + length * direction
            new_value, new_slope = evaluate(there)
            # Values are those of the device's floats: without the noise term a step at the optimum would never be
            # accepted.
            if new_value <= value + 1e-4 * length * fall + noise * abs(value) or length < SHORTEST:
                break
            # The lowest point of the parabola through both values and the slope, but not so far back that a bad fit
            # stalls.
            excess = new_value - value - length * fall
            fit = -0.5 * fall * length / excess if np.isfinite(excess) and excess > 0 else 0.0
            length *= float(np.clip(fit, 0.1, 0.5))
        # Even the shortest step does not fall: where we stand is as low as these floats can tell.
        if not new_value <= value + noise * abs(value):
            yield step(at, value, slope, True)
            return
        few = few + 1 if value - new_value < enough * max(abs(new_value), 1e-3) else 0
        # Only pairs with positive curvature keep the matrix positive definite, and the direction downhill.
        if (there - at) @ (new_slope - slope) > 0:
            pairs.append((there - at, new_slope - slope))
        at, value, slope = there, new_value, new_slope
        yield step(at, value, slope, few >= 3)


def _preconditioned(slope: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the slope times the inverse curvature that the pairs tell (Nocedal and Wright 2006, algorithm 7.4)."""
    left, shares = slope, []
    for moved, change in reversed(pairs):
        shares.append(moved @ left / (moved @ change))
        left = left - shares[-1] * change
    if pairs:
        moved, change = pairs[-1]
        left = left * (moved @ change / (change @ change))
    else:  # the first step is of length 1 at most
        left = left * min(1.0, 1 / max(float(np.linalg.norm(left)), 1e-30))
    for (moved, change), share in zip(pairs, reversed(shares), strict=True):
        left = left + (share - change @ left / (moved @ change)) * moved
    return left


@jit(static_argnums=(0, 1, 2))
def _update(objective: Callable[..., Any], shape: tuple, optimizer, numbers, state, problem):
    value_of = lambda at: objective(shape, at, problem)  # noqa: E731
    value, slope = jax.value_and_grad(value_of)(numbers)
    extended = optax.with_extra_args_support(optimizer)
    updates, state = extended.update(slope, state, numbers, value=value, grad=slope, value_fn=value_of)
    steepest = jnp.max(jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(slope)]))
    return optax.apply_updates(numbers, updates), state, value, steepest


def follow(objective: Callable[..., Any], shape: tuple, numbers, problem, optimizer) -> Iterator[Step]:
    """Yield the steps of any of optax's optimisers."""
    state = optimizer.init(numbers)
    while True:
        after, state, value, steepest = _update(objective, shape, optimizer, numbers, state, problem)
        yield Step(numbers, float(value), float(steepest), float(steepest) < 1e-6)
        numbers = after

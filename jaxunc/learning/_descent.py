"""Steps towards a minimum, one at a time, and when to stop taking them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from jaxunc._checks import warn

DIRECTION = optax.scale_by_lbfgs(memory_size=10)
SHORTEST = 2.0**-20
"""The shortest step that a search along a line tries."""


ENOUGH = 1e-5
"""Steps that gain less than this share of the objective, three in a row, are the last: rows tell no more."""


class Step(NamedTuple):
    """Where a descent stands."""

    numbers: Any
    value: float
    steepest: float
    """The largest slope."""
    is_last: bool
    """Whether nothing more is to be gained."""


@partial(jax.jit, static_argnums=(0, 1))
def _value_and_slope(objective: Callable, shape: tuple, numbers, problem):
    value, slope = jax.value_and_grad(partial(objective, shape))(numbers, problem)
    return value, slope, jnp.max(jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(slope)]))


@jax.jit
def _direction(slope, numbers, state):
    """Where L-BFGS leads, and how fast the objective falls there."""
    flat_slope, flat = ravel_pytree(slope)[0], ravel_pytree(numbers)[0]
    update, state = DIRECTION.update(flat_slope, state, flat)
    preconditioned = jnp.asarray(update)
    return -preconditioned, -jnp.vdot(preconditioned, flat_slope), state


@jax.jit
def _moved(numbers, direction, length):
    flat, unravel = ravel_pytree(numbers)
    return unravel(flat + length.astype(flat.dtype) * direction)


@jax.jit
def _memory(numbers):
    return DIRECTION.init(ravel_pytree(numbers)[0])


def descend(objective: Callable, shape: tuple, numbers, problem) -> Iterator[Step]:
    """The steps of L-BFGS (optax's directions), each as long as makes the objective fall enough (Armijo).

    The search along a line runs on the host: the program that is compiled is the objective and its slope, once.
    """
    evaluate = lambda at: _value_and_slope(objective, shape, at, problem)  # noqa: E731
    state = _memory(numbers)
    value, slope, steepest = evaluate(numbers)
    value, few, noise = float(value), 0, 4 * float(jnp.finfo(value.dtype).eps)
    yield Step(numbers, value, float(steepest), float(steepest) == 0)
    while True:
        direction, fall, state = _direction(slope, numbers, state)
        if not float(fall) < 0:  # the memory misleads: start it anew
            state = _memory(numbers)
            direction, fall, state = _direction(slope, numbers, state)
        length, fall = 1.0, float(fall)
        while True:
            there = _moved(numbers, direction, jnp.asarray(length))
            new_value, new_slope, new_steepest = evaluate(there)
            new_value = float(new_value)
            if new_value <= value + 1e-4 * length * fall + noise * abs(value) or length < SHORTEST:
                break
            curvature = new_value - value - length * fall
            fit = -0.5 * fall * length / curvature if np.isfinite(curvature) and curvature > 0 else 0.0
            length *= float(np.clip(fit, 0.1, 0.5))
        if not new_value <= value + noise * abs(value):
            yield Step(numbers, value, float(steepest), True)
            return
        few = few + 1 if value - new_value < ENOUGH * max(abs(new_value), 1e-3) else 0
        numbers, value, slope, steepest = there, new_value, new_slope, new_steepest
        yield Step(numbers, value, float(steepest), few >= 3 or float(steepest) < 1e-6)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _update(objective: Callable, shape: tuple, optimizer, numbers, state, problem):
    value_of = lambda at: objective(shape, at, problem)  # noqa: E731
    value, slope = jax.value_and_grad(value_of)(numbers)
    extended = optax.with_extra_args_support(optimizer)
    updates, state = extended.update(slope, state, numbers, value=value, grad=slope, value_fn=value_of)
    steepest = jnp.max(jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(slope)]))
    return optax.apply_updates(numbers, updates), state, value, steepest


def follow(objective: Callable, shape: tuple, numbers, problem, optimizer) -> Iterator[Step]:
    """The steps of any of optax's optimisers."""
    state = optimizer.init(numbers)
    while True:
        after, state, value, steepest = _update(objective, shape, optimizer, numbers, state, problem)
        yield Step(numbers, float(value), float(steepest), float(steepest) < 1e-6)
        numbers = after


class Watch(NamedTuple):
    """When to stop: of steps, the best one is kept."""

    n_steps: int
    patience: int
    progress: Callable[[int, float], None] | None

    def over(self, steps: Iterator[Step], judge: Callable | None) -> tuple[Any, str, dict[str, np.ndarray]]:
        """(the best numbers, status, history by step), judged by the objective or by something else."""
        best, best_value, best_step, status = None, np.inf, 0, "steps"
        values, judged = [], []
        for number, step in enumerate(steps):
            if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
                if best is None:
                    raise ValueError(
                        f"the loss is {step.value} (largest slope {step.steepest}) before the first step: the rule's "
                        "answers for these rows are no numbers. Look at rows.answer(rule)."
                    )
                status = "diverged"
                warn(
                    f"the loss is {step.value} at step {number}: learning stopped, and keeps the best numbers before. "
                    "Take a smaller learning rate."
                )
                break
            values.append(step.value)
            if judge is not None:
                judged.append(judge(step.numbers))
            current = judged[-1] if judged else step.value
            if best is None or current < best_value:
                best, best_value, best_step = step.numbers, current, number
            if self.progress is not None:
                self.progress(number, step.value)
            if judge is not None and number - best_step >= self.patience:
                status = "stopped early"
            elif step.is_last:
                status = "converged"
            if status != "steps" or number >= self.n_steps:
                break
        if status == "steps" and values[-1] > values[0] + 1e-3 * abs(values[0]):
            status = "diverged"
            warn(
                f"the loss grew from {values[0]:.4g} to {values[-1]:.4g}: the best numbers seen are kept. Take a "
                "smaller learning rate."
            )
        history = {"loss": np.array(values)} | ({"validation": np.array(judged)} if judged else {})
        return best, status, history

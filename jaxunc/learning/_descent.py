"""Descent to a minimum of a loss: steps, on many rows in parts, when to stop, and reports of progress.

`best_step` takes steps until nothing more is to be gained, and keeps the best of them. `descend` makes the steps of
L-BFGS, `follow` those of any of optax's optimisers. `descend_in_parts` lets one part of many rows lead most of the way.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxunc._checks import warn
from jaxunc._numerics import ceil_div, jit, multiple_of, padded_rows

from ._dataset import RoutedRows

MEMORY = 30
"""Number of steps that L-BFGS remembers."""
SHORTEST = 2.0**-20
"""Shortest step that a search along a line tries."""
ENOUGH = 1e-5
"""Share of the objective below which a gain is small; three such steps in a row are the last."""
ROWS = 4096
"""Number of rows in a part: enough to start all rows close to the optimum of a few numbers."""
ROUGH = 1e-4
"""`ENOUGH` of the steps that all rows take from there: smaller gains are within the noise of the rows."""
MEANS = ("log", "brier", "utility")
"""Names of losses that are means over rows, so that parts of the rows have shares in them."""


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


def best_step(
    steps: Iterator[Step],
    validate: Callable[..., float] | None,
    *,
    n_steps: int,
    patience: int,
    report: Callable[[int, float], None],
) -> tuple[Step, str, dict[str, np.ndarray]]:
    """Return the best step, by the objective or by ``validate``, with the status and the history since the start."""
    best, best_value, best_number, status = None, np.inf, 0, "steps"
    values, validated = [], []
    for number, step in enumerate(steps):
        if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
            if best is None:
                raise ValueError(
                    f"the loss is {step.value} (largest slope {step.steepest}) before the first step: the combiner's "
                    "answers for these rows are no numbers. Look at rows.answer(combiner)."
                )
            status = "diverged"
            warn(
                f"the loss is {step.value} at step {number}: learning stopped, and keeps the best numbers before. "
                "Take a smaller learning rate."
            )
            break
        values.append(step.value)
        if validate is not None:
            validated.append(validate(step.numbers))
        # By other rows, steps are kept only while these gain: the objective falls all the time.
        current = validated[-1] if validated else step.value
        if best is None or current < best_value:
            best, best_value, best_number = step, current, number
        report(number, step.value)
        if validate is not None and number - best_number >= patience:
            status = "stopped early"
        elif step.is_last:
            status = "converged"
        if status != "steps" or number >= n_steps:
            break
    # An optimiser of the user's own may climb without ever being infinite.
    if status == "steps" and values[-1] > values[0] + 1e-3 * abs(values[0]):
        status = "diverged"
        warn(
            f"the loss grew from {values[0]:.4g} to {values[-1]:.4g}: the best numbers seen are kept. Take a "
            "smaller learning rate."
        )
    assert best is not None
    history = {"loss": np.array(values)} | ({"validation": np.array(validated)} if validated else {})
    return best, status, history


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
        if not direction @ slope < 0:  # the remembered steps mislead: forget them
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
        # Even the shortest step does not fall: this is as low as these floats can show.
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
    """Return the slope times the inverse curvature by the pairs (Nocedal and Wright 2006, algorithm 7.4)."""
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


@jit(static_argnums=(0, 1, 2))
def _update(objective: Callable[..., Any], shape: tuple, optimizer, numbers, state, problem):
    value_of = lambda at: objective(shape, at, problem)
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


def parts_of(problem: Any, loss: Any, key: jax.Array) -> list[WeighedPart]:
    """Split the rows that weigh, in random order, into parts of the same size; few rows are a single part.

    So it is where rows are routed, and of losses that need not be means over rows.
    """
    weight = np.asarray(problem.weight)
    rows = np.flatnonzero(weight > 0)
    if len(rows) <= ROWS or loss not in MEANS or isinstance(problem.data, RoutedRows):
        return [WeighedPart(1.0, problem)]
    rows = rows[np.asarray(jax.random.permutation(key, len(rows)))]
    n_parts = ceil_div(len(rows), ROWS)
    # All parts have one shape, so that one program serves them; padding rows weigh 0.
    size = multiple_of(256, ceil_div(len(rows), n_parts))
    found = []
    for own in np.array_split(rows, n_parts):
        padded = padded_rows(own, size)
        own_weight = np.where(np.arange(size) < len(own), weight[padded], 0)
        part = problem._replace(
            data=problem.data.at(padded), y=jnp.asarray(np.asarray(problem.y)[padded]), weight=jnp.asarray(own_weight)
        )
        found.append(WeighedPart(float(weight[own].sum(dtype=float) / weight.sum(dtype=float)), part))
    return found


def descend_in_parts(
    objective: Callable[..., Any], shape: tuple, numbers, parts: Sequence[WeighedPart], most: int, report: "StepReports"
) -> Iterator[Step]:
    """Yield the steps of `descend` on all parts, from where the first part alone leads in so many steps at most."""
    if len(parts) == 1:
        return descend(objective, shape, numbers, parts)
    first, curvature = parts[0]._replace(share=1.0), ()
    n_rows = int(np.sum(np.asarray(first.problem.weight) > 0))
    for number, step in enumerate(descend(objective, shape, numbers, [first])):
        if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
            break
        numbers, curvature = step.numbers, step.curvature
        report(number, step.value, n_rows)
        if step.is_last or number >= most:
            break
    # From near the optimum, with the curvature that the first part has shown: few steps over all rows are left.
    return descend(objective, shape, numbers, parts, curvature=curvature, enough=ROUGH)


class FitProgress(NamedTuple):
    """Progress of learning; as a string, a line of it."""

    done: int
    """Steps so far."""
    total: int
    """Steps at most."""
    seconds: float
    """Seconds since learning began."""
    loss: float
    """Loss so far, with the weak prior's part."""
    start_loss: float
    """That of the numbers that learning started from."""
    n_rows: int
    """Number of rows that the loss is of: a part of them at first, where there are many."""
    what: str = ""
    """Name of what is learned, where several combiners are."""

    def __str__(self) -> str:
        said = f"step {self.done}: loss {self.loss:.5f} on {self.n_rows} rows, at first {self.start_loss:.5f}"
        return f"{self.what + ', ' if self.what else ''}{said} ({self.seconds:.1f} s)"


FitProgressLike = bool | Callable[[FitProgress], None] | None
"""Receiver of progress. True: a line on standard error that is written anew; a function: it is called."""


def check_fit_progress(progress: Any) -> None:
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress={progress!r:.60} must be True, a function of a Progress, or None.")


def named_progress(progress: FitProgressLike, what: str) -> FitProgressLike:
    """Return the receiver for one of several things that are learned, under its name."""
    if not progress:
        return None
    receive = progress if callable(progress) else _print
    return lambda now: receive(now._replace(what=what))


def _print(now: FitProgress) -> None:
    print(f"\r{now!s:<100}", end="", file=sys.stderr, flush=True)


def end_line(progress: FitProgressLike) -> None:
    """End the line after the last step, where a line was written."""
    if progress is True:
        print(file=sys.stderr, flush=True)


class StepReports:
    """Reports of steps to a receiver, with the seconds since it was made."""

    def __init__(self, progress: FitProgressLike, what: str, n_rows: int, n_steps: int):
        self._progress, self._what, self._n_rows, self._n_steps = progress, what, n_rows, n_steps
        self._began, self._first = time.perf_counter(), np.nan

    def __call__(self, number: int, value: float, n_rows: int | None = None) -> None:
        """Report a step by its number and its loss: on all rows, or on so many."""
        if not self._progress:
            return
        self._first = value if np.isnan(self._first) else self._first
        seconds, n_rows = time.perf_counter() - self._began, self._n_rows if n_rows is None else n_rows
        now = FitProgress(number, self._n_steps, seconds, value, self._first, n_rows, self._what)
        (self._progress if callable(self._progress) else _print)(now)

"""Minimisation of a loss by gradient steps, with a stopping rule and reports of progress.

`best_step` runs the steps, and returns the best step. `descend` yields the steps of L-BFGS, and `follow` those of an
optimiser of optax. If there are many rows, `descend_in_parts` runs L-BFGS on a part of them first.
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

MEMORY = 30  # number of steps that L-BFGS remembers; with more it approximates the Hessian better, at more cost a step
SHORTEST_STEP = 2.0**-20  # shortest step that a line search tries, as a share of the full step
SMALL_GAIN = 1e-5  # relative decrease of the loss that counts as small: three small decreases in a row end a descent
SMALL_SLOPE = 1e-6  # largest absolute value in a gradient below which a descent has converged
ROWS_PER_PART = 4096  # most rows in a part; the optimum of a few numbers on so many rows is close to that on all
NOISY_GAIN = 1e-4  # `SMALL_GAIN` of a descent on all rows after one on a part: less is within sampling noise
MEAN_LOSSES = ("log", "brier", "utility")
"""Names of the losses that are weighted means over rows, and so weighted means of the losses on parts."""


class Step(NamedTuple):
    """State of a descent after a step."""

    numbers: Any  # free numbers, as a pytree of arrays
    value: float  # objective at these numbers
    steepest: float  # largest absolute value in the gradient of the objective
    is_last: bool  # whether the descent has converged
    curvature: tuple = ()  # memory of L-BFGS: pairs (change of the numbers, change of the gradient) of the last steps


class WeighedPart(NamedTuple):
    """A part of the rows, as a problem to minimise by itself, and its share of the weight of all rows."""

    share: float
    problem: Any  # what `descend`'s objective takes: data, classes and weights of the rows, and the loss


def best_step(
    steps: Iterator[Step],
    validate: Callable[..., float] | None,
    *,
    n_steps: int,
    patience: int,
    report: Callable[[int, float], None],
) -> tuple[Step, str, dict[str, np.ndarray]]:
    """Run the ``steps`` of a descent. Return (best step, status, losses).

    The best step has the least loss by ``validate``, a function of free numbers, or for None the least objective.
    ``report`` is called with the number and the objective of each step. The status is "converged", "steps" (after
    ``n_steps``), "stopped early" (after ``patience`` steps without a smaller validation loss) or "diverged". Losses are
    arrays ``[steps]`` by name: "loss", and with ``validate`` "validation". Raises a ValueError if the objective at the
    start is not finite.
    """
    best = None
    best_value = np.inf
    best_number = 0
    status = "steps"
    values = []  # objective of each step
    validation_losses = []
    for step_number, step in enumerate(steps):
        if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
            if best is None:
                raise ValueError(
                    f"the loss is {step.value} (largest slope {step.steepest}) before the first step: the combiner's "
                    "answers for these rows are no numbers. Look at rows.answer(combiner)."
                )
            status = "diverged"
            warn(
                f"the loss is {step.value} at step {step_number}: learning stopped, and keeps the best numbers before. "
                "Take a smaller learning rate."
            )
            break
        values.append(step.value)
        if validate is not None:
            validation_losses.append(validate(step.numbers))
        current = validation_losses[-1] if validation_losses else step.value
        if best is None or current < best_value:
            best, best_value, best_number = step, current, step_number
        report(step_number, step.value)
        if validate is not None and step_number - best_number >= patience:
            status = "stopped early"
        elif step.is_last:
            status = "converged"
        if status != "steps" or step_number >= n_steps:
            break
    # An optimiser may climb to ever larger finite losses; 0.1 % may be noise.
    if status == "steps" and values[-1] > values[0] + 1e-3 * abs(values[0]):
        status = "diverged"
        warn(
            f"the loss grew from {values[0]:.4g} to {values[-1]:.4g}: the best numbers seen are kept. Take a "
            "smaller learning rate."
        )
    assert best is not None
    history = {"loss": np.array(values)}
    if validation_losses:
        history["validation"] = np.array(validation_losses)
    return best, status, history


def descend(
    objective: Callable[..., Any],
    shape: tuple,
    numbers,
    parts: Sequence[WeighedPart],
    *,
    curvature: tuple = (),
    small_gain: float = SMALL_GAIN,
) -> Iterator[Step]:
    """Yield the start and the steps of L-BFGS with a backtracking line search (Armijo's condition).

    ``objective(shape, numbers, problem)`` and its gradient are one compiled program for all parts of one size, in which
    ``shape`` is static; all else runs on the host, in float64. ``numbers`` are the free numbers to start from.
    ``curvature`` is `Step.curvature` of an earlier descent on nearly the same objective. Three steps in a row that
    decrease the objective by less than ``small_gain`` of its value end the descent.
    """
    layout, point = _layout(numbers)
    dtype = jnp.result_type(float)
    evaluate = partial(_evaluate, objective, shape, layout, parts)

    def make_step(point, value: float, slope, *, is_last: bool) -> Step:
        steepest = float(np.max(np.abs(slope)))
        # Cut on the host: in JAX, cutting an array takes as long as a step over a thousand rows.
        arrays = jax.tree.map(jnp.asarray, _unravel(layout, np.asarray(point, dtype)))
        return Step(arrays, value, steepest, is_last or steepest < SMALL_SLOPE, tuple(pairs))

    pairs = deque(curvature, MEMORY)  # the oldest drop out
    noise = 4 * float(jnp.finfo(dtype).eps)  # rounding of an objective, relative to it
    n_small = 0  # steps in a row with a small gain
    value, slope = evaluate(point)
    yield make_step(point, value, slope, is_last=False)
    while True:
        direction = -_precondition(slope, pairs)
        if not direction @ slope < 0:  # no descent direction: the memory misleads, and the gradient alone does not
            pairs.clear()
            direction = -_precondition(slope, pairs)
        new_point, new_value, new_slope = _search_line(evaluate, point, value, slope, direction, noise)
        # Even the shortest step raises the objective, or makes it NaN: this is the minimum, up to rounding.
        if not new_value <= value + noise * abs(value):
            yield make_step(point, value, slope, is_last=True)
            return
        # A gain is small relative to the objective, which counts as 1e-3 at least: it may approach 0.
        n_small = n_small + 1 if value - new_value < small_gain * max(abs(new_value), 1e-3) else 0
        # Only pairs of positive curvature are kept: then the inverse Hessian stays positive definite.
        if (new_point - point) @ (new_slope - slope) > 0:
            pairs.append((new_point - point, new_slope - slope))
        point, value, slope = new_point, new_value, new_slope
        yield make_step(point, value, slope, is_last=n_small >= 3)


def _search_line(
    evaluate: Callable[..., Any],
    point: np.ndarray,
    value: float,
    slope: np.ndarray,
    direction: np.ndarray,
    noise: float,
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return (point, objective, gradient) of the first step that decreases the objective enough (Armijo's condition).

    Steps go from ``point`` along ``direction`` and become shorter; one below `SHORTEST_STEP` is returned whatever its
    objective is. ``evaluate(point)`` returns objective and gradient; ``value`` and ``slope`` are those at ``point``.
    ``noise`` is the rounding of an objective, relative to it.
    """
    length = 1.0
    derivative = float(direction @ slope)
    while True:
        new_point = point + length * direction
        new_value, new_slope = evaluate(new_point)
        # Armijo's condition, with its usual constant 1e-4. Objectives are rounded to the device's floats: without the
        # noise term no step would pass at the optimum.
        if new_value <= value + 1e-4 * length * derivative + noise * abs(value) or length < SHORTEST_STEP:
            return new_point, new_value, new_slope
        # On to the minimum of the parabola through both objectives and the derivative at 0, as a share of this length.
        excess = new_value - value - length * derivative  # of the objective over its tangent
        optimum = -0.5 * derivative * length / excess if np.isfinite(excess) and excess > 0 else 0.0
        length *= float(np.clip(optimum, 0.1, 0.5))


def _precondition(slope: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the gradient ``slope`` times L-BFGS's inverse Hessian (Nocedal and Wright 2006, algorithm 7.4).

    ``pairs`` are (change of the numbers, change of the gradient) of the last steps, the newest last.
    """
    direction = slope
    shares = []  # the algorithm's α, from the newest pair to the oldest
    for move, change in reversed(pairs):
        shares.append(move @ direction / (move @ change))
        direction = direction - shares[-1] * change
    if pairs:  # start from a multiple of the identity, of the size that the newest pair tells
        move, change = pairs[-1]
        direction = direction * (move @ change / (change @ change))
    else:  # the first step has length 1 at most
        direction = direction * min(1.0, 1 / max(float(np.linalg.norm(direction)), 1e-30))
    for (move, change), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - change @ direction / (move @ change)) * move
    return direction


@jit(static_argnums=(0, 1, 2))
def _value_and_slope(objective: Callable[..., Any], shape: tuple, layout: tuple, flat, problem):
    """Return an objective and its gradient at the vector ``flat``, which holds all free numbers, laid out by `_layout`.

    ``objective`` and ``shape`` are as for `descend`; ``problem`` is a part of the rows.
    """
    return jax.value_and_grad(lambda vector: objective(shape, _unravel(layout, vector), problem))(flat)


def _unravel(layout: tuple, flat):
    """Return the pytree of arrays that the vector ``flat`` holds; ``layout`` is (structure, shapes) by `_layout`."""
    structure, shapes = layout
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    arrays = [flat[end - int(np.prod(shape)) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]
    return jax.tree.unflatten(structure, arrays)


def _layout(numbers) -> tuple[tuple, np.ndarray]:
    """Return the layout of a pytree of arrays, (structure, shapes), and its values as a float64 vector."""
    leaves, structure = jax.tree.flatten(numbers)
    flat = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in leaves])
    return (structure, tuple(jnp.shape(leaf) for leaf in leaves)), flat


def _evaluate(objective, shape, layout, parts: Sequence[WeighedPart], at: np.ndarray) -> tuple[float, np.ndarray]:
    """Return an objective and its gradient, both means over ``parts`` of the rows by their shares.

    They are those at the vector ``at`` of free numbers, laid out by `_layout`. Other arguments are as for `descend`.
    """
    flat = jnp.asarray(at, jnp.result_type(float))
    results = [_value_and_slope(objective, shape, layout, flat, part.problem) for part in parts]
    shares = np.array([part.share for part in parts])
    # Only now, with all parts dispatched, is the first result read, so that the device does not wait.
    values = np.stack([np.asarray(value, float) for value, _ in results])
    slopes = np.stack([np.asarray(slope, float) for _, slope in results])
    return float(shares @ values), shares @ slopes


def value_at(objective: Callable[..., Any], shape: tuple, numbers, parts: Sequence[WeighedPart]) -> float:
    """Return the objective for all ``parts`` of the rows at the free numbers ``numbers``.

    The arguments are those of `descend`, whose compiled program is run.
    """
    layout, flat = _layout(numbers)
    return _evaluate(objective, shape, layout, parts, flat)[0]


@jit(static_argnums=(0, 1, 2))
def _update(objective: Callable[..., Any], shape: tuple, optimizer, numbers, state, problem):
    """Return (numbers, state, objective, steepest): free numbers and state after a step of ``optimizer``.

    The objective ``objective(shape, numbers, problem)`` and `Step.steepest` are those before the step.
    """
    value_of = lambda point: objective(shape, point, problem)
    value, slope = jax.value_and_grad(value_of)(numbers)
    extended = optax.with_extra_args_support(optimizer)
    updates, state = extended.update(slope, state, numbers, value=value, grad=slope, value_fn=value_of)
    steepest = jnp.max(jnp.stack([jnp.max(jnp.abs(array)) for array in jax.tree.leaves(slope)]))
    return optax.apply_updates(numbers, updates), state, value, steepest


def follow(objective: Callable[..., Any], shape: tuple, numbers, problem, optimizer) -> Iterator[Step]:
    """Yield the start and the steps of an ``optimizer`` of optax from the free numbers ``numbers`` on, without end.

    The objective is ``objective(shape, numbers, problem)``, where ``shape`` is static.
    """
    state = optimizer.init(numbers)
    while True:
        new_numbers, state, value, steepest = _update(objective, shape, optimizer, numbers, state, problem)
        yield Step(numbers, float(value), float(steepest), float(steepest) < SMALL_SLOPE)
        numbers = new_numbers


def split_rows(problem: Any, loss: Any, key: jax.Array) -> list[WeighedPart]:
    """Split a problem into parts: its rows of positive weight at random, at most `ROWS_PER_PART` in each.

    ``problem`` has fields ``data``, ``y`` and ``weight``, and ``key`` draws the parts. The problem stays one part if it
    has few rows, routes them at each step, or its ``loss`` is not in `MEAN_LOSSES`.
    """
    weight = np.asarray(problem.weight)
    rows = np.flatnonzero(weight > 0)
    if len(rows) <= ROWS_PER_PART or loss not in MEAN_LOSSES or isinstance(problem.data, RoutedRows):
        return [WeighedPart(1.0, problem)]
    rows = rows[np.asarray(jax.random.permutation(key, len(rows)))]
    n_parts = ceil_div(len(rows), ROWS_PER_PART)
    # One shape, so that one program serves all parts; padding rows (copies of row 0) weigh 0.
    size = multiple_of(256, ceil_div(len(rows), n_parts))
    parts = []
    for part_rows in np.array_split(rows, n_parts):
        padded = padded_rows(part_rows, size)
        part_weight = np.where(np.arange(size) < len(part_rows), weight[padded], 0)
        part = problem._replace(
            data=problem.data.at(padded), y=jnp.asarray(np.asarray(problem.y)[padded]), weight=jnp.asarray(part_weight)
        )
        share = float(weight[part_rows].sum(dtype=float) / weight.sum(dtype=float))
        parts.append(WeighedPart(share, part))
    return parts


def descend_in_parts(
    objective: Any, shape: tuple, numbers, parts: Sequence[WeighedPart], n_steps: int, report: "StepReports"
) -> Iterator[Step]:
    """Return the steps of `descend` on all ``parts``, which start from the end of a descent on the first part alone.

    The latter runs at once, from ``numbers`` on, at most ``n_steps`` steps, each of which it tells ``report``.
    """
    if len(parts) == 1:
        return descend(objective, shape, numbers, parts)
    first = parts[0]._replace(share=1.0)
    curvature = ()
    n_rows = int(np.sum(np.asarray(first.problem.weight) > 0))
    for step_number, step in enumerate(descend(objective, shape, numbers, [first])):
        if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
            break  # the descent on all rows starts from the last numbers before
        numbers, curvature = step.numbers, step.curvature
        report(step_number, step.value, n_rows)
        if step.is_last or step_number >= n_steps:
            break
    return descend(objective, shape, numbers, parts, curvature=curvature, small_gain=NOISY_GAIN)


class FitProgress(NamedTuple):
    """How far learning has come, as it is reported after each step; as a string it is one line."""

    done: int
    """Steps so far."""
    total: int
    """Steps at most."""
    seconds: float
    """Seconds since learning began."""
    loss: float
    """Objective now: the loss plus the penalty of the weak prior."""
    start_loss: float
    """Objective at the start."""
    n_rows: int
    """Number of rows over which the loss is taken: of many rows, a part at first."""
    what: str = ""
    """Name of the combiner that learns, or of a candidate and its fold."""

    def __str__(self) -> str:
        line = f"step {self.done}: loss {self.loss:.5f} on {self.n_rows} rows, at first {self.start_loss:.5f}"
        return f"{self.what + ', ' if self.what else ''}{line} ({self.seconds:.1f} s)"


FitProgressLike = bool | Callable[[FitProgress], None] | None
"""Receiver of progress: True for a line on standard error, which each report overwrites; or a function."""


def check_fit_progress(progress: Any) -> None:
    """Raise a TypeError unless ``progress`` is a bool, None, or a function that receives a `FitProgress`."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress={progress!r:.60} must be True, a function of a FitProgress, or None.")


def name_progress(progress: FitProgressLike, what: str) -> FitProgressLike:
    """Return a receiver that sets ``what`` in reports and passes them on to ``progress``; None for None or False."""
    if not progress:
        return None
    receive = progress if callable(progress) else _print
    return lambda now: receive(now._replace(what=what))


def _print(now: FitProgress) -> None:
    """Write progress as a line on standard error, over the line before."""
    print(f"\r{now!s:<100}", end="", file=sys.stderr, flush=True)


def end_line(progress: FitProgressLike) -> None:
    """End the line on standard error, to which reports were written if ``progress`` is True; else do nothing."""
    if progress is True:
        print(file=sys.stderr, flush=True)


class StepReports:
    """A function of a step that tells ``progress`` a `FitProgress`, whose seconds count from the function's making.

    ``what`` is `FitProgress.what`, ``n_rows`` the number of all rows, and ``n_steps`` the largest number of steps.
    """

    def __init__(self, progress: FitProgressLike, what: str, n_rows: int, n_steps: int):
        self._progress, self._what, self._n_rows, self._n_steps = progress, what, n_rows, n_steps
        self._start_time = time.perf_counter()
        self._start_loss = np.nan  # until the first step

    def __call__(self, number: int, value: float, n_rows: int | None = None) -> None:
        """Report the ``number`` of a step, and ``value``, its objective on ``n_rows`` rows (None: on all rows)."""
        if not self._progress:
            return
        self._start_loss = value if np.isnan(self._start_loss) else self._start_loss
        seconds = time.perf_counter() - self._start_time
        n_rows = self._n_rows if n_rows is None else n_rows
        now = FitProgress(number, self._n_steps, seconds, value, self._start_loss, n_rows, self._what)
        receive = self._progress if callable(self._progress) else _print
        receive(now)

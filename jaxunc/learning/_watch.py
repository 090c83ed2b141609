"""When to stop learning, and what is told of it meanwhile."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import warn

from ._descent import Step


class Progress(NamedTuple):
    """How far learning has come; as text a line of it."""

    step: int
    loss: float
    """With the weak prior's part."""
    start_loss: float
    seconds: float
    n_rows: int
    """Rows that the loss is of: a part of them at first, where there are many."""
    what: str = ""
    """What is learned, where several rules are."""

    def __str__(self) -> str:
        said = f"step {self.step}: loss {self.loss:.5f} on {self.n_rows} rows, at first {self.start_loss:.5f}"
        return f"{self.what + ', ' if self.what else ''}{said} ({self.seconds:.1f} s)"


Told = bool | Callable[[Progress], None] | None
"""True: a line on standard error that is written anew; a function: it is called."""


def check_told(progress: Any) -> None:
    """Raise a TypeError unless it may be told of steps."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress={progress!r:.60} must be True, a function of a Progress, or None.")


def labelled(told: Told, what: str) -> Told:
    """The same of one of several things that are learned."""
    if not told:
        return None
    tell = told if callable(told) else _print
    return lambda now: tell(now._replace(what=what))


def _print(now: Progress) -> None:
    print(f"\r{now!s:<100}", end="", file=sys.stderr, flush=True)


def end_line(told: Told) -> None:
    """After the last step, where a line was written."""
    if told is True:
        print(file=sys.stderr, flush=True)


class Teller:
    """Tells of steps, with the seconds since it was made."""

    def __init__(self, told: Told, what: str, n_rows: int):
        self._told, self._what, self._n_rows = told, what, n_rows
        self._began, self._first = time.perf_counter(), np.nan

    def of(self, n_rows: int) -> Callable[[int, float], None]:
        """What is called after each step with its number and the loss on so many rows."""
        return lambda number, value: self._tell(number, value, n_rows)

    def __call__(self, number: int, value: float) -> None:
        """A step on all rows."""
        self._tell(number, value, self._n_rows)

    def _tell(self, number: int, value: float, n_rows: int) -> None:
        if not self._told:
            return
        self._first = value if np.isnan(self._first) else self._first
        now = Progress(number, value, self._first, time.perf_counter() - self._began, n_rows, self._what)
        (self._told if callable(self._told) else _print)(now)


class Watch(NamedTuple):
    """When to stop: of steps, the best one is kept."""

    n_steps: int
    patience: int
    tell: Callable[[int, float], None] = lambda number, value: None

    def over(self, steps: Iterator[Step], judge: Callable | None) -> tuple[Step, str, dict[str, np.ndarray]]:
        """(the best step, status, history from the start on), judged by the objective or by something else."""
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
                best, best_value, best_step = step, current, number
            self.tell(number, step.value)
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
        assert best is not None
        history = {"loss": np.array(values)} | ({"validation": np.array(judged)} if judged else {})
        return best, status, history

"""Stopping of learning, and reports of its progress."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import warn

from ._descent import Step


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
    """Name of what is learned, where several rules are."""

    def __str__(self) -> str:
        said = f"step {self.done}: loss {self.loss:.5f} on {self.n_rows} rows, at first {self.start_loss:.5f}"
        return f"{self.what + ', ' if self.what else ''}{said} ({self.seconds:.1f} s)"


Told = bool | Callable[[FitProgress], None] | None
"""Receiver of progress. True: a line on standard error that is written anew; a function: it is called."""


def check_told(progress: Any) -> None:
    """Raise a TypeError unless it may be told of steps."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress={progress!r:.60} must be True, a function of a Progress, or None.")


def labelled(told: Told, what: str) -> Told:
    """Return the receiver for one of several things that are learned, under its name."""
    if not told:
        return None
    tell = told if callable(told) else _print
    return lambda now: tell(now._replace(what=what))


def _print(now: FitProgress) -> None:
    print(f"\r{now!s:<100}", end="", file=sys.stderr, flush=True)


def end_line(told: Told) -> None:
    """End the line after the last step, where a line was written."""
    if told is True:
        print(file=sys.stderr, flush=True)


class Teller:
    """A teller of steps, with the seconds since it was made."""

    def __init__(self, told: Told, what: str, n_rows: int, n_steps: int):
        self._told, self._what, self._n_rows, self._n_steps = told, what, n_rows, n_steps
        self._began, self._first = time.perf_counter(), np.nan

    def of(self, n_rows: int) -> Callable[[int, float], None]:
        """Return the function to call after each step with its number and the loss on so many rows."""
        return lambda number, value: self._tell(number, value, n_rows)

    def __call__(self, number: int, value: float) -> None:
        """Tell of a step on all rows."""
        self._tell(number, value, self._n_rows)

    def _tell(self, number: int, value: float, n_rows: int) -> None:
        if not self._told:
            return
        self._first = value if np.isnan(self._first) else self._first
        seconds = time.perf_counter() - self._began
        now = FitProgress(number, self._n_steps, seconds, value, self._first, n_rows, self._what)
        (self._told if callable(self._told) else _print)(now)


class Watch(NamedTuple):
    """The rule for when to stop: of all steps, the best one is kept."""

    n_steps: int
    patience: int
    tell: Callable[[int, float], None] = lambda number, value: None

    def over(self, steps: Iterator[Step], judge: Callable[..., Any] | None) -> tuple[Step, str, dict[str, np.ndarray]]:
        """Return the best step, the status and the history since the start, judged by the objective or by ``judge``."""
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
            # Judged by other rows, steps are kept only while these gain: the objective falls all the time.
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
        # An optimiser of the user's own may climb without ever being infinite.
        if status == "steps" and values[-1] > values[0] + 1e-3 * abs(values[0]):
            status = "diverged"
            warn(
                f"the loss grew from {values[0]:.4g} to {values[-1]:.4g}: the best numbers seen are kept. Take a "
                "smaller learning rate."
            )
        assert best is not None
        history = {"loss": np.array(values)} | ({"validation": np.array(judged)} if judged else {})
        return best, status, history

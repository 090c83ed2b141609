"""Interleaved repetitions, and what is said of them."""

import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

SETTLE_SECONDS = 0.02
"""Pause before each timing: worker threads of the engine before it spin for some milliseconds after they are done."""


@dataclass
class Times:
    """Seconds of each repetition: by the wall clock, and of all cores together."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def timed(call: Callable[[], object]) -> tuple[float, float, object]:
    """Wall seconds, CPU seconds of the process, and the result of one call."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Times]:
    """Time every call once a round, in a new order each round, after one untimed call of each.

    What slows the machine for a while slows all of a round, so ratios within rounds are steadier than times.
    """
    for call in calls.values():
        call()
    times = {name: Times() for name in calls}
    order, shuffle = list(calls), random.Random(0).shuffle
    for _ in range(repeats):
        shuffle(order)
        for name in order:
            time.sleep(SETTLE_SECONDS)
            wall, cpu, _ = timed(calls[name])
            times[name].wall.append(wall)
            times[name].cpu.append(cpu)
    return times


def spread(values) -> dict[str, float]:
    """Median, quartiles, extremes."""
    quantiles = {"median": 0.5, "first_quartile": 0.25, "third_quartile": 0.75, "min": 0, "max": 1}
    return {name: float(np.quantile(np.asarray(values, float), share)) for name, share in quantiles.items()}


def speedup(times: Times, reference: Times) -> dict[str, dict[str, float]]:
    """The reference's time over this one, by both clocks: above 1 is faster."""
    return {clock: ratio(reference, times, clock) for clock in ("wall", "cpu")}


def ratio(times: Times, reference: Times, clock: str = "wall") -> dict[str, float]:
    """Time over the reference's, by the wall clock or "cpu", round by round: below 1 is faster."""
    return spread(np.divide(getattr(times, clock), getattr(reference, clock)))


def summary(times: Times) -> dict:
    """Both clocks."""
    return {"steady_s": spread(times.wall), "cpu_s": spread(times.cpu)}


def compared(times: Mapping[str, Times], reference: str) -> dict[str, dict]:
    """By the wall clock, which others on the machine disturb, and by the processor's, which they hardly do."""
    of = times[reference]
    return {
        name: {**summary(own), "ratio": ratio(own, of), "cpu_ratio": ratio(own, of, "cpu")}
        for name, own in times.items()
    }


def on_device(function: Callable, rows: object) -> Callable[[], object]:
    """A call that answers rows and leaves the answers where they are made."""
    return lambda: jax.block_until_ready(jax.tree.leaves(function(rows)))


def say(message: str) -> None:
    """Tell how a measurement goes on."""
    print(message, file=sys.stderr, flush=True)


def repeated(call: Callable[[], object], times: int) -> dict[str, float]:
    """Spread of a single call's wall seconds, the first one included."""
    return spread([timed(call)[0] for _ in range(times)])

"""Calls: what they ask of a device, counted by JAX's profiler, and many at the same time."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import jax
import numpy as np

from tests._patience import patience


class Calls(NamedTuple):
    """What a device was asked for."""

    programs: int
    sent: int
    """Arrays that went there."""
    fetched: int
    """Arrays that came back."""


EVENTS = (("ExecuteHelper", "LoadedExecutable::Execute ("), ("DevicePut",), ("np.asarray(jax.Array)",))
"""Parts of the names of events, for each number of `Calls`; a program of several devices has another name."""


def profiled(call: Callable[[], object]) -> Calls:
    """What a call asks for, once it has compiled what it needs."""
    call()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        planes = jax.profiler.ProfileData.from_file(str(file)).planes
        names = [event.name for plane in planes for line in plane.lines for event in line.events]
    # What each of several devices does stands by itself, behind a number in brackets.
    names = [name for name in names if not name.startswith("[")]
    return Calls(*[sum(any(part in name for part in parts) for name in names) for parts in EVENTS])


def agree_at_once(ask: Callable[[Any], Any], batches: Sequence[Any]) -> None:
    """Have a thread for each batch ask, all of them beginning together; the answers are those of a batch alone."""
    start = Barrier(len(batches))

    def wait_and_ask(batch: Any) -> Any:
        start.wait(patience(1))
        return ask(batch)

    with ThreadPoolExecutor(len(batches)) as pool:
        answers = list(pool.map(wait_and_ask, batches))
    for answer, batch in zip(answers, batches, strict=True):
        jax.tree.map(np.testing.assert_array_equal, answer, ask(batch))

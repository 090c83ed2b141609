"""Counting what a call asks of a device, by JAX's profiler."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax


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

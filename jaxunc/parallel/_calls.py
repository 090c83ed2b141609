"""Agreement of the processes of a mesh, before they run one program together.

A process that ran another program, or none, would leave the others waiting for ever: so each says first what it is
about to do, and all of them refuse what does not fit.
"""

import zlib
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from jaxunc._numerics import jit
from jaxunc.inference import READOUTS

from ._grid import AXES, Grid


class Call(NamedTuple):
    """A call, as its process sees it."""

    refused: int
    """Whether the data were refused by the process, 0 or 1."""
    n_instances: int
    missing: int
    """Whether a value is missing, 0 or 1."""
    masked: int
    """Whether there is a tree mask, 0 or 1."""
    readout: int
    """Place of the read-out in `READOUTS`."""
    digest: int
    """Checksum of the data and the mask."""


def digest(*arrays: np.ndarray | None) -> int:
    """Return a checksum of arrays, below 2³¹."""
    found = 0
    for array in arrays:
        found = zlib.crc32(b"" if array is None else np.ascontiguousarray(array).data, found)
    return found >> 1


def calls_of_all(grid: Grid, own: Call) -> dict[int, Call]:
    """Return the call of each process of the mesh; raises a ValueError in every process unless they fit together."""
    if grid.is_alone:
        return {grid.me: own}
    sharding = grid.sharding(AXES)
    rows = np.asarray([own], np.int32)
    # A row for each device of the mesh; a process with several devices says the same with each.
    told = jax.make_array_from_callback((grid.mesh.size, len(own)), sharding, lambda index: rows)
    heard = np.asarray(_to_all(grid)(told))
    senders = [process for row in grid.process_of for process in row]
    calls = {process: Call(*map(int, row)) for process, row in zip(senders, heard, strict=True)}
    _check(grid, calls)
    return calls


@lru_cache
def _to_all(grid: Grid):
    """Return the program by which all processes hear what each has told."""
    return jit(lambda rows: rows, out_shardings=grid.sharding())


def _check(grid: Grid, calls: dict[int, Call]) -> None:
    # Who refused raises its own error; the others raise this one. So nobody waits for a program that will not run.
    if refused := [process for process, call in calls.items() if call.refused and process != grid.me]:
        if not calls[grid.me].refused:
            raise ValueError(f"the processes {refused} refused their data, as their own errors say: none is scored.")
        return
    for name, say in (("masked", bool), ("readout", lambda place: READOUTS[place] or "answer")):
        found = {process: say(getattr(call, name)) for process, call in calls.items()}
        if len(set(found.values())) > 1:
            what = {"masked": "whether there is a tree_mask", "readout": "which read-out is asked for"}[name]
            raise ValueError(
                f"processes differ in {what}: {found}. All processes of the mesh make the same calls, in the same "
                "order."
            )
    for first in calls:
        for second in calls:
            same = grid.rows_of(first) == grid.rows_of(second)
            # Not the first field: a refusal was dealt with above.
            if same and calls[first][1:] != calls[second][1:]:
                raise ValueError(
                    f"the processes {first} and {second} have trees for the same instances (the axis 'tree' of the "
                    f"mesh spans them), but passed other data: {calls[first].n_instances} and "
                    f"{calls[second].n_instances} rows. Pass the same instances to both."
                )

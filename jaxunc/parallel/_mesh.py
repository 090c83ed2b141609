"""A mesh of devices as this library reads it (`Grid`), and the agreement of its processes before they run a program.

A process that ran another program, or none, would leave the others waiting for ever. So each says first what it is
about to do (`Call`), and all of them refuse what does not fit.
"""

import zlib
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxunc._numerics import jit
from jaxunc.inference import READOUTS

AXES = ("data", "tree")
HOW = "jax.make_mesh((data, tree), ('data', 'tree')), for instance with (jax.device_count(), 1)"


class Grid(NamedTuple):
    """A mesh, and this process's part in it: static, hashable."""

    mesh: Mesh
    process_of: tuple[tuple[int, ...], ...]
    """Process of each device, ``[data tree]``."""
    me: int
    """Index of this process."""

    @property
    def n_data(self) -> int:
        """Number of parts over which instances are distributed."""
        return len(self.process_of)

    @property
    def n_tree(self) -> int:
        """Number of parts over which trees are distributed."""
        return len(self.process_of[0])

    @property
    def processes(self) -> tuple[int, ...]:
        """Processes that have devices of the mesh."""
        return tuple(sorted({process for row in self.process_of for process in row}))

    @property
    def is_alone(self) -> bool:
        """Whether all devices are this process's own."""
        return self.processes == (self.me,)

    @property
    def spans(self) -> bool:
        """Whether trees of one forest lie with several processes: these then score the same instances together."""
        return any(len(set(row)) > 1 for row in self.process_of)

    def rows_of(self, process: int) -> tuple[int, ...]:
        """Return the places along 'data' at which a process has devices."""
        return tuple(i for i, row in enumerate(self.process_of) if process in row)

    def sharding(self, *axes: str | tuple[str, ...] | None) -> NamedSharding:
        """Return the sharding of an array whose leading axes lie along these of the mesh."""
        return NamedSharding(self.mesh, P(*axes))

    @property
    def of_answers(self) -> P:
        """Layout of answers ``[data rows …]``: each device has finished its part, unless a process would lack some."""
        return P("data") if self.spans else P("data", "tree")


def as_grid(mesh: Mesh) -> Grid:
    """Read a mesh; raises a TypeError or ValueError (see `shard`) unless it fits."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh is {mesh!r}; pass a mesh of devices: {HOW}.")
    if set(mesh.axis_names) != set(AXES) or len(mesh.axis_names) != 2:
        raise ValueError(
            f"mesh has the axes {tuple(mesh.axis_names)}; expected the two axes 'data' (instances are distributed) and "
            f"'tree' (trees are): {HOW}. An axis that is not needed has size 1."
        )
    # In one order of axes, whichever the mesh has.
    devices = mesh.devices if tuple(mesh.axis_names) == AXES else mesh.devices.T
    if not devices.size:
        raise ValueError(f"mesh has no devices (shape {devices.shape}); pass {HOW}.")
    process_of = tuple(tuple(int(device.process_index) for device in row) for row in devices)
    me = jax.process_index(devices.flat[0].client.platform)
    # The same devices; on axes of the type Explicit, which is what `make_mesh` makes, not every operation is defined.
    grid = Grid(Mesh(devices, AXES, axis_types=(AxisType.Auto, AxisType.Auto)), process_of, me)
    _check_processes(grid)
    return grid


def _check_processes(grid: Grid) -> None:
    if grid.me not in grid.processes:
        raise ValueError(
            f"mesh has devices of the processes {list(grid.processes)} alone, none of this process ({grid.me}), whose "
            f"devices are {[str(device) for device in jax.local_devices()]}. Call shard in the processes that take "
            "part, or make the mesh of jax.devices(), which has those of all."
        )
    rows_of = {process: set(grid.rows_of(process)) for process in grid.processes}
    for first in rows_of:
        for second in rows_of:
            if rows_of[first] != rows_of[second] and rows_of[first] & rows_of[second]:
                raise ValueError(
                    f"the rows of mesh (along 'data') that the processes {first} and {second} have devices in, "
                    f"{sorted(rows_of[first])} and {sorted(rows_of[second])}, overlap in part: each process "
                    "has its own instances, so two of them must have the same rows or none in common. Choose a size of "
                    "'tree' that divides the devices of a process, or is a multiple of them."
                )


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
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(b"" if array is None else np.ascontiguousarray(array).data, checksum)
    return checksum >> 1


def calls_of_all(grid: Grid, call: Call) -> dict[int, Call]:
    """Return the call of each process of the mesh; raises a ValueError in every process unless they fit together."""
    if grid.is_alone:
        return {grid.me: call}
    sharding = grid.sharding(AXES)
    rows = np.asarray([call], np.int32)
    # A row for each device of the mesh; a process with several devices says the same with each.
    sent = jax.make_array_from_callback((grid.mesh.size, len(call)), sharding, lambda index: rows)
    received = np.asarray(_to_all(grid)(sent))
    senders = [process for row in grid.process_of for process in row]
    calls = {process: Call(*map(int, row)) for process, row in zip(senders, received, strict=True)}
    _check(grid, calls)
    return calls


@lru_cache
def _to_all(grid: Grid):
    """Return the program by which all processes receive what each has sent."""
    return jit(lambda rows: rows, out_shardings=grid.sharding())


def _check(grid: Grid, calls: dict[int, Call]) -> None:
    # Who refused raises its own error; the others raise this one. So nobody waits for a program that will not run.
    if refused := [process for process, call in calls.items() if call.refused and process != grid.me]:
        if not calls[grid.me].refused:
            raise ValueError(f"the processes {refused} refused their data, as their own errors say: none is scored.")
        return
    for name, say in (("masked", bool), ("readout", lambda place: READOUTS[place] or "answer")):
        values = {process: say(getattr(call, name)) for process, call in calls.items()}
        if len(set(values.values())) > 1:
            what = {"masked": "whether there is a tree_mask", "readout": "which read-out is asked for"}[name]
            raise ValueError(
                f"processes differ in {what}: {values}. All processes of the mesh make the same calls, in the same "
                "order."
            )
    for first in calls:
        for second in calls:
            same = grid.rows_of(first) == grid.rows_of(second)
            # Not the first field: a refusal was handled above.
            if same and calls[first][1:] != calls[second][1:]:
                raise ValueError(
                    f"the processes {first} and {second} have trees for the same instances (the axis 'tree' of the "
                    f"mesh spans them), but passed other data: {calls[first].n_instances} and "
                    f"{calls[second].n_instances} rows. Pass the same instances to both."
                )

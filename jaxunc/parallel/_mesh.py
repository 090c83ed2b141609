"""A mesh of devices as this library reads it (`Grid`), and the agreement of its processes before they run a program.

If a process ran another program, or none, the other processes would wait for ever. So each process first sends a
description of its call (`Call`) to all processes, which raise an error if the calls do not fit together.
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
"""Names of a mesh's axes: instances are distributed along the first, trees along the second."""

MESH_EXAMPLE = "jax.make_mesh((data, tree), ('data', 'tree')), for instance with (jax.device_count(), 1)"
"""How to make a mesh, for error messages."""


class Grid(NamedTuple):
    """A mesh with the axes 'data' and 'tree', and the processes of its devices: static, hashable."""

    mesh: Mesh
    process_of: tuple[tuple[int, ...], ...]
    """Index of the process that has each device, ``[data tree]``."""
    this_process: int

    @property
    def n_data(self) -> int:
        """Length of the axis 'data', along which instances are distributed."""
        return len(self.process_of)

    @property
    def n_tree(self) -> int:
        """Length of the axis 'tree', along which trees are distributed: the number of tree shards."""
        return len(self.process_of[0])

    @property
    def processes(self) -> tuple[int, ...]:
        """Indices of the processes that have devices of the mesh, in rising order."""
        return tuple(sorted({process for row in self.process_of for process in row}))

    @property
    def is_alone(self) -> bool:
        """Whether all devices of the mesh belong to this process."""
        return self.processes == (self.this_process,)

    @property
    def spans(self) -> bool:
        """Whether some devices along 'tree' belong to different processes, which must then pass the same instances."""
        return any(len(set(row)) > 1 for row in self.process_of)

    def rows_of(self, process: int) -> tuple[int, ...]:
        """Return the positions along 'data' at which ``process`` (an index) has devices, in rising order."""
        return tuple(i for i, row in enumerate(self.process_of) if process in row)

    def sharding(self, *axes: str | tuple[str, ...] | None) -> NamedSharding:
        """Return the sharding of an array whose leading axes are distributed along ``axes``, mesh axes or None."""
        return NamedSharding(self.mesh, P(*axes))

    @property
    def answer_spec(self) -> P:
        """Mesh axes along which answers ``[data rows …]`` are distributed: 'data' and 'tree'.

        If 'tree' spans processes, rows are not distributed along 'tree', since a process would then lack some.
        """
        return P("data") if self.spans else P("data", "tree")


def as_grid(mesh: Mesh) -> Grid:
    """Return the grid of ``mesh``; raise the TypeError or ValueError that `shard` documents if it does not suit."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh is {mesh!r}; pass a mesh of devices: {MESH_EXAMPLE}.")
    if set(mesh.axis_names) != set(AXES) or len(mesh.axis_names) != 2:
        raise ValueError(
            f"mesh has the axes {tuple(mesh.axis_names)}; expected the two axes 'data' (instances are distributed) and "
            f"'tree' (trees are): {MESH_EXAMPLE}. An axis that is not needed has size 1."
        )
    # Axes in the order of `AXES`, whichever order the mesh has.
    devices = mesh.devices if tuple(mesh.axis_names) == AXES else mesh.devices.T
    if not devices.size:
        raise ValueError(f"mesh has no devices (shape {devices.shape}); pass {MESH_EXAMPLE}.")
    process_of = tuple(tuple(int(device.process_index) for device in row) for row in devices)
    this_process = jax.process_index(devices.flat[0].client.platform)
    # The same devices on axes of the type Auto: `make_mesh` makes Explicit ones, for which JAX lacks some operations.
    grid = Grid(Mesh(devices, AXES, axis_types=(AxisType.Auto, AxisType.Auto)), process_of, this_process)
    _check_processes(grid)
    return grid


def _check_processes(grid: Grid) -> None:
    """Raise a ValueError if this process has no device, or two share some but not all positions along 'data'."""
    if grid.this_process not in grid.processes:
        raise ValueError(
            f"mesh has devices of the processes {list(grid.processes)} alone, none of this process "
            f"({grid.this_process}), whose devices are {[str(device) for device in jax.local_devices()]}. Call shard "
            "in the processes that take part, or make the mesh of jax.devices(), which has those of all."
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
    """One process's description of its call, as int32 numbers that all processes compare before any runs a program."""

    refused: int
    """Whether the process refused its data, 0 or 1."""
    n_instances: int
    """Number of the process's instances."""
    missing: int
    """Whether any value is missing, 0 or 1."""
    masked: int
    """Whether there is a tree mask, 0 or 1."""
    readout: int
    """Index of the read-out in `READOUTS`."""
    digest: int
    """Checksum of the data and the mask; 0 unless some processes must pass the same instances (`Grid.spans`)."""


def digest(*arrays: np.ndarray | None) -> int:
    """Return a checksum of the values of ``arrays``, from 0 to 2³¹ - 1; None counts as an empty array."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(b"" if array is None else np.ascontiguousarray(array).data, checksum)
    return checksum >> 1


def exchange_calls(grid: Grid, call: Call) -> dict[int, Call]:
    """Send this process's ``call`` to all processes of the grid, and return the call of each, by the process's index.

    Raises a ValueError in every process if calls do not fit together. If a process refused its data, the other
    processes raise a ValueError; that process gets the calls, and raises its own error.
    """
    if grid.is_alone:
        return {grid.this_process: call}
    sharding = grid.sharding(AXES)
    rows = np.asarray([call], np.int32)
    # A row for each device of the mesh; all devices of a process send the same row.
    sent = jax.make_array_from_callback((grid.mesh.size, len(call)), sharding, lambda index: rows)
    send_to_all = _to_all(grid)
    received = np.asarray(send_to_all(sent))
    senders = [process for row in grid.process_of for process in row]
    calls = {process: Call(*map(int, row)) for process, row in zip(senders, received, strict=True)}
    _check(grid, calls)
    return calls


@lru_cache
def _to_all(grid: Grid):
    """Return the program that copies rows ``[devices numbers]``, one on each device, to all devices of the grid."""
    return jit(lambda rows: rows, out_shardings=grid.sharding())


def _check(grid: Grid, calls: dict[int, Call]) -> None:
    """Raise a ValueError if the ``calls``, by process, do not fit together, or only other processes refused their data.

    If this process refused its data, too, nothing is raised here: it raises its own error.
    """
    refusing = [process for process, call in calls.items() if call.refused and process != grid.this_process]
    if refusing:
        if not calls[grid.this_process].refused:
            raise ValueError(f"the processes {refusing} refused their data, as their own errors say: none is scored.")
        return
    masked = {process: bool(call.masked) for process, call in calls.items()}
    readouts = {process: READOUTS[call.readout] or "answer" for process, call in calls.items()}
    for what, values in (("whether there is a tree_mask", masked), ("which read-out is asked for", readouts)):
        if len(set(values.values())) > 1:
            raise ValueError(
                f"processes differ in {what}: {values}. All processes of the mesh make the same calls, in the same "
                "order."
            )
    for first in calls:
        for second in calls:
            same_positions = grid.rows_of(first) == grid.rows_of(second)
            # All fields but ``refused``, which was handled above.
            if same_positions and calls[first][1:] != calls[second][1:]:
                raise ValueError(
                    f"the processes {first} and {second} have trees for the same instances (the axis 'tree' of the "
                    f"mesh spans them), but passed other data: {calls[first].n_instances} and "
                    f"{calls[second].n_instances} rows. Pass the same instances to both."
                )

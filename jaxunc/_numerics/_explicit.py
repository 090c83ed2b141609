"""Meshes of explicit axes, which deal arrays out under `jax.jit`: each device computes its own instances."""

from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxunc._checks import is_concrete


def along_instances(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return ``function(*arrays)``, whose arrays, and results but for some, have the instances as their first axis.

    Under a trace the type of an array may name a mesh with explicit axes, such as `jax.make_mesh` makes. Then each
    device runs the function on the instances that lie there, and asks no other: the types within it would else have to
    say of each operation where its result lies.

    Parameters
    ----------
    function
        What answers for each instance alone. It may close over traced arrays; every device has them whole.
    arrays
        Arrays of as many instances each, or None for one that is not there.

    Raises
    ------
    ValueError
        If `jax.vmap` maps over the instances.
    """
    mesh, axes = _dealt_out(arrays)
    given = [array for array in arrays if array is not None]
    if mesh is None or len({array.shape[:1] for array in given}) != 1:  # the function says what is wrong
        return function(*arrays)
    spec = PartitionSpec(axes)
    # Other axes than that of instances are brought together: a tree may test any column.
    placed = [array if array is None else _placed(array, mesh, spec) for array in arrays]
    share = NamedSharding(mesh, spec).shard_shape((given[0].shape[0],))[0]
    # What has another shape for one instance more has the instances as its first axis.
    own, more = (jax.eval_shape(function, *(_like(array, rows) for array in arrays)) for rows in (share, share + 1))
    results = jax.tree.map(lambda a, b: PartitionSpec() if a.shape == b.shape else spec, own, more)
    settings: dict[str, Any] = {"mesh": mesh, "in_specs": tuple(spec for _ in arrays), "out_specs": results}
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    explicit = {name for name, kind in kinds.items() if kind == AxisType.Explicit}
    if len(explicit) < len(kinds):  # else none is named: under `vmap` along an axis JAX takes that one away
        settings["axis_names"] = explicit
    mapped: Any = jax.shard_map(function, check_vma=False, **settings)
    try:
        return mapped(*placed)
    except Exception as error:
        if type(error).__name__ != "ShardingTypeError":  # which has no public name
            raise
        # `vmap` along an axis of the mesh keeps it explicit within, where no function can see it.
        raise ValueError(
            "the rows that jax.vmap maps over are dealt out by a mesh with explicit axes: JAX takes them for explicit "
            "within each row, too, where no tree can be walked. Pass all rows in one call instead of mapping over them."
        ) from error


def whole(array: Any) -> Any:
    """Return the array with all of it on every device, if a mesh of explicit axes deals it out; else as it is."""
    # Known in a tenth of the time.
    if not isinstance(array, Tracer) and isinstance(array.sharding, SingleDeviceSharding):
        return array
    mesh, _ = _dealt_out([array], concrete=True)
    return array if mesh is None else _placed(array, mesh, PartitionSpec())


def _placed(array: Any, mesh: Any, spec: PartitionSpec) -> Any:
    """Return the array dealt out along these axes of a mesh alone."""
    return jax.sharding.reshard(array, NamedSharding(mesh, spec))


def _dealt_out(arrays: Any, *, concrete: bool = False) -> tuple[Any, Any]:
    """The mesh that has explicit axes, and those along which instances are dealt out; None for none of each."""
    known = [array for array in arrays if isinstance(array, jax.Array) and (concrete or not is_concrete(array))]
    shardings: list[Any] = [jax.typeof(array).sharding for array in known]
    mesh = next((own.mesh for own in shardings if AxisType.Explicit in own.mesh.axis_types), None)
    return mesh, next((own.spec[0] for own in shardings if len(own.spec) and own.spec[0] is not None), None)


def _like(array: Any, rows: int) -> Any:
    return None if array is None else jax.ShapeDtypeStruct((rows, *array.shape[1:]), array.dtype)

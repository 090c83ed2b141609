"""Compiled programs: their settings, sizes and devices; and results that are kept while arrays live.

`jit` compiles under the library's own settings, whatever debugging settings a user has chosen. `map_over_devices` runs
a program on the devices to which a mesh of explicit axes has assigned the instances. `use_compilation_cache` keeps
programs that outlive their process.
"""

import os
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding
from jaxtyping import Array, Shaped

from jaxunc._checks import check_kind, is_concrete, nothing_is_traced, outside_traces


@contextmanager
def own_settings() -> Iterator[None]:
    """Return a context within which JAX's debugging settings are off: they are for a user's code, not the library's."""
    # Infinity and NaN are values here, missing axes are added as in NumPy, and packed bits may look like NaN.
    with (
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.check_tracer_leaks(False),
        jax.disable_jit(False),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def jit(function: Any = None, **options: Any) -> Any:
    """Return ``function`` compiled by `jax.jit` with ``options``, traced under `own_settings`; for None a decorator."""
    if function is None:
        return partial(jit, **options)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        # Under `jax.disable_jit` JAX calls `run` with values. Then the compiled function is called after all, since
        # intermediate arrays of the function may not fit into memory.
        inner_function = compiled if _settings.jax_disable_jit else function
        with own_settings():
            return inner_function(*args, **kwargs)

    compiled: Any = jax.jit(run, **options)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Only where the user inspects results: a context takes thirty times as long as reading these settings.
        if _debug_infs.value or _debug_nans.value or _check_tracer_leaks.value:
            with own_settings():
                return compiled(*args, **kwargs)
        return compiled(*args, **kwargs)

    for name in ("lower", "trace", "eval_shape", "clear_cache", "_cache_size"):
        setattr(call, name, getattr(compiled, name))
    return call


_settings: Any = jax.config  # type checkers do not know its attributes
_debug_infs: Any = jax.debug_infs
_debug_nans: Any = jax.debug_nans
_check_tracer_leaks: Any = jax.check_tracer_leaks
Result = TypeVar("Result")


class KeptWhileAlive(Generic[Result]):
    """A cache of results by the identity of the arrays that they were made of; no result outlives one of its arrays.

    Results are made outside of any trace. Where a number takes the place of an array, such as a scalar of NumPy, its
    value counts. Results of numbers alone are not kept, and neither are those of a writable array of NumPy. At most
    ``most`` results are kept, the newest; for None all are.
    """

    def __init__(self, most: int | None = None) -> None:
        self._results: dict[tuple, tuple[Result, list[weakref.finalize]]] = {}
        self._most = most

    def get(self, arrays: Sequence[Any], settings: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result that is kept for these very ``arrays`` and ``settings``; if none is, ``make`` one."""
        key = (*map(_identity, arrays), settings)
        if entry := self._results.get(key):  # a single access: another thread may drop the entry
            return entry[0]
        with outside_traces():
            result = make()
        owners = [array for array in arrays if not isinstance(array, _NUMBER)]
        # A writable array may have other values the next time, and without arrays nothing would ever drop the result.
        if not owners or any(isinstance(array, np.ndarray) and array.flags.writeable for array in owners):
            return result
        if self._most is not None and len(self._results) >= self._most:
            for oldest in list(self._results)[:1]:  # none if another thread has emptied the cache
                self._drop(oldest)
        # Dropped with its arrays, since a later array may have the same address, and so the same id.
        self._results[key] = result, [weakref.finalize(array, self._drop, key) for array in owners]
        return result

    def _drop(self, key: tuple) -> None:
        """Forget the result with the key ``key``, and stop watching its arrays, which may live much longer."""
        _, finalizers = self._results.pop(key, (None, []))
        for finalizer in finalizers:
            finalizer.detach()

    def __len__(self) -> int:
        return len(self._results)


def _identity(array: Any) -> Hashable:
    """Return the key of ``array`` in a cache: its id, or for a number its type and digits."""
    return (type(array), repr(array)) if isinstance(array, _NUMBER) else id(array)


def copy_in(values: Any, dtype: Any = None) -> Array:
    """Return ``values`` as an array of JAX, of this ``dtype`` if one is given; NumPy arrays are copied.

    The owner of a NumPy array may write to it later. On a CPU JAX shares the memory of an aligned array, and may
    compute after a call has returned.
    """
    if not isinstance(values, _OF_NO_MEMORY) and not hasattr(values, "__jax_array__"):
        values = np.array(values)
        if dtype is None and values.dtype.kind in "biufc":  # without a type JAX 0.10 compiles a program for each shape
            dtype = jax.dtypes.canonicalize_dtype(values.dtype)
    return jax.numpy.asarray(values, dtype)


_NUMBER = (np.generic, bool, int, float, complex)
_OF_NO_MEMORY = (jax.Array, *_NUMBER, list, tuple)  # of such values JAX shares no memory with their owner


def on_host(*arrays: Any) -> bool:
    """Return whether all arrays in the pytrees ``arrays`` are JAX's on one CPU device, and nothing is traced.

    The host packs such arrays itself, without a program. False for an array of NumPy, since its owner may write to it.
    """
    leaves = jax.tree.leaves(arrays)
    if not nothing_is_traced() or not all(isinstance(leaf, jax.Array) for leaf in leaves) or not is_concrete(leaves):
        return False
    devices = {device for leaf in leaves for device in leaf.devices()}
    return len(devices) == 1 and devices.pop().platform == "cpu"


def put_beside(array: Array, arrays: Any) -> Any:
    """Return ``arrays``, a pytree of NumPy arrays, as arrays of JAX with the same dtypes, 64-bit ones included.

    They are put on the devices of ``array`` if that is committed, else on the default device, uncommitted.
    """
    with jax.enable_x64(True):
        return jax.device_put(arrays, array.sharding if array.committed else None)


def default_platform() -> str:
    """Return the platform that computes, such as ``"cpu"``: that of `jax.default_device`, else JAX's own choice."""
    device = _settings.jax_default_device
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def power_of_two(n: int, least: int = 1) -> int:
    """Return the least power of two that is at least n; ``least`` if that is larger. Programs share such sizes."""
    return max(least, 1 << max(n - 1, 0).bit_length())


def ceil_div(n: int, size: int) -> int:
    """Return ``n / size``, rounded up to an integer."""
    return -(-n // size)


def multiple_of(size: int, n: int) -> int:
    """Return the least multiple of ``size`` that is at least n."""
    return -(-n // size) * size


def padded_rows(array: Shaped[np.ndarray, "rows ..."], n_rows: int) -> Shaped[np.ndarray, "more_rows ..."]:
    """Return the array with rows of zeros appended up to ``n_rows``; the array itself if it has ``n_rows`` rows."""
    if len(array) == n_rows:
        return array
    padded = np.zeros((n_rows, *array.shape[1:]), array.dtype)  # np.pad takes ten times as long for few rows
    padded[: len(array)] = array
    return padded


def same_rank(*arrays: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """Return ``arrays`` with leading axes of length one added, so that all have the rank of the highest among them."""
    rank = max(array.ndim for array in arrays)
    return tuple(array.reshape((1,) * (rank - array.ndim) + array.shape) for array in arrays)


def map_over_devices(function: Callable[..., Any], *arrays: Any, beside: Any = None) -> Any:
    """Return ``function(beside, *arrays)``; under a mesh each device computes it for its share of the instances.

    The first axis of each of ``arrays`` is that of instances; some arrays may be None. ``beside`` is a pytree, which
    every device has as a whole. The function must answer each instance by itself. Results whose shape follows the
    number of instances are divided among the devices; others are the same on every device.

    *Under a mesh* means that the type of a traced array names a mesh with explicit axes, such as `jax.make_mesh` makes.
    Without this function each operation would then have to declare where its result lies. Raises a ValueError if
    `jax.vmap` maps over instances that a mesh divides.
    """
    leaves, structure = jax.tree.flatten(beside)
    # Indices of the leaves of `beside` that have a mesh: only these are passed to the devices as arguments.
    mesh_leaves = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer) and _mesh_of([leaf])[0] is not None]
    mesh, axes = _mesh_of(arrays)
    if mesh is None:
        mesh, _ = _mesh_of([leaves[i] for i in mesh_leaves])
    present = [array for array in arrays if array is not None]
    if mesh is None or len({array.shape[:1] for array in present}) != 1:  # the function refuses unequal lengths
        return function(beside, *arrays)

    def on_each(replicas: list[Any], *shards: Any) -> Any:
        """Return the function's result on one device, for its ``shards`` and its copies of leaves of ``beside``."""
        replica_of = dict(zip(mesh_leaves, replicas, strict=True))
        filled = [replica_of.get(i, leaf) for i, leaf in enumerate(leaves)]
        return function(jax.tree.unflatten(structure, filled), *shards)

    nowhere = PartitionSpec()
    spec = PartitionSpec(axes)
    # Axes other than that of instances are not divided: a tree may test any column.
    shards = [array if array is None else _reshard(array, mesh, spec) for array in arrays]
    replicas = [_reshard(leaves[i], mesh, nowhere) for i in mesh_leaves]
    (share,) = NamedSharding(mesh, spec).shard_shape((present[0].shape[0],))  # number of instances of a device

    def result_shapes(n_rows: int) -> Any:
        return jax.eval_shape(partial(function, beside), *[_shape_with(array, n_rows) for array in arrays])

    # A result whose shape changes with one instance more has the instances as its first axis.
    out_specs = jax.tree.map(
        lambda a, b: nowhere if a.shape == b.shape else spec, result_shapes(share), result_shapes(share + 1)
    )
    in_specs = ([nowhere for _ in replicas], *(spec for _ in arrays))
    specs: dict[str, Any] = {"in_specs": in_specs, "out_specs": out_specs}
    mapped: Any = jax.shard_map(on_each, mesh=mesh, check_vma=False, **specs, **_explicit_axes(mesh))
    try:
        return mapped(replicas, *shards)
    except Exception as error:
        if type(error).__name__ != "ShardingTypeError":  # which has no public name
            raise
        # `vmap` along an axis of the mesh keeps the axis explicit within, where no function can see it.
        raise ValueError(
            "a mesh with explicit axes divides the rows that jax.vmap maps over: JAX takes the axes for explicit "
            "within each row, too, where no tree can be walked. Pass all rows in one call instead of mapping over them."
        ) from error


def _explicit_axes(mesh: Any) -> dict[str, set[str]]:
    """Return the option of `jax.shard_map` that names the explicit axes of ``mesh``; {} if all axes are explicit.

    If names were passed then, `jax.vmap` could not map along an axis: JAX removes that axis from the mesh.
    """
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    explicit = {name for name, kind in types.items() if kind == AxisType.Explicit}
    return {"axis_names": explicit} if len(explicit) < len(types) else {}


def varying_as(array: Any, start: Any) -> Any:
    """Return ``start``, a pytree of a loop's start values, marked as varying along the mesh axes that ``array`` does.

    A loop's results vary between devices as the array of instances that it reads does; `jax.shard_map` demands the same
    of its start values, often zeros.
    """
    axes = _varying(array)
    if not axes:
        return start
    return jax.tree.map(lambda part: jax.lax.pcast(part, tuple(axes - _varying(part)), to="varying"), start)


def _varying(array: Any) -> frozenset[str]:
    """Return the names of the mesh axes along which ``array`` varies; none outside of `jax.shard_map`."""
    return getattr(getattr(jax.typeof(array), "manual_axis_type", None), "varying", frozenset())


def replicate(array: Any) -> Any:
    """Return ``array`` with all its entries on every device if a mesh of explicit axes divides it, else unchanged."""
    # This test takes a tenth of the time of `_mesh_of`.
    if not isinstance(array, Tracer) and isinstance(array.sharding, SingleDeviceSharding):
        return array
    mesh, _ = _mesh_of([array], concrete=True)
    return array if mesh is None else _reshard(array, mesh, PartitionSpec())


def _reshard(array: Any, mesh: Any, spec: PartitionSpec) -> Any:
    """Return ``array`` divided among the devices of ``mesh`` along the axes that ``spec`` names, and no others."""
    return jax.sharding.reshard(array, NamedSharding(mesh, spec))


def _mesh_of(arrays: Any, *, concrete: bool = False) -> tuple[Any, Any]:
    """Return the first mesh with explicit axes among the types of ``arrays``, and the mesh axes that divide instances.

    Mesh or axes are None if there are none. Only traced arrays count, unless ``concrete`` is True.
    """
    arrays = [array for array in arrays if isinstance(array, jax.Array) and (concrete or not is_concrete(array))]
    shardings: list[Any] = [jax.typeof(array).sharding for array in arrays]
    mesh = next((sharding.mesh for sharding in shardings if AxisType.Explicit in sharding.mesh.axis_types), None)
    first_axes = [sharding.spec[0] for sharding in shardings if len(sharding.spec)]
    return mesh, next((axes for axes in first_axes if axes is not None), None)


def _shape_with(array: Any, rows: int) -> Any:
    """Return the shape and dtype that ``array`` would have with ``rows`` rows; None for None."""
    return None if array is None else jax.ShapeDtypeStruct((rows, *array.shape[1:]), array.dtype)


def use_compilation_cache(folder: str | Path | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that later processes load what this one has compiled.

    This is JAX's persistent compilation cache, with the settings that suit programs of this library: small ones are
    kept, too. It holds for all programs of the process that are compiled after the call. The command line uses it.

    Parameters
    ----------
    folder
        Where programs are kept. Default: ``jaxunc`` in the user's folder of caches (``$XDG_CACHE_HOME``, or
        ``~/.cache``; ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows). It may be deleted at any time.

    Returns
    -------
    Path or None
        The folder in use. That of JAX's own setting ``jax_compilation_cache_dir`` where that is set and ``folder`` is
        None. None where JAX's cache is off (``JAX_ENABLE_COMPILATION_CACHE=false`` in the environment, the setting
        ``jax_enable_compilation_cache``), or where the default folder cannot be made.

    Raises
    ------
    TypeError
        If ``folder`` is not a path.
    OSError
        If the folder ``folder`` cannot be made.

    Notes
    -----
    Programs are kept for one version of JAX, one kind of processor and one shape of forest and data; answers are the
    same to the last bit. A program takes 5 to 50 kB, and no entry is ever removed. Whoever can write to the folder
    decides which programs run: make it yours alone, as the default folder is. On some processors of Intel no program is
    ever found again (jax-ml/jax#38445), and programs are compiled as without the cache.

    On other processors, such as AMD's with AVX-512, XLA prints two lines to standard error for each program that it
    finds, with "prefer-no-gather" and "SIGILL" in them. They are about preferences that XLA set itself: no instruction
    is missing, and the program runs. The command line silences these lines. In programs of your own
    ``jax.config.update("jax_logging_level", "CRITICAL")`` silences all that JAX and XLA would log, as does
    ``TF_CPP_MIN_LOG_LEVEL=3`` in the environment before JAX is imported.

    Examples
    --------
    >>> import tempfile
    >>> import jaxunc as ju
    >>> folder = ju.use_compilation_cache(tempfile.mkdtemp())  # before anything is computed
    """
    if folder is not None:
        check_kind("folder", folder, str | Path, "the path of a folder")
    settings: Any = jax.config  # type checkers do not know its attributes
    if not settings.jax_enable_compilation_cache:
        return None
    if folder is None and settings.jax_compilation_cache_dir:
        return Path(settings.jax_compilation_cache_dir)
    if folder is None:
        try:
            cache = _make_folder(_cache_folder() / "jaxunc")
        except (OSError, RuntimeError):  # no home folder, or one that cannot be written to
            return None
    else:
        cache = _make_folder(Path(folder))
    settings.update("jax_compilation_cache_dir", str(cache))
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    settings.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return cache


def _make_folder(folder: Path) -> Path:
    """Return ``folder``; make it, for the user alone, if there is none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _cache_folder() -> Path:
    """Return the user's folder of caches on this system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

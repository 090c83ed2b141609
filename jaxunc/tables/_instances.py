"""Data from the host: checked, as C-contiguous float32, nominal values as their codes."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from jaxunc._checks import check_bool, check_kind, is_concrete
from jaxunc._numerics import along_instances

from ._columns import Columns
from ._cuts import CutLookup
from ._frames import check_distinct_names, is_frame
from ._numbers import numbers_of_array, numbers_of_frame
from ._sparse import as_csr, is_sparse, rows_of
from ._table import NUMBERS, dense_alone, frame_names, plain_table

Instances = Float32[np.ndarray, "instances features"] | Float32[jax.Array, "instances features"]


class Encoded(NamedTuple):
    """Data as trees test them: what `encode_instances` makes of data, and takes as it is."""

    values: Any
    """`Instances`; of a sparse matrix `SparseRows` (see `encode_rows`)."""
    missing: bool
    """Whether any value is NaN."""


def encode_traced(data: Any, columns: Columns, name: str = "X") -> Float32[jax.Array, "instances features"]:
    """Return X for functions that may be traced: checked as `encode_instances` does, or the shape alone if X is traced.

    Parameters
    ----------
    data, columns, name
        See `encode_instances`. Infinite values are compared like any other.

    Raises
    ------
    TypeError, ValueError
        As `encode_instances`; under a trace a ValueError if the shape is another one.

    Notes
    -----
    Under a trace no value can be looked up among levels: there nominal columns hold codes.
    """
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return jnp.asarray(data.values)
    if is_concrete(data):
        data, _ = encode_instances(data, columns, name, infinite=True)
        return jnp.asarray(data, jnp.float32)
    check_shape(np.shape(data), columns, name)
    return jnp.asarray(data if columns.cuts is None else along_instances(partial(_coded, columns), data), jnp.float32)


def _coded(columns: Columns, data: Any) -> Any:
    lookups = enumerate(columns.lookups)
    parts = [own.traced_codes(data[:, j]) if isinstance(own, CutLookup) else data[:, j] for j, own in lookups]
    return jnp.stack([jnp.asarray(part, jnp.float32) for part in parts], axis=1)


def encode_instances(data: Any, columns: Columns, name: str = "X", *, infinite: bool = False) -> Encoded:
    """Return data as trees test them, and whether values are missing.

    Parameters
    ----------
    data
        ``[instances features]``: NumPy, JAX, a list of rows; a frame of pandas, Polars, Arrow or whatever else narwhals
        knows, or a dictionary of columns, whose names must be those that are known; or encoded already. Where a column
        has levels its values are looked up, in an array of numbers too; data that hold codes already go with
        ``columns.of_codes()``.
    columns
        The columns, as the model knows them.
    name
        Name of the data in messages.
    infinite
        Whether infinite values are let through.

    Returns
    -------
    values : Float32[np.ndarray | jax.Array, "instances features"]
        C-contiguous. Columns with levels hold codes: -1 where a value is no level, or is missing and that is no level.
        Elsewhere numbers, NaN where they are missing. A JAX array on an accelerator stays there, unless values are to
        be looked up.
    missing : bool
        Whether a value is NaN.

    Raises
    ------
    TypeError
        If the data are sparse (a bound forest takes them), or columns hold no numbers and have no levels (they are
        named). Also if an array of numbers is given where all levels are words.
    ValueError
        If the number, names or order of the columns differ from those known, or values are infinite or too large for
        float32 (unless ``infinite``). NaN is a missing value and is accepted.
    """
    if is_sparse(data):
        raise dense_alone(name)
    return encode_rows(data, columns, name, infinite=infinite)


def encode_rows(data: Any, columns: Columns, name: str = "X", *, infinite: bool = False) -> Encoded:
    """Return what `encode_instances` does, but of a sparse matrix its rows, which are made dense part by part.

    Parameters
    ----------
    data, columns, name, infinite
        See `encode_instances`. Also a sparse matrix or array of SciPy: CSR best, since others are converted to it.

    Returns
    -------
    Encoded
        Its ``values`` are `SparseRows` where the data are sparse.

    Raises
    ------
    TypeError, ValueError
        As `encode_instances`, but not because data are sparse.
    """
    check_kind("columns", columns, Columns, "Columns, such as fit_columns(X)")
    check_bool("infinite", infinite)
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return data
    if type(data) is not np.ndarray and is_sparse(data):
        check_shape(data.shape, columns, name)
        return Encoded(*rows_of(as_csr(data, name), columns, name, infinite=infinite))
    table = plain_table(data, name)
    is_array = type(table) is np.ndarray  # most calls, which should not look for anything else
    # Data on an accelerator stay there; on a CPU NumPy sees the same memory, and is quicker.
    on_device = not is_array and _is_on_device(table) and not columns.looks_up
    if not is_array and is_frame(table):
        check_names(frame_names(table), columns, name)
        check_shape(table.shape, columns, name)
        values = numbers_of_frame(table, columns, name)
    else:
        values: Any = table if on_device else np.asarray(table)
        if not columns.looks_up and values.dtype.kind not in NUMBERS:
            raise TypeError(f"{name} has dtype {values.dtype}; pass numbers; encode text columns as in training.")
        check_shape(values.shape, columns, name)
        values = numbers_of_array(values, columns, name) if columns.looks_up else values
    numpy = jnp if on_device else np
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(np.float32) if on_device else np.ascontiguousarray(values, dtype=np.float32)
        # A sum is finite only if its terms are: one cheap pass, and further ones only in doubt.
        if np.isfinite(values.sum()):
            return Encoded(values, False)
    beyond = numpy.isinf(values)
    if not infinite and beyond.any():
        row, column = map(int, np.argwhere(beyond)[0])
        raise ValueError(
            f"{name}[{row}, {column}] is infinite or too large for float32 (largest 3.4e38), which scikit-learn "
            "refuses too. Clip it, or make it NaN if it stands for a missing value."
        )
    return Encoded(values, bool(numpy.isnan(values).any()))


def _is_on_device(table: Any) -> bool:
    return isinstance(table, jax.Array) and jax.default_backend() != "cpu"


def check_shape(shape: tuple[int, ...], columns: Columns, name: str) -> None:
    """Raise a ValueError unless there are two axes, and as many columns as are known."""
    if len(shape) != 2:
        hint = f" One instance? Pass {name}[None]." if len(shape) == 1 else ""
        raise ValueError(f"{name} has shape {shape}; expected (instances, features).{hint}")
    if shape[1] != columns.number:
        raise ValueError(
            f"{name} has {shape[1]} features, but the training data had {columns.number}. "
            "Pass the same columns in the same order."
        )


def check_names(found: tuple[str, ...], columns: Columns, name: str) -> None:
    """Raise a ValueError unless the names of columns are those that are known, in their order."""
    known = columns.names
    if known is None:
        return
    check_distinct_names(found, name)
    if found == known or tuple(map(columns.as_known, found)) == known:
        return
    names = spelled(found, columns, name)
    given = {columns.as_known(c) for c in found}
    absent, unknown = [c for c in known if c not in given], [c for c in found if columns.as_known(c) not in set(known)]
    if absent or unknown:
        raise ValueError(
            f"{name}'s columns are not those of the training data: missing {absent[:5]}, unexpected "
            f"{unknown[:5]} ({len(absent)} and {len(unknown)} in all)."
        )
    own = [names[known_name] for known_name in known]
    # The data's own names where they have spaces for the model's underlines.
    order = "list(columns.names)" if tuple(own) == known else f"{own[:10]}{', …' * (len(own) > 10)}"
    raise ValueError(
        f"{name}'s columns are in another order than the training data's; pass {name}[{order}], with the columns that "
        "are known."
    )


def spelled(found: Sequence[str], columns: Columns, where: str) -> dict[str, str]:
    """Return how the data write each name that the model knows.

    Raises a ValueError if they have several columns that the model calls alike: which of them it knows is not told.
    """
    written: dict[str, list[str]] = {}
    for name in found:
        written.setdefault(columns.as_known(name), []).append(name)
    names = {name: written[name] for name in columns.names or () if name in written}
    if several := [own for own in names.values() if len(own) > 1]:
        raise ValueError(f"{where} has the columns {several[0]}, which the model calls alike; keep one of them.")
    return {name: own[0] for name, own in names.items()}

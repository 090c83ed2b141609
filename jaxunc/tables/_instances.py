"""Data from the host: checked, as C-contiguous float32, nominal values as their codes."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from jaxunc._checks import check_bool, check_kind, is_concrete

from ._columns import Columns
from ._cuts import CutLookup
from ._levels import NUMBERS, is_missing
from ._table import as_table, column_of, frame_names, is_frame, kind_of

Instances = Float32[np.ndarray, "instances features"] | Float32[jax.Array, "instances features"]


class Encoded(NamedTuple):
    """Data as trees test them: what `as_instances` makes of data, and takes as it is."""

    values: Any
    """`Instances`; of a sparse matrix `SparseRows` (see `as_rows`)."""
    missing: bool
    """Whether any value is NaN."""


def as_traceable(data: Any, columns: Columns, name: str = "X") -> Float32[jax.Array, "instances features"]:
    """Return X for functions that may be traced: checked as `as_instances` does, or the shape alone if X is traced.

    Parameters
    ----------
    data, columns, name
        See `as_instances`. Infinite values are compared like any other.

    Raises
    ------
    TypeError, ValueError
        As `as_instances`; under a trace a ValueError if the shape is another one.

    Notes
    -----
    Under a trace no value can be looked up among levels: there nominal columns hold codes.
    """
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return jnp.asarray(data.values)
    if is_concrete(data):
        data, _ = as_instances(data, columns, name, infinite=True)
        return jnp.asarray(data, jnp.float32)
    check_shape(np.shape(data), columns, name)
    if columns.cuts is not None:
        lookups = enumerate(columns.lookups)
        parts = [own.traced_codes(data[:, j]) if isinstance(own, CutLookup) else data[:, j] for j, own in lookups]
        data = jnp.stack([jnp.asarray(part, jnp.float32) for part in parts], axis=1)
    return jnp.asarray(data, jnp.float32)


def as_instances(data: Any, columns: Columns, name: str = "X", *, infinite: bool = False) -> Encoded:
    """Return data as trees test them, and whether values are missing.

    Parameters
    ----------
    data
        NumPy, JAX or pandas, ``[instances features]``; or encoded already. Where a column has levels its values are
        looked up, in an array of numbers too; data that hold codes already go with ``columns.of_codes()``.
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
        If the data are sparse (`as_rows` takes them), or columns hold no numbers and have no levels (they are named).
        Also if an array of numbers is given where all levels are words.
    ValueError
        If the number, names or order of the columns differ from those known, or values are infinite or too large for
        float32 (unless ``infinite``). NaN is a missing value and is accepted.
    """
    check_kind("columns", columns, Columns, "Columns, such as fit_columns(X)")
    check_bool("infinite", infinite)
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return data
    table = as_table(data, name)
    # Data on an accelerator stay there; on a CPU NumPy sees the same memory, and is quicker.
    on_device = isinstance(table, jax.Array) and jax.default_backend() != "cpu" and not columns.looks_up
    if is_frame(table):
        _check_names(frame_names(table), columns, name)
        check_shape(table.shape, columns, name)
        values = _numbers_of_frame(table, columns, name)
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


def _check_names(found: tuple[str, ...], columns: Columns, name: str) -> None:
    known = columns.names
    if known is None or found == known:
        return
    absent, unknown = [c for c in known if c not in set(found)], [c for c in found if c not in set(known)]
    if absent or unknown:
        raise ValueError(
            f"{name}'s columns are not those of the training data: missing {absent[:5]}, unexpected "
            f"{unknown[:5]} ({len(absent)} and {len(unknown)} in all)."
        )
    raise ValueError(
        f"{name}'s columns are in another order than the training data's; pass {name}[list(columns.names)], with the "
        "columns that are known."
    )


def _numbers_of_frame(frame: Any, columns: Columns, name: str) -> np.ndarray:
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if len(plain) == columns.number:
        return _plain_numbers(frame, name)
    values = np.empty(frame.shape, np.float32)
    with np.errstate(over="ignore"):
        values[:, plain] = _plain_numbers(frame.iloc[:, plain], name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            values[:, j] = lookup.codes(_plain_numbers(frame.iloc[:, [j]], name)[:, 0])
        elif lookup is not None:
            values[:, j] = lookup.codes(frame.iloc[:, j])
    return values


def _plain_numbers(frame: Any, name: str) -> np.ndarray:
    """Return a frame of numbers as float64, NaN where they are missing; columns of objects may hold numbers too."""
    if all(kind_of(dtype) in NUMBERS for dtype in frame.dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return _converted(frame, list(frame_names(frame)), name)


def numbers_of_array(array: np.ndarray, columns: Columns, name: str) -> np.ndarray:
    """Return an array of columns some of which are looked up as float32, those as codes."""
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if are_numbers := array.dtype.kind in NUMBERS:
        _check_may_be_numbers(array, columns, name)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32) if are_numbers else np.empty(array.shape, np.float32)
        if not are_numbers:
            values[:, plain] = _converted(array[:, plain], plain, name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            column = array[:, j].astype(np.float64) if are_numbers else _converted(array[:, [j]], [j], name)[:, 0]
            values[:, j] = lookup.codes(column)
        elif lookup is not None:
            values[:, j] = lookup.codes(array[:, j])
    return values


def _check_may_be_numbers(array: np.ndarray, columns: Columns, name: str) -> None:
    for j, lookup in enumerate(columns.lookups):
        if lookup is not None and not lookup.may_be_numbers and not np.all(np.isnan(array[:, j])):
            raise levels_are_words(columns, j, name)


def levels_are_words(columns: Columns, j: int, name: str) -> TypeError:
    """Return the error of numbers in a column whose levels are words."""
    which = repr(columns.names[j]) if columns.names else j
    return TypeError(
        f"{name} is an array of numbers, but the levels of column {which} are words. Pass a frame or an array of "
        "objects with the values; or, if these are codes already, columns without levels: columns.of_codes()."
    )


def _converted(table: Any, names: list, name: str) -> np.ndarray:
    """Convert columns to float64, one by one; raises a TypeError that names those that hold no numbers."""
    values, refused, cause = np.empty(table.shape, np.float64), [], None
    for j in range(table.shape[1]):
        column = column_of(table, j)
        try:
            values[:, j] = _as_floats(column)
        except (TypeError, ValueError) as error:
            refused.append(names[j])
            cause = error
    if refused:
        raise TypeError(
            f"{name}'s columns {refused[:5]} ({len(refused)} in all) hold no numbers; encode them as the forest's data "
            "were, or name them in nominal when trees are grown. Dates: make them numbers, for instance days since the "
            "first one."
        ) from cause
    return values


def _as_floats(column: Any) -> np.ndarray:
    """Return numbers among objects as float64; NaN for what is missing."""
    kind = kind_of(column.dtype)
    if kind in NUMBERS and not hasattr(column, "to_numpy"):
        return column
    if kind not in NUMBERS + "OUS":
        raise TypeError(f"dtype {column.dtype} is no number")
    if hasattr(column, "to_numpy"):
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind == "O":
        column = np.array([np.nan if is_missing(value) else value for value in column], object)
    return column.astype(np.float64)

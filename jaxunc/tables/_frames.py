"""Reading of a caller's data of any type as one of three: a pandas frame, a `Frame`, or an array.

pandas' own frames stay as they are. Polars, Arrow and all else that narwhals knows, dictionaries of columns and
structured arrays become a `Frame`; lists become arrays. `InstancesLike` and its siblings tell type checkers what may be
passed. `as_table` and `plain_table` read tables, the functions after them ask a table about its columns, `as_frame` and
`plain_array` convert, and the last part reads labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from jaxunc._checks import check_readable, distinct_labels

from ._cells import floats_of, is_missing, kinds_of

NUMBERS = "fiub"  # dtype kinds of NumPy that hold numbers
QUANTITIES = "mMc"  # dtype kinds of times, dates and complex numbers, neither plain numbers nor names of things


class Encoded(NamedTuple):
    """Data as trees test them: the result of the encoding functions, which return an `Encoded` unchanged."""

    values: Any  # float32 array ``[instances features]`` of NumPy or JAX; `SparseRows` if the data were a sparse matrix
    missing: bool  # whether any value is NaN


if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    class OfFrame(Protocol):
        """A pandas frame: the members that are read."""

        @property
        def columns(self) -> Any: ...
        @property
        def iloc(self) -> Any: ...
        @property
        def shape(self) -> tuple[int, int]: ...
        def __len__(self) -> int: ...

    class SparseMatrix(Protocol):
        """A sparse matrix of SciPy: the members that are read."""

        @property
        def shape(self) -> Any: ...
        @property
        def dtype(self) -> Any: ...
        def tocsr(self) -> Any: ...

    class Column(Protocol):
        """A column of pandas, Polars or Arrow: the members that are read."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray: ...
        def __len__(self) -> int: ...

    class OfArrow(Protocol):
        """The Arrow C stream protocol, by which frames of Polars, Arrow and others export their data."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

    InstancesLike: TypeAlias = (
        np.ndarray
        | jax.Array
        | OfFrame
        | OfArrow
        | Mapping[str, Any]
        | SparseMatrix
        | Sequence[Sequence[Any]]
        | Encoded
    )
    """Data ``[instances features]``: NumPy, JAX, frames, columns by name, a sparse matrix of SciPy, a list of rows."""
    LabelsLike: TypeAlias = np.ndarray | jax.Array | Column | Sequence[Any]
    """A label per instance: NumPy, JAX, a column of a frame, or a list."""
    NumbersLike: TypeAlias = ArrayLike
    """A number, or an array or list of numbers: weights, priors, settings."""
    NominalLike: TypeAlias = np.ndarray | Sequence[bool] | Sequence[int] | Sequence[str] | str
    """Which columns are nominal: booleans, positions, names, or ``"auto"``."""
    MaskLike: TypeAlias = np.ndarray | jax.Array | Sequence[Sequence[bool]]
    """Booleans ``[instances trees]``."""
else:  # arguments are checked where they are read, with messages that say what to pass instead
    InstancesLike = LabelsLike = NumbersLike = NominalLike = MaskLike = Any

ArrowTable: TypeAlias = Any  # an Arrow table; Any, since pyarrow has no type annotations


def as_table(data: Any, name: str) -> Any:
    """Return data as a pandas frame, a `Frame` or an array, of objects if a list holds strings.

    Raises a TypeError if the data are sparse. ``name`` is the argument's name in messages.
    """
    if is_sparse(data):
        raise dense_alone(name)
    return plain_table(data, name)


def plain_table(data: Any, name: str = "X") -> Any:
    """Return data that are not sparse as a pandas frame, a `Frame` or an array.

    JAX arrays stay JAX arrays, and narrow floats such as bfloat16 become float32. A pandas series stays a series.
    Raises a ValueError for a JAX array that was deleted.
    """
    if type(data) is np.ndarray and data.dtype.kind in NUMBERS:
        return data  # first, since a server asks it for every row
    if isinstance(data, jax.Array):
        check_readable(name, data)
        narrow = data.dtype.kind == "V" and not jnp.issubdtype(data.dtype, jax.dtypes.extended)
        return data.astype(jnp.float32) if narrow else data
    if _is_series(data):
        return data  # a series: the caller refuses its shape
    frame = as_frame(data, name)
    return plain_array(data, name) if frame is None else frame


def is_sparse(data: Any) -> bool:
    return hasattr(type(data), "tocsr")  # of the type, since columns of a frame of pandas are attributes, too


def dense_alone(name: str) -> TypeError:
    """Return the TypeError for sparse data where only dense data are taken."""
    return TypeError(
        f"{name} is a sparse matrix, but this takes dense data alone; pass {name}.toarray(), in parts if large."
    )


def frame_names(frame: Any) -> tuple[str, ...]:
    return tuple(map(str, frame.columns))


def column_of(table: Any, j: int) -> Any:
    if isinstance(table, Frame):
        return table.parts[j]
    return table.iloc[:, j] if is_pandas(table) else np.asarray(table)[:, j]


def kind_of(dtype: Any) -> str:
    """Return the NumPy kind letter of a dtype; "O" if the dtype has none."""
    return getattr(dtype, "kind", "O")


def dtypes_of(frame: Any) -> list[Any]:
    return [part.dtype for part in frame.parts] if isinstance(frame, Frame) else list(frame.dtypes)


def holds_bools(frame: Any, j: int) -> bool:
    """Return whether column ``j`` of a frame holds bools that are read as numbers; some of them may be missing."""
    column = column_of(frame, j)
    if (kind := kind_of(column.dtype)) != "O" or is_named(frame, j):
        return kind == "b"
    return _are_bools(values := _values(column)) and any(isinstance(value, bool | np.bool_) for value in values)


def is_named(table: Any, j: int) -> bool:
    """Return whether column ``j`` is nominal by its type: categories, texts, or objects other than numbers and dates.

    In a frame, a column of objects that are all missing is nominal, too. So are bools with gaps in a pandas column of
    objects: there a missing flag is a level.
    """
    column = column_of(table, j)
    if has_categories(column.dtype) or (isinstance(table, Frame) and table.categorical[j]):
        return True
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES:
        return False
    if kind in "US":
        return True
    kinds = kinds_of(values := _values(column))
    if kinds & {"word", "several", "quantity"}:
        return "quantity" not in kinds
    some_missing = any(map(is_missing, values))
    if is_pandas(table) and some_missing and _are_bools(values):
        return True
    return is_frame(table) and some_missing and all(map(is_missing, values))


def has_categories(dtype: Any) -> bool:
    """Return whether a pandas dtype is categorical: pandas' own, or a dictionary of Arrow."""
    return hasattr(dtype, "categories") or str(getattr(dtype, "pyarrow_dtype", "")).startswith("dictionary")


def as_floats(column: Any) -> np.ndarray:
    """Return a column as numbers, NaN where a value is missing.

    Raises a TypeError or a ValueError if a value is neither a number nor a text that reads as one.
    """
    kind = kind_of(column.dtype)
    if kind in QUANTITIES:
        raise TypeError(f"dtype {column.dtype} is no number")
    if kind not in NUMBERS or has_categories(column.dtype):
        return floats_of(_values(column))
    return column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "to_numpy") else np.asarray(column)


def holds_only_numbers(table: Any) -> Bool[np.ndarray, " features"]:
    if is_frame(table):
        return np.array([kind_of(dtype) in NUMBERS for dtype in dtypes_of(table)], bool)
    return np.full(table.shape[1], table.dtype.kind in NUMBERS)


def refuse_quantities(table: Any, name: str) -> None:
    """Raise a TypeError if a column holds dates, times or time spans.

    Complex numbers raise it, too, except in a NumPy array of a complex dtype.
    """
    if not is_frame(table) and table.dtype.kind != "O":
        odd = [table.dtype] if table.dtype.kind in "mM" else []
    else:
        names = frame_names(table) if is_frame(table) else range(table.shape[1] if len(table.shape) == 2 else 0)
        odd = [which for j, which in enumerate(names) if _holds_quantities(column_of(table, j))]
    if odd:
        raise TypeError(
            f"{name}'s columns {odd[:5]} ({len(odd)} in all) hold dates, times or complex numbers. Dates: make them "
            "numbers, for instance days since the first one."
        )


def _holds_quantities(column: Any) -> bool:
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES + "U":
        return kind in QUANTITIES
    return "quantity" in kinds_of(_values(column))


def _are_bools(values: list[Any]) -> bool:
    return all(isinstance(value, bool | np.bool_) or is_missing(value) for value in values)


def _values(column: Any) -> list[Any]:
    return (column.to_numpy(object) if hasattr(column, "to_numpy") else np.asarray(column)).tolist()


class Frame:
    """A table of named columns, each a NumPy array (of objects if it does not hold numbers) or a pandas series.

    ``columns`` are the names, ``parts`` the arrays or series, each of ``n_rows`` values. Indexing with a slice or a
    list of positions selects rows, as with an array.
    """

    __slots__ = ("categorical", "columns", "parts", "shape")

    def __init__(
        self, columns: Iterable[Any], parts: Iterable[Any], n_rows: int, categorical: Iterable[str | None] = ()
    ):
        self.columns: tuple[str, ...] = tuple(map(str, columns))
        self.parts: tuple[Any, ...] = tuple(parts)
        self.categorical: tuple[str | None, ...] = tuple(categorical) or (None,) * len(self.parts)
        """For a column that was categorical in the caller's data "codes", if the categories were 0, 1, 2, …, or
        "values"; else None. A categorical column is nominal, even if it holds numbers."""
        self.shape: tuple[int, int] = (n_rows, len(self.parts))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "Frame":
        rows = np.arange(len(self))[rows]
        parts = [part.iloc[rows] if hasattr(part, "iloc") else part[rows] for part in self.parts]
        return Frame(self.columns, parts, len(rows), self.categorical)

    def __repr__(self) -> str:
        return f"Frame(shape={self.shape}, columns={self.columns[:5]})"


def is_pandas(data: Any) -> bool:
    """Return whether data are a pandas frame, or a frame with its interface that is in memory (not Dask's)."""
    of_type = type(data)  # columns of a frame are attributes of the frame, too
    return hasattr(of_type, "iloc") and hasattr(of_type, "columns") and not hasattr(of_type, "compute")


def _is_series(data: Any) -> bool:
    return hasattr(type(data), "iloc") and not hasattr(type(data), "columns")


def is_frame(data: Any) -> bool:
    return isinstance(data, Frame) or is_pandas(data)


def as_frame(data: Any, name: str = "X") -> Any:
    """Return a frame of any library as a pandas frame or a `Frame`; None if the data are not a frame.

    Raises a TypeError for a lazy frame, and a ValueError if two columns have one name.
    """
    if is_frame(data):
        return data
    if isinstance(data, Mapping):
        return _frame_of_columns(data, name)
    if isinstance(data, np.ndarray):
        return None if data.dtype.names is None else _frame_of_columns({n: data[n] for n in data.dtype.names}, name)
    if isinstance(data, list | tuple) or not _may_be_frame(data):
        return None
    import narwhals as nw  # slow to import, and not needed for arrays

    try:
        frame = nw.from_native(data, pass_through=True)
        if frame is data and (frame := _frame_of_arrow(data, name)) is None:
            return None
    except nw.exceptions.DuplicateError:
        check_distinct_names(getattr(data, "column_names", ()), name)
        raise
    if not isinstance(frame, nw.DataFrame):
        how = "collect" if hasattr(type(data), "collect") else "compute"
        raise TypeError(f"{name} is a {type(data).__name__}, whose rows are yet to come; pass {name}.{how}().")
    if is_pandas(native := nw.to_native(frame)):
        return native
    all_series = [frame.get_column(column) for column in frame.columns]
    return Frame(frame.columns, map(_array_of_series, all_series), len(frame), map(kind_of_categories, all_series))


def as_column(data: Any, what: str) -> Any:
    """Return a column of any library as a NumPy array or a pandas series; masked values become missing values.

    Raises a ValueError if it has more or fewer than one axis. ``what`` names the column in messages.
    """
    if _is_series(data):
        column = data
    else:
        series = as_narwhals(data)
        column = plain_array(data, what) if series is None else _array_of_series(series)
    if np.ndim(column) != 1:
        raise ValueError(f"{what} has shape {np.shape(column)}; pass one value for each row.")
    return column


def plain_array(data: Any, name: str) -> np.ndarray:
    """Return an array or lists as a NumPy array of plain values.

    Masked values become missing values, bytes become strings, and narrow floats such as bfloat16 become float32.
    """
    array = data if isinstance(data, np.ndarray) else _array_of_lists(data, name)
    if isinstance(array, np.ma.MaskedArray):
        array = _fill_masked(array)
    kind = array.dtype.kind
    if kind in "SUT":
        if kind == "S":
            array = np.array([_decode(cell, name) for cell in array.ravel().tolist()], object).reshape(array.shape)
        return array if kind == "U" and isinstance(data, np.ndarray) else array.astype(object)
    if kind == "V" and array.dtype.names is None and array.dtype.itemsize <= 2:
        try:
            return array.astype(np.float32)
        except (TypeError, ValueError):
            return array
    return array


def _array_of_lists(data: Any, name: str) -> np.ndarray:
    """Return lists as a NumPy array, an array of objects if they hold texts.

    Raises a ValueError for rows of several lengths, and for a JAX array that was deleted.
    """
    check_readable(name, data)
    try:
        array = np.asarray(data)
        # As objects: NumPy would turn numbers among texts into texts.
        return np.asarray(data, dtype=object) if array.dtype.kind in "US" and not hasattr(data, "dtype") else array
    except ValueError as error:
        raise ValueError(f"{name} has rows of several lengths: {error}") from error


def _fill_masked(array: np.ma.MaskedArray) -> np.ndarray:
    """Return a plain array, with a missing value for each masked entry: NaN, NaT or, among objects, None.

    Integers that floats would round become objects.
    """
    mask = np.ma.getmaskarray(array)
    if not mask.any():
        return array.data
    numbers = np.where(mask, np.nan, array.data.astype(np.float64)) if array.dtype.kind in "iub" else None
    if numbers is not None and not are_rounded(numbers):
        return numbers
    if array.dtype.kind == "f":
        return np.where(mask, array.dtype.type(np.nan), array.data)
    if array.dtype.kind in "mM":  # not as objects, which may be bare integers
        return np.where(mask, np.array("NaT", array.dtype), array.data)
    filled = array.data.astype(object)
    filled[mask] = None
    return filled


def are_rounded(numbers: np.ndarray) -> bool:
    """Return whether numbers, which were integers, are floats of a size at which neighbours share one."""
    return numbers.dtype.kind == "f" and bool(np.any(np.abs(numbers) >= 2**53))


def _decode(cell: bytes, name: str) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise TypeError(f"{name} holds {cell!r:.60}, which is no UTF-8 text; decode it first.") from error


def _frame_of_columns(columns: Mapping[Any, Any], name: str) -> Frame:
    """Return a dictionary of columns as a `Frame`; raise a ValueError if lengths differ or two names read alike."""
    parts = [as_column(column, f"{name}[{key!r}]") for key, column in columns.items()]
    lengths = {str(key): len(part) for key, part in zip(columns, parts, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} is a dictionary of columns of several lengths: {dict(list(lengths.items())[:5])}.")
    check_distinct_names(lengths if len(lengths) == len(parts) else list(map(str, columns)), name)
    categorical = map(kind_of_categories, map(as_narwhals, columns.values()))
    return Frame(columns, parts, next(iter(lengths.values()), 0), categorical)


def check_distinct_names(names: Iterable[str], name: str) -> None:
    seen: set[str] = set()
    twice = [column for column in names if column in seen or seen.add(column)]  # ``add`` returns None
    if twice:
        raise ValueError(f"{name} has several columns of the name {twice[0]!r}; give each its own.")


def _may_be_frame(data: Any) -> bool:
    """Return whether the type of data has some member of a frame; if not, the slow import of narwhals is saved."""
    names = ("columns", "column_names", "__narwhals_dataframe__", "__dataframe__")
    return any(hasattr(type(data), member) for member in (*names, "__arrow_c_stream__", "__arrow_c_array__"))


def may_be_series(data: Any) -> bool:
    """Return whether data have some member of a column that narwhals reads, and are not a pandas series."""
    members = ("to_list", "to_pylist", "__narwhals_series__")
    return not _is_series(data) and any(hasattr(type(data), member) for member in members)


def as_narwhals(data: Any) -> Any:
    """Return a column that narwhals reads, and pandas' own is not, as a series of narwhals; None for other data."""
    if isinstance(data, np.ndarray | list | tuple) or not may_be_series(data):
        return None
    import narwhals as nw

    if hasattr(data, "dictionary_encode") and not hasattr(data, "chunks"):
        import pyarrow as pa

        data = pa.chunked_array([data])  # narwhals reads no plain array of Arrow
    series = nw.from_native(data, allow_series=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def _frame_of_arrow(data: Any, name: str) -> Any:
    """Return data that have Arrow's C stream or array protocol, or ``__dataframe__``, as a frame of narwhals.

    Return None for data without these, and for data that are not a table, such as one column. Raises a TypeError if
    pyarrow is not installed.
    """
    import narwhals as nw

    try:
        import pyarrow as pa

        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            table = pa.table(data) if hasattr(data, "__arrow_c_stream__") else pa.table(pa.record_batch(data))
        elif hasattr(data, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            table = from_dataframe(data)
        else:
            return None
    except ImportError as error:
        raise TypeError(
            f"{name} is a {type(data).__name__}, which is read by the package pyarrow: pip install pyarrow. Or pass a "
            "frame of pandas or Polars, or an array."
        ) from error
    except (TypeError, ValueError, RuntimeError):
        return None
    return nw.from_native(table)


def _is_categorical(series: Any) -> bool:
    import narwhals as nw

    return series.dtype in (nw.Categorical, nw.Enum)


def kind_of_categories(series: Any) -> str | None:
    """Return "codes" for a narwhals column of the categories 0, 1, 2, …, "values" for others; None without any."""
    if series is None or not _is_categorical(series):
        return None
    native = series.to_native()
    # Of Arrow's column the dictionaries of its chunks tell; the categories of Polars are words.
    parts = [chunk.dictionary for chunk in native.chunks] if hasattr(native, "chunks") else [series.unique().to_numpy()]
    values = [value for part in parts for value in part.tolist() if not is_missing(value)]
    are_codes = kinds_of(values) <= {"number", "bool"} and set(values) == set(range(len(set(values))))
    return "codes" if are_codes else "values"


def _array_of_series(series: Any) -> Any:
    """Return a narwhals column as an array of numbers or of Python objects, such as large integers with gaps.

    Nanosecond times stay NumPy's, or a pandas series if they have a time zone. A categorical column becomes an array of
    numbers if its categories are numbers.
    """
    dtype = series.dtype
    # NumPy has no integers of 128 bits.
    if dtype.is_float() or (dtype.is_integer() and "128" not in str(dtype)):
        numbers = series.to_numpy()
        if dtype.is_float() or not are_rounded(numbers):
            return numbers
        objects = series.fill_null(0).to_numpy().astype(object)
        objects[series.is_null().to_numpy()] = None
        return objects
    if getattr(dtype, "time_unit", "us") == "ns":
        return _array_of_nanoseconds(series)
    values = series.to_list()
    if kinds_of(values) == {"bool"} or (_is_categorical(series) and kinds_of(values) <= {"number", "missing"}):
        # Categories that are numbers are read as numbers are, whatever holds them.
        numbers = np.array(values, float if None in values else None)  # None becomes NaN
        if float in set(map(type, values)) or not are_rounded(numbers):
            return numbers
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def _array_of_nanoseconds(series: Any) -> Any:
    """Return nanosecond times or time spans as a NumPy array, or as a pandas series if they have a time zone.

    Python's own types would cut the nanoseconds off.
    """
    if (zone := getattr(series.dtype, "time_zone", None)) is None:
        return series.to_numpy()
    import pandas as pd

    naive = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
    return pd.Series(naive).dt.tz_localize("UTC").dt.tz_convert(zone)


def as_labels(y: LabelsLike, name: str = "y") -> Any:
    """Return labels as an array (a pandas series for Polars' or Arrow's nanosecond times with a time zone).

    Masked labels become missing values. Raises a ValueError for a JAX array that was deleted.
    """
    if isinstance(y, jax.Array):
        check_readable(name, y)
    if isinstance(y, np.ma.MaskedArray):
        return plain_array(y, name)  # of any shape; `np.asarray` would return the values under the mask
    return as_column(y, name) if may_be_series(y) and np.ndim(y) == 1 else np.asarray(y)


def training_labels(y: LabelsLike, n: int, name: str = "y") -> tuple[tuple[Any, ...], Int[np.ndarray, " instances"]]:
    """Return the sorted distinct labels as classes, and the class position of each of the n labels.

    Raises a ValueError if y does not hold n labels, one is NaN or infinite, or all are of one class. Labels that cannot
    be sorted raise what `distinct_labels` raises.
    """
    labels = as_labels(y, name)
    if labels.shape != (n,):
        raise ValueError(f"{name} has shape {labels.shape}; pass one label per instance, shape ({n},).")
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ValueError(f"{name} holds NaN or infinite labels; every instance needs one.")
    classes, label = distinct_labels(labels)
    if len(classes) < 2:
        raise ValueError(f"{name} holds one class only ({classes.tolist()[0]!r}); trees tell two or more apart.")
    return tuple(classes.tolist()), label


def class_positions(class_labels: tuple[Any, ...], y: LabelsLike) -> Int[np.ndarray, " instances"]:
    """Return the position of each label among the classes.

    Raises a ValueError if a label is not a class, and for labels that cannot be sorted as `distinct_labels` does.
    """
    labels = as_labels(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; pass one label per instance, shape (instances,).")
    position = {label: i for i, label in enumerate(class_labels)}
    distinct, inverse = distinct_labels(labels)
    unknown = [label for label in distinct.tolist() if label not in position]
    if unknown:
        raise ValueError(
            f"y holds labels that the forest does not know: {unknown[:5]}; its classes are {list(class_labels)[:10]}."
        )
    return np.array([position[label] for label in distinct.tolist()], dtype=np.int64)[inverse]

"""Reading of a caller's data of any type as one of three: a pandas frame, a `Frame`, or an array.

pandas' own frames stay as they are. Polars, Arrow and all else that narwhals knows, dictionaries of columns and
structured arrays become a `Frame`; lists become arrays. Arguments ``name`` are the data's name in messages.
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
    """Return dense data of any type as a pandas frame, a `Frame` or an array; raise a TypeError for sparse data.

    A list that holds strings becomes an array of objects. ``name`` is the data's name in messages.
    """
    if is_sparse(data):
        raise dense_alone(name)
    return plain_table(data, name)


def plain_table(data: Any, name: str = "X") -> Any:
    """Return dense data of any type as a pandas frame, a `Frame` or an array; ``name`` is their name in messages.

    JAX arrays stay JAX arrays, and floats that NumPy lacks, such as bfloat16, become float32. A pandas series is
    returned unchanged. Raises a ValueError for a JAX array that was deleted.
    """
    if type(data) is np.ndarray and data.dtype.kind in NUMBERS:
        return data  # the quickest test comes first: a server makes it for every row
    if isinstance(data, jax.Array):
        check_readable(name, data)
        # Such floats have NumPy's kind "V"; JAX's extended dtypes, such as that of random keys, are no floats.
        is_narrow = data.dtype.kind == "V" and not jnp.issubdtype(data.dtype, jax.dtypes.extended)
        return data.astype(jnp.float32) if is_narrow else data
    if _is_series(data):
        return data  # the caller refuses its shape
    frame = as_frame(data, name)
    return plain_array(data, name) if frame is None else frame


def is_sparse(data: Any) -> bool:
    """Return whether data are a sparse matrix of SciPy."""
    return hasattr(type(data), "tocsr")  # of the type, since columns of a frame of pandas are attributes, too


def dense_alone(name: str) -> TypeError:
    """Return the TypeError for a sparse matrix where only dense data are taken; ``name`` is the data's name in it."""
    return TypeError(
        f"{name} is a sparse matrix, but this takes dense data alone; pass {name}.toarray(), in parts if large."
    )


def frame_names(frame: Any) -> tuple[str, ...]:
    """Return the names of a frame's columns as strings."""
    return tuple(map(str, frame.columns))


def column_of(table: Any, j: int) -> Any:
    """Return column ``j`` of a frame or an array: a pandas series or a NumPy array ``[instances]``."""
    if isinstance(table, Frame):
        return table.parts[j]
    return table.iloc[:, j] if is_pandas(table) else np.asarray(table)[:, j]


def kind_of(dtype: Any) -> str:
    """Return the letter for a dtype's kind, as NumPy's "f" for floats; "O" for a dtype that names no letter."""
    return getattr(dtype, "kind", "O")


def dtypes_of(frame: Any) -> list[Any]:
    """Return the dtype of each column of a pandas frame or a `Frame`."""
    return [part.dtype for part in frame.parts] if isinstance(frame, Frame) else list(frame.dtypes)


def holds_bools(frame: Any, j: int) -> bool:
    """Return whether column ``j`` of a frame holds bools, some of them perhaps missing, and is not nominal."""
    column = column_of(frame, j)
    if (kind := kind_of(column.dtype)) != "O" or is_named(frame, j):
        return kind == "b"
    values = _values(column)
    return _are_bools(values) and any(isinstance(value, bool | np.bool_) for value in values)


def is_named(table: Any, j: int) -> bool:
    """Return whether column ``j`` of a table is nominal by what it holds: categories, texts, or other objects.

    Objects that are numbers, bools, dates or times do not make a column nominal, with two exceptions. In a frame, a
    column of objects that are all missing is nominal. In a pandas frame, so is a column of objects that are bools, some
    of them missing: there a missing bool is a level.
    """
    column = column_of(table, j)
    if is_categorical(table, j, column.dtype):
        return True
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES:
        return False
    if kind in "US":
        return True
    cells = _values(column)
    kinds = kinds_of(cells)
    if kinds & {"word", "several", "quantity"}:
        return "quantity" not in kinds
    some_missing = any(map(is_missing, cells))
    if is_pandas(table) and some_missing and _are_bools(cells):
        return True
    return is_frame(table) and some_missing and all(map(is_missing, cells))


def is_categorical(table: Any, j: int, dtype: Any) -> bool:
    """Return whether column ``j`` of a table had categories in the caller's data; ``dtype`` is the column's."""
    return has_categories(dtype) or (isinstance(table, Frame) and table.categories_are_codes[j] is not None)


def has_categories(dtype: Any) -> bool:
    """Return whether a dtype of a pandas frame is of categories: pandas' own, or Arrow's dictionaries."""
    return hasattr(dtype, "categories") or str(getattr(dtype, "pyarrow_dtype", "")).startswith("dictionary")


def as_floats(column: Any) -> np.ndarray:
    """Return a column as a NumPy array of numbers ``[instances]``, NaN where a value is missing.

    Texts that read as numbers are converted. Raises a TypeError or a ValueError for any other value.
    """
    kind = kind_of(column.dtype)
    if kind in QUANTITIES:
        raise TypeError(f"dtype {column.dtype} is no number")
    if kind not in NUMBERS or has_categories(column.dtype):
        return floats_of(_values(column))
    return column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "to_numpy") else np.asarray(column)


def holds_only_numbers(table: Any) -> Bool[np.ndarray, " features"]:
    """Return whether the dtype of each column of a frame or an array is one of numbers or bools."""
    if is_frame(table):
        return np.array([kind_of(dtype) in NUMBERS for dtype in dtypes_of(table)], bool)
    return np.full(table.shape[1], table.dtype.kind in NUMBERS)


def refuse_quantities(table: Any, name: str) -> None:
    """Raise a TypeError, about a table called ``name``, if columns hold dates, times, time spans or complex numbers.

    A NumPy array of a complex dtype is not refused.
    """
    if is_frame(table):
        odd = [column for j, column in enumerate(frame_names(table)) if _holds_quantities(column_of(table, j))]
    elif table.dtype.kind == "O":
        n_columns = table.shape[1] if len(table.shape) == 2 else 0  # other shapes are refused elsewhere
        odd = [j for j in range(n_columns) if _holds_quantities(column_of(table, j))]
    else:
        odd = [table.dtype] if table.dtype.kind in "mM" else []
    if odd:
        raise TypeError(
            f"{name}'s columns {odd[:5]} ({len(odd)} in all) hold dates, times or complex numbers. Dates: make them "
            "numbers, for instance days since the first one."
        )


def _holds_quantities(column: Any) -> bool:
    """Return whether a column holds dates, times, time spans or complex numbers."""
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES + "U":
        return kind in QUANTITIES
    return "quantity" in kinds_of(_values(column))


def _are_bools(values: list[Any]) -> bool:
    """Return whether all values are bools or missing."""
    return all(isinstance(value, bool | np.bool_) or is_missing(value) for value in values)


def _values(column: Any) -> list[Any]:
    """Return a list of the values of a pandas series or a NumPy array, as Python's objects."""
    return (column.to_numpy(object) if hasattr(column, "to_numpy") else np.asarray(column)).tolist()


class Frame:
    """A table of columns with the names ``columns``; an index selects rows, as for an array.

    ``parts`` are the columns: NumPy arrays (of objects if they hold no numbers) or pandas series, of ``n_rows`` values.
    """

    __slots__ = ("categories_are_codes", "columns", "parts", "shape")

    def __init__(
        self,
        columns: Iterable[Any],
        parts: Iterable[Any],
        n_rows: int,
        categories_are_codes: Iterable[bool | None] = (),
    ):
        self.columns: tuple[str, ...] = tuple(map(str, columns))
        self.parts: tuple[Any, ...] = tuple(parts)
        self.categories_are_codes: tuple[bool | None, ...] = tuple(categories_are_codes) or (None,) * len(self.parts)
        """For each column whether the categories that it had in the caller's data are 0, 1, 2, …; None if it had none.

        A column with categories is nominal, even if it holds numbers.
        """
        self.shape: tuple[int, int] = (n_rows, len(self.parts))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "Frame":
        """Return a `Frame` of the rows that a slice, or an array or list of positions or bools, selects."""
        rows = np.arange(len(self))[rows]
        parts = [part.iloc[rows] if hasattr(part, "iloc") else part[rows] for part in self.parts]
        return Frame(self.columns, parts, len(rows), self.categories_are_codes)

    def __repr__(self) -> str:
        return f"Frame(shape={self.shape}, columns={self.columns[:5]})"


def is_pandas(data: Any) -> bool:
    """Return whether data are a pandas frame, or a frame with its interface whose rows are in memory, unlike Dask's."""
    cls = type(data)  # not the frame itself, which has its columns as attributes, whatever their names
    return hasattr(cls, "iloc") and hasattr(cls, "columns") and not hasattr(cls, "compute")


def _is_series(data: Any) -> bool:
    """Return whether data are a pandas series, or have its interface."""
    return hasattr(type(data), "iloc") and not hasattr(type(data), "columns")


def is_frame(data: Any) -> bool:
    """Return whether data are a `Frame` or a pandas frame."""
    return isinstance(data, Frame) or is_pandas(data)


def as_frame(data: Any, name: str = "X") -> Any:
    """Return a frame of any library, a dictionary of columns or a structured array as a pandas frame or a `Frame`.

    None for data of another kind. ``name`` is the data's name in messages. Raises a TypeError for a lazy frame, and a
    ValueError if two columns have one name.
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
        if frame is data:  # narwhals does not know its type
            frame = _frame_of_arrow(data, name)
        if frame is None:
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
    return Frame(frame.columns, map(_array_of_series, all_series), len(frame), map(categories_are_codes, all_series))


def as_column(data: Any, what: str) -> Any:
    """Return a column of any library as a NumPy array or a pandas series; masked values become missing values.

    Raises a ValueError, in which ``what`` is the column's name, unless it has one axis.
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
    """Return an array or nested lists as a NumPy array without masks, bytes and narrow floats.

    Masked values become missing values, bytes become strings, and floats that NumPy lacks, such as bfloat16, become
    float32. Texts among numbers in lists make an array of objects. ``name`` is the data's name in messages.
    """
    array = data if isinstance(data, np.ndarray) else _array_of_lists(data, name)
    if isinstance(array, np.ma.MaskedArray):
        array = _fill_masked(array)
    kind = array.dtype.kind
    if kind == "S":
        return np.array([_decode(cell, name) for cell in array.ravel().tolist()], object).reshape(array.shape)
    if kind in "UT":
        return array if kind == "U" and isinstance(data, np.ndarray) else array.astype(object)
    if kind == "V" and array.dtype.names is None and array.dtype.itemsize <= 2:  # such floats have 16 bits at most
        try:
            return array.astype(np.float32)
        except (TypeError, ValueError):
            return array
    return array


def _array_of_lists(data: Any, name: str) -> np.ndarray:
    """Return lists, or anything else that NumPy reads, as an array; of objects if lists hold texts.

    Raises a ValueError for rows of several lengths, and for a JAX array that was deleted.
    """
    check_readable(name, data)
    try:
        array = np.asarray(data)
        if array.dtype.kind in "US" and not hasattr(data, "dtype"):  # lists: NumPy made texts of numbers among texts
            return np.asarray(data, dtype=object)
        return array
    except ValueError as error:
        raise ValueError(f"{name} has rows of several lengths: {error}") from error


def _fill_masked(array: np.ma.MaskedArray) -> np.ndarray:
    """Return a masked array as a plain one, with NaN, NaT or (among objects) None for each masked entry.

    If an entry is masked, bools and integers become floats, and integers that floats would round become objects.
    """
    mask = np.ma.getmaskarray(array)
    if not mask.any():
        return array.data
    if array.dtype.kind in "iub":
        numbers = np.where(mask, np.nan, array.data.astype(np.float64))
        if not are_rounded(numbers):
            return numbers
    if array.dtype.kind == "f":
        return np.where(mask, array.dtype.type(np.nan), array.data)
    if array.dtype.kind in "mM":  # as objects, some of NumPy's times would be bare integers
        return np.where(mask, np.array("NaT", array.dtype), array.data)
    filled = array.data.astype(object)
    filled[mask] = None
    return filled


def are_rounded(numbers: np.ndarray) -> bool:
    """Return whether ``numbers``, an array made of integers, holds floats of 2⁵³ or more, which may be rounded."""
    return numbers.dtype.kind == "f" and bool(np.any(np.abs(numbers) >= 2**53))


def _decode(cell: bytes, name: str) -> str:
    """Return bytes as text; raise a TypeError, which calls the data ``name``, if they are not UTF-8."""
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise TypeError(f"{name} holds {cell!r:.60}, which is no UTF-8 text; decode it first.") from error


def _frame_of_columns(columns: Mapping[Any, Any], name: str) -> Frame:
    """Return {name: column} as a `Frame`; raise a ValueError if lengths differ, or two names are equal as strings."""
    parts = [as_column(column, f"{name}[{key!r}]") for key, column in columns.items()]
    lengths = {str(key): len(part) for key, part in zip(columns, parts, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} is a dictionary of columns of several lengths: {dict(list(lengths.items())[:5])}.")
    check_distinct_names(map(str, columns), name)  # keys 1 and "1" are distinct, but not as names
    are_codes = map(categories_are_codes, map(as_narwhals, columns.values()))
    n_rows = next(iter(lengths.values()), 0)
    return Frame(columns, parts, n_rows, are_codes)


def check_distinct_names(names: Iterable[str], name: str) -> None:
    """Raise a ValueError if two of the column names are equal; ``name`` is the data's name in the message."""
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise ValueError(f"{name} has several columns of the name {column!r}; give each its own.")
        seen.add(column)


def _may_be_frame(data: Any) -> bool:
    """Return whether the type of data has some member of a frame that narwhals or Arrow reads."""
    names = ("columns", "column_names", "__narwhals_dataframe__", "__dataframe__")
    return any(hasattr(type(data), member) for member in (*names, "__arrow_c_stream__", "__arrow_c_array__"))


def may_be_series(data: Any) -> bool:
    """Return whether the type of data has some member of a column that narwhals reads, and is not pandas' series."""
    members = ("to_list", "to_pylist", "__narwhals_series__")
    return not _is_series(data) and any(hasattr(type(data), member) for member in members)


def as_narwhals(data: Any) -> Any:
    """Return a column of Polars, Arrow or another library as narwhals' series; None for pandas and for other data."""
    if isinstance(data, np.ndarray | list | tuple) or not may_be_series(data):
        return None
    import narwhals as nw

    if hasattr(data, "dictionary_encode") and not hasattr(data, "chunks"):
        import pyarrow as pa

        data = pa.chunked_array([data])  # narwhals reads no plain array of Arrow
    series = nw.from_native(data, allow_series=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def _frame_of_arrow(data: Any, name: str) -> Any:
    """Return data that export themselves as an Arrow table, or by ``__dataframe__``, as a frame of narwhals.

    None for data that do neither, and for data that are no table, such as one column. Raises a TypeError if pyarrow is
    not installed.
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
    except (TypeError, ValueError, RuntimeError):  # what the data export is no table
        return None
    return nw.from_native(table)


def _is_categorical_series(series: Any) -> bool:
    """Return whether a narwhals column has categories."""
    import narwhals as nw

    return series.dtype in (nw.Categorical, nw.Enum)


def categories_are_codes(series: Any) -> bool | None:
    """Return whether the categories of a narwhals column are the codes 0, 1, 2, …; None if it has no categories."""
    if series is None or not _is_categorical_series(series):
        return None
    native = series.to_native()
    if hasattr(native, "chunks"):  # Arrow's: each chunk has a dictionary
        arrays = [chunk.dictionary for chunk in native.chunks]
    else:  # Polars': its categories are words
        arrays = [series.unique().to_numpy()]
    categories = [value for array in arrays for value in array.tolist() if not is_missing(value)]
    if not kinds_of(categories) <= {"number", "bool"}:
        return False
    distinct = set(categories)
    return distinct == set(range(len(distinct)))


def _array_of_series(series: Any) -> Any:
    """Return a narwhals column as a NumPy array of numbers, or of Python objects where numbers cannot hold its values.

    Objects are, for instance, texts, and large integers with missing values. Times to the nanosecond become NumPy's,
    or a pandas series if they have a time zone. Categories that are numbers become numbers.
    """
    dtype = series.dtype
    # NumPy has no integers of 128 bits.
    if dtype.is_float() or (dtype.is_integer() and "128" not in str(dtype)):
        numbers = series.to_numpy()  # integers become floats if some are missing
        if dtype.is_float() or not are_rounded(numbers):
            return numbers
        objects = series.fill_null(0).to_numpy().astype(object)
        objects[series.is_null().to_numpy()] = None
        return objects
    if getattr(dtype, "time_unit", "us") == "ns":
        return _array_of_nanoseconds(series)
    cells = series.to_list()
    kinds = kinds_of(cells)
    if kinds == {"bool"} or (_is_categorical_series(series) and kinds <= {"number", "missing"}):
        numbers = np.array(cells, float if None in cells else None)  # None becomes NaN
        were_floats = float in set(map(type, cells))  # not rounded here, however large they are
        if were_floats or not are_rounded(numbers):
            return numbers
    objects = np.empty(len(cells), object)  # filled in place: NumPy would make further axes of cells that are lists
    objects[:] = cells
    return objects


def _array_of_nanoseconds(series: Any) -> Any:
    """Return a narwhals column of times or time spans to the nanosecond as a NumPy array.

    Times with a time zone, which NumPy lacks, become a pandas series. Python's own types would lose the nanoseconds.
    """
    if (zone := getattr(series.dtype, "time_zone", None)) is None:
        return series.to_numpy()
    import pandas as pd

    naive = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
    return pd.Series(naive).dt.tz_localize("UTC").dt.tz_convert(zone)


def as_labels(y: LabelsLike, name: str = "y") -> Any:
    """Return labels as a NumPy array; masked labels become missing values.

    Times to the nanosecond with a time zone, of Polars or Arrow, become a pandas series. Raises a ValueError for a JAX
    array that was deleted.
    """
    if isinstance(y, jax.Array):
        check_readable(name, y)
    if isinstance(y, np.ma.MaskedArray):
        return plain_array(y, name)  # of any shape; `np.asarray` would return the values under the mask
    return as_column(y, name) if may_be_series(y) and np.ndim(y) == 1 else np.asarray(y)


def training_labels(y: LabelsLike, n: int, name: str = "y") -> tuple[tuple[Any, ...], Int[np.ndarray, " instances"]]:
    """Return the distinct labels in ``y``, sorted, and the position of each instance's label among them.

    Raises a ValueError if ``y``, which messages call ``name``, does not hold ``n`` labels, one is NaN or infinite, or
    all are equal; for labels that cannot be sorted, the errors of `distinct_labels`.
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
    """Return the position of each label in ``y`` among ``class_labels``, the labels of a forest's classes.

    Raises a ValueError if a label is not among these, and the errors of `distinct_labels` if they cannot be sorted.
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

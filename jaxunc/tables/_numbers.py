"""Numbers of frames, arrays and sparse matrices, with codes in the columns that have levels or cuts.

A sparse matrix (`SparseRows`) becomes dense a part of its rows at a time, and only in the columns that trees test.
Arguments ``name`` are the data's name in messages.
"""

from typing import Any

import numpy as np
from jaxtyping import Float32, Int

from ._columns import Columns, CutLookup
from ._frames import (
    NUMBERS,
    Frame,
    as_floats,
    as_narwhals,
    categories_are_codes,
    column_of,
    dtypes_of,
    frame_names,
    is_categorical,
    is_frame,
    is_named,
    kind_of,
)
from ._levels import Lookup


def numbers_of_frame(frame: Any, columns: Columns, name: str) -> np.ndarray:
    """Return a frame as an array ``[rows columns]``, with codes in columns that have levels or cuts.

    It is of float32 if there are such columns, else of float64. ``name`` is the frame's name in messages.
    """
    # Positions of the columns that hold numbers; the others have levels.
    numeric = [j for j, lookup in enumerate(columns.lookups) if not isinstance(lookup, Lookup)]
    if columns.nominal is not None:  # nominal columns whose levels the model does not know must hold codes
        _check_codes(frame, [j for j in numeric if columns.nominal[j] and columns.lookups[j] is None], name)
    numbers = _plain_numbers(frame, numeric, name)  # all at once: pandas takes long for each selection
    if not any(columns.lookups):
        return numbers
    parts: list[Any] = [None] * columns.number
    for i, j in enumerate(numeric):
        lookup = columns.lookups[j]
        parts[j] = lookup.codes(numbers[:, i]) if isinstance(lookup, CutLookup) else numbers[:, i]
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, Lookup):
            parts[j] = lookup.codes(column_of(frame, j))
    return rows_of_columns(parts, len(frame))


CACHED_ROWS = 2048  # number of rows that are copied at a time: they stay in the cache, which is three times as fast


def rows_of_columns(parts: list[Any], n: int) -> Float32[np.ndarray, "instances features"]:
    """Return an array with ``parts`` as columns, each of which is an array of ``n`` numbers."""
    values = np.empty((n, len(parts)), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, n, CACHED_ROWS):
            block = values[start : start + CACHED_ROWS]
            for j, column in enumerate(parts):
                piece = column[start : start + CACHED_ROWS]
                # By way of float64, which rounds large integers twice, as frames without codes are converted.
                block[:, j] = piece.astype(np.float64) if piece.dtype.kind in "iu" else piece
    return values


def _check_codes(frame: Any, positions: list[int], name: str) -> None:
    """Raise a TypeError if a column of a frame at ``positions`` has categories other than the codes 0, 1, 2, …"""
    dtypes = dtypes_of(frame) if positions else []
    names = frame_names(frame)
    categorical = [j for j in positions if is_categorical(frame, j, dtypes[j])]
    if odd := [names[j] for j in categorical if not _holds_codes(frame, j)]:
        raise error_of_categories(odd, name)


def error_of_categories(odd: list[str], name: str) -> TypeError:
    """Return the error for the columns with the names ``odd``, which hold categories where codes are expected."""
    return TypeError(
        f"{name}'s columns {odd[:5]} ({len(odd)} in all) are categories, and the model knows the codes of its "
        "categories alone, not their values. Pass the codes that training had, as numbers. pandas: "
        "frame[column].cat.codes, with the categories in the order of training, and NaN in the place of -1. An Arrow "
        "dictionary whose values are these codes: column.cast(pyarrow.int64())."
    )


def _holds_codes(frame: Any, j: int) -> bool:
    """Return whether the categories of a frame's categorical column ``j`` are the codes 0, 1, 2, …"""
    if isinstance(frame, Frame) and (are_codes := frame.categories_are_codes[j]) is not None:
        return are_codes
    column = column_of(frame, j)
    if (categories := getattr(column.dtype, "categories", None)) is not None:
        return list(categories) == list(range(len(categories)))
    return bool(categories_are_codes(as_narwhals(column.array.__arrow_array__())))  # a pandas series of Arrow's type


def _plain_numbers(frame: Any, positions: list[int], name: str) -> np.ndarray:
    """Return the columns of a frame at ``positions`` as float64 ``[rows positions]``, NaN for missing values.

    Raises a TypeError for columns that hold no numbers.
    """
    if not isinstance(frame, Frame):
        selection = frame if len(positions) == frame.shape[1] else frame.iloc[:, positions]
        if all(kind_of(dtype) in NUMBERS for dtype in dtypes_of(selection)):
            return selection.to_numpy(dtype=np.float64, na_value=np.nan)
    names = frame_names(frame)
    return _convert(frame, positions, [names[j] for j in positions], name)


def numbers_of_array(array: np.ndarray, columns: Columns, name: str) -> np.ndarray:
    """Return an array ``[rows columns]`` of numbers or objects as float32, with codes in columns with levels or cuts.

    ``name`` is the array's name in messages. Raises a TypeError for columns that hold no numbers and have no levels. An
    array of numbers raises it, too, if it has a number in a column whose levels are words.
    """
    if array.dtype.kind in NUMBERS:
        return _codes_of_numbers(array, columns, name)
    numeric = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    values = np.empty(array.shape, np.float32)
    with np.errstate(over="ignore"):
        values[:, numeric] = _convert(array, numeric, numeric, name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            values[:, j] = lookup.codes(_convert(array, [j], [j], name)[:, 0])
        elif isinstance(lookup, Lookup):
            values[:, j] = lookup.codes(array[:, j])
    return values


def _codes_of_numbers(array: np.ndarray, columns: Columns, name: str) -> np.ndarray:
    """Return an array of numbers as float32, with codes in columns with levels or cuts, as `numbers_of_array` does."""
    _check_may_be_numbers(array, columns, name)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, Lookup):
            values[:, j] = lookup.codes(array[:, j])
    cut_lookups = [(j, lookup) for j, lookup in enumerate(columns.lookups) if isinstance(lookup, CutLookup)]
    for start in range(0, len(array), CACHED_ROWS):  # rows that stay in the cache while each column is read
        block = slice(start, start + CACHED_ROWS)
        for j, lookup in cut_lookups:
            values[block, j] = lookup.codes(array[block, j].astype(np.float64))
    return values


def _check_may_be_numbers(array: np.ndarray, columns: Columns, name: str) -> None:
    """Raise a TypeError if a column of an array of numbers holds a number, and its levels are words."""
    for j, lookup in enumerate(columns.lookups):
        if lookup is not None and not lookup.may_be_numbers and not np.all(np.isnan(array[:, j])):
            raise error_of_words(columns, j, name)


def error_of_words(columns: Columns, j: int, name: str) -> TypeError:
    """Return the error for numbers in column ``j``, whose levels are words."""
    which = repr(columns.names[j]) if columns.names else j
    return TypeError(
        f"{name} is an array of numbers, but the levels of column {which} are words. Pass a frame or an array of "
        "objects with the values; or, if these are codes already, columns without levels: columns.of_codes()."
    )


def array_of(table: Any, name: str) -> np.ndarray:
    """Return a frame or an array of objects as an array ``[rows columns]``: of objects if a column is nominal.

    Without a nominal column it is of float64, and columns of dates or times raise a TypeError.
    """
    positions = list(range(table.shape[1]))
    if any(is_named(table, j) for j in positions):
        values = np.empty(table.shape, object)
        for j in positions:
            values[:, j] = column_of(table, j)
        return values
    names = list(frame_names(table)) if is_frame(table) else positions
    return _convert(table, positions, names, name)


def plain_pandas(frame: Any) -> Any:
    """Return a pandas frame with NumPy's types in all columns of numbers; nominal columns are unchanged.

    Columns of objects and of Arrow's types are converted, and so are numbers in another byte order than this machine's,
    which XGBoost would misread.
    """
    odd = [j for j, dtype in enumerate(frame.dtypes) if not _is_plain(dtype) and not is_named(frame, j)]
    if odd:
        frame = frame.copy()
        for j in odd:
            column = column_of(frame, j)
            # Arrow's integers and bools without gaps keep their type, as codes of categories have to be integers.
            keeps_type = hasattr(column.dtype, "pyarrow_dtype") and column.dtype.kind in "iub" and not column.hasnans
            frame.isetitem(j, column.to_numpy(column.dtype.numpy_dtype) if keeps_type else as_floats(column))
    return frame


def _is_plain(dtype: Any) -> bool:
    """Return whether every library reads a column of a dtype as numbers: in this machine's order, not Arrow's."""
    return kind_of(dtype) in NUMBERS and getattr(dtype, "isnative", True) and not hasattr(dtype, "pyarrow_dtype")


def _convert(table: Any, positions: list[int], names: list, name: str) -> np.ndarray:
    """Return the columns of a table at ``positions`` as float64, ``[rows positions]``.

    Raises a TypeError if some hold no numbers, with their names: ``names`` has one for each of the positions.
    """
    numbers = np.empty((table.shape[0], len(positions)), np.float64)
    odd = []
    cause = None
    for i, j in enumerate(positions):
        try:
            numbers[:, i] = as_floats(column_of(table, j))
        except (TypeError, ValueError) as error:  # all columns are tried, so that the message can name them
            odd.append(names[i])
            cause = error
    if odd:
        raise TypeError(
            f"{name}'s columns {odd[:5]} ({len(odd)} in all) hold no numbers; encode them as the forest's data "
            "were, or name them in nominal when trees are grown. Dates: make them numbers, for instance days since the "
            "first one."
        ) from cause
    return numbers


class SparseRows:
    """The checked rows of a sparse matrix, as `encode_rows` returns them; ``numpy.asarray`` makes them dense.

    ``indptr``, ``indices`` and ``data`` are the arrays of a CSR matrix. An entry that is not stored is 0, or a missing
    value if ``columns.absent_is_missing``; a stored NaN is a missing value. A slice shares the memory.
    """

    __slots__ = ("_data", "_indices", "_indptr", "_kept", "_position", "columns")

    def __init__(self, indptr: Any, indices: Any, data: Any, columns: Columns):
        self._indptr, self._indices, self._data = indptr, indices, data
        self.columns: Columns = columns
        self._kept: np.ndarray | None = None
        """Positions in the matrix of the columns that are kept; None for all."""
        self._position: np.ndarray | None = None
        """Position among the kept columns of each column of the matrix, -1 if it is not kept; None for all."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.columns.number

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return len(self._indptr) - 1

    def __getitem__(self, rows: slice | np.ndarray) -> "SparseRows":
        """Return the rows that a slice, an array of positions, or an array of bools selects."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._with(self._indptr[start : max(start, stop) + 1], self._indices, self._data)
            rows = np.arange(start, stop, step)
        rows = np.arange(len(self))[rows]
        n_entries = np.diff(self._indptr)[rows]  # of each row
        starts = self._indptr[:-1][rows]
        indptr = np.concatenate([[0], np.cumsum(n_entries)])
        # The position in this matrix of each entry: its new position, moved by its row's start here less that there.
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], n_entries)
        return self._with(indptr, self._indices[entries], self._data[entries])

    def of(self, kept: Int[np.ndarray, " kept"] | None, columns: Columns) -> "SparseRows":
        """Return the same rows with the columns at the positions ``kept`` alone, whose `Columns` are ``columns``.

        None keeps all columns.
        """
        if kept is None:
            return self
        rows = self._with(self._indptr, self._indices, self._data)
        rows._kept = kept if self._kept is None else self._kept[kept]
        n_columns = self.columns.number if self._position is None else len(self._position)  # of the matrix
        rows._position = np.full(n_columns, -1, np.int32)
        rows._position[rows._kept] = np.arange(len(kept))
        rows.columns = columns
        return rows

    def dense(self) -> Float32[np.ndarray, "instances features"]:
        """Return the rows as a dense array, with codes in columns that have levels or cuts."""
        start, stop = int(self._indptr[0]), int(self._indptr[-1])
        # Column, value and row of each stored entry.
        column = self._indices[start:stop]
        value = self._data[start:stop]
        row = np.repeat(np.arange(len(self)), np.diff(self._indptr))
        if self._position is not None:
            column = self._position[column]
            kept_entries = np.flatnonzero(column >= 0)
            row = row[kept_entries]
            column = column[kept_entries]
            value = value[kept_entries]
        if self.columns.absent_is_missing:
            values = np.full(self.shape, np.nan, np.result_type(value, np.float32))
        else:
            values = np.zeros(self.shape, value.dtype)
        values.reshape(-1)[row * self.shape[1] + column] = value  # at positions in the flat array
        return numbers_of_array(values, self.columns, "X") if self.columns.looks_up else values

    def matrix(self) -> Any:
        """Return the rows with all columns, without codes, as SciPy's CSR matrix of float32."""
        from scipy.sparse import csr_matrix  # slow to import, and rarely needed

        start, stop = int(self._indptr[0]), int(self._indptr[-1])
        index_type = np.int32 if stop - start < 2**31 else np.int64  # scikit-learn's trees ask for 32 bits
        data = self._data[start:stop].astype(np.float32)
        indices = self._indices[start:stop].astype(index_type)
        indptr = (self._indptr - start).astype(index_type)
        return csr_matrix((data, indices, indptr), shape=self.shape)

    def _with(self, indptr: Any, indices: Any, data: Any) -> "SparseRows":
        """Return `SparseRows` of other rows: with these arrays of a CSR matrix, and with the same columns."""
        rows = object.__new__(SparseRows)
        rows._indptr, rows._indices, rows._data = indptr, indices, data
        rows.columns, rows._kept, rows._position = self.columns, self._kept, self._position
        return rows

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        values = self.dense()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"SparseRows(shape={self.shape}, stored={int(self._indptr[-1] - self._indptr[0])})"


def as_csr(data: Any, name: str = "X", *, for_sklearn: bool = False) -> Any:
    """Return a sparse matrix as SciPy's CSR matrix, with the entries of a row sorted by column, each column once.

    Values of entries in the same place are summed, in a copy. With ``for_sklearn`` indices have 32 bits if these are
    enough. Raises a ValueError unless the matrix has two axes, a TypeError unless it holds numbers.
    """
    if len(data.shape) != 2:
        raise ValueError(f"{name} has shape {data.shape}; expected (instances, features).")
    if np.dtype(data.dtype).kind not in NUMBERS:
        raise TypeError(f"{name} has dtype {data.dtype}; pass numbers; encode text columns as in training.")
    csr = data.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is data else csr
        csr.sum_duplicates()
    if for_sklearn and csr.indices.dtype != np.int32 and max(csr.nnz, *csr.shape) < 2**31:
        arrays = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
        csr = type(csr)(arrays, shape=csr.shape)
    return csr


def rows_of(csr: Any, columns: Columns, name: str, *, infinite: bool) -> tuple[SparseRows, bool]:
    """Return a CSR matrix, a result of `as_csr`, as `SparseRows`, and whether some value may be missing.

    Raises a ValueError for infinite values unless ``infinite``, and a TypeError for numbers in a column whose levels
    are words.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = csr.data.astype(np.float32, copy=False)
        rows = SparseRows(csr.indptr, csr.indices, csr.data if columns.looks_up else narrow, columns)
        _check_levels_are_numbers(rows, name)
        if np.isfinite(narrow.sum()):
            return rows, columns.absent_is_missing
    if not infinite:
        beyond = np.isinf(narrow)
        if columns.looks_up:
            # An infinite number is looked up among levels or cuts like any other.
            beyond &= np.array([lookup is None for lookup in columns.lookups])[csr.indices]
        if beyond.any():
            entry = int(np.argmax(beyond))  # the first
            row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
            raise error_of_infinite(f"{name}[{row}, {csr.indices[entry]}]")
    return rows, columns.absent_is_missing or bool(np.isnan(narrow).any())


def error_of_infinite(where: str) -> ValueError:
    """Return the error for an infinite value of an array or sparse matrix; ``where`` says which, as "X[3, 0]"."""
    return ValueError(
        f"{where} is infinite or too large for float32 (largest 3.4e38), which scikit-learn refuses too. Clip it, or "
        "make it NaN if it stands for a missing value."
    )


def _check_levels_are_numbers(rows: SparseRows, name: str) -> None:
    """Raise a TypeError if a column of sparse rows holds a number, perhaps a 0 not stored, and its levels are words."""
    if not rows.columns.looks_up:
        return
    for j, lookup in enumerate(rows.columns.lookups):
        if lookup is not None and not lookup.may_be_numbers:
            position = np.array([j])
            column = rows.of(position, rows.columns.at(position).of_codes()).dense()  # as it is stored, without codes
            if not np.all(np.isnan(column)):
                raise error_of_words(rows.columns, j, name)

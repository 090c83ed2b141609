"""Columns of words and categories as codes, for trees that test nominal features."""

from typing import Any, NamedTuple

import numpy as np

_UNSEEN = -1
_NUMBERS = "fiub"
_QUANTITIES = "mMc"
"""Kinds with a scale of their own, which are no names of anything: times, dates, complex numbers."""


class Levels(NamedTuple):
    """The values of a nominal column; their positions are its codes."""

    values: np.ndarray
    """In sorted order."""
    has_missing: bool
    """Whether missing values are a level of their own, the last one."""


Encoding = tuple[Levels | None, ...]
"""For each column its levels, or None if it holds numbers."""


def fit_encoding(X: Any, nominal: Any = "auto") -> Encoding:
    """Which columns of X are nominal, and their levels.

    Parameters
    ----------
    X
        A pandas frame, or an array ``[instances features]`` of numbers or objects.
    nominal
        ``"auto"``: in a frame every column that holds no numbers and no dates, in an array of objects every column with
        a text; None for no column; else names, positions or booleans of columns.

    Raises
    ------
    ValueError
        If ``nominal`` names no columns of X.
    """
    kinds = _kinds(X, nominal)
    return tuple(_levels(*_values(X, j)) if kinds[j] else None for j in range(X.shape[1]))


def nominal_columns(encoding: Encoding) -> np.ndarray:
    """Booleans ``[features]``."""
    return np.array([levels is not None for levels in encoding])


def encode(X: Any, encoding: Encoding) -> np.ndarray:
    """Float32 ``[instances features]``: codes of nominal values (-1 if unseen), NaN where a number is missing.

    Raises a ValueError or TypeError if a column of numbers holds something else (dates among it).
    """
    codes = np.empty(X.shape, np.float32)
    for j, levels in enumerate(encoding):
        codes[:, j] = _numbers(X, j) if levels is None else _codes(*_values(X, j), levels)
    return codes


def _kinds(X: Any, nominal: Any) -> np.ndarray:
    n_features = X.shape[1]
    kinds = np.zeros(n_features, bool)
    if nominal is None or (not isinstance(nominal, str) and len(nominal) == 0):
        return kinds
    if isinstance(nominal, str) and nominal == "auto":
        if hasattr(X, "dtypes"):
            return np.array([_kind(dtype) not in _NUMBERS + _QUANTITIES for dtype in X.dtypes])
        if X.dtype != object:
            return np.full(n_features, X.dtype.kind in "US")
        return np.array([any(isinstance(value, str) for value in column) for column in X.T])
    given, names = np.asarray(nominal), list(map(str, getattr(X, "columns", ())))
    if given.dtype == bool and given.shape == (n_features,):
        return given
    if given.ndim == 1 and given.dtype.kind in "iu" and np.all((given >= 0) & (given < n_features)):
        kinds[given] = True
        return kinds
    if given.ndim == 1 and given.dtype.kind in "UO" and set(map(str, given)) <= set(names):
        kinds[[names.index(str(name)) for name in given]] = True
        return kinds
    columns = f"the columns {', '.join(names[:8])}" if names else f"{n_features} columns without names"
    raise ValueError(
        f"nominal={nominal!r} does not fit X, which has {columns}; pass 'auto', None, or names, positions or one "
        "boolean for each column."
    )


def _kind(dtype: Any) -> str:
    return getattr(dtype, "kind", "O")


def _column(X: Any, j: int) -> np.ndarray:
    return np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j])


def _values(X: Any, j: int) -> tuple[np.ndarray, np.ndarray]:
    """A nominal column as numbers or words, which have an order, and where it is missing."""
    column = _column(X, j)
    if column.dtype.kind in _NUMBERS:
        return column, np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)
    missing = np.array([value is None or value != value or str(value) == "<NA>" for value in column], bool)
    return _words(column), missing


def _words(column: np.ndarray) -> np.ndarray:
    """Values of any kind as texts, 1.0 as 1: a column of objects is one of floats once a value is missing."""
    whole = (isinstance(value, float) and value.is_integer() for value in column.tolist())
    return np.array([str(int(value) if is_whole else value) for value, is_whole in zip(column, whole, strict=True)])


def _levels(values: np.ndarray, missing: np.ndarray) -> Levels:
    return Levels(np.unique(values[~missing]), bool(missing.any()))


def _codes(values: np.ndarray, missing: np.ndarray, levels: Levels) -> np.ndarray:
    known = levels.values
    if values.dtype.kind != known.dtype.kind and "U" in (values.dtype.kind, known.dtype.kind):
        values, known = _words(values), _words(known)
    codes = np.full(len(values), _UNSEEN)
    if len(known):
        order = np.argsort(known)  # of words another one than of numbers
        place = order[np.minimum(np.searchsorted(known, values, sorter=order), len(known) - 1)]
        codes = np.where(known[place] == values, place, _UNSEEN)
    return np.where(missing, len(known) if levels.has_missing else _UNSEEN, codes)


def _numbers(X: Any, j: int) -> np.ndarray:
    if not hasattr(X, "iloc"):
        column = X[:, j]
    elif _kind(X.dtypes.iloc[j]) in _QUANTITIES:
        raise TypeError(
            f"X's column {X.columns[j]!r} has dtype {X.dtypes.iloc[j]}; make it a number (for instance days since the "
            "first date), or name it in nominal if its values are mere names."
        )
    else:
        column = X.iloc[:, j].to_numpy(np.float64, na_value=np.nan)
    with np.errstate(over="ignore"):
        return np.asarray(column, np.float64).astype(np.float32)

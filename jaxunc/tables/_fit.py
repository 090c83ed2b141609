"""Detection of nominal columns in the data, and of their levels."""

from typing import Any

import numpy as np
from jaxtyping import Bool

from ._columns import Columns
from ._frames import check_distinct_names, is_frame
from ._levels import fit_levels
from ._table import as_table, column_of, frame_names, holds_bools, holds_only_numbers, is_named


def fit_columns(X: Any, nominal: Any = "auto", *, name: str = "X") -> Columns:
    """Find the nominal columns of X and their levels; in a frame also the names, and which columns hold bools.

    Parameters
    ----------
    X
        A frame of any kind, a dictionary of columns, or an array ``[instances features]`` of numbers, strings or
        objects.
    nominal
        ``"auto"``: every column that holds no numbers and no dates, whatever their type; None for no column; else
        names, positions or bools of columns.
    name
        What messages call X.

    Returns
    -------
    Columns
        Nominal columns with the levels of X: its values, sorted; missing ones are a level of their own, the last, if
        there are any.

    Raises
    ------
    TypeError
        If X is sparse, or a nominal column holds lists, or bytes that are no text.
    ValueError
        If X has not two axes, or a name twice, or ``nominal`` names no columns of X.

    Examples
    --------
    >>> import numpy as np, jaxunc as ju
    >>> X = np.array([[1.5, "red"], [2.5, "blue"], [0.5, None]], object)
    >>> columns = ju.tables.fit_columns(X)
    >>> columns.levels[1]
    Levels(values=('blue', 'red'), has_missing=True)
    >>> ju.tables.encode_instances(np.array([[3.5, "red"], [4.5, "green"]], object), columns)[0].tolist()
    [[3.5, 1.0], [4.5, -1.0]]
    """
    table = as_table(X, name)
    if len(table.shape) != 2:
        raise ValueError(f"{name} has shape {table.shape}; expected (instances, features).")
    number = table.shape[1]
    names = frame_names(table) if is_frame(table) else None
    check_distinct_names(names or (), name)
    kinds = _kinds(table, nominal, names or ())
    # Text files hold bools as words: these columns are read as bools there (`jaxunc.streaming`).
    boolean = tuple(holds_bools(table, j) for j in range(number)) if is_frame(table) else None
    if not kinds.any():
        return Columns(number, names, boolean=boolean)
    levels = []
    for j in range(number):
        try:
            levels.append(fit_levels(column_of(table, j)) if kinds[j] else None)
        except TypeError as error:
            raise TypeError(f"column {(names or range(number))[j]!r} of {name}: {error}") from error
    return Columns(number, names, tuple(kinds.tolist()), tuple(levels), boolean)


def holds_numbers(X: Any) -> Bool[np.ndarray, " features"]:
    """Return whether each column of a frame or an array has a type of numbers; raises as `fit_columns` does."""
    table = as_table(X, "X")
    if len(table.shape) != 2:
        raise ValueError(f"X has shape {table.shape}; expected (instances, features).")
    return holds_only_numbers(table)


def _kinds(table: Any, nominal: Any, names: tuple[str, ...]) -> np.ndarray:
    n_features = table.shape[1]
    kinds = np.zeros(n_features, bool)
    if nominal is None or (not isinstance(nominal, str) and np.size(nominal) == 0):
        return kinds
    if isinstance(nominal, str) and nominal == "auto":
        return np.array([is_named(table, j) for j in range(n_features)], bool)
    given = np.asarray(nominal)
    if given.dtype == bool and given.shape == (n_features,):
        return given
    if given.ndim == 1:
        distinct = len(set(given.tolist())) == len(given)  # else booleans written as 0 and 1
        # Bools written as 0 and 1 would read as the positions 0 and 1; what is there twice is no list of positions.
        if given.dtype.kind in "iu" and distinct and np.all((given >= 0) & (given < n_features)):
            kinds[given] = True
            return kinds
        if given.dtype.kind in "UO" and set(map(str, given)) <= set(names):
            kinds[[names.index(str(name)) for name in given]] = True
            return kinds
    columns = f"the columns {', '.join(names[:8])}" if names else f"{n_features} columns without names"
    raise ValueError(
        f"nominal={nominal!r} does not fit X, which has {columns}; pass 'auto', None, or names, positions (each once) "
        "or one boolean for each column."
    )

"""`Columns`, facts about the columns of the data that trees test, and `fit_columns`, which finds them in data.

Values of two kinds of columns are looked up, and become codes. A nominal column has levels: a value's code is its
position among them. A column that is compared as float64 has cuts, the thresholds of its tests: a value's code is the
number of cuts below it.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxunc._checks import check_bool, check_collection, check_integer
from jaxunc._numerics import order_key, order_key_at_or_below, power_of_two

from ._cells import MISSING_WORDS, check_marks
from ._frames import (
    as_table,
    check_distinct_names,
    column_of,
    frame_names,
    holds_bools,
    holds_only_numbers,
    is_frame,
    is_named,
)
from ._levels import LARGEST_CODE, Levels, Lookup, fit_levels


@dataclasses.dataclass(frozen=True, repr=False)
class Columns:
    """The columns of the data, in order; hashable, and static in JAX programs, not traced.

    Raises
    ------
    TypeError
        If ``number`` is not an integer, or a flag is not a bool. If ``missing_words``, or a field with an entry for
        each column, is not a tuple or a list.
    ValueError
        If ``names``, ``nominal``, ``levels``, ``boolean`` or ``cuts`` have another length than ``number``. If a name or
        a missing word is not a string, or ``decimal`` and ``thousands`` are not two different marks. If a column has
        levels but is not nominal, or its levels are not distinct, not all strings or all numbers, or 2²⁴ or more. If
        the cuts of a column are not finite numbers that rise, or it has levels, too.

    Notes
    -----
    Data hold the values of a column with levels, and these are looked up. For data that hold codes already take
    `of_codes`.

    Numbers of a column with ``cuts`` are compared as float64, whatever their dtype: trees test how many cuts are below
    a number.

    ``boolean``, ``missing_words``, ``decimal`` and ``thousands`` matter for text files alone. Frames and arrays have
    types of their own.
    """

    number: int
    """Number of columns."""
    names: tuple[str, ...] | None = None
    """The names that a data frame must have; None if any names will do."""
    nominal: tuple[bool, ...] | None = None
    """Whether each column holds names of things, not quantities; None if none does."""
    levels: tuple[Levels | None, ...] | None = None
    """Levels of nominal columns; None for a numeric column, or if the data hold codes already."""
    boolean: tuple[bool, ...] | None = None
    """Whether each column held bools in the training data; None if that is not known: any column of numbers may."""
    missing_words: tuple[str, ...] = MISSING_WORDS
    """Cells of a text file that mean a missing value, unless they are levels of their column."""
    cuts: tuple[tuple[float, ...] | None, ...] | None = None
    """The thresholds of columns that are compared as float64, rising; None for a column that is compared as float32."""
    absent_is_missing: bool = False
    """Whether an entry that a sparse matrix does not store is missing, as for XGBoost and treelite; else it is 0."""
    spaces_are_underlines: bool = False
    """Whether ``names`` have underlines for the spaces of the training data's names, as LightGBM writes them."""
    decimal: str | None = None
    """The decimal mark of the training data's text file, ``"."`` or ``","``; None if no number had one."""
    thousands: str | None = None
    """The mark between thousands in that file, ``"."``, ``","``, ``"'"`` or a space; None if no number had one."""

    def __post_init__(self) -> None:
        """Check all fields, and turn lists into tuples, which have a hash; the errors are those of the class."""
        check_integer("number", self.number, 0)
        check_bool("absent_is_missing", self.absent_is_missing)
        check_bool("spaces_are_underlines", self.spaces_are_underlines)
        check_marks(self.decimal, self.thousands)
        for name in ("names", "nominal", "levels", "boolean", "cuts"):
            if (entries := getattr(self, name)) is None:
                continue
            check_collection(name, entries, "a tuple, an entry for each column")
            if len(entries) != self.number:
                raise ValueError(f"{name} has {len(entries)} entries for {self.number} columns; pass one for each.")
            if name in ("levels", "cuts"):
                entries = map(_as_tuples, entries)
            object.__setattr__(self, name, tuple(entries))  # the class is frozen: ``self.name = …`` would raise
        check_collection("missing_words", self.missing_words, "a tuple of strings, empty for none")
        object.__setattr__(self, "missing_words", tuple(self.missing_words))
        if odd := [name for name in self.names or () if not isinstance(name, str)]:
            raise ValueError(f"names holds {odd[:3]}; pass texts, for instance map(str, frame.columns).")
        if odd := [word for word in self.missing_words if not isinstance(word, str)]:
            raise ValueError(f"missing_words holds {odd[:3]}; pass strings.")
        for j, levels in enumerate(self.levels or ()):
            if levels is not None:
                self._check_levels(j, levels)
        for j, cuts in enumerate(self.cuts or ()):
            if cuts is not None:
                check_cuts(j, cuts)
                if self.levels is not None and self.levels[j] is not None:
                    raise ValueError(f"column {j} has levels and cuts; its values are words, or numbers: pass one.")

    def _check_levels(self, j: int, levels: Levels) -> None:
        """Raise a ValueError unless column ``j`` is nominal, its levels are distinct, of one type and few enough."""
        if not (self.nominal and self.nominal[j]):
            raise ValueError(f"levels[{j}] is given, but column {j} is not nominal; set nominal[{j}] or leave it None.")
        values = levels.values
        if not (all(isinstance(v, str) for v in values) or all(_is_number(v) for v in values)):
            raise ValueError(
                f"levels[{j}] holds {values[:5]}; pass texts alone or numbers alone. Missing values are a level "
                "through has_missing."
            )
        if len(set(values)) < len(values):
            raise ValueError(f"levels[{j}] holds a value twice; their positions are its codes: pass each once.")
        if len(values) >= LARGEST_CODE:
            raise ValueError(
                f"levels[{j}] holds {len(values)} values; codes are exact up to {LARGEST_CODE}. Merge rare values, or "
                "take the column as numeric."
            )

    def of_codes(self) -> "Columns":
        """Return the same columns without levels and cuts, for data that already hold codes."""
        return dataclasses.replace(self, levels=None, cuts=None) if self.looks_up else self

    def as_known(self, name: str) -> str:
        """Return ``name`` as ``names`` spell it; with ``spaces_are_underlines`` an unknown name gets "_" for spaces."""
        is_known = not self.spaces_are_underlines or name in (self.names or ())
        return name if is_known else name.replace(" ", "_")

    def at(self, positions: Int[np.ndarray, " positions"]) -> "Columns":
        """Return the `Columns` of the columns at ``positions`` alone, in this order."""
        fields = {}
        for name in ("names", "nominal", "levels", "boolean", "cuts"):
            entries = getattr(self, name)
            fields[name] = None if entries is None else tuple(entries[j] for j in positions.tolist())
        return dataclasses.replace(self, number=len(positions), **fields)

    @property
    def looks_up(self) -> bool:
        """Whether any column has levels or cuts, among which its values are looked up."""
        return self.levels is not None or self.cuts is not None

    @property
    def is_nominal(self) -> Bool[np.ndarray, " features"]:
        """Whether each column is nominal."""
        return np.zeros(self.number, bool) if self.nominal is None else np.array(self.nominal, bool)

    @cached_property
    def lookups(self) -> "tuple[Lookup | CutLookup | None, ...]":
        """For each column the `Lookup` of its levels, the `CutLookup` of its cuts, or None if it has neither."""
        lookups: list[Lookup | CutLookup | None] = [None] * self.number
        for j, levels in enumerate(self.levels or ()):
            if levels is not None:
                lookups[j] = Lookup(levels)
        for j, cuts in enumerate(self.cuts or ()):
            if cuts is not None:
                lookups[j] = CutLookup(cuts)
        return tuple(lookups)

    @property
    def _values(self) -> tuple:
        """The values of all fields, in order."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @cached_property
    def _hash(self) -> int:
        return hash(self._values)

    def __hash__(self) -> int:
        # The hash is kept: every call of a compiled function hashes trees and their columns, and levels may be many.
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the kept hash: hashes of texts differ between processes.
        return Columns, self._values

    def __repr__(self) -> str:
        entries = [f"number={self.number}"]
        if self.names is not None:
            entries.append(f"names={self.names[:5]}{'…' * (self.number > 5)}")
        if self.nominal is not None:
            entries.append(f"nominal={np.flatnonzero(self.nominal).tolist()}")
        if self.levels is not None:
            n_levels = {j: len(lev.values) + lev.has_missing for j, lev in enumerate(self.levels) if lev is not None}
            entries.append(f"levels by column: {n_levels}")
        if self.cuts is not None:
            entries.append(f"cuts by column: {[0 if entry is None else len(entry) for entry in self.cuts]}")
        return f"Columns({', '.join(entries)})"


def _as_tuples(entry: Any) -> Any:
    """Return a column's entry in ``levels`` or ``cuts`` with tuples in the place of lists; None unchanged."""
    if isinstance(entry, Levels):
        return entry._replace(values=tuple(entry.values))
    return tuple(entry) if isinstance(entry, list) else entry


def _is_number(value: Any) -> bool:
    """Return whether a level is a bool, an int or a float, and not NaN."""
    return isinstance(value, bool | int | float) and value == value


def fit_columns(X: Any, nominal: Any = "auto", *, name: str = "X") -> Columns:
    """Return the `Columns` of X: the levels of nominal columns, and of a frame the names, and which columns hold bools.

    ``nominal`` is "auto" (every column that holds neither numbers nor dates), None, or names, positions or bools of
    columns; ``name`` is that of X in messages. Levels are the distinct values, sorted; missing values, if any, are one
    more level, the last. Raises a TypeError if X is sparse, or a nominal column holds lists, or bytes that are not
    UTF-8. Raises a ValueError if X does not have two axes, has a name twice, or lacks a column of ``nominal``.

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
    is_nominal = _find_nominal(table, nominal, names or ())
    # Text files hold bools as words, and these columns are read as bools there.
    boolean = tuple(holds_bools(table, j) for j in range(number)) if is_frame(table) else None
    if not is_nominal.any():
        return Columns(number, names, boolean=boolean)
    levels = []
    for j in range(number):
        try:
            levels.append(fit_levels(column_of(table, j)) if is_nominal[j] else None)
        except TypeError as error:
            raise TypeError(f"column {(names or range(number))[j]!r} of {name}: {error}") from error
    return Columns(number, names, tuple(is_nominal.tolist()), tuple(levels), boolean)


def holds_numbers(X: Any) -> Bool[np.ndarray, " features"]:
    """Return whether each column of ``X``, data that `fit_columns` takes, has a type of numbers or bools.

    Raises a TypeError if X is sparse, and a ValueError unless it has two axes.
    """
    table = as_table(X, "X")
    if len(table.shape) != 2:
        raise ValueError(f"X has shape {table.shape}; expected (instances, features).")
    return holds_only_numbers(table)


def _find_nominal(table: Any, nominal: Any, names: tuple[str, ...]) -> np.ndarray:
    """Return whether each column of a table is nominal, ``[features]``, by the argument ``nominal`` of `fit_columns`.

    ``names`` are those of all columns, () for a table without names. Raises a ValueError if ``nominal`` does not fit.
    """
    n_features = table.shape[1]
    is_nominal = np.zeros(n_features, bool)
    if nominal is None or (not isinstance(nominal, str) and np.size(nominal) == 0):
        return is_nominal
    if isinstance(nominal, str) and nominal == "auto":
        return np.array([is_named(table, j) for j in range(n_features)], bool)
    selection = np.asarray(nominal)
    if selection.dtype == bool and selection.shape == (n_features,):
        return selection
    if selection.ndim == 1:
        # Of three columns or more, bools that are written as 0 and 1 are no positions: one of them occurs twice.
        are_distinct = len(set(selection.tolist())) == len(selection)
        if selection.dtype.kind in "iu" and are_distinct and np.all((selection >= 0) & (selection < n_features)):
            is_nominal[selection] = True
            return is_nominal
        if selection.dtype.kind in "UO" and set(map(str, selection)) <= set(names):
            is_nominal[[names.index(str(name)) for name in selection]] = True
            return is_nominal
    columns = f"the columns {', '.join(names[:8])}" if names else f"{n_features} columns without names"
    raise ValueError(
        f"nominal={nominal!r} does not fit X, which has {columns}; pass 'auto', None, or names, positions (each once) "
        "or one boolean for each column."
    )


BLOCK = 2**12  # number of values that are searched among cuts at a time: as many as stay in the cache
CELLS = 2**11  # number of equal parts of a column's range; the number of cuts below each is kept, to search from


class CutLookup:
    """Look-up of a column's values among its ``cuts``, the rising thresholds of trees that compare float64.

    The range of the cuts is divided into `CELLS` equal cells. A value's cell tells among which cuts to search.
    """

    may_be_numbers = True  # whether a number can be looked up, as in `Lookup`

    def __init__(self, cuts: Sequence[float]):
        self.cuts = np.array(cuts, np.float64)
        self._low = self.cuts[0] if len(self.cuts) else 0.0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self._scale = CELLS / (self.cuts[-1] - self._low) if len(self.cuts) > 1 else 0.0  # cells in a unit
        self._last = CELLS - 1 if 0 < self._scale < np.inf else 0  # the last cell; 0 if the range is not divided
        cell_of_cut = self._cells(self.cuts)
        self._first = np.searchsorted(cell_of_cut, np.arange(self._last + 1))  # number of cuts in lower cells, by cell
        # First step of a bisection of the fullest cell.
        self._step = power_of_two(int(np.bincount(cell_of_cut, minlength=1).max()) + 1) // 2
        # A step may lead beyond the cuts: to infinite ones, which are below no value.
        self._padded = np.append(self.cuts, np.full(2 * self._step, np.inf))

    def codes(self, values: Float[np.ndarray, " instances"]) -> Float[np.ndarray, " instances"]:
        """Return the code of each value: how many cuts are below it, as float64; NaN for NaN."""
        codes = np.empty(len(values))
        for start in range(0, len(values), BLOCK):
            codes[start : start + BLOCK] = self._below(values[start : start + BLOCK])
        codes[np.isnan(values)] = np.nan
        return codes

    def _below(self, values: np.ndarray) -> np.ndarray:
        """Return the number of cuts below each of at most `BLOCK` values; for NaN it is any number."""
        if 8 * len(values) < BLOCK:  # too few values to repay the steps below
            return np.searchsorted(self.cuts, values)
        # All values take each step of the bisection together: value by value, half of all branches are mispredicted.
        below = self._first[self._cells(values)]
        step = self._step
        while step:
            below += (self._padded[below + (step - 1)] < values) * step
            step //= 2
        return below

    def _cells(self, values: np.ndarray) -> np.ndarray:
        """Return the number of each value's cell, from 0, which does not fall as values rise; any number for NaN."""
        if not self._last:
            return np.zeros(len(values), np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            position = (values - self._low) * self._scale
        return np.fmax(np.fmin(position, self._last), 0).astype(np.int64)

    def traced_codes(self, values: Num[Array, " instances"]) -> Float[Array, " instances"]:
        """Return the codes of values that JAX may trace, as float32, NaN for NaN; integers are compared as float64."""
        dtype = values.dtype
        if dtype == jnp.float64 or (jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize == 8):
            codes = jnp.searchsorted(jnp.asarray(self.cuts), values.astype(jnp.float64))
        elif jnp.issubdtype(dtype, jnp.integer):
            # A cut is below an integer if its floor is. Cuts below the type are below all, those above it below none.
            limits = np.iinfo(dtype)
            floors = np.floor(self.cuts)
            within = floors[(floors >= limits.min) & (floors < limits.max)].astype(dtype)
            codes = np.sum(floors < limits.min) + jnp.searchsorted(jnp.asarray(within), values)
        else:
            # Order keys are integers: a backend may flush subnormal floats to zero.
            codes = jnp.searchsorted(jnp.asarray(order_key_at_or_below(self.cuts)), order_key(values))
        is_missing = jnp.isnan(values) if jnp.issubdtype(dtype, jnp.floating) else jnp.zeros(values.shape, bool)
        return jnp.where(is_missing, jnp.nan, codes.astype(jnp.float32))


def check_cuts(j: int, cuts: Any) -> None:
    """Raise a ValueError unless ``cuts``, the entry of column ``j`` in `Columns.cuts`, are finite numbers that rise."""
    numbers = np.asarray(cuts, np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all() or np.any(np.diff(numbers) <= 0):
        raise ValueError(f"cuts[{j}]={cuts!r:.60} must be finite numbers that rise: the thresholds of the column.")

"""One table in many carriers: frames, columns by name, arrays and sparse matrices that hold the same values."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
from scipy import sparse

from tests._exhaustive import SEED

compute: Any = pyarrow.compute
Carry = Callable[[pd.DataFrame], Any]


class OnlyArray:
    """Data whose one member is NumPy's protocol, as tensors of other libraries are read."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._values if dtype is None else self._values.astype(dtype)


class OnlyStream:
    """A frame whose one member is Arrow's protocol."""

    def __init__(self, table: pa.Table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    """A frame whose one member is the dataframe protocol."""

    def __init__(self, table: pa.Table):
        self._table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self._table.__dataframe__(nan_as_null, allow_copy)


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    return frame.to_numpy(np.float64, na_value=np.nan)


def _cells(frame: pd.DataFrame, make: Callable[[Any], Any], missing: Any = None) -> dict[str, list[Any]]:
    """The cells of each column, made anew."""
    cell = lambda value: missing if pd.isna(value) else make(value)
    return {name: list(map(cell, frame[name].tolist())) for name in frame.columns}


def _objects(columns: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def _decimals(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return _cells(frame, lambda cell: Decimal(repr(float(cell))))


def _arrow(frame: pd.DataFrame, kind: Any = None) -> pa.Table:
    return pa.table({name: pa.array(cells, kind) for name, cells in _cells(frame, _plain).items()})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _masked(frame: pd.DataFrame) -> np.ma.MaskedArray:
    values = _numbers(frame)
    return np.ma.masked_array(np.where(np.isnan(values), 77.0, values), np.isnan(values))


def _series(columns: dict[str, list[Any]], kind: Any = None) -> pl.DataFrame:
    return pl.DataFrame({name: pl.Series(cells, dtype=kind) for name, cells in columns.items()})


def _polars(frame: pd.DataFrame) -> pl.DataFrame:
    return _series(_cells(frame, _plain))


def _structured(frame: pd.DataFrame) -> np.ndarray:
    records = np.empty(len(frame), [(name, np.float64) for name in frame.columns])
    for name in frame.columns:
        records[name] = frame[name].to_numpy(np.float64, na_value=np.nan)
    return records


NAMED: dict[str, Carry] = {
    "pandas": lambda f: f,
    "pandas float64": lambda f: pd.DataFrame(_numbers(f), columns=f.columns),
    "pandas float32": lambda f: pd.DataFrame(_numbers(f).astype(np.float32), columns=f.columns),
    "pandas float16": lambda f: pd.DataFrame(_numbers(f).astype(np.float16), columns=f.columns),
    "pandas nullable": lambda f: f.convert_dtypes(),
    "pandas of Arrow": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "pandas objects": lambda f: _objects(_cells(f, _plain)),
    "pandas Decimal": lambda f: _objects(_decimals(f)),
    "pandas Fraction": lambda f: _objects(_cells(f, Fraction, np.nan)),
    "pandas NA among objects": lambda f: _objects(_cells(f, _plain, pd.NA)),
    "pandas sparse": lambda f: pd.DataFrame(_numbers(f), columns=f.columns).astype(pd.SparseDtype(float, np.nan)),
    "pandas Arrow decimal": lambda f: pd.DataFrame(
        {n: pd.arrays.ArrowExtensionArray(pa.array(c, pa.decimal128(20, 4))) for n, c in _decimals(f).items()}
    ),
    "polars": _polars,
    "polars Float32": lambda f: pl.DataFrame(_numbers(f).astype(np.float32), schema=list(f.columns)),
    "polars Decimal": lambda f: _series(_decimals(f), pl.Decimal(20, 4)),
    "polars objects": lambda f: _series(_cells(f, Fraction), pl.Object),
    "narwhals": lambda f: narwhals.from_native(_polars(f)),
    "Arrow": _arrow,
    "Arrow batch": lambda f: _arrow(f).to_batches()[0],
    "Arrow chunks": lambda f: pa.concat_tables([_arrow(f)[:5], _arrow(f)[5:]]),
    "Arrow half floats": lambda f: pa.table({n: pa.array(f[n].astype(np.float16), from_pandas=True) for n in f}),
    "Arrow decimal256": lambda f: pa.table({n: pa.array(c, pa.decimal256(50, 4)) for n, c in _decimals(f).items()}),
    "Arrow runs": lambda f: pa.table({n: compute.run_end_encode(_arrow(f, pa.float64())[n]) for n in f}),
    "Arrow stream": lambda f: OnlyStream(_arrow(f)),
    "dataframe protocol": lambda f: OnlyInterchange(_arrow(f)),
    "lists by name": lambda f: _cells(f, _plain),
    "arrays by name": lambda f: {name: _numbers(f)[:, j] for j, name in enumerate(f.columns)},
    "masked arrays by name": lambda f: {name: _masked(f)[:, j] for j, name in enumerate(f.columns)},
    "polars series by name": lambda f: dict(zip(f.columns, _polars(f).get_columns(), strict=True)),
    "Arrow arrays by name": lambda f: {name: _arrow(f)[name] for name in f.columns},
    "pandas series by name": lambda f: {name: f[name] for name in f.columns},
    "structured array": _structured,
}
"""Carriers that name their columns, of a table of numbers."""

UNNAMED: dict[str, Carry] = {
    "float64": _numbers,
    "float32": lambda f: _numbers(f).astype(np.float32),
    "float16": lambda f: _numbers(f).astype(np.float16),
    "bfloat16": lambda f: _numbers(f).astype(ml_dtypes.bfloat16),
    "long double": lambda f: _numbers(f).astype(np.longdouble),
    "other byte order": lambda f: _numbers(f).astype(">f8"),
    "Fortran order": lambda f: np.asfortranarray(_numbers(f)),
    "strided": lambda f: np.repeat(_numbers(f), 2, axis=0)[::2, ::-1][:, ::-1],
    "read-only": lambda f: np.frombuffer(_numbers(f).tobytes()).reshape(f.shape),
    "masked": _masked,
    "objects": lambda f: _numbers(f).astype(object),
    "Decimal": lambda f: _objects(_decimals(f)).to_numpy(),
    "rows": lambda f: _numbers(f).tolist(),
    "rows with None": lambda f: [[None if value != value else value for value in row] for row in _numbers(f).tolist()],
    "tuples": lambda f: tuple(map(tuple, _numbers(f).tolist())),
    "JAX": lambda f: jnp.asarray(_numbers(f), jnp.float32),
    "JAX bfloat16": lambda f: jnp.asarray(_numbers(f), jnp.bfloat16),
    "array protocol": lambda f: OnlyArray(_numbers(f)),
    "matrix": lambda f: np.asmatrix(_numbers(f)),
    "csr": lambda f: sparse.csr_matrix(_numbers(f)),
    "csc array": lambda f: sparse.csc_array(_numbers(f)),
    "coo": lambda f: sparse.coo_matrix(_numbers(f)),
}
"""Carriers without names, of a table of numbers."""


def numbers(n: int = 40, *, missing: bool = False, seed: int = SEED) -> pd.DataFrame:
    """A table of small numbers that every carrier holds exactly, bfloat16 among them."""
    rng = np.random.default_rng(seed)
    columns = {"quarter": rng.integers(-100, 100, n) / 4, "whole": rng.integers(-50, 50, n)}
    frame = pd.DataFrame({**columns, "flag": rng.random(n) < 0.5, "half": rng.integers(-60, 60, n) / 2})
    if not missing:
        return frame
    # Not of flags: pandas has them as objects then, which are names.
    return frame.assign(**{name: frame[name].mask(rng.random(n) < 0.1) for name in ("quarter", "whole", "half")})


def words(n: int = 30, seed: int = SEED) -> pd.DataFrame:
    """A table of numbers and names of things, some of them missing."""
    rng = np.random.default_rng(seed)
    color = pd.Series(rng.choice(["red", "grün", "blue", "12"], n), dtype=object)
    grade = pd.Series(rng.choice(["low", "high"], n), dtype=object)
    amount, nothing = rng.integers(-50, 50, n) / 4, pd.Series([None] * n, dtype=object)
    color = color.where(rng.random(n) < 0.9, None)
    return pd.DataFrame({"amount": amount, "color": color, "grade": grade, "nothing": nothing})


def _typed(frame: pd.DataFrame, kind: Any) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(("color", "grade"), kind))


def _bytes(frame: pd.DataFrame) -> pd.DataFrame:
    made = lambda name: pd.Series([cell and cell.encode() for cell in frame[name]], dtype=object)
    return frame.assign(color=made("color"), grade=made("grade"))


def _arrow_words(frame: pd.DataFrame, kind: pa.DataType) -> pa.Table:
    kinds = {"amount": pa.float64(), "nothing": pa.null(), "color": kind, "grade": kind}
    return pa.table({name: pa.array(frame[name].tolist()).cast(kinds[name]) for name in frame})


def _polars_words(frame: pd.DataFrame, kind: Any = None) -> pl.DataFrame:
    made = pl.DataFrame({name: pl.Series(frame[name].tolist()) for name in frame.columns})
    return made if kind is None else made.with_columns(pl.col("color", "grade").cast(kind))


def _arrow_runs(frame: pd.DataFrame) -> pa.Table:
    table = _arrow_words(frame, pa.string())
    for name in ("color", "grade"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, compute.run_end_encode(table.column(name)))
    return table


WORDS: dict[str, Carry] = {
    "pandas objects": lambda f: f,
    # until pandas 3: `str` makes words of what is missing
    **({"pandas str": lambda f: _typed(f, "str")} if int(pd.__version__.partition(".")[0]) > 2 else {}),
    "pandas string": lambda f: _typed(f, "string"),
    "pandas string of Arrow": lambda f: _typed(f, "string[pyarrow]"),
    "pandas of Arrow": lambda f: _typed(f, pd.ArrowDtype(pa.string())),
    "pandas of Arrow's dictionaries": lambda f: _typed(f, pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    "pandas categories": lambda f: _typed(f, "category"),
    "pandas categories in an order": lambda f: _typed(
        f, pd.CategoricalDtype(["zoo", "red", "low", "high", "grün", "blue", "12"], ordered=True)
    ),
    "pandas bytes": _bytes,
    "pandas NA": lambda f: f.assign(color=f["color"].where(f["color"].notna(), pd.NA)),
    "pandas NaN": lambda f: f.assign(color=f["color"].where(f["color"].notna(), np.nan)),
    "pandas NaT": lambda f: f.assign(color=f["color"].where(f["color"].notna(), pd.NaT)),
    "polars": _polars_words,
    "polars Categorical": lambda f: _polars_words(f, pl.Categorical),
    "polars Enum": lambda f: _polars_words(f, pl.Enum(["low", "high", "12", "grün", "blue", "red"])),
    "polars Binary": lambda f: _polars_words(f, pl.Binary),
    "Arrow": lambda f: _arrow_words(f, pa.string()),
    "Arrow large_string": lambda f: _arrow_words(f, pa.large_string()),
    "Arrow string_view": lambda f: _arrow_words(f, pa.string_view()),
    "Arrow binary": lambda f: _arrow_words(f, pa.binary()),
    "Arrow large_binary": lambda f: _arrow_words(f, pa.large_binary()),
    "Arrow dictionary": lambda f: _arrow_words(f, pa.dictionary(pa.int8(), pa.string())),
    "Arrow runs": _arrow_runs,
    "Arrow stream": lambda f: OnlyStream(_arrow_words(f, pa.string())),
    "lists by name": lambda f: {name: f[name].tolist() for name in f.columns},
    "arrays by name": lambda f: {name: f[name].to_numpy() for name in f.columns},
    "masked arrays by name": lambda f: {
        name: np.ma.masked_array(f[name].fillna("red").to_numpy(), f[name].isna()) if name == "color" else f[name]
        for name in f.columns
    },
}
"""Carriers of a table with names of things."""

"""A table from a CSV or Parquet file, as it stands there."""

import gzip
import warnings
import zlib
from pathlib import Path

import pandas as pd
from pandas.api import types

from ._names import listed, nearest

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET = (".parquet", ".pq")
_FORMATS = "a CSV file (.csv, .tsv, also .gz; UTF-8, column names in the first line) or a Parquet file (.parquet, .pq)"


def read_frame(path: Path) -> pd.DataFrame:
    """The file as it is; raises a ValueError that says what is wrong with it, an ImportError without pyarrow."""
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ValueError(f"DATA={str(path)!r} does not exist.{nearest(path.name, siblings)} Pass {_FORMATS}.")
    name = path.name.lower()
    if path.is_dir() or not name.endswith(_CSV + _PARQUET):
        found = "is a folder" if path.is_dir() else f"has the ending {path.suffix!r}"
        raise ValueError(f"DATA={str(path)!r} {found}; expected {_FORMATS}. Export the data as one of these.")
    kind = "Parquet" if name.endswith(_PARQUET) else "CSV"
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        frame = _read_parquet(path) if kind == "Parquet" else _read_csv(path)
        if frame.empty:
            raise ValueError(f"it has {len(frame)} rows and {frame.shape[1]} columns")
        return frame
    except ImportError as error:
        raise ImportError(f"DATA={str(path)!r} is Parquet, which needs pyarrow.", name="pyarrow") from error
    except (ValueError, OSError, EOFError, NotImplementedError, zlib.error) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"DATA={str(path)!r} cannot be read as {kind}: {reason}. Pass {_FORMATS}, with rows."
        ) from error


def _read_parquet(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named) if named else frame


def _read_csv(path: Path) -> pd.DataFrame:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        head = file.read(1 << 16)
    if b"\0" in head:
        raise ValueError("it holds binary data, not UTF-8 text")
    if not head.strip():
        raise ValueError("it is empty")
    first_line = head.decode("utf-8-sig", errors="ignore").lstrip().splitlines()[0]
    separator = max(",;\t", key=first_line.count)
    try:
        with warnings.catch_warnings():
            # pandas only warns before it cuts off the cells of a row that is longer than the first line.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            options = {"sep": separator, "encoding": "utf-8-sig", "index_col": False}
            names = pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0]
            if len(twice := names[names.duplicated() & names.notna()].unique()):
                raise ValueError(f"several columns are named {listed(twice.tolist())}; give each its own name")
            frame = pd.read_csv(path, na_values=["?"], low_memory=False, **options)
    except pd.errors.ParserWarning as error:
        raise ValueError("a row has more cells than the first line has names") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text; save it as UTF-8") from error
    return frame if separator == "," else frame.apply(_with_decimal_points)


def _with_decimal_points(column: pd.Series) -> pd.Series:
    """Numbers with decimal commas, as spreadsheets write them beside semicolons, as numbers."""
    if types.is_any_real_numeric_dtype(column.dtype):
        return column
    words = column.dropna().astype(str)
    if not len(words) or not words.str.fullmatch(r"\s*[-+]?\d*,?\d+\s*").all():
        return column
    return column.map(lambda word: float(word.replace(",", ".")), na_action="ignore").astype(float)

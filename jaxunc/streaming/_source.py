"""Rows of files, folders, frames and arrays, as Arrow tables of a fixed number of rows."""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from jaxunc.tables import Columns

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
ARROW = (".arrow", ".feather")
BLOCK_BYTES = 2**24
"""Of a CSV file, read at a time; the types of carried columns are those of the first."""
NULLS = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]
_KNOWN = "Parquet (.parquet, .pq), CSV (.csv, .tsv, also .gz; names in the first line) or Arrow (.arrow, .feather)"


class Wanted(NamedTuple):
    """Which columns of the data are read."""

    columns: Columns
    """What the model knows of its own."""
    features: tuple[str, ...] | None
    """The names of the model's columns in the data; None: those that it knows, else all that are not kept."""
    keep: tuple[str, ...]
    """Columns that are carried along."""

    def names(self, found: Sequence[str], where: str) -> tuple[str, ...]:
        """The data's columns that the model reads, in its order; raises a ValueError if they are not all there."""
        if len(set(found)) < len(found):
            twice = sorted({name for name in found if list(found).count(name) > 1})
            raise ValueError(f"{where} has several columns named {twice[:5]}; give each its own name.")
        features = self.features or self.columns.names
        needed = [*(features or ()), *self.keep]
        if missing := [name for name in needed if name not in set(found)]:
            raise ValueError(
                f"{where} lacks the columns {missing[:5]} ({len(missing)} in all); it has {list(found)[:10]}. Further "
                "columns and their order do not matter."
            )
        if features is None:
            features = tuple(name for name in found if name not in set(self.keep))
        if len(features) != self.columns.number:
            raise ValueError(
                f"{where} has {len(features)} columns for the model's {self.columns.number}, which knows no names: "
                "name those to read with features, in the order of training, or those to carry along with keep."
            )
        return tuple(features)


def data_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files of a path, a folder (in the order of their names, folders within it too), or a list of paths."""
    if not isinstance(source, str | Path):
        return [file for one in source for file in data_files(one)]
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Pass {_KNOWN}, or a folder of such files.")
    if not path.is_dir():
        if not path.name.lower().endswith(PARQUET + CSV + ARROW):
            raise ValueError(f"{path} has the ending {path.suffix!r}; expected {_KNOWN}.")
        return [path]
    files = [file for file in sorted(path.rglob("*")) if _is_data(file.relative_to(path)) and file.is_file()]
    if not files:
        raise ValueError(f"the folder {path} holds no data: expected {_KNOWN}.")
    return files


def _is_data(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and path.name.lower().endswith(PARQUET + CSV + ARROW)


def tables_of(source: Any, wanted: Wanted, chunk_rows: int) -> Iterator[tuple[pa.Table, str]]:
    """All rows of any source, chunk by chunk, and where they are from; only the last chunk of a source is smaller."""
    if isinstance(source, str | Path) or _are_paths(source):
        for file in data_files(source):
            for table in file_tables(file, wanted, chunk_rows):
                yield table, str(file)
        return
    for table in rechunked(_of_memory(source), chunk_rows):
        yield table, "the data"


def file_tables(file: Path, wanted: Wanted, chunk_rows: int, skip: int = 0) -> Iterator[pa.Table]:
    """The rows of a file after the first ``skip``, chunk by chunk; raises a ValueError that names it."""
    name = file.name.lower()
    read = _parquet if name.endswith(PARQUET) else _csv if name.endswith(CSV) else _arrow
    try:
        yield from rechunked(read(file, wanted, chunk_rows, skip), chunk_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{file} cannot be read: {reason}") from error


def rechunked(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows, so many at a time."""
    waiting, number = [], 0
    for table in tables:
        start = 0
        while number + table.num_rows - start >= rows:
            piece = table.slice(start, rows - number)
            start += piece.num_rows
            yield pa.concat_tables([*waiting, piece]).combine_chunks()
            waiting, number = [], 0
        if start < table.num_rows:
            waiting.append(table.slice(start))
            number += waiting[-1].num_rows
    if number:
        yield pa.concat_tables(waiting).combine_chunks()


def _parquet(file: Path, wanted: Wanted, rows: int, skip: int) -> Iterator[pa.Table]:
    with parquet.ParquetFile(file) as opened:
        names = [*wanted.names(opened.schema_arrow.names, str(file)), *wanted.keep]
        sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.metadata.num_row_groups)]
        first = 0
        while first < len(sizes) and sizes[first] <= skip:
            skip -= sizes[first]
            first += 1
        groups = list(range(first, len(sizes)))
        for batch in opened.iter_batches(rows, row_groups=groups, columns=list(dict.fromkeys(names))):
            table = pa.Table.from_batches([batch])
            skipped = min(skip, table.num_rows)
            skip -= skipped
            yield table.slice(skipped)


def _csv(file: Path, wanted: Wanted, rows: int, skip: int) -> Iterator[pa.Table]:
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    with opened(file, "rb") as stream:
        first = stream.readline().decode("utf-8-sig").strip()
    if not first:
        raise ValueError(f"{file} is empty; expected the names of columns in its first line.")
    separator = max(",;\t", key=first.count)
    found = [name.strip('"') for name in first.split(separator)]
    features = wanted.names(found, str(file))
    levels = wanted.columns.levels or (None,) * len(features)
    texts = [own is not None and any(isinstance(value, str) for value in own.values[:1]) for own in levels]
    names = list(dict.fromkeys([*features, *wanted.keep]))
    convert = arrow_csv.ConvertOptions(null_values=NULLS, strings_can_be_null=True, include_columns=names)
    options = {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
        "parse_options": arrow_csv.ParseOptions(delimiter=separator),
    }
    with arrow_csv.open_csv(file, convert_options=convert, **options) as reader:
        seemed = reader.schema
    is_switch = [pa.types.is_boolean(seemed.field(name).type) for name in features]
    convert.column_types = {
        name: pa.string() if text else pa.bool_() if switch else pa.float64()
        for name, text, switch in zip(features, texts, is_switch, strict=True)
    }
    with arrow_csv.open_csv(file, convert_options=convert, **options) as reader:
        for batch in reader:
            skipped = min(skip, batch.num_rows)
            skip -= skipped
            yield pa.Table.from_batches([batch.slice(skipped)])


def _arrow(file: Path, wanted: Wanted, rows: int, skip: int) -> Iterator[pa.Table]:
    with pa.memory_map(str(file)) as stream:
        opened = pa.ipc.open_file(stream)
        names = list(dict.fromkeys([*wanted.names(opened.schema.names, str(file)), *wanted.keep]))
        for i in range(opened.num_record_batches):
            batch = opened.get_batch(i)
            skipped = min(skip, batch.num_rows)
            skip -= skipped
            yield pa.Table.from_batches([batch.slice(skipped)]).select(names)


def _are_paths(source: Any) -> bool:
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(one, str | Path) for one in source)


def _of_memory(source: Any) -> Iterator[pa.Table]:
    """Arrow, pandas, NumPy, or an iterable of such."""
    if isinstance(source, pa.Table):
        yield source
    elif isinstance(source, pa.RecordBatch):
        yield pa.Table.from_batches([source])
    elif hasattr(source, "iloc"):
        yield pa.Table.from_pandas(source, preserve_index=False)
    elif hasattr(source, "to_batches"):  # a dataset of Arrow
        for batch in source.to_batches():
            yield pa.Table.from_batches([batch])
    elif hasattr(source, "dtype"):
        if getattr(source, "ndim", 0) != 2:
            raise ValueError(f"an array of shape {source.shape} is no table; pass (instances, features).")
        yield pa.table({str(j): source[:, j] for j in range(source.shape[1])})
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes | dict):
        for part in source:
            yield from _of_memory(part)
    else:
        raise TypeError(
            f"source is a {type(source).__name__}; pass a file, a folder, a list of files, an Arrow table, reader or "
            "dataset, a pandas frame, an array, or an iterable of such."
        )

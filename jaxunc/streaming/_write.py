"""Parts of an output, each written beside its place and moved there once it is whole."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

FORMATS = {"parquet": ".parquet", "csv": ".csv"}
"""The forms of parts, and their endings."""


class PartWriter:
    """Takes tables, part by part, in order: ``(name, file, table)``, and None for the table where a part ends."""

    def __init__(self, folder: Path, form: str, finished: Callable[[str, int, int], None]):
        self._folder, self._form, self._finished = folder, form, finished
        self._writer: Any = None
        self._rows = 0

    def __call__(self, name: str, file: int, make: Callable[[], pa.Table] | None) -> None:
        """Write the table that ``make`` makes."""
        whole = name + FORMATS[self._form]
        temporary = self._folder / f".{whole}.{os.getpid()}"
        try:
            if make is not None:
                table = _plain(make(), self._form)
                if self._writer is None:
                    self._writer, self._rows = self._opened(temporary, table.schema), 0
                self._writer.write_table(table)
                self._rows += table.num_rows
                return
            self._writer.close()
            self._writer = None
            os.replace(temporary, self._folder / whole)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(f"the answers cannot be written as {self._form}: {error}.") from error
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self._folder / whole} could not be written ({error.strerror or error}). What is finished is kept: "
                "once there is room, the same command goes on from there",
            ) from error
        self._finished(whole, file, self._rows)

    def _opened(self, path: Path, schema: pa.Schema) -> Any:
        if self._form == "csv":
            return arrow_csv.CSVWriter(path, schema)
        repeating = [field.name for field in schema if not pa.types.is_floating(field.type)]
        leaves: Any = _leaves(repeating, schema)
        return parquet.ParquetWriter(path, schema, compression="snappy", use_dictionary=leaves)


def _leaves(names: list[str], schema: pa.Schema) -> list[str]:
    """The paths of columns as Parquet has them: those of lists are below them."""
    return [f"{name}.list.element" if pa.types.is_list(schema.field(name).type) else name for name in names]


def _plain(table: pa.Table, form: str) -> pa.Table:
    """Columns as the form can hold them, in CSV lists as texts, ``a|b``; raises a ValueError for others."""
    for i, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_run_end_encoded(kind):
            table = table.set_column(i, field.name, compute.call_function("run_end_decode", [table.column(i)]))
            kind = table.schema.field(i).type
        if pa.types.is_dictionary(kind) and _is_view(kind.value_type):
            table = table.set_column(i, field.name, _without_views(table.column(i)))
        if form == "parquet":
            continue
        if _is_view(kind):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        elif pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
            words = table.column(i).cast(pa.list_(pa.string()))
            table = table.set_column(i, field.name, compute.call_function("binary_join", [words, pa.scalar("|")]))
        elif pa.types.is_nested(kind):
            raise ValueError(
                f"the column {field.name!r} holds {kind}, which CSV cannot; write Parquet, or leave it out."
            )
    return table


def _is_view(kind: pa.DataType) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary of views as one of the usual type, which Arrow decodes and writes."""
    kind = column.type
    words = pa.string() if pa.types.is_string_view(kind.value_type) else pa.binary()
    chunks = [
        pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(words), ordered=kind.ordered)
        for one in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(kind.index_type, words, kind.ordered))


def types_as_written(schema: pa.Schema) -> dict[str, str]:
    """Return the types, in words, that columns have in a Parquet file, by name: some are not those in memory."""
    sink = pa.BufferOutputStream()
    parquet.ParquetWriter(sink, schema.remove_metadata()).close()
    return {field.name: str(field.type) for field in parquet.read_schema(pa.BufferReader(sink.getvalue()))}

"""Rows of files, folders, frames and arrays, chunk by chunk, with the columns that a model reads: `chunks_of`.

CSV files are read in `_csv`, Parquet and Arrow files here, all in order and in bounded memory. A file that has fewer
rows than it claims, or that changes while it is read, is refused.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from ._csv import count_csv_rows, csv_rows
from ._in_memory import select_at, tables_of
from ._sources import (
    DataChunk,
    UnreadableError,
    Wanted,
    WholeReads,
    check_text,
    data_files,
    file_for_arrow,
    format_of,
    refuse_changes,
)

FAULTS = (UnreadableError, OSError, EOFError, zlib.error)
FAULTS += (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowMemoryError)
"""Errors that reading a file may raise."""
BUFFER_BYTES = 2**18  # bytes of each column of a Parquet file that are read at a time
LARGEST_BATCH = 2**28
"""Mean bytes of a batch of an Arrow file up to which whole batches are read; files of larger batches are mapped."""


def chunks_of(
    source: Any, wanted: Wanted, chunk_rows: int, where: str = "the data", *, needs_text: bool = True
) -> Iterator[DataChunk]:
    """Yield all rows of a source that `stream` takes, in chunks of ``chunk_rows``; the last of a file may have fewer.

    ``wanted`` says which columns are read, and which marks in numbers the caller names. With ``needs_text`` marks are
    refused unless a file is a text file. In messages ``where`` is the name of data in memory.
    """
    are_files = isinstance(source, str | Path) or _are_paths(source)
    files = data_files(source) if are_files else []
    if needs_text:
        check_text(files, wanted.notation)
    if are_files:
        for file in files:
            yield from file_chunks(file, wanted, chunk_rows)
        return
    rows = (validate(table, where) for table in tables_of(source, partial(wanted.positions, where=where)))
    first = 0
    for table in rechunk(rows, chunk_rows):
        yield split(table, wanted, where, first)
        first += table.num_rows


def file_chunks(file: Path, wanted: Wanted, chunk_rows: int, skip: int = 0) -> Iterator[DataChunk]:
    """Yield the rows of a data file after the first ``skip``, in chunks of ``chunk_rows``; the last may have fewer.

    Raises a ValueError, which names the file, if it cannot be read.
    """
    file_format = format_of(file)
    is_text = file_format == "CSV"
    readers = {"Parquet": _parquet_rows, "Arrow": _arrow_rows}
    read = csv_rows if is_text else partial(readers[str(file_format)], n_rows=chunk_rows)
    first = skip + 1
    with reading(file):
        for table in rechunk(read(file, wanted, skip=skip), chunk_rows):
            yield split(table, wanted, str(file), first, are_cells=is_text)
            first += table.num_rows


def rows_in(file: Path) -> int:
    """Return the number of rows of a CSV or Parquet file; raise a ValueError if the file cannot be read."""
    with reading(file):
        return count_csv_rows(file) if format_of(file) == "CSV" else parquet.read_metadata(file).num_rows


def no_rows(file: Path, wanted: Wanted) -> DataChunk:
    """Return a chunk without rows, with the columns ``wanted`` in a file's types; of a text file only the kept ones."""
    if format_of(file) == "CSV":
        schema = pa.schema([(name, pa.string()) for name in wanted.keep])
        return DataChunk(pa.table({}), schema.empty_table(), str(file), 1, are_cells=True)
    with reading(file):
        schema = parquet.read_schema(file) if format_of(file) == "Parquet" else _arrow_schema(file)
        return split(arrange_columns(schema.empty_table(), wanted, str(file)), wanted, str(file), 1)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Return a context that raises a ValueError, which names the ``file``, for `FAULTS`, and if the file is changed."""
    try:
        with refuse_changes(file):
            yield
    except FAULTS as error:
        raise ValueError(f"{file} cannot be read: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return an error's text as a line of at most 300 letters, for messages: the reason why a file is unreadable."""
    reason = " ".join(str(error).split()).rstrip(".")[:300]
    return "it is not UTF-8 text; save it as UTF-8" if "UTF8" in reason else reason


def arrange_columns(table: pa.Table, wanted: Wanted, where: str) -> pa.Table:
    """Return the columns ``wanted`` of a table: those that the model reads, then the kept ones.

    Raises a ValueError, in which ``where`` is the data's name, if columns are missing or damaged.
    """
    return validate(select_at(table, partial(wanted.positions, where=where)), where)


def validate(table: pa.Table, where: str) -> pa.Table:
    """Return the table; raise a ValueError, in which ``where`` is its name, if Arrow finds that it is damaged."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{where} is damaged: {reason_of(error)}.") from error
    return table


def split(table: pa.Table, wanted: Wanted, where: str, first: int = 0, *, are_cells: bool = False) -> DataChunk:
    """Return the chunk of a table that `arrange_columns` returned: its first columns are the model's, the others kept.

    ``where``, ``first`` and ``are_cells`` are fields of the chunk.
    """
    number = wanted.columns.number
    kept = table.select(range(number, table.num_columns))
    return DataChunk(table.select(range(number)), kept, where, first, are_cells)


def rechunk(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of all tables, in order, in tables of ``rows`` rows, each column in one piece of memory.

    The last table may have fewer rows, and so may one before the types of columns change.
    """
    rest: list[pa.Table] = []  # rows that have not been yielded: fewer than a full table
    n_rest = 0
    for table in tables:
        if rest and not rest[0].schema.equals(table.schema):
            yield pa.concat_tables(rest).combine_chunks()
            rest = []
            n_rest = 0
        start = 0
        while n_rest + table.num_rows - start >= rows:
            completion = table.slice(start, rows - n_rest)  # what makes the rest a full table
            start += completion.num_rows
            yield pa.concat_tables([*rest, completion]).combine_chunks()
            rest = []
            n_rest = 0
        if start < table.num_rows:
            rest.append(table.slice(start))
            n_rest += rest[-1].num_rows
    if n_rest:
        yield pa.concat_tables(rest).combine_chunks()


def _parquet_rows(file: Path, wanted: Wanted, n_rows: int, skip: int) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file after the first ``skip``, with the columns ``wanted``, ``n_rows`` at a time.

    A table may have fewer rows. Raises an UnreadableError if the file has fewer rows than it claims.
    """
    # Without a buffer Arrow reads all of a column in a row group at once. With `pre_buffer`, its default, it keeps all
    # bytes that it has read until the file is closed.
    settings: dict[str, Any] = {"buffer_size": BUFFER_BYTES, "pre_buffer": False, "page_checksum_verification": True}
    with parquet.ParquetFile(file, **settings) as parquet_file:
        names = [*wanted.names(parquet_file.schema_arrow.names, str(file)), *wanted.keep]
        metadata = parquet_file.metadata
        rows_of_groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        n_claimed = sum(rows_of_groups)
        if n_claimed != metadata.num_rows:
            raise UnreadableError(f"it says that it has {metadata.num_rows} rows, and its groups {n_claimed}")
        first_group = 0  # groups of which all rows are skipped are not read
        while first_group < len(rows_of_groups) and rows_of_groups[first_group] <= skip:
            skip -= rows_of_groups[first_group]
            first_group += 1
        groups = list(range(first_group, len(rows_of_groups)))
        n_left = sum(rows_of_groups[first_group:])
        for batch in parquet_file.iter_batches(n_rows, row_groups=groups, columns=list(dict.fromkeys(names))):
            n_left -= batch.num_rows
            n_skipped = min(skip, batch.num_rows)
            skip -= n_skipped
            yield arrange_columns(pa.Table.from_batches([batch.slice(n_skipped)]), wanted, str(file))
        if n_left:
            raise UnreadableError(f"{n_left} rows are missing of the {n_claimed} that it claims")


def _arrow_rows(file: Path, wanted: Wanted, n_rows: int, skip: int) -> Iterator[pa.Table]:
    """Yield the rows of an Arrow file after the first ``skip``, with the columns ``wanted``, ``n_rows`` at a time.

    A table may have fewer rows. Raises an UnreadableError if the file is empty, or if its end lists other batches.
    """
    size = file.stat().st_size
    if not size:
        raise UnreadableError("it is empty")
    for piece in _arrow_pieces(file, size, wanted, n_rows):
        n_skipped = min(skip, piece.num_rows)
        skip -= n_skipped
        if n_skipped < piece.num_rows:
            yield arrange_columns(pa.Table.from_batches([piece.slice(n_skipped)]), wanted, str(file))


def _arrow_pieces(file: Path, size: int, wanted: Wanted, n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows of an Arrow file of ``size`` bytes in batches of at most ``n_rows`` rows.

    Batches have the columns ``wanted``, in the file's order. Raises an UnreadableError unless the file has as many
    batches as its end lists.
    """
    with file_for_arrow(file) as (raw, stream):
        reader = pa.ipc.open_file(stream)
        names = reader.schema.names
        n_listed = reader.num_record_batches
        del reader  # an error's frames would hold it
        positions = sorted({names.index(name) for name in (*wanted.names(names, str(file)), *wanted.keep)})
        if (n_batches := _written_batches(raw, size)) not in (n_listed, None):
            raise UnreadableError(f"its end names {n_listed} batches of rows, and there are {n_batches}")
        if size <= LARGEST_BATCH * max(n_listed, 1):
            # Not mapped: if another process cuts pages off, access to them would kill this process by a signal.
            reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(included_fields=positions))
            pieces = (batch.slice(i, n_rows) for batch in _batches(reader, n_listed) for i in _starts(batch, n_rows))
            del reader
        else:  # too large to be read whole: each piece is copied right after a check that the file was not cut
            pieces = _mapped_pieces(file, size, positions, n_rows)
        del stream  # so that at the end of the pieces nothing holds the file any more
        yield from pieces


def _written_batches(raw: WholeReads, size: int) -> int | None:
    """Return the number of batches in an Arrow file, counted by its messages and not by the list at its end.

    ``raw`` reads the file, which has ``size`` bytes. None if the first message is not a schema, as in files of Polars.
    """
    # A message is a prefix of a mark and a length, 4 bytes each, then metadata of this length, then a body.
    position = 8  # behind the format's name
    n_batches = None  # until the first message, which must be a schema, is read
    while position + 8 <= size:
        raw.seek(position)
        prefix = raw.read(8)
        has_mark = prefix[:4] == b"\xff" * 4  # files before Arrow 0.15 lack this mark before the length
        length = int.from_bytes(prefix[4:] if has_mark else prefix[:4], "little", signed=True)
        start = position + (8 if has_mark else 4)
        if not 8 <= length <= size - start:  # 0 ends the messages; other lengths below 8 hold none
            break
        raw.seek(start)
        kind, body_size = _kind_and_body(raw.read(length))
        if not 0 <= body_size <= size - start - length:
            break
        if n_batches is None:
            if kind != _SCHEMA:
                break
            n_batches = 0
        elif kind == _BATCH:
            n_batches += 1
        position = start + length + body_size
    return n_batches


_SCHEMA, _BATCH = 1, 3  # kinds of Arrow messages


def _kind_and_body(message: bytes) -> tuple[int, int]:
    """Return the kind of an Arrow message, and the size of its body in bytes; (0, -1) if the message is damaged."""
    try:
        # The message begins with the table's position, and the table with the distance back to the list of its fields.
        # That list has its size and the table's size, 2 bytes each, then the fields' offsets in the table. An offset of
        # 0 stands for an absent field, and so does the end of a list: zeros are appended for the fields 0 to 3.
        (table,) = struct.unpack_from("<I", message)
        fields = table - struct.unpack_from("<i", message, table)[0]
        n_fields = (struct.unpack_from("<H", message, fields)[0] - 4) // 2
        offsets = struct.unpack_from(f"<{n_fields}H", message, fields + 4) + (0,) * 4
        # The kind is field 1, the body's size field 3.
        kind = message[table + offsets[1]] if offsets[1] else 0
        body_size = struct.unpack_from("<q", message, table + offsets[3])[0] if offsets[3] else 0
        return kind, body_size
    except (struct.error, IndexError):
        return 0, -1


def _batches(opened: Any, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the first ``number`` batches of an Arrow file's reader; raise Arrow's error if one is damaged."""
    for i in range(number):
        batch = opened.get_batch(i)
        batch.validate()
        yield batch


def _starts(batch: pa.RecordBatch, n_rows: int) -> range:
    """Return the positions in a batch of every ``n_rows``-th row, from the first."""
    return range(0, batch.num_rows, n_rows)


def _mapped_pieces(file: Path, size: int, positions: list[int], n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows of an Arrow file whose batches are too large to be read whole, at most ``n_rows`` at a time.

    They are copies, with the columns at ``positions``. Raises an UnreadableError once the file is below ``size`` bytes.
    """
    with open(file, "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last array in it
        _check_whole(stream, size)
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)))
        for batch in _batches(reader, reader.num_record_batches):
            for start in _starts(batch, n_rows):
                _check_whole(stream, size)  # right before the copy, so that the file is hardly cut off in between
                piece = _copy(batch.select(positions).slice(start, n_rows))
                _let_go(mapped)
                yield piece


def _copy(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of a batch in memory of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _check_whole(stream: Any, size: int) -> None:
    """Raise an UnreadableError if the open file ``stream`` has fewer than ``size`` bytes."""
    if os.fstat(stream.fileno()).st_size < size:
        raise UnreadableError("it became shorter while it was read")


def _let_go(mapped: mmap.mmap) -> None:
    """Free the memory that holds pages of a mapped file; a later access reads them again."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _arrow_schema(file: Path) -> pa.Schema:
    """Return the schema of an Arrow file."""
    with file_for_arrow(file) as (_, stream):
        schema = pa.ipc.open_file(stream).schema
        del stream
    return schema


def _are_paths(source: Any) -> bool:
    """Return whether a source is a list or a tuple of paths, and not empty."""
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(path, str | Path) for path in source)

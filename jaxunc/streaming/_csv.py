"""Text files as Arrow tables: each column as the model knows it, or as what all its cells are."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as arrow_csv

from jaxunc.tables import MISSING_WORDS

from ._blocks import Block, blocks_of
from ._cells import Kind, NumberReader, typed
from ._dialect import Dialect, read_dialect
from ._formats import UnreadableError
from ._wanted import Wanted, check_distinct

compute: Any = pyarrow.compute
BLOCK_BYTES = 2**22
"""Bytes read at a time. Their numbers take eight times as much for short cells."""
PEEK_BYTES = 2**20
"""Bytes that are read to see how columns may be read quickly."""

_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns?, got (\d+)")


def csv_table(file: Path) -> pa.Table:
    """Read a whole file, each column as what all its cells are; raises a ValueError or an error of Arrow."""
    dialect = read_dialect(file)
    check_distinct(dialect.names)
    types = dict.fromkeys(dialect.names, pa.string())
    blocks = [_parsed(block, dialect, types, ()) for block in _blocks_of(file, dialect)]
    if not blocks:
        return pa.table({name: pa.array([], pa.float64()) for name in dialect.names})
    texts = pa.concat_tables(blocks)
    commas = dialect.may_have_decimal_commas
    return pa.table({name: typed(texts[name], MISSING_WORDS, may_have_commas=commas) for name in dialect.names})


def csv_rows(file: Path, wanted: Wanted, skip: int) -> Iterator[pa.Table]:
    """Yield the rows after the first ``skip`` by blocks: columns as the model knows them, carried ones as they stand.

    Arrow makes numbers while it reads, which is quick. Some cells are understood by `NumberReader` alone: bools,
    decimal commas, spaces. From the first of them the rest of the file is read as text and converted here. Numbers are
    the same either way.
    """
    reader = _RowReader(file, wanted)
    done = 0
    try:
        for rows in reader.quickly():
            done += rows.num_rows
            # Rows that were skipped are read all the same: a text file has no other way to its middle.
            yield rows.slice(max(0, rows.num_rows - max(0, done - skip)))
        return
    except pa.ArrowInvalid:
        skip = max(skip, done)
    done = 0
    for rows in reader.carefully():
        done += rows.num_rows
        yield rows.slice(max(0, rows.num_rows - max(0, done - skip)))


def count_csv_rows(file: Path) -> int:
    """Return how many rows a text file has, by its lines."""
    return sum(len(block.starts()) for block in _blocks_of(file, read_dialect(file)))


class _RowReader:
    """A reader of a file's blocks that lays their columns out: the model's, then those that are carried along."""

    def __init__(self, file: Path, wanted: Wanted):
        self._file, self._wanted = file, wanted
        self._dialect = read_dialect(file)
        self._features = wanted.names(self._dialect.names, str(file))
        levels = wanted.columns.levels or (None,) * len(self._features)
        self._are_words = [own is not None and all(isinstance(one, str | bool) for one in own.values) for own in levels]

    def quickly(self) -> Iterator[pa.Table]:
        """Yield blocks whose numbers Arrow makes; an error of Arrow where a cell is no number to it."""
        types, seem_boolean = {}, self._that_seem_boolean()
        for j, name in enumerate(self._features):
            is_boolean = self._kind(j) == "boolean" or name in seem_boolean
            types[name] = pa.string() if self._are_words[j] else pa.bool_() if is_boolean else pa.float64()
        types |= dict.fromkeys(self._wanted.keep, pa.string())
        return self._laid_out(types, self._readers())

    def carefully(self) -> Iterator[pa.Table]:
        """Yield blocks that are read as text; numbers are made here."""
        types = dict.fromkeys([*self._features, *self._wanted.keep], pa.string())
        return self._laid_out(types, self._readers())

    def _laid_out(self, types: dict, readers: list[NumberReader]) -> Iterator[pa.Table]:
        for text in _blocks_of(self._file, self._dialect):
            block = _parsed(text, self._dialect, types, self._missing_words)
            columns = []
            for j, name in enumerate(self._features):
                column = block.column(name)
                if not self._are_words[j] and not pa.types.is_float64(column.type):
                    # What was not read as numbers is made so here: words by the cells' own rules, bools as 0 and 1.
                    is_text = pa.types.is_string(column.type)
                    column = readers[j](column) if is_text else column.cast(pa.float64())
                columns.append(column)
            columns += [_without_empty_cells(block.column(name)) for name in self._wanted.keep]
            yield pa.table(columns, names=[*self._features, *self._wanted.keep])

    def _readers(self) -> list[NumberReader]:
        commas = self._dialect.may_have_decimal_commas
        return [
            NumberReader(name, self._kind(j), self._missing_words, may_have_commas=commas)
            for j, name in enumerate(self._features)
        ]

    def _kind(self, j: int) -> Kind:
        columns = self._wanted.columns
        if columns.boolean is None or (columns.levels is not None and columns.levels[j] is not None):
            return "either"
        return "boolean" if columns.boolean[j] else "number"

    @property
    def _missing_words(self) -> tuple[str, ...]:
        return self._wanted.columns.missing_words

    def _that_seem_boolean(self) -> set[str]:
        """Names of columns that may hold both and hold bools in the first rows. It changes the speed, no answer."""
        names = [name for j, name in enumerate(self._features) if self._kind(j) == "either" and not self._are_words[j]]
        if not names:
            return set()
        for block in _blocks_of(self._file, self._dialect, PEEK_BYTES):
            with suppress(pa.ArrowInvalid):
                schema = _parsed(block, self._dialect, {}, self._missing_words, names).schema
                return {field.name for field in schema if pa.types.is_boolean(field.type)}
            break
        return set()


def _blocks_of(file: Path, dialect: Dialect, size: int | None = None) -> Iterator[Block]:
    one = len(dialect.names) == 1
    return blocks_of(file, dialect.head, dialect.line, dialect.separator, size or BLOCK_BYTES, one_column=one)


def _parsed(
    block: Block, dialect: Dialect, types: dict, missing_words: Sequence[str], names: Sequence[str] | None = None
) -> pa.Table:
    """The rows of a block, all of them; raises an error of Arrow, or an UnreadableError for a row of other length."""
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(block.text)),
            # No threads: Arrow then says which row is wrong, and a reader of files beside scorers takes one core.
            read_options=arrow_csv.ReadOptions(
                block_size=len(block.text) + 1, column_names=list(dialect.names), use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(names or types),
                null_values=list(missing_words),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if ragged := _RAGGED.search(str(error)):
            line, (expected, found) = block.line_of(int(ragged[1]) - 1), ragged.groups()[1:]
            raise UnreadableError(
                f"a row has {found} cells, but the first line has {expected} names (line {line})"
            ) from error
        raise
    block.check(table.num_rows)
    return table


def _without_empty_cells(column: Any) -> Any:
    """Return strings as they stand; null where nothing stands."""
    is_empty = compute.equal(column, "")
    return compute.if_else(is_empty, pa.scalar(None, pa.string()), column) if compute.any(is_empty).as_py() else column

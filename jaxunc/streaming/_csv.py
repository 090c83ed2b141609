"""Text files as tables of Arrow: columns have the types of the model, or without a model a type that fits all cells.

The first line shows the `Dialect`, `_csv_blocks` yields blocks of whole rows, and Arrow parses each block. The cells
show how numbers are written (`_notation`). With a model `NumberReader` reads cells that Arrow does not understand;
without one `infer_column` finds the types.
"""

import collections
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as arrow_csv

from jaxunc.tables import FALSE_WORDS, MISSING_WORDS, TRUE_WORDS, Lookup

from ._csv_blocks import Block, blocks_of, has_marks_of_others, open_bytes
from ._in_memory import arrow_texts
from ._notation import Evidence, Notation, is_all, is_any, strip_cells, tell_other_notation, write_plainly
from ._sources import TSV, UnreadableError, Wanted, check_distinct

compute: Any = pyarrow.compute  # type checkers do not know its functions, which are made when it is imported
Kind = Literal["number", "boolean", "either"]  # kind of a column that is not nominal; "either" if unknown to the model
_EXPECTED = {"number": "numbers", "boolean": "true and false", "either": "numbers, true and false"}  # for messages
_TEXT = pa.string()
_WHOLE = r"^(0|-?[1-9][0-9]{0,19})$"  # pattern of integers; -0 is a float
BLOCK_BYTES = 2**22  # bytes that are read at a time; their numbers take up to eight times as much, for short cells
PEEK_BYTES = 2**20  # bytes at the beginning of a file that tell which columns seem to hold bools
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns?, got (\d+)")  # in Arrow's error for a row of other length
SEPARATORS = ",;\t"
LONGEST_HEADER = 2**22  # most bytes before the first row; with more, a quotation mark is taken for left open
BYTE_ORDER_MARK = "\ufeff"
_QUOTED = re.compile(r'"(?:[^"]|"")*("|$)')  # a quoted cell


def csv_table(file: Path, wish: Notation) -> tuple[pa.Table, Notation]:
    """Return a whole text file as a table, and the `Notation` of its numbers; a column has a type that fits its cells.

    ``wish`` has the marks that the caller names. Raises a ValueError or an error of Arrow for an unreadable file.
    """
    dialect = read_dialect(file)
    check_distinct(dialect.names)
    types = dict.fromkeys(dialect.names, pa.string())
    evidence = Evidence(dialect.names, _words(MISSING_WORDS), wish)
    blocks = []
    for block in _blocks_of(file, dialect):
        blocks.append(_parse(block, dialect, types, missing_words=()))
        _look_at(block, dialect, evidence, MISSING_WORDS)
    notation = evidence.notation(file, dialect.separator)
    if not blocks:
        return pa.table({name: pa.array([], pa.float64()) for name in dialect.names}), notation
    texts = pa.concat_tables(blocks)
    return pa.table({name: infer_column(texts[name], MISSING_WORDS, notation) for name in dialect.names}), notation


def csv_rows(file: Path, wanted: Wanted, skip: int) -> Iterator[pa.Table]:
    """Yield tables of the rows of a text file after the first ``skip``, with the columns ``wanted``.

    The model's columns have its types, and kept columns are texts. Raises a ValueError or an error of Arrow for an
    unreadable file.
    """
    # Arrow makes the numbers, which is quick. If a cell needs `NumberReader` (a bool, a mark between thousands, or
    # spaces), the file is read again from its start as text, of which `NumberReader` makes the same numbers. Skipped
    # rows are read, too: a text file has no other way to its middle.
    reader = _RowReader(file, wanted)
    n_read = 0
    try:
        for table in reader.read_quickly():
            n_read += table.num_rows
            yield _rows_after(skip, table, n_read)
        return
    except (pa.ArrowInvalid, _NoNumberError):
        skip = max(skip, n_read)  # rows that were yielded are not yielded again
    n_read = 0
    for table in reader.read_carefully():
        n_read += table.num_rows
        yield _rows_after(skip, table, n_read)


def _rows_after(skip: int, table: pa.Table, n_read: int) -> pa.Table:
    """Return the rows of a table that come after the file's first ``skip``; ``n_read`` rows of the file end with it."""
    n_left = max(0, n_read - skip)
    return table.slice(max(0, table.num_rows - n_left))


def count_csv_rows(file: Path) -> int:
    """Return the number of rows of a text file; an empty line is no row."""
    return sum(len(block.starts()) for block in _blocks_of(file, read_dialect(file)))


class Dialect(NamedTuple):
    """The separator and the column names of a text file, and where its rows begin."""

    separator: str
    """Comma, semicolon or tab: the most frequent one in the first line, outside of quotation marks.

    Of a ``.tsv`` it is the tab, if there is any: names may hold commas.
    """
    names: tuple[str, ...]  # names of the columns; an empty one becomes ``Unnamed: 0`` with its position, as in pandas
    head: int  # bytes before the first row: empty lines, and the lines of the names
    line: int  # number of the line of the first row


def read_dialect(file: Path) -> Dialect:
    """Return the `Dialect` of a text file, which its first line that is not empty shows.

    Raises an UnreadableError for a file without such a line, and for one that is not UTF-8 text.
    """
    with open_bytes(file) as stream:
        if b"\0" in stream.read(2**16):  # a zero byte further on is found with its line, when the rows are read
            raise UnreadableError("it holds binary data, not UTF-8 text")
        stream.seek(0)
        # Arrow decodes the rows; only the names have to be UTF-8 here.
        text = io.TextIOWrapper(cast(Any, stream), encoding="utf-8", errors="surrogateescape", newline="")
        lines = _CountedLines(text)
        for first_line in lines:
            first_line = first_line.removeprefix(BYTE_ORDER_MARK)
            if first_line.strip():
                break
        else:
            raise UnreadableError("it is empty; expected the names of columns in its first line")
        # The separator is sought in the first line alone, since rows may hold decimal commas and free text.
        n_of_letter = collections.Counter(_QUOTED.sub("", first_line))
        is_tsv = file.name.lower().endswith(TSV) and "\t" in n_of_letter
        separator = "\t" if is_tsv else max(SEPARATORS, key=n_of_letter.__getitem__)
        reader = csv.reader(itertools.chain([first_line], lines), delimiter=separator)
        try:
            names = [_check_name(name) for name in next(reader)]
        except csv.Error as error:
            raise UnreadableError(f"its first line cannot be read: {error}") from error
        text.detach()  # else it would close the stream
    column_names = tuple(name or f"Unnamed: {i}" for i, name in enumerate(names))
    return Dialect(separator, column_names, lines.n_bytes, lines.number + 1)


class _CountedLines:
    """An iterator over ``lines`` of text that counts the lines and bytes so far."""

    def __init__(self, lines: Iterable[str]):
        self._lines = iter(lines)
        self.number = 0
        self.n_bytes = 0

    def __iter__(self) -> "_CountedLines":
        return self

    def __next__(self) -> str:
        """Return the next line; raise an UnreadableError if it ends after the first `LONGEST_HEADER` bytes."""
        line = next(self._lines)
        self.number += 1
        self.n_bytes += len(line.encode("utf-8", "surrogateescape"))
        # A quotation mark that is never closed would make one row of the whole file.
        if self.n_bytes > LONGEST_HEADER:
            raise UnreadableError("its first line never ends; is a quotation mark left open?")
        return line


def _check_name(name: str) -> str:
    """Return the name of a column unchanged; raise an UnreadableError if it is not UTF-8 text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UnreadableError("it is not UTF-8 text; save it as UTF-8") from None
    return name


class _NoNumberError(UnreadableError):
    """A cell in a column of numbers is no number, as far as `NumberReader` knows the file's notation."""


class NumberReader:
    """A function from the cells of a column to float64, which is called block by block from the first row on.

    ``name`` is the column's name in messages, and ``notation`` the file's. Spaces around a cell are dropped, and a cell
    among ``missing_words`` is null. A bool is 0 or 1, unless the column's ``kind`` is "number". With ``as_texts``
    numbers are texts with all digits, with decimal points and no other marks.
    """

    def __init__(
        self, name: str, kind: Kind, missing_words: Sequence[str], notation: Notation, *, as_texts: bool = False
    ):
        self._name, self._kind, self._notation, self._as_texts = name, kind, notation, as_texts
        self._missing = _words(missing_words)
        self._n_read = 0  # number of cells that were converted

    def __call__(self, cells: Any) -> Any:
        """Return the numbers in the column's next ``cells``; raise an UnreadableError for a cell that is no number."""
        words = strip_cells(cells, self._missing)
        numbers = self.floats(words)
        if numbers is None:
            # Cell by cell only now: the cast of the whole part does not tell which cell is wrong.
            row = next(i for i in range(len(words)) if self.floats(words.slice(i, 1)) is None)
            marks = "" if self._kind == "boolean" or self._notation.is_plain else f", {self._notation.words}"
            raise _NoNumberError(
                f"row {self._n_read + row + 1} of the data holds {cells[row].as_py()!r:.60} in column {self._name!r}; "
                f"the model's column holds {_EXPECTED[self._kind]}{marks}"
            )
        self._n_read += len(cells)
        return self._texts(words) if self._as_texts else numbers

    def floats(self, cells: Any) -> Any:
        """Return ``cells``, which have no outer spaces, as numbers; None if one is no number of the column's kind."""
        words = self._texts(cells)
        if words is None:
            return None
        try:
            numbers = words.cast(pa.float64())
        except pa.ArrowInvalid:
            return None
        # 0 and 1 are the only numbers that are their own squares.
        if self._kind == "boolean" and is_any(compute.not_equal(compute.multiply(numbers, numbers), numbers)):
            return None
        return numbers

    def _texts(self, cells: Any) -> Any:
        """Return ``cells`` as texts that a cast reads as numbers, bools as 0 and 1; None if a cell has wrong marks."""
        if self._kind != "number":
            cells = _booleans_as_digits(cells)
        return write_plainly(cells, self._notation)


def infer_column(cells: Any, missing_words: Sequence[str], notation: Notation) -> Any:
    """Return the ``cells`` of a whole column, strings, in the first type that fits: bools, integers, floats, strings.

    Cells among ``missing_words`` become null, and a column of such cells alone becomes floats. ``notation`` is the
    file's.
    """
    stripped = strip_cells(cells, _words(missing_words))
    # Each value once: a column of few values, such as bools, takes a few comparisons.
    distinct = compute.drop_null(compute.unique(stripped))
    if len(distinct) and is_all(compute.is_in(distinct, value_set=_words(TRUE_WORDS + FALSE_WORDS))):
        is_true = compute.is_in(stripped, value_set=_words(TRUE_WORDS))
        return compute.if_else(compute.is_null(stripped), pa.scalar(None, pa.bool_()), is_true)
    plain_cells = write_plainly(stripped, notation)
    # Integers are written otherwise once marks between thousands are gone; a decimal mark alone is in no integer.
    if plain_cells is not None and notation.thousands is not None:
        distinct = compute.drop_null(compute.unique(plain_cells))
    if plain_cells is not None and len(distinct) and is_all(compute.match_substring_regex(distinct, _WHOLE)):
        for integer_type in (pa.int64(), pa.uint64()):
            with suppress(pa.ArrowInvalid):  # integers beyond 64 bits become floats
                return plain_cells.cast(integer_type)
    if plain_cells is not None:
        with suppress(pa.ArrowInvalid):
            return plain_cells.cast(pa.float64())
    return compute.if_else(compute.is_null(stripped), pa.scalar(None, _TEXT), cells)


def _words(words: Sequence[str]) -> pa.Array:
    """Return words as an Arrow array, without spaces around them."""
    return arrow_texts([word.strip() for word in words])


def _booleans_as_digits(words: Any) -> Any:
    """Return an Arrow array of strings with "1" and "0" in place of words for true and false."""
    for digit, bool_words in (("1", TRUE_WORDS), ("0", FALSE_WORDS)):
        is_word = compute.is_in(words, value_set=_words(bool_words))
        if is_any(is_word):
            words = compute.if_else(is_word, digit, words)
    return words


class _RowReader:
    """A reader of a text file block by block, as tables of the columns ``wanted``: the model's, then the kept ones."""

    def __init__(self, file: Path, wanted: Wanted):
        self._file, self._wanted = file, wanted
        self._dialect = read_dialect(file)
        self._features = wanted.names(self._dialect.names, str(file))  # names in the file of the model's columns
        levels = wanted.columns.levels or (None,) * len(self._features)
        # By the model's column: whether its levels are words; and whether they are integers that float64 would merge.
        self._are_words = [
            column is not None and all(isinstance(level, str | bool) for level in column.values) for column in levels
        ]
        self._are_large = [isinstance(lookup, Lookup) and lookup.are_large for lookup in wanted.columns.lookups]

    def read_quickly(self) -> Iterator[pa.Table]:
        """Yield all blocks as tables, with numbers that Arrow reads; raise a pa.ArrowInvalid if it cannot."""
        notation = self._notation_by_bytes() or self._notation
        tell_other_notation(self._file, notation, self._usual)
        if notation.thousands is not None:
            raise pa.ArrowInvalid("Arrow reads no marks between thousands")
        seem_boolean = self._guess_booleans()
        types = {}
        for j, name in enumerate(self._features):
            if self._are_words[j] or self._are_large[j]:
                types[name] = pa.string()
            elif self._kind(j) == "boolean" or name in seem_boolean:
                types[name] = pa.bool_()
            else:
                types[name] = pa.float64()
        types |= dict.fromkeys(self._wanted.keep, pa.string())
        yield from self._tables(types, notation)

    def read_carefully(self) -> Iterator[pa.Table]:
        """Yield all blocks as tables, with numbers that `NumberReader` makes of texts."""
        types = dict.fromkeys([*self._features, *self._wanted.keep], pa.string())
        return self._tables(types, self._notation)

    @property
    def _usual(self) -> Notation:
        """The notation of the text file that the model was fitted on."""
        return Notation(self._wanted.columns.decimal, self._wanted.columns.thousands)

    def _notation_by_bytes(self) -> Notation | None:
        """Return the file's notation if the caller names it, or the file's bytes show it; else None."""
        wish = self._wanted.notation.implied
        if wish.decimal is not None:
            return wish
        # Bytes can exclude all marks but decimal points. They do not tell other notations apart.
        may_be_plain = self._usual.decimal in (None, ".") and wish.thousands is None and self._dialect.separator == ","
        return Notation(".") if may_be_plain and not has_marks_of_others(self._file) else None

    @cached_property
    def _notation(self) -> Notation:
        """The file's notation: the one that the caller names, or else the one that explains all cells of the file."""
        wish = self._wanted.notation.implied
        if wish.is_settled:
            return wish
        columns_of_words = {name for name, are_words in zip(self._features, self._are_words, strict=True) if are_words}
        names = [name for name in self._dialect.names if name not in columns_of_words]
        evidence = Evidence(names, _words(self._missing_words), wish)
        for block in _blocks_of(self._file, self._dialect):
            _look_at(block, self._dialect, evidence, self._missing_words)
        notation = evidence.notation(self._file, self._dialect.separator, self._usual)
        return notation._replace(decimal=wish.decimal or notation.decimal)  # also a wish that no cell shows

    def _tables(self, types: dict, notation: Notation) -> Iterator[pa.Table]:
        """Yield all blocks as tables; ``types`` is {column: type in which Arrow reads it}, ``notation`` the file's."""
        missing_words = self._missing_words
        readers = [
            NumberReader(name, self._kind(j), missing_words, notation, as_texts=self._are_large[j])
            for j, name in enumerate(self._features)
        ]
        for block in _blocks_of(self._file, self._dialect):
            table = _parse(block, self._dialect, types, missing_words, decimal=notation.decimal)
            columns = []
            for j, name in enumerate(self._features):
                column = table.column(name)
                if not self._are_words[j] and not pa.types.is_float64(column.type):
                    # Not numbers yet: texts are for `NumberReader`, and bools become 0 and 1.
                    is_text = pa.types.is_string(column.type)
                    column = readers[j](column) if is_text else column.cast(pa.float64())
                columns.append(column)
            columns += [_without_empty_cells(table.column(name)) for name in self._wanted.keep]
            yield pa.table(columns, names=[*self._features, *self._wanted.keep])

    def _kind(self, j: int) -> Kind:
        """Return the kind of the model's column ``j``; "either" if it is unknown, or the column has levels."""
        columns = self._wanted.columns
        if columns.boolean is None or (columns.levels is not None and columns.levels[j] is not None):
            return "either"
        return "boolean" if columns.boolean[j] else "number"

    @property
    def _missing_words(self) -> tuple[str, ...]:
        """Cells that mean a missing value."""
        return self._wanted.columns.missing_words

    def _guess_booleans(self) -> set[str]:
        """Return the names of columns of kind "either" that hold bools at the file's beginning.

        A wrong guess only costs time: the file is then read again.
        """
        names = [name for j, name in enumerate(self._features) if self._kind(j) == "either" and not self._are_words[j]]
        if not names:
            return set()
        first_block = next(_blocks_of(self._file, self._dialect, PEEK_BYTES), None)
        if first_block is not None:
            with suppress(pa.ArrowInvalid):
                schema = _parse(first_block, self._dialect, {}, self._missing_words, names=names).schema
                return {field.name for field in schema if pa.types.is_boolean(field.type)}
        return set()


def _blocks_of(file: Path, dialect: Dialect, size: int | None = None) -> Iterator[Block]:
    """Yield all rows of a text file in blocks of about ``size`` bytes, by default `BLOCK_BYTES`."""
    is_one_column = len(dialect.names) == 1
    return blocks_of(file, dialect.head, dialect.line, dialect.separator, size or BLOCK_BYTES, one_column=is_one_column)


def _parse(
    block: Block,
    dialect: Dialect,
    types: dict,
    missing_words: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    decimal: str | None = None,
) -> pa.Table:
    """Return all rows of a block as a table of the columns ``names``, by default those in ``types``.

    ``types`` is {column: Arrow's type}; Arrow infers the type of another column. ``missing_words`` are null except in
    columns of strings. ``decimal`` is the decimal mark, by default a point. Raises a pa.ArrowInvalid for a cell that is
    not of its column's type. Raises an UnreadableError for a row with more or fewer cells than the file has columns.
    """
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(block.text)),
            # Without threads Arrow tells which row is wrong, and other cores are left to the thread that scores.
            read_options=arrow_csv.ReadOptions(
                block_size=len(block.text) + 1, column_names=list(dialect.names), use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(names or types),
                null_values=list(missing_words),
                strings_can_be_null=False,
                decimal_point=decimal or ".",
            ),
        )
    except pa.ArrowInvalid as error:
        if ragged := _RAGGED.search(str(error)):
            row, n_names, n_cells = map(int, ragged.groups())  # Arrow counts rows from 1
            line = block.line_of(row - 1)
            raise UnreadableError(
                f"a row has {n_cells} cells, but the first line has {n_names} names (line {line})"
            ) from error
        raise
    block.check(table.num_rows)
    return table


def _look_at(block: Block, dialect: Dialect, evidence: Evidence, missing_words: Sequence[str]) -> None:
    """Add the cells of a block to the ``evidence`` of its file's notation; ``missing_words`` show nothing."""
    if not evidence.texts:
        return
    try:
        table = _parse(block, dialect, evidence.types, missing_words, decimal=evidence.decimal)
    except pa.ArrowInvalid:  # a cell is no number with the marks seen so far: all cells are looked at, as texts
        table = _parse(block, dialect, evidence.texts, missing_words)
    evidence.add(table)


def _without_empty_cells(column: Any) -> Any:
    """Return a column of strings with null in place of empty cells."""
    is_empty = compute.equal(column, "")
    return compute.if_else(is_empty, pa.scalar(None, pa.string()), column) if is_any(is_empty) else column

"""Blocks of whole rows of a text file, and how many rows they hold, to check that a parser loses none."""

import gzip
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._sources import UnreadableError

LONGEST = 16  # most blocks of a row: a quotation mark left open would make one row of the rest of the file
_PIECE = 2**17  # bytes that are searched together: as many as fit in a processor's cache
_END = ord("\n")
_RETURN = ord("\r")
_QUOTE = ord('"')


class Block(NamedTuple):
    """Whole rows of a text file."""

    text: memoryview
    line: int  # number of the block's first line in the file, from 1
    n_lines: int  # number of line ends in the block
    starts: Callable[[], np.ndarray]  # returns the positions in ``text`` where rows start; an empty line is no row

    def check(self, n_rows: int) -> None:
        """Raise an UnreadableError unless the block has ``n_rows`` rows, as many as a parser has read."""
        # Lines are quick to count. Rows are fewer where cells span lines, or lines are empty: then they are counted.
        whole_lines = self.n_lines + (self.text[-1] not in b"\r\n")  # the file's last line may lack its end
        if n_rows != whole_lines and n_rows != (n_starts := len(self.starts())):
            raise UnreadableError(f"{n_rows} rows were read of the {n_starts} in lines {self.line} to {self._last}")

    def line_of(self, row: int) -> int:
        """Return the number, from 1, of the line of the file in which the block's row ``row``, from 0, starts."""
        starts = self.starts()
        start = starts[min(row, len(starts) - 1)]
        return self.line + _count_line_ends(bytes(self.text[:start]))

    @property
    def _last(self) -> int:
        """Number of the block's last line in the file, or of the line behind it if the block ends with a line end."""
        return self.line + self.n_lines


def is_compressed(file: Path) -> bool:
    """Return whether a file is compressed by gzip: its name ends with ``.gz``."""
    return file.name.lower().endswith(".gz")


@contextmanager
def open_bytes(file: Path) -> Iterator[Any]:
    """Return a context with the stream of a file's bytes, decompressed if its name ends with ``.gz``."""
    with open(file, "rb") as raw:
        if is_compressed(file):
            with gzip.open(raw) as text:
                yield text
        else:
            yield raw


def blocks_of(file: Path, head: int, line: int, separator: str, size: int, *, one_column: bool) -> Iterator[Block]:
    """Yield all rows of a text file, in blocks of about ``size`` bytes.

    The first row begins in line ``line``, after ``head`` bytes; ``separator`` stands between cells. Raises an
    UnreadableError for a quotation mark that is left open, by which a parser would join rows, for a zero byte, and if
    the file ends early. With ``one_column`` it is also raised for an empty line, which may or may not be a row.
    """
    # The bytes are read here and not by the parser, whose threads read ahead and could outlive the file.
    with open(file, "rb") as raw:
        stream: Any = gzip.GzipFile(fileobj=raw) if is_compressed(file) else raw
        if len(_with_more(b"", stream, head)) < head:
            raise UnreadableError("it became shorter while it was read")
        leftover = b""
        while True:
            text = _with_more(leftover, stream, size)
            if text.endswith(b"\r"):
                text += stream.read(1)  # the other half of a line end
            is_last = len(text) < len(leftover) + size
            if is_last:
                _check_size(raw)
            if not text:
                return
            block, rows_end = _block_of(text, line, separator, is_last=is_last, one_column=one_column)
            leftover = bytes(memoryview(text)[rows_end:])
            if rows_end:
                yield block
                line += block.n_lines
            elif len(leftover) > LONGEST * size:
                raise UnreadableError(
                    f"the row in line {line} is longer than {len(leftover)} bytes; is a quotation mark left open?"
                )
            if is_last:
                return


def _with_more(text: bytes, stream: Any, size: int) -> bytearray:
    """Return ``text`` with the next ``size`` bytes of a stream appended, or as many as are left."""
    n_bytes = len(text)
    buffer = bytearray(n_bytes + size)
    buffer[:n_bytes] = text
    with memoryview(buffer) as view:
        # A single read may return fewer bytes before the stream's end.
        while n_bytes < len(buffer) and (n_read := stream.readinto(view[n_bytes:])):
            n_bytes += n_read
    del buffer[n_bytes:]
    return buffer


def _check_size(raw: Any) -> None:
    """Raise an UnreadableError unless the open file ``raw`` was read to its end."""
    if raw.tell() != (size := os.fstat(raw.fileno()).st_size):
        raise UnreadableError(f"{raw.tell()} of its {size} bytes could be read")


def _block_of(text: bytearray, line: int, separator: str, *, is_last: bool, one_column: bool) -> tuple[Block, int]:
    """Return a block of the whole rows with which ``text`` begins, and the position in the text where they end.

    The text begins in line ``line`` of the file; with ``is_last`` the text and the file end together. The other
    arguments and errors are those of `blocks_of`.
    """
    if (zero_byte := text.find(b"\0")) >= 0:
        raise UnreadableError(f"line {line + _count_line_ends(text, zero_byte)} holds binary data, not UTF-8 text")
    quoted = None
    line_ends = None
    if b'"' in text:
        codes = np.frombuffer(text, np.uint8)
        quoted = _find_strictly_quoted(codes, separator, is_last=is_last)
        if quoted is None:
            quoted = _find_quoted(text, codes, line, separator, is_last=is_last)
        line_ends = _line_ends(codes, quoted)
    # The whole rows end behind the last line end outside of quoted cells; without one there are none.
    if is_last:
        end = len(text)
    elif line_ends is None:
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    else:
        end = int(line_ends[-1]) + 1 if len(line_ends) else 0
    starts = lru_cache(1)(lambda: _row_starts(text, end, quoted))  # found when they are asked for, and once
    if one_column and end:
        _check_no_empty_line(text, end, quoted, line)
    return Block(memoryview(text)[:end], line, _count_line_ends(text, end), starts), end


Intervals = tuple[np.ndarray, np.ndarray]
"""Positions in a text of the opening quotation marks of its quoted cells, and of their closing marks."""


def _find_strictly_quoted(codes: np.ndarray, separator: str, *, is_last: bool) -> Intervals | None:
    """Return the `Intervals` of quoted cells; None unless each quotation mark bounds a cell or is half of a pair.

    ``codes`` are the bytes of a text, ``separator`` stands between its cells. With ``is_last`` the text ends where the
    file does; else its last cell may be cut. A pair stands for a mark in a cell, and divides it into two intervals.
    """
    marks = np.flatnonzero(codes == _QUOTE)
    if len(marks) % 2:
        if is_last:
            return None
        marks = np.append(marks, len(codes))  # closes a cell that is cut at the text's end
    is_between = np.zeros(256, bool)  # whether each byte may come between two cells
    is_between[[_END, _RETURN, ord(separator)]] = True
    opening, closing = marks[0::2], marks[1::2]  # marks open and close by turns
    is_doubled = opening[1:] == closing[:-1] + 1  # whether a mark that closes has one that opens right behind it
    # A mark may open a cell behind a byte between cells, and close one before such a byte.
    may_open = is_between[codes[opening - 1]]
    may_open[0] |= opening[0] == 0  # at the start of the text, where -1 above is the text's last byte
    may_open[1:] |= is_doubled
    may_close = is_between[codes[np.minimum(closing + 1, len(codes) - 1)]]
    may_close[-1] |= closing[-1] >= len(codes) - 1  # at the end of the text
    may_close[:-1] |= is_doubled
    if may_open.all() and may_close.all():
        return opening, closing
    return None


def _find_quoted(text: bytearray, codes: np.ndarray, line: int, separator: str, *, is_last: bool) -> Intervals:
    """Return the `Intervals` of quoted cells as parsers find them; raise an UnreadableError for a mark left open.

    ``codes`` are the bytes of ``text``; the other arguments are those of `_block_of`. A quoted cell over several lines
    is accepted only if no quotation mark in its row is misplaced. Else its opening mark was never closed: the mark that
    seems to close it is of another row.
    """
    between = b"\r\n" + separator.encode()
    # A mark opens a cell at the start, or behind a separator or line end. The group is empty if the text ends within.
    cell = re.compile(b'(?<![^%b])"(?:[^"]+|"")*("|\\Z)' % re.escape(between))
    cells = [(match.start(), match.start(1)) for match in cell.finditer(text)]
    opening, closing = np.array(cells, np.int64).reshape(-1, 2).T
    is_open = closing == len(text)  # the last cell, if the text ends within it
    if is_last and is_open.any():
        raise _open_mark_error(text, int(opening[-1]), line)
    misplaced = _find_misplaced(codes, (opening, closing), between)
    # A mark's line, and its row, are known by the number of line ends and of row ends before it.
    line_ends = _line_ends(codes, quoted=None)
    spans_lines = np.searchsorted(line_ends, opening) != np.searchsorted(line_ends, closing)
    row_ends = _line_ends(codes, (opening, closing))  # the line ends outside of quoted cells
    is_in_faulty_row = np.isin(np.searchsorted(row_ends, opening), np.searchsorted(row_ends, misplaced))
    is_faulty = spans_lines & is_in_faulty_row
    if is_faulty.any():
        first = int(is_faulty.argmax())
        if is_last or not is_open[first]:  # of a cell that is cut the next bytes may show otherwise
            raise _open_mark_error(text, int(opening[first]), line)
    return opening, closing


def _find_misplaced(codes: np.ndarray, quoted: Intervals, between: bytes) -> np.ndarray:
    """Return the positions of misplaced quotation marks in a text with the bytes ``codes``.

    These are marks outside of the ``quoted`` cells, and opening marks of cells that neither one of the bytes
    ``between``, which stand between cells, nor the end of the text follows.
    """
    opening, closing = quoted
    followers = codes[np.minimum(closing + 1, len(codes) - 1)]
    is_followed = (closing + 1 < len(codes)) & ~np.isin(followers, np.frombuffer(between, np.uint8))
    marks = np.flatnonzero(codes == _QUOTE)
    cell_index = np.searchsorted(opening, marks, side="right") - 1  # of the last cell that opens by then; -1 for none
    # Before the first cell, or behind the closing mark. The -1 that is appended lets index -1 be read without cells.
    outer_marks = marks[(cell_index < 0) | (marks > np.append(closing, -1)[cell_index])]
    return np.concatenate([opening[is_followed], outer_marks])


def _open_mark_error(text: bytearray, at: int, line: int) -> UnreadableError:
    """Return the error for an open quotation mark at position ``at`` of ``text``, which begins in line ``line``."""
    return UnreadableError(
        f"line {line + _count_line_ends(text, at)} opens a quotation mark that is not closed where its cell ends; "
        "close it, or double the marks within the cell"
    )


def _line_ends(codes: np.ndarray, quoted: Intervals | None) -> np.ndarray:
    """Return where line feeds and carriage returns are among the bytes ``codes``, except those in ``quoted`` cells."""
    ends = np.flatnonzero((codes == _END) | (codes == _RETURN))
    if quoted is None or not len(quoted[0]):
        return ends
    opening, closing = quoted
    cell_index = np.searchsorted(opening, ends) - 1  # of the last cell that opens before; -1 for none
    return ends[(cell_index < 0) | (ends > closing[cell_index])]


def _row_starts(text: bytearray, end: int, quoted: Intervals | None) -> np.ndarray:
    """Return the positions where the rows of ``text[:end]`` start: its lines that are not empty.

    A line end within one of the ``quoted`` cells ends no line.
    """
    codes = np.frombuffer(text, np.uint8)[:end]
    is_end = np.zeros(end + 1, bool)
    is_end[_line_ends(codes, quoted)] = True
    is_end[-1] = True  # rolled to the front below: the first byte starts a line
    is_behind_end = np.roll(is_end, 1)
    return np.flatnonzero(~is_end[:-1] & is_behind_end[:-1])


def _check_no_empty_line(text: bytearray, end: int, quoted: Intervals | None, line: int) -> None:
    """Raise an UnreadableError if ``text[:end]``, from line ``line`` on, has an empty line outside ``quoted`` cells."""
    codes = np.frombuffer(text, np.uint8)[:end]
    ends = _line_ends(codes, quoted)
    previous_ends = np.concatenate([[-1], ends[:-1]])
    is_right_behind = previous_ends == ends - 1
    # A line feed right behind a carriage return is the second half of one line end.
    is_second_half = is_right_behind & (codes[ends] == _END) & (codes[previous_ends] == _RETURN) & (previous_ends >= 0)
    is_empty = is_right_behind & ~is_second_half
    if is_empty.any():
        empty_line = line + _count_line_ends(text, int(ends[is_empty.argmax()]))
        raise UnreadableError(
            f"line {empty_line} is empty, which in a file of one column may be a missing value or no row; write "
            '"" or take it away'
        )


def _count_line_ends(text: bytes | bytearray, end: int | None = None) -> int:
    """Return the number of line ends in ``text[:end]``; a carriage return with a line feed behind it is one."""
    codes = np.frombuffer(text, np.uint8)[:end]
    n_ends = sum(int(np.count_nonzero(codes[i : i + _PIECE] == _END)) for i in range(0, len(codes), _PIECE))
    if b"\r" in text:
        n_ends += text.count(b"\r", 0, end) - text.count(b"\r\n", 0, end)
    return n_ends


_OVERLAP = 2**8  # bytes that two pieces share, so that a number at their border lies whole in one of them


def has_marks_of_others(file: Path) -> bool:
    """Return whether a text file with commas between cells may hold numbers with commas, or points between thousands.

    Only bytes are looked at, so True may be wrong.
    """
    return any(_has_quoted_commas(piece) or _has_points_by_thousands(piece) for piece in _pieces(file))


def _pieces(file: Path) -> Iterator[np.ndarray]:
    """Yield the bytes of a file in arrays of uint8 that overlap; each is valid until the next one is asked for."""
    buffer = bytearray(_OVERLAP + 8 * _PIECE)
    codes = np.frombuffer(buffer, np.uint8)
    with open_bytes(file) as stream, memoryview(buffer) as view:
        buffer[:_OVERLAP] = b"\n" * _OVERLAP  # a line end comes before the first cell
        while n_read := stream.readinto(view[_OVERLAP:]):
            yield codes[: _OVERLAP + n_read]
            buffer[:_OVERLAP] = buffer[n_read : n_read + _OVERLAP]


def _has_quoted_commas(codes: np.ndarray) -> bool:
    """Return whether some quoted cell in a text with the bytes ``codes`` begins like a number and holds a comma."""
    if codes.tobytes().find(b'"') < 0:
        return False
    is_quote = codes == _QUOTE
    is_comma = codes == ord(",")
    is_digit = _are_digits(codes)
    is_between = is_comma | (codes == _END) | (codes == _RETURN)  # a byte that may come before a cell
    # A cell that begins with a comma and a digit, such as ",5".
    if np.any(is_between[:-3] & is_quote[1:-2] & is_comma[2:-1] & is_digit[3:]):
        return True
    # Any other comma in a number stands behind a digit or a sign, and before a digit.
    is_digit_or_sign = is_digit | (codes == ord("-")) | (codes == ord("+"))
    if not np.any(is_digit_or_sign[:-2] & is_comma[1:-1] & is_digit[2:]):
        return False
    # Is there a comma between the opening quote of a cell that begins like a number, and the next quote? Behind the
    # last quote or comma the end of the text stands for a further one.
    quotes = np.flatnonzero(is_quote)
    next_quotes = np.append(quotes[1:], len(codes))
    byte_behind = codes[np.minimum(quotes + 1, len(codes) - 1)]
    # A quote at position 0 is judged by the last byte, perhaps wrongly. It lies in the overlap of two pieces, and with
    # the piece before it was judged rightly; a wrong True only costs time.
    opens_number = is_between[quotes - 1] & _BEGINNING[byte_behind]
    commas = np.append(np.flatnonzero(is_comma), len(codes))
    next_commas = commas[np.searchsorted(commas, quotes[opens_number])]
    return bool(np.any(next_commas < next_quotes[opens_number]))


_BEGINNING = np.zeros(256, bool)
_BEGINNING[list(b"0123456789+-.,' \xc2\xe2")] = True
"""Whether the text of a number may begin with each byte; 0xC2 and 0xE2 begin spaces of several bytes in UTF-8."""


def _are_digits(codes: np.ndarray) -> np.ndarray:
    """Return whether each byte in ``codes``, an array of uint8, is a digit."""
    return codes - ord("0") < 10  # bytes below "0" wrap around to large numbers


def _has_points_by_thousands(codes: np.ndarray) -> bool:
    """Return whether a text with the bytes ``codes`` has two points with exactly three digits between them."""
    is_point = codes == ord(".")
    is_first_of_two = is_point[:-4] & is_point[4:]  # the second point is four bytes further on
    if not is_first_of_two.any():
        return False
    first_points = np.flatnonzero(is_first_of_two)
    is_digit_behind = [_are_digits(codes[first_points + i]) for i in (1, 2, 3)]
    return bool(np.any(np.all(is_digit_behind, axis=0)))

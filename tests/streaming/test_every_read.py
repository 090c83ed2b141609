"""Files whose reads come late, short or failing, and files that are cut: all rows come out, or an error."""

import gzip
import io
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from jaxunc.streaming import Wanted, _csv, _csv_blocks, _sources, file_chunks, read_table
from jaxunc.tables import Columns
from tests._exhaustive import SEED, a_few_of
from tests._refusal import refuses

from ._made import NEEDS_SHIM, shimmed, write_arrow

pytestmark = pytest.mark.once
WANTED = Wanted(Columns(2, ("a", "b")), None, ("text",))
N, FEW = 40, 16  # rows; of files that are read hundreds of times


def frame(n: int = N) -> pd.DataFrame:
    words = [f'word {i}, "of" {i % 7}' if i % 3 else f"line {i}\nend" for i in range(n)]
    return pd.DataFrame({"a": np.arange(n) * 1.25, "text": words, "b": np.arange(n) % 5})


def text_of(part: pd.DataFrame, form: str) -> bytes:
    return part.to_csv(index=False, sep="\t" if form == "tsv" else ",").encode()


def written(folder: Path, form: str, n: int = N) -> Path:
    path = folder / f"x.{form}"
    if form == "parquet":
        frame(n).to_parquet(path, row_group_size=11)
    elif form == "arrow":
        write_arrow(pa.Table.from_pandas(frame(n), preserve_index=False), path, 11)
    else:
        text = text_of(frame(n), form)
        path.write_bytes(gzip.compress(text, mtime=0) if form == "csv.gz" else text)
    return path


def rows(path: Path, content: bytes | None = None) -> tuple:
    """The texts and numbers of a file, of another content if one is named."""
    if content is not None:
        path.write_bytes(content)
    found = list(file_chunks(path, WANTED, 7))
    cells = [[str(cell) for cell in chunk.kept["text"].to_pylist()] for chunk in found]
    numbers = [np.column_stack([chunk.features[name].to_numpy() for name in ("a", "b")]) for chunk in found]
    return list(itertools.chain(*cells)), np.concatenate(numbers).astype(float).tolist() if numbers else []


def outcome(path: Path, content: bytes | None = None) -> tuple | str:
    """The rows, or what is said against the file."""
    try:
        return rows(path, content)
    except ValueError as error:
        return str(error)


class Reads(io.FileIO):
    """An open file of which one read is another than one would like."""

    read, readall = io.RawIOBase.read, io.RawIOBase.readall

    def __init__(self, path, mode, fault, at):
        super().__init__(path, mode)
        self._fault, self._left = fault, at

    def readinto(self, room):
        self._left -= 1
        fault = self._fault if self._left == 0 or self._fault == "all short" else ""
        if fault == "failing":
            raise OSError(5, "Input/output error")
        if fault == "ends":
            return 0
        return super().readinto(memoryview(room)[: max(1, len(room) // 3)] if fault else room)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("fault", ["short", "all short", "failing", "ends"])
@pytest.mark.parametrize("form", ["csv", "csv.gz"])
def test_reads_of_texts(form, fault, small_blocks, tmp_path, monkeypatch):
    path = written(tmp_path, form, FEW)
    expected, refused = rows(path), 0
    for at in range(1, 60):
        changed = lambda path, mode, at=at: io.BufferedReader(Reads(path, mode, fault, at), 100)
        monkeypatch.setattr(_csv_blocks, "open", changed, raising=False)
        found = outcome(path)
        assert found == expected or "cannot be read" in found, f"read {at}"
        refused += found != expected
    assert (refused > 0) == (fault in ("failing", "ends"))


@pytest.mark.parametrize("form", a_few_of(["csv", "tsv", "csv.gz", "parquet", "arrow"], ["csv", "parquet"]))
@pytest.mark.room
def test_files_that_are_cut(form, small_blocks, tmp_path):
    """Of texts what stands before the cut is there, up to a whole line; of other forms nothing."""
    path = written(tmp_path, form, FEW if form in ("csv", "tsv") else N)
    content, (texts, _) = path.read_bytes(), rows(path)
    whole_lines = {0, *(len(text_of(frame(i), form)) for i in range(FEW + 1))}
    step = 1 if len(content) < 2500 else 7
    for cut in range(SEED % step, len(content), step):
        found = outcome(tmp_path / f"y.{form}", content[:cut])
        if isinstance(found, str):
            continue
        assert form in ("csv", "tsv"), f"{len(found[0])} rows of a file that is cut at {cut}"
        assert found[0] == texts[: len(found[0])]
        # The last line may lack its end, or some of its last cell: nobody can tell.
        assert any(0 <= end - cut <= 2 for end in whole_lines), f"cut at {cut}: {len(found[0])} rows"


LINES = ['1,2,"by hand', '"1,2,x', '1,2,"by hand\n1,2,x\n1,2,"by phone', '1,2,"by hand\n1,2,"x",', '1,2,"by ""hand']
"""In the last column, the first, twice, closed by another row's mark, beside a doubled mark."""


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("block", [2**22, 64])
def test_marks_that_are_left_open(line, block, tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", block)
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["a,b,text", "1,2,x", "1,2,x", line, *["1,2,fine"] * 100]) + "\n")
    for read in (rows, read_table):
        refuses(ValueError, "line 4 opens a quotation mark|row in line 4 is longer", read, path)


@pytest.mark.parametrize("block", [2**22, 40])
def test_other_rows_that_parsers_pass_over(block, tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", block)
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "1\n" * 30 + "\n" + "2\n" * 9)
    refuses(ValueError, "line 32 is empty, which in a file of one column may be a missing value", read_table, path)
    path.write_text('a\r\n1\r\n""\r\n2\r\n')
    assert read_table(path)["a"].to_pylist() == [1, None, 2]
    refuses(ValueError, "binary data", rows, path, b"a,b,text\n1,2,x\n1,2,y" + b"\0" * 90 + b"\n1,2,z\n" * 9)
    found, _ = rows(path, b'a,b,text\n1,2,5" pipe\n1,2,a "b" c\n')
    assert found == ['5" pipe', 'a "b" c'], "marks within a cell are letters"
    said = r"a row has 2 cells, but the first line has 3 names \(line 32\)"
    refuses(ValueError, said, rows, path, b"a,b,text\n" + b"1,2,x\n" * 30 + b"1,2\n")


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_damaged_files(form, tmp_path):
    """Any bit changed, and every bit of what counts rows: an error, or as many rows; nothing that ends the process.

    These numbers are an Arrow file's list of four batches, and a Parquet file's 40 and 11 rows as zigzag numbers.
    """
    path, rng = tmp_path / f"y.{form}", np.random.default_rng(SEED)
    content = written(tmp_path, form).read_bytes()
    number = (4).to_bytes(4, "little") if form == "arrow" else None
    places = [i for i in range(8, len(content)) if content[i : i + 4] == number or (not number and content[i] == 22)]
    assert places
    drawn = [(at, rng.integers(8)) for at in rng.choice(len(content), 300, replace=False)]
    refused = 0
    for at, bit in (*drawn, *itertools.product(places, range(8))):
        changed = bytearray(content)
        changed[at] ^= 1 << bit
        found = outcome(path, bytes(changed))
        refused += isinstance(found, str)
        assert (path.name in found) if isinstance(found, str) else len(found[0]) == N, f"{at}, {bit}, seed {SEED}"
    assert refused


def test_arrow_files_of_others(tmp_path):
    """Those of Polars begin otherwise than Arrow's own; files may be compressed, or have no rows."""
    pytest.importorskip("polars").from_pandas(frame()).write_ipc(tmp_path / "x.arrow", compression="zstd")
    assert rows(tmp_path / "x.arrow") == rows(written(tmp_path, "parquet"))
    for of, compression in ((frame(), "lz4"), (frame(), "uncompressed"), (frame()[:0], "zstd")):
        feather.write_feather(of, tmp_path / "x.feather", compression=compression, chunksize=9)
        assert len(rows(tmp_path / "x.feather")[0]) == len(of)


def test_threads_of_arrow_let_go_of_files(tmp_path, monkeypatch):
    """Else one that lets go while the interpreter ends aborts the process."""
    let_go, wait = [], _sources._wait_for_release

    def waited(references):
        wait(references)
        let_go.append([reference() is None for reference in references])

    monkeypatch.setattr(_sources, "_wait_for_release", waited)
    path = written(tmp_path, "arrow")
    rows(path)
    next(chunks := file_chunks(path, WANTED, 7))
    chunks.close()
    assert read_table(path).num_rows == N
    assert len(let_go) == 3
    assert all(len(each) > 1 and all(each) for each in let_go)
    content = path.read_bytes()
    for damaged in (content[:-20], content[:800] + b"\xff" * 20 + content[820:]):  # at its end, and in a batch
        refuses(ValueError, path.name, rows, path, damaged)
    assert len(let_go) == 5
    assert all(let_go[-2] + let_go[-1])
    assert let_go[-1]


SHIM = r"""
static int now(int fd, size_t* n) {
  if (!is_ours(fd)) return 0;
  calls++;
  if (--left != 0) return 0;
  if (kind == 1 && *n > 1) *n = *n / 2;
  if (kind == 2) usleep(20000);
  if (kind == 3) { errno = EINTR; return -1; }
  if (kind == 4) { errno = EIO; return -1; }
  if (kind == 5) *n = 0;
  return 0; }
ssize_t read(int fd, void* b, size_t n) { REAL(read); return now(fd, &n) ? -1 : real(fd, b, n); }
ssize_t pread(int fd, void* b, size_t n, off_t o) { REAL(pread); return now(fd, &n) ? -1 : real(fd, b, n, o); }
ssize_t pread64(int fd, void* b, size_t n, off_t o) { return pread(fd, b, n, o); }
"""
PROGRAM = """
import ctypes, sys
from pathlib import Path
from tests.streaming.test_every_read import rows
shim = ctypes.CDLL(None)
for name in sys.argv[1:]:
    path = Path(name)
    shim.shim_set(0, 0)
    expected, number = rows(path), shim.shim_calls()
    refused = 0
    for fault in range(1, 6):
        for at in range(1, number + 1):
            shim.shim_set(fault, at)
            try:
                assert rows(path) == expected, (name, fault, at)
            except ValueError as error:
                assert fault > 2 and "cannot be read" in str(error), (name, fault, at, error)
                refused += 1
    print(path.name, number, refused)
"""


@NEEDS_SHIM
@pytest.mark.exhaustive
def test_every_read_of_the_system(tmp_path):
    (tmp_path / "shimmed").mkdir()
    paths = [written(tmp_path / "shimmed", form) for form in ("csv", "csv.gz", "parquet", "arrow")]
    lines = [line.split() for line in shimmed(tmp_path, SHIM, PROGRAM, *paths)]
    reads = {name: int(number) for name, number, _ in lines}
    assert min(reads["x.csv"], reads["x.csv.gz"], reads["x.parquet"]) > 3

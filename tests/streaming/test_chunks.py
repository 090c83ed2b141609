"""Chunks of files: what stays in memory between them, and files that another process cuts off meanwhile.

And arrays of Arrow, which are made of buffers.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

import jaxunc as ju
from jaxunc.streaming import Wanted, _chunks, _csv, arrow_labels, arrow_numbers, file_chunks
from jaxunc.tables import Columns, encode_arrow
from tests._refusal import refuses

from ._made import write_arrow

pytestmark = pytest.mark.once
MANY, CHUNK = 100_000, 1000
NAMES = ("a", "b", "c", "d")
COLUMNS = Columns(len(NAMES), NAMES)
MAPPINGS = Path("/proc/self/smaps")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """3.2 MB."""
    return pa.table(dict(zip(NAMES, np.random.default_rng(0).normal(size=(len(NAMES), MANY)), strict=True)))


def chunks(file: Path):
    """What a model reads of a file, encoded as for a model."""
    for chunk in file_chunks(file, Wanted(COLUMNS, NAMES, ()), CHUNK):
        yield encode_arrow(chunk.features, COLUMNS).values


@pytest.mark.parametrize("group", [MANY, MANY // 4, MANY // 100])
def test_parquet_is_not_kept(group, table, tmp_path, monkeypatch):
    file = tmp_path / "x.parquet"
    parquet.write_table(table, file, row_group_size=group, use_dictionary=False, data_page_size=2**14)
    monkeypatch.setattr(_chunks, "BUFFER_BYTES", 2**16)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    held = [pool.bytes_allocated() - before for _ in chunks(file)]
    assert len(held) == MANY // CHUNK
    assert max(held) < 2**19, "a chunk's columns (32 kB), a buffer and a page for each column; not the file's 3.2 MB"


@pytest.mark.skipif(not MAPPINGS.exists(), reason="the system does not say which pages of a file are in memory")
@pytest.mark.parametrize("batch", [MANY, MANY // 20])
@pytest.mark.exhaustive
def test_pages_of_an_arrow_file_are_let_go(batch, table, tmp_path, monkeypatch):
    file = tmp_path / "x.arrow"
    feather.write_feather(table, file, compression="uncompressed", chunksize=batch)
    monkeypatch.setattr(_chunks, "LARGEST_BATCH", 0)
    let_go, states = _chunks._let_go, []

    def watched(mapped):
        states.append(resident_bytes(file))
        let_go(mapped)
        states.append(resident_bytes(file))

    monkeypatch.setattr(_chunks, "_let_go", watched)
    found = np.concatenate(list(chunks(file)))
    np.testing.assert_array_equal(found, np.stack([table[name] for name in NAMES], 1).astype(np.float32))
    assert len(states) == 2 * (MANY // CHUNK), "once for each chunk"
    assert min(states[::2]) > 0
    assert max(states[1::2]) == 0


def resident_bytes(file: Path) -> int:
    """How much of a mapped file counts as memory of this process."""
    total, is_own = 0, False
    for line in MAPPINGS.read_text().splitlines():
        if "-" in line.split(maxsplit=1)[0]:
            is_own = line.endswith(str(file))
        elif is_own and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def test_rows_longer_than_a_block_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 64)
    file = tmp_path / "x.csv"
    rows = [f"{i},1,2,3,{'long' * 40 if i == 7 else 'short'}" for i in range(20)]
    file.write_text("\n".join(["a,b,c,d,text", *rows]) + "\n")
    read = list(file_chunks(file, Wanted(COLUMNS, NAMES, ("text",)), 6))
    np.testing.assert_array_equal(np.concatenate([chunk.features["a"] for chunk in read]), np.arange(20.0))
    assert read[1].kept["text"][1].as_py() == "long" * 40


ROWS = 60_000
PROGRAM = """
import json, os, sys
from pathlib import Path
from jaxunc.streaming import _chunks, Wanted, file_chunks
from jaxunc.storage import _file
from jaxunc.tables import Columns

folder, wanted = Path(sys.argv[1]), Wanted(Columns(1, ("a",)), ("a",), ("text",))

def said(path, large):
    _chunks.LARGEST_BATCH = large
    number = 0
    try:
        for chunk in file_chunks(path, wanted, 1000):
            number += chunk.n_rows
            if number == 1000:
                os.truncate(path, path.stat().st_size // 3)
            str(chunk.kept[-1:]), str(chunk.features[-1:])
    except ValueError as error:
        return str(error)

for path in sorted(folder.glob("x*")):
    print(path.name, "|", said(path, 0 if "mapped" in path.name else 2**28))

whole = (folder / "model").read_bytes()
for after in range(9):
    path, calls = folder / f"model{after}", []
    path.write_bytes(whole)

    def loads(*args, own=json.loads, **options):
        calls.append(args)
        os.truncate(path, 4096 // (1 + after % 3))
        return own(*args, **options)

    _file.json = type("Json", (), {"loads": staticmethod(loads)})
    found = _file.read(path)
    print("model |", len(calls), sum(array.nbytes for array in found.arrays.values()))
    _file.json = json
print("done | alive")
"""


def _write(folder: Path) -> None:
    texts = [f"row {i}" for i in range(ROWS)]
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=ROWS), "text": texts})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_parquet(folder / "x.parquet", row_group_size=ROWS // 4)
    for name in ("x-one.arrow", "x-one-mapped.arrow"):
        write_arrow(table, folder / name)
    for name, compression in (("lz4", "lz4"), ("plain", "uncompressed"), ("plain-mapped", "uncompressed")):
        feather.write_feather(table, folder / f"x-{name}.feather", compression=compression, chunksize=5000)
    ju.save(folder / "model", ju.Weighted(ju.Mean(), np.ones(10_000, np.float32)))


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be cut there")
@pytest.mark.exhaustive
def test_files_that_are_cut_while_they_are_read(tmp_path):
    _write(tmp_path)
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}"
    lines = [line.split(" | ") for line in done.stdout.splitlines()]
    files, models = lines[:7], lines[7:-1]
    assert lines[-1] == ["done", "alive"]
    assert models == [["model", models[0][1]]] * 9, "what was read of the model is whole"
    for name, message in files:
        assert name in message, f"{name}: {message}"
        assert "cannot be read" in message or "is damaged" in message, f"{name}: {message}"


def test_large_batches_are_read_alike(tmp_path, monkeypatch):
    """Of every type: mapped and copied they are what they are when a batch is read at once."""
    columns = {
        "a": pa.array([0.5, None, 2.0, -1.0] * 5),
        "words": pa.array(["x", None, "long" * 9, ""] * 5),
        "coded": pa.array(["x", None, "y", "x"] * 5).dictionary_encode(),
        "lists": pa.array([[1, 2], [], None, [3]] * 5),
        "bools": pa.array([True, None, False, True] * 5),
        "views": pa.array(["x", "a text of more than twelve letters", None, ""] * 5, pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([5, 20], pa.int32()), pa.array([1, 2])),
    }
    table = pa.table(columns)
    path = write_arrow(table, tmp_path / "x.arrow", 13)
    wanted = Wanted(Columns(1, ("a",)), ("a",), tuple(columns)[1:])
    for skip in (0, 3, 13, 17):
        found = []
        for largest in (2**28, 0):
            monkeypatch.setattr(_chunks, "LARGEST_BATCH", largest)
            rows = [(one.features.to_pylist(), one.kept.to_pylist()) for one in file_chunks(path, wanted, 3, skip)]
            found.append([[a | b for a, b in zip(*parts, strict=True)] for parts in rows])
        assert found[0] == found[1]
        assert [row for rows in found[0] for row in rows] == table.to_pylist()[skip:]


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.float32, np.float64, np.uint8])
def test_numbers_and_bools(dtype, rng):
    for n in (0, 1, 8, 23):
        values = rng.integers(0, 2, size=2 * n).astype(dtype)
        for given in (values, values[::2]):
            assert arrow_numbers(given).to_pylist() == given.tolist()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [((1, 2**64 - 1), pa.uint64()), ((-1, 2**63), pa.string()), ((1, "a"), pa.string()), ((0, 2**70), pa.string())],
)
def test_labels_of_any_size(labels, kind):
    found = arrow_labels(labels)
    assert found.type == kind
    assert [str(label) for label in labels] == [str(one) for one in found.to_pylist()]
    refuses(ValueError, "cannot tell apart", arrow_labels, (2**64, str(2**64)))

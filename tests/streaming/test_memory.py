"""What stays in memory between chunks, however long a file is and however it is laid out."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as parquet
import pytest

from jaxunc.streaming import Wanted, _chunks, _csv, file_chunks
from jaxunc.tables import Columns, encode_arrow

pytestmark = pytest.mark.once

ROWS, CHUNK = 100_000, 1000
NAMES = ("a", "b", "c", "d")
COLUMNS = Columns(len(NAMES), NAMES)
MAPPINGS = Path("/proc/self/smaps")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """3.2 MB."""
    return pa.table(dict(zip(NAMES, np.random.default_rng(0).normal(size=(len(NAMES), ROWS)), strict=True)))


def chunks(file: Path):
    """What a model reads of a file, encoded as for a model."""
    for chunk in file_chunks(file, Wanted(COLUMNS, NAMES, ()), CHUNK):
        yield encode_arrow(chunk.features, COLUMNS).values


@pytest.mark.parametrize("group", [ROWS, ROWS // 4, ROWS // 100])
def test_parquet_is_not_kept(group, table, tmp_path, monkeypatch):
    file = tmp_path / "x.parquet"
    parquet.write_table(table, file, row_group_size=group, use_dictionary=False, data_page_size=2**14)
    monkeypatch.setattr(_chunks, "BUFFER_BYTES", 2**16)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    held = [pool.bytes_allocated() - before for _ in chunks(file)]
    assert len(held) == ROWS // CHUNK
    assert max(held) < 2**19, "a chunk's columns (32 kB), a buffer and a page for each column; not the file's 3.2 MB"


@pytest.mark.skipif(not MAPPINGS.exists(), reason="the system does not say which pages of a file are in memory")
@pytest.mark.parametrize("batch", [ROWS, ROWS // 20])
@pytest.mark.exhaustive
def test_pages_of_an_arrow_file_are_let_go(batch, table, tmp_path, monkeypatch):
    file = tmp_path / "x.arrow"
    pa.feather.write_feather(table, file, compression="uncompressed", chunksize=batch)
    monkeypatch.setattr(_chunks, "LARGEST_BATCH", 0)
    let_go, states = _chunks._let_go, []

    def watched(mapped):
        states.append(resident_bytes(file))
        let_go(mapped)
        states.append(resident_bytes(file))

    monkeypatch.setattr(_chunks, "_let_go", watched)
    found = np.concatenate(list(chunks(file)))
    np.testing.assert_array_equal(found, np.stack([table[name] for name in NAMES], 1).astype(np.float32))
    assert len(states) == 2 * (ROWS // CHUNK), "once for each chunk"
    assert min(states[::2]) > 0
    assert max(states[1::2]) == 0


def resident_bytes(file: Path) -> int:
    """How much of a mapped file counts as memory of this process."""
    lines, total, is_own = MAPPINGS.read_text().splitlines(), 0, False
    for line in lines:
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

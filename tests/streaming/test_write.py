"""Parts are written of every type of column that a table may carry along."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from jaxunc.streaming._predict_files import FORMATS, PartWriter

pytestmark = pytest.mark.once


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("ordered", [False, True])
def test_categories(tmp_path, form, kind, ordered):
    words = pa.array(["low", "grün"]).cast(pa.binary()).to_pylist() if kind == pa.binary_view() else ["low", "grün"]
    codes = pa.array([1, 0, None, 1], pa.uint32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(words, kind), ordered=ordered)
    table = pa.table({"word": pa.chunked_array([column, column[:2]]), "row": np.arange(6)})
    writer = PartWriter(tmp_path, form, lambda *_: None)
    writer("part", 0, lambda: table)
    writer("part", 0, None)
    path = tmp_path / f"part{FORMATS[form]}"
    found = (parquet.read_table(path) if form == "parquet" else arrow_csv.read_csv(path))["word"].to_pylist()
    found = [word.decode() if isinstance(word, bytes) else word for word in found]
    assert [word or None for word in found] == ["grün", "low", None, "grün", "grün", "low"]

"""Text files, read by what a model knows of its columns, and what is said of those that disagree."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jaxunc.streaming import Notation, Wanted, _csv, file_chunks, read_table
from jaxunc.streaming._csv import infer_column
from jaxunc.tables import MISSING_WORDS, Columns, Levels, encode_arrow, encode_instances, fit_columns
from tests._refusal import refuses

from ._made import written

pytestmark = pytest.mark.once
FRAME = pd.DataFrame({"x": [1.5, 2.0, np.nan, 3.0], "flag": [True, False, True, True], "word": ["a", "b", None, "a"]})
COLUMNS, XB = fit_columns(FRAME), Columns(2, ("x", "b"))


def encoded(path, content: str | bytes, columns: Columns = COLUMNS, chunk_rows: int = 3) -> np.ndarray:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    read = file_chunks(path, Wanted(columns, None, ()), chunk_rows)
    parts = [encode_arrow(one.features, columns, one.where, are_cells=one.are_cells).values for one in read]
    return np.concatenate(parts)


def test_a_file_is_read_as_its_frame(tmp_path):
    assert COLUMNS.boolean == (False, True, False)
    assert COLUMNS.missing_words == MISSING_WORDS
    assert fit_columns(FRAME.to_numpy(dtype=object)).boolean is None
    path = written(FRAME, tmp_path / "x.csv")
    np.testing.assert_array_equal(encoded(path, path.read_text()), encode_instances(FRAME, COLUMNS).values)
    other = "word,x,flag\nb,NULL,TRUE\n?, 7 ,0\nnew,+1e1,false\n"
    np.testing.assert_array_equal(encoded(path, other), [[np.nan, 1, 1], [7, 0, 2], [10, 0, -1]])


DISAGREE = {  # in row 2 of three columns, whatever follows
    "true,true,a": "row 2 of the data holds 'true' in column 'x'; the model's column holds numbers",
    "old,true,a": "row 2 of the data holds 'old' in column 'x'",
    "1,yes,a": "row 2 of the data holds 'yes' in column 'flag'; the model's column holds true and false",
    "1,0.5,a": "row 2 of the data holds '0.5' in column 'flag'",
    '"1,5.5",true,a': "row 2 of the data holds '1,5.5' in column 'x'",
    "1,true": "a row has 2 cells, but the first line has 3 names",
}
READ = r"x\.csv cannot be read: "
KG = "row 7 .* '5.5 kg' in column 'x'.*numbers, true and false, with commas before decimals"
REFUSED = [
    *((f"x,flag,word\n1,true,a\n{row}\n" + "2,false,b\n" * 5, COLUMNS, READ + said) for row, said in DISAGREE.items()),
    ("x,b\n1,true\n0,FALSE\n2.5,True\n1,maybe\n", XB, "row 4 .* 'maybe' in column 'b'; .* holds numbers, true and"),
    ("x;b\n1;1\n" + "2,5;1\n" * 5 + "5.5 kg;1,5\n", XB, KG),
    (b"x,flag,word\n1,true,\xe9\n", COLUMNS, "not UTF-8"),
    (b"x,fl\xe9g,word\n1,true,a\n", COLUMNS, "not UTF-8"),
    (b"\x00\x01,x", COLUMNS, "binary data"),
    ("\n \n", COLUMNS, "it is empty"),
    ('x,"flag\n1,true,a\n', COLUMNS, r"lacks the columns \['flag', 'word'\]"),
    ("x,x,flag,word\n1,1,true,a\n", COLUMNS, "several columns are named 'x'"),
]


@pytest.mark.parametrize(("content", "columns", "said"), REFUSED)
@pytest.mark.parametrize("block", [2**24, 24])
def test_files_that_disagree_or_cannot_be_read(content, columns, said, block, tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", block)
    refuses(ValueError, said, encoded, tmp_path / "x.csv", content, columns)


def test_where_nothing_is_known_numbers_may_be_booleans(tmp_path):
    rows = "x,b\n1,true\n0,FALSE\n2.5,True\n"
    np.testing.assert_array_equal(encoded(tmp_path / "x.csv", rows, XB), [[1, 1], [0, 0], [2.5, 1]])
    late = "x,b\n" + "1,0\n" * 9 + "true,1\n"
    assert encoded(tmp_path / "x.csv", late, XB)[-1].tolist() == [1, 1]


def test_levels_are_levels_whatever_else_they_mean(tmp_path):
    """Frames may hold words that mean a missing value in files, and numbers and booleans among words."""
    words = pd.DataFrame({"word": pd.Series(["NA", "x", None, 1.0, 2], dtype=object)})
    flags = pd.DataFrame({"word": pd.Series([True, None, False], dtype=object)})
    for frame, cells in ((words, ["NA", "x", "NULL", "1.0", "2"]), (flags, ["TRUE", "", "false"])):
        columns = fit_columns(frame)
        found = encoded(tmp_path / "x.csv", "word\n" + "".join(f'"{cell}"\n' for cell in cells), columns)
        np.testing.assert_array_equal(found, encode_instances(frame, columns).values)
    own = dataclasses.replace(fit_columns(flags), missing_words=("-9",))
    assert encoded(tmp_path / "x.csv", "word\n-9\nNA\ntrue\n", own).ravel().tolist() == [2, -1, 1]


def test_levels_that_are_numbers(tmp_path):
    columns = Columns(2, ("x", "b"), (True, True), (Levels((1, 3), False), Levels((False, True), True)))
    found = encoded(tmp_path / "x.csv", "x,b\n3,True\n1.0,false\n2,\n", columns)
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [-1, 2]])


def test_levels_beyond_float64(tmp_path):
    """Every digit of a large integer counts, however it is written; beside them cells are numbers as ever."""
    columns = Columns(2, ("x", "b"), (True, False), (Levels((2**60, 2**60 + 1, 1, 0.5), True), None))
    cells = [f"{2**60 + 1}", f" {2**60} ", f"+{2**60 + 1}.0", f"{2**60 + 2}", "1e0", "true", "0.50", "NA", f"{2**54}"]
    for mark in ".,":
        rows = [f"{cell.replace('.', mark)};1{mark}5" for cell in cells]
        found = encoded(tmp_path / "x.csv", "\n".join(["x;b", *rows]), columns)
        assert found[:, 0].tolist() == [1, 0, 1, -1, 2, 2, 3, 4, -1]
    said = "row 1 of the data holds 'one' in column 'x'; the model's column holds numbers"
    refuses(ValueError, said, encoded, tmp_path / "x.csv", "x,b\none,1\n", columns)


def test_columns_that_the_model_reads_and_keeps(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("x,flag,word,id\n1.50,true,NA,007\n,0,,\n")
    (chunk,) = file_chunks(path, Wanted(COLUMNS, None, ("id", "x", "flag", "word")), 10)
    assert chunk.kept.to_pylist() == [
        {"id": "007", "x": "1.50", "flag": "true", "word": "NA"},
        {"id": None, "x": None, "flag": "0", "word": None},
    ]
    values = encode_arrow(chunk.features, COLUMNS, are_cells=True).values
    np.testing.assert_array_equal(values, [[1.5, 1, 2], [np.nan, 0, 2]])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", ""], pa.int64()), (["1", "-0"], pa.float64()), (["1", str(2**70)], pa.float64()),
        (["true", "NA"], pa.bool_()), (["", "NA"], pa.float64()), (["1", "x"], pa.string()),
    ],
)  # fmt: skip
def test_what_a_column_is(cells, kind):
    assert infer_column(pa.chunked_array([cells]), MISSING_WORDS, Notation()).type == kind


def test_an_index_of_pandas_is_no_column(tmp_path):
    path = written(FRAME.set_index(pd.Index([4, 3, 9, 1])), tmp_path / "x.parquet")
    (chunk,) = file_chunks(path, Wanted(Columns(3), None, ()), 10)
    assert read_table(path).schema.names == chunk.features.schema.names == ["x", "flag", "word"]
    written(FRAME.set_index(pd.Index([4, 3, 9, 1], name="who")), path)
    assert "who" in read_table(path).schema.names

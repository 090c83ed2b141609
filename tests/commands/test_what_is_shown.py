"""Names of the data reach terminals of any encoding, and nothing in them acts there or on the page."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc._checks import escape_invisible
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:every leaf of this forest")]
ACTING = "\x1b[31mred\x1b[0m\u202e\x9b"


def table(path, one, other, **columns):
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"a": x, "b": x[::-1], **columns, "kind": np.where(x > 0, one, other)}).to_csv(path, index=False)


def fit(folder):
    main(f"fit {folder / 't.csv'} --target kind --trees 2 --leaf-size 3 --output {folder / 'm'}".split())


@pytest.mark.room
def test_what_acts_is_escaped(tmp_path, capsys):
    assert escape_invisible("Łódź\t👩‍👧\n") == "Łódź\t👩‍👧\n"
    assert escape_invisible(ACTING + "\r") == r"\x1b[31mred\x1b[0m\u202e\x9b\r"
    table(tmp_path / "t.csv", f"one{ACTING}", "other", **{f"c{ACTING}": 1.0})
    fit(tmp_path)
    main(["inspect", str(tmp_path / "m")])
    settings = ["--trees", "2", "--folds", "2", "--repeats", "1", "--leaf-sizes", "4", "--forests", "extra-trees"]
    report = ["--report", str(tmp_path / "r"), "--combiners", "probability", "vote", "--quiet"]
    main(["compare", str(tmp_path / "t.csv"), "--target", "kind", *settings, *report])
    printed = capsys.readouterr()
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    for text in (printed.out, printed.err, page):
        assert not set(text) & set("\x1b\x9b\u202e\r")
    assert r"one\x1b[31mred" in printed.out


@pytest.mark.exhaustive
def test_a_terminal_of_few_letters(tmp_path):
    table(tmp_path / "Ł.csv", "Łódź", "Ź")
    words = ["fit", "Ł.csv", "--target", "kind", "--trees", "2", "--leaf-size", "20", "--output", "Ł"]
    own = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([sys.executable, "-m", "jaxunc", *words], cwd=tmp_path, capture_output=True, env=own)
    assert done.returncode == 0, done.stderr
    assert rb"classes \u0141\xf3d\u017a, \u0179" in done.stdout


def test_classes_beyond_signed_integers(tmp_path):
    table(tmp_path / "t.csv", str(2**64 - 1), str(2**64 - 2))
    fit(tmp_path)
    main(["predict", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--output", str(tmp_path / "o"), "--quiet"])
    assert set(parquet.read_table(tmp_path / "o")["class"].to_pylist()) == {2**64 - 1, 2**64 - 2}


def test_classes_that_floats_merge(tmp_path, capsys):
    table(tmp_path / "t.csv", str(2**70), str(2**70 + 1))
    with pytest.raises(SystemExit, match="2"):
        main(["fit", str(tmp_path / "t.csv"), "--target", "kind", "--output", str(tmp_path / "m")])
    assert "beyond 2^53" in capsys.readouterr().err


KEPT = {
    "views": (pa.array(["a"] * 60, pa.string_view()), "a"),
    "views of bytes": (pa.array([b"a"] * 60, pa.binary_view()), "a"),
    "lists": (pa.array([[1, 2]] * 60), "1|2"),
    "runs": (pa.RunEndEncodedArray.from_arrays([60], ["a"]), "a"),
    "dictionaries": (pa.array(["a"] * 60).dictionary_encode(), "a"),
    "structures": (pa.array([{"a": 1}] * 60), None),
    "lists of lists": (pa.array([[[1]]] * 60), None),
}


@pytest.mark.parametrize("name", KEPT)
def test_columns_that_are_kept_in_csv(name, tmp_path):
    column, written = KEPT[name]
    table(tmp_path / "t.csv", "u", "v")
    fit(tmp_path)
    x = np.zeros(60)
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink:
        data = pa.table({"a": x, "b": x, "kept": column})
        with pa.ipc.new_file(sink, data.schema) as writer:
            writer.write_table(data)
    score = lambda: ju.streaming.predict_files(
        tmp_path / "m", tmp_path / "x.arrow", tmp_path / "o", keep=["kept"], outputs=["class"], file_format="csv"
    )
    if written is None:
        refuses(ValueError, "the column 'kept' holds .*, which CSV cannot", score)
        return
    score()
    assert set(pd.read_csv(tmp_path / "o" / "part-00000-00000.csv", dtype=str)["kept"]) == {written}

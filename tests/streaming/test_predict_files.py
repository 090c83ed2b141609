"""Runs from files to files: whole, cut short, and gone on with."""

import errno
import subprocess
import sys
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

import jaxunc as ju
from jaxunc.streaming import _run, predict_files
from jaxunc.streaming._scoring import Scoring
from jaxunc.streaming._stream import PART_ENDINGS, PartWriter
from tests._refusal import refuses

from ._made import OPTIONS, contents, write_arrow, written

pytestmark = pytest.mark.once


def answers(folder, ending="parquet"):
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    return pd.concat([read(file) for file in sorted(folder.glob(f"part-*.{ending}"))], ignore_index=True)


def parts(folder):
    return {name: content for name, content in contents(folder).items() if name.startswith("part-")}


def moments(folder, pattern="part-*"):
    """When files were written last."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob(pattern)}


@pytest.mark.room
def test_a_folder_of_files(saved, model, data, frame, tmp_path):
    seen = []
    asked = OPTIONS | {"outputs": ["class", "probability", "set", "trees_polled"]}
    manifest = predict_files(saved, data, tmp_path / "out", **asked, progress=seen.append)
    found = answers(tmp_path / "out")
    np.testing.assert_array_equal(found["id"], np.arange(len(frame)))
    np.testing.assert_array_equal(found["class"], model.predict(frame))
    assert manifest["complete"]
    assert manifest["rows"] == len(frame) == seen[-1].done == seen[-1].total
    assert [part["file"] for part in manifest["parts"]] == [0] * 4 + [2] * 5
    assert [part["rows"] for part in manifest["parts"][:4]] == [128, 128, 128, 46]
    assert len(pd.read_parquet(tmp_path / "out")) == len(frame), "the folder is a data set"
    before = moments(tmp_path / "out")
    predict_files(saved, data, tmp_path / "out", **asked)
    assert before == moments(tmp_path / "out"), "what is finished is not scored again"


@pytest.mark.exhaustive
def test_columns_are_let_go_once_they_are_encoded(saved, data, tmp_path, monkeypatch):
    read, encode = [], Scoring.encoded

    def encoded(scoring, chunk):
        read.append(weakref.ref(chunk.features))
        return encode(scoring, chunk)

    count = lambda *_: alive.append(sum(one() is not None for one in read))
    monkeypatch.setattr(Scoring, "encoded", encoded)
    alive: list[int] = []
    predict_files(saved, data, tmp_path / "out", **OPTIONS, progress=count)
    for _ in ju.stream(ju.load(saved), data, chunk_rows=16):
        count()
    assert len(alive) == len(read) == 2 * (27 + 36)
    assert max(alive) <= 2, "that which is encoded and the one before it, not those that wait to be scored and written"


@pytest.mark.room
def test_an_unreadable_file_in_the_middle(saved, copied, made, tmp_path):
    good = (copied / "b.parquet").read_bytes()
    (copied / "b.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    refuses(ValueError, r"b\.parquet cannot be read", predict_files, saved, copied, tmp_path / "out", **OPTIONS)
    assert len(answers(tmp_path / "out")) == 430, "what came before it is kept"
    before = moments(tmp_path / "out")
    (copied / "b.parquet").write_bytes(good)
    predict_files(saved, copied, tmp_path / "out", **OPTIONS)
    assert before.items() <= moments(tmp_path / "out").items(), "finished parts are kept"
    assert parts(tmp_path / "out") == parts(made)


def test_a_file_that_is_replaced_is_scored_anew(saved, copied, frame, out):
    before = moments(out, "part-00002-*")
    frame[100:250].assign(id=range(5000, 5150)).to_parquet(copied / "a.parquet")
    predict_files(saved, copied, out, **OPTIONS)
    assert before == moments(out, "part-00002-*")
    assert list(answers(out)["id"]) == [*range(5000, 5150), *range(430, 1000)]
    (copied / "a.parquet").unlink()
    gone = r"another run: it differs in inputs \(a\.parquet is gone\)"
    refuses(ValueError, gone, predict_files, saved, copied, out, **OPTIONS)


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.exhaustive(keep=1)
def test_files_that_come_later_are_scored_alone(form, saved, copied, frame, tmp_path):
    predict_files(saved, copied, tmp_path / "out", file_format=form, **OPTIONS)
    before = contents(tmp_path / "out")
    frame[:20].assign(id=range(5000, 5020)).to_parquet(copied / "a0.parquet")
    manifest = predict_files(saved, copied, tmp_path / "out", file_format=form, **OPTIONS)
    assert [one["name"] for one in manifest["inputs"]] == ["a.parquet", "b.parquet", "c.parquet", "a0.parquet"]
    after = contents(tmp_path / "out")
    assert set(after) - set(before) == {f"part-00003-00000.{form}"}
    assert {**after, "_manifest.json": b""} == {**after, **before, "_manifest.json": b""}
    assert list(answers(tmp_path / "out", form)["id"]) == [*range(1000), *range(5000, 5020)]


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
@pytest.mark.exhaustive(keep=1)
def test_no_rows_leave_a_schema(kind, saved, data, frame, tmp_path):
    options = OPTIONS | {"outputs": ["class", "probability", "set"]}
    source = written(frame[:0].assign(id=np.arange(0)), tmp_path / f"x.{kind}")
    predict_files(saved, data / "a.parquet", tmp_path / "full", **options)
    manifest = predict_files(saved, source, tmp_path / "out", **options)
    assert manifest["rows"] == 0
    found = parquet.read_table(tmp_path / "out" / "part-00000-00000.parquet")
    full = parquet.read_schema(tmp_path / "full" / "part-00000-00000.parquet").remove_metadata()
    own = found.schema.remove_metadata()
    assert own == full if kind != "csv" else own.names == full.names
    before = contents(tmp_path / "out")
    predict_files(saved, source, tmp_path / "out", **options)
    assert contents(tmp_path / "out") == before


HOLDING = """
import sys, time
from pathlib import Path
from jaxunc.streaming._run import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.room
def test_a_second_run_waits_for_the_first(saved, data, tmp_path):
    (tmp_path / "out").mkdir()
    other = subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path / "out")], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        (tmp_path / "out" / ".part-00000-00000.parquet.77").write_bytes(b"half a part")
        refuses(OSError, "another run is writing to", predict_files, saved, data, tmp_path / "out", **OPTIONS)
        assert (tmp_path / "out" / ".part-00000-00000.parquet.77").exists(), "parts of the other run are left alone"
    finally:
        other.kill()
        other.communicate()
    assert (tmp_path / "out" / ".lock").exists(), "a run that is killed leaves its file"
    predict_files(saved, data, tmp_path / "out", **OPTIONS)
    assert not list((tmp_path / "out").glob(".*")), "which holds up nobody, and goes"


def test_file_systems_without_locks(tmp_path, monkeypatch):
    def none(handle):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_run, "_lock", none)
    with pytest.warns(UserWarning, match="cannot be locked"), _run.lock_folder(tmp_path):
        pass


def test_outputs_within_the_data(saved, copied, tmp_path):
    (tmp_path / "link").symlink_to(copied)
    for output in (copied / "out", tmp_path / "link" / "deep" / "out"):
        refuses(ValueError, "lies within the data", predict_files, saved, copied, output)
        assert not output.exists()
    for output in (copied, tmp_path / "link", tmp_path):
        refuses(ValueError, "holds data that are to be scored", predict_files, saved, copied, output)


@pytest.mark.parametrize("chunk_rows", [0, -3, 1.5, True, "7"])
def test_chunks_of_no_rows(chunk_rows, saved, data, tmp_path):
    error = ValueError if type(chunk_rows) is int else TypeError
    said = "chunk_rows=.* must be .*at least 1"
    refuses(error, said, predict_files, saved, data, tmp_path / "out", chunk_rows=chunk_rows)
    assert not (tmp_path / "out").exists()


KEPT = "id,long,amount,word,length,count,colour,is_old\n" + "".join(
    f"0000{i},{i}{'7' * 24},{i}.10,{word},{i}.50,3,red,true\n" for i, word in enumerate(["NA", "", "null", "a b", "01"])
)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_kept_columns_pass_as_they_are(form, saved, tmp_path):
    (tmp_path / "x.csv").write_text(KEPT)
    keep = ["id", "long", "amount", "word", "length", "is_old"]
    predict_files(saved, tmp_path / "x.csv", tmp_path / "out", keep=keep, outputs=["class"], file_format=form)
    if form == "csv":
        found = pd.read_csv(tmp_path / "out" / "part-00000-00000.csv", dtype=str, keep_default_na=False)
    else:
        found = pd.read_parquet(tmp_path / "out").fillna("")
    expected = pd.read_csv(tmp_path / "x.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(found[keep], expected[keep], check_dtype=False)


def test_outputs_of_other_runs(saved, data, out, tmp_path):
    refuses(ValueError, "it differs in settings", predict_files, saved, data, out, **{**OPTIONS, "keep": []})
    ju.save(tmp_path / "other", ju.voting.bind_vote(ju.load(saved).forest_))
    refuses(ValueError, "differs in model", predict_files, tmp_path / "other", data, out, **OPTIONS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("keep me")
    refuses(ValueError, r"holds other files \(\['letter\.txt'\]\)", predict_files, saved, data, tmp_path / "full")
    refuses(ValueError, "holds no data", predict_files, saved, tmp_path / "full", tmp_path / "new")


@pytest.mark.room
def test_a_full_disk(saved, data, made, tmp_path, monkeypatch):
    write, calls = parquet.ParquetWriter.write_table, []

    def full(self, table):
        calls.append(table)
        if len(calls) == 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, table)

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match=r"No space left.*What is finished is kept"):
        predict_files(saved, data, tmp_path / "out", **OPTIONS)
    monkeypatch.undo()
    predict_files(saved, data, tmp_path / "out", **OPTIONS)
    assert contents(tmp_path / "out") == contents(made)


@pytest.mark.parametrize("form", PART_ENDINGS)
@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.binary_view(), None], ids=str)
@pytest.mark.parametrize("ordered", [False, True])
def test_categories_and_runs(tmp_path, form, kind, ordered):
    """Of these types, or, for None, runs of texts."""
    words = pa.array(["low", "grün"]).cast(pa.binary()).to_pylist() if kind == pa.binary_view() else ["low", "grün"]
    codes = pa.array([1, 0, None, 1], pa.uint32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(words, kind), ordered=ordered)
    column = column if kind else pa.compute.run_end_encode(column.dictionary_decode())
    table = pa.table({"word": pa.chunked_array([column, column[:2]]), "row": np.arange(6)})
    writer = PartWriter(tmp_path, form, lambda *_: None)
    writer("part", 0, lambda: table)
    writer("part", 0, None)
    path = tmp_path / f"part{PART_ENDINGS[form]}"
    found = (parquet.read_table(path) if form == "parquet" else arrow_csv.read_csv(path))["word"].to_pylist()
    found = [word.decode() if isinstance(word, bytes) else word for word in found]
    assert [word or None for word in found] == ["grün", "low", None, "grün", "grün", "low"]


KEPT_IN_CSV = {
    "views": (pa.array(["a"] * 6, pa.string_view()), "a"),
    "views of bytes": (pa.array([b"a"] * 6, pa.binary_view()), "a"),
    "lists": (pa.array([[1, 2]] * 6), "1|2"),
    "lists with gaps": (pa.array([[1, None, 2]] * 6), "1||2"),
    "runs": (pa.RunEndEncodedArray.from_arrays([6], ["a"]), "a"),
    "structures": (pa.array([{"a": 1}] * 6), None),
    "lists of lists": (pa.array([[[1]]] * 6), None),
}


@pytest.mark.parametrize("name", KEPT_IN_CSV)
def test_columns_that_are_kept_in_csv(name, tmp_path, saved, model, frame):
    column, cell = KEPT_IN_CSV[name]
    table = pa.Table.from_pandas(frame[:6], preserve_index=False).append_column("kept", column)
    asked = {"keep": ["kept"], "outputs": ["class", "set"], "file_format": "csv"}
    score = lambda: predict_files(saved, write_arrow(table, tmp_path / "x.arrow"), tmp_path / "o", **asked)
    if cell is None:
        refuses(ValueError, "the column 'kept' holds .*, which CSV cannot", score)
        return
    score()
    found = pd.read_csv(tmp_path / "o" / "part-00000-00000.csv", dtype=str)
    assert set(found["kept"]) == {cell}
    np.testing.assert_array_equal(found["class"], model.predict(frame[:6]))
    assert set(found["set"]) <= {"no", "yes", "no|yes"}


def test_rejected_rows_of_one_column_are_rows(saved, frame, tmp_path):
    """An empty line of a text file would be none."""
    written(frame[:30], tmp_path / "x.csv")
    settings = {"outputs": ["decision"], "reject": 0.1, "file_format": "csv"}
    for _ in range(2):  # the second run reads what the first has written
        assert predict_files(saved, tmp_path / "x.csv", tmp_path / "out", **settings)["rows"] == 30
    found = pd.read_csv(next((tmp_path / "out").glob("part-*")))
    assert len(found) == 30
    assert found["decision"].isna().any()

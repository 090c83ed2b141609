"""The folder of a run: what its manifest may say and it may hold. What no run writes is refused, and stays as it is."""

import json
import os

import numpy as np
import pytest

from jaxunc.streaming import predict_files
from tests._exhaustive import SEED
from tests._refusal import refuses

from ._made import OPTIONS, contents, written

pytestmark = pytest.mark.once


def part(name, file=0):
    return {"name": name, "file": file, "rows": 128, "bytes": 1}


NAMES = [
    *("../victim.txt", "/etc/hostname", "../part-00000-00000.parquet"),
    *("part-00000-0000४.parquet", "part-000000-00000.parquet", "part-00000-00009.csv"),
]
"""Names that no part has: paths, other digits, more zeros, another ending."""
ENTRIES = [
    *({"file": 1}, {"file": "0"}, {"name": ["part-00000-00000.parquet"]}),
    *({"rows": rows} for rows in (-5, 127, True, 128.0, 2**80)),
]
"""Of the first part, what it is not."""
BELIEFS = [
    *(lambda m, name=name: m["parts"].append(part(name)) for name in NAMES),
    *(lambda m, entry=entry: m["parts"][0].update(entry) for entry in ENTRIES),
    lambda m: m["parts"].append(part("part-00009-00000.parquet", 9)),
    lambda m: m["parts"].extend(m["parts"]),
    lambda m: m["parts"][3].update(rows=47),
    *(lambda m, parts=parts: m.update(parts=parts) for parts in ([{}], ["part-00000-00000.parquet"], {})),
    lambda m: m.pop("parts"),
    lambda m: m.update(inputs=None),
    lambda m: m.update(inputs=["a.parquet"]),
    lambda m: m["inputs"][0].pop("bytes"),
    lambda m: m.update(settings=[]),
]
TEXTS = {
    "nothing": b"", "a list": b"[]", "a number": b"3", "brackets": b"[" * 100_000, "objects": b'{"a":' * 100_000,
    "other bytes": b"\xff\xfe\x00", "a number of many digits": b'{"parts": ' + b"9" * 100_000 + b"}",
}  # fmt: skip


@pytest.mark.room(keep=4)
@pytest.mark.parametrize("change", BELIEFS)
def test_entries_that_no_run_writes(change, saved, data, out):
    manifest = json.loads((out / "_manifest.json").read_text())
    change(manifest)
    (out / "_manifest.json").write_text(json.dumps(manifest))
    _is_refused(saved, data, out)


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_manifest(name, saved, data, out):
    (out / "_manifest.json").write_bytes(TEXTS[name])
    _is_refused(saved, data, out)


def _is_refused(saved, data, out):
    before = contents(out)
    refuses(ValueError, "is no manifest of jaxunc: .*Choose another folder", predict_files, saved, data, out, **OPTIONS)
    assert contents(out) == before
    assert (out.parent / "victim.txt").read_text() == "precious"


def _places(node, path=()):
    """The paths of all entries of a document."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield (*path, key)
        yield from _places(node[key], (*path, key))


ODD = [None, True, -1, 0, 10**30, 0.5, "", "../victim.txt", "part-00000-00000.parquet", [], {}, [[]], {"name": 1}]


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.exhaustive] * (s > 0)) for s in range(10)])
def test_entries_at_random(seed, saved, data, out, made):
    """Each entry is another thing: refused in words, or the run ends as it would have without."""
    rng = np.random.default_rng([SEED, seed])
    whole, text = contents(made), (made / "_manifest.json").read_text()
    for _ in range(12):
        manifest = json.loads(text)
        places = list(_places(manifest))
        *path, last = places[rng.integers(len(places))]
        node = manifest
        for key in path:
            node = node[key]
        node[last] = ODD[rng.integers(len(ODD))]
        (out / "_manifest.json").write_text(json.dumps(manifest))
        try:
            predict_files(saved, data, out, **OPTIONS)
        except ValueError:
            found, own = ({**one, "_manifest.json": b""} for one in (contents(out), whole))
            assert found == own
        else:
            assert contents(out) == whole
        assert (out.parent / "victim.txt").read_text() == "precious"


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="the system has no such device")
def test_a_link_to_a_device(saved, data, out):
    (out / "_manifest.json").unlink()
    (out / "_manifest.json").symlink_to("/dev/zero")
    with refuses(ValueError, "is no manifest of jaxunc: it is no file, but a link"):
        predict_files(saved, data, out, **OPTIONS)


def test_a_manifest_larger_than_its_files(saved, data, out):
    with open(out / "_manifest.json", "r+b") as file:
        file.truncate(2**31)  # of holes
    refuses(ValueError, "has 2147483648 bytes, more than its files explain", predict_files, saved, data, out, **OPTIONS)


def test_parts_that_are_gone_are_made_again_and_what_killed_runs_leave_goes(saved, data, out, made):
    (out / "._manifest.json.77").write_text("half of one")
    (out / ".part-00000-00000.parquet.78").write_text("half of one")
    (out / "part-00002-00007.parquet").write_text("of a file that was longer")
    (out / "part-00002-00001.parquet").unlink()
    (out / "part-00002-00003.parquet").write_bytes(b"cut")
    predict_files(saved, data, out, **OPTIONS)
    assert contents(out) == contents(made)


def test_parts_that_are_links_are_made_anew(saved, data, out):
    own = (out / "part-00000-00001.parquet").read_bytes()
    (out.parent / "victim.txt").write_bytes(own)
    (out / "part-00000-00001.parquet").unlink()
    (out / "part-00000-00001.parquet").symlink_to(out.parent / "victim.txt")
    predict_files(saved, data, out, **OPTIONS)
    assert not (out / "part-00000-00001.parquet").is_symlink()
    assert (out / "part-00000-00001.parquet").read_bytes() == (out.parent / "victim.txt").read_bytes() == own


def test_a_part_that_goes_during_the_run(saved, data, out):
    take_away = lambda _: (out / "part-00000-00000.parquet").unlink(missing_ok=True)
    (out / "part-00002-00004.parquet").unlink()
    with pytest.raises(OSError, match=r"part-00000-00000\.parquet.* were taken away"):
        predict_files(saved, data, out, **OPTIONS, progress=take_away)
    assert not json.loads((out / "_manifest.json").read_text())["complete"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_files_that_are_written_to_during_the_run(ending, saved, frame, tmp_path):
    path = written(frame.assign(id=np.arange(len(frame))), tmp_path / f"x.{ending}")
    touch = lambda _: os.utime(path, ns=(1, 1))
    with refuses(ValueError, "was changed (while it was read|since the run began)"):
        predict_files(saved, path, tmp_path / "out", **OPTIONS, progress=touch)


def test_kept_columns_of_other_types(saved, frame, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    frame[:9].assign(id=np.arange(9)).to_parquet(folder / "a.parquet")
    predict_files(saved, folder, tmp_path / "out", **OPTIONS)
    frame[:9].assign(id=[str(i) for i in range(9)]).to_parquet(folder / "b.parquet")
    for output in ("out", "new"):
        with refuses(ValueError, r"b\.parquet keeps 'id' as .*string, and .* as int64: the parts would not fit"):
            predict_files(saved, folder, tmp_path / output, **OPTIONS)
    predict_files(saved, folder, tmp_path / "csv", file_format="csv", **OPTIONS)


@pytest.mark.parametrize("name", ["b.csv.bz2", "b.zip", "B.XLSX", "deep/b.csv.zst"])
def test_data_that_are_not_read(name, saved, frame, tmp_path):
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    frame[:9].to_parquet(folder / "a.parquet")
    (folder / name).write_bytes(b"data")
    with refuses(ValueError, "holds data that are not read: .*(?i:b)"):
        predict_files(saved, folder, tmp_path / "out", outputs=["class"])
    (folder / name).rename(folder / "notes.txt")
    with pytest.warns(UserWarning, match=r"'notes\.txt' is passed over"):
        predict_files(saved, folder, tmp_path / "out", outputs=["class"])

"""The measurement of the form for accelerators: parts that fail, processes that end, its forests.

And the charts of engines: what they show is what the files of results hold.
"""

import io
import json
import sys

import jax
import numpy as np
import pytest

import jaxunc as ju
from benchmarks.speed import report, shares_chart
from benchmarks.speed.accelerator import run
from benchmarks.speed.accelerator.__main__ import parse
from benchmarks.speed.accelerator.answers import _close, _same
from benchmarks.speed.accelerator.forests import leaves_on_host, make_forest, make_rows
from benchmarks.speed.accelerator.run import PARTS, Part
from tests._claims import results

pytestmark = pytest.mark.once

AMPLE = 1e6
"""Seconds that no part takes: what is left out for want of time is not what is tested."""


def breaks_at_once(quick):
    raise RuntimeError("no room in /some/folder/of/it.bin")
    yield


def breaks_midway(quick):
    yield {"case": 1}, lambda: {"steady_s": {"median": 1.0, "first_quartile": 0.5, "third_quartile": 2.0}}
    yield {"case": 2}, lambda: {}["missing"]
    yield {"case": 3}, lambda: {"ok": True}


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setitem(PARTS, "at once", Part(breaks_at_once, AMPLE))
    monkeypatch.setitem(PARTS, "midway", Part(breaks_midway, AMPLE))


def test_parts_go_on_where_one_fails(parts):
    out = io.StringIO()
    run.work(["at once", "midway", "calls"], quick=True, seconds=AMPLE, out=out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0]["about"]["device"]["backend"] == jax.default_backend()
    assert [line["begins"] for line in lines if "begins" in line] == ["at once", "midway", "calls"]
    assert sum("ends" in line for line in lines) == 3
    rows = [line["row"] for line in lines if "row" in line]
    assert rows[0] == {"failed": "RuntimeError: no room in …/it.bin"}
    assert [row.get("failed") for row in rows[1:4]] == [None, "KeyError: 'missing'", None]
    assert [row["form"] for row in rows[4:]] == ["unrolled", "loop"]
    assert all(row["steady_s"]["median"] > 0 for row in rows[4:])
    header, cells = report.as_table(rows[:4])
    assert (header, cells[1]) == (["failed", "case", "steady_s", "ok"], ["", "1", "1000.0 (500.0-2000.0)", ""])


def test_no_case_begins_after_the_time(parts):
    rows = []
    run.measure_part(PARTS["midway"], quick=True, seconds=-1.0, tell=rows.append)
    assert rows == [{"left_out": 3, "failed": "no time left after -1 s"}]


def ended(program, **settings):
    return list(run.by_process([sys.executable, "-c", program], ["rules", "votes"], None, float("inf"), **settings))


BEGINS = 'print(\'{"begins": "rules"}\\n{"row": {"rule": "mean"}}\', flush=True);'
DIES = "import os, sys; print('illegal address', file=sys.stderr); sys.stderr.flush(); os._exit(7)"


@pytest.mark.parametrize(
    ("program", "settings", "rows"),
    [
        (BEGINS + DIES, {}, [{"rule": "mean"}, {"failed": "the process ended: exit status 7: illegal address"}]),
        ("import time; time.sleep(1000)", {"start_seconds": 0.1}, [{"failed": "the process ended: it took too long"}]),
    ],
)
def test_a_process_that_dies_or_hangs(program, settings, rows):
    ((name, found),) = ended(program, **settings)
    assert (name, found["rows"]) == ("rules", rows)


def test_a_process_that_ends_after_its_first_part():
    found = ended(BEGINS + 'print(\'{"ends": "rules", "seconds": 2.5}\')')
    assert found[0] == ("rules", {"backend": None, "seconds": 2.5, "rows": [{"rule": "mean"}]})
    assert found[1][0] == "votes"
    assert "exit status" in found[1][1]["rows"][0]["failed"]


@pytest.mark.parametrize("depth", [4, 18])
def test_forests(depth):
    forest, levels = make_forest(depth, 3)
    ju.forest.check_forest(forest)
    assert forest.depth == depth
    rows = np.asarray(make_rows(200))
    leaves = leaves_on_host(forest, rows)
    np.testing.assert_array_equal(leaves, ju.leaf_index(forest, rows))
    assert np.asarray(forest.trees.is_leaf)[np.arange(3), leaves].all()
    # Complete trees have one length of path; of long ones most rows go far below the complete levels.
    assert (levels[leaves] == 4).all() if depth == 4 else levels[leaves].mean() > 12


def test_answers_are_compared():
    found, other = np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 2.5])
    assert _same(found, found)["holds"]
    assert _same(found, other) == {"holds": False, "differ": 1, "of": 3, "most": 0.2}
    assert not _same(found, found[:2])["holds"]
    assert _close(found[:1], found[:1] + 1e-6)["holds"]
    assert not _close(found, np.array([1.0, 0.0, 2.0]))["holds"]


def test_all_parts_fit_into_ten_minutes():
    assert parse([]).seconds + run.GRACE_SECONDS < 580
    with pytest.raises(SystemExit):
        parse(["--parts", "nothing"])


def test_shares_are_those_of_the_files():
    forests = shares_chart.of_forests(results("speed-cpu"))
    assert len(forests) == 4
    first = results("speed-cpu")["workloads"][0]
    own = next(one for one in first["engines"] if one["name"] == "jaxunc")["ratio_to_scikit_learn"]
    assert next(iter(forests.values()))["jaxunc"] == (own["median"], own["first_quartile"], own["third_quartile"])
    assert all("scikit-learn" not in of for of in forests.values())
    models = shares_chart.of_models(results("imported-cpu"))
    assert len(models) == len(results("imported-cpu")["models"])
    assert {name for of in models.values() for name in of} <= {"jaxunc", *shares_chart.OTHERS}


def test_every_mark_lies_within_the_axes(tmp_path, monkeypatch):
    monkeypatch.setattr(shares_chart, "RESULTS", tmp_path)
    shares = shares_chart.of_models(results("imported-cpu"))
    low, high = shares_chart._around(shares)
    assert all(low < value < high for of in shares.values() for one in of.values() for value in np.ravel(one))
    shares_chart.draw(shares, "1", "drawn")
    drawn = (tmp_path / "drawn.svg").read_text()
    assert all(name in drawn for name in ("jaxunc", "oneDAL", "CatBoost"))

"""Runs that are killed at every step on the disk in turn, and go on: the bytes of a run that nobody disturbed."""

import json
import shutil
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from jaxunc.streaming import predict_files
from tests._exhaustive import SEED

from ._deaths import EVERY, PROGRAM, SHIM, Death, Steps
from ._made import NEEDS_SHIM, contents, shimmed, written

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore"), pytest.mark.room]
OPTIONS = {"keep": ["id"], "outputs": ["class", "set"], "chunk_rows": 16}


@pytest.fixture(scope="module")
def few(frame, tmp_path_factory):
    """Files of all formats with a few parts, one without rows."""
    folder = tmp_path_factory.mktemp("few")
    rows = frame[:400].assign(id=pd.array([f"row {i}" for i in range(400)], "string"))
    places = {"a.csv": (0, 150), "b.parquet": (0, 0), "b2.parquet": (150, 200), "c.arrow": (200, 278)}
    for name, (first, last) in places.items():
        written(rows[first:last], folder / name)
    rows[278:].to_csv(folder / "d.csv.gz", index=False)
    return folder


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("every", [pytest.param(True, marks=pytest.mark.exhaustive), False])
def test_a_run_that_dies_at_a_step_goes_on(every, form, saved, few, tmp_path, monkeypatch):
    steps = Steps(monkeypatch)
    settings = OPTIONS | {"file_format": form, "progress": lambda _: steps.take()}
    steps.begin(0)
    predict_files(saved, few, tmp_path / "whole", **settings)
    expected, number = contents(tmp_path / "whole"), steps.taken
    assert number > 30
    rng = np.random.default_rng(SEED)
    moments = [(n,) for n in range(1, number + 1)] if every else rng.integers(1, number + 1, (2, 2)).tolist()
    for moment in moments:
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        for last in moment:
            steps.begin(last)
            with suppress(Death):
                predict_files(saved, few, tmp_path / "again", **settings)
                assert steps.taken < last or len(moment) > 1
        steps.begin(0)
        predict_files(saved, few, tmp_path / "again", **settings)
        assert contents(tmp_path / "again") == expected, f"{moment}, seed {SEED}"


@NEEDS_SHIM
@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("moments", ["at random", *range(1, EVERY + 1)])
@pytest.mark.exhaustive
def test_a_process_that_is_killed_at_a_call_goes_on(moments, form, saved, few, tmp_path):
    """By SIGKILL or SIGTERM, a write half done: at each 32nd call of the system in turn, or at several."""
    settings = OPTIONS | {"file_format": form, "chunk_rows": 32}
    predict_files(saved, few, tmp_path / "whole", **settings)
    places = [saved, few, tmp_path / "whole", tmp_path / "shimmed"]
    drawn = np.random.default_rng(SEED).integers(1, 40, (4, 2)).tolist() if moments == "at random" else moments
    lines = shimmed(tmp_path, SHIM, PROGRAM, *places, json.dumps(settings), json.dumps(drawn))
    # A run that writes CSV makes some sixty calls.
    assert sum(int(line.split()[-1]) for line in lines) > (0 if form == "csv" else 3)

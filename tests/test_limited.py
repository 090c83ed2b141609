"""Damaged models and manifests in a process of limited memory: answered, or refused in words; nothing else happens."""

import json
import os
import subprocess
import sys

import pytest

from tests._exhaustive import SEED

pytestmark = [pytest.mark.once, pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")]
JSON = ["xgboost.json", "xgboost_forest.json", "catboost.json"]
BINARY = ["xgboost.ubj", "treelite.bin", "treelite_forest.bin"]
FORMATS = [*JSON, *BINARY, "lightgbm.txt", "lightgbm_forest.txt", "trees.onnx", "saved", "manifest"]
NUMBER = int(os.environ.get("JAXUNC_TEST_MUTATIONS", "1000"))
"""Files of each format, of the exhaustive form: CONTRIBUTING says when more are tried."""


def _tried(names: list[str], number: int, folder) -> list[dict]:
    program = [sys.executable, "-m", "tests._limited", ",".join(names), str(SEED), str(number), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {SEED}, {folder}: {done.returncode} {done.stdout[-300:]} {done.stderr[-2000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def _check(found: list[dict], number: int) -> None:
    for one in found:
        print(one)
        assert not one["faults"], f"{one['name']}, seed {SEED}: {one['faults'][:5]}"
        assert sum(one["counts"].values()) == number


@pytest.mark.exhaustive
def test_some_of_each(tmp_path):
    names = [name for name in FORMATS if name not in ("trees.onnx", "saved")]
    _check(_tried(names, 20, tmp_path), 20)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.exhaustive
def test_many(name, tmp_path):
    if name == "trees.onnx":
        pytest.importorskip("onnx")
    (found,) = _tried([name], NUMBER, tmp_path)
    _check([found], NUMBER)
    assert found["counts"]["refused"] > 0.3 * NUMBER
    assert found["counts"]["read"] > 0.01 * NUMBER, "some changes only change numbers"

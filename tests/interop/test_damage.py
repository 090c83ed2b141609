"""Files of other libraries that are damaged or hostile: refused in words, or read well-formed. Nothing else happens."""

import os
import resource
import time
import warnings

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.ensembles import TreeEnsemble, check_ensemble
from jaxunc.forest import check_forest, check_trees
from tests._model_files import FOLDER

from ._mutations import BINARY, JSON, LINES

pytestmark = pytest.mark.once

NUMBER = int(os.environ.get("JAXUNC_TEST_MUTATIONS", "250"))
"""Mutated files of each: CONTRIBUTING says when more are tried."""

FORMATS = {
    "xgboost.json": (ju.from_xgboost, JSON),
    "xgboost.ubj": (ju.from_xgboost, BINARY),
    "xgboost_forest.json": (ju.from_xgboost, JSON),
    "lightgbm.txt": (ju.from_lightgbm, LINES),
    "lightgbm_forest.txt": (ju.from_lightgbm, LINES),
    "catboost.json": (ju.from_catboost, JSON),
    "treelite.bin": (ju.from_treelite, BINARY),
    "treelite_forest.bin": (ju.from_treelite, BINARY),
    "trees.onnx": (ju.from_onnx, BINARY),
}


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files(name, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    read, mutations = FORMATS[name]
    content = (FOLDER / name).read_bytes()
    rng, before, slowest = np.random.default_rng(len(name)), _peak(), 0.0
    counts = dict.fromkeys(("refused", "read"), 0)
    for i in range(NUMBER):
        changed = mutations[i % len(mutations)](content, rng)
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = read(changed)
        except ValueError as error:
            assert len(str(error)) < 1000, str(error)[:2000]
            counts["refused"] += 1
        except BaseException:
            (tmp_path / name).write_bytes(changed)  # which pytest keeps
            raise
        else:
            _check_well_formed(model)
            counts["read"] += 1
        slowest = max(slowest, time.process_time() - start)
    print(f"{name}: {counts}, slowest {slowest:.2f} s, {(_peak() - before) / 1e6:.0f} MB")
    assert slowest < 10
    assert _peak() - before < 1e9
    assert counts["refused"] > 0.3 * NUMBER
    assert counts["read"] > 0.01 * NUMBER, "some changes only change numbers"


def _check_well_formed(model) -> None:
    if isinstance(model, TreeEnsemble):
        check_trees(model.trees)
        check_ensemble(model)
    else:
        check_forest(model)


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

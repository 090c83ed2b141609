"""Files of other libraries that are damaged or hostile: refused in words, or read well-formed. Nothing else happens."""

import os
import resource
import warnings

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees, check_additive
from jaxunc.forest import check_forest, check_trees
from tests._model_files import FOLDER
from tests._patience import ends

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


def _of_catboost(tree):
    from .test_catboost import short_files

    return short_files()[tree]


def _of_lightgbm():
    from .test_lightgbm import small_file

    return small_file()


def _of_xgboost(form, leaves="numbers"):
    from .test_xgboost import VECTORS, data, xgboost

    further = VECTORS if leaves == "vectors" else {}
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, **further).fit(*data(np.random.default_rng(0), 200))
    return bytes(model.get_booster().save_raw(form))


def _of_treelite(kind):
    from .test_treelite import built, forest_of_counts

    if kind == "counts":
        return forest_of_counts([[1 / 3, 2 / 3], [1, 0]], count=[9, 4]).serialize_bytes()
    return built(np.random.default_rng(5), kind, n_trees=2, n_nodes=15).serialize_bytes()


def _of_onnx(operator):
    from .test_from_onnx import graph, new_form, weighted

    rng, small = np.random.default_rng(8), {"n_trees": 2, "n_nodes": 7}
    if operator == "TreeEnsemble":
        return graph(operator, new_form(), opset=5).SerializeToString()
    if operator == "TreeEnsembleRegressor":
        return graph(operator, weighted(rng, "target", [0], **small) | {"n_targets": 1}).SerializeToString()
    classes = weighted(rng, "class", [0, 1, 2], **small) | {"classlabels_int64s": [0, 1, 2]}
    return graph(operator, classes, np.float64).SerializeToString()


KINDS_OF_TREELITE, OPERATORS = ("float32", "float64", "counts"), ("", "Regressor", "Classifier")
MADE = {
    **{f"catboost, {tree}": (ju.from_catboost, JSON, _of_catboost, tree) for tree in (0, 1)},
    "lightgbm, categories": (ju.from_lightgbm, LINES, _of_lightgbm),
    "xgboost, classes, json": (ju.from_xgboost, JSON, _of_xgboost, "json"),
    "xgboost, classes, ubj": (ju.from_xgboost, BINARY, _of_xgboost, "ubj"),
    "xgboost, vectors": (ju.from_xgboost, JSON, _of_xgboost, "json", "vectors"),
    **{f"treelite, {kind}": (ju.from_treelite, BINARY, _of_treelite, kind) for kind in KINDS_OF_TREELITE},
    **{f"onnx, {kind}": (ju.from_onnx, BINARY, _of_onnx, f"TreeEnsemble{kind}") for kind in OPERATORS},
}
"""Models that are made here, for parts of the formats that the files of the folder have not."""


@pytest.mark.room(keep=3)
@pytest.mark.parametrize("name", [*FORMATS, *MADE])
def test_mutated_files(name, tmp_path):
    if name in MADE or name.endswith("onnx"):
        pytest.importorskip("onnx" if name.endswith("onnx") else name.partition(",")[0])
    before, tried = _peak(), Tried(name, tmp_path)
    rng = np.random.default_rng(len(name))
    for i in range(NUMBER):
        tried.read(tried.mutations[i % len(tried.mutations)](tried.content, rng))
    print(f"{name}: {tried.refused} refused, {tried.whole} read")
    assert tried.longest < 1000
    assert _peak() - before < 1e9
    assert tried.refused > 0.3 * NUMBER
    assert tried.whole > 0.01 * NUMBER, "some changes only change numbers"


@pytest.mark.parametrize("name", ["xgboost.json", "xgboost.ubj", "lightgbm.txt", "catboost.json", "treelite.bin"])
def test_truncated_files(name):
    """Each is refused, but for LightGBM's that end with its parameters, as files of its other languages do."""
    read, content = FORMATS[name][0], (FOLDER / name).read_bytes().rstrip(b"\n")
    places = {*range(len(content) - 80, len(content)), *range(0, len(content), len(content) // 80)}
    whole = []
    for place in sorted(places):
        try:
            read(content[:place])
        except ValueError:
            continue
        whole.append(content[:place])
    assert all(one.rstrip().endswith(b"\nend of parameters") for one in whole)
    assert name == "lightgbm.txt" or not whole


class Tried:
    """What became of the mutated files of a format."""

    def __init__(self, name, folder):
        self._read, self.mutations, *made = FORMATS.get(name) or MADE[name]
        self.content = made[0](*made[1:]) if made else (FOLDER / name).read_bytes()
        self._crashed = folder / name
        self.refused, self.whole, self.longest = 0, 0, 0

    def read(self, content):
        try:
            with warnings.catch_warnings(), ends(0.1):
                warnings.simplefilter("ignore")
                model = self._read(content)
        except ValueError as error:
            self.refused += 1
            self.longest = max(self.longest, len(str(error)))
        except BaseException:
            self._crashed.write_bytes(content)  # pytest keeps it
            raise
        else:
            _check_well_formed(model)
            self.whole += 1


def _check_well_formed(model) -> None:
    if isinstance(model, AdditiveTrees):
        check_trees(model.trees)
        check_additive(model)
    else:
        check_forest(model)


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

"""What a few bytes claim takes no more memory than bytes that say it, and no file but the one that was given."""

import json
import struct
import tracemalloc

import numpy as np
import pytest

import jaxunc as ju
from tests._refusal import refuses

pytestmark = pytest.mark.once
HEAD = b"{i\x07learner["


def _many(entry: bytes, number: int) -> bytes:
    """Arrays one behind the other, each of as many entries as there are bytes left."""
    total = len(HEAD) + (len(entry) + 6) * number + 2
    size = len(entry) + 6
    claims = (total - len(HEAD) - size * (i + 1) for i in range(number))
    return HEAD + b"".join(b"[$" + entry + b"#l" + struct.pack(">i", claim) for claim in claims) + b"]}"


@pytest.mark.parametrize("entry", [b"T", b"F", b"Z", b"N"])
@pytest.mark.parametrize("number", [1, 50, 2000])
def test_entries_without_bytes(entry, number):
    content = _many(entry, number)
    tracemalloc.start()
    refuses(ValueError, "neither JSON nor UBJSON|is a |has no ", ju.from_any, content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20 + 200 * len(content)


def test_claimed_columns():
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(60, 3))
    booster = xgboost.XGBClassifier(n_estimators=2).fit(X, (X[:, 0] > 0).astype(int)).get_booster()
    document = json.loads(booster.save_raw("json"))
    document["learner"]["learner_model_param"]["num_feature"] = str(2**24)
    tracemalloc.start()
    assert ju.from_any(json.dumps(document).encode()).trees.n_features == 2**24
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24, "no list of all columns"


def _of_ours(key: str, value: str) -> bytes:
    onnx = pytest.importorskip("onnx")
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    sklearn = pytest.importorskip("sklearn.ensemble")
    forest = sklearn.GradientBoostingClassifier(n_estimators=2).fit(X, (X[:, 0] > 0).astype(int))
    model = ju.to_onnx(ju.from_sklearn_values(forest))
    model = model if isinstance(model, onnx.ModelProto) else onnx.ModelProto.FromString(model)
    others = [one for one in model.metadata_props if one.key != key]
    del model.metadata_props[:]
    model.metadata_props.extend([*others, onnx.StringStringEntryProto(key=key, value=value)])
    return model.SerializeToString()


@pytest.mark.parametrize("key", ["class_labels", "feature_names", "jaxunc.settings"])
@pytest.mark.parametrize("value", ["[" * 100_000, "[[1], [2]]", '[{"a": 1}, 2]', "7", "{"])
def test_labels_that_are_none(key, value):
    refuses(ValueError, "metadata are damaged", ju.from_onnx, _of_ours(key, value))


@pytest.mark.parametrize("given", ["bytes", "path"])
def test_arrays_in_other_files(given, tmp_path, monkeypatch):
    """Nothing is read from the working directory, nor from beside the model."""
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto.FromString(_of_ours("none", ""))
    (node,) = [node for node in model.graph.node if "TreeEnsemble" in node.op_type]
    base = next(one for one in node.attribute if one.name == "base_values_as_tensor")
    (tmp_path / "secret").write_bytes(np.ones(base.t.dims[0]).tobytes())
    base.t.ClearField("raw_data")
    base.t.ClearField("double_data")
    base.t.data_location = onnx.TensorProto.EXTERNAL
    base.t.external_data.add(key="location", value="secret")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    with refuses(ValueError, "keeps its attribute .* in another file, which is not read"):
        ju.from_onnx((tmp_path / "m.onnx").read_bytes() if given == "bytes" else tmp_path / "m.onnx")

"""Hand-made trees of ONNX, of all operators and modes, against ONNX Runtime."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

import jaxunc as ju
from tests.interop.test_from_onnx import MODES, graph

from ._compare import Way
from ._tables import n_asked, n_trees

FLOOR = 0.6
WAYS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_THRESHOLDS = (0.0, -0.0, 0.25, 1.0, 3.0, 1e-40, 2.0**24, -1e30, 0.1, -1.0, 1 + 2.0**-23, 7.0)
onnxruntime.set_default_logger_severity(4)


def make(rng: np.random.Generator) -> Iterator[Way]:
    dtype, columns = str(rng.choice(["float32", "float32", "float64", "int64"])), int(rng.choice([1, 3, 5]))
    operator = str(rng.choice(WAYS))
    if operator != "TreeEnsembleClassifier" and dtype == "int64":  # which ONNX Runtime has for classifiers alone
        dtype = "float32"
    trees = [_grown(rng, columns, operator == "TreeEnsemble", dtype) for _ in range(n_trees(rng))]
    model = _model(rng, operator, _written(rng, operator, trees, dtype), dtype, columns)
    rows = _rows(rng, trees, columns, dtype)
    content = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    told = session.run(None, {"X": rows})
    given = [model, content][rng.integers(2)]
    yield Way(operator, lambda: ju.from_any(given), rows, answer=told[-1], steps=8 + 4 * len(trees), slack=2e-6)


def _grown(rng: np.random.Generator, columns: int, sets: bool, dtype: str) -> list[dict[str, Any]]:
    """The nodes of a random tree, the root first: dictionaries, of which leaves have no mode."""
    nodes: list[dict[str, Any]] = [{}]
    # Some trees test by one mode alone, as converters write them.
    modes = MODES if rng.random() < 0.5 else (str(rng.choice(MODES)),)
    for _ in range(int(rng.integers(0, 9))):
        leaf = nodes[rng.choice([i for i, node in enumerate(nodes) if not node])]
        value = float(rng.choice(_THRESHOLDS)) + (float(rng.choice([0.0, 1e-9])) if dtype == "float64" else 0.0)
        leaf |= {"mode": str(rng.choice(modes)), "feature": int(rng.integers(columns)), "value": value}
        leaf |= {"tracks": int(rng.integers(2)), "true": len(nodes), "false": len(nodes) + 1}
        if sets and rng.random() < 0.3:
            leaf |= {"mode": "BRANCH_MEMBER", "set": rng.choice(range(-2, 12), rng.integers(1, 6), replace=False)}
        nodes += [{}, {}]
    return nodes


def _written(rng: np.random.Generator, operator: str, trees: list, dtype: str) -> dict[str, Any]:
    if operator == "TreeEnsemble":
        return _new_form(rng, trees, dtype)
    no_tracks = rng.random() < 0.2
    rows = [(t, i, node) for t, tree in enumerate(trees) for i, node in enumerate(tree)]
    attributes: dict[str, Any] = {
        "nodes_treeids": [t for t, _, _ in rows], "nodes_nodeids": [i for _, i, _ in rows],
        "nodes_featureids": [node.get("feature", 0) for *_, node in rows],
        "nodes_modes": [node.get("mode", "LEAF") for *_, node in rows],
        "nodes_truenodeids": [node.get("true", 0) for *_, node in rows],
        "nodes_falsenodeids": [node.get("false", 0) for *_, node in rows],
    }  # fmt: skip
    if not no_tracks:
        attributes["nodes_missing_value_tracks_true"] = [node.get("tracks", 0) for *_, node in rows]
    attributes |= _numbers("nodes_values", [node.get("value", 0.0) for *_, node in rows], dtype)
    leaves = [(t, i) for t, i, node in rows if not node]
    is_classifier = operator == "TreeEnsembleClassifier"
    kind, classes = ("class", int(rng.choice([2, 2, 3]))) if is_classifier else ("target", int(rng.choice([1, 1, 2])))
    one_each = (is_classifier and classes == 2 and rng.random() < 0.5) or classes == 1
    told = [0] if one_each else range(classes)
    if not one_each and rng.random() < 0.3:  # a tree for each class, as boosted models have
        ids = [(t, i, t % classes) for t, i in leaves]
    elif not one_each and rng.random() < 0.1:  # a class for each leaf
        ids = [(t, i, int(rng.integers(classes))) for t, i in leaves]
    else:
        ids = [(t, i, c) for t, i in leaves for c in told]
    attributes |= {f"{kind}_{name}": [one[i] for one in ids] for i, name in enumerate(("treeids", "nodeids", "ids"))}
    low = 0.0 if rng.random() < 0.3 else -1.0
    attributes |= _numbers(f"{kind}_weights", rng.uniform(low, 1, len(ids)).tolist(), dtype)
    if rng.random() < 0.4:
        attributes |= _numbers("base_values", rng.normal(size=1 if one_each else classes).tolist(), dtype)
    transforms = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
    shares = [0.5, 0.22, 0.22, 0.03, 0.03] if is_classifier or classes > 1 else [0.9, 0.04, 0.02, 0.02, 0.02]
    attributes["post_transform"] = transforms[rng.choice(5, p=shares)]
    if is_classifier:
        labels = [("classlabels_int64s", [0, 1, 2]), ("classlabels_strings", ["no", "ja", "öst"])][rng.integers(2)]
        return attributes | {labels[0]: labels[1][:classes]}
    aggregate = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"], p=[0.7, 0.2, 0.05, 0.05]))
    return attributes | {"n_targets": classes, "aggregate_function": aggregate}


def _numbers(name: str, values: list[float], dtype: str) -> dict[str, Any]:
    tensor = numpy_helper.from_array(np.array(values, np.float64))
    return {f"{name}_as_tensor": tensor} if dtype == "float64" else {name: values}


def _new_form(rng: np.random.Generator, trees: list, dtype: str) -> dict[str, Any]:
    """The attributes of ``TreeEnsemble``, which lists inner nodes and leaves by themselves."""
    inner: list[dict[str, Any]] = []
    roots, n_leaves = [], 0
    for t, tree in enumerate(trees):
        if not tree[0]:  # of a tree that is a leaf the node has it on both sides
            tree = [{"mode": "BRANCH_LEQ", "feature": 0, "value": 0.0, "tracks": 0, "true": 1, "false": 1}, {}]
        roots.append(len(inner))
        is_leaf = np.array([not node for node in tree])
        place = np.where(is_leaf, n_leaves + np.cumsum(is_leaf), len(inner) + np.cumsum(~is_leaf)) - 1
        to = lambda child, place=place, is_leaf=is_leaf: (int(place[child]), int(is_leaf[child]))
        inner += [node | {side: to(node[side]) for side in ("true", "false")} for node in tree if node]
        n_leaves += int(is_leaf.sum())
        trees[t] = tree
    classes = int(rng.choice([1, 2, 3]))
    mode = [(*MODES, "BRANCH_MEMBER").index(node["mode"]) for node in inner]
    members: list[float] = []
    for node in inner:
        members += [*map(float, node["set"]), np.nan] if node["mode"] == "BRANCH_MEMBER" else []
    tensor = lambda values, kind=dtype: numpy_helper.from_array(np.array(values, kind))
    attributes: dict[str, Any] = {
        "nodes_modes": tensor(mode, "uint8"), "nodes_splits": tensor([node["value"] for node in inner]),
        "nodes_featureids": [node["feature"] for node in inner],
        "nodes_missing_value_tracks_true": [node["tracks"] for node in inner],
        "leaf_targetids": rng.integers(0, classes, n_leaves).tolist(),
        "leaf_weights": tensor(rng.uniform(-1, 1, n_leaves)), "tree_roots": roots, "n_targets": classes,
        "aggregate_function": int(rng.choice([0, 1, 1])),
        "post_transform": int(rng.choice([0, 1, 2], p=[0.9, 0.05, 0.05])),
    }  # fmt: skip
    for side in ("true", "false"):
        places, are_leaves = zip(*(node[side] for node in inner), strict=True)
        attributes |= {f"nodes_{side}nodeids": list(places), f"nodes_{side}leafs": list(are_leaves)}
    if members:
        attributes["membership_values"] = tensor(members)
    return attributes


def _model(rng: np.random.Generator, operator: str, attributes: dict, dtype: str, columns: int) -> onnx.ModelProto:
    more: dict[str, Any] = {"columns": columns, "opset": 5 if operator == "TreeEnsemble" else 3}
    if rng.random() < 0.2 and dtype != "float64":
        more["before"] = [("Cast", {"to": TensorProto.FLOAT})]
    if rng.random() < 0.15:
        after = str(rng.choice(["Sigmoid", "Softmax", "Exp", "Normalizer"]))
        more["after"] = [(after, {"norm": "L1"} if after == "Normalizer" else {})]
    return graph(operator, attributes, getattr(np, dtype), **more)


def _rows(rng: np.random.Generator, trees: list, columns: int, dtype: str) -> np.ndarray:
    """Rows at the thresholds of their columns, next to them, at members of sets, and at the edges of floats."""
    kind = np.float64 if dtype == "float64" else np.float32
    made = []
    for j in range(columns):
        own = [node for tree in trees for node in tree if node and node["feature"] == j]
        at = np.array([node["value"] for node in own] + [0.0], np.float64)
        at = np.concatenate([at, *[np.asarray(node["set"], np.float64) for node in own if "set" in node]]).astype(kind)
        steps = [at, np.nextafter(at, kind(np.inf)), np.nextafter(at, kind(-np.inf)), at + kind(0.5)]
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 2.0**24 + 2, 5.0, -1.5], kind)
        values = rng.choice(np.concatenate([*steps, odd]), n_asked())
        # ONNX Runtime truncates what is no whole number before it looks for it in some sets, the standard in none.
        made.append(np.round(values) if any("set" in node for node in own) else values)
    rows = np.stack(made, axis=1)
    if dtype != "int64":
        return rows
    return np.nan_to_num(rows, nan=3, posinf=2.0**24, neginf=-5).clip(-(2**40), 2**40).astype(np.int64)

"""ONNX files: the answers of ONNX Runtime, all tests of nodes, and what is refused."""

import warnings
from functools import lru_cache

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.interop import from_onnx
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses

from ._rows import answers_of, near, walked

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.once
ROWS = 2000
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
THRESHOLDS = np.array([0.0, 0.25, 1.0, 3.0, 1e-40, 2.0**24, -1e30, 0.1], np.float32)
TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64}


def graph(operator, attributes, dtype=np.float32, *, opset=3, before=(), after=(), producer="", columns=3):
    """Return a model of one node of trees, with nodes before and after it: operators, and their attributes."""
    nodes, name = [], "X"
    for i, (op, own) in enumerate(before):
        nodes.append(helper.make_node(op, [name], [f"before{i}"], **own))
        name = f"before{i}"
    ends = ["label", "scores"] if operator == "TreeEnsembleClassifier" else ["scores"]
    nodes.append(helper.make_node(operator, [name], ends, domain="ai.onnx.ml", **attributes))
    last = "scores"
    for i, (op, own) in enumerate(after):
        domain = "ai.onnx.ml" if op in ("ZipMap", "Normalizer") else ""
        nodes.append(helper.make_node(op, [last], [f"after{i}"], domain=domain, **own))
        last = f"after{i}"
    given = helper.make_tensor_value_info("X", TYPES[dtype], [None, columns])
    # Without types for outputs, which the runtime infers.
    outputs = [onnx.ValueInfoProto(name=one) for one in [*ends[:-1], last]]
    made = helper.make_graph(nodes, "trees", [given], outputs)
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(made, opset_imports=domains, ir_version=9, producer_name=producer)


def trees(rng, n_trees=3, n_nodes=31, modes=MODES, double=False):
    tree, node = np.repeat(np.arange(n_trees), n_nodes), np.tile(np.arange(n_nodes), n_trees)
    inner = 2 * node + 2 < n_nodes
    value = rng.choice(THRESHOLDS, len(node)).astype(np.float64)
    values = {"nodes_values": value.tolist()}
    if double:
        values = {"nodes_values_as_tensor": numpy_helper.from_array(value + rng.choice([0, 1e-9], len(node)))}
    attributes = {
        "nodes_treeids": tree.tolist(), "nodes_nodeids": node.tolist(),
        "nodes_featureids": np.where(inner, rng.integers(3, size=len(node)), 0).tolist(),
        "nodes_modes": np.where(inner, rng.choice(modes, len(node)), "LEAF").tolist(),
        "nodes_truenodeids": np.where(inner, 2 * node + 1, 0).tolist(),
        "nodes_falsenodeids": np.where(inner, 2 * node + 2, 0).tolist(),
        "nodes_missing_value_tracks_true": rng.integers(2, size=len(node)).tolist(), **values,
    }  # fmt: skip
    return attributes, tree[~inner], node[~inner]


def weighted(rng, kind, outputs, *, least=-1.0, double=False, **more):
    """Return attributes of trees whose leaves have a random weight for each of the outputs."""
    attributes, tree, node = trees(rng, double=double, **more)
    number = len(tree) * len(outputs)
    weight = rng.uniform(least, 1, number).astype(np.float32)
    ids = {
        f"{kind}_treeids": np.repeat(tree, len(outputs)).tolist(),
        f"{kind}_nodeids": np.repeat(node, len(outputs)).tolist(),
        f"{kind}_ids": np.tile(outputs, len(tree)).tolist(),
    }
    if double:
        return attributes | ids | {f"{kind}_weights_as_tensor": numpy_helper.from_array(weight.astype(np.float64))}
    return attributes | ids | {f"{kind}_weights": weight.tolist()}


def rows(rng, dtype=np.float32, number=ROWS):
    if dtype is np.int64:
        return rng.choice([0, 1, 2, 3, 2**24, 2**24 + 1, 2**24 + 2, -5], (number, 3))
    return near([THRESHOLDS] * 3, number, rng, dtype)


def run(model, X):
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": X})


def assert_agrees(model, X, labels=True):
    ours, theirs = from_onnx(model), run(model, X)
    ju.forest.check_trees(ours.trees)
    answer = answers_of(ours, X).reshape(len(X), -1)
    np.testing.assert_allclose(answer, theirs[-1].reshape(answer.shape), rtol=2e-5, atol=2e-6)
    if labels and len(theirs) > 1:
        chosen = np.array(ours.class_labels)[np.argmax(answer, axis=1)]
        sure = np.ptp(np.sort(answer, axis=1)[:, -2:], axis=1) > 1e-5
        np.testing.assert_array_equal(chosen[sure], theirs[0][sure])
    return ours


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", a_few_of(range(8), range(6)))
def test_all_modes(seed, dtype):
    """A target of each tree tells which leaf was reached: in the last cases ten million, of large models."""
    rng, double, n_trees = np.random.default_rng(seed), dtype is np.float64, 240 if seed > 5 else 1
    attributes, tree, node = trees(rng, n_trees, 63 if seed > 5 else 31, double=double)
    attributes |= {"target_treeids": tree.tolist(), "target_nodeids": node.tolist(), "target_ids": tree.tolist()}
    ids = node.astype(np.float64)
    attributes |= {"target_weights_as_tensor": numpy_helper.from_array(ids)} if double else {"target_weights": [*ids]}
    model = graph("TreeEnsembleRegressor", attributes | {"n_targets": n_trees}, dtype)
    X = rows(rng, dtype, 12_000 if seed > 5 else ROWS)
    np.testing.assert_array_equal(answers_of(from_onnx(model), X).reshape(len(X), -1), run(model, X)[0])


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("least", [-(2**24), -40, 0, 1, 5, 150, 2**24 - 16])
def test_chains_of_equal_values(mode, least):
    """A set of codes as one test for each, as converters write categories: codes of both signs, small and large."""
    codes = least + np.random.default_rng(1).permutation(16)[:10]
    n = len(codes)
    at_code, goes_on = ("nodes_truenodeids", "nodes_falsenodeids")[:: 1 if mode == "BRANCH_EQ" else -1]
    attributes = {
        "nodes_treeids": [0] * (2 * n + 1), "nodes_nodeids": list(range(2 * n + 1)),
        "nodes_featureids": [0] * (2 * n + 1), "nodes_modes": [mode] * n + ["LEAF"] * (n + 1),
        "nodes_values": [*codes.astype(float), *[0.0] * (n + 1)], at_code: [*range(n, 2 * n), *[0] * (n + 1)],
        goes_on: [*range(1, n), 2 * n, *[0] * (n + 1)], "nodes_missing_value_tracks_true": [0] * (2 * n + 1),
        "target_treeids": [0] * (n + 1), "target_nodeids": list(range(n, 2 * n + 1)), "target_ids": [0] * (n + 1),
        "target_weights": np.arange(n + 1.0).tolist(), "n_targets": 1,
    }  # fmt: skip
    model = graph("TreeEnsembleRegressor", attributes)
    x = np.concatenate([least + np.arange(-3, 20), least + np.arange(16) + 0.5, -codes, [np.nan, 0, -1]])
    X = np.stack([x, x * 0, x * 0], axis=1).astype(np.float32)
    np.testing.assert_array_equal(answers_of(from_onnx(model), X), run(model, X)[0].ravel())


def test_integers():
    rng = np.random.default_rng(0)
    attributes = weighted(rng, "class", [0], least=0.0) | {"classlabels_int64s": [0, 1]}
    assert_agrees(graph("TreeEnsembleClassifier", attributes, np.int64), rows(rng, np.int64))


@lru_cache
def new_form():
    """A tree of every mode, with sets, and one that is a single leaf."""
    modes = np.array([6, 0, 1, 2, 3, 4, 6, 0], np.uint8)
    true, false = [(1, 0), (3, 0), (5, 0), (0, 1), (2, 1), (4, 1), (6, 1), (8, 1)], []
    false = [(2, 0), (4, 0), (6, 0), (1, 1), (3, 1), (5, 1), (7, 1), (8, 1)]
    float32 = {"nodes_splits": [0, 0.25, 1, 3, 0.1, 2, 0, 0], "leaf_weights": np.arange(9) + 1}
    return {
        "nodes_modes": numpy_helper.from_array(modes),
        **{name: numpy_helper.from_array(np.array(own, np.float32)) for name, own in float32.items()},
        "membership_values": numpy_helper.from_array(np.array([0, 3, np.nan, 1, 5, 2, np.nan], np.float32)),
        "nodes_featureids": [0, 1, 2, 0, 1, 2, 0, 1], "nodes_truenodeids": [node for node, _ in true],
        "nodes_trueleafs": [leaf for _, leaf in true], "nodes_falsenodeids": [node for node, _ in false],
        "nodes_falseleafs": [leaf for _, leaf in false], "nodes_missing_value_tracks_true": [1, 0, 1, 0, 1, 0, 0, 0],
        "leaf_targetids": [0, 1, 0, 1, 0, 1, 0, 1, 0], "tree_roots": [0, 7], "n_targets": 2,
    }  # fmt: skip


@pytest.mark.parametrize("aggregate", [0, 1])
def test_trees_of_version_5(aggregate):
    model = graph("TreeEnsemble", new_form() | {"aggregate_function": aggregate}, opset=5)
    assert_agrees(model, rows(np.random.default_rng(0)))


SCORES = {
    "three classes": ([0, 1, 2], {"classlabels_int64s": [5, 3, 9]}),
    "softmax": ([0, 1, 2], {"classlabels_int64s": [5, 3, 9], "post_transform": "SOFTMAX", "base_values": [0.5, 1, 2]}),
    "logistic": ([0, 1, 2], {"classlabels_strings": ["a", "c", "b"], "post_transform": "LOGISTIC"}),
    "share": ([0], {"classlabels_strings": ["no", "yes"], "least": 0.0}),
    "share, base": ([0], {"classlabels_int64s": [0, 1], "base_values": [0.25], "least": 0.0}),
    "one margin": ([0], {"classlabels_int64s": [4, 2]}),
    "one margin, logistic": ([0], {"classlabels_int64s": [4, 2], "post_transform": "LOGISTIC", "base_values": [-0.5]}),
    "both": ([0, 1], {"classlabels_int64s": [0, 1], "post_transform": "SOFTMAX"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
def test_classifiers(name):
    rng = np.random.default_rng(1)
    classes, more = SCORES[name]
    attributes = weighted(rng, "class", classes, least=more.get("least", -1.0))
    attributes |= {key: own for key, own in more.items() if key != "least"}
    # ONNX Runtime numbers the classes wrongly where two have weights of their own.
    ours = assert_agrees(graph("TreeEnsembleClassifier", attributes), rows(rng), labels=name != "both")
    assert ours.class_labels == tuple(more.get("classlabels_strings") or more["classlabels_int64s"])


def test_classes_of_trees():
    """Boosted trees, each for a class of its own, are stages."""
    rng = np.random.default_rng(2)
    attributes = weighted(rng, "class", [0], n_trees=6)
    attributes["class_ids"] = (np.array(attributes["class_treeids"]) % 3).tolist()
    ours = assert_agrees(graph("TreeEnsembleClassifier", attributes | {"classlabels_int64s": [0, 1, 2]}), rows(rng))
    assert ours.trees_per_stage == 3
    X = rows(rng)
    np.testing.assert_array_equal(ju.leaf_index(ours.trees, X), walked(ours.trees, X))
    np.testing.assert_allclose(ours.predict(X), answers_of(ours, X), rtol=1e-6, atol=1e-6)
    assert ours.values.shape[2] == 1


@pytest.mark.parametrize("step", ["Sigmoid", "Exp", "Softmax", "Normalizer"])
def test_nodes_after(step):
    rng = np.random.default_rng(4)
    if step == "Normalizer":
        attributes = weighted(rng, "class", [0, 1, 2])
        attributes |= {"classlabels_int64s": [0, 1, 2], "post_transform": "LOGISTIC"}
        model = graph("TreeEnsembleClassifier", attributes, after=[("Normalizer", {"norm": "L1"})])
        assert assert_agrees(model, rows(rng)).link == "one-vs-rest"
        return
    model = graph("TreeEnsembleRegressor", weighted(rng, "target", [0, 1]) | {"n_targets": 2}, after=[(step, {})])
    assert_agrees(model, rows(rng))


def test_regressors():
    rng = np.random.default_rng(3)
    more = {"n_targets": 2, "aggregate_function": "AVERAGE", "base_values": [1.0, -2.0], "post_transform": "LOGISTIC"}
    assert_agrees(graph("TreeEnsembleRegressor", weighted(rng, "target", [0, 1]) | more), rows(rng))


def test_casts_before():
    """What is cast to float is compared as float32, whatever the input's type."""
    rng = np.random.default_rng(5)
    attributes = weighted(rng, "target", [0]) | {"n_targets": 1}
    model = graph("TreeEnsembleRegressor", attributes, np.float64, before=[("Cast", {"to": TensorProto.FLOAT})])
    assert assert_agrees(model, rows(rng, np.float64)).columns.cuts is None


def one_target(attributes, **more):
    own = weighted(np.random.default_rng(0), "target", [0]) | {"n_targets": 1}
    return graph("TreeEnsembleRegressor", own | attributes, **more)


def of_targets(attributes, **more):
    return lambda: from_onnx(one_target(attributes, **more))


def twice():
    model = one_target({})
    model.graph.node.append(model.graph.node[0])
    from_onnx(model)


def of_classes(classes, attributes, least):
    """Classifiers that runtimes differ about."""
    own = weighted(np.random.default_rng(0), "class", classes, least=least)
    return lambda: from_onnx(graph("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1]} | own | attributes))


def of_version_5(attributes):
    return lambda: from_onnx(graph("TreeEnsemble", new_form() | attributes, opset=5))


REFUSED = {
    "PROBIT": ({"post_transform": "PROBIT"}, {}, "post_transform is 'PROBIT'"),
    "SOFTMAX_ZERO": ({"post_transform": "SOFTMAX_ZERO"}, {}, "post_transform is 'SOFTMAX_ZERO'"),
    "MIN": ({"aggregate_function": "MIN"}, {}, "aggregate_function is 'MIN'"),
    "transform": ({"post_transform": "LOGISTIC"}, {}, "LOGISTIC for one target"),
    "base": ({"base_values": [1.0, 2.0]}, {}, "2 base values for 1 targets"),
    "after": ({}, {"after": [("Neg", {})]}, "has Neg after its trees"),
    "before": ({}, {"before": [("Neg", {})]}, "has Neg before its trees"),
    "norm": ({}, {"after": [("Normalizer", {"norm": "L2"})]}, "has L2 after"),
    "mode": ({"nodes_modes": ["BRANCH_ODD"] * 93}, {}, "nodes_modes"),
}


VAGUE = {
    "both, base": ([0, 1], {"base_values": [0.1, 0.2]}, -1, "differ about these"),
    "second": ([1], {}, -1, "weights for that at 1 alone"),
    "one, softmax": ([0], {"post_transform": "SOFTMAX"}, -1, "no SOFTMAX"),
    "one, never negative": ([0], {"post_transform": "LOGISTIC"}, 0, "labels by the sum"),
    "labels": ([0, 1], {"classlabels_int64s": [1, 1]}, 0, "each once"),
    "classes": ([0, 2], {"classlabels_int64s": [1, 2, 3]}, 0, r"classes \[0, 2\] of 3 alone"),
}


test_refusals = refusals(
    *((name, of_targets(attributes, **more), words) for name, (attributes, more, words) in REFUSED.items()),
    *((name, of_classes(*classes, least), words) for name, (*classes, least, words) in VAGUE.items()),
    ("numbered otherwise", of_version_5({"post_transform": 2}), "LOGISTIC in the standard"),
    ("no source", lambda: from_onnx(3), "int; pass a path", TypeError),
    ("cut", lambda: from_onnx(one_target({}).SerializeToString()[:-20]), "no ONNX model"),
    ("nothing", lambda: from_onnx(b""), "0 nodes of trees"),
    ("twice", twice, "2 nodes of trees"),
)


@pytest.mark.parametrize("kind", ["target", "class"])
def test_leaves_without_weights(kind):
    """ONNX Runtime leaves out the base value of a target, and tells two classes apart by the other one's weight."""
    own = weighted(np.random.default_rng(0), kind, [0, 1])
    some = [i for i in range(len(own[f"{kind}_ids"])) if own[f"{kind}_ids"][i] == 0 or own[f"{kind}_nodeids"][i] % 2]
    own |= {name: [own[name][i] for i in some] for name in own if name.startswith(f"{kind}_")}
    if kind == "class":
        operator, more = "TreeEnsembleClassifier", {"classlabels_int64s": [4, 7]}
    else:
        operator, more = "TreeEnsembleRegressor", {"n_targets": 2, "base_values": [0.0, 1.0]}
    refuses(ValueError, "Give these leaves weights of 0", from_onnx, graph(operator, own | more))
    if kind == "target":
        from_onnx(graph(operator, own | {"n_targets": 2, "base_values": [1.0, 0.0]}))


def test_warns_of_missing_values_that_skl2onnx_lost():
    lost = {"nodes_missing_value_tracks_true": [0] * 93}
    with pytest.warns(UserWarning, match="skl2onnx made the model and left out where missing values go"):
        from_onnx(one_target(lost, producer="skl2onnx"))
    from_onnx(one_target(lost, producer="another"))


def test_made_by_skl2onnx():
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    for model in (RandomForestClassifier(3, random_state=0), GradientBoostingClassifier(n_estimators=3)):
        for labels in (y, y == "a"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = skl2onnx.to_onnx(model.fit(X, labels), X[:1])
            with pytest.warns(UserWarning, match="skl2onnx"):
                ours = from_onnx(made)
            np.testing.assert_allclose(answers_of(ours, X), model.predict_proba(X), atol=1e-6)
            assert list(ours.class_labels) == model.classes_.tolist()

"""Models of treelite: its own leaves and sums, counts where they are known, and what is refused."""

import struct
from functools import lru_cache

import numpy as np
import pytest
from sklearn.ensemble import (
    IsolationForest,
    RandomForestClassifier,
)

import jaxunc as ju
from jaxunc.interop import from_treelite
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses

from ._rows import answers_of, assert_same_leaves, counts_at, near, summed, walked

treelite = pytest.importorskip("treelite", minversion="4.8")
from treelite import gtil  # noqa: E402
from treelite import sklearn as of_sklearn  # noqa: E402
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation  # noqa: E402

pytestmark = pytest.mark.once
N_FEATURES, ROWS = 4, 2000
COMPARISONS = ("<", "<=", ">", ">=", "==")


def builder_of(kind, metadata, annotation, post, base):
    return ModelBuilder(
        threshold_type=kind, leaf_output_type=kind, metadata=metadata, tree_annotation=annotation, postprocessor=post,
        base_scores=base,
    )  # fmt: skip


def built(
    rng, kind="float32", n_trees=3, n_nodes=31, *, post="identity", num_class=(1,), targets=None, classes=None,
    average=False, alpha=1.0, task="kRegressor", thresholds=None, size=1, comparisons=COMPARISONS,
):  # fmt: skip
    """Return random trees with all kinds of tests, each leaf holding ``size`` values."""
    targets = [0] * n_trees if targets is None else targets
    classes = [0] * n_trees if classes is None else classes
    shape = (len(num_class) if min(targets) < 0 else 1, max(num_class) if min(classes) < 0 else 1)
    base = rng.normal(size=len(num_class) * max(num_class)).round(3).tolist()
    metadata = Metadata(N_FEATURES, task, average, len(num_class), list(num_class), shape)
    annotation, last = TreeAnnotation(n_trees, targets, classes), PostProcessorFunc(post, sigmoid_alpha=alpha)
    builder = builder_of(kind, metadata, annotation, last, base)
    pool = np.append(rng.normal(size=12), [0.0, 3.0, 1e-40, 2.0**24, 1700000000.3, -1e30])
    pool = pool if thresholds is None else thresholds
    for _ in range(n_trees):
        builder.start_tree()
        for node in range(n_nodes):
            builder.start_node(node)
            left = 2 * node + 1
            if left + 1 >= n_nodes:
                value = rng.normal(size=size).tolist()
                builder.leaf(value if size > 1 else value[0])
            elif rng.random() < 0.25:
                listed = np.unique(rng.choice([0, 1, 2, 5, 31, 32, 60, 2**24, 2**32 - 1], 5)).tolist()
                builder.categorical_test(
                    int(rng.integers(N_FEATURES)), default_left=bool(rng.integers(2)), category_list=listed,
                    category_list_right_child=bool(rng.integers(2)), left_child_key=left, right_child_key=left + 1,
                )  # fmt: skip
            else:
                builder.numerical_test(
                    int(rng.integers(N_FEATURES)), float(np.dtype(kind).type(rng.choice(pool))),
                    default_left=bool(rng.integers(2)), opname=str(rng.choice(comparisons)), left_child_key=left,
                    right_child_key=left + 1,
                )  # fmt: skip
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def rows(model, number, rng):
    """Return rows at the thresholds of a model, of the type that it compares."""
    found = [[0.0] for _ in range(model.num_feature)]
    for t in range(model.num_tree):
        tree = model.get_tree_accessor(t)  # not dump_as_json, which writes infinite thresholds as no JSON
        for feature, threshold in zip(tree.get_field("split_index"), tree.get_field("threshold"), strict=True):
            if feature >= 0:
                found[feature].append(threshold)
    wide = [np.concatenate([own, [2.0**32 - 1, 2.0**32, 2.0**53]]) for own in found]
    return near(wide, number, rng, np.dtype(model.input_type).type)


def assert_agrees(model, imported, X, tolerance=1e-6):
    leaves = walked(imported.trees, X)
    assert_same_leaves(leaves, gtil.predict_leaf(model, X))
    expected = gtil.predict(model, X, pred_margin=True).reshape(len(X), -1)
    np.testing.assert_allclose(summed(imported, leaves), expected, rtol=tolerance, atol=tolerance)
    ju.forest.check_trees(imported.trees)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("seed", a_few_of(range(14), [0, 6]))
def test_all_kinds_of_tests(seed, kind):
    """In the last cases of many trees."""
    rng, large = np.random.default_rng(seed), seed > 11
    model = built(rng, kind, *((240, 63) if large else ()))
    tolerance = 1e-6 if kind == "float64" and not large else 2e-5
    assert_agrees(model, from_treelite(model), rows(model, 9000 if large else ROWS, rng), tolerance)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_sets_of_categories_small_and_large(kind):
    """Sets that begin at any code, against numbers of both signs and what lies between codes."""
    rng = np.random.default_rng(3)
    metadata, annotation = Metadata(1, "kRegressor", False, 1, [1], (1, 1)), TreeAnnotation(12, [0] * 12, [0] * 12)
    builder = builder_of(kind, metadata, annotation, PostProcessorFunc("identity"), [0.0])
    largest = 2**24 - 80 if kind == "float32" else 2**32 - 90
    starts = [0, 1, 4, 5, 6, 31, 32, 150, 4000, 2**20, 2**24 - 80, largest]
    for t, start in enumerate(starts):
        builder.start_tree()
        builder.start_node(0)
        listed = sorted({start, *(start + np.flatnonzero(rng.random(70) < 0.4)).tolist()})
        sides = {"default_left": bool(t % 2), "category_list_right_child": bool(t // 2 % 2)}
        builder.categorical_test(0, category_list=listed, left_child_key=1, right_child_key=2, **sides)
        builder.end_node()
        for leaf in (1, 2):
            builder.start_node(leaf)
            builder.leaf(float(leaf))
            builder.end_node()
        builder.end_tree()
    model = builder.commit()
    codes = np.concatenate([start + np.arange(-3, 75) for start in starts])
    X = np.concatenate([codes, codes + 0.5, -codes, [np.nan, 2.0**33, -0.5, -1e30]]).astype(kind)[:, None]
    assert_agrees(model, from_treelite(model), X)


OUTPUTS = {
    "targets": {"num_class": (1, 1), "targets": [-1] * 3, "size": 2},
    "targets, one each": {"num_class": (1, 1), "targets": [0, 1, 0]},
    "classes": {"num_class": (3,), "classes": [-1] * 3, "size": 3, "task": "kMultiClf", "post": "softmax"},
    "classes in turn": {"num_class": (3,), "classes": [0, 1, 2], "task": "kMultiClf", "post": "softmax"},
    "parallel trees": {"num_class": (2,), "classes": [0, 0, 1, 1], "task": "kMultiClf", "n_trees": 4},
    "classes out of turn": {"num_class": (3,), "classes": [2, 1, 0], "task": "kMultiClf", "post": "multiclass_ova"},
    "averaged": {"average": True, "task": "kRegressor"},
    "averaged by class": {"num_class": (2,), "classes": [0, 1, 1], "average": True, "task": "kMultiClf"},
    "binary": {"task": "kBinaryClf", "post": "sigmoid"},
    "exponential": {"post": "exponential"},
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name):
    rng = np.random.default_rng(3)
    model = built(rng, "float64", **OUTPUTS[name])
    X = rows(model, ROWS, rng)
    imported = from_treelite(model)
    assert_agrees(model, imported, X)
    expected = gtil.predict(model, X).reshape(len(X), -1)
    answer = answers_of(imported, X).reshape(len(X), -1)
    if name == "classes in turn":
        np.testing.assert_array_equal(ju.leaf_index(imported.trees, X), walked(imported.trees, X))
        np.testing.assert_allclose(imported.predict(X), answer, rtol=1e-6, atol=1e-6)
    if name == "binary":
        assert imported.class_labels == (0, 1)
        np.testing.assert_allclose(answer[:, 0], 1 - expected[:, 0], atol=1e-6)
        answer = answer[:, 1:]
    np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-6)
    in_turn = {"classes in turn": 3, "parallel trees": 4}
    assert imported.trees_per_stage == in_turn.get(name, 1)


def test_scaled_sums():
    """A slope of the logistic function scales sums; the depths of an isolation forest become exponents."""
    rng = np.random.default_rng(0)
    model = built(rng, task="kBinaryClf", post="sigmoid", alpha=0.7)
    X = rows(model, ROWS, rng)
    np.testing.assert_allclose(answers_of(from_treelite(model), X)[:, 1], gtil.predict(model, X).ravel(), atol=2e-6)
    model = of_sklearn.import_model(IsolationForest(n_estimators=5, random_state=0).fit(rng.normal(size=(200, 4))))
    X = rng.normal(size=(ROWS, 4))
    np.testing.assert_allclose(answers_of(from_treelite(model), X), gtil.predict(model, X).ravel(), atol=1e-6)


@lru_cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    X[:, 3] = rng.integers(6, size=400)
    y = (X[:, 0] + (X[:, 3] > 2) > 0).astype(int)
    missing = np.where(rng.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
    return X, missing, y, y + (X[:, 1] > 0.5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_scikit_learns(n_classes, weighted):
    _, X, *labels = data()
    y = labels[n_classes - 2]
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if weighted else None
    fitted = RandomForestClassifier(6, min_samples_leaf=3, random_state=0, bootstrap=not weighted)
    fitted.fit(X, y, sample_weight=weight)
    model = of_sklearn.import_model(fitted)
    forest, expected = ju.forest.check_forest(from_treelite(model)), ju.from_sklearn(fitted)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(counts_at(forest, wide), counts_at(expected, X), rtol=1e-6)
    assert forest.count_table.dtype == expected.count_table.dtype
    np.testing.assert_allclose(forest.prior, expected.prior, rtol=1e-6)
    np.testing.assert_allclose(forest.n_samples, expected.n_samples, rtol=1e-6)
    Z = rows(model, ROWS, np.random.default_rng(0))
    assert_same_leaves(walked(forest.trees, Z), gtil.predict_leaf(model, Z))


def forest_of_counts(values, *, count=None, weight=None, kind="float32"):
    metadata, annotation = Metadata(1, "kMultiClf", True, 1, [2], (1, 2)), TreeAnnotation(1, [-1], [-1])
    builder = builder_of(kind, metadata, annotation, PostProcessorFunc("identity_multiclass"), [0.0, 0.0])
    builder.start_tree()
    builder.start_node(0)
    builder.numerical_test(0, 0.5, default_left=True, opname="<=", left_child_key=1, right_child_key=2)
    builder.end_node()
    for node, value in enumerate(values, 1):
        builder.start_node(node)
        builder.leaf(list(value))
        if count is not None:
            builder.data_count(count[node - 1])
        if weight is not None:
            builder.sum_hess(weight[node - 1])
        builder.end_node()
    builder.end_tree()
    return builder.commit()


def test_counts_where_they_are_exact():
    """Shares in float32 times a number of instances are counts, as cuML's are; what is none stays a value."""
    forest = from_treelite(forest_of_counts([[1 / 3, 2 / 3], [1, 0]], count=[9, 4]))
    np.testing.assert_array_equal(ju.leaf_counts(forest, np.array([[0.0], [1.0]]))[:, 0], [[3, 6], [4, 0]])
    np.testing.assert_allclose(forest.prior, [7 / 13, 6 / 13], rtol=1e-6)
    assert forest.n_samples == 13
    weighted = from_treelite(forest_of_counts([[0.25, 0.75], [1, 0]], weight=[1.5, 2.25], kind="float64"))
    np.testing.assert_allclose(counts_at(weighted, np.zeros((1, 1)))[0, 0], [0.375, 1.125])
    for model in (
        forest_of_counts([[1 / 3, 2 / 3], [1, 0]]),
        forest_of_counts([[1 / 3, 2 / 3], [1, 0]], count=[10, 4]),
        forest_of_counts([[1 / 3, 1 / 3], [1, 0]], count=[9, 4]),
        forest_of_counts([[1.5, -0.5], [1, 0]], count=[2, 4]),
    ):
        assert isinstance(from_treelite(model), ju.additive.AdditiveTrees)


def test_infinite_thresholds():
    """All numbers are at or below +inf, none is below -inf; that one is -inf no code can say."""
    rng = np.random.default_rng(1)
    for kind in ("float32", "float64"):
        model = built(rng, kind, thresholds=np.array([np.inf, 0.5]), comparisons=("<", "<=", ">", ">="))
        X = near([[0.5]] * 4, ROWS, rng, np.dtype(kind).type)
        assert_same_leaves(walked(from_treelite(model).trees, X), gtil.predict_leaf(model, X))
    model = built(rng, "float64", thresholds=np.array([-np.inf, 0.5]), comparisons=("<", ">="))
    assert_same_leaves(walked(from_treelite(model).trees, X), gtil.predict_leaf(model, X))
    model = built(rng, "float64", thresholds=np.array([-np.inf]), comparisons=("<=",))
    refuses(ValueError, "float64 number is -inf", from_treelite, model)
    model = built(rng, thresholds=np.array([np.inf]), comparisons=("==",))
    refuses(ValueError, "whether a number is infinite", from_treelite, model)


@lru_cache
def content():
    return built(np.random.default_rng(0), "float64").serialize_bytes()


def of_two_targets():
    _, X, y, z = data()
    several = RandomForestClassifier(2, random_state=0).fit(X, np.stack([y, z], 1))
    from_treelite(of_sklearn.import_model(several))


def of_version(*numbers):
    return from_treelite(struct.pack(f"<{len(numbers)}i", *numbers) + content()[4 * len(numbers) :])


def of_hinge():
    from_treelite(built(np.random.default_rng(0), post="hinge", task="kBinaryClf"))


test_refusals = refusals(
    ("a number", lambda: from_treelite(3), r"int; pass a treelite\.Model", TypeError),
    ("no file", lambda tmp_path: from_treelite(tmp_path / "none.bin"), "none", FileNotFoundError),
    ("cut off", lambda: from_treelite(content()[:-20]), "cut off"),
    ("more", lambda: from_treelite(content() + b"abc"), "3 bytes lie behind"),
    ("another format", lambda: of_version(3), "format 3"),
    ("an old version", lambda: of_version(4, 7), r"treelite 4\.7\.\d; before 4\.8"),
    ("a hinge", of_hinge, "postprocessor is 'hinge'"),
    ("two targets", of_two_targets, "2 targets with several classes"),
)

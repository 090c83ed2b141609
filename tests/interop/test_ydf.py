"""Models from YDF: the same leaves, counts and answers, and what is refused."""

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.interop import from_ydf
from tests._refusal import refuses

from ._rows import answers_of, assert_same_leaves, counts_at, mean_shares, near, raw_of, walked

ydf: Any = pytest.importorskip("ydf")
pytestmark = pytest.mark.once
ydf.verbose(0)

WORDS = ["x", "y", "zä", ""]
SMALL = {"num_trees": 12, "max_depth": 4, "min_examples": 3}


@lru_cache
def data() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 600
    a = rng.normal(size=n).astype(np.float32)
    a[rng.random(n) < 0.1] = np.nan
    frame = pd.DataFrame({"a": a, "big": rng.normal(size=n).astype(np.float32) + np.float32(2**24)})
    frame["word"] = rng.choice(WORDS, n)
    frame["flag"] = rng.random(n) < 0.5
    frame["number"] = rng.integers(-2, 4, n)
    frame["score"] = np.nan_to_num(a) + (frame.word == "x") - (frame.word == "") + frame.flag * (frame.number == 2)
    frame["y"] = np.digitize(frame.score, [0, 1])
    return frame


def features(discretized: bool = False) -> list:
    of = ydf.Semantic
    kinds = (of.NUMERICAL, of.CATEGORICAL, of.BOOLEAN, of.CATEGORICAL)
    return [*zip(COLUMNS, (of.DISCRETIZED_NUMERICAL if discretized else of.NUMERICAL, *kinds), strict=True)]


COLUMNS = ["a", "big", "word", "flag", "number"]


def fitted(kind: str, frame=None, *, label: str = "y", discretized: bool = False, **options):
    learner = getattr(ydf, f"{kind}Learner")
    options = ({"max_depth": 4} if kind == "Cart" else SMALL) | options
    return learner(label=label, features=features(discretized), **options).train(data() if frame is None else frame)


def conditions(node) -> list:
    if node.is_leaf:
        return []
    return [node.condition, *conditions(node.pos_child), *conditions(node.neg_child)]


def rows(model, rng, number: int = 2000) -> pd.DataFrame:
    """Rows at the thresholds; words and numbers that training never met."""
    columns = [list(column.discretized_numerical.boundaries) for column in model.data_spec().columns[:2]]
    for test in (test for tree in model.iter_trees() for test in conditions(tree.root)):
        if hasattr(test, "threshold"):
            columns[test.attribute].append(test.threshold)
    frame = pd.DataFrame(near([own or [0.0] for own in columns], number, rng), columns=COLUMNS[:2])
    frame["word"] = rng.choice([*WORDS, "new", "<OOD>", "1"], number)
    frame["flag"] = rng.random(number) < 0.5
    frame["number"] = rng.choice([-3, -2, -1, 0, 1, 2, 3, 99], number)
    return frame.assign(y=0, sign="no", score=0.0)  # which YDF asks for, and does not read


def assert_agrees(model, X: pd.DataFrame) -> Any:
    """The leaves of every tree; returns the import."""
    made: Any = from_ydf(model)
    ju.forest.check_trees(made.trees)
    assert_same_leaves(walked(made.trees, X[COLUMNS]), model.predict_leaves(X))
    return made


BOOSTED, SCORE = "GradientBoostedTrees", {"label": "score", "task": ydf.Task.REGRESSION}
ADDITIVE = {
    "boosted": (BOOSTED, {}, "softmax"),
    "gaps": (BOOSTED, {"allow_na_conditions": True}, "softmax"),
    "discretized": (BOOSTED, {"discretized": True}, "softmax"),
    "best first": (BOOSTED, {"growing_strategy": "BEST_FIRST_GLOBAL"}, "softmax"),
    "two classes": (BOOSTED, {"label": "sign"}, "logistic"),
    "numbers": (BOOSTED, {"loss": "SQUARED_ERROR"} | SCORE, "identity"),
    "poisson": (BOOSTED, {"loss": "POISSON"} | SCORE, "exp"),
    "forest of numbers": ("RandomForest", SCORE, "identity"),
    "tree of numbers": ("Cart", SCORE, "identity"),
}


@pytest.mark.parametrize("name", ADDITIVE)
def test_sums_and_answers(name, rng):
    kind, options, link = ADDITIVE[name]
    frame = data().assign(sign=np.where(data().score > 0, "yes", "no"))
    model = fitted(kind, frame.assign(score=data().score.abs()) if "loss" in options else frame, **options)
    X = rows(model, rng)
    made = assert_agrees(model, X)
    labels = tuple(model.label_classes()) if link in ("softmax", "logistic") else None
    assert (made.class_labels, made.link) == (labels, link)
    ours, theirs = answers_of(made, X[COLUMNS]), model.predict(X)
    np.testing.assert_allclose(ours[:, 1] if link == "logistic" else ours, theirs, rtol=2e-5, atol=2e-5)
    if link == "softmax":
        assert labels == ("0", "1", "2")
        model.set_output_logits(True)
        np.testing.assert_allclose(raw_of(made, X[COLUMNS]), model.predict(X), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("votes", [True, False])
def test_forests(votes, rng):
    model = fitted("RandomForest", winner_take_all=votes, allow_na_conditions=True)
    X = rows(model, rng)
    X = X[~np.isinf(X[COLUMNS[:2]]).any(axis=1)]
    forest = ju.forest.check_forest(assert_agrees(model, X))
    assert np.issubdtype(forest.count_table.dtype, np.integer)
    assert float(forest.n_samples) == len(data())
    counts = counts_at(forest, X[COLUMNS])
    share = np.eye(3)[counts.argmax(axis=2)].mean(axis=1) if votes else mean_shares(forest, X[COLUMNS])
    # YDF gives the vote of a leaf with a tie to one class.
    second, first = np.sort(counts, axis=2)[..., -2:].T
    clear = np.all(first > second, axis=0) if votes else np.ones(len(X), bool)
    assert clear.mean() > 0.2
    np.testing.assert_allclose(share[clear], model.predict(X)[clear], atol=2e-6)


def test_counts_of_a_tree():
    """They are those of the rows that training kept, which without validation are all."""
    model = fitted("Cart", validation_ratio=0.0)
    forest = assert_agrees(model, data())
    leaf, counts = model.predict_leaves(data())[:, 0], counts_at(forest, data()[COLUMNS])[:, 0]
    for one in np.unique(leaf):
        at = leaf == one
        np.testing.assert_array_equal(counts[at], np.tile(np.bincount(data().y[at], minlength=3), (at.sum(), 1)))
    np.testing.assert_allclose(forest.prior, np.bincount(data().y) / len(data()), rtol=1e-6)
    np.testing.assert_allclose(from_ydf(model, prior=[0.2, 0.3, 0.5]).prior, [0.2, 0.3, 0.5])


def test_sample_weights(rng):
    frame = data().assign(w=rng.uniform(0.1, 2, len(data())))
    model = fitted("RandomForest", frame, weights="w", winner_take_all=False, bootstrap_training_dataset=False)
    forest = assert_agrees(model, frame)
    np.testing.assert_allclose(forest.n_samples, frame.w.sum(), rtol=1e-5)


def test_other_models(rng):
    frame = data().assign(group=np.arange(len(data())) // 10, rank=rng.integers(0, 4, len(data())))
    sets = pd.DataFrame({"words": [["a", "b"], ["b"], ["c", "a"]] * 40, "y": [0, 1, 0] * 40})
    two = {"features": ["a", "big"], "num_trees": 2}
    of_sets = two | {"features": [("words", ydf.Semantic.CATEGORICAL_SET)]}
    oblique = {"label": "y", "split_axis": "SPARSE_OBLIQUE"}
    ranking = {"label": "rank", "ranking_group": "group", "task": ydf.Task.RANKING}
    for learner, rows, said in (
        (ydf.IsolationForestLearner(**two), frame, "ISOLATION_FOREST for ANOMALY"),
        (ydf.GradientBoostedTreesLearner(**ranking, **two), frame, "for RANKING"),
        (ydf.RandomForestLearner(**oblique, **two), frame, "tree 0 has a NumericalSparseObliqueCondition"),
        (ydf.RandomForestLearner(label="y", **of_sets), sets, "'words' is CATEGORICAL_SET"),
    ):
        refuses(ValueError, said, from_ydf, learner.train(rows))
    refuses(TypeError, "model is a int", from_ydf, 3)
    boosted = fitted("GradientBoostedTrees", num_trees=1)
    refuses(TypeError, "prior is for forests", from_ydf, boosted, prior=[0.3, 0.3, 0.4])


class Changed:
    def __init__(self, model, trees):
        self._given, self._trees = model, trees

    def __getattr__(self, name: str):
        return getattr(self._given, name)

    def iter_trees(self):
        return iter(self._trees)


BROKEN = {"column": {"attribute": 77}, "threshold": {"threshold": np.nan}, "kind": {"attribute": 2}}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_trees(what):
    model = fitted("Cart")
    test = ydf.tree.NumericalHigherThanCondition(missing=False, score=0.0, attribute=0, threshold=0.5)
    for name, value in BROKEN[what].items():
        setattr(test, name, value)
    leaf = next(iter(model.iter_trees())).root
    while not leaf.is_leaf:
        leaf = leaf.neg_child
    root = ydf.tree.NonLeaf(condition=test, pos_child=leaf, neg_child=leaf)
    refuses(ValueError, "tree 0", from_ydf, Changed(model, [SimpleNamespace(root=root)]))


def test_broken_models():
    cart, boosted = fitted("Cart"), fitted("GradientBoostedTrees")
    trees = list(boosted.iter_trees())
    for model, own, said in (
        (cart, [], "no trees"),
        (cart, trees, "tree 0 has a leaf with 0 probabilities"),
        (boosted, trees[:11], "11 trees, 3 an iteration"),
        (boosted, list(cart.iter_trees()) * 3, "hold no values"),
    ):
        refuses(ValueError, said, from_ydf, Changed(model, own))


def test_bools_among_words(rng, tmp_path):
    """YDF writes them in small letters; a text of large ones is another word."""
    flag, x = rng.random(400) < 0.5, rng.normal(size=400).astype(np.float32)
    holes = flag.astype(object)
    holes[::9] = None
    mixed = np.array([True, "b", False, "d"], object)[rng.integers(0, 4, 400)]
    numpys = np.array([np.bool_(one) for one in flag], object)
    for cells in (flag.astype(object), holes, mixed, numpys, np.where(flag, "True", "False").astype(object)):
        frame = pd.DataFrame({"x": x, "member": cells, "y": np.where(flag ^ (x > 1.5), "up", "down")})
        model = ydf.GradientBoostedTreesLearner(label="y", num_trees=8, max_depth=3).train(frame)
        ju.save(tmp_path / "model.safetensors", from_ydf(model))
        made = ju.load(tmp_path / "model.safetensors")
        texts = frame.assign(member=[None if one is None else str(one) for one in cells])
        for given in (frame[["x", "member"]], texts[["x", "member"]]):
            np.testing.assert_allclose(answers_of(made, given)[:, 1], model.predict(given), atol=1e-5)


def test_missing_values_go_where_tests_say():
    """Of large numbers that are discretised YDF's fast engines put the mean elsewhere."""
    rng = np.random.default_rng(0)
    x, z = (rng.normal(size=600) * 1e6 + 1e9).astype(np.float32), rng.normal(size=600).astype(np.float32)
    y = (x - 1e9) / 1e6 + z + 0.3 * rng.normal(size=600) > 0
    frame = pd.DataFrame({"x": np.where(rng.random(600) < 0.3, np.nan, x).astype(np.float32), "z": z})
    learner = ydf.GradientBoostedTreesLearner(label="y", num_trees=10, discretize_numerical_columns=True)
    model = learner.train(frame.assign(y=np.where(y, "u", "d")))
    model.force_engine("GradientBoostedTreesGeneric")
    np.testing.assert_allclose(answers_of(from_ydf(model), frame)[:, 1], model.predict(frame), atol=1e-5)

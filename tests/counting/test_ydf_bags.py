"""Bags of YDF's forests: what they hold gives the leaves their counts, and what is no such bag is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

import jaxunc as ju
from jaxunc.counting import oob_mask
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.interop import from_ydf
from jaxunc.tables import plain_table
from tests._refusal import refuses

ydf: Any = pytest.importorskip("ydf", minversion="0.14")
pytestmark = pytest.mark.once
ydf.verbose(0)


def table(n: int = 500) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).astype(np.float32), columns=list("abc"))
    frame["word"], frame["flag"] = rng.choice(["é", "b", ""], n), rng.random(n) < 0.5
    return frame, np.where(frame.a + frame.flag + rng.normal(size=n) > 0.5, "up", "down")


FRAME, Y = table()


def grown(X: pd.DataFrame, y: np.ndarray, **settings) -> tuple[Any, Any]:
    learner = ydf.RandomForestLearner(label="y", **{"num_trees": 60, "max_depth": 5} | settings)
    return learner.train(X.assign(y=y)), learner


@pytest.mark.parametrize("columns", [list("abc"), ["a", "b", "flag"], ["a", "word", "flag"]])
@pytest.mark.parametrize("labels", ["words", "integers"])
def test_bags_give_leaves_their_counts(columns, labels):
    X, y = FRAME[columns], Y if labels == "words" else (Y == "up").astype(int)
    model, learner = grown(X, y)
    forest, X = from_ydf(model), X[model.input_feature_names()]
    mask = oob_mask(model, len(X), X=X, y=y)
    with pytest.warns(UserWarning, match="keep no seed.* Pass X and y"):
        np.testing.assert_array_equal(oob_mask(model, len(X)), mask)
    np.testing.assert_array_equal(oob_mask(model, len(X), learner=learner), mask)
    assert mask.shape == (len(X), 60)
    leaves = np.asarray(ju.leaf_index(forest, X))
    for t in range(0, 60, 20):
        drawn = np.bincount(learner.in_bag_example_indices(num_examples=len(X), tree_idx=t), minlength=len(X))
        np.testing.assert_array_equal(mask[:, t], drawn == 0)
        counts = np.zeros((forest.trees.n_nodes, 2))
        np.add.at(counts, (leaves[:, t], (y.astype(str) == model.label_classes()[1]).astype(int)), drawn)
        np.testing.assert_allclose(counts, np.asarray(forest.counts)[t], atol=1e-3)
    if columns == list("abc"):
        np.testing.assert_array_equal(oob_mask(model, len(X), X=X.to_numpy(), y=y), mask)


def test_what_is_refused():
    X, y = FRAME[list("abc")], Y
    (model, _), (other, learner) = grown(X, y), grown(X, y, random_seed=3, bootstrap_size_ratio=0.7)
    whole, _ = grown(X, y, bootstrap_training_dataset=False)
    trees, _ = grown(X, (y == "up").astype(float), task=ydf.Task.REGRESSION)
    rows, n = {"X": X, "y": y}, len(X)
    for given in ((X[::-1], y[::-1]), (X, y[::-1]), (X + 1, y)):
        words = "not the rows that this RandomForestModel was grown on"
        refuses(ValueError, words, oob_mask, model, n, X=given[0], y=given[1])
    for one, of, how, error, match in (
        (model, 7, {}, ValueError, "n=7, but model was fitted on 500"),
        (model, n, rows | {"X": X.rename(columns={"a": "z"})}, ValueError, "YDF cannot read X"),
        (other, n, rows, ValueError, "Pass the learner that trained the model"),
        (other, n, {}, ValueError, "bags are not those"),
        (other, n, rows | {"learner": "x"}, TypeError, "learner is a str"),
        (whole, n, {}, ValueError, "no out-of-bag evaluations"),
        (model, n, rows | {"sample_weight": np.ones(n)}, ValueError, "leave sample_weight out"),
        (trees, n, {}, TypeError, "has no bags"),
    ):
        refuses(error, match, oob_mask, one, of, **how)
    mask = oob_mask(other, n, **rows, learner=learner)
    assert 0.4 < mask.mean() < 0.6
    ju.count_leaves(from_ydf(other), X, y, tree_mask=mask)
    with refuses(ValueError, "needs trees that leave instances out"):
        CombinedForestClassifier(FrozenEstimator(whole), combiner="mean", counts="oob").fit(X, y)


def test_tables_that_are_not_those_of_the_fit():
    X, y = FRAME[["a", "b"]], (FRAME.a > 0).to_numpy().astype(int)
    model, _ = grown(X, y, num_trees=10)
    numbers, polars = X.to_numpy(), pytest.importorskip("polars")
    named = np.rec.fromarrays(numbers.T, names="a,b")
    columns = {"a": np.ma.array(numbers[:, 0]), "b": numbers[:, 1]}
    expected = oob_mask(model, 500, X=X, y=y)
    for same in (numbers, named, columns, polars.DataFrame(X.to_dict("list")), X[["b", "a"]]):
        np.testing.assert_array_equal(oob_mask(model, 500, X=same, y=y), expected)
    for other, labels, said in (
        (numbers[:, :1], y, r"X has shape \(500, 1\)"),
        (np.c_[numbers, y], y, r"X has shape \(500, 3\)"),
        (numbers[:, 0], y, r"X has shape \(500,\)"),
        (scipy.sparse.csr_matrix(numbers[:, :1]), y, r"X has shape \(500, 1\)"),
        (numbers[:50], y, "X has 50 instances"),
        (numbers, y[:50], "y has 50 labels"),
        (numbers[:50], y[:50], "y has 50 labels"),
        (X[:50], y[:50], "y has 50 labels"),
        (named[["a"]], y, r"X lacks \['b'\]"),
        (polars.DataFrame({"a": numbers[:, 0]}), y, r"X lacks \['b'\]"),
        (pd.DataFrame(np.c_[numbers, y], columns=list("aab")), y, r"several times \['a'\]"),
        (columns | {"a": np.ma.masked_less(numbers[:, 0], 0)}, y, "not the rows that this"),
        (numbers, None, "y is None"),
    ):
        refuses(ValueError, said, oob_mask, model, 500, X=other, y=labels)


def test_frames_of_any_kind_are_counted():
    X, polars = FRAME[["a", "word", "flag"]], pytest.importorskip("polars")
    model, _ = grown(X, Y, num_trees=10)
    expected, frame = oob_mask(model, 500, X=X, y=Y), polars.DataFrame(X.to_dict("list"))
    for given in (frame, frame.to_arrow(), plain_table(frame), X.to_dict("list")):
        np.testing.assert_array_equal(oob_mask(model, 500, X=given, y=Y), expected)


def test_counts_learning_and_votes():
    """On noise, counts of the bags are sure; those out of bag and a pool learned by them are not."""
    rng = np.random.default_rng(0)
    X, y = FRAME[list("abc")], np.where(rng.random(len(FRAME)) < 0.5, "up", "down")
    model, _ = grown(X, y, max_depth=16, min_examples=2)
    new = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    coin = np.where(rng.random(400) < 0.5, "up", "down")
    losses = {}
    for counts, rule in (("inbag", "mean"), ("oob", "mean"), ("inbag", "learned")):
        made = CombinedForestClassifier(FrozenEstimator(model), combiner=rule, counts=counts).fit(X, y)
        losses[counts, rule] = log_loss(coin, made.predict_proba(new))
    assert max(losses["inbag", "learned"], losses["oob", "mean"]) < losses["inbag", "mean"] - 0.02, losses
    made = CombinedForestClassifier(FrozenEstimator(model), combiner="mean").fit(X, y)
    polled = made.predict_polled(X[:20], prior="fitted", training=(X, y)).n_trees_used
    assert polled.shape == (20,)

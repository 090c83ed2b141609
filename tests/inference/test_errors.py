"""Data and arguments that are refused, and what is said."""

from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

X = toy_data(2)[0][:10]


@pytest.fixture(scope="module")
def bound():
    return ju.bind(toy_forest(2), ju.Mean())


@pytest.fixture(scope="module")
def frame():
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))


@pytest.fixture(scope="module")
def named_forest(frame):
    data, y = toy_data(2)
    data = type(frame)(data, columns=frame.columns)
    return ju.from_sklearn(RandomForestClassifier(5, random_state=0).fit(data, y))


LEAVES = {"leaf_index": ju.leaf_index, "leaf_counts": ju.leaf_counts}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (X[:, :5], "X has 5 features.*data had 6"),
        (np.hstack([X, X]), "X has 12 features"),
        (X[0], r"X has shape \(6,\).*X\[None\]"),
        (X[None], r"X has shape \(1, 10, 6\); expected \(instances, features\)"),
        (np.float32(1), "X has shape"),
        (np.where(np.arange(6) == 2, np.inf, X), r"X\[0, 2\] is infinite"),
        (np.where(np.arange(6) == 3, -np.inf, X), r"X\[0, 3\] is infinite"),
        (np.where(np.arange(6) == 3, 1e39, X.astype(float)), r"X\[0, 3\] is infinite or too large"),
    ],
    ids=["few", "many", "one axis", "three axes", "number", "inf", "-inf", "too large"],
)
def test_data(data, match, bound):
    for call in (bound, bound.score, bound.probability, bound.log_probability, bound.answer):
        refuses(ValueError, match, call, data)
    for ask in LEAVES.values() if "infinite" not in match else ():
        refuses(ValueError, match, ask, bound.forest, data)


def _bind(n_classes, combiner, **how):
    return lambda: ju.bind(toy_forest(n_classes), combiner, **how).score(toy_data(n_classes)[0])


def _fold(table, **how):
    return lambda: ju.inference.merge_leaves(toy_forest(2), table, X, **how)


def _masked(mask):
    return lambda bound: bound(X, tree_mask=mask)


def _traced(ask):
    return lambda: jax.eval_shape(partial(ask, toy_forest(2)), X[:, :5])


MASKS = {
    "trees": (np.ones((10, 11), bool), r"tree_mask has shape \(10, 11\); expected \(10, 12\)"),
    "instances": (np.ones((9, 12), bool), "tree_mask has shape"),
    "one axis": (np.ones(12, bool), "tree_mask has shape"),
    "float": (np.ones((10, 12)), "tree_mask has dtype float64; pass booleans", TypeError),
    "int": (np.ones((10, 12), int), "tree_mask has dtype", TypeError),
}
ONES = np.ones((12, 128), np.float32)
ASKS = {"bound": lambda forest, rows: ju.bind(forest, ju.Mean())(rows), **LEAVES}
FRAMES = {
    "order": (lambda frame: frame[list("fedcba")], "another order"),
    "name": (lambda frame: frame.rename(columns={"a": "z"}), r"missing \['a'\], unexpected \['z'\]"),
    "missing": (lambda frame: frame.drop(columns="c"), r"missing \['c'\]"),
    "more": (lambda frame: frame.assign(g=1.0), r"unexpected \['g'\]"),
    "word": (lambda frame: frame.assign(b="text"), r"columns \['b'\].*no numbers", TypeError),
    "category": (lambda frame: frame.assign(b="x").astype({"b": "category"}), r"\['b'\]", TypeError),
    "date": (lambda frame: frame.assign(b=np.datetime64("2020-01-01")), r"\['b'\]", TypeError),
}
test_refusals = refusals(
    ("sparse", lambda bound: bound(scipy.sparse.csr_matrix(X.astype(complex))), "X has dtype complex", TypeError),
    ("text", lambda bound: bound(X.astype(str)), "X has dtype <U.*; pass numbers", TypeError),
    ("object", lambda bound: bound(np.where(X[0, 1] == X, "a", X.astype(object))), r"X's columns \[1\]", TypeError),
    ("complex", lambda bound: bound(X.astype(complex)), "X has dtype complex128; pass numbers", TypeError),
    *(
        (f"{name}, {what}", lambda named_forest, frame, ask=ask, of=of: ask(named_forest, of(frame)), *words)
        for name, ask in ASKS.items()
        for what, (of, *words) in FRAMES.items()
    ),
    *((f"mask, {what}", _masked(mask), *words) for what, (mask, *words) in MASKS.items()),
    *((f"mask of a fold, {what}", _fold(ONES, tree_mask=mask), *words) for what, (mask, *words) in MASKS.items()),
    *((f"{n} threads", _bind(2, ju.Mean(), threads=n), f"threads={n} must be at least 1") for n in (0, -1)),
    ("masses of three", _bind(3, ju.DempsterRule()), "two classes, but counts have 3. .*OneVsRest"),
    ("prior of two", _bind(3, ju.EvidenceAccumulation(0.5)), "prior has 2 classes, but counts have 3"),
    ("score of three", _bind(3, ju.Mean()), "score is defined for two classes"),
    *(
        (f"table {shape}", _fold(np.ones(shape, np.float32)), "leaf_table holds an array of shape")
        for shape in ((12, 7), (11, 64), (12,) * 4, (64, 12), ())
    ),
    ("merge", _fold(ONES, merge="mean"), "merge='mean' is unknown"),
    *((f"{name} in a trace", _traced(ask), "X has 5 features") for name, ask in ASKS.items()),
)


def test_integers_booleans_and_numbers_that_add_up_to_infinity_are_fine(bound):
    """The quick check looks at a sum; that it overflows is no reason to refuse."""
    large = np.full((4, 6), 3e38, np.float32)
    assert np.all(np.isfinite(bound.probability(large)))
    mixed = large * np.array([1, -1, 1, -1, 1, -1], np.float32)
    np.testing.assert_array_equal(np.asarray(bound.probability(mixed))[:1], bound.probability(mixed[:1]))
    np.testing.assert_array_equal(bound(np.rint(X).astype(int)), bound(np.rint(X)))
    np.testing.assert_array_equal(bound(X > 0), bound((X > 0).astype(np.float32)))


@pytest.mark.exhaustive
def test_masks_may_be_lists(bound):
    mask = np.arange(120).reshape(10, 12) % 3 > 0
    y = np.arange(10) % 2
    np.testing.assert_array_equal(bound(X, tree_mask=mask.tolist()), bound(X, tree_mask=mask))
    table = ju.inference.leaf_table(toy_forest(2), ju.Mean())
    fold = lambda mask: ju.inference.merge_leaves(toy_forest(2), table, X, merge="exact_sum", tree_mask=mask)
    jax.tree.map(np.testing.assert_array_equal, fold(mask.tolist()), fold(mask))
    counted = ju.count_leaves(toy_forest(2), X, y, tree_mask=mask)
    np.testing.assert_array_equal(ju.count_leaves(toy_forest(2), X, y, tree_mask=mask.tolist()).counts, counted.counts)


def test_frequencies_are_warned_of_once():
    forest = toy_forest(2)
    counts = np.asarray(forest.count_table)[np.asarray(forest.code)]
    frequencies = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    with pytest.warns(UserWarning, match="look like class frequencies") as told:
        ju.bind(forest.with_counts(frequencies), ju.Pooling())
    assert len(told) == 1

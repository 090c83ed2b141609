"""Data and arguments that are refused, and what is said."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests._refusal import refuses

pytestmark = pytest.mark.once

X = toy_data(2)[0][:10]


@pytest.fixture(scope="module")
def bound():
    return ju.bind(toy_forest(2), ju.Mean())


@pytest.fixture(scope="module")
def named_forest():
    """A forest that was grown on a data frame."""
    data, y = toy_data(2)
    frame = pandas.DataFrame(data, columns=list("abcdef"))
    return ju.from_sklearn(RandomForestClassifier(5, random_state=0).fit(frame, y))


@pytest.fixture(scope="module")
def named(named_forest):
    return ju.bind(named_forest, ju.Mean())


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (X[:, :5], "X has 5 features.*data had 6"),
        (np.hstack([X, X]), "X has 12 features"),
        (X[0], r"X has shape \(6,\).*X\[None\]"),
        (X[None], "X has shape"),
        (np.float32(1), "X has shape"),
        (np.where(np.arange(6) == 2, np.inf, X), r"X\[0, 2\] is infinite"),
        (np.where(np.arange(6) == 3, -np.inf, X), r"X\[0, 3\] is infinite"),
        (np.where(np.arange(6) == 3, 1e39, X.astype(float)), r"X\[0, 3\] is infinite or too large"),
    ],
    ids=["few", "many", "one axis", "three axes", "number", "inf", "-inf", "too large"],
)
def test_data(data, match, bound):
    for call in (bound, bound.score, bound.probability, bound.log_probability, bound.answer):
        with refuses(ValueError, match):
            call(data)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (scipy.sparse.csr_matrix(X.astype(complex)), "X has dtype complex"),
        (X.astype(str), "X has dtype"),
        (X.astype(object), "X has dtype"),
        (X.astype(complex), "X has dtype"),
    ],
    ids=["sparse complex", "text", "object", "complex"],
)
def test_kinds_of_data(data, match, bound):
    with refuses(TypeError, match):
        bound(data)


def test_integers_booleans_and_numbers_that_add_up_to_infinity_are_fine(bound):
    """The quick check looks at a sum; that it overflows is no reason to refuse."""
    large = np.full((4, 6), 3e38, np.float32)
    assert np.all(np.isfinite(bound.probability(large)))
    mixed = large * np.array([1, -1, 1, -1, 1, -1], np.float32)
    np.testing.assert_array_equal(bound.probability(mixed)[0], bound.probability(mixed[:1])[0])
    np.testing.assert_array_equal(bound(np.rint(X).astype(int)), bound(np.rint(X)))
    np.testing.assert_array_equal(bound(X > 0), bound((X > 0).astype(np.float32)))


def test_data_frames(named):
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    np.testing.assert_array_equal(named(frame), named(X))
    missing = frame.astype(object).where(frame > -1, None).astype(float)
    np.testing.assert_array_equal(named(missing), named(missing.to_numpy()))
    nullable = frame.astype("Float64")
    nullable.iloc[0, 0] = pandas.NA
    hole = X.copy()
    hole[0, 0] = np.nan
    np.testing.assert_array_equal(named(nullable), named(hole))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda f: f[list("fedcba")], ValueError, "another order"),
        (lambda f: f.rename(columns={"a": "z"}), ValueError, r"missing \['a'\], unexpected \['z'\]"),
        (lambda f: f.drop(columns="c"), ValueError, r"missing \['c'\]"),
        (lambda f: f.assign(g=1.0), ValueError, r"unexpected \['g'\]"),
        (lambda f: f.assign(b="text"), TypeError, r"columns \['b'\].*no numbers"),
        (lambda f: f.assign(b=pandas.Categorical(["x"] * len(f))), TypeError, r"\['b'\]"),
        (lambda f: f.assign(b=pandas.Timestamp("2020-01-01")), TypeError, r"\['b'\]"),
    ],
    ids=["order", "name", "missing", "more", "text", "categories", "dates"],
)
def test_columns(change, error, match, named):
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    with refuses(error, match):
        named(change(frame))


@pytest.mark.parametrize(
    ("mask", "error", "match"),
    [
        (np.ones((10, 11), bool), ValueError, r"tree_mask has shape \(10, 11\); expected \(10, 12\)"),
        (np.ones((9, 12), bool), ValueError, "tree_mask has shape"),
        (np.ones(12, bool), ValueError, "tree_mask has shape"),
        (np.ones((10, 12)), TypeError, "tree_mask has dtype"),
        (np.ones((10, 12), int), TypeError, "tree_mask has dtype"),
    ],
    ids=["trees", "instances", "one axis", "float", "int"],
)
def test_masks(mask, error, match, bound):
    with refuses(error, match):
        bound(X, tree_mask=mask)
    table = ju.inference.leaf_table(toy_forest(2), ju.Mean())
    with refuses(error, match):
        ju.inference.fold(toy_forest(2), table, jnp.asarray(X), tree_mask=jnp.asarray(mask))


@pytest.mark.parametrize(
    ("n_classes", "combiner", "how", "error", "match"),
    [
        *((2, wrong, {}, TypeError, "combiner") for wrong in (None, "evidence", ju.scorers.probability, ju.Mean)),
        *((2, ju.Mean(), {"threads": threads}, ValueError, "threads") for threads in (0, -1)),
        (3, ju.DempsterRule(), {}, ValueError, "OneVsRest"),
        (3, ju.EvidenceAccumulation(0.5), {}, ValueError, "prior has 2 classes"),
        (3, ju.Mean(), {}, ValueError, "score is defined for two classes"),
    ],
)
def test_binding(n_classes, combiner, how, error, match):
    with refuses(error, match):
        ju.bind(toy_forest(n_classes), combiner, **how).score(toy_data(n_classes)[0])


@pytest.mark.parametrize("table", [(12, 7), (11, 64), (12,) * 4, (64, 12), ()], ids=str)
def test_tables_of_wrong_shape_and_unknown_merges(table):
    with refuses(ValueError, "leaf_table holds an array of shape"):
        ju.inference.fold(toy_forest(2), jnp.ones(table), jnp.asarray(X))
    with refuses(ValueError, "merge='mean' is unknown"):
        ju.inference.fold(toy_forest(2), ju.inference.leaf_table(toy_forest(2), ju.Mean()), X, merge="mean")


def fold_leaves(forest, data):
    return ju.inference.fold(forest, jnp.ones((forest.n_trees, forest.n_nodes)), data)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("function", [ju.leaf_index, ju.leaf_counts, fold_leaves])
def test_frames_for_the_leaves(function, named_forest):
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    np.testing.assert_array_equal(function(named_forest, frame), function(named_forest, X))
    np.testing.assert_array_equal(function(named_forest, X.tolist()), function(named_forest, X))
    with refuses(ValueError, "another order"):
        function(named_forest, frame[list("fedcba")])
    with refuses(TypeError, r"columns \['b'\].*no numbers"):
        function(named_forest, frame.assign(b="text"))
    if function is fold_leaves:
        with refuses(TypeError, "sparse matrix, but this takes dense data"):
            function(named_forest, scipy.sparse.csr_matrix(X))


@pytest.mark.exhaustive
def test_masks_may_be_lists(bound):
    mask = np.arange(120).reshape(10, 12) % 3 > 0
    y = np.arange(10) % 2
    np.testing.assert_array_equal(bound(X, tree_mask=mask.tolist()), bound(X, tree_mask=mask))
    table = ju.inference.leaf_table(toy_forest(2), ju.Mean())
    fold = lambda mask: ju.inference.fold(toy_forest(2), table, X, merge="exact_sum", tree_mask=mask)
    jax.tree.map(np.testing.assert_array_equal, fold(mask.tolist()), fold(mask))
    counted = ju.count_leaves(toy_forest(2), X, y, tree_mask=mask)
    np.testing.assert_array_equal(ju.count_leaves(toy_forest(2), X, y, tree_mask=mask.tolist()).counts, counted.counts)


@pytest.mark.parametrize("function", [ju.leaf_index, ju.leaf_counts])
def test_shapes_of_data_for_the_leaves_under_a_trace_too(function):
    forest = toy_forest(2)
    for data in (X[:, :5], X[0], X[None]):
        with refuses(ValueError, "X has"):
            function(forest, jnp.asarray(data))
    for traced in (lambda x: ju.bind(forest, ju.Mean())(x), lambda x: function(forest, x)):
        with refuses(ValueError, "X has 5 features"):
            jax.jit(traced)(jnp.asarray(X[:, :5]))


def test_frequencies_are_warned_of_once():
    forest = toy_forest(2)
    sizes = np.asarray(forest.counts).sum(axis=-1, keepdims=True)
    with pytest.warns(UserWarning, match="look like class frequencies") as told:
        ju.bind(forest.with_counts(np.asarray(forest.counts) / np.maximum(sizes, 1)), ju.Pooling())
    assert len(told) == 1

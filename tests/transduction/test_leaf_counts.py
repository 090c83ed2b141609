"""The leaves of all pairs of an instance and a label."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import jaxunc as ju
from jaxunc.transduction import _grouped, _grouped_tests, leave_one_out_leaf_counts, transductive_leaf_counts
from tests._golden import golden
from tests.transduction._slow import drawn_set, slow_leaf

pytestmark = pytest.mark.once

CASES = [(case, key) for case in golden("tpce") for key in case["results"]]


def settings_of(key: str) -> dict:
    candidates, min_samples_leaf = (part.split("=")[1] for part in key.split(","))
    return {"candidates": candidates, "min_samples_leaf": int(min_samples_leaf)}


@pytest.mark.parametrize(("case", "key"), CASES, ids=range(len(CASES)))
def test_reference_cases(case, key):
    results = case["results"][key]
    found = transductive_leaf_counts(case["X"], case["y"], [one["x"] for one in results], **settings_of(key))
    np.testing.assert_array_equal(found, [one["leaf_counts_per_inserted_label"] for one in results])
    probs = ju.transduction.label_average(found)
    np.testing.assert_allclose(probs, [one["pred"] for one in results], rtol=1e-14)


@pytest.mark.parametrize(("case", "key"), CASES, ids=range(len(CASES)))
@pytest.mark.exhaustive(keep=2)
def test_the_tree_without_the_instance(case, key):
    settings = settings_of(key)
    settings["min_samples_leaf"] = settings.pop("min_samples_leaf")
    tree = ju.transduction.grow_greedy_trees(case["X"], case["y"], **settings)
    results = case["results"][key]
    found = ju.leaf_counts(tree, np.array([one["x"] for one in results], np.float32))[:, 0]
    np.testing.assert_array_equal(found, [one["base_tree_leaf"] for one in results])


@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 2, 4])
@pytest.mark.parametrize(("n_classes", "missing"), [(2, False), (3, True)])
@pytest.mark.exhaustive(keep=2)
def test_one_tree_at_a_time(candidates, min_samples_leaf, n_classes, missing, rng):
    X, y, queries, nominal = drawn_set(rng, 24, n_classes, missing=missing)
    settings = {"candidates": candidates, "min_samples_leaf": min_samples_leaf}
    found = transductive_leaf_counts(X, y, queries, nominal=nominal, **settings)
    slow = {"nominal": nominal, "n_classes": n_classes, **settings}
    expected = [[slow_leaf(X, y, x, c, **slow) for c in range(n_classes)] for x in queries]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 2, 3])
@pytest.mark.parametrize(("n_classes", "missing"), [(2, True), (3, False)])
def test_leaving_out_is_inserting_into_the_others(candidates, min_samples_leaf, n_classes, missing, rng):
    X, y, _, nominal = drawn_set(rng, 40, n_classes, missing=missing)
    settings = {"nominal": nominal, "candidates": candidates, "min_samples_leaf": min_samples_leaf}
    found = leave_one_out_leaf_counts(X, y, **settings)
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        np.testing.assert_array_equal(
            found[i], transductive_leaf_counts(X[others], y[others], X[i : i + 1], **settings)[0]
        )


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.exhaustive
def test_real_sets(load, rng):
    """A sample of pairs, gains in fractions; and all of leave-one-out against insertion."""
    X, y = load(return_X_y=True)
    rows = rng.permutation(len(X))[:150]
    X, y = X[rows, :8].astype(np.float32).astype(float), y[rows]
    found = transductive_leaf_counts(X[:100], y[:100], X[100:])
    k = y.max() + 1
    for i in rng.integers(0, 50, 3):
        for c in range(k):
            settings = {"n_classes": k, "candidates": "boundary", "min_samples_leaf": 2}
            np.testing.assert_array_equal(found[i, c], slow_leaf(X[:100], y[:100], X[100 + i], c, **settings))
    found = leave_one_out_leaf_counts(X, y)
    for i in rng.integers(0, 150, 10):
        others = np.arange(150) != i
        expected = transductive_leaf_counts(X[others], y[others], X[i : i + 1])[0]
        np.testing.assert_array_equal(found[i], expected)


def test_an_answer_does_not_depend_on_its_batch(rng):
    X, y, queries, nominal = drawn_set(rng, 60, 3)
    whole = transductive_leaf_counts(X, y, queries, nominal=nominal)
    for i in range(len(queries)):
        np.testing.assert_array_equal(transductive_leaf_counts(X, y, queries[i : i + 1], nominal=nominal)[0], whole[i])


@pytest.mark.parametrize(("candidates", "min_samples_leaf"), [("boundary", 3), ("all", 1)])
def test_samples_together_are_as_each_alone_with_every_cut(candidates, min_samples_leaf, rng):
    """Nodes of one size share arrays, and cuts that cannot win are dropped: neither changes a count."""
    X, y, queries, _ = drawn_set(rng, 80, 3, missing=True)
    settings = {"nominal": (0,), "candidates": candidates, "min_samples_leaf": min_samples_leaf}
    call = lambda: [transductive_leaf_counts(X, y, queries, **settings), leave_one_out_leaf_counts(X, y, **settings)]
    together, kept = call(), []

    def every_cut(cuts, *others):
        kept.append(len(contenders(cuts, *others)) / max(len(cuts.row), 1))
        return np.arange(len(cuts.row))

    contenders = _grouped_tests.contenders
    with mock.patch.object(_grouped, "MOST_VALUES", 60), mock.patch.object(_grouped_tests, "contenders", every_cut):
        alone = call()
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert min(kept) < 0.5 < max(kept)


def test_names_of_classes_change_nothing(rng):
    X, y, queries, nominal = drawn_set(rng, 60, 3)
    whole = transductive_leaf_counts(X, y, queries, nominal=nominal)
    for order in ([1, 2, 0], [2, 1, 0]):
        place = np.array(order)
        found = transductive_leaf_counts(X, place[y], queries, nominal=nominal)
        np.testing.assert_array_equal(found[:, place][:, :, place], whole)
    words = np.array(["a", "b", "c"])[y]
    np.testing.assert_array_equal(transductive_leaf_counts(X, words, queries, nominal=nominal), whole)


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-5, 5)), min_size=5, max_size=5))
def test_maps_that_keep_halfway_points_change_nothing(maps):
    """Powers of two times the numbers, and a shift: exact in floats."""
    rng = np.random.default_rng(7)
    X, y, queries = (rng.integers(0, 12, (30, 5)) / 2, rng.integers(0, 2, 30), rng.integers(-1, 26, (8, 5)) / 4)
    scale, shift = np.array([2.0**power for power, _ in maps]), np.array([by / 8 for _, by in maps])
    found = transductive_leaf_counts(X * scale + shift, y, queries * scale + shift)
    np.testing.assert_array_equal(found, transductive_leaf_counts(X, y, queries))


def test_any_increasing_map_of_known_values_changes_nothing_if_no_query_lies_between(rng):
    """Two values for each feature: thresholds part them wherever they lie."""
    X, y = rng.integers(0, 2, (50, 6)).astype(float), rng.integers(0, 2, 50)
    queries = rng.integers(0, 2, (20, 6)).astype(float)
    found = transductive_leaf_counts(np.exp(7 * X), y, np.exp(7 * queries))
    np.testing.assert_array_equal(found, transductive_leaf_counts(X, y, queries))


def test_degenerate_sets():
    same = np.ones((6, 2))
    counts = transductive_leaf_counts(same, [0, 0, 1, 1, 1, 1], same[:1])
    np.testing.assert_array_equal(counts, [[[3, 4], [2, 5]]])  # constant features: a single leaf
    counts = transductive_leaf_counts([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1], [[0.0]], min_samples_leaf=1)
    np.testing.assert_array_equal(counts, [[[2, 1], [1, 2]]])  # equal instances of two classes
    assert transductive_leaf_counts(same, [0, 0, 1, 1, 1, 1], np.zeros((0, 2))).shape == (0, 2, 2)
    assert ju.transductive_certainty(same, [0, 0, 1, 1, 1, 1], np.zeros((0, 2))).shape == (0, 2)
    # A class of one instance: left out, nothing has it, and yet it is a label that is tried.
    counts = leave_one_out_leaf_counts([[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1], min_samples_leaf=1)
    np.testing.assert_array_equal(counts[3], [[4, 0], [3, 1]])
    assert leave_one_out_leaf_counts([[0.0], [1.0]], [0, 1]).tolist() == [[[1, 1], [0, 2]], [[2, 0], [1, 1]]]


def test_progress():
    heard = []
    X, y = load_iris(return_X_y=True)
    leave_one_out_leaf_counts(X, y, progress=lambda now: heard.append((now.done, now.total)))
    assert heard[-1] == (450, 450)
    assert heard == sorted(heard)

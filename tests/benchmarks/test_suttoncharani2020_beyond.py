"""More classes, ensembles and other counts: sizes of aggregates, reading of counts, verdicts; distances of ranges."""

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import DataSet
from benchmarks.studies.suttoncharani2020 import beyond as study
from benchmarks.studies.suttoncharani2020 import beyond_methods as methods
from benchmarks.studies.suttoncharani2020 import distances, trees

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


@pytest.fixture
def small():
    """Three classes, features of both kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = np.column_stack([y + rng.normal(size=150), rng.integers(0, 3, 150), y * 2 + rng.normal(size=150)])
    return DataSet("vowel", X, y, ("a", "b", "c"), np.array([False, True, False]), ("n", "w", "m"), {"w": ["x"] * 3})


@pytest.mark.parametrize("part", list(study.PARTS))
def test_a_cell(small, part):
    found = study.run_cell(study.Cell(part, "vowel", 0), small)["found"]
    assert study._is_sound({"found": found}, None)
    for ways in found.values():
        assert all(0 < loss < 14 and 0 < brier < 2 for loss, brier in ways.values())
    if part == "ensembles":
        assert {*study.FORESTS, "mean", "pooling", "mean, all rows"} == set(found["forest"])
    else:
        assert all(set(ways) == set(methods.WAYS) for ways in found.values())


def test_errors_of_more_classes(small):
    model = DecisionTreeClassifier(min_samples_leaf=7, random_state=0).fit(small.X, small.y)
    place = model.apply(small.X)
    pruned = trees.prune(model, 0.0)
    assert trees.node_errors(model)[0] == 150 - np.bincount(small.y).max()
    for leaf in np.unique(place):
        own = small.y[place == leaf]
        assert trees.node_errors(model)[leaf] == len(own) - np.bincount(own).max()
    assert pruned.counts.shape[1] == 3


def test_aggregates_by_the_definition():
    counts = np.array([[[3, 1], [0, 0], [0, 2]]], float)  # the tree in the middle has no say
    np.testing.assert_allclose(methods.TOGETHER["trees"](counts), [[0.75, 1.25]])
    np.testing.assert_allclose(methods.TOGETHER["pooled"](counts), [[3, 3]])
    np.testing.assert_allclose(methods.TOGETHER["mean leaf"](counts), [[1.5, 1.5]])


def test_counts_are_read_by_the_definition():
    sample = np.array([[8, 2, 0], [1, 5, 4], [2, 2, 6]], float)
    read = methods.ways_to_read(sample, np.array([[3, 1, 0], [0, 0, 0]], float))
    np.testing.assert_allclose(read["raw"], [[0.75, 0.25, 0], sample.sum(axis=0) / 30])
    np.testing.assert_allclose(read["laplace"], [[4 / 7, 2 / 7, 1 / 7], [1 / 3] * 3])
    alpha = np.asarray(methods.priors(sample)["eb"].alpha)
    np.testing.assert_allclose(read["eb"], [(np.array([3, 1, 0]) + alpha) / (4 + alpha.sum()), alpha / alpha.sum()])


def test_naive_bayes_of_frequencies_is_naive_bayes():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    X = np.stack([(y + rng.integers(0, 3, 400)) % 4, rng.integers(0, 2, 400)], axis=1)
    train, test = np.arange(300), np.arange(300, 400)
    ours = methods.naive_bayes([X[:, 0], X[:, 1]], np.eye(2)[y[train]], train, test)["raw"]
    theirs = CategoricalNB(alpha=1e-9).fit(X[train], y[train]).predict_proba(X[test])
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_neighbours_of_training_rows_are_others(small):
    onehot = np.eye(3)[small.y]
    found = methods.neighbours(np.arange(150)[:, None] * np.ones((1, 2)), onehot, np.arange(150), np.arange(3))
    np.testing.assert_allclose(found["raw"][0], onehot[:10].mean(axis=0))


def test_verdicts():
    ten = np.array([1.0] * 10 + [-1.0] * 2)
    assert (study.verdict(np.array([ten, ten])), study.verdict(np.array([-ten, -ten]))) == ("helps", "harms")
    assert study.verdict(np.array([ten, np.array([1.0] * 9 + [-1.0] * 3)])) == "does not help reliably"
    assert study.verdict(np.array([ten, -ten])) == "does not help reliably"


def test_distances_to_the_perfect_loss():
    ends = np.array([[0.2, 0.6], [0.1, 0.1]])
    assert distances.to_perfect(ends, 1.0) == pytest.approx((0.4 + 0.1) / 2)
    assert distances.to_perfect(ends, 2.0) == pytest.approx((np.sqrt((0.04 + 0.36) / 2) + 0.1) / 2)
    assert distances.to_perfect(ends, np.inf) == pytest.approx((0.6 + 0.1) / 2)


def test_wins_of_ranges():
    narrow, wide, low = (np.array([[ends]]) for ends in ([0.4, 0.6], [0.1, 0.8], [0.0, 0.3]))
    assert distances.wins(wide, narrow) == {
        "apart": 0, "overlap": 0, "p = 1, midpoints": 1, "p = 2": 0, "p = ∞, upper ends": 0
    }  # fmt: skip
    assert distances.wins(low, narrow)["overlap"] == 1
    assert distances.wins(narrow, low) == {**dict.fromkeys(distances.wins(low, low), 0), "apart": 1}

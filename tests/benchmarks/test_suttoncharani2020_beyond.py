"""Trees by other gains, more classes, ensembles, other counts, and distances of ranges: against their definitions."""

import re

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from benchmarks.pages import read_parts
from benchmarks.studies.suttoncharani2020 import beyond as study
from benchmarks.studies.suttoncharani2020 import beyond_methods as methods
from benchmarks.studies.suttoncharani2020 import distances, trees
from benchmarks.studies.suttoncharani2020 import left_open as page
from tests.benchmarks._small import small_set

pytestmark = pytest.mark.once


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    return np.column_stack([y + rng.normal(size=300), rng.normal(size=300), rng.integers(0, 2, 300)]), y


BY_ENTROPY = DecisionTreeClassifier(criterion="entropy", min_samples_split=20, min_samples_leaf=7, random_state=0)


@pytest.mark.parametrize(("growth", "grow"), [("raw", trees.grow), (trees.ENTROPY, BY_ENTROPY.fit)])
def test_without_a_prior_it_is_cart(growth, grow, data):
    own, cart = trees.grow_by_gain(*data, growth), grow(*data)
    for cp in (0.0, 0.01):
        a, b = trees.prune(own, cp), trees.prune(cart, cp)
        np.testing.assert_array_equal(a.counts[a.place(data[0])], b.counts[b.place(data[0])])


def _corrected(labels, a, b):
    """n U of a node whose share is corrected by a prior."""
    p = (labels.sum() + a) / (len(labels) + a + b)
    return len(labels) * 2 * p * (1 - p)


def _evidential(labels, weight):
    """n U of a node by the definitions: masses of sets, nonspecificity, discord by pignistic probabilities."""
    n = len(labels)
    mass = {frozenset([k]): np.sum(labels == k) / (n + 1) for k in (0, 1)} | {frozenset([0, 1]): 1 / (n + 1)}
    pignistic = {k: sum(m / len(of) for of, m in mass.items() if k in of) for k in (0, 1)}
    nonspecificity = sum(m * np.log2(len(of)) for of, m in mass.items())
    discord = -sum(m * np.log2(sum(pignistic[k] for k in of)) for of, m in mass.items())
    return n * ((1 - weight) * nonspecificity + weight * discord)


@pytest.mark.parametrize("weight", [0.5, 0.25])
def test_the_evidential_impurity_by_the_definition(weight):
    for ones in (0, 1, 5, 12):
        labels = np.arange(12) < ones
        assert trees.evidential_impurity(weight)(12, ones) == pytest.approx(_evidential(labels, weight))


@pytest.mark.parametrize(
    ("definition", "impurity", "settings"),
    [
        *((_corrected, trees.corrected_impurity, prior) for prior in ((0.0, 0.0), (2.0, 1.0), (0.3, 7.0))),
        *((_evidential, trees.evidential_impurity, (weight,)) for weight in (0.5, 0.25)),
    ],
)
def test_the_best_cut_by_the_definition(definition, impurity, settings, data):
    X, y = data[0][:60], data[1][:60]

    def gain(feature, threshold):
        left = X[:, feature] <= threshold
        node, *sides = (definition(labels, *settings) for labels in (y, y[left], y[~left]) if len(labels))
        return node - sum(sides) if min(left.sum(), (~left).sum()) >= trees.MIN_LEAF else -np.inf

    most = max(gain(f, v) for f in range(3) for v in X[:, f])
    cut = trees.best_cut(X, y, impurity(*settings))
    assert most < 1e-8 if cut is None else gain(*cut) == pytest.approx(most)


@pytest.mark.parametrize("weight", [0.5, 0.25])
def test_what_a_node_more_costs(weight):
    impurity = trees.evidential_impurity(weight)
    for share in (0.0, 0.2, 0.5):
        entropy = -sum(p * np.log2(p) for p in (share, 1 - share) if p)
        cost = 2 * impurity(500, 500 * share) - impurity(1000, 1000 * share)
        expected = 1 - weight - weight * entropy if share else 1 - 0.28 * weight
        assert cost == pytest.approx(expected, abs=0.01)


def test_evidential_trees_are_smaller(data):
    noise = np.random.default_rng(2).normal(size=(300, 1))
    sizes = [trees.grow_by_gain(noise, data[1], growth).tree_.node_count for growth in ("quarter", "raw")]
    assert sizes[0] < sizes[1] / 2


@pytest.mark.parametrize("growth", [*trees.GROWTHS, *trees.EVIDENTIAL, trees.ENTROPY])
def test_leaves_hold_their_counts(data, growth):
    pruned = trees.prune(trees.grow_by_gain(*data, growth), 0.0)
    place = pruned.place(data[0])
    for row, counts in enumerate(pruned.counts):
        np.testing.assert_array_equal(np.bincount(data[1][place == row], minlength=2), counts)


def test_a_single_leaf_has_no_prior():
    assert trees.prior_of(np.array([[3, 7]])) == (0.0, 0.0)
    assert min(trees.prior_of(np.array([[3, 7], [20, 1], [5, 5]]))) > 0


def test_verdicts():
    assert (page.verdict(np.ones((3, 4))), page.verdict(-np.ones((3, 4)))) == ("it helps", "it harms")
    assert page.verdict(np.array([[1, 1, 1], [1, 1, -1], [1, 1, 1]])) == "it does not help reliably"
    ten = np.array([1.0] * 10 + [-1.0] * 2)
    assert (study.verdict(np.array([ten, ten])), study.verdict(np.array([-ten, -ten]))) == ("helps", "harms")
    assert study.verdict(np.array([ten, np.array([1.0] * 9 + [-1.0] * 3)])) == "does not help reliably"
    assert study.verdict(np.array([ten, -ten])) == "does not help reliably"


@pytest.fixture
def small():
    return small_set("vowel", 150, 3)


@pytest.mark.parametrize("part", list(study.PARTS))
def test_a_cell(small, part):
    found = study.run_cell(study.Cell(part, "vowel", 0), small)["found"]
    assert study._is_sound({"found": found}, None)
    for ways in found.values():
        assert all(0 < loss < 14 and 0 < brier < 2 for loss, brier in ways.values())
    if part == "ensembles":
        ways = re.findall(r"gain\[forest; ([^;]+); ", read_parts(study.TEMPLATE)["ensembles"])
        assert {*ways, "mean"} == set(found["forest"])
    else:
        assert all(set(ways) == set(methods.WAYS) for ways in found.values())


def test_errors_of_more_classes(small):
    model = DecisionTreeClassifier(min_samples_leaf=7, random_state=0).fit(small.X, small.y)
    place, pruned = model.apply(small.X), trees.prune(model, 0.0)
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


def test_distances_to_the_perfect_loss():
    ends = np.array([[0.2, 0.6], [0.1, 0.1]])
    assert distances.to_perfect(ends, 1.0) == pytest.approx((0.4 + 0.1) / 2)
    assert distances.to_perfect(ends, 2.0) == pytest.approx((np.sqrt((0.04 + 0.36) / 2) + 0.1) / 2)
    assert distances.to_perfect(ends, np.inf) == pytest.approx((0.6 + 0.1) / 2)


def test_wins_of_ranges():
    narrow, wide, low = (np.array([[ends]]) for ends in ([0.4, 0.6], [0.1, 0.8], [0.0, 0.3]))
    none = dict.fromkeys(("apart", "overlap", "p = 1, midpoints", "p = 2", "p = ∞, upper ends"), 0)
    assert distances.wins(wide, narrow) == none | {"p = 1, midpoints": 1}
    assert distances.wins(low, narrow)["overlap"] == 1
    assert distances.wins(narrow, low) == none | {"apart": 1}

"""The study of Sutton-Charani 2020: trees like rpart's, cells resumed to the byte, a page of tables."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from benchmarks.studies.suttoncharani2020 import methods as study
from benchmarks.studies.suttoncharani2020 import page, run, trees
from jaxunc import belief, metrics
from jaxunc.scorers import Interval
from jaxunc.smoothing import BetaPrior
from tests._claims import page_of
from tests._golden import golden
from tests.belief._powerset import as_sets, random_masses
from tests.benchmarks._small import small_set
from tests.smoothing.test_fit_prior import GOLDEN_NAMES, leaves

WAYS = ("eb", "laplace", "moments", "marginal")
pytestmark = pytest.mark.once


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(study, "N_FOLDS", 3)
    return small_set("banana", 120)


def _cost_complexity(model, node, threshold):
    """(errors, leaves, kept inner nodes) of a subtree by rpart's rule, from its definition."""
    errors = trees.node_counts(model)[node].min()
    left, right = model.tree_.children_left[node], model.tree_.children_right[node]
    if left < 0:
        return errors, 1, []
    (a, m, kept), (b, n, also) = (_cost_complexity(model, child, threshold) for child in (left, right))
    if (errors - a - b) / (m + n - 1) > threshold + 1e-9:
        return a + b, m + n, [node, *kept, *also]
    return errors, 1, []


@pytest.mark.parametrize("cp", [0.0, 0.01, 0.05, 0.2, 1.0])
def test_pruning(small, cp):
    model = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(small.X, small.y)
    pruned = trees.prune(model, cp)
    errors, n_leaves, _ = _cost_complexity(model, 0, cp * trees.node_counts(model)[0].min())
    assert len(pruned.counts) == n_leaves
    assert pruned.counts.min(axis=1).sum() == errors
    place = pruned.place(small.X)
    for row, counts in enumerate(pruned.counts):
        np.testing.assert_array_equal(np.bincount(small.y[place == row], minlength=2), counts)


def test_candidates_change_the_tree(small):
    model = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(small.X, small.y)
    candidates = trees._candidates(model, trees.node_counts(model).min(axis=1))
    assert candidates == sorted(candidates)
    sizes = [len(trees.prune(model, cp).counts) for cp in candidates]
    assert all(a > b for a, b in itertools.pairwise(sizes))
    assert sizes[-1] == 1
    assert trees.best_cp(small.X, small.y, model, 0) >= 0


def test_a_cell(small):
    found = study.run_cell(study.Cell("banana", 0, 0), small)["trees"]
    assert list(found) == list(study.TREES)
    for tree in found.values():
        for place, measure in enumerate(page.MEASURES):
            low, high = tree["intervals"][measure]
            assert low - 1e-6 <= tree["raw"][place] <= high + 1e-6, "relative frequencies lie in their interval"


def test_running_means_are_undone():
    values = np.random.default_rng(0).random((4, 3))
    running = np.cumsum(values, axis=0) / np.arange(1, 5)[:, None]
    np.testing.assert_allclose(page.without_running_mean(running), values)


def test_what_the_page_says():
    kept = {name: list(found.values()) for name, found in study.MAIN.kept(run.RESULTS).items()}
    assert {len(records) for records in kept.values()} == {100}
    paper = {name: page.PAPER_SETS.index(printed) for name, printed in study.SETS.items() if printed}

    ours_of = lambda measure, estimate: np.array([page.means(kept[name], estimate, measure) for name in paper])
    both = lambda measure, estimate: (ours_of(measure, estimate), np.array(page.PAPER[measure, estimate]))
    for measure, middle, most in (("brier", 0.0011, 0.0105), ("log_loss", 0.0055, 0.0685)):
        ours, printed = both(measure, "raw")
        apart = np.abs(ours - printed)[:, :5]
        assert np.median(apart) < middle
        assert apart.max() < most
    ours, printed = both("log_loss", "raw")
    smoothed, printed_smoothed = both("log_loss", "eb")
    gain = ours - smoothed
    assert np.all((gain[:, 0] > 0.025) & (gain[:, 0] < 0.36))
    assert np.all(np.abs(gain[:, 4]) < 0.005)
    assert np.all(gain[:, 5] > 0)
    assert gain[list(paper).index("bankLoan"), 5] < 0.001
    assert round(gain[list(paper).index("banknote-eb"), 5], 2) == 0.17
    assert np.all(np.abs(printed - printed_smoothed)[:, 5] < 0.002), "the paper did not smooth them"
    assert round(smoothed[0, 5], 2) == 0.30
    assert [bool(v) for v in smoothed[:, 0] < ours[:, 5]] == [True, False, True, True, True, True]
    better = {name for name, row in zip(paper, smoothed, strict=True) if row[0] < row[5] - 0.0005}
    assert better == {"banana", "banknote-eb", "tic-tac-toe"}
    for estimate in ("raw", "eb"):
        ours, printed = both("auc", estimate)
        assert np.abs(ours - page.without_running_mean(printed)).max() < 0.0075
        assert np.abs(ours - printed).max() > 0.15
    for measure in ("brier", "auc"):
        sign = 1 if measure == "auc" else -1
        for records in kept.values():
            assert sign * (page.means(records, "eb", measure) - page.means(records, "raw", measure))[0] > 0
    six, apart = {name: kept[name] for name in paper}, {way: [] for way in WAYS}
    for measure in page.MEASURES:
        of = {way: page.gains(six, way, measure).mean(axis=0)[[0, 5]] for way in WAYS}
        for way in WAYS:
            apart[way].extend(of[way] - of["eb"])
    assert np.all(np.array(apart["moments"]) < 0)
    told = page_of("suttoncharani2020")
    for way in ("laplace", "marginal", "moments"):
        assert f"within {np.abs(apart[way]).max():.4f}".replace(" 0.", " .") in told
    assert f"range in {page.outside(six, 'log_loss'):.0%} of" in told
    assert round(page.gains(six, "eb", "log_loss")[:, 5].mean(), 2) == 0.06
    for measure in ("brier", "auc"):
        assert round(page.gains(six, "eb", measure)[:, 0].mean(), 3) == 0.003
    assert page.means(kept["banknote"], "raw", "brier")[0] < 0.5 * page.means(kept["banknote-eb"], "raw", "brier")[0]
    published = np.array([page.ranges(records, "auc_published") for records in kept.values()])
    assert np.ptp(published, axis=-1).max() < 0.01


def test_masses_of_the_reference():
    for entry in golden("empirical_bayes"):
        for fit in (entry[name] for name in GOLDEN_NAMES.values() if entry[name]):
            mass = study.predictive_mass(leaves(entry), BetaPrior(fit["alpha"], fit["beta"], 0))
            for column, key in enumerate(("mass_0", "mass_1", "mass_omega"), start=1):
                expected = [leaf[key] for leaf in fit["leaves"]]
                np.testing.assert_allclose(mass[:, column], expected, rtol=1e-12, atol=1e-15)
    empty = study.predictive_mass(np.zeros((1, 2)), BetaPrior(3.0, 1.0, 0))
    np.testing.assert_array_equal(empty, [[0, 0, 0, 1]])


def test_bounds_of_the_reference():
    for entry in golden("interval_metrics")["per_instance"]:
        interval, y = Interval(np.array(entry["lower"], float), np.array(entry["upper"], float)), np.array(entry["y"])
        expected = [float(entry[f"log_loss_{end}_clip1e_15"]) for end in ("min", "max")]
        np.testing.assert_allclose(study.interval_log_loss(interval, y, clip=1e-15), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(study.interval_auc(interval, y), [entry["auc_min"], entry["auc_max"]], rtol=1e-6)
        published = sorted(entry[f"published_auc_of_{end}"] for end in ("lower", "upper"))
        np.testing.assert_allclose(study.interval_auc(interval, y, method="published"), published, rtol=1e-6)


def test_no_choice_is_beyond_the_bounds(rng):
    lower, upper = np.sort(rng.integers(0, 9, (2, 40)) / 8, axis=0)
    p, y = rng.uniform(lower, upper), rng.integers(0, 2, 40)
    low, high = study.interval_auc(Interval(lower, upper), y)
    assert low <= metrics.auc(p, y) <= high
    low, high = study.interval_log_loss(Interval(lower, upper), y, clip=1e-15)
    assert low <= metrics.log_loss(np.stack([1 - p, p], axis=1), y) <= high


def _square(first, second) -> Fraction:
    """½ (m - m')ᵀ D (m - m') over all subsets, exactly."""
    first, second = as_sets(first), as_sets(second)
    apart = {a: Fraction(first[a]) - Fraction(second[a]) for a in first}
    overlap = lambda a, b: Fraction(len(a & b), len(a | b)) if a | b else Fraction(1)
    return sum((overlap(a, b) * apart[a] * apart[b] for a, b in itertools.product(apart, apart)), Fraction(0)) / 2


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_distances_by_the_definition(n_classes, rng):
    first, second = random_masses(rng, (2, 12), n_classes)
    expected = [float(_square(a, b)) ** 0.5 for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(study.jousselme_distance(first, second), expected, rtol=1e-10)


def test_squared_distance_to_the_class_that_came(rng):
    """For two classes: the Brier score of the pignistic probability, and a quarter of the squared ignorance."""
    counts, y = rng.integers(0, 30, (40, 2)), rng.integers(0, 2, 40)
    masses = study.predictive_mass(counts, BetaPrior(1.5, 2.5, 0))
    square = study.jousselme_distance(masses, np.eye(4)[1 + y]) ** 2
    p, ignorance = np.asarray(belief.pignistic(masses), float)[:, 1], masses[:, 3]
    np.testing.assert_allclose(square, (p - y) ** 2 + ignorance**2 / 4, atol=1e-6)

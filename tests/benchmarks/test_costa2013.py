"""The study of transductive certainty: bags without the instance, own thresholds, cells to the byte, a page."""

import jax
import numpy as np
import pytest
from sklearn.datasets import load_iris

import jaxunc as ju
from benchmarks.studies.costa2013 import methods, numbers, page, sets
from benchmarks.studies.costa2013 import run as study
from benchmarks.studies.costa2013.methods import batch_certainty
from jaxunc import transduction
from tests._claims import page_of
from tests._golden import golden
from tests.benchmarks._small import small_set

pytestmark = pytest.mark.once


SMALL = small_set("glass", 45, 3)


def test_folds():
    y = np.repeat([0, 1, 2], [61, 30, 9])
    parts = list(sets.folds("glass", y))
    assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(100))
    for train, test in parts:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 100
        assert np.abs(np.bincount(y[test], minlength=3) - [6.1, 3, 0.9]).max() < 1
    assert len(list(sets.folds("letter", y))) == sets.FOLDS_RUN["letter"]
    assert (len(set(sets.SETS)), sets.protocols("iris")) == (48, ("loo", "folds", "own"))
    assert sets.protocols("letter") == ("folds",)


def test_bags_are_grown_without_their_instance():
    n = len(SMALL.y)
    rows = methods.drawn_outside(np.random.default_rng(0), n, 4)
    outside = np.array([np.bincount(row, minlength=n) == 0 for row in rows])
    assert outside.sum(axis=0).min() == 4
    assert outside[:-1].sum(axis=0).min() == 3, "no more samples than it takes"
    counts = methods.left_out_counts(SMALL, 4)
    assert counts.shape == (n, 4, 3)
    chosen = np.flatnonzero(outside[:, 7])[:4]
    forest = ju.transduction.grow_greedy_trees(SMALL.X, SMALL.y, samples=rows[chosen], nominal=SMALL.nominal)
    np.testing.assert_array_equal(counts[7], np.asarray(ju.leaf_counts(forest, SMALL.X[7:8]))[0])


def test_own_thresholds_are_those_of_whole_trees():
    counts = methods.own_threshold_counts(SMALL)
    for i in (0, 11, 23):
        for label in range(3):
            y = SMALL.y.copy()
            y[i] = label
            tree = ju.transduction.grow_greedy_trees(SMALL.X, y, nominal=SMALL.nominal)
            np.testing.assert_array_equal(counts[i, label], np.asarray(ju.leaf_counts(tree, SMALL.X[i : i + 1]))[0, 0])
    without = transduction.transductive_leaf_counts(SMALL.X, SMALL.y, nominal=SMALL.nominal)
    assert methods.agreeing(counts) > methods.agreeing(without)
    assert methods.agreeing(np.array([[[2, 0], [0, 2]], [[2, 0], [3, 0]]])) == 0.5


def test_a_cell_of_each_protocol():
    for protocol in study.RUNS:
        cell = study.Cell("glass", protocol)
        found = study.run_cell(cell, SMALL)
        assert study._is_sound(found, cell)
        assert (found["n"], found["features"], found["classes"]) == (45, 3, 3)
        for name, of in found.items():
            if name.startswith(("tree", "tpce", "bag", "many", "batch")):
                assert 0 <= of[0] <= 2, name
                assert all(0 <= value <= 1 for value in of[1:]), name
    probs = ju.transduction.transductive_certainty(SMALL.X, SMALL.y, nominal=SMALL.nominal)
    brier = float(ju.metrics.brier_score(probs, SMALL.y))
    assert study.run_cell(study.Cell("glass", "loo"), SMALL)["tpce"][0] == pytest.approx(brier, abs=1e-5)


def test_called_reliable():
    correct = np.arange(200) % 4 > 0
    assert methods.called_reliable(np.where(correct, 0.9, 0.4), correct) == [150, 150, 50, 0]
    called, right, others, right_too = methods.called_reliable(np.full(200, 0.5), correct)
    assert (called + others, right + right_too) == (200, 150)


def test_reference_divergences():
    for case in golden("metrics")["kukar_kononenko"]:
        p, q = (np.array(case[name], float) for name in ("counts_inductive", "counts_transductive"))
        with np.errstate(invalid="ignore"):
            found = methods.j_divergence(p / p.sum(), q / q.sum())
        np.testing.assert_allclose(found, float(case["j_divergence_bits"]), rtol=1e-12)
        np.testing.assert_allclose(2.0**-found, case["reliability"], rtol=1e-12)


def test_reliability_of_predictions():
    X, y = load_iris(return_X_y=True)
    found = methods.reliability_of(transduction.transductive_leaf_counts(X, y, inductive=True))
    assert np.mean(found.predicted == y) > 0.9
    assert np.all((found.reliability > 0) & (found.reliability <= 1))


@pytest.mark.parametrize(
    ("reliability", "correct", "expected"),
    [
        ([0.1, 0.2, 0.2, 0.6, 0.8, 0.9], [0, 0, 1, 1, 1, 1], 0.4),
        ([1, 1, 1, 1], [0, 1, 1, 1], -np.inf),
        ([0.1, 0.2, 0.2, 0.6, 0.8, 0.9], [1] * 6, -np.inf),
        ([0.1, 0.2, 0.2, 0.6, 0.8, 0.9], [0] * 6, np.inf),
        ([0.1, 0.2, 0.8, 0.9], [1, 0, 0, 1], 0.85),  # of equal gains the one with more right ones above it
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], np.inf),  # it would call the wrong ones reliable: so none is
        ([0.1, 0.2, 0.5, 0.6, 0.8, 0.9], [1, 1, 1, 0, 1, 0], np.inf),  # a threshold at .55 gains too, but less
        ([0.1, 0.9], [1, 0], np.inf),
    ],
)
def test_thresholds(reliability, correct, expected):
    found = methods.reliability_threshold(np.array(reliability, float), np.array(correct, bool))
    assert found == pytest.approx(expected)


@pytest.fixture(scope="module")
def kept():
    return study.finished(study.RESULTS)


def test_a_page_of_some_sets(kept, tmp_path):
    text = page.study_page({name: kept[name] for name in ("iris", "vertebral-3c", "letter")}, tmp_path)
    assert "3 sets" in text
    assert " nan" not in text
    for number in (3, 4, 5, 6):
        assert (tmp_path / f"figure-{number}.svg").stat().st_size > 3000


def test_what_the_page_says(kept):
    said = " ".join(page_of("costa2013").split())
    duel = {
        (protocol, measure, rival): numbers.duel(kept, protocol, measure, rival)
        for protocol in ("paper", "folds")
        for measure in ("brier", "auc", "reliability")
        for rival in ("tree", "bag", "tree_laplace", "bag_laplace")
    }
    for measure in ("brier", "auc", "reliability"):
        lead, smoothed = duel["paper", measure, "tree"], duel["paper", measure, "tree_laplace"]
        assert lead.verdict == "ahead" or measure == "brier", "the published directions"
        assert (smoothed.other - lead.other) / (lead.mean - lead.other) > 0.7, "smoothing accounts for most"
        assert duel["paper", measure, "tree_laplace"].verdict != "ahead"
        assert duel["paper", measure, "bag_laplace"].verdict != "ahead"
    assert '**"Better ranking": holds against trees**' in said
    assert "its tendency holds. It is the same against the smoothed tree" in said, "what doubt pays for rests on it"
    both = {name: found for name, found in kept.items() if "loo" in found}
    for rival in ("tree_laplace", "bag_laplace"):
        loo, folds = (numbers.duel(both, of, "reliability", rival) for of in ("loo", "folds"))
        assert loo.mean - loo.other > folds.mean - folds.other + 0.01, "ten folds are less kind"
    assert numbers.duel(kept, "folds", "accuracy", "tree_laplace").verdict == "ahead"
    assert numbers.duel(kept, "paper", "brier", "many").losses > numbers.duel(kept, "paper", "brier", "many").wins
    there = {name: found for name, found in kept.items() if "own" in found}
    assert page.own_duel(there, "brier").verdict == "behind", "own thresholds do harm"
    assert page.own_duel(there, "auc").verdict == page.own_duel(there, "reliability").verdict == "not apart"
    others = ("tree", "bag", "tree_laplace", "bag_laplace", "tpce")
    briers = [numbers.average(kept, "folds", of, "brier") for of in others]
    assert numbers.average(kept, "folds", "batch", "brier") > max(briers), "the worst of all"


def test_the_shortcut_for_batches():
    X, Y = load_iris(return_X_y=True)
    probs = batch_certainty(jax.random.key(3), X[::2], Y[::2], X[1::2])
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    np.testing.assert_array_equal(probs, batch_certainty(jax.random.key(3), X[::2], Y[::2], X[1::2]))
    assert np.mean(probs.argmax(axis=1) == Y[1::2]) > 0.6
    assert batch_certainty(jax.random.key(4), X, Y, X[:0]).shape == (0, 3)
    words = np.array([["a"], ["b"], ["a"], ["b"]], object)
    probs = batch_certainty(jax.random.key(0), words, [0, 1, 0, 1], np.array([["a"], ["new"]], object), nominal=[0])
    assert np.all(np.isfinite(probs))

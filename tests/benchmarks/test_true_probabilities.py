"""The study of true probabilities: what it draws, what it measures, and the committed page."""

import json
import re

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.pages import read_parts
from benchmarks.studies.true_probabilities import methods as truths
from benchmarks.studies.true_probabilities import run as study
from benchmarks.studies.true_probabilities.page import TEMPLATE, compared, draw, duel, table

pytestmark = pytest.mark.once


def test_every_problem_is_in_both_sizes():
    found = {(cell.data, cell.size) for cell in study.kept(study.RESULTS)}
    assert found == {(name, size) for name in truths.PROBLEMS for size in study.SIZES}


def test_the_picture_shows_the_committed_points(tmp_path):
    points = json.loads((study.RESULTS / "picture.json").read_text(encoding="utf-8"))
    draw(points, tmp_path / "estimates.svg")
    n = sum(len(half["truth"]) for half in points.values())
    for path in (tmp_path, study.RESULTS):
        assert len(re.findall(r"<use ", (path / "estimates.svg").read_text(encoding="utf-8"))) > 2 * n
    # Grown-out trees have seen the labels of the training instances, and answer them rather than the probability.
    own = points["training"]
    of_mean, of_truth = (np.corrcoef(own[name], own["event"])[0, 1] for name in ("mean, leaves of 1", "truth"))
    assert of_mean > 0.9 > of_truth


@pytest.mark.parametrize("problem", truths.LOGISTIC, ids=lambda problem: problem.name)
def test_logistic_problems_are_what_their_names_say(problem):
    drawn = problem.draw(7, 40_000)
    assert drawn.X.shape == (40_000, problem.n_features)
    assert drawn.truth[:, 1].mean() == pytest.approx(problem.events, abs=0.01)
    assert drawn.y.mean() == pytest.approx(problem.events, abs=0.01)
    assert truths.expected_auc(drawn.truth, drawn.truth) == pytest.approx(problem.true_auc, abs=0.01)
    np.testing.assert_allclose(np.corrcoef(drawn.X.T)[0, 1], 0.4 * problem.correlated, atol=0.03)
    fitted = LogisticRegression(C=np.inf).fit(drawn.X, drawn.y).coef_[0]
    np.testing.assert_allclose(fitted, problem.coefficients(), atol=0.13)


def test_the_half_that_is_run_has_every_setting_alike():
    for place in range(len(truths.LOGISTIC[0])):
        values = [problem[place] for problem in truths.LOGISTIC]
        assert len(set(values)) == 2
        assert values.count(values[0]) == len(values) / 2


@pytest.mark.parametrize(("true_auc", "events"), [(0.75, 0.5), (0.9, 0.2)])
def test_the_spread_of_log_odds_by_integration(true_auc, events):
    spread, intercept = truths.spread_and_intercept(true_auc, events)
    at = lambda z: expit(intercept + spread * z)
    share = quad(lambda z: at(z) * norm.pdf(z), -9, 9)[0]
    below = lambda z: quad(lambda u: (1 - at(u)) * norm.pdf(u), -9, z)[0]
    auc = quad(lambda z: at(z) * norm.pdf(z) * below(z), -9, 9)[0] / (share * (1 - share))
    assert share == pytest.approx(events, abs=1e-3)
    assert auc == pytest.approx(true_auc, abs=1e-3)


def test_draws_are_the_same_again_and_differ_by_seed():
    for draw_one in (truths.PROBLEMS["4-correlated-equal-50-90"], truths.PROBLEMS["waveform"]):
        first, again, other = draw_one(0, 50), draw_one(0, 50), draw_one(1, 50)
        np.testing.assert_array_equal(first.X, again.X)
        assert not np.array_equal(first.X, other.X)
        np.testing.assert_allclose(first.truth.sum(axis=1), 1, rtol=1e-12)


def test_measures_of_the_truth_itself(rng):
    for n_classes in (2, 4):
        truth = rng.dirichlet(np.ones(n_classes), 500)
        found = truths.measures(truth, truth)
        assert (found["mae"], found["rmse"], found["excess"], found["auc_loss"]) == (0, 0, 0, 0)
        assert found["slope"] == pytest.approx(1, abs=0.02)


def test_expected_measures_are_means_over_labels(rng):
    truth = np.repeat(rng.dirichlet(np.ones(2), 50), 2000, axis=0)
    estimate = np.repeat(rng.dirichlet(np.ones(2), 50), 2000, axis=0)
    y = (rng.random(len(truth)) < truth[:, 1]).astype(int)
    assert truths.expected_log_loss(estimate, truth) == pytest.approx(log_loss(y, estimate), abs=0.01)
    assert truths.expected_auc(estimate, truth) == pytest.approx(roc_auc_score(y, estimate[:, 1]), abs=0.01)
    assert truths.observed_auc(estimate, y) == pytest.approx(roc_auc_score(y, estimate[:, 1]), abs=1e-12)


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_the_slope_undoes_a_power(rng, power):
    truth = np.clip(rng.dirichlet(np.full(3, 2.0), 4000), 0.15, 1)
    truth = truth / truth.sum(axis=1, keepdims=True)
    estimate = truth**power / np.sum(truth**power, axis=1, keepdims=True)
    assert truths.calibration_slope(estimate, truth) == pytest.approx(1 / power, abs=0.01)


def test_the_slope_is_that_of_a_logistic_recalibration(rng):
    truth = rng.uniform(0.1, 0.9, 20_000)
    estimate = expit(0.3 + 1.7 * np.log(truth / (1 - truth)) + 0.5 * rng.normal(size=len(truth)))
    y = (rng.random(len(truth)) < truth).astype(int)
    logit = np.log(estimate / (1 - estimate))[:, None]
    two = lambda p: np.stack([1 - p, p], axis=1)
    found = truths.calibration_slope(two(np.clip(estimate, 0.006, 0.994)), two(truth))
    assert found == pytest.approx(LogisticRegression(C=np.inf).fit(logit, y).coef_[0, 0], abs=0.03)


def test_a_tiny_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "run_cell", lambda cell: {**record, "chosen": cell.repetition})
    train, test = study.drawn(study.Cell("4-independent-equal-50-75", 200, 0), 200)
    small = truths.Drawn(*(part[:80] for part in train))
    found, chosen = study.estimates(small, test, 0)
    assert set(found) == set(re.findall(r"row\[(.*)\]", read_parts(TEMPLATE)["group"]))
    methods = {name: study.judged(*both, small, test) for name, both in found.items()}
    record = {"methods": methods, "entropy": 0.6, "true_auc": 0.75, "chosen": chosen, "rows": [80, 2]}
    for on_train, on_test in found.values():
        assert on_train.shape == (80, 2)
        np.testing.assert_allclose(on_test.sum(axis=1), 1, atol=1e-5)
    assert methods["mean, leaves of 1"]["train_auc"] == pytest.approx(1, abs=1e-12)
    assert methods["mean, leaves of 1"]["spike"] > 1.3 > methods["logistic regression"]["spike"]
    names = ("twonorm", "led")
    for repetitions in (1, 2):
        study.run_in_turns([study.PARTS["200"].journal(tmp_path, name) for name in names], repetitions)
    kept = study.kept(tmp_path)
    assert [(cell.data, cell.repetition) for cell in kept] == [("twonorm", 0), ("twonorm", 1), ("led", 0), ("led", 1)]
    assert [one["chosen"] for one in kept.values()] == [0, 1, 0, 1]
    assert compared(table(kept), "learned pool", "mean, leaves of 1", "mae")[0] in (0, 2)


def test_what_the_page_says():
    frame = table(study.kept(study.RESULTS))
    for is_logistic, first, of_200, of_4000 in (
        (True, "mean, leaf size chosen", "**12:4**", "**15:1**"),
        (True, "learned pool", "**15:1**", "**16:0**"),
        (True, "learned pool, leaf size chosen", "**16:0**", "**16:0**"),
        (True, "plausibility", "**16:0**", "**16:0**"),
        (True, "laplace", None, "**13:3**"),
        (True, "m-estimate", None, "**13:3**"),
        (True, "mean, out-of-bag counts", "7:9", "9:7"),
        (True, "calibrated mean", "8:8", "8:8"),
        (True, "pooling", "**1:15**", "**1:15**"),
        (False, "mean, leaves of 20", "0:5", "0:5"),
        (False, "calibrated mean", "4:1", None),
        (False, "learned pool", None, "5:0"),
    ):
        for size, told in ((200, of_200), (4000, of_4000)):
            rows = frame.loc[(frame["logistic"] == is_logistic) & (frame["size"] == size)]
            assert told in (None, duel(rows, first, "mean, leaves of 1", gain=False)), (first, is_logistic, size)


def test_where_the_spikes_are():
    typical = table(study.kept(study.RESULTS)).groupby(["logistic", "size", "method"])[["spike", "slope"]].median()
    for size in study.SIZES:
        of_mean, elsewhere = (typical.loc[(kind, size, "mean, leaves of 1")] for kind in (True, False))
        assert of_mean["spike"] > 1.5 > 1 > elsewhere["spike"]
        assert of_mean["slope"] < 1 < 2 < elsewhere["slope"]
        names = ("learned pool", "learned pool, leaf size chosen")
        learned, chosen = (typical.loc[(True, size, name), "spike"] for name in names)
        assert of_mean["spike"] > learned > chosen

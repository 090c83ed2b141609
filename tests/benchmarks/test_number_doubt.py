"""The study of the doubt of numbers: its moments are the library's, its e-process keeps its error, and the page."""

import re

import numpy as np
import pytest
from scipy.stats import betabinom, binom
from sklearn.datasets import make_friedman1
from sklearn.frozen import FrozenEstimator

from benchmarks.studies.number_doubt import run as study
from benchmarks.studies.number_doubt.jobs import DRIFTS, STRATEGIES, TESTS, Committee, cusum, log_evidence, ranks_held
from benchmarks.studies.number_doubt.page import areas, curves, duels, growth
from benchmarks.studies.regression.problems import Rows
from jaxunc.estimators import UncertainForestRegressor
from tests._claims import Page

pytestmark = pytest.mark.once
GUIDE = Page("docs/how_to/how_sure_is_a_number.md")


def rows(n=240):
    X, y = make_friedman1(n, noise=1.0, random_state=0)
    return Rows(X.astype(np.float32), y)


def test_moments_are_those_of_the_library():
    X, y = rows()
    committee = Committee(X[:120], y[:120], 0)
    model = UncertainForestRegressor(FrozenEstimator(committee.model), counts="oob").fit(X[:120], y[:120])
    told = model.predict_uncertainty(X[120:])
    for mine, theirs in zip(committee.moments(X[120:]), (told.mean, told.epistemic, told.aleatoric), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_evidence_is_that_of_the_guide():
    (code,) = re.findall(r"```python\n(from scipy.special import betaln.*?)\n\n\nprint", GUIDE.text, re.DOTALL)
    names = {"np": np}
    exec(code, names)
    misses = np.random.default_rng(0).random(500) < 0.2
    mine = log_evidence(misses, 333)
    for n in (1, 50, 500):
        assert names["log_evidence"](misses[:n].sum(), n, 333) == pytest.approx(mine[n - 1])


def test_evidence_keeps_its_error_and_a_bare_binomial_test_does_not(rng):
    held, alarms, bare = ranks_held(99), [], []
    assert held == 90
    for p in rng.beta(100 - held, held, 500):
        misses = rng.random(1000) < p
        alarms.append(log_evidence(misses, 99).max() >= np.log(20))
        bare.append(binom.cdf(1000 - misses.sum(), 1000, 0.9) <= 0.05)
    assert np.mean(alarms) <= 0.05
    assert np.mean(bare) > 0.15


def rows_needed(share: float, n_ranked: int) -> int:
    """The fewest rows from which on the exact test tells a coverage with power .8, however many there are."""
    held, powers = ranks_held(n_ranked), []
    for n in range(20, 120):
        null = betabinom.cdf(np.arange(n + 1), n, held, n_ranked + 1 - held)
        powers.append(binom.cdf(np.searchsorted(null, 0.05, side="right") - 1, n, share))
    return 20 + int(np.flatnonzero(np.array(powers) < 0.8)[-1]) + 1


def test_rows_that_the_guide_says_are_needed():
    for name, *needed in GUIDE.table("ranked rows")[:-1]:
        assert [rows_needed(share, int(name)) for share in (0.8, 0.7)] == [int(cell) for cell in needed[1:]]


def test_sums_rise_on_either_side():
    np.testing.assert_allclose(cusum(np.array([[1.25, 1.25, -5.0], [0.0, -1.25, 0.0]])), [[1, 2, 4.75], [0, 1, 0.75]])


def test_cells_have_all_tests_and_strategies():
    data = rows(640)
    found = {name: study.run_cell(study.Cell("made", name, 0), data) for name in study.JOBS}
    assert list(found["labels"]["curves"]) == list(STRATEGIES)
    assert found["labels"]["curves"]["random"][0] == found["labels"]["curves"]["std"][0]
    assert {name: list(of) for name, of in found["drift"]["told"].items()} == {name: list(TESTS) for name in DRIFTS}
    assert found["drift"]["rows"]["none"] == len(data.y) // 2
    assert found["drift"]["coverage"]["noise"] < found["drift"]["coverage"]["none"]
    growth_of = found["rows"]["growth"]
    assert growth_of["distance"][3] > growth_of["distance"][0] > 1


def test_what_the_docs_say():
    found, page = study.kept(study.RESULTS), Page("docs/how_to/which_doubt.md")
    told = (
        ("`std` #, interval width #, epistemic # | `outside_share` # |",
         "large errors", "std", "interval width", "epistemic", "outside share"),
        ("far out | `outside_share` #, distance # | epistemic #, `std` # |",
         "far out", "outside share", "distance", "epistemic", "std"),
        ("| `outside_share` #, distance # | epistemic # |", "all columns", "outside share", "distance", "epistemic"),
        ("| distance #, `outside_share` # | epistemic # |", "a group", "distance", "outside share", "epistemic"),
    )  # fmt: skip
    for words, problem, *doubts in told:
        page.says(words, areas(found, problem)[doubts].mean(), 3)
    means = curves(found, "RMSE")[["epistemic", "std", "distance"]].mean()
    page.says("The RMSE is # of theirs by `epistemic`, # by `std`, and # by distance", means, 3)
    times = growth(found)["epistemic"]
    page.says("deviations have # times that of usual rows, and rows moved by eight # times", (times[4], times[8]), 1)
    told_apart = [p <= 0.05 for *_, p in duels(found).values()]
    assert told_apart == [True] * 5 + [False] * 7 + [True] * 3  # odd rows and errors; labels; drift

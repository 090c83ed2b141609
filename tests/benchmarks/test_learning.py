"""The study of learning: calibrators, and the committed page."""

import numpy as np
import pytest

from benchmarks import learning
from benchmarks.learning_methods import best_calibrator, isotonic, measures
from benchmarks.learning_page import page, paired, table

pytestmark = pytest.mark.once


@pytest.mark.exhaustive
def test_the_page_is_that_of_the_committed_cells():
    found = learning.kept(learning.RESULTS)
    assert page(found) == (learning.RESULTS / "README.md").read_text(encoding="utf-8")


def test_what_the_readme_says_of_grown_out_forests():
    found = {cell: record for cell, record in learning.kept(learning.RESULTS).items() if cell.part == "grown-out"}
    frame = table(found)
    for other, wins, gain in (("mean", 33, 0.20), ("P", 30, 0.043), ("isotonic", 34, 0.063)):
        a, b, sets = paired(frame, "pool", other, "log_loss")
        assert len(sets) == 35
        assert (a < b).sum() == wins
        assert np.median(1 - a / b) == pytest.approx(gain, abs=0.001)


def test_what_the_readme_says_of_other_sets():
    found = {cell: record for cell, record in learning.kept(learning.RESULTS).items() if cell.part == "other-sets"}
    frame = table(found)
    for other, wins, gain, clipped in (
        ("mean", 23, 0.207, 0.194),
        ("P", 18, 0.035, 0.035),
        ("isotonic", 24, 0.07, 0.07),
    ):
        for measure, expected in (("log_loss", gain), ("log_loss_clipped", clipped)):
            a, b, sets = paired(frame, "pool", other, measure)
            assert len(sets) == 26
            assert (a < b).sum() == wins
            assert np.median(1 - a / b) == pytest.approx(expected, abs=0.0006)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrators_calibrate(n_classes, rng):
    true = rng.dirichlet(np.ones(n_classes), 2000)
    y = np.array([rng.choice(n_classes, p=p) for p in true])
    sharp = true**3 / np.sum(true**3, axis=1, keepdims=True)
    for calibrator in (best_calibrator(sharp, y), isotonic(sharp, y)):
        assert measures(calibrator(sharp), y)[0] < measures(sharp, y)[0] - 0.05

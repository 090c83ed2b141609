"""The study of boosted models and leaf counts: blends, and the committed page."""

import numpy as np
import pytest

from benchmarks.studies.boosted_counts import run as study
from benchmarks.studies.boosted_counts.page import compared, duel, table
from benchmarks.studies.learning.methods import plain_measures

pytestmark = pytest.mark.once


def test_what_the_docs_say():
    frame = table(study.kept(study.RESULTS))
    for first, second, measure, told in (
        ("mean of counts", "own, calibrated", "log_loss_clipped", "**6:29 -25.6 %**"),
        ("learned pool", "own, calibrated", "log_loss_clipped", "14:21 -3.9 %"),
        ("own and learned pool", "own, scaled", "log_loss_clipped", "20:15 +1.2 %"),
        ("own and learned pool", "own, scaled", "auc", "**25:9 +0.0018**"),
        ("own, all rows", "own", "log_loss_clipped", "**25:10 +8.5 %**"),
    ):
        assert duel(frame, first, second, measure) == told, (first, second, measure)
        assert compared(frame, first, second, measure).n == 35


def test_blends_take_what_helps(rng):
    true = rng.dirichlet(np.ones(3), 1500)
    y = np.array([rng.choice(3, p=p) for p in true])
    sharp, noise = true**2 / np.sum(true**2, axis=1, keepdims=True), rng.dirichlet(np.ones(3), 1500)
    mixed = study.blended([sharp, noise], y)([sharp, noise])
    np.testing.assert_allclose(mixed, true, atol=0.1)
    assert plain_measures(mixed, y)[0] < plain_measures(sharp, y)[0] - 0.05

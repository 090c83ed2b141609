"""Selection and stacking of combiners."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxunc as ju
from jaxunc.learning import loss_on, select_combiner, stack_combiners
from jaxunc.learning._select import _find_weights
from tests._refusal import refusals

pytestmark = pytest.mark.once


@pytest.mark.exhaustive
def test_the_best_of_the_default_candidates_is_selected(wide):
    chosen = select_combiner(wide.default_candidates(), wide, n_folds=3)
    assert chosen.losses[chosen.name] == min(chosen.losses.values())
    assert set(chosen.losses) == {"pool", "calibrated mean"}
    assert chosen.fitted.loss == pytest.approx(loss_on(chosen.fitted.combiner, wide), rel=1e-4)


@pytest.mark.exhaustive
def test_a_stack_is_no_worse_than_its_candidates(wide):
    stacked = stack_combiners(wide.default_candidates(), wide, n_folds=3)
    assert stacked.losses == pytest.approx(select_combiner(wide.default_candidates(), wide, n_folds=3).losses, rel=1e-4)
    assert sum(stacked.weights.values()) == pytest.approx(1)
    assert stacked.loss < max(stacked.losses.values())
    assert loss_on(stacked.combiner, wide) < loss_on(ju.Mean(), wide)


def test_weights_are_those_of_the_best_average(rng):
    logs, weight = np.log(rng.uniform(0.05, 1, (2, 50))), rng.uniform(0.5, 2, 50)
    lost = lambda v: -(weight @ np.log(v * np.exp(logs[0]) + (1 - v) * np.exp(logs[1])) + np.log(v * (1 - v)))
    wanted = minimize_scalar(lost, bounds=(1e-6, 1 - 1e-6), method="bounded").x
    np.testing.assert_allclose(_find_weights(logs, weight), [wanted, 1 - wanted], atol=1e-4)


test_refusals = refusals(
    ("stack", lambda wide: stack_combiners({}, wide), "candidates is empty"),
    ("select", lambda wide: select_combiner({}, wide), "candidates is empty"),
)

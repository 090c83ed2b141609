"""Counts that look like class frequencies: smoothing reads how much a leaf holds."""

import numpy as np
import pytest

from jaxunc import smoothing
from jaxunc.intervals import FractionsWarning
from tests._forests import forest_of_leaves

FREQUENCIES = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
PRIOR = smoothing.BetaPrior(1.0, 2.0, 0)
FUNCTIONS = {
    "smooth": lambda: smoothing.smooth(FREQUENCIES, PRIOR),
    "correction_interval": lambda: smoothing.correction_interval(FREQUENCIES, PRIOR),
    "predictive_mass": lambda: smoothing.predictive_mass(FREQUENCIES, PRIOR),
    "fit_beta_prior": lambda: smoothing.fit_beta_prior(FREQUENCIES),
    "fit_dirichlet_prior": lambda: smoothing.fit_dirichlet_prior(FREQUENCIES, "moments"),
    "fit_forest_prior": lambda: smoothing.fit_forest_prior(forest_of_leaves(FREQUENCIES[:, None])[0]),
    "smooth_forest": lambda: smoothing.smooth_forest(forest_of_leaves(FREQUENCIES[:, None])[0]),
    "smooth_forest by a prior": lambda: smoothing.smooth_forest(forest_of_leaves(FREQUENCIES[:, None])[0], PRIOR),
}


@pytest.mark.once
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.exhaustive(keep=1)
def test_they_are_warned_of_once(name):
    with pytest.warns(FractionsWarning, match="look like class frequencies") as caught:
        FUNCTIONS[name]()
    assert [warning.filename for warning in caught] == [__file__]

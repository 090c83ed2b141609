"""What every public scorer refuses or warns of in the counts themselves."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import scorers
from jaxunc.scorers import FractionsWarning, support
from tests._refusal import refuses

pytestmark = pytest.mark.once

TAKE_COUNTS = {
    "beta_densities": scorers.beta_densities,
    "confidence_bounds": scorers.confidence_bounds,
    "degrees_of_preference": scorers.degrees_of_preference,
    "grid_support_degrees": scorers.grid_support_degrees,
    "laplace": scorers.laplace,
    "likelihood_mass": scorers.likelihood_mass,
    "linear": scorers.linear,
    "log_support_degrees": scorers.log_support_degrees,
    "m_estimate": partial(scorers.m_estimate, m=2.0, prior=0.5),
    "mass": scorers.mass,
    "plausibility": scorers.plausibility,
    "plausibility on a grid": partial(scorers.plausibility, method="grid"),
    "probability": scorers.probability,
    "degrees and ignorance": support,
    "ucb": partial(scorers.ucb, n_samples=10),
    "uncertainty": scorers.uncertainty,
    "bounds of the imprecise model": partial(scorers.idm_interval, s=1),
    "which class dominates": partial(scorers.dominance, s=1),
}
each_scorer = pytest.mark.parametrize("name", TAKE_COUNTS)


def test_the_table_is_complete():
    assert set(scorers.FUNCTIONS_OF_COUNTS) == {name for name in TAKE_COUNTS if " " not in name}
    assert set(scorers.__all__) <= {*TAKE_COUNTS, "scorer", "Interval"}


BAD = [
    ([[1.0, -1.0]], r"counts holds negative values \(smallest -1.0\)"),
    ([[1, 2], [-3, 1]], r"counts holds negative values \(smallest -3\)"),
    ([[np.inf, 1.0]], "counts holds NaN or infinite values"),
    (np.ones((3, 1)), "last axis|OneVsRest|two classes"),
]
IDM = ("bounds of the imprecise model", "which class dominates")
OF_ANY_CLASSES = ("laplace", "linear", "probability", "ucb", *IDM)


@each_scorer
@pytest.mark.parametrize(("counts", "message"), BAD)
def test_values_that_are_no_counts(name, counts, message):
    refuses(ValueError, message, TAKE_COUNTS[name], jnp.asarray(counts))


@pytest.mark.parametrize("name", sorted({*TAKE_COUNTS} - {*OF_ANY_CLASSES, "m_estimate"}))
def test_three_classes_are_refused(name):
    with refuses(ValueError, "likelihood_mass compares two classes" if name == "likelihood_mass" else "OneVsRest"):
        TAKE_COUNTS[name](jnp.ones((4, 3)))


@each_scorer
@pytest.mark.exhaustive(keep=2)
def test_values_are_not_looked_at_under_a_trace(name):
    jax.eval_shape(TAKE_COUNTS[name], jnp.array([[1.0, -1.0]]))


@each_scorer
@pytest.mark.exhaustive(keep=2)
def test_frequencies_are_warned_of_where_sizes_matter(name):
    counts = jnp.array([[0.25, 0.75], [1.0, 0.0], [0.0, 0.0]])
    if name == "probability":
        TAKE_COUNTS[name](counts)
        return
    with pytest.warns(FractionsWarning, match="look like class frequencies") as caught:
        TAKE_COUNTS[name](counts)
    assert [warning.filename for warning in caught] == [__file__]


@each_scorer
@pytest.mark.exhaustive(keep=1)
def test_honest_counts_are_not_warned_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TAKE_COUNTS[name](jnp.array([[1.0, 0.0], [0.0, 1.0]]))
        TAKE_COUNTS[name](jnp.array([[0.25, 0.75], [1.5, 1.5]]))
        TAKE_COUNTS[name](jnp.zeros((2, 2)))


@pytest.mark.parametrize("name", ["laplace", "linear", "plausibility", "probability", "confidence_bounds"])
@pytest.mark.exhaustive(keep=1)
def test_counts_beyond_32_bits(name):
    counts = np.array([[3 << 40, 1 << 40]])
    np.testing.assert_allclose(TAKE_COUNTS[name](counts), TAKE_COUNTS[name](counts.astype(np.float32)), rtol=1e-6)

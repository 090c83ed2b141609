"""Scorers of many leaves, by optimised programs, against formulas and loops in float64."""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from jaxunc import scorers
from tests import _reference as reference
from tests.many_rows._drawn import SIZES, distinct_leaves, drawn
from tests.scorers.test_confidence_bounds import overlap
from tests.scorers.test_grid import by_definition

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

PRIOR = 0.375
GRID = 11


def _degrees(n, p):
    """log π of − and +."""
    return np.array([reference.log_pi_pos(p, n), reference.log_pi_pos(n, p)])


def _uncertainty(n, p):
    both = np.exp(_degrees(n, p))
    return np.array([both.min(), 1 - both.max()])


def _preference(n, p):
    score = reference.plausibility(n, p)
    return np.array([max(-score, 0.0), max(score, 0.0)])


def _mass(n, p):
    preference = _preference(n, p)
    return np.array([0.0, *preference, 1 - preference.sum()])


def _likelihood_mass(n, p):
    """Ω has the area under the likelihood; a class has what lies on its side of the maximum, less its part of that."""
    share = p / (n + p)
    doubt = math.exp(special.betaln(p + 1, n + 1) - special.xlogy(p, share) - special.xlogy(n, 1 - share))
    below = doubt * special.betainc(p + 1, n + 1, share)
    return np.array([0.0, 1 - share - (doubt - below), share - below, doubt])


def _bounds(n, p):
    return (1 - overlap("beta_binomial", "normalized_height", max(n, p), min(n, p))) * (p / (n + p) - 0.5)


SCORERS = {
    "probability": (scorers.probability, lambda n, p: p / (n + p) - 0.5),
    "linear": (scorers.linear, lambda n, p: p - n),
    "ucb": (
        partial(scorers.ucb, n_samples=1000),
        lambda n, p: (p / (n + p) - 0.5) * math.sqrt((n + p) / math.log(1000)),
    ),
    "laplace": (scorers.laplace, lambda n, p: (p + 1) / (n + p + 2) - 0.5),
    "m_estimate": (partial(scorers.m_estimate, m=2.0, prior=PRIOR), lambda n, p: (p + 2 * PRIOR) / (n + p + 2) - 0.5),
    "plausibility": (scorers.plausibility, reference.plausibility),
    "log_support_degrees": (scorers.log_support_degrees, _degrees),
    "uncertainty": (lambda counts: jnp.stack(scorers.uncertainty(counts), axis=-1), _uncertainty),
    "degrees_of_preference": (scorers.degrees_of_preference, _preference),
    "mass": (scorers.mass, _mass),
    "likelihood_mass": (scorers.likelihood_mass, _likelihood_mass),
    "confidence_bounds": (scorers.confidence_bounds, _bounds),
    "grid_support_degrees": (
        partial(scorers.grid_support_degrees, grid_size=101),
        lambda n, p: np.array([by_definition(p, n, 101, True), by_definition(n, p, 101, True)]),
    ),
    "beta_densities": (
        partial(scorers.beta_densities, grid_size=GRID),
        lambda n, p: stats.beta(p + 1, n + 1).pdf(np.linspace(0, 1, GRID)),
    ),
}


def test_the_table_is_complete():
    assert set(SCORERS) == set(scorers.FUNCTIONS_OF_COUNTS)


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("name", SCORERS)
def test_scores(name, n_rows, tolerance):
    score, by_formula = SCORERS[name]
    leaves = distinct_leaves(2)[:, 0]
    leaves = np.where(leaves.sum(axis=1, keepdims=True) == 0, 1, leaves)  # empty leaves follow no formula
    expected = np.array([by_formula(*map(float, leaf)) for leaf in leaves])[drawn(n_rows)]
    found = score(jnp.asarray(leaves.astype(np.int32)[drawn(n_rows)]))
    tolerance.check(found, expected, kind="pi", scale=1.0)

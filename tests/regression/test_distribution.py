"""`NumberDistribution` of each law, against many levels."""

import itertools
import pickle
from functools import lru_cache

import jax
import numpy as np
import pytest

from jaxunc.regression import Moments, NumberDistribution, NumberLaw, target_bins
from jaxunc.regression._bins import weighted_quantiles
from tests._refusal import refusals

pytestmark = pytest.mark.once

RNG = np.random.default_rng(0)
N, LEVELS = 6, np.array([0.1, 0.25, 0.6, 0.9])
MIDDLES = (np.arange(4000) + 0.5) / 4000
TARGETS = np.where(RNG.random(300) < 0.3, 2.0, RNG.gamma(2, 2, 300))
Z = np.sort(np.r_[RNG.standard_t(5, 51), np.full(6, 0.25)])
WEIGHTS = RNG.gamma(1, 1, len(Z))
MOMENTS = Moments(RNG.gamma(3, 1, N), RNG.gamma(1, 1, N), RNG.gamma(1, 1, N))
BINS, BINS_OF_Z = target_bins(TARGETS, 8), target_bins(RNG.normal(size=300), 8)
SHARES = RNG.dirichlet(np.ones(BINS.n_bins), N) * np.where(np.arange(BINS.n_bins) == 1, 0, 1)
SHARES_OF_Z = RNG.dirichlet(np.ones(BINS_OF_Z.n_bins), N)
SUPPORTS = {"all": (-np.inf, np.inf), "above": (0.0, np.inf), "within": (1.0, 4.0)}


def law(weight=1.0, *, by_rank=False, weights=(), local=False):
    return NumberLaw(weight, 0.1, 1e-6, Z, by_rank, np.asarray(weights, float), local)


LAWS = {
    "residuals": law(),
    "weighted": law(weights=WEIGHTS),
    "heavy": law(weights=5 * WEIGHTS),
    "learned": law(0.6),
    "learned, weighted": law(0.6, weights=WEIGHTS),
    "conformal": law(by_rank=True),
    "conformal, weighted": law(by_rank=True, weights=WEIGHTS),
    "bins": law(0.0),
    "neighbours": law(0.0, local=True),
}


@lru_cache
def distribution(name, support="all"):
    of_z = LAWS[name].is_local
    bins, shares = (BINS_OF_Z, SHARES_OF_Z) if of_z else (BINS, SHARES)
    return NumberDistribution(LAWS[name], bins, MOMENTS, shares=shares, support=SUPPORTS[support])


@lru_cache
def many_quantiles(name):
    """At many levels; of ranks those that there are, and the outermost beyond."""
    n = len(Z)
    if name != "conformal":
        levels = np.clip(MIDDLES, 0.1, 0.9) if LAWS[name].is_by_rank else MIDDLES
    else:
        levels = np.clip(MIDDLES, 1 / (n + 1) + 1e-9, n / (n + 1) - 1e-9)
    return distribution(name).quantile(levels)


@pytest.mark.parametrize(("name", "support"), list(itertools.product(LAWS, SUPPORTS)))
def test_all_of_one_law(name, support):
    found, quantiles = distribution(name, support), np.clip(many_quantiles(name), *SUPPORTS[support])
    y = np.linspace(0.5, 6, N)
    if name != "conformal, weighted":
        apart = y[:, None] - quantiles
        score = 2 * np.mean(np.maximum(MIDDLES * apart, (MIDDLES - 1) * apart), axis=1)
        np.testing.assert_allclose(found.mean, quantiles.mean(axis=1), rtol=2e-3)
        np.testing.assert_allclose(found.std, quantiles.std(axis=1), rtol=1e-2, atol=2e-3)
        np.testing.assert_allclose(found.crps(y), score, rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(found.cdf(y), (quantiles <= y[:, None]).mean(axis=1), atol=1e-3)
    at = found.quantile(LEVELS)
    assert (np.diff(at, axis=1) >= 0).all()
    below = found.cdf(at)
    assert (below >= LEVELS - 1e-12).all()
    assert (found.cdf(at - 1e-6 * (1 + abs(at))) <= LEVELS + 1e-12).all()
    np.testing.assert_array_equal(found.exceeds(at), 1 - below)
    np.testing.assert_array_equal(found.interval([0.5, 0.8])[:, 1], found.interval(0.8))
    assert (np.diff(found.cdf(np.tile(np.linspace(-50, 50, 41), (N, 1))), axis=1) >= 0).all()
    np.testing.assert_array_equal(found.cdf(1e9), 1)
    np.testing.assert_array_equal(found.exceeds(-1e9), 1)


@pytest.mark.parametrize("weights", [WEIGHTS, 5 * WEIGHTS, np.full(len(Z), 0.5), np.arange(1.0, len(Z) + 1)])
def test_knots_are_those_of_weighted_quantiles(weights):
    levels, values = law(weights=weights).knots()
    assert levels[0] == 0
    assert levels[-1] == 1
    at = np.random.default_rng(1).random(100)
    np.testing.assert_allclose(np.interp(at, levels, values), weighted_quantiles(Z, weights, at), rtol=1e-9, atol=1e-12)


def test_atoms_have_their_share():
    """A leaf's own target 2.0, and a support in which much lies at the end."""
    at_two = SHARES[:, BINS.code(np.array([2.0]))[0]] / SHARES.sum(axis=1)
    bins = distribution("bins")
    np.testing.assert_allclose(bins.cdf(2.0) - bins.cdf(np.nextafter(2.0, 0)), at_two, atol=1e-6)
    np.testing.assert_allclose(distribution("bins", "within").cdf(1.0), bins.cdf(1.0), atol=1e-12)
    np.testing.assert_array_equal(distribution("bins", "within").cdf([[0.999, 4.0]] * N), [[0, 1]] * N)


def test_a_law_of_one_residual():
    moments = Moments(*np.array([[3.0], [4.0], [0.0]]))
    for by_rank in (False, True):
        one = NumberLaw(1.0, 0.0, 1e-6, np.array([0.5]), by_rank)
        found = NumberDistribution(one, BINS, moments, shares=None, support=(-np.inf, np.inf))
        assert (found.mean, found.std, found.crps(5.0)) == (4.0, 0.0, 1.0)
        np.testing.assert_array_equal(found.cdf([[3.999, 4.001]]), [[0, 1]])


@pytest.mark.parametrize("name", ["learned", "conformal", "neighbours"])
def test_draws_are_of_the_law(name):
    found = distribution(name)
    draws = found.sample(0, 2000)
    assert draws.shape == (N, 2000)
    np.testing.assert_allclose((draws <= 4.0).mean(axis=1), found.cdf(4.0), atol=0.05)
    np.testing.assert_array_equal(found.sample(0, 2000), draws)
    key = jax.random.key(1)
    np.testing.assert_array_equal(found.sample(key, 2), found.sample(key, 2))
    assert (found.sample(key, 2) != found.sample(1, 2)).any()
    within = distribution(name, "within").sample(0, 50)
    assert ((within >= 1) & (within <= 4)).all()


def test_parts_pickles_and_rows_that_are_not_known(monkeypatch):
    shares, moments = np.tile(SHARES, (2, 1)), Moments(*(np.tile(each, 2) for each in MOMENTS))
    shares[3], moments.mean[3] = np.nan, np.nan
    found = NumberDistribution(law(0.6), BINS, moments, shares=shares, support=(0.0, np.inf))
    monkeypatch.setattr("jaxunc.regression._distribution.CACHED", 5 * BINS.table.size)
    again = pickle.loads(pickle.dumps(found))
    of_two = again.cdf(2.0), again.crps(2.0)
    for values in (again.mean, again.std, *of_two, again.quantile(0.3), again.sample(0, 1)[:, 0]):
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(values)), [3])
    np.testing.assert_array_equal(again.cdf(2.0)[6:], distribution("learned", "above").cdf(2.0))
    none = NumberDistribution(law(), BINS, Moments(*np.zeros((3, 0))), shares=None, support=(0.0, np.inf))
    assert [none.mean.shape, none.crps(1.0).shape, none.sample(0, 2).shape] == [(0,), (0,), (0, 2)]
    assert len(none) == 0
    assert distribution("bins").cdf(np.zeros((N, 0))).shape == (N, 0)


A = "learned"
test_refusals = refusals(
    ("NaN", lambda: distribution(A).cdf(np.r_[np.zeros(4), np.nan, 0]), "y holds nan in row 4"),
    ("limit NaN", lambda: distribution(A).exceeds(np.nan), "limit holds nan in row 0"),
    ("infinite", lambda: distribution(A).crps(np.inf), "y holds inf in row 0"),
    ("length", lambda: distribution(A).cdf([1.0, 2.0]), r"y has shape \(2,\); pass a number, one for each of 6"),
    ("axes", lambda: distribution(A).cdf(np.zeros((6, 1, 1))), "y has shape"),
    ("words", lambda: distribution(A).cdf("a"), "y='a' is no number", TypeError),
    ("level", lambda: distribution(A).quantile(1.5), "levels=1.5 must be numbers in"),
    ("rank", lambda: distribution("conformal").quantile(0.001), "a conformal quantile at the level 0.001"),
    ("coverage", lambda: distribution(A).interval([0.5, 1.0]), "coverage=.* must lie in"),
    ("no coverage", lambda: distribution(A).interval([]), "names nothing"),
    ("key", lambda: distribution(A).sample(None, 1), "key is None", TypeError),
    ("seed", lambda: distribution(A).sample(-1, 1), "key=-1 must be at least 0"),
    ("no seed", lambda: distribution(A).sample(True, 1), "key=True must be an integer", TypeError),
    ("no draws", lambda: distribution(A).sample(0, 0), "n=0 must be at least 1"),
)

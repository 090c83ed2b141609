"""Targets in bins, against the values that they were made of."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import jaxunc as ju
from jaxunc.regression import target_bins
from tests._refusal import refusals

RNG = np.random.default_rng(0)
TARGETS = {
    "normal": RNG.normal(size=600),
    "mostly zero": np.r_[np.zeros(420), RNG.gamma(1, 1, 180)],
    "counts": RNG.poisson(3, 300).astype(float),
    "constant": np.full(9, 3.3),
    "two": np.array([1.0, 2.0]),
    "few": RNG.normal(size=7),
    "large": 1e8 + RNG.normal(size=400),
    "neighbours": np.repeat([1.0, np.nextafter(1.0, 2.0)], 30),
    "long tail": RNG.pareto(1, 600),
}


def frequencies(bins, n=1):
    return np.tile(np.bincount(bins.codes) / len(bins.codes), (n, 1))


@pytest.mark.parametrize("name", TARGETS)
def test_bins_of_all_rows_are_the_sample(name):
    y = TARGETS[name]
    bins, spread = target_bins(y, 20), np.ptp(y)
    np.testing.assert_array_equal(bins.code(y), bins.codes)
    assert (np.diff(np.r_[-np.inf, bins.edges, np.inf]) > 0).all()
    assert bins.n_bins <= 40
    p = frequencies(bins)
    np.testing.assert_allclose(bins.mean(p), y.mean(), rtol=1e-12)
    levels = np.linspace(0, 1, 21)
    found = bins.quantile(p, levels)[0]
    assert (np.diff(found) >= 0).all()
    assert found[0] == y.min()
    assert found[-1] == y.max()
    if len(y) > 100:
        # Every quantile lies within a rank or so of the sample's own.
        low, high = (np.quantile(y, np.clip(levels + move, 0, 1)) for move in (-0.012, 0.012))
        assert (found >= low - 1e-9 * spread).all()
        assert (found <= high + 1e-9 * spread).all()


@pytest.mark.parametrize("name", TARGETS)
def test_cdf_inverts_quantiles_and_crps_is_its_integral(name):
    y = TARGETS[name]
    bins = target_bins(y, 10)
    p = np.random.default_rng(1).dirichlet(np.ones(bins.n_bins), 1)
    for level in (0.03, 0.4, 0.77, 1.0):
        q = bins.quantile(p, [level])[0, 0]
        assert bins.cdf(p, [q])[0] >= level - 1e-6
    spread = max(np.ptp(y), 1.0)
    for value in (y.min() - spread / 9, np.median(y), y[0], y.max() + spread / 9):
        grid = np.linspace(min(y.min(), value) - spread / 9, max(y.max(), value) + spread / 9, 20001)
        f = bins.cdf(np.tile(p, (len(grid), 1)), grid)
        assert (np.diff(f) >= -1e-12).all()
        expected = np.trapezoid((f - (grid >= value)) ** 2, grid)
        np.testing.assert_allclose(bins.crps(p, [value])[0], expected, rtol=2e-3, atol=2e-4 * spread)


def test_atoms_have_bins_of_their_own():
    bins = target_bins(TARGETS["mostly zero"], 10)
    assert bins.is_atom.tolist() == [True, False, False, False]
    p = np.tile([0.7, 0.1, 0.1, 0.1], (1, 1))
    assert (bins.quantile(p, [0.0, 0.3, 0.7]) == 0).all()
    np.testing.assert_allclose(bins.cdf(p, [0.0]), 0.7)
    np.testing.assert_allclose(bins.cdf(p, [-1e-9]), 0.0)


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "lognormal"])
def test_a_short_tail_has_the_bins_of_the_others(name):
    y = getattr(np.random.default_rng(0), name)(size=1000)
    np.testing.assert_array_equal(np.bincount(target_bins(y, 20).codes), 50)


def test_a_long_tail_has_further_bins():
    """Halves of such rows are cut until none lies 16 times as wide as the other, or has fewer than five rows."""
    y = 1.5 ** np.arange(100.0)
    for ordered in (y, -y[::-1]):
        bins = target_bins(ordered, 2)
        np.testing.assert_array_equal(bins.codes, np.repeat(np.arange(8), [13, 12] * 4))
        for weight in (0.1, 3.0):
            weighted = target_bins(ordered, 2, sample_weight=np.full(100, weight))
            np.testing.assert_array_equal(weighted.edges, bins.edges)
    np.testing.assert_array_equal(np.bincount(target_bins(1000.0 ** np.arange(30), 2).codes), [8, 7, 8, 7])
    outlier = target_bins(np.r_[np.arange(39.0), 1e9], 2)
    np.testing.assert_array_equal(np.bincount(outlier.codes), [20, 10, 5, 5])
    np.testing.assert_array_equal(np.bincount(target_bins(y, 2, tails=False).codes), [50, 50])


def test_ends_of_levels_and_bins_without_probability():
    bins = target_bins(np.arange(40.0), 4)
    p = np.array([[0, 0.5, 0.5, 0], [0, 0, 1, 0], [3, 0, 0, 0], [np.nan] * 4])
    np.testing.assert_array_equal(bins.quantile(p, [0, 1])[:3], [[10, 29], [20, 29], [0, 9]])
    assert np.isnan(bins.quantile(p, [0.5])[3])
    np.testing.assert_array_equal(bins.quantile(p[:0], [0.5]).shape, (0, 1))
    # Between two bins: the nearer one.
    np.testing.assert_array_equal(bins.code([9.4, 9.6, -5, 99]), [0, 1, 0, 3])


@pytest.mark.room
def test_mean_of_bins_is_the_quantile_regression_forest():
    """Meinshausen's weights by loops, at a resolution that holds every value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    y = np.round(X[:, 0] * 3 + rng.normal(size=120))
    model = RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(X[:80], y[:80])
    bins = target_bins(y[:80], 200)
    forest = ju.count_leaves(ju.from_sklearn_values(model).trees, X[:80], bins.codes)
    p = ju.bind(forest, ju.Mean()).probability(X[80:])
    grown, new = model.apply(X[:80]), model.apply(X[80:])
    for level in (0.05, 0.5, 0.9):
        found = bins.quantile(p, [level])[:, 0]
        for i, leaves in enumerate(new):
            weights = np.mean([(grown[:, t] == leaf) / (grown[:, t] == leaf).sum() for t, leaf in enumerate(leaves)], 0)
            at = [weights[y[:80] <= value].sum() for value in np.unique(y[:80])]
            near = {np.unique(y[:80])[np.searchsorted(at, level + e)] for e in (-1e-6, 1e-6)}
            assert found[i] in near


two = lambda: target_bins([1.0, 2.0])
test_refusals = refusals(
    ("nothing", lambda: target_bins([]), "y is empty"),
    ("NaN", lambda: target_bins([1.0, np.nan]), "nan at position 1"),
    ("wide", lambda: target_bins([-1.7e308, 1.7e308]), r"up to 1.7e\+308, whose sums overflow"),
    ("two targets", lambda: target_bins([[1.0, 2.0]]), "one model a target"),
    ("no row", lambda: target_bins([1.0, 2.0]).code(1.5), "pass one number for each instance"),
    ("words", lambda: target_bins(["a"]), "no numbers", TypeError),
    ("complex", lambda: target_bins(np.array([1 + 1j])), "no numbers", TypeError),
    ("dates", lambda: target_bins(np.array(["2020-01-01"], "datetime64[D]")), "no numbers", TypeError),
    ("one bin", lambda: target_bins([1.0], 1), "n_bins"),
    ("level", lambda: two().quantile([[0.5, 0.5]], [1.1]), "levels"),
    ("three shares", lambda: two().quantile([[0.5, 0.5, 0]], [0.1]), "p has shape"),
    ("negative share", lambda: two().quantile([[-0.5, 0.5]], [0.1]), "negative"),
    ("two numbers", lambda: two().cdf([[0.5, 0.5]], [1.0, 2.0]), "2 numbers for 1"),
)


def test_means_divide_by_the_sum_of_probabilities():
    bins = target_bins(np.arange(60.0), 3)
    p = np.array([[0.2, 0.5, 0.3]])
    np.testing.assert_allclose(bins.mean(7 * p), bins.mean(p))

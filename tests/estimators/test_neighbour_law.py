"""`law="neighbours"`: standardised residuals of the rows that share leaves with an instance, against loops in NumPy."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeRegressor

import jaxunc as ju
from jaxunc.counting import oob_mask
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.regression import target_bins

X, Y = make_friedman1(380, noise=1.0, random_state=1)
X = X.astype(np.float32)
Y = Y + np.random.default_rng(1).normal(size=380) * 4 * X[:, 5]
ROWS, OTHERS, NEW = slice(0, 160), slice(160, 320), slice(320, 380)
FOREST = RandomForestRegressor(30, max_leaf_nodes=20, random_state=0).fit(X[ROWS], Y[ROWS])
LEVELS = np.array([0.0517, 0.3103, 0.4971, 0.9529])
"""None that a share of rows comes to."""
deviation = lambda model, rows, mask=None: model.law_.deviation(model.moments_.answer(rows, tree_mask=mask))


def check_quantiles(model, expected, x64):
    found = model.predict(X[NEW], quantiles=LEVELS)
    np.testing.assert_allclose(found, expected, **({"rtol": 1e-12} if x64 else {"atol": 1e-4}))


def by_loops(model, rows, z, counts):
    """Quantiles for the new rows: leaf by leaf, the share of rows in each bin of z."""
    bins = target_bins(z, 20)
    p = np.zeros((60, bins.n_bins))
    for t, tree in enumerate(FOREST.estimators_):
        places = tree.apply(rows)
        for i, leaf in enumerate(tree.apply(X[NEW])):
            number = np.bincount(bins.codes[(places == leaf) & counts[:, t]], minlength=bins.n_bins)
            p[i] += number / number.sum() if number.any() else 1 / bins.n_bins
    return FOREST.predict(X[NEW])[:, None] + deviation(model, X[NEW])[:, None] * bins.quantile(p, LEVELS)


uncertain = lambda forest, **settings: UncertainForestRegressor(forest, law="neighbours", **settings)
model = pytest.fixture(scope="module")(lambda: uncertain(FrozenEstimator(FOREST)).fit(X[ROWS], Y[ROWS]))


def test_out_of_bag_against_loops(model, x64):
    seen = np.stack([np.bincount(bag, minlength=160) > 0 for bag in FOREST.estimators_samples_], axis=1)
    each = np.stack([tree.predict(X[ROWS]) for tree in FOREST.estimators_], axis=1)
    mean = np.array([own[~inside].mean() for own, inside in zip(each, seen, strict=True)])
    z = (Y[ROWS] - mean) / deviation(model, X[ROWS], ~seen)
    check_quantiles(model, by_loops(model, X[ROWS], z, seen), x64)
    np.testing.assert_allclose(model.law_.residuals, np.sort(z), **({"rtol": 1e-12} if x64 else {"atol": 1e-4}))


def test_held_out_against_loops(x64):
    """Rows that the forest has not seen are in the leaves of all trees; leaves without any say what all rows say."""
    model = uncertain(FrozenEstimator(FOREST), counts="held_out").fit(X[OTHERS], Y[OTHERS])
    z = (Y[OTHERS] - FOREST.predict(X[OTHERS])) / deviation(model, X[OTHERS])
    check_quantiles(model, by_loops(model, X[OTHERS], z, np.ones((160, 30), bool)), x64)


def test_bins_of_one_row_are_the_weights_of_neighbours(x64):
    """Bags without copies: z weigh what `neighbour_weights` says."""
    settings = {"max_samples": 0.7, "bootstrap": False, "random_state": 0}
    bag = BaggingRegressor(DecisionTreeRegressor(max_leaf_nodes=20), 30, **settings).fit(X[ROWS], Y[ROWS])
    model = uncertain(FrozenEstimator(bag), n_bins=10**6).fit(X[ROWS], Y[ROWS])
    weights = ju.neighbour_weights(bag, rows=X[ROWS], kind="out_of_bag")
    z = (Y[ROWS] - weights @ Y[ROWS]) / deviation(model, X[ROWS], oob_mask(bag, 160))
    order = np.argsort(z)
    up_to = np.cumsum(ju.neighbour_weights(bag, X[NEW], rows=X[ROWS]).toarray()[:, order], axis=1)
    first = np.stack([np.argmax(up_to >= level, axis=1) for level in LEVELS], axis=1)
    check_quantiles(model, bag.predict(X[NEW])[:, None] + deviation(model, X[NEW])[:, None] * z[order][first], x64)


def test_read_outs_agree(model):
    """Alone and in any batch, and in a stream; quantiles do not cross."""
    ends, levels = model.predict_interval(X[NEW]), np.linspace(0, 1, 41)
    assert (np.diff(model.predict(X[NEW], quantiles=levels), axis=1) >= 0).all()
    np.testing.assert_array_equal(model.predict(X[NEW], quantiles=[0.95])[:, 0], ends[:, 1])
    for part in (slice(7, 8), slice(0, 41), slice(0, 0)):
        np.testing.assert_array_equal(model.predict_interval(X[NEW][part]), ends[part])
    mean, std = model.predict(X[NEW], return_std=True)
    np.testing.assert_array_equal(mean, FOREST.predict(X[NEW]))
    np.testing.assert_array_equal(std, model.predict_uncertainty(X[NEW]).std)
    (table,) = ju.stream(model, X[NEW], outputs=["interval"])
    np.testing.assert_array_equal(np.column_stack([table["lower"], table["upper"]]), ends)


@pytest.mark.once
def test_narrow_where_neighbours_err_little():
    """Loud noise where a column that trees test is large."""
    x, y = make_friedman1(800, noise=0.0, random_state=2)
    y = y + np.random.default_rng(2).normal(size=800) * np.where(x[:, 3] > 0.5, 6, 0.5)
    forest = RandomForestRegressor(30, max_leaf_nodes=20, random_state=0)  # of the shape of FOREST, and its programs
    for counts in ("oob", "held_out", "cross_fit"):
        model = uncertain(forest, counts=counts, random_state=0).fit(x[:600], y[:600])
        ends = model.predict_interval(x[600:])
        width, held = ends[:, 1] - ends[:, 0], (ends[:, 0] <= y[600:]) & (y[600:] <= ends[:, 1])
        loud = x[600:, 3] > 0.5
        assert width[loud].mean() > 1.5 * width[~loud].mean(), counts
        assert 0.82 < held.mean() < 0.97, counts
    # No weights of rows give a median, and none are needed: residuals are those of the moments' mean.
    forest = RandomForestRegressor(30, criterion="absolute_error", max_leaf_nodes=20, random_state=0)
    ends = uncertain(forest).fit(X[ROWS], Y[ROWS]).predict_interval(X[NEW])
    assert 0.75 < ((ends[:, 0] <= Y[NEW]) & (Y[NEW] <= ends[:, 1])).mean() <= 1

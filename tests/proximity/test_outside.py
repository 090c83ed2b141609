"""How far out a row lies: against loops, and for rows that were put outside."""

import jax
import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import jaxunc as ju
from jaxunc.proximity import _outside
from tests._refusal import refusals

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
ROWS, NEW = np.split(RNG.normal(size=(190, 4)).astype(np.float32), [150])
Y = ROWS[:, 0] + np.abs(ROWS).sum(axis=1)
MODEL = RandomForestRegressor(12, min_samples_leaf=4, random_state=0).fit(ROWS, Y)


def by_loops(new, rows):
    """The share of columns outside of the leaf's rows, in the mean over trees."""
    outside = np.zeros(len(new))
    for inside, reached in zip(MODEL.apply(rows).T, MODEL.apply(new).T, strict=True):
        for i, leaf in enumerate(reached):
            box = rows[inside == leaf]
            out = np.ones(4) if not len(box) else (new[i] < box.min(axis=0)) | (new[i] > box.max(axis=0))
            outside[i] += out.mean() / 12
    return outside


@pytest.mark.parametrize("values", [2**23, 100])
def test_share_is_that_of_loops(monkeypatch, values):
    monkeypatch.setattr(_outside, "VALUES", values)
    for rows in (ROWS, ROWS[:30]):
        np.testing.assert_allclose(ju.outside_share(MODEL, NEW, rows=rows), by_loops(NEW, rows), rtol=1e-12)


def test_rows_are_inside_and_what_is_far_is_outside():
    """Columns that no tree tests do not count."""
    boosted = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=5).fit(ROWS, Y)
    for model in (MODEL, boosted):
        np.testing.assert_array_equal(ju.outside_share(model, ROWS, rows=ROWS), 0)
        np.testing.assert_array_equal(ju.outside_share(model, ROWS[:5] + 50, rows=ROWS), 1)
    assert ju.outside_share(MODEL, NEW[:0], rows=ROWS).shape == (0,)
    wide = np.c_[ROWS, np.zeros(150)]
    model = RandomForestRegressor(12, min_samples_leaf=4, random_state=0).fit(wide, Y)
    far = np.c_[ROWS, np.ones(150)]
    np.testing.assert_array_equal(ju.outside_share(model, far, rows=wide), 0)


def test_sparse_rows_and_missing_values():
    holes = ROWS.copy()
    holes[::2, 1] = np.nan
    model = RandomForestRegressor(12, max_depth=1, random_state=0).fit(holes, Y)
    np.testing.assert_array_equal(ju.outside_share(model, holes, rows=holes), 0)
    lacking = np.where(np.arange(4) == 0, np.nan, holes[:9])
    n_tested = len({int(tree.tree_.feature[0]) for tree in model.estimators_})
    np.testing.assert_allclose(ju.outside_share(model, lacking, rows=holes), 1 / n_tested)
    some = np.where(RNG.random(ROWS.shape) < 0.5, 0, ROWS)
    model = RandomForestRegressor(12, min_samples_leaf=4, random_state=0).fit(some, Y)
    as_sparse = [ju.outside_share(model, form(NEW), rows=form(some)) for form in (np.asarray, sparse.csr_matrix)]
    np.testing.assert_array_equal(*as_sparse)


test_refusals = refusals(
    ("traced rows", lambda: jax.jit(lambda X: ju.outside_share(MODEL, X, rows=ROWS))(NEW), "is traced", TypeError),
    ("no rows", lambda: ju.outside_share(MODEL, NEW, rows=ROWS[:0]), "rows is empty"),
    ("other columns", lambda: ju.outside_share(MODEL, NEW[:, :2], rows=ROWS), "X has 2"),
    ("no model", lambda: ju.outside_share("nothing", NEW, rows=ROWS), "nothing", FileNotFoundError),
)


def test_trees_that_test_nothing():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = RandomForestRegressor(3, random_state=0).fit(X, np.ones(30))
    np.testing.assert_array_equal(ju.outside_share(model, X + 100, rows=X), np.zeros(30))

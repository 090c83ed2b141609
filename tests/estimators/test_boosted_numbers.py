"""`UncertainForestRegressor` of boosted models."""

import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.ensemble import RandomForestRegressor as Forest
from sklearn.frozen import FrozenEstimator

import jaxunc as ju
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.estimators._boosted_numbers import is_boosted, rounds_of
from jaxunc.estimators._pipelines import rounds
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

X, Y = make_friedman1(360, noise=1.0, random_state=0)
X = X.astype(np.float32)
Y = Y + np.random.default_rng(0).normal(size=360) * 6 * X[:, 5]
TRAIN, NEW = slice(0, 240), slice(240, 360)
BOOSTED = GradientBoostingRegressor(n_estimators=20, max_depth=3, random_state=0)
HISTOGRAM = HistGradientBoostingRegressor(max_iter=20)
FITTED = clone(BOOSTED).fit(X[TRAIN], Y[TRAIN])
LEVELS = [0.05, 0.5, 0.95]
of_library = lambda name, model, **settings: lambda: getattr(pytest.importorskip(name), model)(**settings)
uncertain = lambda model=BOOSTED, **settings: UncertainForestRegressor(model, **{"random_state": 0, **settings})
SILENT = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
LIBRARIES = {
    "sklearn": lambda: BOOSTED,
    "histogram": lambda: HISTOGRAM,
    "lightgbm": of_library("lightgbm", "LGBMRegressor", n_estimators=20, verbose=-1, n_jobs=1),
    "xgboost": of_library("xgboost", "XGBRegressor", n_estimators=20, max_depth=3, n_jobs=1),
    "catboost": of_library("catboost", "CatBoostRegressor", iterations=20, **SILENT),
}
learned = pytest.fixture(scope="module")(lambda: uncertain().fit(X[TRAIN], Y[TRAIN]))


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries(library, learned):
    """Fitted and frozen: the mean is the model's own, and rows that it has seen are refused."""
    model = learned if library == "sklearn" else uncertain(LIBRARIES[library]()).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[NEW]), np.asarray(model.estimator_.predict(X[NEW])))
    mean, std = model.predict(X[NEW], return_std=True)
    np.testing.assert_allclose(model.moments_.answer(X[NEW]).mean, mean, rtol=1e-5, atol=1e-5)
    low, high = model.predict_interval(X[NEW]).T
    assert 0.75 < np.mean((low <= Y[NEW]) & (Y[NEW] <= high)) < 1
    assert np.sqrt(np.mean(std**2)) == pytest.approx(np.sqrt(np.mean((Y[NEW] - mean) ** 2)), rel=0.3)
    again = uncertain(FrozenEstimator(model.estimator_))
    np.testing.assert_array_equal(again.fit(X[NEW], Y[NEW]).predict(X[NEW]), mean)
    # XGBoost would read numbers in any byte order as this machine's, and LightGBM reads no columns of Arrow.
    frame = pd.DataFrame(X[NEW])
    for given in (X[NEW].astype(">f4"), *map(frame.astype, (">f4", object, "float[pyarrow]"))):
        np.testing.assert_array_equal(again.predict(given), mean)
    narrow = X[NEW].astype(jnp.bfloat16)
    np.testing.assert_array_equal(again.predict(narrow), again.predict(narrow.astype(np.float32)))
    refuses(ValueError, "its leaves hold their very residuals", again.fit, X[TRAIN][::-1], Y[TRAIN][::-1])


@pytest.mark.parametrize("law", ["learned", "residuals", "conformal"])
@pytest.mark.parametrize("counts", ["cross_fit", "held_out", "frozen"])
def test_laws_and_counts(law, counts):
    settings = {"law": law, "counts": "held_out" if counts == "frozen" else counts, "held_out_size": 0.5}
    estimator, rows = (FrozenEstimator(FITTED), NEW) if counts == "frozen" else (BOOSTED, TRAIN)
    model = uncertain(estimator, **settings).fit(X[rows], Y[rows])
    number = {"cross_fit": 240, "held_out": 120, "frozen": 60 if law == "conformal" else 120}[counts]
    assert len(model.law_.residuals) == number
    assert model.law_.is_by_rank == (law == "conformal")
    quantiles = model.predict(X[NEW], quantiles=LEVELS)
    np.testing.assert_allclose(model.predict_interval(X[NEW]), quantiles[:, [0, 2]], rtol=1e-12)
    assert (np.diff(quantiles, axis=1) > 0).all()
    width = np.diff(quantiles[:, [0, 2]], axis=1)
    assert np.ptp(width) < 1e-6 * width.max() or law != "residuals"


def test_a_conformal_law_ranks_rows_that_nothing_else_was_learned_from():
    """Of ranked rows no fewer lie inside than was asked, and the scale is the same whatever their targets are."""
    targets = Y[NEW].copy()
    fit = lambda: uncertain(FrozenEstimator(FITTED), law="conformal", counts="held_out").fit(X[NEW], targets)
    model = fit()
    low, high = model.predict_interval(X[NEW], coverage=0.8).T
    standardised = (targets - model.predict(X[NEW])) / model.predict(X[NEW], return_std=True)[1]
    ranked = np.isin(standardised.round(9), model.law_.residuals.round(9))
    assert ranked.sum() == 60
    assert np.mean(((low <= targets) & (targets <= high))[ranked]) >= 0.8
    targets[ranked] += 100
    np.testing.assert_array_equal(fit().moments_.answer(X).aleatoric, model.moments_.answer(X).aleatoric)


def test_rows_stand_alone_in_files_pickles_and_streams(learned, tmp_path):
    whole = learned.predict_interval(X)
    np.testing.assert_array_equal(np.concatenate([learned.predict_interval(X[i : i + 1]) for i in range(5)]), whole[:5])
    np.testing.assert_array_equal(learned.predict_interval(X[::-1])[::-1], whole)
    assert (learned.predict_interval(X[:0]).shape, learned.predict(X[:0]).shape) == ((0, 2), (0,))
    ju.save(tmp_path / "model.safetensors", learned)
    for other in (ju.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(learned))):
        np.testing.assert_array_equal(other.predict_interval(X), whole)
        np.testing.assert_array_equal(other.predict(X, return_std=True)[1], learned.predict(X, return_std=True)[1])
    (table,) = ju.stream(learned, X[:7])
    assert table.column_names == ["mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(np.stack([table["lower"], table["upper"]], axis=1), whole[:7])


def test_ends_keep_to_the_range_of_the_link():
    """Counts: the sums are logarithms of means."""
    counts = np.rint(np.maximum(Y / 6, 0))
    model = uncertain(HistGradientBoostingRegressor(max_iter=20, loss="poisson")).fit(X[TRAIN], counts[TRAIN])
    np.testing.assert_allclose(model.moments_.answer(X[NEW]).mean, model.predict(X[NEW]), rtol=1e-5)
    quantiles = model.predict(X[NEW], quantiles=[0.0, 0.01, 0.5])
    assert quantiles.min() == 0
    assert quantiles[:, 2].min() > 0
    distribution = model.predict_distribution(X[NEW])
    np.testing.assert_array_equal(distribution.quantile([0.01, 0.5]), quantiles[:, 1:])
    np.testing.assert_array_equal(distribution.cdf(-1e-9), 0)
    assert (distribution.cdf(0) >= np.where(quantiles[:, 1] == 0, 0.01, 0)).all()
    model.set_params(support=(-5, counts.max())).fit(X[TRAIN], counts[TRAIN])
    within = model.predict(X[NEW], quantiles=[0.0, 1.0])
    assert (within.min(), within.max()) == (0, counts.max())


def test_refits_have_the_rounds_of_the_model():
    early = {"n_iter_no_change": 2, "random_state": 0}
    whole = HistGradientBoostingRegressor(max_iter=300, early_stopping=True, **early).fit(X, Y)
    assert rounds_of(whole) == {"max_iter": whole.n_iter_, "early_stopping": False}
    other = GradientBoostingRegressor(n_estimators=300, **early).fit(X, Y)
    assert rounds_of(other) == {"n_estimators": other.n_estimators_, "n_iter_no_change": None}
    assert max(whole.n_iter_, other.n_estimators_) < 300


@pytest.mark.parametrize(
    ("library", "kind", "settings", "expected"),
    [
        ("catboost", "CatBoostRegressor", {}, 1000),
        ("catboost", "CatBoostRegressor", {"iterations": 1}, 1),
        ("catboost", "CatBoostRegressor", {"num_trees": 7}, 7),
        ("lightgbm", "LGBMRegressor", {}, 100),
        ("lightgbm", "LGBMRegressor", {"n_estimators": 1, "num_boost_round": 7}, 7),
        ("lightgbm", "LGBMRegressor", {"n_iter": 1}, 1),
        ("lightgbm", "LGBMRegressor", {"boost": "rf"}, 1),
    ],
)
def test_rounds_by_any_name(library, kind, settings, expected):
    model = getattr(pytest.importorskip(library), kind)(**settings)
    assert rounds(model) == expected
    assert is_boosted(model, fitted=False) == (expected > 1)


def test_few_rows_have_one_width_and_constant_targets_none():
    with pytest.warns(UserWarning, match="one width for all"):
        model = uncertain().fit(X[:40], Y[:40])
    width = np.diff(model.predict_interval(X), axis=1)
    assert np.ptp(width) < 1e-9 * width.max()
    model.fit(X[TRAIN], np.full(240, 3.0))
    np.testing.assert_array_equal(model.predict_interval(X), np.full((360, 2), 3.0))
    assert model.predict(X, return_std=True)[1].max() < 1e-100


def test_weights_and_groups(learned):
    """Rows of weight 0 are none; equal weights are none; a group is in one fold."""
    weighed = uncertain().fit(X, Y, sample_weight=np.r_[np.ones(240), np.zeros(120)])
    np.testing.assert_allclose(weighed.predict_interval(X), learned.predict_interval(X), rtol=1e-6)
    rows, target, groups = np.tile(X[TRAIN], (2, 1)), np.tile(Y[TRAIN], 2), np.tile(np.arange(240), 2)
    twice = uncertain().fit(rows, target, groups=groups)
    assert np.std(twice.law_.residuals) > 0.9
    assert len(twice.law_.residuals) == 480
    assert np.mean(np.abs(Y[NEW] - twice.predict(X[NEW])) <= np.diff(twice.predict_interval(X[NEW]))[:, 0] / 2) > 0.75


def test_missing_values_and_sparse_rows(tmp_path):
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    model = uncertain(HISTOGRAM).fit(holes[TRAIN], Y[TRAIN])
    ends = model.predict_interval(holes[NEW])
    assert np.isfinite(ends).all()
    # Those of the fit, whatever the parameters are now.
    np.testing.assert_array_equal(model.set_params(estimator=BOOSTED).predict_interval(holes[NEW]), ends)
    ju.save(tmp_path / "x", model)
    for again in (ju.load(tmp_path / "x"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_interval(holes[NEW]), ends)
    thin = sparse.csr_matrix(np.where(X > 0.7, X, 0))
    model = uncertain().fit(thin[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict_interval(thin[NEW]), model.predict_interval(thin[NEW].toarray()))
    refuses(ValueError, "X contains NaN", model.set_params(estimator=HISTOGRAM).predict, holes[NEW])


def test_counts_by_themselves():
    """Forests with bags are asked out of bag, as ever; those without are fitted again."""
    for bootstrap, counts in ((True, "oob"), (False, "cross_fit")):
        forest = Forest(8, max_leaf_nodes=6, random_state=0, bootstrap=bootstrap)
        usual, told = (uncertain(forest, law="residuals", counts=one).fit(X[NEW], Y[NEW]) for one in ("auto", counts))
        np.testing.assert_array_equal(usual.predict_interval(X), told.predict_interval(X), err_msg=counts)


fit = lambda model=BOOSTED, X=X, Y=Y, **settings: lambda: UncertainForestRegressor(model, **settings).fit(X, Y)


def two_numbers():
    model = of_library("xgboost", "XGBRegressor", n_estimators=2, n_jobs=1)()
    fit(FrozenEstimator(model.fit(X, np.stack([Y, Y], axis=1))))()


CATBOOST = of_library("catboost", "CatBoostClassifier")
WATCHED = of_library("xgboost", "XGBRegressor", early_stopping_rounds=5)
test_refusals = refusals(
    ("out of bag", fit(counts="oob"), "correct each other"),
    *((law, fit(law=law), "hold corrections") for law in ("bins", "neighbours")),
    ("a classifier", fit(GradientBoostingClassifier()), "predicts classes", TypeError),
    ("a class of CatBoost", lambda: fit(CATBOOST())(), "predicts classes", TypeError),
    ("early stopping", lambda: fit(WATCHED())(), "needs rows to watch"),
    ("a ranker", lambda: fit(of_library("xgboost", "XGBRanker")())(), "ranks rows", TypeError),
    ("several numbers", two_numbers, "predicts 2 numbers"),
    ("seen", fit(FrozenEstimator(FITTED), X[TRAIN], Y[TRAIN]), "was grown on"),
    ("cross_fit of a fitted model", fit(FrozenEstimator(FITTED), counts="cross_fit"), "pass it unfrozen"),
    ("doubt", lambda learned: learned.predict_uncertainty(X), "virtual_uncertainty", TypeError),
    ("doubt of files", lambda learned: list(ju.stream(learned, X, outputs=["uncertainty"])), "boosted models do not"),
    ("columns", lambda learned: learned.predict_interval(X[:, :4]), "10 features"),
)

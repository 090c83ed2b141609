"""`UncertainForestRegressor`: its answers, its refusals, and scikit-learn's checks."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import make_friedman1
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import jaxunc as ju
from jaxunc.counting import oob_mask
from jaxunc.estimators import UncertainForestRegressor, _forest_numbers
from jaxunc.metrics import interval_score
from jaxunc.regression import LAWS, LeafMoments, Moments
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

X, Y = make_friedman1(512, noise=1.0, random_state=0)
X = X.astype(np.float32)
Y = Y + np.random.default_rng(0).normal(size=512) * 4 * X[:, 5]
TRAIN, NEW, TRAIN_ROWS = slice(0, 256), slice(256, 512), np.arange(256)
# Forests of as many trees, and of few enough leaves: of one shape, which is compiled once.
SIZE = {"n_estimators": 30, "random_state": 0}
SHAPE = {**SIZE, "max_leaf_nodes": 30}
FOREST = RandomForestRegressor(min_samples_leaf=2, **SHAPE)
FITTED = clone(FOREST).fit(X[TRAIN], Y[TRAIN])
LEVELS = [0.05, 0.5, 0.95]
frozen = lambda forest=FITTED, **settings: UncertainForestRegressor(FrozenEstimator(forest), **settings)


@cache
def of_law(law):
    return frozen(law=law).fit(X[TRAIN], Y[TRAIN])


def coverage(model, rows=NEW):
    """How often intervals hold the targets."""
    low, high = model.predict_interval(X[rows]).T
    return ((low <= Y[rows]) & (Y[rows] <= high)).mean()


learned = pytest.fixture(scope="module")(lambda: of_law("learned"))


def unseen_by_loops():
    mask, found = oob_mask(FITTED, 256), []
    leaves = FITTED.apply(X[TRAIN])
    for i, row in enumerate(leaves):
        own = [t.tree_ for t, out in zip(FITTED.estimators_, mask[i], strict=True) if out]
        at = row[mask[i]]
        mean = np.array([t.value[leaf, 0, 0] for t, leaf in zip(own, at, strict=True)])
        variance = np.array([t.impurity[leaf] for t, leaf in zip(own, at, strict=True)])
        found.append((mean.mean(), variance.mean() + mean.var()) if len(own) else (np.nan, np.nan))
    return np.array(found).T


@pytest.mark.room
def test_answers_against_loops():
    """A law of residuals, written out in float64."""
    model = of_law("residuals")
    mean, variance = unseen_by_loops()
    known = ~np.isnan(mean)
    z = (Y[TRAIN] - mean)[known] / np.sqrt(variance[known] + model.law_.added)
    leaves = FITTED.apply(X[NEW])
    means = np.stack([t.tree_.value[at, 0, 0] for t, at in zip(FITTED.estimators_, leaves.T, strict=True)])
    inside = np.stack([t.tree_.impurity[at] for t, at in zip(FITTED.estimators_, leaves.T, strict=True)])
    s = np.sqrt(inside.mean(axis=0) + means.var(axis=0) + model.law_.added)
    expected = means.mean(axis=0)[:, None] + s[:, None] * np.quantile(z, LEVELS)
    np.testing.assert_allclose(model.predict(X[NEW], quantiles=LEVELS), expected, rtol=1e-4, atol=1e-4)
    doubt = model.predict_uncertainty(X[NEW])
    np.testing.assert_allclose(doubt.aleatoric, inside.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(doubt.epistemic, means.var(axis=0), rtol=1e-4, atol=1e-6)
    found, std = model.predict(X[NEW], return_std=True)
    np.testing.assert_array_equal(found, FITTED.predict(X[NEW]))
    np.testing.assert_allclose(std, np.sqrt(inside.mean(axis=0) + means.var(axis=0)), rtol=1e-4)


@pytest.mark.room
def test_read_outs_agree_in_threads_and_batches_of_any_size(learned):
    quantiles = learned.predict(X[NEW], quantiles=LEVELS)
    assert quantiles.shape == (256, 3)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    np.testing.assert_allclose(learned.predict_interval(X[NEW]), quantiles[:, [0, 2]], rtol=1e-9)
    np.testing.assert_array_equal(learned.predict(X[NEW], quantiles=0.5), quantiles[:, 1])
    np.testing.assert_array_equal(learned.predict(X[NEW], quantiles=LEVELS[::-1]), quantiles[:, ::-1])
    np.testing.assert_array_equal(learned.predict(X[NEW]), FITTED.predict(X[NEW]))  # the forest's, to the bit
    assert 0.83 < coverage(learned) < 0.99
    score = lambda law: float(interval_score(of_law(law).predict_interval(X[NEW]), Y[NEW]))
    assert score("learned") <= 1.02 * min(score("residuals"), score("bins")), "its parts are no better"
    whole, parts = learned.predict_interval(X[NEW]), [slice(start, start + 97) for start in range(0, 256, 97)] * 3
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda at: learned.predict_interval(X[NEW][at]), [*parts, slice(7, 8)])
        for part, ends in zip([*parts, slice(7, 8)], found, strict=True):
            np.testing.assert_array_equal(ends, whole[part])
    assert not hasattr(clone(learned), "law_")
    assert learned.predict(X[:0]).shape == learned.predict_uncertainty(X[:0]).std.shape == (0,)
    assert learned.predict(X[:0], quantiles=LEVELS).shape == (0, 3)
    assert learned.predict_interval(X[:0], [0.5, 0.9]).shape == (0, 2, 2)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.room(keep=1)
def test_the_distribution_is_what_is_predicted(law):
    model = of_law(law)
    found = model.predict_distribution(X[NEW])
    np.testing.assert_array_equal(found.quantile(LEVELS), model.predict(X[NEW], quantiles=LEVELS))
    np.testing.assert_array_equal(found.quantile(0.5), model.predict(X[NEW], quantiles=0.5))
    np.testing.assert_array_equal(found.interval(0.9), model.predict_interval(X[NEW]))
    several = model.predict_interval(X[NEW], coverage=[0.8, 0.9])
    assert several.shape == (256, 2, 2)
    np.testing.assert_array_equal(several[:, 1], model.predict_interval(X[NEW]))
    assert (found.cdf(found.quantile(LEVELS)) >= np.array(LEVELS) - 1e-12).all()
    assert 0.8 < np.mean(np.abs(found.cdf(Y[NEW]) - 0.5) <= 0.45) < 0.99
    assert len(model.predict_distribution(X[:0]).crps(1.0)) == 0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.room(keep=1)
def test_rows_out_of_bag(law):
    few = RandomForestRegressor(**{**SHAPE, "n_estimators": 4})
    model = UncertainForestRegressor(few, law=law).fit(X[TRAIN], Y[TRAIN])
    mask, found = oob_mask(model.estimator_, 256), model.oob_distribution_
    known = mask.any(axis=1)
    assert 0 < (~known).sum() < 50
    np.testing.assert_array_equal(~known, np.isnan(found.quantile(0.5)))
    np.testing.assert_array_equal(~known, np.isnan(found.crps(Y[TRAIN])))
    moments = Moments(*(part[known] for part in model.moments_.answer(X[TRAIN], tree_mask=mask)))
    shares = np.asarray(model.bound_.bin_shares.probability(X[TRAIN], tree_mask=mask))[known]
    of_leaves = model.bins_.quantile(shares, LEVELS)
    expected = model.law_.quantile(moments, np.array(LEVELS), of_leaves)
    np.testing.assert_array_equal(found.quantile(LEVELS)[known], expected)
    if law == LAWS[0]:
        assert model.set_params(counts="held_out").fit(X[TRAIN], Y[TRAIN]).oob_distribution_ is None


@pytest.mark.parametrize("law", ["learned", "conformal"])
@pytest.mark.room(keep=1)
def test_ends_keep_to_the_support(law, tmp_path):
    low = np.quantile(Y, 0.3)
    free, kept = (
        frozen(law=law, counts="held_out", random_state=0, support=support).fit(X[NEW], np.maximum(Y, low)[NEW])
        for support in (None, (low, np.inf))
    )
    ends = free.predict_interval(X[NEW], coverage=0.95)
    assert (ends[:, 0] < low).any()
    clipped = np.maximum(ends, low)
    np.testing.assert_array_equal(kept.predict_interval(X[NEW], coverage=0.95), clipped)
    distribution = kept.predict_distribution(X[NEW])
    np.testing.assert_array_equal(distribution.cdf(Y.min() - 1), 0)
    assert (distribution.mean >= free.predict_distribution(X[NEW]).mean).all()
    ju.save(tmp_path / "model", kept)
    loaded = ju.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X[NEW], coverage=0.95), clipped)
    assert loaded.support == kept.support


SMALL_TREE = DecisionTreeRegressor(min_samples_leaf=3, max_leaf_nodes=30)
GROWN = {
    "forest": (FOREST, "oob"),
    "extra trees": (ExtraTreesRegressor(bootstrap=True, **SHAPE), "oob"),
    "bag": (BaggingRegressor(SMALL_TREE, max_features=0.7, **SIZE), "oob"),
    "absolute": (RandomForestRegressor(5, criterion="absolute_error", max_depth=4, random_state=0), "oob"),
    "no bags": (ExtraTreesRegressor(**SHAPE), "held_out"),
    "cross-fitted": (ExtraTreesRegressor(min_samples_leaf=3, **SHAPE), "cross_fit"),
    "one tree": (DecisionTreeRegressor(min_samples_leaf=15, random_state=0), "held_out"),
}


@pytest.mark.parametrize("name", a_few_of(GROWN, ["forest", "bag", "no bags", "cross-fitted"]))
@pytest.mark.room(keep=1)
def test_kinds_of_forests(name):
    forest, counts = GROWN[name]
    model = UncertainForestRegressor(forest, counts=counts, random_state=0).fit(X[TRAIN], Y[TRAIN])
    assert 0.8 < coverage(model) < 0.99
    np.testing.assert_array_equal(model.predict(X[NEW]), model.estimator_.predict(X[NEW]))
    np.testing.assert_allclose(model.predict_uncertainty(X[NEW]).mean, model.predict(X[NEW]), rtol=1e-5)


def test_a_fold_without_variances_costs_no_other_fold_its_own(monkeypatch):
    from_leaves, read = [], []

    def leaf_means(model):
        leaves = original(model)
        read.append(leaves)
        return leaves._replace(row_moments=None) if len(read) == 3 else leaves

    def moments(leaves, *rows, **settings):
        from_leaves.append(leaves.row_moments is not None)
        return LeafMoments(leaves, *rows, **settings)

    original = _forest_numbers.leaf_means
    monkeypatch.setattr(_forest_numbers, "leaf_means", leaf_means)
    monkeypatch.setattr(_forest_numbers, "LeafMoments", moments)
    UncertainForestRegressor(GROWN["cross-fitted"][0], law="residuals", counts="cross_fit").fit(X[TRAIN], Y[TRAIN])
    assert from_leaves == [True, True, False, True, True, True]


@pytest.mark.parametrize("counts", ["oob", "held_out"])
def test_objects_and_masked_rows_of_a_frozen_forest(counts):
    """scikit-learn would read what is under the mask."""
    rows, gaps = (TRAIN if counts == "oob" else NEW), X[NEW] < 0.1
    model = frozen(counts=counts).fit(X[rows], Y[rows])
    again = frozen(counts=counts).fit(X[rows].astype(object), Y[rows])
    want, holes = model.predict_interval(X[NEW]), np.where(gaps, np.nan, X[NEW])
    for fitted, given in ((model, X[NEW].astype(object)), (again, X[NEW])):
        np.testing.assert_array_equal(fitted.predict_interval(given), want)
    for ask in (model.predict, model.predict_interval):
        np.testing.assert_array_equal(ask(np.ma.masked_array(X[NEW], gaps)), ask(holes))


@pytest.mark.exhaustive
def test_cross_fitted_rows_against_forests_grown_by_hand():
    """Each fifth of the rows by a forest of the others; the forest that answers has all of them."""
    forest = GROWN["cross-fitted"][0]
    model = UncertainForestRegressor(forest, law="residuals", counts="cross_fit", random_state=3)
    model.fit(X[TRAIN], Y[TRAIN])
    seed = np.random.RandomState(3).randint(np.iinfo(np.int32).max)
    fold = np.random.RandomState(3).permutation(256) % 5
    apart = np.zeros(256)
    for k in range(5):
        rest, own = (TRAIN_ROWS[chosen] for chosen in (fold != k, fold == k))
        grown = clone(forest).set_params(random_state=seed).fit(X[rest], Y[rest])
        doubt = LeafMoments(grown).answer(X[own])
        np.testing.assert_allclose(doubt.mean, grown.predict(X[own]), rtol=1e-5)
        apart[own] = (Y[own] - doubt.mean) / np.sqrt(doubt.std**2 + model.law_.added)
    np.testing.assert_allclose(model.law_.residuals, np.sort(apart), rtol=1e-6)
    whole = clone(forest).set_params(random_state=seed).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[NEW]), whole.predict(X[NEW]))


def of_lightgbm(n_trees=30):
    bags = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=n_trees, **bags)


LIBRARIES = {
    "xgboost": lambda: pytest.importorskip("xgboost").XGBRFRegressor(n_estimators=30, min_child_weight=3, n_jobs=1),
    "lightgbm": of_lightgbm,
    "additive": lambda: ju.from_sklearn_values(FITTED),
}
LAWS_OF_LIBRARIES = product(LIBRARIES, ["learned", "conformal", "neighbours"])
KEPT = [("xgboost", "learned"), ("lightgbm", "conformal"), ("additive", "neighbours")]


@pytest.mark.parametrize(("library", "law"), a_few_of(LAWS_OF_LIBRARIES, KEPT, several=True))
@pytest.mark.room
def test_forests_of_other_libraries(library, law):
    fitted, held_out = LIBRARIES[library](), slice(256, 384)
    if library != "additive":
        fitted, held_out = fitted.fit(X[:128], Y[:128]), slice(128, 256)
    if law == "neighbours" and library == "xgboost":
        booster = frozen(fitted.get_booster(), counts="held_out").fit(X[NEW], Y[NEW])
        np.testing.assert_array_equal(booster.predict(X[NEW]), fitted.predict(X[NEW]))
    model = frozen(fitted, law=law, counts="held_out", random_state=0).fit(X[held_out], Y[held_out])
    np.testing.assert_array_equal(model.predict(X[384:]), np.asarray(fitted.predict(X[384:])))
    assert 0.75 < coverage(model, slice(384, None)) <= 1
    refuses(ValueError, "no bags", frozen(fitted, counts="oob").fit, X, Y)


MODES = product(["bins", "residuals", "learned", "neighbours"], ["oob", "held_out", "cross_fit"])
KEPT = [("neighbours", "oob"), ("residuals", "held_out"), ("learned", "cross_fit")]


@pytest.mark.parametrize(("law", "counts"), a_few_of(MODES, KEPT, several=True))
@pytest.mark.room(keep=1)
def test_rows_that_weigh_more_count_more(law, counts, rng):
    """Targets that are uniform on [0, 1] and weigh twice themselves: P(y <= q) = q², whatever X is."""
    x, target = rng.normal(size=(1500, 10)), rng.random(1500)
    forest = RandomForestRegressor(min_samples_leaf=60, **SIZE)
    model = UncertainForestRegressor(forest, law=law, counts=counts, random_state=0)
    model.fit(x[:1000], target[:1000], sample_weight=2 * target[:1000])
    found = model.predict(x[1000:], quantiles=[0.1, 0.5, 0.9]).mean(axis=0)
    np.testing.assert_allclose(found, np.sqrt([0.1, 0.5, 0.9]), atol=0.06)


SEEN = {"half": np.r_[128:384], "in another order": TRAIN_ROWS[::-1]}
SEEN |= {"a part": np.r_[:150], "with others": np.r_[:320]}
GROWERS = {
    "forest": FOREST,
    "grown out": RandomForestRegressor(**SIZE),
    "random tests": ExtraTreesRegressor(**SIZE),
    "random tests, bagged": ExtraTreesRegressor(bootstrap=True, **SIZE),
    "bag": BaggingRegressor(**SIZE),
    "numbers of few values": RandomForestRegressor(**SIZE),
}


@pytest.mark.room
@pytest.mark.parametrize(("name", "rows"), a_few_of(product(GROWERS, SEEN), [("forest", "half")], several=True))
def test_rows_that_a_frozen_forest_has_seen_are_refused(name, rows):
    few = name == "numbers of few values"
    x, target, rows = X.round(1) if few else X, Y.round() if few else Y, SEEN[rows]
    model = frozen(clone(GROWERS[name]).fit(x[TRAIN], target[TRAIN]), counts="held_out")
    refuses(ValueError, "was grown on, or hold many of them", model.fit, x[rows], target[rows])
    model.fit(x[256:], target[256:])
    model.fit(x[300:340], target[300:340])


@pytest.mark.exhaustive
def test_what_is_asked_of_a_forest_of_lightgbm_is_asked_of_everything():
    """Times in seconds, of which float32 merges some: fitted and asked in float64 everywhere."""
    seconds = 1.7e9 + np.random.default_rng(0).uniform(0, 4e4, 512)
    rows, target = np.c_[seconds, X], Y + (seconds - 1.7e9) / 1e3
    model = UncertainForestRegressor(of_lightgbm(20), counts="cross_fit", random_state=0)
    model.fit(rows[TRAIN], target[TRAIN])
    streamed = next(iter(ju.stream(model, rows[NEW])))["mean"].to_numpy()
    np.testing.assert_allclose(streamed, model.predict(rows[NEW]), rtol=1e-5)
    for later in (None, FOREST):
        model.set_params(estimator=later)
        np.testing.assert_array_equal(model.predict(rows[NEW]), model.estimator_.predict(rows[NEW]))


@pytest.mark.exhaustive
def test_conformal_intervals_of_held_out_rows_keep_their_promise():
    covered = []
    for seed in range(12):
        rows = 256 + np.random.default_rng(seed).permutation(256)
        model = frozen(law="conformal", counts="held_out", random_state=0)
        covered.append(coverage(model.fit(X[rows[:99]], Y[rows[:99]], groups=range(99)), rows[99:]))
    assert 0.88 < np.mean(covered) < 0.94


@pytest.mark.room
def test_frames_sparse_rows_and_missing_values():
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)])
    plain = UncertainForestRegressor(FOREST).fit(X[TRAIN], Y[TRAIN]).predict_interval(X[NEW])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = UncertainForestRegressor(FOREST).fit(frame[TRAIN], Y[TRAIN])
        np.testing.assert_array_equal(named.predict_interval(frame[NEW]), plain)
        again = frozen(clone(FOREST).fit(frame[TRAIN], Y[TRAIN]))
        np.testing.assert_array_equal(again.fit(frame[TRAIN], Y[TRAIN]).predict_interval(frame[NEW]), plain)
        assert again.predict(frame[NEW]).shape == (256,)
        for carry in (dict, lambda rows: rows.to_records(index=False), pa.RecordBatch.from_pandas):
            again.fit(carry(frame[TRAIN]), Y[TRAIN])
            np.testing.assert_array_equal(again.predict_interval(carry(frame[NEW])), plain)
    refuses(ValueError, "feature names", named.predict, frame[NEW].rename(columns={"c1": "z"}))
    rows = sparse.csr_matrix(X)
    model = UncertainForestRegressor(FOREST).fit(rows[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict_interval(rows[NEW]), model.predict_interval(X[NEW]))
    np.testing.assert_array_equal(model.predict(rows[NEW]), model.estimator_.predict(X[NEW]))
    holed = X.copy()
    holed[::4, 3] = np.nan
    holed.setflags(write=False)  # as memory that is mapped from a file
    model = UncertainForestRegressor(FOREST).fit(holed[TRAIN], Y[TRAIN])
    assert np.isfinite(model.predict(holed[NEW], quantiles=LEVELS)).all()
    np.testing.assert_allclose(model.predict_uncertainty(holed[NEW]).mean, model.predict(holed[NEW]), rtol=1e-5)


@pytest.mark.exhaustive
def test_a_pipeline_and_a_search():
    words = np.where(X[TRAIN, 0] > 0.5, "red", "blue")
    frame = pd.DataFrame(X[TRAIN], columns=[f"x{j}" for j in range(X.shape[1])]).assign(word=words)
    encoded = ColumnTransformer([("word", OneHotEncoder(), ["word"])], remainder="passthrough")
    whole = make_pipeline(encoded, UncertainForestRegressor(FOREST, random_state=0)).fit(frame, Y[TRAIN])
    rows, last = encoded.transform(frame), whole[-1]
    np.testing.assert_array_equal(whole.predict(frame, quantiles=LEVELS), last.predict(rows, quantiles=LEVELS))
    np.testing.assert_array_equal(whole.predict(frame, return_std=True)[1], last.predict_uncertainty(rows).std)
    score = lambda model, X, y: -float(interval_score(model.predict_interval(X), y))
    asked = {"law": ["learned", "bins"], "estimator__min_samples_leaf": [5]}
    search = GridSearchCV(UncertainForestRegressor(FOREST), asked, cv=2, scoring=score).fit(X[TRAIN], Y[TRAIN])
    assert search.best_estimator_.estimator_.min_samples_leaf == 5
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.room
def test_a_fit_that_breaks_off_leaves_what_was_there(monkeypatch):
    """At each step: before the forest, within it, and in the law, which is last."""
    model = UncertainForestRegressor(FOREST).fit(X[TRAIN], Y[TRAIN])
    before = dict(vars(model))
    broken = [(X[:9, :4], np.r_[np.nan, Y[:8]]), (X[:90, :4], Y[:90]), (X[:1], Y[:1])]
    monkeypatch.setattr(_forest_numbers, "fit_law", lambda *_, **__: 1 / 0)
    for rows, target in broken:
        for one in (model, new := UncertainForestRegressor(FOREST)):
            with pytest.raises((ValueError, ZeroDivisionError)):
                one.fit(rows, target)
        assert not [name for name in vars(new) if name.endswith("_")]
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is part for name, part in before.items())


@pytest.mark.parametrize("law", LAWS)
def test_a_constant_target_is_certain(law):
    model = UncertainForestRegressor(FOREST, law=law).fit(X[TRAIN], np.full(256, 3.3))
    np.testing.assert_allclose(model.predict_interval(X[NEW]), 3.3, rtol=1e-12)
    np.testing.assert_allclose(model.predict_uncertainty(X[NEW]).std, 0, atol=1e-13)


MOSTLY_0 = np.where(np.random.default_rng(0).random(512) < 0.85, 0.0, np.exp(Y / 8))
ODD_TARGETS = [pytest.param(MOSTLY_0, 0.85, 1.01, marks=pytest.mark.room, id="0"), pytest.param(1e8 + Y, 0.83, 0.99)]


@pytest.mark.parametrize(("target", "least", "most"), ODD_TARGETS)
def test_odd_targets(target, least, most):
    model = UncertainForestRegressor(FOREST).fit(X[TRAIN], target[TRAIN])
    low, high = model.predict_interval(X[NEW]).T
    assert np.isfinite([low, high]).all()
    assert least < ((low <= target[NEW]) & (target[NEW] <= high)).mean() < most
    assert target is MOSTLY_0 or 0.1 < np.median(model.predict_uncertainty(X[NEW]).aleatoric) < 40


@pytest.mark.room
def test_rows_that_every_tree_has_seen_are_left_out():
    few = RandomForestRegressor(2, max_leaf_nodes=30, random_state=0)
    model = UncertainForestRegressor(few).fit(X[TRAIN], Y[TRAIN])
    assert len(model.law_.residuals) == oob_mask(model.estimator_, 256).any(axis=1).sum() < 256
    twice, y = np.concatenate([X[:20]] * 8), np.tile(Y[:20], 8)
    with pytest.warns(UserWarning, match="no residual is known"):
        all_seen = UncertainForestRegressor(few).fit(twice, y, groups=np.zeros(160))
    assert all_seen.law_.weight == 0
    for law in ("residuals", "neighbours"):
        refuses(ValueError, "held_out", UncertainForestRegressor(few, law=law).fit, twice, y, groups=np.zeros(160))


def test_groups_are_held_out_together_and_a_handful_of_residuals_is_told():
    groups = np.arange(256) // 2
    model = UncertainForestRegressor(FOREST, counts="held_out", random_state=0).fit(X[TRAIN], Y[TRAIN], groups=groups)
    assert len(model.law_.residuals) == 52
    assert len(frozen().fit(X[TRAIN], Y[TRAIN], groups=groups).law_.residuals) < 256
    with pytest.warns(UserWarning, match="the law is fitted to 5 rows"):
        frozen(counts="held_out").fit(X[300:305], Y[300:305])


fit = lambda forest=FOREST, X=X, y=Y, **settings: lambda: UncertainForestRegressor(forest, **settings).fit(X, y)
fit_frozen = lambda forest, X=X, y=Y, **settings: fit(FrozenEstimator(forest), X, y, **settings)
mean_of = lambda model: lambda X: model.predict_distribution(X).mean
AROUND = TransformedTargetRegressor
test_refusals = refusals(
    ("n_bins", fit(n_bins=1), "n_bins"),
    ("support in words", fit(support="positive"), "support='positive' is no number", TypeError),
    ("one end", fit(support=[0.0]), r"support=\[0.0\] must be two numbers in their order"),
    ("ends in disorder", fit(support=(1, 0)), r"support=\(1, 0\) must be two numbers in their order"),
    ("an end of NaN", fit(support=(np.nan, 0)), "must be two numbers in their order"),
    ("a target outside", fit(y=np.r_[Y[:5], -90, Y[6:]], support=(-80, np.inf)), "y holds -90 in row 5, outside"),
    ("held_out_size", fit(held_out_size=1.0), "held_out_size"),
    ("a class", fit(RandomForestRegressor), "no model of scikit-learn", TypeError),
    ("a classifier", fit(RandomForestClassifier()), "predicts classes", TypeError),
    ("a pipeline of a classifier", fit(make_pipeline(RandomForestClassifier())), "predicts classes", TypeError),
    ("a pipeline without a model", fit(make_pipeline(OneHotEncoder(), "passthrough")), "last step is 'pass", TypeError),
    ("two transforms", fit(AROUND(AROUND(FOREST))), "make one of both", TypeError),
    ("no bags", fit(ExtraTreesRegressor(), counts="oob"), "bootstrap=True"),
    ("no bags of neighbours", fit(ExtraTreesRegressor(), law="neighbours", counts="oob"), "bootstrap=True"),
    ("another order", fit_frozen(FITTED, X[TRAIN][::-1], Y[TRAIN][::-1]), "in their order"),
    ("other rows", fit_frozen(FITTED), "n=512"),
    ("the forest's rows", fit_frozen(FITTED, X[TRAIN], Y[TRAIN], counts="held_out"), "was grown on"),
    ("a tree", lambda: fit_frozen(DecisionTreeRegressor(max_depth=3).fit(X, Y), counts="held_out")(), "was grown on"),
    ("cross_fit of a fitted forest", fit_frozen(FITTED, counts="cross_fit"), "pass it unfrozen"),
    ("pipelines in a bag", fit(BaggingRegressor(make_pipeline(FOREST), 2)), "BaggingRegressor of Pipeline", TypeError),
    ("complex", fit(y=Y + 1j), "complex", TypeError),
    ("words", fit(y=np.full(512, "1,234")), "y holds words"),
    ("words in X", lambda: fit(X=np.char.add(X.astype(str), "a"))(), "Put a pipeline with an encoder"),
    ("interval", lambda: UncertainForestRegressor().predict_interval(X), "not fitted", NotFittedError),
    ("onnx", lambda: ju.to_onnx(UncertainForestRegressor()), "not fitted"),
    ("huge targets", fit(y=1e160 * Y), "whose squares are none"),
    ("tiny targets", fit(y=1e-300 * Y), "whose squares are none"),
    ("two targets", fit(y=np.c_[Y, Y]), "one model a target"),
    ("NaN", fit(y=np.r_[np.nan, Y[1:]]), "NaN"),
    ("infinite", fit(y=np.r_[np.inf, Y[1:]]), "infinity"),
    ("level", lambda learned: learned.predict(X, quantiles=[0.1, 1.2]), "quantiles"),
    ("level NaN", lambda learned: learned.predict(X, quantiles=[np.nan]), "quantiles"),
    ("two questions", lambda learned: learned.predict(X, quantiles=[0.1], return_std=True), "one at a time"),
    ("coverage", lambda learned: learned.predict_interval(X, coverage=1.0), "coverage"),
    ("coverages", lambda learned: learned.predict_interval(X, coverage=[0.5, 1.0]), "coverage"),
    ("traced distribution", lambda learned: jax.jit(mean_of(learned))(X), "outside of jit", TypeError),
    ("columns", lambda learned: learned.predict(X[:, :4]), "10 features"),
    ("traced", lambda learned: jax.jit(learned.predict)(X), "Ask outside of jit", TypeError),
    ("traced interval", lambda learned: jax.jit(learned.predict_interval)(X), "Ask outside of jit", TypeError),
    ("traced uncertainty", lambda learned: jax.jit(learned.predict_uncertainty)(X), "Ask outside of jit", TypeError),
)

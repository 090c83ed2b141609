"""Regressors of pipelines, on raw columns, and of transformed and whole targets; files keep what they answer."""

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import preprocessing
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.streaming import BatchPredictor
from tests._refusal import refusals

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*gaps in the test:UserWarning")]
RNG = np.random.default_rng(0)
N = 240
RAW = pd.DataFrame({"age": np.where(np.arange(N) % 7, RNG.normal(40, 10, N), np.nan)})
RAW = RAW.assign(job=RNG.choice(["clerk", "cook", "nurse"], N), id=np.arange(N), debt=RNG.normal(size=N))
Y = 3 * RAW["debt"].to_numpy() + 2 * (RAW["job"] == "cook").to_numpy() + RNG.normal(size=N)
OLD, NEW = slice(0, 160), slice(160, N)
CATEGORIES = RAW.drop(columns="id").astype({"job": "category"})
forest = lambda: RandomForestRegressor(8, min_samples_leaf=3, random_state=0)
boosted = lambda: HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, random_state=0)
doubled = lambda frame: frame.assign(debt=2 * frame["debt"])


def columns(frames=False):
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    made = make_column_transformer((encoder, ["job"]), ("passthrough", ["age", "debt"]))
    return made.set_output(transform="pandas") if frames else made


TARGETS = make_column_transformer((preprocessing.TargetEncoder(cv=3), ["job"]), remainder="drop")
MODELS = {
    "forest": lambda: make_pipeline(columns(), forest()),
    "frames inside": lambda: make_pipeline(columns(True), forest()),
    "boosted": lambda: make_pipeline(columns(), boosted()),
    "boosted, frames inside": lambda: make_pipeline(columns(True), boosted()),
    "nested": lambda: Pipeline([("debt", FunctionTransformer(doubled)), ("rest", make_pipeline(columns(), forest()))]),
    "targets": lambda: make_pipeline(clone(TARGETS), forest()),
}
uncertain = lambda model, **settings: UncertainForestRegressor(model, **{"random_state": 0, **settings})


@pytest.mark.parametrize("counts", ["auto", "held_out", "cross_fit"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.exhaustive(keep=5)
def test_answers_are_those_of_the_pipeline(name, counts):
    model = uncertain(MODELS[name](), counts=counts, held_out_size=0.25).fit(RAW, Y)
    expected = model.estimator_.predict(RAW)
    for rows in (RAW, RAW[RAW.columns[::-1]]):
        np.testing.assert_array_equal(model.predict(rows), expected)
    np.testing.assert_allclose(model.moments_.answer(model._instances(RAW)).mean, expected, rtol=1e-4)
    low, high = model.predict_interval(RAW).T
    assert np.mean((low <= Y) & (high >= Y)) > 0.75
    assert model.predict(RAW[:0]).shape == (0,)
    assert model.feature_names_in_.tolist() == RAW.columns.tolist()


@pytest.mark.parametrize("name", ["forest", "frames inside", "boosted"])
def test_a_frozen_pipeline_is_read_as_its_model_is(name):
    whole = MODELS[name]().fit(RAW[OLD], Y[OLD])
    rows, part = whole[:-1].transform(RAW), NEW if "boosted" in name else OLD
    raw = uncertain(FrozenEstimator(whole)).fit(RAW[part], Y[part])
    plain = uncertain(FrozenEstimator(whole[-1])).fit(rows[part], Y[part])
    np.testing.assert_array_equal(raw.predict_interval(RAW), plain.predict_interval(rows))
    np.testing.assert_array_equal(raw.predict(RAW), whole.predict(RAW))


class Seen(BaseEstimator, TransformerMixin):
    """Makes 0 of the rows that it was fitted to, and 1 of others."""

    def fit(self, X, y=None):
        self.ids_ = np.asarray(X["id"])
        return self

    def transform(self, X):
        return np.column_stack([~np.isin(X["id"], self.ids_), X["debt"]]).astype(float)


@pytest.mark.parametrize(("model", "counts"), [(forest, "cross_fit"), (boosted, "cross_fit"), (boosted, "held_out")])
def test_transformers_do_not_see_the_rows_that_are_ranked(model, counts, monkeypatch):
    read, transform = [], Seen.transform
    monkeypatch.setattr(Seen, "transform", lambda self, X: read.append(transform(self, X)[:, 0]) or transform(self, X))
    model = uncertain(make_pipeline(Seen(), model()), counts=counts, held_out_size=0.25)
    model.fit(RAW, Y, groups=range(N))
    unseen = [int(rows.sum()) for rows in read if rows.all()]
    assert sum(unseen) >= (N if counts == "cross_fit" else N // 5)


def test_copies_are_those_of_the_rows_that_come_to_the_forest():
    twice = pd.concat([RAW, RAW.assign(id=N + RAW["id"])])
    with pytest.warns(UserWarning, match="240 of 480 rows repeat others"):
        uncertain(MODELS["forest"](), counts="held_out").fit(twice, np.tile(Y, 2))


@pytest.mark.parametrize("frozen", [True, False])
def test_categories_that_a_library_splits_itself(frozen):
    frame = CATEGORIES
    whole = make_pipeline(FunctionTransformer(doubled), boosted())
    for model in (whole, boosted()):
        given, rows = (FrozenEstimator(model.fit(frame[OLD], Y[OLD])), NEW) if frozen else (model, slice(None))
        made = uncertain(given).fit(frame[rows], Y[rows])
        np.testing.assert_array_equal(made.predict(frame), made.estimator_.predict(frame))
        np.testing.assert_allclose(made.moments_.answer(made._instances(frame)).mean, made.predict(frame), rtol=1e-4)


@pytest.mark.exhaustive
def test_lightgbm_and_its_categories(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    gbm = lightgbm.LGBMRegressor(n_estimators=8, num_leaves=6, verbose=-1)
    frame = CATEGORIES
    made = uncertain(gbm).fit(frame, Y)
    np.testing.assert_array_equal(made.predict(frame), made.estimator_.predict(frame))
    np.testing.assert_allclose(made.moments_.answer(frame).mean, made.predict(frame), rtol=1e-4)
    encoded = uncertain(make_pipeline(columns(True), gbm)).fit(RAW, Y)
    close = 1e6 + 0.3 * RNG.random((N, 2))  # which float32 does not tell apart
    doubles = uncertain(gbm).fit(close, close[:, 0] - 1e6 + 0.01 * Y)
    for model, table in ((made, frame), (encoded, RAW), (doubles, close)):
        ju.save(tmp_path / "m", model)
        np.testing.assert_allclose(ju.load(tmp_path / "m").predict_interval(table), model.predict_interval(table))


@pytest.mark.parametrize("name", ["forest", "boosted, frames inside"])
def test_files_answer_raw_columns_by_their_names(name, tmp_path, capsys):
    model = uncertain(MODELS[name]()).fit(RAW, Y)
    ju.save(tmp_path / "m", model)
    loaded, ends = ju.load(tmp_path / "m"), model.predict_interval(RAW)
    np.testing.assert_array_equal(loaded.predict_interval(RAW), ends)
    np.testing.assert_allclose(loaded.predict(RAW), model.predict(RAW), rtol=1e-5)
    other = RAW[["debt", "job", "age"]]
    other.to_csv(tmp_path / "x.csv", index=False)
    for source in (other, tmp_path / "x.csv"):
        tables = pa.concat_tables(list(ju.stream(model, source, chunk_rows=100))).to_pandas()
        np.testing.assert_allclose(tables[["lower", "upper"]], ends, rtol=1e-5)
    np.testing.assert_allclose(BatchPredictor(tmp_path / "m")(other)[["lower", "upper"]], ends, rtol=1e-5)
    out = tmp_path / "out.parquet"
    main(["predict", str(tmp_path / "m"), str(tmp_path / "x.csv"), "--output", str(out), "--quiet"])
    np.testing.assert_allclose(pd.read_parquet(out)[["lower", "upper"]], ends, rtol=1e-5)
    main(["inspect", str(tmp_path / "m")])
    assert "columntransformer: ColumnTransformer" in capsys.readouterr().out


def test_a_pickled_pipeline_is_taken_over(tmp_path, capsys):
    data, pickled, made = (str(tmp_path / name) for name in ("rows.csv", "pipe", "m"))
    of_forest, of_boosted = MODELS["forest"](), MODELS["boosted"]()
    for whole, part in ((of_forest, OLD), (of_boosted, NEW), (around(of_forest, "power"), OLD)):
        RAW.assign(price=Y)[part].to_csv(data, index=False)
        joblib.dump(whole.fit(RAW[OLD], Y[OLD]), pickled)
        main(["fit", data, "--target", "price", "--trust", "--import", pickled, "--output", made])
        assert "numbers from" in capsys.readouterr().out
        ends = uncertain(FrozenEstimator(whole)).fit(RAW[part], Y[part]).predict_interval(RAW)
        np.testing.assert_allclose(ju.load(made).predict_interval(RAW), ends, rtol=1e-5)


def test_a_transform_around():
    model = uncertain(MODELS["boosted"]())
    whole = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(RAW, np.exp(Y))
    np.testing.assert_allclose(whole.predict(RAW), np.exp(whole.regressor_.predict(RAW)))
    ends = whole.predict(RAW, quantiles=[0.05, 0.95])
    np.testing.assert_allclose(ends, np.exp(whole.regressor_.predict_interval(RAW)))
    assert whole.predict(RAW, quantiles=0.5).shape == (N,)


class Sampler(BaseEstimator):
    def fit_resample(self, X, y):
        return X, y


@pytest.fixture(scope="module")
def fitted():
    return uncertain(FrozenEstimator(MODELS["boosted"]().fit(RAW[OLD], Y[OLD]))).fit(RAW[NEW], Y[NEW])


fit = lambda make, **settings: lambda: UncertainForestRegressor(make(), **settings).fit(RAW, Y)
half_fitted = lambda: make_pipeline(columns(), FrozenEstimator(forest().fit(RAW[["debt"]], Y)))
seen = lambda name: lambda: FrozenEstimator(MODELS[name]().fit(RAW, Y))
sampled = lambda: Pipeline([("more", Sampler()), ("forest", forest())])
test_refusals = refusals(
    ("a sampler", fit(sampled), "makes or drops rows", TypeError),
    ("words", fit(lambda: make_pipeline(FunctionTransformer(doubled), forest())), "leave words for the forest"),
    ("seen", fit(seen("boosted")), "rows that this frozen model was grown"),
    ("seen by bags", fit(seen("forest"), counts="held_out"), "was grown on"),
    ("steps without a fit", fit(half_fitted), "not fitted"),
    ("other types", lambda fitted: fitted.predict(RAW.assign(debt="x")), "holds words, and held", TypeError),
    ("no column", lambda fitted: fitted.predict(RAW.drop(columns="job")), "missing"),
)


# Transformed and whole targets: all answers are those of one map of the quantiles.

DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(N, 3)).astype(np.float32)
PRICE = np.exp(0.4 * X[:, 0] + 0.3 * DRAWN.normal(size=N) + 1)
COUNTS = DRAWN.poisson(PRICE).astype(float)
LEVELS = [0.05, 0.5, 0.9]
LIMITS = np.tile([-50.0, 0.0, 2.5, 1e6], (80, 1))
FOREST, BOOSTED = forest(), boosted()
FALLING = make_pipeline(FunctionTransformer(np.log, np.exp), FunctionTransformer(np.negative, np.negative))
TRANSFORMS = {
    "log1p": {"func": np.log1p, "inverse_func": np.expm1},
    "falling": {"transformer": FALLING},
    "own": {"func": np.cbrt, "inverse_func": lambda t: t**3},
    "power": {"transformer": preprocessing.PowerTransformer()},
    "ranks": {"transformer": preprocessing.QuantileTransformer(n_quantiles=40, output_distribution="normal")},
}
around = lambda model, name="log1p": TransformedTargetRegressor(model, **TRANSFORMS[name])


def check_one_law(found, y):
    """All that a distribution says follows from its quantiles at many levels, for which these stand here."""
    levels = (np.arange(4000) + 0.5) / 4000
    q = np.sort(found._at(np.tile(levels, (len(found), 1))).clip(*found._support), axis=1)
    middle = found.quantile(0.5)
    assert ((found.cdf(middle) >= 0.5 - 1e-9) & (found.exceeds(middle) <= 0.5 + 1e-9)).all()
    np.testing.assert_allclose(found.exceeds(LIMITS), (q[:, None] > LIMITS[:1, :, None]).mean(2), atol=1e-3)
    scale = q.std(axis=1)
    np.testing.assert_allclose(found.mean, q.mean(axis=1), atol=0.02 * scale.max())
    np.testing.assert_allclose(found.std, scale, rtol=0.05)
    crps = 2 * ((levels - (y[:, None] < q)) * (y[:, None] - q)).mean(axis=1)
    np.testing.assert_allclose(found.crps(y), crps, atol=0.01 * scale.max())
    draws = found.sample(0, 500)
    np.testing.assert_allclose(np.median(draws, axis=1), middle, atol=scale.max())
    assert (draws >= q[:, :1] - 1e-9 * abs(q[:, :1]) - scale[:, None]).all()


def back(transformer, t):
    """Targets of what was transformed; none of none."""
    known, made = ~np.isnan(t), np.full(t.shape, np.nan)
    made[known] = transformer.inverse_transform(t[known][:, None])[:, 0]
    return made


CASES = [
    *((name, FOREST, {}) for name in TRANSFORMS),
    ("log1p", FOREST, {"law": "bins"}),
    ("falling", FOREST, {"law": "neighbours"}),
    ("falling", FOREST, {"law": "conformal"}),
    ("log1p", BOOSTED, {"random_state": 0}),
    ("falling", BOOSTED, {"law": "conformal", "random_state": 0}),
]


@pytest.mark.parametrize(("name", "model", "settings"), CASES)
@pytest.mark.exhaustive(keep=6)
def test_a_transform_inside(name, model, settings):
    found = UncertainForestRegressor(around(model, name), **settings).fit(X[OLD], PRICE[OLD])
    whole, falls = around(model, name).fit(X[OLD], PRICE[OLD]), name == "falling"
    steps = whole.transformer_
    plain = UncertainForestRegressor(model, **settings).fit(X[OLD], steps.transform(PRICE[OLD, None])[:, 0])
    expected = back(steps, plain.predict(X[NEW], quantiles=[1 - level for level in LEVELS] if falls else LEVELS))
    np.testing.assert_allclose(found.predict(X[NEW], quantiles=LEVELS), expected, rtol=1e-9)
    if "random_state" not in settings:
        np.testing.assert_allclose(found.predict(X[NEW]), whole.predict(X[NEW]))
    np.testing.assert_allclose(found.predict(X[NEW]), back(steps, plain.predict(X[NEW])))
    ends = plain.predict_interval(X[NEW], [0.5, 0.8])[..., :: -1 if falls else 1]
    np.testing.assert_allclose(found.predict_interval(X[NEW], [0.5, 0.8]), back(steps, ends), rtol=1e-9)
    distribution = found.predict_distribution(X[NEW])
    np.testing.assert_array_equal(found.predict(X[NEW], return_std=True)[1], distribution.std)
    if settings.get("law") != "conformal":
        check_one_law(distribution, PRICE[NEW])
    if found.oob_distribution_ is not None:
        ends = back(steps, plain.oob_distribution_.interval(0.8)[:, :: -1 if falls else 1])
        np.testing.assert_allclose(found.oob_distribution_.interval(0.8), ends, rtol=1e-9)
        assert np.isfinite(found.oob_distribution_.mean).any()


WHOLES = {
    "in a pipeline": lambda: make_pipeline(StandardScaler(), around(FOREST)),
    "around a pipeline": lambda: around(make_pipeline(StandardScaler(), FOREST)),
    "both": lambda: make_pipeline(StandardScaler(), around(make_pipeline(StandardScaler(), BOOSTED))),
}


def test_functions_around_a_frozen_model():
    """They have nothing to fit, so it is the same as the whole that came fitted."""
    functions = {"func": np.log, "inverse_func": np.exp}
    whole = TransformedTargetRegressor(FOREST, **functions).fit(X[OLD], PRICE[OLD])
    around_frozen = TransformedTargetRegressor(FrozenEstimator(whole.regressor_), **functions)
    models = FrozenEstimator(whole), around_frozen
    same, other = (UncertainForestRegressor(model).fit(X[OLD], PRICE[OLD]) for model in models)
    np.testing.assert_array_equal(other.predict_interval(X[NEW]), same.predict_interval(X[NEW]))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", WHOLES)
def test_a_transform_in_pipelines(name, frozen, tmp_path):
    whole = WHOLES[name]()
    fitted = clone(whole).fit(X[OLD], PRICE[OLD])
    rows = NEW if frozen and name == "both" else OLD
    model = UncertainForestRegressor(FrozenEstimator(fitted) if frozen else whole).fit(X[rows], PRICE[rows])
    np.testing.assert_allclose(model.predict(X[NEW]), fitted.predict(X[NEW]))
    assert clone(model).get_params()["law"] == "learned"
    low, high = model.predict_interval(X[NEW]).T
    assert 0.7 < ((low <= PRICE[NEW]) & (PRICE[NEW] <= high)).mean() <= 1
    ju.save(tmp_path / "m", model)
    loaded = ju.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_interval(X[NEW]), model.predict_interval(X[NEW]))
    np.testing.assert_allclose(loaded.predict(X[NEW]), model.predict(X[NEW]), rtol=1e-5)
    again = clone(loaded).fit(X[OLD], PRICE[OLD])
    np.testing.assert_array_equal(again.law_.target_map.steps, model.law_.target_map.steps)
    ju.save(tmp_path / "m", again)


def test_held_out_targets_fit_no_transformer():
    """With rows held out, the transformer is fitted to the others alone; a promise of coverage needs that."""
    scaled = TransformedTargetRegressor(FOREST, transformer=StandardScaler())
    settings = {"law": "conformal", "counts": "held_out", "held_out_size": 0.4, "random_state": 0, "coverage_by": 2}
    rows = np.c_[X[:, :2], np.arange(N) % 2]
    model = UncertainForestRegressor(scaled, **settings).fit(rows, PRICE)
    ((_, scale, shift),) = model.law_.target_map.steps
    assert min(abs(scale / PRICE.std() - 1), abs(shift / PRICE.mean() - 1)) > 1e-6
    low, high = model.predict_interval(rows, 0.5).T
    assert (low < high).all()
    assert all(0.85 <= share <= 1 for _, share in model.coverage_by_value_.values())


def test_files_and_streams_of_transformed_targets(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    new, model = table[NEW], UncertainForestRegressor(around(FOREST), support=(0.0, np.inf))
    model.fit(table[OLD], PRICE[OLD])
    ju.save(tmp_path / "m", model)
    new.to_csv(tmp_path / "new.csv", index=False)
    options = ["--outputs", "mean", "std", "interval", "exceeds", "quantile", "--limit", "2.5", "--quantiles", "0.9"]
    main(["predict", str(tmp_path / "m"), str(tmp_path / "new.csv"), "--output", str(tmp_path / "out"), *options])
    written = pd.read_parquet(tmp_path / "out")
    distribution = model.predict_distribution(new)
    expected = {"mean": model.predict(new), "std": distribution.std, "quantile_0.9": distribution.quantile(0.9)}
    expected |= dict(zip(("lower", "upper"), distribution.interval().T, strict=True))
    for column, values in (expected | {"exceeds_2.5": distribution.exceeds(2.5)}).items():
        np.testing.assert_allclose(written[column], values, rtol=1e-5, atol=1e-6)
    served = BatchPredictor(tmp_path / "m", outputs=["mean"])(new)
    np.testing.assert_allclose(served["mean"], written["mean"], rtol=1e-6)
    shares = ju.explain(model, None, new[:2])  # of the transformed mean
    total = np.asarray(shares.values)[..., 0].sum(axis=1) + np.asarray(shares.base)[..., 0]
    np.testing.assert_allclose(total, model.moments_.answer(new[:2].to_numpy()).mean, rtol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"law": "bins"}, {"law": "conformal"}, {"estimator": around(FOREST)}])
def test_whole_targets(settings, tmp_path):
    settings = {"estimator": FOREST} | settings
    y, levels = 2 * COUNTS, [0.05, 0.3, 0.5, 0.95]  # steps of two
    of = lambda *support: UncertainForestRegressor(support=support, **settings).fit(X[OLD], y[OLD])
    any_number, whole = of(0, np.inf), of(0, np.inf, 2)
    quantiles = whole.predict(X[NEW], quantiles=levels)
    np.testing.assert_array_equal(quantiles, 2 * np.rint(any_number.predict(X[NEW], quantiles=levels) / 2))
    (low, high), (low_of_any, high_of_any) = (model.predict_interval(X[NEW]).T for model in (whole, any_number))
    held = (low_of_any <= y[NEW]) & (y[NEW] <= high_of_any)
    assert ((low <= y[NEW]) & (y[NEW] <= high))[held].all()
    found = whole.predict_distribution(X[NEW])
    if settings.get("law") != "conformal":
        check_one_law(found, y[NEW])
        # The least target whose cdf reaches a level is its quantile.
        assert (found.cdf(quantiles) >= np.array(levels) - 1e-9).all()
        assert (found.cdf(quantiles - 2) < np.array(levels))[quantiles > 0].all()
    limits = np.tile([-1.0, 3.9, 4.0, 5.5, 7.0], (80, 1))
    np.testing.assert_array_equal(found.cdf(limits), found.cdf(2 * np.floor(limits / 2)))
    np.testing.assert_array_equal(found.exceeds(limits), 1 - found.cdf(limits))
    assert (found.sample(0, 9) % 2 == 0).all()
    np.testing.assert_array_equal(whole.predict(X[NEW]), any_number.predict(X[NEW]))
    ju.save(tmp_path / "m", whole)
    loaded = ju.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X[NEW], quantiles=levels), quantiles)
    assert loaded.support == (0, np.inf, 2)


fit_on = lambda estimator=FOREST, y=PRICE, **settings: lambda: UncertainForestRegressor(estimator, **settings).fit(X, y)
of_functions = lambda there, back=None: TransformedTargetRegressor(FOREST, func=there, inverse_func=back)


half = lambda: TransformedTargetRegressor(FrozenEstimator(FOREST.fit(X, PRICE)), transformer=StandardScaler())
exported = lambda: pytest.importorskip("onnx") and ju.to_onnx(fit_on(around(FOREST))())
test_prices_refused = refusals(
    ("own functions in a file", lambda: ju.save("m", fit_on(around(FOREST, "own"))()), "cannot name", TypeError),
    ("no finite number", fit_on(of_functions(np.log, np.exp), np.r_[0.0, PRICE[1:]]), "y holds 0, which the transform"),
    ("no inverse", fit_on(of_functions(np.log)), "pass func and inverse_func, or a trans"),
    ("no order", fit_on(of_functions(np.sin, np.arcsin)), "neither rises nor"),
    ("a frozen model inside", lambda: fit_on(half())(), "freeze the whole"),
    ("a transform that is not fitted", fit_on(FrozenEstimator(around(FOREST))), "not fitted"),
    ("a target off the steps", fit_on(support=(0, np.inf, 1)), r"y holds \S+ in row 0, which steps of 1 do not"),
    ("half steps", fit_on(support=(0, np.inf, 0.5)), "a step that is no whole number"),
    ("ends off the steps", fit_on(support=(0.5, np.inf, 1)), "or ends that are none"),
    (
        "an end between steps",
        fit_on(support=(0, 5, 2)),
        "which steps of 2 from 0 on do not reach; end it at 4",
    ),
    ("four numbers", fit_on(support=(0, 9, 1, 1)), "must be two numbers in their order"),
    ("onnx", exported, "fitted to transformed targets"),
)

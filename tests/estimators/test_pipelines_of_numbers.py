"""Regressors of pipelines: on raw columns they answer as the model does on what comes to it, and files keep that."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, TargetEncoder

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.streaming import BatchPredictor
from tests._refusal import refusals

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*gaps in the test:UserWarning")]
RNG = np.random.default_rng(0)
N = 240
RAW = pd.DataFrame(
    {
        "age": np.where(np.arange(N) % 7, RNG.normal(40, 10, N), np.nan),
        "job": RNG.choice(["clerk", "cook", "nurse"], N),
        "id": np.arange(N),
        "debt": RNG.normal(size=N),
    }
)
Y = 3 * RAW["debt"].to_numpy() + 2 * (RAW["job"] == "cook").to_numpy() + RNG.normal(size=N)
OLD, NEW = slice(0, 160), slice(160, N)
CATEGORIES = RAW.drop(columns="id").astype({"job": "category"})


def forest(**settings):
    return RandomForestRegressor(8, min_samples_leaf=3, random_state=0, **settings)


def boosted(**settings):
    return HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, random_state=0, **settings)


def columns(frames=False):
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    made = make_column_transformer((encoder, ["job"]), ("passthrough", ["age", "debt"]))
    return made.set_output(transform="pandas") if frames else made


MODELS = {
    "forest": lambda: make_pipeline(columns(), forest()),
    "frames inside": lambda: make_pipeline(columns(True), forest()),
    "boosted": lambda: make_pipeline(columns(), boosted()),
    "boosted, frames inside": lambda: make_pipeline(columns(True), boosted()),
    "nested": lambda: Pipeline([("debt", FunctionTransformer(doubled)), ("rest", make_pipeline(columns(), forest()))]),
    "targets": lambda: make_pipeline(
        make_column_transformer((TargetEncoder(cv=3), ["job"]), remainder="drop"), forest()
    ),
}


def doubled(frame):
    return frame.assign(debt=2 * frame["debt"])


@pytest.mark.parametrize("counts", ["auto", "held_out", "cross_fit"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.exhaustive(keep=5)
def test_answers_are_those_of_the_pipeline(name, counts):
    model = UncertainForestRegressor(MODELS[name](), counts=counts, held_out_size=0.25, random_state=0).fit(RAW, Y)
    expected = model.estimator_.predict(RAW)
    np.testing.assert_array_equal(model.predict(RAW), expected)
    np.testing.assert_array_equal(model.predict(RAW[RAW.columns[::-1]]), expected)
    np.testing.assert_allclose(model.moments_.answer(model._instances(RAW)).mean, expected, rtol=1e-4)
    low, high = model.predict_interval(RAW).T
    assert np.mean((low <= Y) & (high >= Y)) > 0.75
    assert model.predict(RAW[:0]).shape == (0,)
    assert model.feature_names_in_.tolist() == RAW.columns.tolist()


@pytest.mark.parametrize("name", ["forest", "frames inside", "boosted"])
def test_a_frozen_pipeline_is_read_as_its_model_is(name):
    whole = MODELS[name]().fit(RAW[OLD], Y[OLD])
    rows = whole[:-1].transform(RAW)
    part = slice(0, 160) if "boosted" not in name else NEW
    raw = UncertainForestRegressor(FrozenEstimator(whole), random_state=0).fit(RAW[part], Y[part])
    plain = UncertainForestRegressor(FrozenEstimator(whole[-1]), random_state=0).fit(rows[part], Y[part])
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
    read = []
    transform = Seen.transform
    monkeypatch.setattr(Seen, "transform", lambda self, X: read.append(transform(self, X)[:, 0]) or transform(self, X))
    settings = {"counts": counts, "held_out_size": 0.25, "random_state": 0}
    UncertainForestRegressor(make_pipeline(Seen(), model()), **settings).fit(RAW, Y, groups=range(N))
    unseen = [int(rows.sum()) for rows in read if rows.all()]
    assert sum(unseen) >= (N if counts == "cross_fit" else N // 5)


def test_copies_are_those_of_the_rows_that_come_to_the_forest():
    twice = pd.concat([RAW, RAW.assign(id=N + RAW["id"])])
    with pytest.warns(UserWarning, match="240 of 480 rows repeat others"):
        UncertainForestRegressor(MODELS["forest"](), counts="held_out").fit(twice, np.tile(Y, 2))


@pytest.mark.parametrize("frozen", [True, False])
def test_categories_that_a_library_splits_itself(frozen):
    frame = CATEGORIES
    whole = make_pipeline(FunctionTransformer(doubled), boosted())
    for model in (whole, boosted()):
        given, rows = (FrozenEstimator(model.fit(frame[OLD], Y[OLD])), NEW) if frozen else (model, slice(None))
        made = UncertainForestRegressor(given, random_state=0).fit(frame[rows], Y[rows])
        np.testing.assert_array_equal(made.predict(frame), made.estimator_.predict(frame))
        np.testing.assert_allclose(made.moments_.answer(made._instances(frame)).mean, made.predict(frame), rtol=1e-4)


@pytest.mark.exhaustive
def test_lightgbm_and_its_categories(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    gbm = lightgbm.LGBMRegressor(n_estimators=8, num_leaves=6, verbose=-1)
    frame = CATEGORIES
    made = UncertainForestRegressor(gbm, random_state=0).fit(frame, Y)
    np.testing.assert_array_equal(made.predict(frame), made.estimator_.predict(frame))
    np.testing.assert_allclose(made.moments_.answer(frame).mean, made.predict(frame), rtol=1e-4)
    encoded = UncertainForestRegressor(make_pipeline(columns(True), gbm), random_state=0).fit(RAW, Y)
    close = 1e6 + 0.3 * RNG.random((N, 2))  # which float32 does not tell apart
    doubles = UncertainForestRegressor(gbm, random_state=0).fit(close, close[:, 0] - 1e6 + 0.01 * Y)
    for model, table in ((made, frame), (encoded, RAW), (doubles, close)):
        ju.save(tmp_path / "m", model)
        np.testing.assert_allclose(ju.load(tmp_path / "m").predict_interval(table), model.predict_interval(table))


@pytest.mark.parametrize("name", ["forest", "boosted, frames inside"])
def test_files_answer_raw_columns_by_their_names(name, tmp_path, capsys):
    model = UncertainForestRegressor(MODELS[name](), random_state=0).fit(RAW, Y)
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
    joblib = pytest.importorskip("joblib")
    table = RAW.assign(price=Y)
    table[OLD].to_csv(tmp_path / "old.csv", index=False)
    table[NEW].to_csv(tmp_path / "new.csv", index=False)
    for name, data, part in (("forest", "old.csv", OLD), ("boosted", "new.csv", NEW)):
        whole = MODELS[name]().fit(RAW[OLD], Y[OLD])
        joblib.dump(whole, tmp_path / "pipe")
        paths = {"--import": tmp_path / "pipe", "--output": tmp_path / "m"}
        named = [str(part) for pair in paths.items() for part in pair]
        main(["fit", str(tmp_path / data), "--target", "price", "--trust", *named])
        assert "numbers from" in capsys.readouterr().out
        expected = UncertainForestRegressor(FrozenEstimator(whole), random_state=0).fit(RAW[part], Y[part])
        np.testing.assert_allclose(
            ju.load(tmp_path / "m").predict_interval(RAW), expected.predict_interval(RAW), rtol=1e-5
        )


def test_a_transform_around():
    model = UncertainForestRegressor(MODELS["boosted"](), random_state=0)
    whole = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(RAW, np.exp(Y))
    np.testing.assert_allclose(whole.predict(RAW), np.exp(whole.regressor_.predict(RAW)))
    ends = whole.predict(RAW, quantiles=[0.05, 0.95])
    np.testing.assert_allclose(ends, np.exp(whole.regressor_.predict_interval(RAW)))
    assert whole.predict(RAW, quantiles=0.5).shape == (N,)


class Sampler(BaseEstimator):
    def fit_resample(self, X, y):
        return X, y


def fit(model, X=RAW, y=Y, **settings):
    return lambda: UncertainForestRegressor(model, **settings).fit(X, y)


def fitted_forest():
    return FrozenEstimator(forest().fit(RAW[["debt"]], Y))


def fitted(name):
    return UncertainForestRegressor(FrozenEstimator(MODELS[name]().fit(RAW[OLD], Y[OLD]))).fit(RAW[NEW], Y[NEW])


test_refusals = refusals(
    ("a sampler", fit(Pipeline([("more", Sampler()), ("forest", forest())])), "makes or drops rows", TypeError),
    ("words", fit(make_pipeline(FunctionTransformer(doubled), forest())), "leave words for the forest"),
    ("seen", lambda: fit(FrozenEstimator(MODELS["boosted"]().fit(RAW, Y)))(), "rows that this frozen model was grown"),
    ("seen by bags", lambda: fit(FrozenEstimator(MODELS["forest"]().fit(RAW, Y)), counts="held_out")(), "was grown on"),
    ("steps without a fit", lambda: fit(make_pipeline(columns(), fitted_forest()))(), "not fitted"),
    ("other types", lambda: fitted("boosted").predict(RAW.assign(debt="x")), "holds words, and held", TypeError),
    ("no column", lambda: fitted("boosted").predict(RAW.drop(columns="job")), "missing"),
)

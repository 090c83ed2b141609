"""Files of raw columns through a classifier with a pipeline: the answers of the classifier itself."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.streaming import BatchPredictor, predict_files
from jaxunc.streaming._raw_chunks import _restore_type
from tests._refusal import refusals, refuses

from ._made import whole, written

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning"),
    pytest.mark.room,
]
N = 130
RNG = np.random.default_rng(0)
RAW = pd.DataFrame(
    {
        "age": np.where(np.arange(N) % 7, RNG.normal(40, 10, N), np.nan),
        "job": RNG.choice(["clerk", " cook", "7", None], N),
        "when": pd.date_range("2020", periods=N),
        "n": RNG.integers(0, 9, N),
        "small": RNG.normal(size=N).astype(np.float32),
        "flag": RNG.random(N) < 0.5,
    }
)
Y = np.where(RAW["age"].fillna(0) > 40, "yes", "no")
WANTED = ["probability_no", "probability_yes"]


def texts(column):
    """Whole numbers are others as texts than floats are: "3", not "3.0"."""
    return column.astype(str) == "3"


def columns(sparse=True):
    parts = [("numbers", SimpleImputer(), ["age", "small"]), ("three", FunctionTransformer(texts), ["n"])]
    parts += [("words", OneHotEncoder(handle_unknown="ignore", sparse_output=sparse), ["job", "flag"])]
    return ColumnTransformer(parts, sparse_threshold=float(sparse))


@cache
def fitted(sparse):
    steps = make_pipeline(columns(sparse), RandomForestClassifier(5, min_samples_leaf=3, random_state=0))
    return CombinedForestClassifier(steps, combiner="mean").fit(RAW, Y)


@pytest.fixture(params=[True, False], ids=["sparse", "dense"])
def model(request):
    return fitted(request.param)


def shown(tables):
    return whole(tables)[WANTED].to_numpy()


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "arrow"])
@pytest.mark.exhaustive(keep=4)
def test_files(kind, model, tmp_path):
    path, expected = tmp_path / f"x.{kind}", model.predict_proba(RAW)
    other = RAW[RAW.columns[::-1]].drop(columns="when").assign(more="?")
    for frame in (RAW, other):
        written(frame, path)
        np.testing.assert_array_equal(shown(ju.stream(model, path, chunk_rows=50)), expected)
        outputs = ["class", "probability", "uncertainty", "interval", "set"]
        np.testing.assert_array_equal(shown(ju.stream(model, path, chunk_rows=17, outputs=outputs)), expected)
    first = itertools.islice(ju.stream(model, path, chunk_rows=1, outputs=outputs), 9)
    np.testing.assert_array_equal(shown(first), expected[:9])
    ju.save(tmp_path / "m", model)
    predict_files(tmp_path / "m", path, tmp_path / "out", keep=["n"], known=[texts], chunk_rows=40)
    found = pd.read_parquet(tmp_path / "out")
    np.testing.assert_array_equal(found[WANTED], expected)
    assert found["n"].astype(int).tolist() == RAW["n"].tolist()


@pytest.mark.exhaustive
def test_memory_and_batches(model, tmp_path):
    expected = model.predict_proba(RAW)
    table = pa.Table.from_pandas(RAW, preserve_index=False)
    coded = table.set_column(1, "job", table["job"].dictionary_encode())
    for source in (RAW, table, coded, {name: RAW[name] for name in RAW}):
        np.testing.assert_array_equal(shown(ju.stream(model, source, chunk_rows=60)), expected)
    ju.save(tmp_path / "m", model)
    scorer = BatchPredictor(tmp_path / "m", known=[texts])
    np.testing.assert_array_equal(scorer(RAW)[WANTED], expected)
    np.testing.assert_array_equal(scorer(RAW[:1])[WANTED], expected[:1])
    assert scorer(RAW[:0]).shape == (0, 3)


@pytest.mark.exhaustive
def test_a_chunk_that_is_all_missing(model, tmp_path):
    gaps = RAW.assign(job=RAW["job"].where(np.arange(N) > 60), age=RAW["age"].where(np.arange(N) > 60))
    expected = model.predict_proba(gaps)
    for name in ("g.csv", "g.parquet"):
        np.testing.assert_array_equal(shown(ju.stream(model, written(gaps, tmp_path / name), chunk_rows=30)), expected)


def read(frame, name):
    return lambda tmp_path: list(ju.stream(fitted(True), written(frame, tmp_path / name)))


test_files_of_other_columns = refusals(
    ("lacking", read(RAW.drop(columns="job"), "x.csv"), r"lacks the columns \['job'\]"),
    ("cells", read(RAW.assign(age="x"), "x.csv"), "row 1 of the data holds 'x' in column 'age'.*column holds numbers"),
    ("words", read(RAW.assign(age="x"), "x.parquet"), "x.parquet: X's column 'age' holds words, and held n", TypeError),
    ("numbers", read(RAW.assign(job=3), "x.parquet"), "x.parquet: X's column 'job' holds numbers, and", TypeError),
)


def test_columns_whose_types_are_not_known(model, tmp_path):
    unread = CombinedForestClassifier(FrozenEstimator(model.estimator_), combiner="mean").fit()
    parquet, text = (written(RAW, tmp_path / name) for name in ("x.parquet", "x.csv"))
    np.testing.assert_array_equal(shown(ju.stream(unread, parquet)), model.predict_proba(RAW))
    untyped = r"'age' held values of a type that fit was not shown .*Pass Parquet .*fit\(X, y\)"
    refuses(TypeError, untyped, lambda: list(ju.stream(unread, text)))
    dated = make_pipeline(FunctionTransformer(days), RandomForestClassifier(3, random_state=0))
    dated = CombinedForestClassifier(dated, combiner="mean").fit(RAW[["when"]], Y)
    np.testing.assert_array_equal(shown(ju.stream(dated, RAW)), dated.predict_proba(RAW[["when"]]))
    refuses(TypeError, "'when' held dates when .*text files have no types", lambda: list(ju.stream(dated, text)))


def days(frame):
    return (frame - pd.Timestamp("2020-01-01")) / pd.Timedelta("1D")


def test_a_pipeline_of_arrays(tmp_path):
    whole = make_pipeline(StandardScaler(), RandomForestClassifier(5, min_samples_leaf=3, random_state=0))
    array = RAW[["n", "small"]].to_numpy(np.float64)
    made = CombinedForestClassifier(whole, combiner="mean").fit(array, Y)
    np.testing.assert_array_equal(shown(ju.stream(made, RAW, features=["n", "small"])), made.predict_proba(array))


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_integers_beyond_the_type_of_the_fit_stay_as_they_are(name, tmp_path):
    narrow = pd.DataFrame({"a": np.arange(100, dtype=np.int8), "b": np.arange(100) % 2 > 0})
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    model = CombinedForestClassifier(pipeline, combiner="mean").fit(narrow, np.where(narrow["a"] > 50, "yes", "no"))
    wide = pd.DataFrame({"a": [10, 90, 300, 266, -200], "b": [0, 1, 0, 1, 0]})
    found = shown(ju.stream(model, written(wide, tmp_path / name)))
    np.testing.assert_array_equal(found, model.predict_proba(wide))


@pytest.mark.parametrize(
    ("raw_type", "values"),
    [
        ("Decimal", [1.0, 2.0]),
        ("Boolean", [0.0, 1.0, 2.0, np.nan]),
        ("Boolean", [0.5, np.nan]),
        ("Int8", [1.0, np.nan]),
    ],
)
def test_values_that_are_not_of_the_type_of_the_fit_stay_as_they_are(raw_type, values):
    pd.testing.assert_series_equal(_restore_type(pd.Series(values), raw_type, "numbers"), pd.Series(values))


ENCODERS = {
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "imputed": make_pipeline(SimpleImputer(missing_values=None, fill_value="?", strategy="constant"), OneHotEncoder()),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("third", [None, np.nan, "?", "NA"], ids=str)
def test_what_encoders_take_for_a_missing_word(encoder, third, tmp_path):
    """A row means the same alone, in a batch, as Arrow's, in a stream and in a file; known words are not missing."""
    if encoder == "imputed" and third is not None:
        pytest.skip("looks for None")
    frame = pd.DataFrame({"job": pd.Series(["cook", "nurse", third] * 20, dtype=object), "n": np.arange(60) % 2})
    steps = ColumnTransformer([("words", ENCODERS[encoder], ["job"]), ("rest", "passthrough", ["n"])])
    pipeline = make_pipeline(steps, RandomForestClassifier(5, random_state=0))
    model = CombinedForestClassifier(pipeline, combiner="mean").fit(
        frame, np.where(frame["job"] == "cook", "no", "yes")
    )
    three = frame[:3]
    expected = model.predict_proba(three)
    assert expected[0, 0] == 1 > expected[2, 0]
    np.testing.assert_array_equal(model.predict_proba(three[2:]), expected[2:])
    np.testing.assert_array_equal(model.predict_proba(pa.Table.from_pandas(three)), expected)
    for data in (three, written(three, tmp_path / "x.parquet"), written(three, tmp_path / "x.csv")):
        np.testing.assert_array_equal(shown(ju.stream(model, data)), expected)
        np.testing.assert_array_equal(shown(ju.stream(model, data, chunk_rows=1)), expected)


def test_missing_bools_that_an_encoder_knows(tmp_path):
    frame = pd.DataFrame({"flag": pd.array([True, False, None] * 20, dtype="boolean")})
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RandomForestClassifier(5, random_state=0))
    model = CombinedForestClassifier(pipeline, combiner="mean").fit(frame, np.where(frame["flag"].isna(), "yes", "no"))
    three = frame[:3]
    expected = model.predict_proba(three)
    assert expected[:, 1].round().tolist() == [0, 0, 1]
    for data in (three, written(three, tmp_path / "x.parquet"), written(three, tmp_path / "x.csv")):
        np.testing.assert_array_equal(shown(ju.stream(model, data)), expected)
        np.testing.assert_array_equal(shown(ju.stream(model, data, chunk_rows=1)), expected)

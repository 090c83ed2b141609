"""Files of raw columns through a classifier with a pipeline: the answers of the classifier itself."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.streaming import BatchPredictor, predict_files
from tests._refusal import refuses

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


@pytest.fixture(scope="module", params=[True, False], ids=["sparse", "dense"])
def model(request):
    whole = make_pipeline(columns(request.param), RandomForestClassifier(5, min_samples_leaf=3, random_state=0))
    return CombinedForestClassifier(whole, combiner="mean").fit(RAW, Y)


def shown(tables):
    return pa.concat_tables(list(tables)).to_pandas()[WANTED].to_numpy()


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "arrow"])
@pytest.mark.exhaustive(keep=4)
def test_files(kind, model, tmp_path):
    path, expected = tmp_path / f"x.{kind}", model.predict_proba(RAW)
    other = RAW[RAW.columns[::-1]].drop(columns="when").assign(more="?")
    write = {"parquet": pd.DataFrame.to_parquet, "arrow": pd.DataFrame.to_feather}.get(kind)
    for frame in (RAW, other):
        if write is None:
            frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        else:
            write(frame, path)
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
    for path, write in (("g.csv", lambda at: gaps.to_csv(at, index=False)), ("g.parquet", gaps.to_parquet)):
        write(tmp_path / path)
        np.testing.assert_array_equal(shown(ju.stream(model, tmp_path / path, chunk_rows=30)), expected)


REFUSED = [
    (RAW.drop(columns="job"), "csv", ValueError, r"lacks the columns \['job'\]"),
    (
        RAW.assign(age="x"),
        "csv",
        ValueError,
        "row 1 of the data holds 'x' in column 'age'; the model's column holds numbers",
    ),
    (RAW.assign(age="x"), "parquet", TypeError, "bad.parquet: X's column 'age' holds words, and held numbers"),
    (RAW.assign(job=3), "parquet", TypeError, "bad.parquet: X's column 'job' holds numbers, and held words"),
]


@pytest.mark.parametrize(("frame", "kind", "error", "said"), REFUSED)
def test_files_of_other_columns(frame, kind, error, said, model, tmp_path):
    path = tmp_path / f"bad.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    refuses(error, said, lambda: list(ju.stream(model, path)))


def test_columns_whose_types_are_not_known(model, tmp_path):
    unread = CombinedForestClassifier(FrozenEstimator(model.estimator_), combiner="mean").fit()
    RAW.to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(shown(ju.stream(unread, tmp_path / "x.parquet")), model.predict_proba(RAW))
    RAW.to_csv(tmp_path / "x.csv", index=False)
    untyped = r"'age' held values of a type that fit was not shown .*Pass Parquet .*fit\(X, y\)"
    refuses(TypeError, untyped, lambda: list(ju.stream(unread, tmp_path / "x.csv")))
    dated = make_pipeline(FunctionTransformer(days), RandomForestClassifier(3, random_state=0))
    dated = CombinedForestClassifier(dated, combiner="mean").fit(RAW[["when"]], Y)
    np.testing.assert_array_equal(shown(ju.stream(dated, RAW)), dated.predict_proba(RAW[["when"]]))
    untyped = "'when' held dates when .*text files have no types"
    refuses(TypeError, untyped, lambda: list(ju.stream(dated, tmp_path / "x.csv")))


def days(frame):
    return (frame - pd.Timestamp("2020-01-01")) / pd.Timedelta("1D")


def test_a_pipeline_of_arrays(tmp_path):
    whole = make_pipeline(StandardScaler(), RandomForestClassifier(5, min_samples_leaf=3, random_state=0))
    array = RAW[["n", "small"]].to_numpy(np.float64)
    made = CombinedForestClassifier(whole, combiner="mean").fit(array, Y)
    np.testing.assert_array_equal(shown(ju.stream(made, RAW, features=["n", "small"])), made.predict_proba(array))

"""Training rows behind the answers of streams, files and batches: those that `neighbours` finds, by their ids."""

import pickle

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from sklearn import ensemble

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import CombinedForestClassifier, UncertainForestRegressor
from jaxunc.streaming import BatchPredictor, load_model, predict_files
from tests._refusal import refusals, refuses

from ._made import whole

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
DATA = pd.DataFrame(RNG.normal(size=(160, 3)).astype(np.float32), columns=["a", "b", "c"])
DATA.insert(0, "id", [f"case {i}" for i in range(160)])
ROWS, NEW = DATA[:120], DATA[120:]
TARGET = (DATA.a + DATA.b).to_numpy()
WORDS = np.where(TARGET > 0, "yes", "no")
FOREST = {"n_estimators": 8, "min_samples_leaf": 4, "random_state": 0}
BOTH = {"outputs": ["neighbours", "outside_share"], "keep": ["id"], "k": 3}


def X(frame):
    return frame[["a", "b", "c"]]


@pytest.fixture(scope="module")
def bagged():
    """An estimator whose forest knows its bags."""
    return CombinedForestClassifier(ensemble.RandomForestClassifier(**FOREST), "mean").fit(X(ROWS), WORDS[:120])


@pytest.fixture(scope="module")
def forest():
    """A forest that counts all rows, as a file keeps it."""
    return ju.from_sklearn(ensemble.ExtraTreesClassifier(**FOREST).fit(X(ROWS), WORDS[:120]))


@pytest.fixture(scope="module")
def boosted():
    return ju.from_any(ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X(ROWS), WORDS[:120]))


@pytest.fixture(scope="module")
def files(forest, tmp_path_factory):
    """A folder with the model, the rows and the data."""
    folder = tmp_path_factory.mktemp("files")
    ju.save(folder / "model", ju.bind(forest, ju.Mean()))
    ROWS.assign(label=WORDS[:120]).to_csv(folder / "rows.csv", index=False)
    NEW.to_parquet(folder / "new.parquet")
    return folder


def agrees(table, cases, outside, ids):
    index = np.column_stack([table[f"neighbour_{i}"].fillna("none") for i in (1, 2, 3)])
    np.testing.assert_array_equal(index, np.where(cases.index < 0, "none", np.asarray(ids)[cases.index]))
    np.testing.assert_array_equal(np.column_stack([table[f"weight_{i}"] for i in (1, 2, 3)]), cases.weight)
    np.testing.assert_allclose(table["neighbour_share"], cases.weight.sum(axis=1) / cases.total)
    np.testing.assert_array_equal(table["outside_share"], outside)


def test_neighbours_are_those_of_the_forest_with_its_bags(bagged):
    found = whole(ju.stream(bagged, NEW, rows=ROWS, chunk_rows=17, **BOTH))
    cases = ju.neighbours(bagged, X(NEW), rows=X(ROWS), k=3)
    agrees(found, cases, ju.outside_share(bagged, X(NEW), rows=X(ROWS)), ROWS.id)
    of_each = [f"{name}_{i}" for name in ("neighbour", "weight") for i in (1, 2, 3)]
    assert list(found) == ["id", *of_each, "neighbour_share", "outside_share"]
    numbered = whole(ju.stream(bagged, X(NEW), rows=X(ROWS), outputs=["class", "neighbours"]))
    np.testing.assert_array_equal(numbered["neighbour_1"], cases.index[:, 0])
    assert "weight_10" in numbered
    np.testing.assert_array_equal(numbered["class"], bagged.predict(X(NEW)))


def test_files_and_batches_answer_as_streams(forest, files):
    asked = {**BOTH, "outputs": ["probability", *BOTH["outputs"]]}
    expected = whole(ju.stream(ju.bind(forest, ju.Mean()), NEW, rows=ROWS, **asked))
    cases = ju.neighbours(forest, X(NEW), rows=X(ROWS), k=3)
    agrees(expected, cases, ju.outside_share(forest, X(NEW), rows=X(ROWS)), ROWS.id)
    # Rows need no more than the first kept column, which names them.
    of_days = {**asked, "keep": ["id", "day"], "rows": ROWS}
    found = whole(ju.stream(ju.bind(forest, ju.Mean()), NEW.assign(day=1), **of_days))
    pd.testing.assert_frame_equal(found.drop(columns="day"), expected)
    how = {**asked, "rows": files / "rows.csv"}
    manifest = predict_files(files / "model", files / "new.parquet", files / "out", **how, chunk_rows=9)
    assert manifest["settings"]["rows"][0]["name"] == "rows.csv"
    pd.testing.assert_frame_equal(parquet.read_table(files / "out").to_pandas(), expected)
    paths = [str(files / name) for name in ("model", "new.parquet", "again", "rows.csv")]
    options = ["--outputs", *asked["outputs"], "--keep", "id", "--k", "3", "--kind", "prediction"]
    main(["predict", *paths[:2], "--output", paths[2], "--rows", paths[3], *options])
    pd.testing.assert_frame_equal(parquet.read_table(files / "again").to_pandas(), expected)
    batches = pickle.loads(pickle.dumps(BatchPredictor(files / "model", **how)))
    pd.testing.assert_frame_equal(batches(NEW).reset_index(drop=True), expected)
    assert "`neighbour_1` string" in batches.ddl
    numbered = BatchPredictor(files / "model", outputs=["neighbours"], rows=files / "rows.csv", k=1)(NEW)
    np.testing.assert_array_equal(numbered["neighbour_1"], cases.index[:, 0] + 1)  # as rows of files are counted


def test_a_run_ends_where_the_training_rows_are_others(files, tmp_path):
    rows = tmp_path / "rows.parquet"
    how = {"outputs": ["outside_share"], "rows": rows}
    ROWS.to_parquet(rows)
    predict_files(files / "model", files / "new.parquet", tmp_path / "out", **how)
    ROWS[:60].to_parquet(rows)
    run = (files / "model", files / "new.parquet", tmp_path / "out")
    refuses(ValueError, "of another run: it differs in settings", predict_files, *run, **how)
    scorer = BatchPredictor(files / "model", **how)
    fewer = scorer(NEW)["outside_share"].mean()
    ROWS.to_parquet(rows)
    assert scorer(NEW)["outside_share"].mean() < fewer  # what was loaded is read anew


def test_leaves_that_rows_share_of_any_model(boosted, tmp_path):
    regressor = UncertainForestRegressor(ensemble.RandomForestRegressor(**FOREST)).fit(X(ROWS), TARGET[:120])
    ju.save(tmp_path / "numbers", regressor)
    by_cuts = ju.from_any(ensemble.HistGradientBoostingClassifier(max_iter=4).fit(X(ROWS).astype(float), WORDS[:120]))
    assert by_cuts.trees.columns.cuts is not None  # rows are places among these, and compared as numbers all the same
    numbers = load_model(tmp_path / "numbers")
    for model, of_stream in ((boosted, boosted), (by_cuts, by_cuts), (regressor, numbers)):
        found = whole(ju.stream(of_stream, NEW, rows=ROWS, kind="leaves", **BOTH))
        cases = ju.neighbours(model, X(NEW), rows=X(ROWS), k=3, kind="leaves")
        agrees(found, cases, ju.outside_share(model, X(NEW), rows=X(ROWS)), ROWS.id)
    found = whole(ju.stream(regressor, NEW, rows=ROWS, outputs=["mean", "neighbours"], k=120))
    index, weight = (found[[f"{name}_{i + 1}" for i in range(120)]] for name in ("neighbour", "weight"))
    mean = (TARGET[:120][index.fillna(0).to_numpy(int)] * weight.to_numpy()).sum(axis=1)
    np.testing.assert_allclose(mean, regressor.estimator_.predict(X(NEW).to_numpy()), rtol=1e-9)
    np.testing.assert_allclose(found["neighbour_share"], 1)


def test_marks_in_numbers_are_those_of_training_rows_too(forest, tmp_path):
    """Each cell has two readings; rows in a file of another format have no marks, and are taken beside the option."""
    numbers = (X(ROWS).astype(float).abs() + 1).round(3)
    numbers.map("{:.3f}".format).replace(r"\.", ",", regex=True).to_csv(tmp_path / "x.csv", sep=";", index=False)
    numbers.to_parquet(tmp_path / "x.parquet")
    expected = whole(ju.stream(forest, numbers, rows=numbers, outputs=["outside_share"]))
    for rows in (tmp_path / "x.csv", tmp_path / "x.parquet", numbers):
        found = whole(ju.stream(forest, tmp_path / "x.csv", rows=rows, outputs=["outside_share"], decimal=","))
        pd.testing.assert_frame_equal(found, expected)


def stream(**how):
    return lambda forest: list(ju.stream(forest, NEW, **how))


def run(**how):
    return lambda files: predict_files(files / "model", files / "new.parquet", files / "o", **how)


NEIGHBOURS = {"outputs": ["neighbours"]}
test_refusals = refusals(
    ("no rows", stream(**NEIGHBOURS), r"outputs \['neighbours'\] compare with training rows; pass rows"),
    ("rows unread", stream(outputs=["class"], rows=ROWS), "rows=… would change nothing: ask for outputs=neighbours or"),
    ("k unread", stream(outputs=["outside_share"], rows=ROWS, k=3), "k=3 would change nothing: ask for outputs=nei"),
    ("kind unread", stream(kind="leaves"), "kind=leaves would change nothing"),
    ("kind", stream(**NEIGHBOURS, rows=ROWS, kind="out_of_bag"), "kind='out_of_bag'"),
    ("k", stream(**NEIGHBOURS, rows=ROWS, k=0), "k=0 must be at least 1"),
    ("k of halves", stream(**NEIGHBOURS, rows=ROWS, k=0.5), "k=0.5 must be an integer", TypeError),
    ("k beyond the rows", stream(**NEIGHBOURS, rows=ROWS, k=121), "k=121, and there are 120 rows"),
    ("other rows", stream(**NEIGHBOURS, rows=ROWS[:90]), "rows are not those that this Forest was grown on"),
    ("empty rows", stream(**NEIGHBOURS, rows=ROWS[:0]), "rows is empty"),
    ("columns", stream(**NEIGHBOURS, rows=ROWS[["a", "b"]]), r"the training rows lacks.*\['c'\]"),
    ("ids", stream(**NEIGHBOURS, rows=X(ROWS), keep=["id"]), r"the training rows lacks.*\['id'\]"),
    ("keep", stream(**NEIGHBOURS, rows=ROWS.assign(weight_1=0), keep=["weight_1"]), "names of answers"),
    ("a file", stream(**NEIGHBOURS, rows="nowhere.csv"), "nowhere.csv does not exist", FileNotFoundError),
    ("boosted", lambda boosted: list(ju.stream(boosted, NEW, rows=ROWS, **NEIGHBOURS)), "means .*kind='leaves'"),
    ("rows in memory, of files", run(rows=ROWS, **NEIGHBOURS), "rows is a DataFrame; pass the path", TypeError),
    (
        "rows in memory, of batches",
        lambda files: BatchPredictor(files / "model", rows=ROWS, **NEIGHBOURS),
        "rows is a DataFrame; pass the path",
        TypeError,
    ),
    ("the output among the rows", lambda files: run(rows=files, outputs=["outside_share"])(files), "lies within the"),
)

"""``jaxunc fit DATA --import`` of a pickled pipeline, and ``jaxunc predict`` of what it writes, on raw columns."""

import re

import joblib
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.storage import describe
from tests.estimators import test_pipelines as pipelines
from tests.estimators.test_pipelines import OwnColumns, forest, make_pipeline, pipeline

from ._lines import answers, refusal, run

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning"),
    pytest.mark.room,
]
N = 400
RAW, Y = pipelines.raw_table(N)
OLD, NEW = slice(0, 250), slice(250, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("pickled")
    table = RAW.assign(id=range(N), target=Y)
    table[OLD].to_csv(made / "old.csv", index=False)
    table[OLD][::-1].to_csv(made / "turned.csv", index=False)
    table[NEW].to_parquet(made / "new.parquet")
    RAW[NEW].drop(columns="when").iloc[:, ::-1].to_csv(made / "nightly.csv", index=False)
    RAW[NEW].to_parquet(made / "nightly.parquet")
    extra = ExtraTreesClassifier(50, min_samples_leaf=3, random_state=0)
    models = {
        "pipe": pipeline(forest(50)),
        "search": GridSearchCV(pipeline(forest(50)), {"forest__max_depth": [3]}, cv=2),
        "extra": pipeline(extra),
        "own": pipelines.Pipeline([("own", OwnColumns()), ("rest", pipeline(forest(50)))]),
    }
    for name, model in models.items():
        joblib.dump(model.fit(RAW[OLD], Y[OLD]), made / name)
    joblib.dump(pipeline(), made / "unfitted")
    drops = make_pipeline(pipelines.DropsRows(), pipelines.columns(), forest(3))
    joblib.dump(drops.fit(RAW[~RAW.age.isna()], Y[~RAW.age.isna()]), made / "drops")
    return made


def line(folder, model, data, *more, to="m"):
    rows = [] if data is None else [folder / data, "--target", "target"]
    return ["fit", *rows, "--import", folder / model, "--trust", "--output", folder / to, *more]


def fit(*words, **output):
    run(*line(*words, **output))


LEARNED = [
    ("pipe", "old.csv", "inbag", "of the 250 rows each is read through the trees that were grown without it"),
    ("search", "old.csv", "inbag", "of the 250 rows each is read through the trees"),
    ("pipe", "new.parquet", "held_out", "the 150 rows are not those that the forest was fitted on: they count as held"),
    ("extra", "new.parquet", "held_out", "the 150 rows count as held out"),
    ("extra", "old.csv", None, "has no bags (bootstrap), so nothing is learned"),
]


@pytest.mark.parametrize(("model", "data", "counts", "said"), LEARNED)
@pytest.mark.exhaustive(keep=1)
def test_rows_are_used_as_what_they_are(model, data, counts, said, folder, tmp_path, capsys):
    fit(folder, model, data)
    told = capsys.readouterr()
    assert said in told.err
    assert ("LearnedPool" in told.out) == (counts is not None)
    rows = OLD if data == "old.csv" else NEW
    fitted = FrozenEstimator(joblib.load(folder / model))
    settings = {"combiner": "learned", "counts": counts} if counts else {"combiner": "mixture"}
    expected = CombinedForestClassifier(fitted, **settings).fit(RAW[rows], Y[rows]).predict_proba(RAW[NEW])
    for nightly in ("nightly.csv", "nightly.parquet"):
        found = answers(folder / "m", folder / nightly, tmp_path / nightly, "--quiet", "--chunk-rows", 40)
        np.testing.assert_array_equal(found[["probability_no", "probability_yes"]], expected)


@pytest.mark.exhaustive
def test_the_other_estimator_and_settings(folder, capsys):
    fit(folder, "pipe", "old.csv", "--estimator", "cautious", "--s", "2")
    model = ju.load(folder / "m")
    assert (model.s, model.counts, model.predict_set(RAW[NEW]).shape) == (2, "oob", (150, 2))
    fit(folder, "pipe", "old.csv", "--combiner", "mean")
    own = joblib.load(folder / "pipe").predict_proba(RAW[NEW])
    np.testing.assert_allclose(ju.load(folder / "m").predict_proba(RAW[NEW]), own, atol=1e-6)
    fit(folder, "pipe", "new.parquet", "--counts", "held_out", "--combiner", "evidence")
    assert ju.load(folder / "m").counts == "held_out"
    capsys.readouterr()
    run("inspect", folder / "m")
    told = capsys.readouterr().out
    assert "pipeline    prep: ColumnTransformer" in told
    assert "columns     age, job, when, n, debt" in told
    assert describe(folder / "m").columns == 5


def test_without_rows_text_is_refused(folder, tmp_path, capsys):
    fit(folder, "pipe", None, to="unread")
    assert "jaxunc predict takes Parquet and Arrow" in capsys.readouterr().err
    assert len(answers(folder / "unread", folder / "nightly.parquet", tmp_path / "out")) == 150
    predict = ["predict", folder / "unread", folder / "nightly.csv", "--output", tmp_path / "other"]
    assert "text files have no types" in refusal(capsys, *predict)
    compare = ["compare", folder / "new.parquet", "--target", "target", "--model", folder / "unread"]
    assert "takes raw columns through a pipeline" in refusal(capsys, *compare)


@pytest.mark.exhaustive
def test_types_of_ones_own(folder, capsys):
    fit(folder, "own", "old.csv", to="owned")
    assert "jaxunc predict, which knows no others, cannot read it" in capsys.readouterr().err
    assert ju.load(folder / "owned", known=[OwnColumns]).predict(RAW[NEW].astype({"when": str})).shape == (150,)


REFUSED = [
    ("unfitted", "old.csv", [], "holds a Pipeline that is not fitted"),
    ("drops", "old.csv", [], "made 214 rows of 250, .*Drop or add rows before fit"),
    ("pipe", "old.csv", ["--counts", "held_out"], "these rows are the sample that the forest was grown on"),
    ("pipe", "new.parquet", ["--counts", "oob", "--combiner", "mean"], "fitted on 250 instances"),
    ("pipe", "turned.csv", [], "has as many rows as the forest was fitted on, 250, .*add --counts held_out"),
    ("pipe", "old.csv", ["--drop", "job"], "columns are missing: .*job"),
]


@pytest.mark.parametrize(("model", "data", "more", "said"), REFUSED)
def test_refusals(model, data, more, said, folder, capsys):
    told = refusal(capsys, *line(folder, model, data, *more, to="none"))
    assert told.startswith("jaxunc: error: ")
    assert re.search(said, told)
    assert not (folder / "none").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("named", [True, False])
def test_forests_without_a_pipeline(named, folder, tmp_path, capsys):
    numbers = RAW[["n", "debt"]]
    rows = numbers if named else numbers.to_numpy()
    joblib.dump(forest(50).fit(rows[OLD], Y[OLD]), folder / "plain")
    numbers.assign(target=Y)[OLD].to_csv(folder / "plain.csv", index=False)
    numbers.assign(id="x")[NEW].to_csv(tmp_path / "new.csv", index=False)
    fit(folder, "plain", "plain.csv")
    assert "warning" not in capsys.readouterr().err
    read = [] if named else ["--features", "n", "debt"]
    found = answers(folder / "m", tmp_path / "new.csv", tmp_path / "o", *read)
    np.testing.assert_array_equal(
        found[["probability_no", "probability_yes"]], ju.load(folder / "m").predict_proba(rows[NEW])
    )


def test_nightly_columns_that_are_missing(folder, tmp_path, capsys):
    fit(folder, "pipe", None)
    RAW.drop(columns="job").to_parquet(tmp_path / "bad.parquet")
    predict = ["predict", folder / "m", tmp_path / "bad.parquet", "--output", tmp_path / "out"]
    assert "lacks the columns ['job']" in refusal(capsys, *predict)

"""``jaxunc fit DATA --import`` of a pickled pipeline, and ``jaxunc predict`` of what it writes, on raw columns."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import CombinedForestClassifier
from jaxunc.storage import describe
from tests._refusal import refuses
from tests.estimators.test_pipelines import (
    DropsRows,
    OwnColumns,
    Pipeline,
    columns,
    forest,
    make_pipeline,
    pipeline,
    raw_table,
)

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning"),
    pytest.mark.room,
]
N = 400
RAW, Y = raw_table(N)
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
        "own": Pipeline([("own", OwnColumns()), ("rest", pipeline(forest(50)))]),
    }
    for name, model in models.items():
        joblib.dump(model.fit(RAW[OLD], Y[OLD]), made / name)
    joblib.dump(pipeline(), made / "unfitted")
    drops = make_pipeline(DropsRows(), columns(), forest(3))
    joblib.dump(drops.fit(RAW[~RAW.age.isna()], Y[~RAW.age.isna()]), made / "drops")
    return made


def fit(folder, model, data, *more, to="m"):
    given = ["fit", "--import", str(folder / model), "--trust", "--output", str(folder / to), *more]
    main(given if data is None else [*given[:1], str(folder / data), "--target", "target", *given[1:]])


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
        out = tmp_path / nightly
        main(
            ["predict", str(folder / "m"), str(folder / nightly), "--output", str(out), "--quiet", "--chunk-rows", "40"]
        )
        found = pd.read_parquet(out)
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
    main(["inspect", str(folder / "m")])
    told = capsys.readouterr().out
    assert "pipeline    prep: ColumnTransformer" in told
    assert "columns     age, job, when, n, debt" in told
    assert describe(folder / "m").columns == 5


def test_without_rows_text_is_refused(folder, tmp_path, capsys):
    fit(folder, "pipe", None, to="unread")
    assert "jaxunc predict takes Parquet and Arrow" in capsys.readouterr().err
    main(["predict", str(folder / "unread"), str(folder / "nightly.parquet"), "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        main(["predict", str(folder / "unread"), str(folder / "nightly.csv"), "--output", str(tmp_path / "other")])
    assert "text files have no types" in capsys.readouterr().err


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
    refuses(SystemExit, "2", fit, folder, model, data, *more, to="none")
    told = capsys.readouterr().err
    assert told.startswith("jaxunc: error: ")
    assert pd.Series([told]).str.contains(said).all()
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
    main(["predict", str(folder / "m"), str(tmp_path / "new.csv"), "--output", str(tmp_path / "o"), *read])
    found = pd.read_parquet(tmp_path / "o")[["probability_no", "probability_yes"]]
    np.testing.assert_array_equal(found, ju.load(folder / "m").predict_proba(rows[NEW]))


def test_compare_reads_no_raw_columns(folder, capsys):
    fit(folder, "pipe", None, to="unread")
    with pytest.raises(SystemExit):
        main(["compare", str(folder / "new.parquet"), "--target", "target", "--model", str(folder / "unread")])
    assert "takes raw columns through a pipeline" in capsys.readouterr().err


def test_nightly_columns_that_are_missing(folder, tmp_path, capsys):
    fit(folder, "pipe", "old.csv")
    RAW.drop(columns="job").to_csv(tmp_path / "bad.csv")
    with pytest.raises(SystemExit):
        main(["predict", str(folder / "m"), str(tmp_path / "bad.csv"), "--output", str(tmp_path / "out")])
    assert "lacks the columns ['job']" in capsys.readouterr().err

"""``jaxunc fit``, ``predict`` and ``inspect``, as one types them."""

import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.__main__ import main

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*every tree's bag")]


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    X, y = load_iris(as_frame=True, return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    X.assign(species=names[y], id=range(150)).to_csv(path, index=False)
    return path


def fit(iris, model, *more):
    main(["fit", str(iris), "--target", "species", "--drop", "id", "--output", str(model), "--trees", "20", *more])


@pytest.mark.parametrize(
    "options",
    [
        ["--combiner", "evidence", "--leaf-size", "3"],
        ["--estimator", "cautious", "--forest", "random-forest", "--s", "2"],
        ["--estimator", "random-trees", "--depth", "6"],
        ["--forest", "single-tree", "--leaf-size", "3", "--combiner", "mean"],
        ["--estimator", "transductive", "--leaf-size", "2"],
    ],
    ids=["evidence", "cautious", "random-trees", "single-tree", "transductive"],
)
def test_fit_predict_inspect(options, iris, tmp_path, capsys):
    model = tmp_path / "model.safetensors"
    fit(iris, model, *options)
    main(["predict", str(model), str(iris), "--output", str(tmp_path / "out"), "--keep", "id", "species", "--quiet"])
    main(["inspect", str(model), "--arrays"])
    printed = capsys.readouterr().out
    assert "150 rows in 1 files" in printed
    assert "whole and well-formed" in printed
    assert "classes setosa, versicolor, virginica" in printed
    found = pd.read_parquet(tmp_path / "out")
    assert list(found["id"]) == [str(i) for i in range(150)], "of text files the text is carried along"
    assert np.mean(found["class"] == found["species"]) > 0.85
    loaded = ju.load(model)
    np.testing.assert_array_equal(found["class"], loaded.predict(pd.read_csv(iris)[list(loaded.feature_names_in_)]))


def test_forests_of_scikit_learn(iris, tmp_path, capsys):
    data = pd.read_csv(iris)
    fitted = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(data.iloc[:, :4], data.species)
    joblib.dump(fitted, tmp_path / "forest.joblib")
    taken = ["fit", "--import", str(tmp_path / "forest.joblib"), "--output", str(tmp_path / "m"), "--combiner", "mean"]
    with pytest.raises(SystemExit, match="2"):
        main(taken)
    assert "runs whatever code it holds" in capsys.readouterr().err
    main([*taken, "--trust"])
    np.testing.assert_allclose(
        ju.load(tmp_path / "m").predict_proba(data.iloc[:, :4]), fitted.predict_proba(data.iloc[:, :4]), atol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["fit", "DATA", "--output", "m"], "--target"),
        (["fit", "DATA", "--target", "kind", "--output", "m"], "no column 'kind'"),
        (["fit", "DATA", "--target", "id", "--output", "m"], r"\['species'\].*hold no numbers"),
        (["fit", "nowhere.csv", "--target", "id", "--output", "m"], "does not exist"),
        (["predict", "nowhere", "DATA", "--output", "o"], "nowhere"),
        (["predict", "DATA", "DATA", "--output", "o"], "no file that jaxunc.save wrote"),
        (["inspect", "DATA"], "no file that jaxunc.save wrote"),
        (["predict", "m", "DATA", "--output", "o", "--s", "much"], "is no number"),
    ],
)
def test_errors_are_one_line(arguments, match, iris, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main([str(iris) if part == "DATA" else part for part in arguments])
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert printed.startswith("jaxunc: error: ")
    assert re.search(match, printed)

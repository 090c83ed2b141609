"""The command line on models of other libraries: their files are taken where those of jaxunc are."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from tests._exhaustive import a_few_of
from tests._model_files import FOLDER, N_TRAIN, NAMED, NAMELESS, NUMBERS, expected, table
from tests._rooms import ROOT

from ._lines import answers, refusal, run

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:skl2onnx made the model")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows that the models were not fitted to: by name in another order, with more columns; and the numbers alone."""
    here = tmp_path_factory.mktemp("rows")
    frame, y = table()
    rest = frame[N_TRAIN:].assign(id=range(269), kind=y[N_TRAIN:])
    rest[rest.columns[::-1]].to_csv(here / "named.csv", index=False)
    rest[NUMBERS].fillna(-1).to_csv(here / "plain.csv", index=False)
    return here


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", a_few_of([*NAMED, *NAMELESS], ["xgboost.json", "lightgbm.txt", "treelite_forest.bin"]))
def test_predict_and_inspect(name, folder, tmp_path, capsys):
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    data, keep = ("named.csv", ["--keep", "id"]) if name in NAMED else ("plain.csv", [])
    found = answers(FOLDER / name, folder / data, tmp_path / "out", *keep, "--quiet")
    run("inspect", FOLDER / name)
    printed = capsys.readouterr().out
    assert all(said in printed for said in ("269 rows in 1 files", "whole and well-formed", "classes     0, 1"))
    assert ("columns     radius, texture" if name in NAMED else "columns     4") in printed
    library = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost", "treelite": "treelite"}
    assert f"from {library.get(name.split('.')[0].split('_')[0], 'ONNX')}" in printed
    assert list(found) == [*(["id"] if keep else []), "class", "probability_0", "probability_1"]
    np.testing.assert_allclose(found.probability_1, expected(name), atol=2e-6)
    np.testing.assert_array_equal(found["class"], (found.probability_1 > 0.5).astype(int))


@pytest.mark.exhaustive
def test_predict_starts_without_scikit_learn(folder, tmp_path):
    line = ["predict", str(FOLDER / "xgboost.json"), str(folder / "named.csv"), "--output", str(tmp_path), "--quiet"]
    program = f"import sys; from jaxunc.__main__ import main; main({line!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"sklearn", "scipy.stats", "xgboost"} & set(done.stdout.split())


def test_a_batch_predictor(folder):
    predictor = ju.streaming.BatchPredictor(FOLDER / "xgboost.json")
    found = predictor(table()[0][N_TRAIN:].reset_index(drop=True))
    np.testing.assert_allclose(found.probability_1, expected("xgboost.json"), atol=2e-6)


def comparison(folder, tmp_path, name):
    line = ["compare", folder / "named.csv", "--target", "kind", "--model", FOLDER / name, "--repeats", 1]
    return [*line, "--folds", 2, "--report", tmp_path, "--quiet"]


def compare(folder, tmp_path, name, *more):
    run(*comparison(folder, tmp_path, name), *more)
    return json.loads((tmp_path / "results.json").read_text())


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*matplotlib")
def test_compare(folder, tmp_path, capsys):
    combiners = ["--combiners", "probability", "learned", "evidence"]
    results = compare(folder, tmp_path, "xgboost.json", *combiners)
    assert results["combiners"] == ["probability", "evidence", "learned", "model", "model-platt"]
    assert results["model"]["name"] == "xgboost.json"
    assert results["model"]["boosted"]
    y = table()[1][N_TRAIN:]
    right = np.mean((expected("xgboost.json") > 0.5) == y)
    own = [cell["measures"]["model"] for cell in results["forests"]]
    np.testing.assert_allclose(np.mean([one["accuracy"] for one in own]), right, atol=1e-3)
    printed, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    assert "what xgboost.json (4 boosted trees) answers itself" in printed
    for said in (
        "what xgboost.json (4 boosted trees) answers itself, in the row <code>model</code>",
        "If it was fitted to rows of these data",
        "Boosted trees correct each other",
        "the leaves of xgboost.json were counted anew 2 times",
        "the model itself",
    ):
        assert said in " ".join(page.split())
    assert "leaf size" not in page
    # It goes on where it stopped; another model is another run.
    compare(folder, tmp_path, "xgboost.json", *combiners)
    assert "model.name was" in refusal(capsys, *comparison(folder, tmp_path, "xgboost_forest.json"), *combiners)


@pytest.mark.exhaustive
def test_compare_a_model_of_jaxunc_and_one_without_names(folder, tmp_path):
    forest = ju.from_any(FOLDER / "treelite_forest.bin")
    ju.save(tmp_path / "own", ju.bind(forest, ju.Mean()))
    frame = pd.read_csv(folder / "plain.csv").assign(kind=table()[1][N_TRAIN:])
    frame.to_parquet(tmp_path / "plain.parquet")
    settings = ["--target", "kind", "--repeats", 1, "--folds", 2, "--combiners", "vote", "--quiet"]
    for name, model in (("a", tmp_path / "own"), ("b", FOLDER / "treelite_forest.bin")):
        run("compare", tmp_path / "plain.parquet", *settings, "--model", model, "--report", tmp_path / name)
    found = [json.loads((tmp_path / name / "results.json").read_text()) for name in "ab"]
    assert found[0]["forests"] == found[1]["forests"]
    assert not found[0]["model"]["boosted"]

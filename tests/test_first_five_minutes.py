"""What goes wrong for a reader in the first five minutes: messages name the page that helps."""

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, UncertainForestRegressor
from tests._refusal import refuses
from tests._rooms import ROOT

pytestmark = pytest.mark.once

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = np.arange(40) % 2
FOREST = RandomForestClassifier(3, random_state=0)
NUMBERS = RandomForestRegressor(3, random_state=0)
BOOSTED = GradientBoostingClassifier(n_estimators=3)
WORDS = pd.DataFrame({"job": np.where(Y == 1, "cook", "nurse"), "age": X[:, 0]})
FITTED = {model: type(model)(**model.get_params()).fit(X, Y) for model in (FOREST, NUMBERS, BOOSTED)}
PIPELINE = make_pipeline(StandardScaler(), FOREST)

ROWS = {
    "a pipeline, imported": (lambda: ju.from_sklearn(PIPELINE.fit(X, Y)), "how_to/use_a_pipeline"),
    "a pipeline, of any library": (lambda: ju.from_any(PIPELINE.fit(X, Y)), "how_to/use_a_pipeline"),
    "a model that is not imported": (lambda: ju.bind(FITTED[FOREST], ju.Mean()), "start"),
    "words to fit": (lambda: CombinedForestClassifier(FOREST).fit(WORDS, Y), "how_to/use_a_pipeline"),
    "words to answer": (
        lambda: CombinedForestClassifier(FOREST).fit(X, Y).predict(WORDS.set_axis([0, 1], axis=1).to_numpy()),
        "how_to/use_a_pipeline",
    ),
    "boosted": (lambda: CombinedForestClassifier(BOOSTED).fit(X, Y), "libraries"),
    "boosted, fitted": (lambda: CombinedForestClassifier(FrozenEstimator(FITTED[BOOSTED])).fit(X, Y), "libraries"),
    "boosted, imported": (lambda: ju.from_sklearn(FITTED[BOOSTED]), "libraries"),
    "boosted, bound": (lambda: ju.bind(ju.from_any(FITTED[BOOSTED]), ju.Mean()), "libraries"),
    "a regressor": (lambda: CombinedForestClassifier(NUMBERS).fit(X, Y), "how_to/how_sure_is_a_number"),
    "a regressor, fitted": (
        lambda: CombinedForestClassifier(FrozenEstimator(FITTED[NUMBERS])).fit(X, Y),
        "how_to/how_sure_is_a_number",
    ),
    "a regressor, imported": (lambda: ju.from_sklearn(FITTED[NUMBERS]), "libraries"),
    "a classifier for numbers": (lambda: UncertainForestRegressor(FOREST).fit(X, X[:, 0]), "estimators"),
}


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
@pytest.mark.parametrize("name", ROWS)
def test_the_message_names_the_page_that_helps(name):
    call, page = ROWS[name]
    error = ValueError if name.startswith("words") or name == "boosted, fitted" else TypeError
    refuses(error, rf"[Ss]ee docs/{page}\.md", call)


def test_pages_that_messages_name_exist():
    files = (ROOT / "jaxunc").rglob("*.py")
    named = {page for file in files for page in re.findall(r"docs/[\w/]+\.md", file.read_text(encoding="utf-8"))}
    assert len(named) > 5
    assert not [page for page in named if not (ROOT / page).exists()]


@pytest.mark.exhaustive
@pytest.mark.parametrize("platform", ["cuda", "no_such"])
def test_no_jax_for_the_platform(platform, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n" * 9)
    words = ["fit", "rows.csv", "--target", "b", "--output", "model.safetensors"]
    environment = {**os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "jaxunc", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"jaxunc: error: JAX finds no device of JAX_PLATFORMS={platform}")
    assert last.endswith("See docs/how_to/accelerators.md")

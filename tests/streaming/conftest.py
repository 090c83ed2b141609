"""A model with a nominal column, and its data as a frame."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.streaming import _csv, predict_files

from ._made import OPTIONS


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1000
    colours = rng.choice(["red", "green", "blue"], n).astype(object)
    colours[rng.random(n) < 0.05] = None
    kinds = {"length": rng.normal(size=n), "count": rng.integers(9, size=n)}
    return pd.DataFrame({**kinds, "colour": colours, "is_old": rng.random(n) < 0.5})


@pytest.fixture(scope="session")
def labels(frame) -> np.ndarray:
    return np.array(["no", "yes"])[((frame.length > 0) ^ (frame.colour == "red")).astype(int)]


@pytest.fixture(scope="session")
def model(frame, labels) -> RandomDecisionTreesClassifier:
    grown = RandomDecisionTreesClassifier(9, min_samples_leaf=5, random_state=0, empty_leaves="parent")
    return grown.fit(frame, labels)


@pytest.fixture(scope="session")
def saved(model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    ju.save(path, model)
    return path


@pytest.fixture(scope="session")
def data(frame, tmp_path_factory) -> Path:
    """A folder of three files, of which one has no rows."""
    folder = tmp_path_factory.mktemp("data")
    whole = frame.assign(id=np.arange(len(frame)))
    whole[:430].to_parquet(folder / "a.parquet", row_group_size=100)
    whole[:0].to_parquet(folder / "b.parquet")
    (folder / "_hidden").mkdir()
    (folder / "_hidden" / "x.parquet").write_bytes(b"nothing")
    whole[430:].to_parquet(folder / "c.parquet", row_group_size=333)
    return folder


@pytest.fixture(scope="session")
def made(saved, data, tmp_path_factory) -> Path:
    """The folder of a run over these data."""
    folder = tmp_path_factory.mktemp("made") / "out"
    predict_files(saved, data, folder, **OPTIONS)
    return folder


@pytest.fixture
def out(made, tmp_path) -> Path:
    """A copy of it, beside a file that nobody may touch."""
    (tmp_path / "victim.txt").write_text("precious")
    return shutil.copytree(made, tmp_path / "out")


@pytest.fixture
def copied(data, tmp_path) -> Path:
    """A copy of the data."""
    return shutil.copytree(data, tmp_path / "data")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 150)
    monkeypatch.setattr(_csv, "PEEK_BYTES", 80)

"""A model with a nominal column, and its data as a frame."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.streaming import _csv


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1000
    colours = rng.choice(["red", "green", "blue"], n).astype(object)
    colours[rng.random(n) < 0.05] = None
    kinds = {"length": rng.normal(size=n), "count": rng.integers(9, size=n)}
    return pd.DataFrame({**kinds, "colour": colours, "is_old": rng.random(n) < 0.5})


@pytest.fixture(scope="session")
def model(frame) -> RandomDecisionTreesClassifier:
    y = np.array(["no", "yes"])[((frame.length > 0) ^ (frame.colour == "red")).astype(int)]
    grown = RandomDecisionTreesClassifier(9, min_samples_leaf=5, random_state=0, empty_leaves="parent")
    return grown.fit(frame, y)


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


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 150)
    monkeypatch.setattr(_csv, "PEEK_BYTES", 80)

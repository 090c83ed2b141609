"""The finder of data sets: folders, OpenML's cache, and what it refuses."""

import gzip
import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks import data
from tests._refusal import refuses

pytestmark = pytest.mark.once

CSV = b"size,colour,target\n1.5,red,no\n,blue,yes\n3.0,,no\n"
ENTRY = {
    "file": "toy.csv.gz", "feature_names": ["size", "colour"], "feature_kinds": ["numeric", "nominal"],
    "nominal_levels": {"colour": ["blue", "red"]}, "classes": {"yes": 1, "no": 2}, "positive_class": "yes",
}  # fmt: skip


def folder_with(path, csv=CSV, **changes):
    content = gzip.compress(csv, mtime=0)
    entry = {**ENTRY, "sha256": hashlib.sha256(content).hexdigest(), **changes}
    (path / "toy.csv.gz").write_bytes(content)
    (path / "manifest.json").write_text(json.dumps({"datasets": {"toy": entry}}))
    return path


def check_toy(found):
    np.testing.assert_array_equal(found.X, [[1.5, 1], [np.nan, 0], [3, np.nan]])
    assert (found.y.tolist(), found.class_labels) == ([0, 1, 0], ("no", "yes"))
    assert found.nominal.tolist() == [False, True]


def test_a_folder(tmp_path, monkeypatch):
    folder_with(tmp_path)
    check_toy(data.load("toy", tmp_path))
    monkeypatch.setenv("JAXUNC_DATA", str(tmp_path))
    check_toy(data.load("toy"))


def test_what_a_folder_must_hold(tmp_path):
    refuses(FileNotFoundError, r"manifest\.json", data.load, "toy", tmp_path)
    turned, other = {"feature_names": ["colour", "size"]}, {"csv": CSV.replace(b"yes", b"maybe")}
    turned["feature_kinds"] = ["nominal", "numeric"]
    wrong = {"sha256": {"sha256": "0" * 64}, "columns": turned, "classes that the manifest": other}
    for words, changes in wrong.items():
        refuses(ValueError, words, data.load, "toy", folder_with(tmp_path, **changes))


@pytest.fixture
def openml(tmp_path, monkeypatch):
    """A catalogue and a server that hold one set; the names of what was fetched."""
    known = {"openml_id": 7, "n": 3, "n_features": 2, "n_classes": 2, "positive_class": "yes"}
    monkeypatch.setattr(data, "KNOWN", {"toy": known, "unfetchable": {**known, "openml_id": None}})
    monkeypatch.setenv("JAXUNC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAXUNC_DATA", raising=False)
    fetched = []

    def fetch_openml(*, data_id, as_frame, parser):
        fetched.append(data_id)
        X = pd.DataFrame({"size": [1.5, np.nan, 3.0], "colour": pd.Categorical(["red", "blue", None])})
        return SimpleNamespace(data=X, target=pd.Series(["no", "yes", "no"], dtype="category", name="class"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return SimpleNamespace(fetched=fetched, known=known, cache=tmp_path / "cache")


def test_openml_is_asked_once_and_a_cache_that_was_altered_is_refused(openml):
    check_toy(data.load("toy"))
    check_toy(data.load("toy"))
    assert openml.fetched == [7]
    path = openml.cache / "toy.csv.gz"
    path.write_bytes(path.read_bytes()[:-1])
    refuses(ValueError, "sha256", data.load, "toy")


def test_other_sets_under_the_same_id_and_unknown_ones_are_refused(openml):
    openml.known["n"] = 4
    refuses(ValueError, r"expected \{'n': 4\}, found \{'n': 3", data.load, "toy")
    assert not openml.cache.exists()
    for name in ("nothing", "unfetchable"):
        refuses(ValueError, f"no data set '{name}'", data.load, name)


def test_the_catalogue():
    for name, entry in data.KNOWN.items():
        assert entry.keys() == {"openml_id", "n", "n_features", "n_classes", "positive_class"}, name

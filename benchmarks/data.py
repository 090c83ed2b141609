"""The data sets of all benchmarks: from a local folder, else from OpenML into a cache of the same form.

A folder holds ``NAME.csv.gz`` (UTF-8, a header, features first, the class in the last column ``target``, missing cells
empty) and ``manifest.json``: {"datasets": {NAME: {"file", "sha256", "feature_names", "feature_kinds" ("numeric" or
"nominal"), "nominal_levels" {feature: levels}, "classes" {label: rows}, "positive_class" (of two)}}}. Every file is
checked against its hash. The folder is named by an option or by ``JAXUNC_DATA``; without one, sets are fetched from
OpenML by the ids of ``data_sets.json`` (an id is one version of a set), checked against the sizes given there, and kept
in ``~/.cache/jaxunc`` (or ``JAXUNC_CACHE``).
"""

import gzip
import hashlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

KNOWN: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data_sets.json").read_text(encoding="utf-8"))
"""The sets that can be fetched: {name: OpenML's id, sizes, and the positive of two classes}."""


def by_size(names: Iterable[str]) -> tuple[str, ...]:
    """The smallest sets first; those that are only had as files as if they had 10 000 rows."""
    return tuple(sorted(names, key=lambda name: KNOWN[name]["n"] if name in KNOWN else 10_000))


class Rows(NamedTuple):
    """A data set as it is run: features float32, and classes or a target."""

    X: np.ndarray
    y: np.ndarray


class DataSet(NamedTuple):
    """A classification data set."""

    name: str
    X: np.ndarray
    """``[instances features]`` float64; nominal values as positions among their levels, NaN where missing."""
    y: np.ndarray
    """``[instances]`` positions in ``class_labels``."""
    class_labels: tuple[str, ...]
    """The classes; of two, the second is the positive one."""
    nominal: np.ndarray
    """``[features]`` whether a feature is nominal."""
    feature_names: tuple[str, ...]
    levels: dict[str, list[str]]
    """The levels of each nominal feature."""


def load(name: str, folder: str | Path | None = None) -> DataSet:
    """The data set of that name; a ValueError if it is unknown, or a file not what its hash or the catalogue says."""
    folder = _folder(folder)
    entry = _manifest(folder).get(name) if folder else None
    if entry is None:
        entry, folder = _fetched(name)
    content = (folder / entry["file"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ValueError(f"{folder / entry['file']} is not what the manifest's sha256 says; fetch it again.")
    return _read(name, content, entry)


def _folder(folder: str | Path | None) -> Path | None:
    given = folder or os.environ.get("JAXUNC_DATA")
    if not given:
        return None
    if not (Path(given) / "manifest.json").is_file():
        raise FileNotFoundError(f"{str(given)!r} holds no manifest.json; name a folder of data sets (--data FOLDER).")
    return Path(given)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    return json.loads(path.read_text(encoding="utf-8"))["datasets"] if path.is_file() else {}


def _read(name: str, content: bytes, entry: dict[str, Any]) -> DataSet:
    features, kinds, levels = entry["feature_names"], entry["feature_kinds"], entry["nominal_levels"]
    nominal = np.array([kind == "nominal" for kind in kinds])
    text = [*(f for f, is_nominal in zip(features, nominal, strict=True) if is_nominal), "target"]
    stream, words = io.BytesIO(gzip.decompress(content)), dict.fromkeys(text, str)
    frame = pd.read_csv(stream, dtype=words, keep_default_na=False, na_values=[""])
    if [*features, "target"] != frame.columns.tolist():
        raise ValueError(f"{name}: the columns of {entry['file']} are not those of the manifest.")
    columns = [
        _positions(frame[f], levels[f]).astype(float) if is_nominal else frame[f].to_numpy(float)
        for f, is_nominal in zip(features, nominal, strict=True)
    ]
    X = np.column_stack([np.where(c < 0, np.nan, c) if n else c for c, n in zip(columns, nominal, strict=True)])
    labels = sorted(entry["classes"], key=lambda label: label == entry.get("positive_class"))  # the positive one last
    y = _positions(frame["target"], labels)
    if (y < 0).any():
        raise ValueError(f"{name}: {entry['file']} holds classes that the manifest does not list.")
    return DataSet(name, X, y, tuple(labels), nominal, tuple(features), {f: levels[f] for f in text[:-1]})


def _positions(column: pd.Series, levels: list[str]) -> np.ndarray:
    """The position of each word among the levels; -1 for one that is missing or no level."""
    return pd.Index(levels, dtype=object).get_indexer(column.astype(object))


def _fetched(name: str) -> tuple[dict[str, Any], Path]:
    """The manifest's entry of a set in the cache, fetched if it is not there, and the cache."""
    cache = Path(os.environ.get("JAXUNC_CACHE") or Path.home() / ".cache" / "jaxunc")
    entries = _manifest(cache)
    if name in entries:
        return entries[name], cache
    if name not in KNOWN or KNOWN[name]["openml_id"] is None:
        where = "it is in no folder (--data FOLDER, JAXUNC_DATA) and OpenML's is unknown."
        raise ValueError(f"no data set {name!r}: {where}")
    from sklearn.datasets import fetch_openml

    known = KNOWN[name]
    bunch = fetch_openml(data_id=known["openml_id"], as_frame=True, parser="auto")
    content, entry = _as_stored(name, bunch.data, bunch.target.astype(str).rename("target"), known)
    cache.mkdir(parents=True, exist_ok=True)
    (cache / entry["file"]).write_bytes(content)
    partial = cache / "manifest.json.partial"
    partial.write_text(json.dumps({"datasets": {**entries, name: entry}}, indent=1), encoding="utf-8")
    os.replace(partial, cache / "manifest.json")
    return entry, cache


def _as_stored(name: str, X: pd.DataFrame, y: pd.Series, known: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """A set as a folder holds it, if it is the one that the catalogue knows."""
    found = {"n": len(X), "n_features": X.shape[1], "n_classes": y.nunique()}
    if expected := {key: known[key] for key, value in found.items() if known[key] != value}:
        raise ValueError(f"OpenML's set {known['openml_id']} is not {name!r}: expected {expected}, found {found}.")
    numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in X.dtypes]
    text = X.columns[np.logical_not(numeric)]
    X = X.astype(dict.fromkeys(text, "category"))
    content = gzip.compress(X.assign(target=y).to_csv(index=False).encode(), mtime=0)
    entry = {
        "file": f"{name}.csv.gz",
        "sha256": hashlib.sha256(content).hexdigest(),
        "feature_names": X.columns.tolist(),
        "feature_kinds": ["numeric" if is_numeric else "nominal" for is_numeric in numeric],
        "nominal_levels": {f: X[f].cat.categories.astype(str).tolist() for f in text},
        "classes": y.value_counts(sort=False).to_dict(),
        "positive_class": known["positive_class"] if known["positive_class"] in set(y) else None,
    }
    return content, entry

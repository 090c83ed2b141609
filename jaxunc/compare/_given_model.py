"""A model that came fitted, in a file: its own answers beside rules that read its leaves, counted anew."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from sklearn.linear_model import LogisticRegression

from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Answer
from jaxunc.forest import Trees
from jaxunc.inference import Answering, BoundForest, bind
from jaxunc.streaming import DataChunk, Wanted, answering, data_file, file_chunks, load_model
from jaxunc.tables import Columns, encode_arrow

from ._compared_rules import OWN, OWN_CALIBRATED
from ._data import Table
from ._learned import Answers

_ROWS = 2**16


class GivenModel(NamedTuple):
    """A model that rules are compared on; its columns hold codes, as the table made for it does."""

    trees: Trees
    """Trees, whose leaves count the training parts."""
    own: Answering
    """What answers as the model does."""
    about: dict[str, Any]
    """Name, kind, number of trees, whether they are boosted, and a hash of the file."""

    def answers(self, X: np.ndarray, y: np.ndarray) -> dict[str, Answers]:
        """Return what answers as the model does, and as it does calibrated on these rows, by Platt's regression."""
        fitted: Any = LogisticRegression(C=100.0, max_iter=1000).fit(_evidence(self.own.answer(X)), y)

        def calibrated(rows: np.ndarray) -> Answer:
            shares = fitted.predict_proba(_evidence(self.own.answer(rows)))
            logs = np.log(np.maximum(shares, np.finfo(np.float32).tiny))
            return Answer(logs, None, shares, logs)

        return {OWN: self.own.answer, OWN_CALIBRATED: calibrated}


def read_given_model(path: str | Path, data: str | Path, target: str | None) -> tuple[Table, GivenModel]:
    """Read a model's file, and a table as the model reads it.

    Parameters
    ----------
    path
        A file of `jaxunc.save`, or one that `jaxunc.from_any` reads.
    data
        A file of CSV, Parquet or Arrow. Columns are found by name where the model knows names.
    target
        Name of the column that holds the classes: labels of the model.

    Returns
    -------
    tuple[Table, GivenModel]
        The table with the codes that the model reads, and the model.

    Raises
    ------
    ValueError
        If a file cannot be read, the model is no classifier of trees, columns are missing, or the target holds what is
        no class of the model.
    """
    found = answering(load_model(path))
    if target is None:
        raise ValueError("--target is missing: it names the column of DATA that holds the classes.")
    trees = found.trees if isinstance(found, AdditiveTrees) else getattr(found.forest, "trees", None)
    if not isinstance(found, AdditiveTrees | BoundForest) or not isinstance(trees, Trees):
        raise ValueError(f"--model={str(path)!r} holds a {type(found).__name__}; pass a classifier of trees.")
    if not isinstance(found.blank_answer(), Answer):
        raise ValueError(f"--model={str(path)!r} answers with no probabilities; save it with another rule.")
    labels = tuple(map(_label, found.class_labels))
    X, y, notes = _read(data_file(data), trees.columns, target, labels)
    table = Table(Path(data).name, X, y, labels, notes)
    boosted = isinstance(found, AdditiveTrees) and not found.is_forest
    about = {
        "name": Path(path).name,
        "n_trees": trees.n_trees,
        "boosted": boosted,
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }
    trees, own = _of_codes(found)
    return table, GivenModel(trees, own, about)


def _evidence(answer: Answer) -> np.ndarray:
    """What a calibration reads: log probabilities, of two classes their difference, within what float32 tells."""
    logs = np.maximum(np.asarray(answer.log_probability, np.float64), -80.0)
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs


def _of_codes(model: AdditiveTrees | BoundForest) -> tuple[Trees, Any]:
    """The trees and the model for data that hold codes already."""
    columns = model.columns.of_codes()
    if isinstance(model, BoundForest):
        trees = dataclasses.replace(model.forest.trees, columns=columns)
        return trees, bind(dataclasses.replace(model.forest, trees=trees), model.combiner)
    trees = dataclasses.replace(model.trees, columns=columns)
    return trees, eqx.tree_at(lambda one: one.trees, model, trees)


def _read(path: Path, columns: Columns, target: str, labels: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, tuple]:
    """The table as the model's trees test it, the positions of classes, and notes of what was left out."""
    if columns.names is not None and target in columns.names:
        raise ValueError(f"--target={target!r} is a column that the model reads; name the column of the classes.")
    chunks = list(file_chunks(path, Wanted(columns, None, (target,)), _ROWS))
    if not chunks:
        raise ValueError(f"{path} has 0 rows.")
    values = [encode_arrow(one.features, columns, one.where, are_cells=one.are_cells).values for one in chunks]
    given = [label for one in chunks for label in _targets(one)]
    known = np.array([label is not None for label in given])
    place = {label: c for c, label in enumerate(labels)}
    if odd := next((label for label in given if label is not None and label not in place), None):
        raise ValueError(
            f"--target={target!r} of {path} holds {odd!r}, and the model's classes are {', '.join(labels[:10])}. Files "
            "of XGBoost, LightGBM, treelite and some others know classes by their positions alone, in the order of "
            "training: write these numbers into the column."
        )
    if not known.any():
        raise ValueError(f"--target={target!r} is missing in all {len(given)} rows; choose another column.")
    X = np.concatenate([np.asarray(one) for one in values])[known]
    y = np.array([place[label] for label in given if label is not None], np.int64)
    left = int(np.sum(~known))
    return X, y, (f"{left} of {len(given)} rows have no {target!r} and are left out.",) * (left > 0)


def _targets(chunk: DataChunk) -> list[str | None]:
    column = chunk.kept.column(0).to_pylist()
    return [None if one is None or one != one or one == "" else _label(one) for one in column]


def _label(value: Any) -> str:
    """A class as text: 1 and 1.0 are one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

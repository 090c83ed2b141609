"""Models of files whose leaves a study reads: one that stays as fitted, and a forest that is fitted for each split."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import equinox as eqx
import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from jaxunc._checks import join_names, suggest
from jaxunc._types import steps_of_estimator
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Answer
from jaxunc.forest import Trees
from jaxunc.inference import Answering, BoundForest, bind
from jaxunc.streaming import DataChunk, Notation, Wanted, as_answering, check_text, data_file, file_chunks, load_model
from jaxunc.tables import encode_arrow, is_sparse

from ._evaluate import Answers
from ._settings import MODEL, MODEL_CALIBRATED
from ._table import Table, label_text

_CHUNK_ROWS = 2**16


class GivenModel(NamedTuple):
    """A fitted model on whose leaves combiners are compared; of nominal columns it reads codes in place of words."""

    trees: Trees  # the trees; a study counts the training rows of each split in their leaves
    model: Answering  # the model itself, which answers instances
    about: dict[str, Any]  # the file's "name" and "sha256", "n_trees", and "boosted": whether the trees are boosted

    def answers(self, X: np.ndarray, y: np.ndarray) -> dict[str, Answers]:
        """Return {name: function from instances to their answer} of the model as it is, and calibrated.

        The calibration is Platt's regression on the instances ``X`` and their classes ``y``.
        """
        regression: Any = LogisticRegression(C=100.0, max_iter=1000)  # hardly regularised
        regression.fit(_evidence(self.model.answer(X)), y)

        def calibrated(rows: np.ndarray) -> Answer:
            probs = regression.predict_proba(_evidence(self.model.answer(rows)))
            log_probs = np.log(np.maximum(probs, np.finfo(np.float32).tiny))  # finite, also of a probability of 0
            return Answer(class_scores=log_probs, score=None, probability=probs, log_probability=log_probs)

        return {MODEL: self.model.answer, MODEL_CALIBRATED: calibrated}


def read_given_model(
    path: str | Path,
    data: str | Path,
    target: str | None,
    notation: Notation = Notation(),  # noqa: B008
) -> tuple[Table, GivenModel]:
    """Return the table of the file ``data``, and the fitted model of ``path``, which reads its columns.

    The model is in a file of `jaxunc.save`, or one that `jaxunc.from_any` reads. The table holds nominal columns as the
    model's codes. ``target`` names the column with labels. ``notation`` has the marks in numbers of a text file, as far
    as the user names them.

    Raises a ValueError if a file cannot be read, or the model is not a classifier of trees with probabilities or takes
    raw columns. Also if columns or the target are missing, or it holds a label that the model lacks.
    """
    loaded = load_model(path)
    if steps_of_estimator(loaded):
        raise ValueError(
            f"--model={str(path)!r} takes raw columns through a pipeline, and compare reads what comes to its forest: "
            "jaxunc.save(path, model.bound_), and as DATA the rows that the steps before the forest make."
        )
    bound = as_answering(loaded)
    if target is None:
        raise ValueError("--target is missing: it names the column of DATA that holds the classes.")
    if not isinstance(bound, AdditiveTrees | BoundForest):
        raise ValueError(f"--model={str(path)!r} holds a {type(bound).__name__}; pass a classifier of trees.")
    trees = bound.trees if isinstance(bound, AdditiveTrees) else bound.forest.trees
    if not isinstance(bound.blank_answer(), Answer):
        raise ValueError(f"--model={str(path)!r} answers with no probabilities; save it with another combiner.")
    labels = tuple(map(label_text, bound.class_labels or ()))
    check_text([data_file(data)], notation)
    wanted = Wanted(trees.columns, features=None, keep=(target,), notation=notation)
    X, y, frame, notes = _read(data_file(data), wanted, labels)
    table = Table(Path(data).name, X, y, labels, notes, frame=frame)
    boosted = isinstance(bound, AdditiveTrees) and not bound.is_forest
    about = _facts(path, trees.n_trees, boosted)
    trees, model = _adapt_to_codes(bound)
    return table, GivenModel(trees, model, about)


def _adapt_to_codes(model: AdditiveTrees | BoundForest) -> tuple[Trees, Any]:
    """Return the trees and the model with columns of codes, for data whose nominal columns hold codes for words."""
    columns = model.columns.of_codes()
    if isinstance(model, BoundForest):
        trees = dataclasses.replace(model.forest.trees, columns=columns)
        return trees, bind(dataclasses.replace(model.forest, trees=trees), model.combiner)
    trees = dataclasses.replace(model.trees, columns=columns)
    return trees, eqx.tree_at(lambda additive: additive.trees, model, trees)


def _read(path: Path, wanted: Wanted, labels: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a file's features as the trees test them, classes as positions in ``labels``, a frame, and notes.

    ``wanted`` has the model's columns, and the name of the target. A note tells of rows left out for want of a label.
    The frame has no columns; its index holds the number of each row in the file, from 1.

    Raises a ValueError if no row has a label, a label is none of ``labels``, or the target is a column of the model.
    """
    columns = wanted.columns
    (target,) = wanted.keep
    if columns.names is not None and target in columns.names:
        raise ValueError(f"--target={target!r} is a column that the model reads; name the column of the classes.")
    chunks = list(file_chunks(path, wanted, _CHUNK_ROWS))
    if not chunks:
        raise ValueError(f"{path} has 0 rows.")
    encoded_chunks = [
        encode_arrow(chunk.features, columns, chunk.where, are_cells=chunk.are_cells, first=chunk.first).values
        for chunk in chunks
    ]
    labels_read = [label for chunk in chunks for label in _targets(chunk)]  # None: missing
    has_label = np.array([label is not None for label in labels_read])
    class_of = {label: c for c, label in enumerate(labels)}
    if unknown := next((label for label in labels_read if label is not None and label not in class_of), None):
        raise ValueError(
            f"--target={target!r} of {path} holds {unknown!r}, and the model's classes are {', '.join(labels[:10])}. "
            "Files of XGBoost, LightGBM, treelite and some others know classes by their positions alone, in the order "
            "of training: write these numbers into the column."
        )
    if not has_label.any():
        raise ValueError(f"--target={target!r} is missing in all {len(labels_read)} rows; choose another column.")
    X = np.concatenate([np.asarray(chunk) for chunk in encoded_chunks])[has_label]
    y = np.array([class_of[label] for label in labels_read if label is not None], np.int64)
    frame = pd.DataFrame(index=np.flatnonzero(has_label) + 1)
    if has_label.all():
        return X, y, frame, ()
    note = f"{np.sum(~has_label)} of {len(labels_read)} rows have no {target!r} and are left out."
    return X, y, frame, (note,)


def _targets(chunk: DataChunk) -> list[str | None]:
    """Return the labels in a chunk's first kept column as texts; None for missing ones."""
    column = chunk.kept.column(0).to_pylist()
    # Missing are None, NaN (which differs from itself) and empty texts.
    return [None if value is None or value != value or value == "" else label_text(value) for value in column]


def _evidence(answer: Answer) -> np.ndarray:
    """Return the features of Platt's regression, ``[instances classes]``: finite log probabilities.

    For two classes there is one feature, ``[instances 1]``: the logarithm of class 1 less that of class 0.
    """
    logs = np.maximum(np.asarray(answer.log_probability, np.float64), -80.0)  # of probability 0 it is -inf
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs


class RefittedModel(NamedTuple):
    """A forest of scikit-learn, or a pipeline that ends in one, fitted anew to the training rows of each split."""

    steps: Pipeline | None  # steps before the forest, which read raw columns; None if it reads the table's numbers
    forest: Any  # the forest as an estimator of scikit-learn
    columns: list[str]  # the raw columns that the steps read, in order
    about: dict[str, Any]  # the file's "name" and "sha256", "n_trees", "boosted" (False), "steps": their classes' names

    def fit(
        self, table: Table, train: np.ndarray, seed: int
    ) -> tuple[Any, Callable[..., np.ndarray], Any, tuple[str, ...]]:
        """Fit clones of the steps and, with a seed, of the forest to the table's rows at the positions ``train``.

        Return (forest, read, X, names). ``read`` is a function from positions of rows to the features that the fitted
        forest reads, ``X`` has those of the rows at ``train``. ``names`` are their names, none if steps do not tell
        them. Raises a ValueError if the steps cannot be fitted, or drop or make rows.
        """
        model: Any = clone(self.forest)
        model.set_params(random_state=seed)
        weights = model.class_weight
        if isinstance(weights, dict):  # by label, and the forest is fitted to positions of classes
            position = {label: c for c, label in enumerate(table.class_labels)}
            model.set_params(class_weight={position[label_text(label)]: weight for label, weight in weights.items()})
        y = table.y[train]
        if self.steps is None:
            X = table.X[train]
            return model.fit(X, y), lambda rows: table.X[rows], X, table.names
        frame = cast(pd.DataFrame, table.frame)[self.columns]
        steps, X, names = self._fit_steps(frame.iloc[train], y)

        def read(rows: np.ndarray) -> np.ndarray:
            """Return the features that the fitted steps make of the rows at these positions."""
            return _dense(steps.transform(frame.iloc[rows]))

        return model.fit(X, y), read, X, names

    def _fit_steps(self, raw_rows: pd.DataFrame, y: np.ndarray) -> tuple[Any, np.ndarray, tuple[str, ...]]:
        """Return a clone of the steps, fitted to raw rows and classes ``y``, and the rows' features and their names.

        There are no names if the steps do not tell them. Raises a ValueError if the steps cannot be fitted, or drop or
        make rows.
        """
        steps: Any = clone(cast(Pipeline, self.steps))
        try:
            X = _dense(steps.fit_transform(raw_rows, y))
        except Exception as error:  # the steps are foreign code, which may raise anything
            raise ValueError(
                f"--model={self.about['name']!r}: its steps cannot be fitted to DATA ({type(error).__name__}: "
                f"{str(error)[:200]}). Pass the columns that they were made for, of the same types."
            ) from error
        if len(X) != len(raw_rows):
            raise ValueError(
                f"--model={self.about['name']!r}: its steps make {len(X)} rows of {len(raw_rows)}; leave out those "
                "that drop or make rows."
            )
        try:
            names = tuple(map(str, steps.get_feature_names_out()))
        except (AttributeError, ValueError):
            names = ()
        return steps, X, names


def read_refitted_model(path: str, table: Table) -> RefittedModel:
    """Return the model of a pickle: a forest of scikit-learn, or a Pipeline that ends in one. This runs its code.

    ``table`` is the data that the model will be fitted to. Raises a ValueError if the file at ``path`` cannot be opened
    or holds something else, or a step drops or makes rows. Also if the table lacks a column that the model reads, or a
    class to which it gives a weight.
    """
    try:
        model: Any = joblib.load(path)
    except Exception as error:  # damaged bytes may raise anything
        raise ValueError(
            f"--model={path!r} cannot be opened as a pickle ({type(error).__name__}: {str(error)[:200]}); --trust is "
            "for files of joblib.dump or pickle.dump. Leave it out for others."
        ) from error
    steps = list(model.named_steps.values()) if isinstance(model, Pipeline) else [model]
    resampling = [type(step).__name__ for step in steps if hasattr(step, "fit_resample")]
    if resampling:
        raise ValueError(f"--model={path!r} holds {resampling[0]}, which drops or makes rows; leave this step out.")
    if not steps or not isinstance(steps[-1], RandomForestClassifier | ExtraTreesClassifier | DecisionTreeClassifier):
        kind = f"a {type(model).__name__}"
        if isinstance(model, Pipeline):
            kind += f" that ends in {type(steps[-1]).__name__ if steps else 'nothing'}"
        raise ValueError(
            f"--model={path!r} holds {kind}; expected a forest of scikit-learn, or a Pipeline whose last step is one. "
            "Of wrapped ones (calibrated, searched) pass the forest or pipeline inside."
        )
    forest = steps[-1]
    steps_before = model[:-1] if len(steps) > 1 else None
    columns = raw_names = [str(name) for name in cast(pd.DataFrame, table.frame).columns]
    if steps_before is not None:
        columns = [str(name) for name in getattr(model, "feature_names_in_", raw_names)]
    lacking = [name for name in columns if name not in raw_names]
    if lacking:
        raise ValueError(
            f"--model={path!r} reads the columns {join_names(lacking)}, which DATA lacks."
            f"{suggest(lacking[0], raw_names)} It has {join_names(raw_names, 20)}."
        )
    weights = getattr(forest, "class_weight", None)
    if isinstance(weights, dict):
        unknown = [str(label) for label in weights if label_text(label) not in table.class_labels]
        if unknown:
            raise ValueError(
                f"--model={path!r} has class weights of {join_names(unknown)}, which the target does not hold."
            )
    n_trees = getattr(forest, "n_estimators", 1)  # a single tree has no such attribute
    about = _facts(path, n_trees, boosted=False, steps=[type(step).__name__ for step in steps])
    return RefittedModel(steps_before, forest, columns, about)


def _facts(path: str | Path, n_trees: int, boosted: bool, **further: Any) -> dict[str, Any]:
    """Return the description of a model in results: its file's name and SHA-256, and the other arguments."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return {"name": Path(path).name, "n_trees": n_trees, "boosted": boosted, **further, "sha256": digest}


def _dense(values: Any) -> np.ndarray:
    """Return values, which may be a sparse matrix, as a dense array of float32."""
    return np.asarray(values.toarray() if is_sparse(values) else values, np.float32)

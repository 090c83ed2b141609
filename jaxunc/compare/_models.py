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
    """A fitted model on whose leaves combiners are compared; it reads codes of levels, which its table holds."""

    trees: Trees  # the trees; a study counts the training rows of each split in their leaves
    model: Answering  # the model itself, which answers instances
    about: dict[str, Any]  # the file's "name" and "sha256", "n_trees", and "boosted": whether the trees are boosted

    def answers(self, X: np.ndarray, y: np.ndarray) -> dict[str, Answers]:
        """Return {name: answer function} of the model itself, and of it calibrated by Platt's regression on X and y."""
        fitted: Any = LogisticRegression(C=100.0, max_iter=1000).fit(_evidence(self.model.answer(X)), y)

        def calibrated(rows: np.ndarray) -> Answer:
            shares = fitted.predict_proba(_evidence(self.model.answer(rows)))
            log_shares = np.log(np.maximum(shares, np.finfo(np.float32).tiny))
            return Answer(log_shares, None, shares, log_shares)

        return {MODEL: self.model.answer, MODEL_CALIBRATED: calibrated}


def read_given_model(
    path: str | Path,
    data: str | Path,
    target: str | None,
    notation: Notation = Notation(),  # noqa: B008
) -> tuple[Table, GivenModel]:
    """Read a fitted model, from a file of `jaxunc.save` or one that `jaxunc.from_any` reads, and a table for it.

    The table, of the file ``data``, holds nominal columns as the model's codes. Its columns are found by name where the
    model knows names, and ``target`` names the one with labels of the model. ``notation`` has the marks in numbers that
    the user tells of a text file.

    Raises a ValueError if a file cannot be read, the model is not a classifier of trees with probabilities or takes a
    pipeline's raw columns, columns are missing, or the target is missing or holds a label that the model lacks.
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
    X, y, rows, notes = _read(data_file(data), Wanted(trees.columns, None, (target,), notation), labels)
    table = Table(Path(data).name, X, y, labels, notes, frame=rows)
    boosted = isinstance(bound, AdditiveTrees) and not bound.is_forest
    about = _facts(path, trees.n_trees, boosted)
    trees, model = _adapt_to_codes(bound)
    return table, GivenModel(trees, model, about)


def _adapt_to_codes(model: AdditiveTrees | BoundForest) -> tuple[Trees, Any]:
    """Return the model's trees, and the model, for data whose nominal columns hold codes instead of words."""
    columns = model.columns.of_codes()
    if isinstance(model, BoundForest):
        trees = dataclasses.replace(model.forest.trees, columns=columns)
        return trees, bind(dataclasses.replace(model.forest, trees=trees), model.combiner)
    trees = dataclasses.replace(model.trees, columns=columns)
    return trees, eqx.tree_at(lambda additive: additive.trees, model, trees)


def _read(path: Path, wanted: Wanted, labels: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a file's features as the trees test them, classes as positions in ``labels``, a frame, and notes.

    ``wanted`` has the model's columns, and the name of the target. Rows without a label are left out, and a note says
    so. The frame has no columns; its index holds the number of each row in the file, from 1.
    """
    columns, (target,) = wanted.columns, wanted.keep
    if columns.names is not None and target in columns.names:
        raise ValueError(f"--target={target!r} is a column that the model reads; name the column of the classes.")
    chunks = list(file_chunks(path, wanted, _CHUNK_ROWS))
    if not chunks:
        raise ValueError(f"{path} has 0 rows.")
    values = [encode_arrow(c.features, columns, c.where, are_cells=c.are_cells, first=c.first).values for c in chunks]
    labels_read = [label for chunk in chunks for label in _targets(chunk)]
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
    X = np.concatenate([np.asarray(chunk) for chunk in values])[has_label]
    y = np.array([class_of[label] for label in labels_read if label is not None], np.int64)
    row_index, n_left_out = pd.DataFrame(index=np.flatnonzero(has_label) + 1), int(np.sum(~has_label))
    if not n_left_out:
        return X, y, row_index, ()
    return X, y, row_index, (f"{n_left_out} of {len(labels_read)} rows have no {target!r} and are left out.",)


def _targets(chunk: DataChunk) -> list[str | None]:
    column = chunk.kept.column(0).to_pylist()
    return [None if value is None or value != value or value == "" else label_text(value) for value in column]


def _evidence(answer: Answer) -> np.ndarray:
    """Return the features of Platt's regression: an answer's log probabilities ``[instances classes]``, at least -80.

    For two classes there is one feature, the logarithm of class 1 less that of class 0.
    """
    logs = np.maximum(np.asarray(answer.log_probability, np.float64), -80.0)
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

        Return the fitted forest, a function from positions of rows to the features that the forest reads, these
        features of the rows at ``train``, and their names (none if the steps do not tell them).

        Raises a ValueError if the steps cannot be fitted, or drop or make rows.
        """
        model: Any = clone(self.forest)
        model.set_params(random_state=seed)
        if isinstance(weights := model.class_weight, dict):
            position = {label: c for c, label in enumerate(table.class_labels)}
            model.set_params(class_weight={position[label_text(label)]: weight for label, weight in weights.items()})
        X, names = table.X[train], table.names
        if self.steps is not None:
            steps: Any = clone(self.steps)
            frame = cast(pd.DataFrame, table.frame)[self.columns]
            try:
                X = _dense(steps.fit_transform(frame.iloc[train], table.y[train]))
            except Exception as error:  # the steps are foreign code, which may raise anything
                raise ValueError(
                    f"--model={self.about['name']!r}: its steps cannot be fitted to DATA ({type(error).__name__}: "
                    f"{str(error)[:200]}). Pass the columns that they were made for, of the same types."
                ) from error
            if len(X) != len(train):
                raise ValueError(
                    f"--model={self.about['name']!r}: its steps make {len(X)} rows of {len(train)}; leave out those "
                    "that drop or make rows."
                )
            try:
                names = tuple(map(str, steps.get_feature_names_out()))
            except (AttributeError, ValueError):
                names = ()

            def read(rows):
                return _dense(steps.transform(frame.iloc[rows]))

        else:

            def read(rows):
                return table.X[rows]

        return model.fit(X, table.y[train]), read, X, names


def read_refitted_model(path: str, table: Table) -> RefittedModel:
    """Open a pickled forest of scikit-learn, or a Pipeline whose last step is one; this runs the code that it holds.

    Raises a ValueError if the file cannot be opened or holds something else, a step drops or makes rows, or the table
    lacks a column that is read or a class that has a weight.
    """
    try:
        model: Any = joblib.load(path)
    except Exception as error:  # damaged bytes may raise anything
        raise ValueError(
            f"--model={path!r} cannot be opened as a pickle ({type(error).__name__}: {str(error)[:200]}); --trust is "
            "for files of joblib.dump or pickle.dump. Leave it out for others."
        ) from error
    steps = list(model.named_steps.values()) if isinstance(model, Pipeline) else [model]
    if odd := next((type(step).__name__ for step in steps if hasattr(step, "fit_resample")), None):
        raise ValueError(f"--model={path!r} holds {odd}, which drops or makes rows; leave this step out.")
    if not steps or not isinstance(steps[-1], RandomForestClassifier | ExtraTreesClassifier | DecisionTreeClassifier):
        kind = f"a {type(model).__name__}"
        if isinstance(model, Pipeline):
            kind += f" that ends in {type(steps[-1]).__name__ if steps else 'nothing'}"
        raise ValueError(
            f"--model={path!r} holds {kind}; expected a forest of scikit-learn, or a Pipeline whose last step is one. "
            "Of wrapped ones (calibrated, searched) pass the forest or pipeline inside."
        )
    before = model[:-1] if len(steps) > 1 else None
    raw = [str(name) for name in cast(pd.DataFrame, table.frame).columns]
    columns = [str(name) for name in getattr(model, "feature_names_in_", raw)] if before is not None else raw
    if lacking := [name for name in columns if name not in raw]:
        raise ValueError(
            f"--model={path!r} reads the columns {join_names(lacking)}, which DATA lacks.{suggest(lacking[0], raw)} "
            f"It has {join_names(raw, 20)}."
        )
    if isinstance(weights := getattr(steps[-1], "class_weight", None), dict) and (
        odd := [str(label) for label in weights if label_text(label) not in table.class_labels]
    ):
        raise ValueError(f"--model={path!r} has class weights of {join_names(odd)}, which the target does not hold.")
    class_names = [type(step).__name__ for step in steps]
    about = _facts(path, getattr(steps[-1], "n_estimators", 1), False, steps=class_names)
    return RefittedModel(before, steps[-1], columns, about)


def _facts(path: str | Path, n_trees: int, boosted: bool, **further: Any) -> dict[str, Any]:
    """Return what results keep of a model's file: its name and SHA-256, ``n_trees``, ``boosted``, ``further`` facts."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return {"name": Path(path).name, "n_trees": n_trees, "boosted": boosted, **further, "sha256": digest}


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if is_sparse(values) else values, np.float32)

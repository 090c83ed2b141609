"""A forest of scikit-learn, or a pipeline that ends in one, that a study fits anew to each training part."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from jaxunc._checks import listed, nearest

from ._table import Table, label_text


class RefittedModel(NamedTuple):
    """A forest of scikit-learn, or a pipeline that ends in one, fitted anew to each training part."""

    steps: Pipeline | None
    """What comes before the forest, and reads the raw columns; None if the forest reads the table's numbers."""
    forest: Any
    columns: list[str]
    """The raw columns that the steps read, in order."""
    about: dict[str, Any]
    """Name, number of trees, a hash of the file, and the steps."""

    def fit(
        self, table: Table, train: np.ndarray, seed: int
    ) -> tuple[Any, Callable[..., np.ndarray], Any, tuple[str, ...]]:
        """Fit to rows; return the forest, what makes of rows what it reads, that of these rows, and its names."""
        model: Any = clone(self.forest)
        model.set_params(random_state=seed)
        if isinstance(weights := model.class_weight, dict):
            place = {label: c for c, label in enumerate(table.class_labels)}
            model.set_params(class_weight={place[label_text(label)]: weight for label, weight in weights.items()})
        X, names = table.X[train], table.names
        if self.steps is not None:
            steps: Any = clone(self.steps)
            frame = cast(pd.DataFrame, table.frame)[self.columns]
            try:
                X = _dense(steps.fit_transform(frame.iloc[train], table.y[train]))
            except Exception as error:  # whatever the steps of others raise
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
    """Open a pickled forest of scikit-learn, or a Pipeline whose last step is one, which runs what code it holds.

    Raises a ValueError if it cannot be opened, is something else, or reads columns that the table lacks.
    """
    try:
        model: Any = joblib.load(path)
    except Exception as error:  # whatever the bytes make of the reader
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
            f"--model={path!r} reads the columns {listed(lacking)}, which DATA lacks.{nearest(lacking[0], raw)} It has "
            f"{listed(raw, 20)}."
        )
    if isinstance(weights := getattr(steps[-1], "class_weight", None), dict) and (
        odd := [str(label) for label in weights if label_text(label) not in table.class_labels]
    ):
        raise ValueError(f"--model={path!r} has class weights of {listed(odd)}, which the target does not hold.")
    about = {
        "name": Path(path).name,
        "n_trees": getattr(steps[-1], "n_estimators", 1),
        "boosted": False,
        "steps": [type(step).__name__ for step in steps],
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }
    return RefittedModel(before, steps[-1], columns, about)


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float32)

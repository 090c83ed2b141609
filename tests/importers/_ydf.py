"""YDF's models."""

import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import ydf

import jaxunc as ju

from ._compare import Way
from ._tables import Menu, Table, ask, draw_table, draw_target, drawn, n_trees

FLOOR = 0.9
WAYS = ("boosted", "forest")
_MENU = Menu(words=("object", "str", "category"), numbers_as_words=False, nullable=False)
ydf.verbose(0)


def make(rng: np.random.Generator) -> Iterator[Way]:
    table = draw_table(rng, _MENU)
    classes = int(rng.choice([0, 2, 2, 3]))
    y = draw_target(rng, table, classes)
    target = np.array(["no", "yes", "perhaps"])[y] if classes else y
    form = str(rng.choice(["frame", "frame", "dictionary", "bytes"]))
    objects = rng.random() < 0.3
    data = _rows(table, form, objects)
    data["the label"] = target
    model = _learner(rng, classes, table).train(data)
    chance = rng.random()
    if chance < 0.1:
        model = pickle.loads(pickle.dumps(model))
    elif chance < 0.25:
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            model = ydf.load_model(folder)
    elif chance < 0.3:
        model = ydf.deserialize_model(model.serialize())
    asked = ask(rng, table, _MENU, _thresholds(model, table), unseen=True)
    rows, names = _rows(asked, form, objects), model.input_feature_names()
    if not names:
        return
    given = pd.DataFrame({name: rows[name] for name in names})
    random = model.name() == "RANDOM_FOREST"
    votes = random and classes and bool(getattr(model, "_model", None) and model._model.winner_takes_all())
    # Votes are no mean. For discretised columns YDF's engines differ, about gaps and about numbers beside bounds; we
    # follow the leaves that it tells.
    discretised = any(len(column.discretized_numerical.boundaries) for column in model.data_spec().columns)
    rows["the label"] = np.resize(target, len(asked))  # which YDF asks for where it tells leaves
    told = {"leaves": model.predict_leaves(rows), "answer": None if votes or discretised else model.predict(rows)}
    told |= {"labels": list(model.label_classes()) if classes else None, "steps": 4 + 2 * model.num_trees()}
    yield Way("forest" if random else "boosted", lambda: ju.from_any(model), given, **told, slack=1e-6)


def _learner(rng: np.random.Generator, classes: int, table: Table) -> Any:
    task = ydf.Task.CLASSIFICATION if classes else ydf.Task.REGRESSION
    settings: dict[str, Any] = {"label": "the label", "task": task, "num_threads": 1}
    settings |= {"random_seed": int(rng.integers(1000)), "max_depth": int(rng.choice([2, 3, 6]))}
    settings["min_examples"] = int(rng.choice([1, 5]))
    choices: dict[str, list] = {
        "allow_na_conditions": [True],
        "missing_value_policy": ["GLOBAL_IMPUTATION"] * 5 + ["LOCAL_IMPUTATION", "RANDOM_LOCAL_IMPUTATION"],
        "categorical_algorithm": ["CART", "ONE_HOT", "RANDOM"], "discretize_numerical_columns": [True],
        "num_discretized_numerical_bins": [4, 255], "min_vocab_frequency": [1, 5], "max_vocab_count": [3, 2000],
        "split_axis": ["AXIS_ALIGNED"] * 9 + ["SPARSE_OBLIQUE"], "include_all_columns": [True],
        "detect_numerical_as_discretized_numerical": [True],
    }  # fmt: skip
    settings |= {"max_vocab_count": 2000, "min_vocab_frequency": 1} | drawn(rng, choices, 0.35)
    if settings.pop("detect_numerical_as_discretized_numerical", False):
        settings["discretize_numerical_columns"] = True
    chance = rng.random()
    if chance < 0.5:
        more = {"num_trees": n_trees(rng), "validation_ratio": float(rng.choice([0.0, 0.2]))}
        if classes == 2 and rng.random() < 0.2:
            more["loss"] = "BINARY_FOCAL_LOSS"
        elif not classes and rng.random() < 0.3:
            more["loss"] = "MEAN_AVERAGE_ERROR"
        if rng.random() < 0.2:
            more["growing_strategy"], more["max_num_nodes"] = "BEST_FIRST_GLOBAL", int(rng.integers(2, 9))
        return ydf.GradientBoostedTreesLearner(**settings, **more)
    if chance < 0.85:
        more = {"num_trees": n_trees(rng), "compute_oob_performances": bool(rng.random() < 0.5)}
        more["winner_take_all"] = bool(rng.random() < 0.2)
        return ydf.RandomForestLearner(**settings, **more)
    return ydf.CartLearner(**settings, validation_ratio=float(rng.choice([0.0, 0.2])))


def _rows(table: Table, form: str, objects: bool) -> Any:
    made: dict[str, Any] = {}
    for column in table.columns:
        if column.kind == "word" and form == "frame":
            has_gaps = any(value is None for value in column.values)
            made[column.name] = pd.Series(column.values, dtype=object) if has_gaps else column.series()
        elif column.kind == "word":
            words = np.array([value or "" for value in column.values])
            made[column.name] = np.char.encode(words) if form == "bytes" else words
        elif column.kind == "bool":
            made[column.name] = np.array(column.values, object if objects and form == "frame" else bool)
        else:
            made[column.name] = column.series().to_numpy()
    return pd.DataFrame(made) if form == "frame" else made


def _thresholds(model: Any, table: Table) -> list[np.ndarray]:
    """The thresholds of the trees, and the bounds of discretised columns."""
    columns = model.data_spec().columns
    bounds = {column.name: list(column.discretized_numerical.boundaries) for column in columns}
    found: dict[str, list[float]] = {column.name: bounds.get(column.name, []) for column in table.columns}
    for tree in model.iter_trees():
        waiting = [tree.root]
        while waiting:
            node = waiting.pop()
            if not node.is_leaf:
                waiting += [node.pos_child, node.neg_child]
                if hasattr(node.condition, "threshold") and hasattr(node.condition, "attribute"):
                    found[columns[node.condition.attribute].name].append(node.condition.threshold)
    return [np.array(own) for own in found.values()]

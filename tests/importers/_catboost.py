"""CatBoost's models, and the ways in which people hand them over."""

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catboost
import numpy as np

import jaxunc as ju

from ._compare import Way, way_of_file
from ._tables import Menu, Table, ask, draw_table, draw_target, draw_weights, drawn, n_trees
from ._thresholds import of_catboost

FLOOR = 0.7
WAYS = ("live", "live with pool", "file.json")
_MENU = Menu(words=("category", "object", "str"), word_gaps=False, floats_as_words=False)
_CLASSES = {
    "Logloss": 2, "CrossEntropy": 2, "MultiClass": 3, "MultiClassOneVsAll": 3, "Focal:focal_alpha=0.4;focal_gamma=2": 2,
}  # fmt: skip
_NUMBERS = (
    "RMSE", "MAE", "Quantile:alpha=0.3", "Huber:delta=1", "Poisson", "Tweedie:variance_power=1.5", "LogCosh",
    "MultiRMSE", "MultiQuantile:alpha=0.2,0.5,0.8", "Expectile:alpha=0.3", "RMSEWithUncertainty", "MAPE", "Lq:q=3",
)  # fmt: skip


def make(rng: np.random.Generator) -> Iterator[Way]:
    table = draw_table(rng, _MENU)
    loss = str(rng.choice([*_CLASSES, "Logloss", "MultiClass", *_NUMBERS]))
    y = draw_target(rng, table, _CLASSES.get(loss, 0))
    if loss.startswith(("Poisson", "Tweedie", "MAPE")):
        y = np.floor(np.abs(y) * 3) + 1
    if loss == "CrossEntropy":
        y = y * 0.7 + 0.1
    if loss == "MultiRMSE":
        y = np.stack([y, -y], axis=1)
    form = str(rng.choice(["frame", "frame", "array"])) if not table.words else "frame"
    objects = rng.random() < 0.1
    features = _features(table, rng)
    rows, params = _rows(table, form, features, objects), _params(rng, loss)
    if features and rng.random() < 0.15:
        params["one_hot_max_size"] = 2
    weights, labels = draw_weights(rng, len(y)), None
    is_estimator = loss not in ("CrossEntropy", "MultiQuantile:alpha=0.2,0.5,0.8") and rng.random() < 0.5
    if loss in _CLASSES and is_estimator:
        labels = [[0, 1, 2], ["a", "b", "c"], [-1, 1, 5], [0.5, 1.5, 2.5]][rng.integers(4)][: _CLASSES[loss]]
        y, weights = np.array(labels)[y], draw_weights(rng, len(y))
    pool = catboost.Pool(rows, y, cat_features=features, weight=weights)
    kind = catboost.CatBoostClassifier if loss in _CLASSES else catboost.CatBoostRegressor
    model: Any = kind(**params) if is_estimator else catboost.CatBoost(params)
    stops = rng.random() < 0.15
    held = catboost.Pool(rows, rng.permutation(pool.get_label()), cat_features=features) if stops else None
    model.fit(pool, eval_set=held, early_stopping_rounds=2 if stops else None)
    yield from _ways(rng, table, _lived(rng, model), pool, form, features, objects, labels)


def _features(table: Table, rng: np.random.Generator) -> list[int]:
    """The columns that CatBoost is told to be categories: words, some bools, some integers."""
    others = ("bool", "int8", "int32", "int64")  # carriers, of which a third are told to be categories
    return [j for j, c in enumerate(table.columns) if c.kind == "word" or (c.carrier in others and rng.random() < 0.3)]


def _params(rng: np.random.Generator, loss: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "loss_function": loss, "iterations": n_trees(rng), "depth": int(rng.choice([1, 2, 3])),
        "thread_count": 1, "logging_level": "Silent", "allow_writing_files": False,
        "random_seed": int(rng.integers(1000)), "one_hot_max_size": 100,
    }  # fmt: skip
    choices: dict[str, list] = {
        "learning_rate": [0.1, 0.5, 1.0], "l2_leaf_reg": [0.0, 1.0, 3.0], "nan_mode": ["Min", "Max"],
        "border_count": [2, 16, 254],
        "feature_border_type": ["GreedyLogSum", "Uniform", "Median", "UniformAndQuantiles"],
        "boost_from_average": [True, False], "leaf_estimation_iterations": [1, 3], "random_strength": [0.0, 1.0],
        "rsm": [0.5],
    }  # fmt: skip
    params |= drawn(rng, choices, 0.4)
    if params.get("boost_from_average") and not loss.startswith(("RMSE", "MAE", "Quantile", "MultiRMSE", "Logloss")):
        params.pop("boost_from_average")
    if rng.random() < 0.25 and not loss.startswith("Multi"):
        params["grow_policy"] = str(rng.choice(["Depthwise", "Lossguide"]))
        if params["grow_policy"] == "Lossguide":
            params["max_leaves"] = int(rng.integers(2, 9))
    if rng.random() < 0.15:
        params["bootstrap_type"] = str(rng.choice(["Bernoulli", "No", "MVS", "Bayesian"]))
    return params


def _rows(table: Table, form: str, features: list[int], objects: bool) -> Any:
    """The rows as both are handed them: CatBoost takes pandas' plain types."""
    if form == "array" and not features:
        return table.matrix(np.float64 if objects else np.float32)
    frame = table.frame()
    return frame.astype({one.name: object for one in table.columns if objects and one.kind == "bool"})


def _lived(rng: np.random.Generator, model: Any) -> Any:
    chance = rng.random()
    if chance < 0.1:
        return pickle.loads(pickle.dumps(model))
    if chance < 0.2:
        return model.copy()
    if chance < 0.3 and model.tree_count_ > 1:
        model.shrink(int(rng.integers(1, model.tree_count_ + 1)))
    elif chance < 0.4 and len(np.atleast_1d(model.get_scale_and_bias()[1])) == 1:
        model.set_scale_and_bias(float(rng.choice([2.0, 0.1, -1.0])), float(rng.choice([0.0, 0.3])))
    elif chance < 0.5:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "model.cbm"))
            model.save_model(path)
            return type(model)().load_model(path)
    return model


def _ways(rng, table: Table, model: Any, pool, form: str, features: list[int], objects: bool, labels) -> Iterator[Way]:
    asked = ask(rng, table, _MENU, of_catboost(model, len(table.columns)), unseen=True)
    # CatBoost is asked for categories of the carriers that it was trained with.
    columns = list(asked.columns)
    for j in (j for j in features if columns[j].is_number):
        columns[j] = table.columns[j]._replace(values=rng.choice(table.columns[j].values, len(asked)))
    rows = _rows(Table(tuple(columns)), form, features, objects)
    theirs = catboost.Pool(rows, cat_features=features)
    loss = str(model.get_all_params().get("loss_function", "RMSE")).partition(":")[0]
    kind = {"Poisson": "Exponent", "Tweedie": "Exponent"}.get(loss, "RawFormulaVal")
    kind = "Probability" if loss in {name.partition(":")[0] for name in _CLASSES} else kind
    own = {
        "raw": model.predict(theirs, prediction_type="RawFormulaVal", thread_count=1),
        "answer": model.predict(theirs, prediction_type=kind, thread_count=1),
        "leaves": model.calc_leaf_indexes(theirs, thread_count=1), "labels": labels, "steps": 6,
    }  # fmt: skip
    if not features and rng.random() >= 0.5:
        yield Way("live", lambda: ju.from_any(model), rows, **own)
        return
    given = pool if rng.random() < 0.9 else None
    if rng.random() < 0.5:
        yield Way("live with pool", lambda: ju.from_catboost(model, pool=given), rows, **own)
    else:
        save = lambda path: model.save_model(str(path), format="json", pool=given)
        yield from way_of_file("file.json", "model.json", save, rows, **own)

"""LightGBM's models, and the ways in which people hand them over."""

import pickle
from collections.abc import Iterator
from typing import Any

import lightgbm
import numpy as np
import scipy.sparse

import jaxunc as ju

from ._compare import Way, way_of_file, ways_of_treelite
from ._tables import Menu, Table, ask, draw_table, draw_target, draw_weights, drawn, n_trees
from ._thresholds import of_lightgbm

FLOOR = 0.75
WAYS = ("estimator", "booster", "bytes", "text", "file.txt", "treelite of lightgbm")
_MENU = Menu(words=("category", "category", "ordered"), infinite=True, nullable=False)
_CLASSES = {"binary": 2, "cross_entropy": 2, "multiclass": 3, "multiclassova": 3}
_NUMBERS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie")
_POSITIVE = ("poisson", "gamma", "tweedie", "mape")


def make(rng: np.random.Generator) -> Iterator[Way]:
    table = draw_table(rng, _MENU)
    objective = str(rng.choice([*_CLASSES, "binary", "multiclass", *_NUMBERS, "lambdarank", "cross_entropy_lambda"]))
    y = draw_target(rng, table, _CLASSES.get(objective, 0)).astype(np.float64)
    if objective == "lambdarank":
        y = np.clip(np.floor(np.abs(y) * 3), 0, 5)
    elif objective in _POSITIVE:
        y = np.abs(y) * 3 + 0.1
    elif objective == "cross_entropy_lambda":
        y = 1 / (1 + np.exp(-y))
    params = _params(rng, objective)
    if objective not in ("lambdarank", "cross_entropy", "cross_entropy_lambda") and rng.random() < 0.45:
        yield from _of_estimator(rng, table, y, params)
    else:
        yield from _of_booster(rng, table, y, params)


def _params(rng: np.random.Generator, objective: str) -> dict[str, Any]:
    params: dict[str, Any] = {"objective": objective, "verbosity": -1, "num_threads": 1, "deterministic": True}
    choices: dict[str, list] = {
        "num_leaves": [2, 4, 8, 15], "max_depth": [-1, 1, 2, 4], "learning_rate": [0.1, 0.3, 1.0],
        "min_gain_to_split": [0, 0, 0.5, 30.0], "min_sum_hessian_in_leaf": [0, 1e-3, 1.0], "lambda_l2": [0, 0, 1.0],
        "lambda_l1": [0, 0, 0.5], "max_bin": [3, 15, 255], "zero_as_missing": [False, True],
        "use_missing": [True, True, False], "max_cat_to_onehot": [1, 4, 30], "cat_smooth": [0.0, 1.0, 10.0],
        "cat_l2": [0.0, 10.0], "path_smooth": [0.0, 0.5], "extra_trees": [False, False, True],
        "linear_tree": [False] * 19 + [True], "boost_from_average": [True, True, False], "feature_pre_filter": [False],
        "min_data_in_bin": [1, 3], "bin_construct_sample_cnt": [200000, 40], "enable_bundle": [True, False],
    }  # fmt: skip
    params |= drawn(rng, choices, 0.5)
    params["min_data_in_leaf"] = int(rng.choice([1, 3, 10]))
    params["min_data_per_group"] = int(rng.choice([1, 1, 1, 20]))  # of 100 no table here has a set
    params["boosting"] = str(rng.choice(["gbdt", "gbdt", "gbdt", "dart", "rf", "goss"]))
    if params["boosting"] == "rf" or (params["boosting"] != "goss" and rng.random() < 0.2):
        params |= {"bagging_freq": 1, "bagging_fraction": 0.7}
    if objective in ("binary", "multiclassova") and rng.random() < 0.3:
        params["sigmoid"] = float(rng.choice([0.5, 2.0, 0.7]))
    if objective == "regression" and rng.random() < 0.1:
        params["reg_sqrt"] = True
    if objective == "binary" and rng.random() < 0.2:
        params["is_unbalance"] = True
    if _CLASSES.get(objective) == 3:
        params["num_class"] = 3
    return params


def _rows(table: Table, form: str) -> Any:
    if form == "frame":
        return table.frame()
    dense = table.matrix(np.float32 if form == "array32" else np.float64)
    # What is stored and counts as 0 is told apart from it by LightGBM at one number alone.
    return scipy.sparse.csr_matrix(np.where(np.abs(dense) < 2e-35, 0, dense)) if form == "sparse" else dense


def _form(rng: np.random.Generator, table: Table) -> tuple[str, Any]:
    """What holds the rows, and what LightGBM is told of categories."""
    form = str(rng.choice(["frame", "frame", "frame", "array", "array32", "sparse"]))
    if form != "frame":
        return form, table.words or "auto"
    whole = [column.name for column in table.columns if column.carrier.startswith("int")]
    named = [table.columns[j].name for j in table.words]
    if whole and rng.random() < 0.2:
        return form, [*named, *whole] if rng.random() < 0.7 else whole
    return form, "auto"


def _of_booster(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    form, categories = _form(rng, table)
    group = [len(y)] if params["objective"] == "lambdarank" else None
    given = {"weight": draw_weights(rng, len(y)), "group": group, "categorical_feature": categories, "params": params}
    rows = _rows(table, form)
    made = lambda target, **more: lightgbm.Dataset(rows, target, free_raw_data=False, **given, **more)
    data, more = made(y), {}
    if rng.random() < 0.25 and params["boosting"] != "dart" and group is None:
        more = {"valid_sets": [made(rng.permutation(y), reference=data)]}
        more["callbacks"] = [lightgbm.early_stopping(2, verbose=False)]
    booster = lightgbm.train(params, data, n_trees(rng), **more)
    if rng.random() < 0.1 and params["boosting"] == "gbdt":
        booster = lightgbm.train(params, made(y), 2, init_model=booster, keep_training_booster=bool(rng.random() < 0.5))
    chance = rng.random()
    if chance < 0.15:
        booster = pickle.loads(pickle.dumps(booster))
    elif chance < 0.3:
        booster = lightgbm.Booster(model_str=booster.model_to_string())
    elif chance < 0.38:
        booster.shuffle_models()
    elif chance < 0.45 and booster.current_iteration() > 1:
        booster.rollback_one_iter()
    yield from _ways_of_booster(rng, table, booster, form, params)


def _ways_of_booster(
    rng: np.random.Generator, table: Table, booster: lightgbm.Booster, form: str, params: dict
) -> Iterator[Way]:
    asked = ask(rng, table, _MENU, of_lightgbm(booster, len(table.columns)), unseen=True)
    rows = _rows(asked, form)
    own = _reference(booster, rows, params, booster.num_model_per_iteration())
    kind = str(rng.choice(["live", "file", "text", "bytes"]))
    named = [column.name for column in table.columns if column.carrier in ("category", "ordered")]
    if form == "frame" and named and rng.random() < 0.4:
        yield Way("columns named", lambda: ju.from_lightgbm(booster, category_columns=named), rows, **own)
    elif kind == "live":
        yield Way("booster", lambda: ju.from_any(booster), rows, **own)
    elif kind == "text":
        yield Way("text", lambda: ju.from_lightgbm(booster.model_to_string()), rows, **own)
    elif kind == "bytes":
        yield Way("bytes", lambda: ju.from_any(booster.model_to_string().encode()), rows, **own)
    else:
        yield from way_of_file("file.txt", "model.txt", booster.save_model, rows, **own)
    if rng.random() < 0.3:
        yield from ways_of_treelite(rng, "lightgbm", booster, asked)


def _reference(booster: lightgbm.Booster, rows: Any, params: dict, each: int) -> dict[str, Any]:
    """What LightGBM answers: float64 sums of float64 leaves, of which ours are rounded to float32 each."""
    raw = booster.predict(rows, raw_score=True)
    scale = params.get("sigmoid", 1.0) if params["objective"] in ("binary", "multiclassova") else 1.0
    if params["boosting"] == "rf":
        scale /= max(1, booster.num_trees() // each)
    return {"raw": raw * scale, "answer": booster.predict(rows), "leaves": booster.predict(rows, pred_leaf=True)}


def _of_estimator(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    form, categories = _form(rng, table)
    settings = {name: value for name, value in params.items() if name not in ("num_class", "num_threads", "boosting")}
    settings |= {"boosting_type": params["boosting"], "n_estimators": n_trees(rng), "n_jobs": 1}
    classifies = params["objective"] in _CLASSES
    rows = _rows(table, form)
    labels = [[0, 1, 2], ["a", "b", "c"], [-1, 1, 5]][rng.integers(3)][: _CLASSES.get(params["objective"], 0)]
    target = np.array(labels)[y.astype(int)] if classifies else y
    more: dict[str, Any] = {}
    if rng.random() < 0.2 and params["boosting"] != "dart":
        more = {"eval_set": [(rows, rng.permutation(target))], "callbacks": [lightgbm.early_stopping(2, verbose=False)]}
    model = (lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor)(**settings)
    model.fit(rows, target, categorical_feature=categories, sample_weight=draw_weights(rng, len(y)), **more)
    if rng.random() < 0.25:
        model = pickle.loads(pickle.dumps(model))
    booster = model.booster_
    asked = ask(rng, table, _MENU, of_lightgbm(booster, len(table.columns)), unseen=True)
    theirs = _rows(asked, form)
    own = _reference(booster, theirs, params, booster.num_model_per_iteration())
    own["answer"] = model.predict_proba(theirs) if classifies else model.predict(theirs)
    yield Way("estimator", lambda: ju.from_any(model), theirs, labels=labels or None, **own)
    if rng.random() < 0.2:
        yield from _ways_of_booster(rng, table, booster, form, params)

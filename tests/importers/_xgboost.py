"""XGBoost's models, and the ways in which people hand them over."""

import copy
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import xgboost

import jaxunc as ju

from ._compare import Way, way_of_file, ways_of_treelite
from ._tables import Menu, Table, ask, draw_table, draw_target, draw_weights, drawn, n_trees
from ._thresholds import of_xgboost

FLOOR = 0.75
WAYS = ("estimator", "booster", "bytes", "file.json", "file.ubj", "treelite of xgboost")
_MENU = Menu(words=("category", "category", "ordered"), floats_as_words=False)
_CLASSES = {"binary:logistic": 2, "binary:logitraw": 2, "binary:hinge": 2, "multi:softprob": 3, "multi:softmax": 3}
_NUMBERS = (
    "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:logistic", "reg:squaredlogerror",
    "count:poisson", "reg:gamma", "reg:tweedie", "reg:quantileerror", "rank:pairwise", "survival:cox",
)  # fmt: skip


def make(rng: np.random.Generator) -> Iterator[Way]:
    table = draw_table(rng, _MENU)
    objective = _objective(rng)
    y = _target(rng, table, objective)
    params = _params(rng, objective, table)
    if params["booster"] == "gbtree" and rng.random() < 0.5:
        yield from _of_estimator(rng, table, y, params)
    else:
        yield from _of_booster(rng, table, y, params)


def _objective(rng: np.random.Generator) -> str:
    chance = rng.random()
    if chance < 0.35:
        return "binary:logistic"
    if chance < 0.55:
        return str(rng.choice(["multi:softprob", "multi:softmax"]))
    if chance < 0.62:
        return str(rng.choice(["binary:logitraw", "binary:hinge"]))
    return str(rng.choice(_NUMBERS, p=[0.3, *[0.075] * 8, 0.05, 0.05]))


def _target(rng: np.random.Generator, table: Table, objective: str) -> np.ndarray:
    y = draw_target(rng, table, _CLASSES.get(objective, 0)).astype(np.float64)
    if objective in _CLASSES or objective == "reg:logistic":
        return y if objective in _CLASSES else 1 / (1 + np.exp(-y))
    if objective in ("count:poisson", "reg:gamma", "reg:tweedie", "reg:squaredlogerror", "survival:cox"):
        return np.floor(np.abs(y) * 3) + (objective == "reg:gamma")
    if objective == "rank:pairwise":
        return np.clip(np.floor(np.abs(y) * 3), 0, 5)
    return y * rng.choice([1, 1e3, 1e-3]) + rng.choice([0, 0, 100])


def _params(rng: np.random.Generator, objective: str, table: Table) -> dict[str, Any]:
    params: dict[str, Any] = {"objective": objective, "nthread": 1, "seed": int(rng.integers(1000))}
    params["booster"] = str(rng.choice(["gbtree", "dart", "gblinear"], p=[0.94, 0.04, 0.02]))
    if params["booster"] == "gblinear" and table.words:
        params["booster"] = "dart"
    if params["booster"] == "gblinear":
        return {**params, "num_class": 3} if objective.startswith("multi") else params
    params["tree_method"] = str(rng.choice(["hist", "approx"] if table.words else ["hist", "approx", "exact", "exact"]))
    choices: dict[str, list] = {
        "learning_rate": [0.1, 0.3, 1.0], "gamma": [0, 0, 0, 0.5, 3.0, 30.0], "min_child_weight": [0, 1, 1, 5],
        "reg_lambda": [0, 1, 1], "reg_alpha": [0, 0, 0.5], "subsample": [1, 1, 0.7], "colsample_bynode": [1, 1, 0.6],
        "max_delta_step": [0, 0, 0.7], "num_parallel_tree": [1, 1, 1, 3],
    }  # fmt: skip
    params |= drawn(rng, {"max_depth": [1, 2, 3, 6]}, 1) | drawn(rng, choices, 0.6)
    if params["tree_method"] != "exact" and rng.random() < 0.3:
        params |= {"grow_policy": "lossguide", "max_leaves": int(rng.integers(2, 12)), "max_depth": 0}
    if params["tree_method"] == "hist" and rng.random() < 0.3:
        params["max_bin"] = int(rng.choice([2, 5, 64]))
    if table.words:
        params["max_cat_to_onehot"] = int(rng.choice([1, 4, 100]))
    if rng.random() < 0.25:
        params["base_score"] = float(rng.choice([0.5, 0.3, 0.01, 0.999]))
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = [0.5] if rng.random() < 0.5 else np.array([0.1, 0.5, 0.9])
    if rng.random() < 0.1 and len(table.columns) > 1 and not table.words:
        params["monotone_constraints"] = str((1, -1, *[0] * (len(table.columns) - 2)))
    if rng.random() < 0.05:
        params |= {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    return params


def _of_booster(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    params = params | ({"num_class": 3} if params["objective"].startswith("multi") else {})
    form = str(rng.choice(["frame", "frame", "codes", "array", "sparse"]))
    form = "codes" if form in ("array", "sparse") and table.words else form
    matrix = _matrix(table, form, y, draw_weights(rng, len(y)))
    rounds = n_trees(rng)
    more: dict[str, Any] = {}
    if rng.random() < 0.2:
        held = _matrix(table, form, rng.permutation(y))
        more = {"evals": [(held, "held")], "verbose_eval": False}
        if rng.random() < 0.3:
            more["callbacks"] = [xgboost.callback.EarlyStopping(2, save_best=bool(rng.random() < 0.5))]
        else:
            more["early_stopping_rounds"] = 2
    booster = xgboost.train(params, matrix, rounds, **more)
    if rng.random() < 0.15:
        booster = xgboost.train(params, matrix, int(rng.choice([1, 3])), xgb_model=booster)
    if params["booster"] != "gblinear":
        if rng.random() < 0.1:
            updater = str(rng.choice(["refresh", "prune"]))
            if not table.words:
                updated = {name: params[name] for name in ("objective", "num_class") if name in params}
                updated |= {"process_type": "update", "updater": updater, "gamma": 1.0}
                booster = xgboost.train(updated, matrix, booster.num_boosted_rounds(), xgb_model=booster)
        if rng.random() < 0.15 and booster.num_boosted_rounds() > 1:
            booster = booster[int(rng.integers(0, 2)) : booster.num_boosted_rounds()]
    yield from _ways_of_booster(rng, table, _lived(rng, booster), form)


def _lived(rng: np.random.Generator, booster: xgboost.Booster) -> xgboost.Booster:
    chance = rng.random()
    if chance < 0.5:
        return booster
    if chance < 0.7:
        return pickle.loads(pickle.dumps(booster)) if chance < 0.6 else copy.deepcopy(booster)
    return xgboost.Booster(model_file=bytearray(booster.save_raw(str(rng.choice(["json", "ubj"])))))


def _ways_of_booster(
    rng: np.random.Generator, table: Table, booster: xgboost.Booster, form: str, name: str = "booster"
) -> Iterator[Way]:
    thresholds = of_xgboost(booster, len(table.columns))
    asked = ask(rng, table, _MENU, thresholds)
    theirs, rows = _matrix(asked, form), _rows(asked, form)
    kind, best = str(rng.choice(["live", "json", "ubj", "bytes"])), booster.attr("best_iteration")
    # XGBoost's estimators read from files which trees are the best.
    part = {} if kind == "live" or best is None else {"iteration_range": (0, int(best) + 1)}
    # Some objectives answer with classes, or with nothing that is a link's.
    told, config = {}, booster.save_config()
    if not any(f'"{objective}"' in config for objective in ("multi:softmax", "binary:hinge")):
        told["answer"] = booster.predict(theirs, **part)
    if thresholds is not None:
        told["leaves"] = booster.predict(theirs, pred_leaf=True, **part)
    told |= {"raw": booster.predict(theirs, output_margin=True, **part), "slack": 2e-6}
    told["steps"] = 4 + 6 * booster.num_boosted_rounds()
    if kind == "live":
        yield Way(name, lambda: ju.from_any(booster), rows, **told)
    elif kind == "bytes":
        content = bytes(booster.save_raw(str(rng.choice(["json", "ubj"]))))
        yield Way("bytes", lambda: ju.from_any(content), rows, **told)
    else:
        yield from way_of_file(f"file.{kind}", f"model.{kind}", booster.save_model, rows, **told)
    if rng.random() < 0.3:
        yield from ways_of_treelite(rng, "xgboost", booster, asked)


def _matrix(table: Table, form: str, y: np.ndarray | None = None, weights: np.ndarray | None = None) -> Any:
    types = None
    if form in ("codes", "array") and table.words:
        types = ["c" if column.kind == "word" else "q" for column in table.columns]
    more = {"feature_types": types, "enable_categorical": True, "nthread": 1}
    return xgboost.DMatrix(_rows(table, form), y, weight=weights, **more)


def _rows(table: Table, form: str) -> Any:
    if form == "frame":
        return table.frame()
    dense = table.matrix(np.float32 if form != "array" else np.float64)
    return scipy.sparse.csr_matrix(np.nan_to_num(dense, nan=0.0)) if form == "sparse" else dense


def _of_estimator(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    params = {name: value for name, value in params.items() if name not in ("nthread", "seed")}
    params |= {"n_jobs": 1, "n_estimators": n_trees(rng), "enable_categorical": bool(table.words)}
    classifies = params["objective"] in _CLASSES
    forest = rng.random() < 0.15
    if forest:
        params = {name: value for name, value in params.items() if name not in ("num_parallel_tree", "learning_rate")}
        params |= {"colsample_bynode": 1.0} if params["tree_method"] == "exact" else {}
    if params["objective"] in ("rank:pairwise", "survival:cox"):
        params["objective"] = "reg:squarederror"
    missing = float(rng.choice([np.nan, np.nan, np.nan, 0.0, -999.0, 1.0])) if not table.words else np.nan
    if rng.random() < 0.5:
        params["missing"] = missing
    stops = not forest and rng.random() < 0.25
    more: dict[str, Any] = {}
    stopping: dict[str, Any] = {}
    rows = _rows(table, form := str(rng.choice(["frame", "frame", "array"])) if not table.words else "frame")
    if stops:
        params["n_estimators"] = 12
        chance = rng.random()
        if chance < 0.6:
            stopping["early_stopping_rounds"] = 2
        else:
            stopping["callbacks"] = [xgboost.callback.EarlyStopping(2, save_best=bool(chance < 0.75))]
        more = {"eval_set": [(rows, rng.permutation(y))], "verbose": False}
    more["sample_weight"] = draw_weights(rng, len(y))
    if not classifies and rng.random() < 0.1 and params["objective"] in ("reg:squarederror", "reg:absoluteerror"):
        y, more, stopping = np.stack([y, -(y**2), np.abs(y)], axis=1), {}, {}
    name = f"XGB{'RF' * forest}{'Classifier' if classifies else 'Regressor'}"
    target = y.astype(int) if classifies else y
    model = getattr(xgboost, name)(**params, **stopping).fit(rows, target, **more)
    if rng.random() < 0.1:
        model.fit(rows, target, xgb_model=model.get_booster(), **more)
    model = _lived_estimator(rng, model)
    asked = ask(rng, table, _MENU, of_xgboost(model.get_booster(), len(table.columns)))
    theirs = _rows(asked, form)
    if isinstance(theirs, np.ndarray) and not np.isnan(missing):
        theirs[np.random.default_rng(1).random(theirs.shape) < 0.2] = missing
    answer, labels = None, None
    if params["objective"] not in ("binary:hinge", "multi:softmax", "binary:logitraw"):
        answer = model.predict_proba(theirs) if classifies else model.predict(theirs)
    if params["objective"] in ("binary:logistic", "multi:softprob", "multi:softmax"):
        labels = list(range(_CLASSES[params["objective"]]))
    raw, leaves, steps = model.predict(theirs, output_margin=True), model.apply(theirs), 4 + 12 * params["n_estimators"]
    yield Way("estimator", lambda: ju.from_any(model), theirs, raw, answer, leaves, labels, steps, slack=2e-6)
    if rng.random() < 0.2 and np.isnan(missing):
        yield from _ways_of_booster(rng, table, model.get_booster(), form, "estimator's booster")


def _lived_estimator(rng: np.random.Generator, model: Any) -> Any:
    chance = rng.random()
    if chance < 0.55:
        return model
    if chance < 0.7:
        return pickle.loads(pickle.dumps(model))
    if chance < 0.8:
        return model.set_params(n_estimators=100, early_stopping_rounds=None if rng.random() < 0.5 else 3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model.{rng.choice(['json', 'ubj'])}")
        model.save_model(path)
        again = type(model)(**({"early_stopping_rounds": 5} if rng.random() < 0.3 else {}), n_jobs=1)
        if not np.isnan(model.missing):
            again.set_params(missing=model.missing)
        again.load_model(path)
    return again

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

from ._compare import Way
from ._tables import ODD_NAMES, PLAIN_NAMES, Menu, Table, ask, draw_table, draw_target, n_trees
from ._thresholds import of_xgboost
from ._treelite import ways_of_treelite

FLOOR = 0.75
WAYS = ("estimator", "booster", "bytes", "file.json", "file.ubj", "treelite of xgboost")
_MENU = Menu(words=("category", "category", "ordered"), floats_as_words=False, names=(*PLAIN_NAMES, *ODD_NAMES))
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
    if objective in _CLASSES:
        return y
    if objective == "reg:logistic":
        return 1 / (1 + np.exp(-y))
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
    if params["tree_method"] == "exact" and params["booster"] != "gblinear":
        params["colsample_bynode"] = 1
    choices: dict[str, list] = {
        "max_depth": [1, 2, 3, 6], "learning_rate": [0.1, 0.3, 1.0], "gamma": [0, 0, 0, 0.5, 3.0, 30.0],
        "min_child_weight": [0, 1, 1, 5], "reg_lambda": [0, 1, 1], "reg_alpha": [0, 0, 0.5], "subsample": [1, 1, 0.7],
        "colsample_bynode": [1, 1, 0.6], "max_delta_step": [0, 0, 0.7], "num_parallel_tree": [1, 1, 1, 3],
    }  # fmt: skip
    for name, values in choices.items():
        if rng.random() < 0.6 or name == "max_depth":
            params[name] = values[rng.integers(len(values))]
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
        params["multi_strategy"] = "multi_output_tree"
        params["tree_method"] = "hist"
    return params


def _of_booster(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    if params["objective"].startswith("multi"):
        params = params | {"num_class": 3}
    form = str(rng.choice(["frame", "frame", "codes", "array", "sparse"]))
    if form in ("array", "sparse") and table.words:
        form = "codes"
    matrix = _matrix(table, form, y, rng)
    rounds = n_trees(rng)
    more: dict[str, Any] = {}
    if rng.random() < 0.2:
        held = _matrix(table, form, rng.permutation(y))
        more = {"evals": [(held, "held")], "verbose_eval": False, "early_stopping_rounds": 2}
        if rng.random() < 0.3:
            more = more | {"early_stopping_rounds": None}
            more["callbacks"] = [xgboost.callback.EarlyStopping(2, save_best=bool(rng.random() < 0.5))]
    booster = xgboost.train(params, matrix, rounds, **more)
    if rng.random() < 0.15:
        booster = xgboost.train(params, matrix, int(rng.choice([1, 3])), xgb_model=booster)
    if params["booster"] != "gblinear":
        if rng.random() < 0.1:
            refreshed = {"process_type": "update", "updater": str(rng.choice(["refresh", "prune"]))}
            if not table.words:
                kept = {name: params[name] for name in ("objective", "num_class") if name in params}
                refreshed |= {"gamma": 1.0, **kept}
                booster = xgboost.train(refreshed, matrix, booster.num_boosted_rounds(), xgb_model=booster)
        if rng.random() < 0.15 and booster.num_boosted_rounds() > 1:
            booster = booster[int(rng.integers(0, 2)) : booster.num_boosted_rounds()]
    booster = _lived(rng, booster)
    yield from _ways_of_booster(rng, table, booster, form)


def _lived(rng: np.random.Generator, booster: xgboost.Booster) -> xgboost.Booster:
    chance = rng.random()
    if chance < 0.5:
        return booster
    if chance < 0.6:
        return pickle.loads(pickle.dumps(booster))
    if chance < 0.7:
        return copy.deepcopy(booster)
    return xgboost.Booster(model_file=bytearray(booster.save_raw(str(rng.choice(["json", "ubj"])))))


def _ways_of_booster(
    rng: np.random.Generator, table: Table, booster: xgboost.Booster, form: str, name: str = "booster"
) -> Iterator[Way]:
    thresholds = of_xgboost(booster, len(table.columns))
    asked = ask(rng, table, _MENU, thresholds)
    theirs = _matrix(asked, form)
    tree_based = thresholds is not None
    leaves = booster.predict(theirs, pred_leaf=True) if tree_based else None
    own = {
        "raw": booster.predict(theirs, output_margin=True), "answer": _probabilities(booster, theirs), "leaves": leaves,
        "steps": 4 + 2 * booster.num_boosted_rounds() * 3, "slack": 2e-6,
    }  # fmt: skip
    rows = _rows(asked, form)
    kind = str(rng.choice(["live", "json", "ubj", "bytes"]))
    if kind != "live" and booster.attr("best_iteration") is not None:  # which XGBoost's estimators read from files
        part = {"iteration_range": (0, int(booster.attr("best_iteration")) + 1)}
        own |= {
            "raw": booster.predict(theirs, output_margin=True, **part),
            "answer": None if own["answer"] is None else booster.predict(theirs, **part),
            "leaves": booster.predict(theirs, pred_leaf=True, **part),
        }
    if kind == "live":
        yield Way(name, lambda: ju.from_any(booster), rows, **own)
    elif kind == "bytes":
        content = bytes(booster.save_raw(str(rng.choice(["json", "ubj"]))))
        yield Way("bytes", lambda: ju.from_any(content), rows, **own)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"model.{kind}")
            booster.save_model(path)
            yield Way(f"file.{kind}", lambda: ju.from_any(str(path)), rows, **own)
    if rng.random() < 0.3:
        yield from ways_of_treelite(rng, "xgboost", booster, asked)


def _probabilities(booster: xgboost.Booster, matrix: xgboost.DMatrix) -> np.ndarray | None:
    """What the booster predicts, but for objectives that answer with classes or with nothing that is a link's."""
    config = booster.save_config()
    if any(f'"{name}"' in config for name in ("multi:softmax", "binary:hinge")):
        return None
    return booster.predict(matrix)


def _matrix(table: Table, form: str, y: np.ndarray | None = None, rng: np.random.Generator | None = None) -> Any:
    rows = _rows(table, form)
    types = None
    if form in ("codes", "array") and table.words:
        types = ["c" if column.kind == "word" else "q" for column in table.columns]
    weights = rng.integers(1, 4, len(table)).astype(float) if rng is not None and rng.random() < 0.2 else None
    return xgboost.DMatrix(rows, y, weight=weights, feature_types=types, enable_categorical=True, nthread=1)


def _rows(table: Table, form: str) -> Any:
    if form == "frame":
        return table.frame()
    dense = table.matrix(np.float32 if form != "array" else np.float64)
    if form != "sparse":
        return dense
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(dense, nan=0.0))
    sparse.eliminate_zeros()
    return sparse


def _of_estimator(rng: np.random.Generator, table: Table, y: np.ndarray, params: dict) -> Iterator[Way]:
    params = {name: value for name, value in params.items() if name not in ("nthread", "seed")}
    params |= {"n_jobs": 1, "n_estimators": n_trees(rng), "enable_categorical": bool(table.words)}
    classifies = params["objective"] in _CLASSES
    forest = rng.random() < 0.15
    if forest:
        params |= {"colsample_bynode": 1.0} if params["tree_method"] == "exact" else {}
        params.pop("num_parallel_tree", None)
        params.pop("learning_rate", None)
    if params["objective"] in ("rank:pairwise", "survival:cox"):
        params["objective"] = "reg:squarederror"
    missing = float(rng.choice([np.nan, np.nan, np.nan, 0.0, -999.0, 1.0])) if not table.words else np.nan
    if rng.random() < 0.5:
        params["missing"] = missing
    stops = not forest and rng.random() < 0.25
    more: dict[str, Any] = {}
    rows = _rows(table, form := str(rng.choice(["frame", "frame", "array"])) if not table.words else "frame")
    if stops:
        params["n_estimators"] = 12
        chance = rng.random()
        if chance < 0.6:
            params["early_stopping_rounds"] = 2
        else:
            params["callbacks"] = [xgboost.callback.EarlyStopping(2, save_best=bool(chance < 0.75))]
        more = {"eval_set": [(rows, rng.permutation(y))], "verbose": False}
    if rng.random() < 0.2:
        more["sample_weight"] = rng.integers(1, 4, len(y)).astype(float)
    kinds = (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor) if forest else ()
    kinds = kinds or (xgboost.XGBClassifier, xgboost.XGBRegressor)
    if not classifies and rng.random() < 0.1 and params["objective"] in ("reg:squarederror", "reg:absoluteerror"):
        y = np.stack([y, -(y**2), np.abs(y)], axis=1)
        more = {}
        params.pop("early_stopping_rounds", None)
        params.pop("callbacks", None)
    model = kinds[0 if classifies else 1](**params).fit(rows, y.astype(int) if classifies else y, **more)
    if rng.random() < 0.1:
        model.fit(rows, y.astype(int) if classifies else y, xgb_model=model.get_booster(), **more)
    model = _lived_estimator(rng, model)
    asked = ask(rng, table, _MENU, of_xgboost(model.get_booster(), len(table.columns)))
    theirs = _rows(asked, form)
    if isinstance(theirs, np.ndarray) and not np.isnan(missing):
        theirs[np.random.default_rng(1).random(theirs.shape) < 0.2] = missing
    answer = None
    if params["objective"] not in ("binary:hinge", "multi:softmax"):
        answer = model.predict_proba(theirs) if classifies else model.predict(theirs)
    has_labels = params["objective"] in ("binary:logistic", "multi:softprob", "multi:softmax")
    yield Way(
        "estimator", lambda: ju.from_any(model), theirs, raw=model.predict(theirs, output_margin=True),
        answer=None if params["objective"] == "binary:logitraw" else answer, leaves=model.apply(theirs),
        labels=list(range(_CLASSES[params["objective"]])) if has_labels else None,
        steps=4 + 6 * params["n_estimators"] * 2, slack=2e-6,
    )  # fmt: skip
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

"""Small models of other libraries, as files that are kept, with what these predict: who lacks the libraries tests, too.

``python -m tests._model_files`` writes them anew, with the libraries of the extra ``libraries``.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

FOLDER = Path(__file__).parent / "data" / "models"
NUMBERS = ["radius", "texture", "smoothness", "concavity"]
NAMED = ("xgboost.json", "xgboost.ubj", "xgboost_forest.json", "lightgbm.txt", "lightgbm_forest.txt", "catboost.json")
"""Files that know the columns by their names."""
NAMELESS = ("treelite.bin", "treelite_forest.bin", "trees.onnx")
"""Files that do not, of the numbers alone."""
N_TRAIN = 300


@lru_cache(maxsize=1)
def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Four columns of numbers, some missing, one of words; classes 0 and 1."""
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:, [0, 1, 4, 6]], columns=NUMBERS).astype(np.float32).astype(float)
    frame.loc[::17, "texture"] = np.nan
    frame["area"] = np.array(["small", "middle", "large", "huge"])[np.digitize(X[:, 3], [400, 550, 800])]
    return frame, y


def expected(name: str) -> np.ndarray:
    """The probability of class 1 that the library gave for the rows after those of training."""
    return np.array(json.loads((FOLDER / "expected.json").read_text())[name])


def _made() -> dict[str, Any]:
    frame, y = table()
    words = frame.assign(area=frame.area.astype("category"))
    own, y, rest = words[:N_TRAIN], y[:N_TRAIN], words[N_TRAIN:]
    return _xgboost(own, y, rest) | _lightgbm(own, y, rest) | _catboost(frame, y) | _nameless(own, y, rest)


def _xgboost(own: pd.DataFrame, y: np.ndarray, rest: pd.DataFrame) -> dict[str, Any]:
    import xgboost

    settings: dict[str, Any] = {"enable_categorical": True, "max_cat_to_onehot": 1, "random_state": 0}
    boosted = xgboost.XGBClassifier(n_estimators=4, max_depth=3, **settings).fit(own, y)
    forest = xgboost.XGBRFClassifier(n_estimators=6, max_depth=3, **settings).fit(own, y)
    found = {}
    for name, model in (("xgboost.json", boosted), ("xgboost.ubj", boosted), ("xgboost_forest.json", forest)):
        model.save_model(FOLDER / name)
        found[name] = model.predict_proba(rest)[:, 1]
    return found


def _lightgbm(own: pd.DataFrame, y: np.ndarray, rest: pd.DataFrame) -> dict[str, Any]:
    import lightgbm

    settings: dict[str, Any] = {"num_leaves": 6, "min_data_per_group": 5, "random_state": 0, "verbose": -1}
    bagged = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "n_estimators": 6}
    found = {}
    for name, more in (("lightgbm.txt", {"n_estimators": 4}), ("lightgbm_forest.txt", bagged)):
        model = lightgbm.LGBMClassifier(**settings, **more).fit(own, y)
        model.booster_.save_model(FOLDER / name)
        found[name] = np.asarray(model.predict_proba(rest))[:, 1]
    return found


def _catboost(frame: pd.DataFrame, y: np.ndarray) -> dict[str, Any]:
    import catboost

    pool = catboost.Pool(frame[:N_TRAIN], y, cat_features=["area"])
    settings: dict[str, Any] = {"one_hot_max_size": 10, "random_seed": 0, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(iterations=4, depth=3, learning_rate=0.3, **settings).fit(pool)
    model.save_model(str(FOLDER / "catboost.json"), format="json", pool=pool)
    _without_the_rest(FOLDER / "catboost.json")
    rest = catboost.Pool(frame[N_TRAIN:], cat_features=["area"])
    return {"catboost.json": np.asarray(model.predict_proba(rest))[:, 1]}


def _without_the_rest(path: Path) -> None:
    """Leave out of a file of CatBoost what says how it was trained, and where."""
    document = json.loads(path.read_text())
    info = document["model_info"]
    kept = {"loss_function": info["params"]["loss_function"]}
    document["model_info"] = {"catboost_version_info": "Branch: tags/v1.2.10", "class_params": info["class_params"]}
    document["model_info"]["params"] = kept
    path.write_text(json.dumps(document, indent=1) + "\n")


def _nameless(own: pd.DataFrame, y: np.ndarray, rest: pd.DataFrame) -> dict[str, Any]:
    import treelite
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    X, rest_of_numbers = (part[NUMBERS].fillna(-1).to_numpy(np.float32) for part in (own, rest))
    boosted = GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0).fit(X, y)
    forest = RandomForestClassifier(4, min_samples_leaf=5, random_state=0).fit(X, y)
    treelite.sklearn.import_model(boosted).serialize(FOLDER / "treelite.bin")
    treelite.sklearn.import_model(forest).serialize(FOLDER / "treelite_forest.bin")
    (FOLDER / "trees.onnx").write_bytes(to_onnx(boosted, X[:1], options={"zipmap": False}).SerializeToString())
    of_boosted, of_forest = (model.predict_proba(rest_of_numbers)[:, 1] for model in (boosted, forest))
    return {"treelite.bin": of_boosted, "treelite_forest.bin": of_forest, "trees.onnx": of_boosted}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    answers = {name: [round(float(one), 7) for one in column] for name, column in _made().items()}
    (FOLDER / "expected.json").write_text(json.dumps(answers) + "\n")

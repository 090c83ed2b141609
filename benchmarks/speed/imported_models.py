"""Models of other libraries that are measured, and the engines that answer for them."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jaxunc as ju

from .engines import Made, cores, gtil, onnx_runtime, positive, skl2onnx, treelite
from .workloads import Data


@dataclass(frozen=True)
class Library:
    """One kind of model of a library."""

    fit: Callable[[Data, int, int], Any]
    """(data, trees, depth) → a fitted model."""
    load: Callable[[Any], Any]
    """The importer."""
    own: Callable[[Any, np.ndarray], np.ndarray]
    """Its own probability of class 1, with all cores, from NumPy."""
    detail: str
    leaves: Callable[[Any, np.ndarray], np.ndarray] | None
    """The leaf of each instance in each tree, where the library tells it."""
    peers: dict[str, Callable[[Any, np.ndarray], Made]]
    """(model, rows) → what answers, and a word about it."""


def _xgboost(forest: bool = False) -> Library:
    import xgboost

    kind, settings = (xgboost.XGBRFClassifier, {}) if forest else (xgboost.XGBClassifier, {"learning_rate": 0.05})

    def fit(data: Data, n_trees: int, depth: int):
        return kind(n_estimators=n_trees, max_depth=depth, n_jobs=cores(), **settings).fit(data.X, data.y)

    return Library(
        fit,
        ju.from_xgboost,
        lambda model, X: model.predict_proba(X)[:, 1],
        "predict_proba (in place)",
        lambda model, X: model.apply(X),
        {
            "treelite GTIL": lambda model, X: gtil(treelite().frontend.from_xgboost(model.get_booster()), X),
            "oneDAL": lambda model, X: _onedal(model.get_booster(), X),
            "ONNX Runtime": lambda model, X: onnx_runtime(_onnxmltools("xgboost", model, X), X),
            "lignum": lambda model, X: _lignum(model, "model.ubj", X),
        },
    )


def _lightgbm(forest: bool = False) -> Library:
    import lightgbm

    settings = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.63} if forest else {}

    def fit(data: Data, n_trees: int, depth: int):
        limits = {"n_estimators": n_trees, "max_depth": depth, "num_leaves": 2**depth, "learning_rate": 0.05}
        return lightgbm.LGBMClassifier(n_jobs=cores(), verbose=-1, **limits, **settings).fit(data.X, data.y)

    return Library(
        fit,
        ju.from_lightgbm,
        lambda model, X: model.booster_.predict(X, num_threads=cores()),
        "Booster.predict",
        lambda model, X: model.booster_.predict(X, pred_leaf=True),
        {
            "lleaves": lambda model, X: _lleaves(model.booster_, X),
            "treelite GTIL": lambda model, X: gtil(treelite().frontend.from_lightgbm(model.booster_), X),
            "oneDAL": lambda model, X: _onedal(model.booster_, X),
            "ONNX Runtime": lambda model, X: onnx_runtime(_onnxmltools("lightgbm", model, X), X),
            "lignum": lambda model, X: _lignum(model.booster_, "model.txt", X),
        },
    )


def _catboost() -> Library:
    import catboost

    def fit(data: Data, n_trees: int, depth: int):
        quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": cores()}
        model = catboost.CatBoostClassifier(iterations=n_trees, depth=depth, learning_rate=0.05, **quiet)
        return model.fit(data.X, data.y)

    return Library(
        fit,
        ju.from_catboost,
        lambda model, X: model.predict_proba(X, thread_count=cores())[:, 1],
        "predict_proba",
        lambda model, X: model.calc_leaf_indexes(X),
        {
            "oneDAL": _onedal,
            "ONNX Runtime": lambda model, X: onnx_runtime(_catboost_onnx(model), X),
            "lignum": lambda model, X: _lignum(model, "model.json", X, format="json"),
        },
    )


def _histogram() -> Library:
    from sklearn.ensemble import HistGradientBoostingClassifier

    def fit(data: Data, n_trees: int, depth: int):
        limits = {"max_iter": n_trees, "max_depth": depth, "max_leaf_nodes": 2**depth, "learning_rate": 0.05}
        return HistGradientBoostingClassifier(early_stopping=False, **limits).fit(data.X, data.y)

    return Library(
        fit,
        ju.from_sklearn_values,
        lambda model, X: model.predict_proba(X)[:, 1],
        "predict_proba",
        None,
        {
            "treelite GTIL": lambda model, X: gtil(treelite().sklearn.import_model(model), X.astype(np.float64)),
            "ONNX Runtime": lambda model, X: onnx_runtime(skl2onnx(model, X), X),
        },
    )


def _ydf(forest: bool = False) -> Library:
    import ydf

    def fit(data: Data, n_trees: int, depth: int):
        limits = {"num_trees": n_trees, "max_depth": depth + 1}  # it counts the root
        if forest:
            learner = ydf.RandomForestLearner(label="label", winner_take_all=False, **limits)
        else:
            learner = ydf.GradientBoostedTreesLearner(label="label", shrinkage=0.05, early_stopping="NONE", **limits)
        return learner.train({"features": data.X, "label": data.y}, verbose=0)

    return Library(
        fit,
        ju.from_ydf,
        lambda model, X: model.predict({"features": X}, num_threads=cores()),
        "predict, C++",
        lambda model, X: model.predict_leaves({"features": X, "label": np.zeros(len(X), int)}),
        {} if forest else {"YDF's JAX export": _ydf_jax},
    )


def _onedal(model: Any, X: np.ndarray):
    import daal4py

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = daal4py.mb.convert_model(model)
    daal4py.daalinit(cores())
    answer = getattr(converted, "predict_proba", converted.predict)
    return lambda: positive(answer(X)), f"daal4py.mb.convert_model, {cores()} threads"


def _lleaves(booster: Any, X: np.ndarray):
    import lleaves

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        compiled = lleaves.Model(model_file=str(path))
        compiled.compile()
    return lambda: compiled.predict(X, n_jobs=cores()), f"compiled by LLVM, {cores()} threads"


def _lignum(model: Any, name: str, X: np.ndarray, **settings: str):
    """Of `pylignum`, from the type that it asks for."""
    import lignum

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        model.save_model(str(path), **settings)
        loaded = lignum.load(str(path))
    wide = X.astype(np.float64)
    return lambda: positive(loaded.predict(wide)), f"its interpreter, {cores()} threads, from NumPy's float64"


def _onnxmltools(kind: str, model: Any, X: np.ndarray) -> bytes:
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [("X", FloatTensorType([None, X.shape[1]]))]
    convert = getattr(onnxmltools, f"convert_{kind}")
    further = {"zipmap": False} if kind == "lightgbm" else {}
    return convert(model, initial_types=inputs, target_opset=15, **further).SerializeToString()


def _catboost_onnx(model: Any) -> bytes:
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        model.save_model(str(path), format="onnx")
        graph = onnx.load(path)
    # Its last node makes a dictionary of each row.
    zip_map = next(node for node in graph.graph.node if node.op_type == "ZipMap")
    graph.graph.node.remove(zip_map)
    shares = onnx.helper.make_tensor_value_info(zip_map.input[0], onnx.TensorProto.FLOAT, [None, 2])
    for output in [one for one in graph.graph.output if one.name in zip_map.output]:
        graph.graph.output.remove(output)
    graph.graph.output.append(shares)
    return graph.SerializeToString()


def _ydf_jax(model: Any, X: np.ndarray):
    import jax

    made = model.to_jax_function()
    feed = {"features": jax.numpy.asarray(X)}
    return lambda: np.asarray(made.predict(feed)), "to_jax_function, jitted"


LIBRARIES: dict[str, Callable[[], Library]] = {
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "HistGradientBoosting": _histogram,
    "YDF": _ydf,
    "XGBoost, random forest": lambda: _xgboost(forest=True),
    "LightGBM, random forest": lambda: _lightgbm(forest=True),
    "YDF, random forest": lambda: _ydf(forest=True),
}
"""What makes each; it raises an ImportError where the library is absent."""

"""Engines that answer for a fitted scikit-learn forest, each as a function without arguments.

Every engine takes the instances as a NumPy array and uses all cores. One that is not installed, or that cannot take
the forest, is named with the reason.
"""

import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from .measure import timed


@dataclass
class Engine:
    """One engine, ready to answer."""

    name: str
    answer: Callable[[], np.ndarray]
    """Probabilities of the classes ``[instances classes]``, or of class 1 ``[instances]``."""
    detail: str
    prepare_s: float = 0.0
    """Seconds from the scikit-learn model to an engine that is ready."""
    same_forest: bool = True
    """Whether it walks the very trees of the scikit-learn model, so that answers can be compared."""


@dataclass(frozen=True)
class Absent:
    """An engine that could not be measured."""

    name: str
    reason: str


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scikit_learn(model, X: np.ndarray) -> Engine:
    """The reference: every ratio is to its time."""
    model.n_jobs = -1
    return Engine("scikit-learn", lambda: model.predict_proba(X), "predict_proba, n_jobs=-1, from NumPy")


def peers(
    model, X: np.ndarray, y: np.ndarray, X_train: np.ndarray, names: Collection[str] | None = None
) -> tuple[list[Engine], list[Absent]]:
    """The other engines, all or those named, and those that are absent."""
    makers = {
        "ONNX Runtime": lambda: _onnx_runtime(model, X),
        "YDF": lambda: _ydf(model, X, X_train, y),
        "oneDAL": lambda: _onedal(model, X),
        "treelite GTIL": lambda: _gtil(model, X),
    }
    return attempt({name: make for name, make in makers.items() if names is None or name in names})


def attempt(makers: Mapping[str, Callable[[], Engine]]) -> tuple[list[Engine], list[Absent]]:
    """The engines that can be made and answer, and those that are absent."""
    found, absent = [], []
    for name, make in makers.items():
        try:
            seconds, _, engine = timed(make)
            engine.prepare_s = seconds
            engine.answer()
            found.append(engine)
        except ImportError as error:
            absent.append(Absent(name, f"not installed (no module {error.name or 'of that name'})"))
        except Exception as error:  # a peer that fails must not end the measurement of the others
            print(f"  {name} failed: {error!r:.300}", file=sys.stderr)
            # Messages may hold paths of the machine: the file gets the kind of error alone.
            absent.append(Absent(name, f"failed ({type(error).__name__})"))
    return found, absent


def _onnx_runtime(model, X: np.ndarray) -> Engine:
    import onnxruntime
    from skl2onnx import to_onnx

    graph = to_onnx(model, X[:1], options={id(model): {"zipmap": False}})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: X}
    return Engine(
        "ONNX Runtime",
        lambda: session.run(["probabilities"], feed)[0],
        f"skl2onnx, zipmap off, CPU provider, {cores()} threads, from NumPy",
    )


def _onedal(model, X: np.ndarray) -> Engine:
    """Intel's, by its model builder, which takes forests of two classes."""
    import daal4py
    import treelite

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it becomes a regression: of the probability of class 1
        converted = daal4py.mb.convert_model(treelite.sklearn.import_model(model))
    daal4py.daalinit(cores())
    detail = f"daal4py.mb.convert_model of treelite's import, {cores()} threads, from NumPy"
    return Engine("oneDAL", lambda: np.asarray(converted.predict(X)).ravel(), detail)


def _gtil(model, X: np.ndarray) -> Engine:
    import treelite

    imported = treelite.sklearn.import_model(model)
    detail = f"treelite.gtil.predict, {cores()} threads, from NumPy"
    return Engine("treelite GTIL", lambda: _by_class(treelite.gtil.predict(imported, X, nthread=cores())), detail)


def _by_class(answer: np.ndarray) -> np.ndarray:
    """``[instances outputs classes]`` of one output, or as it is."""
    return answer.reshape(len(answer), -1)


def _ydf(model, X: np.ndarray, X_train: np.ndarray, y: np.ndarray) -> Engine:
    import ydf

    data, threads = {"features": X}, cores()
    if hasattr(ydf, "from_sklearn"):
        forest, detail = _ydf_imported(ydf, model), "trees imported by from_sklearn, leaf probabilities averaged"
    else:
        forest, detail = _ydf_trained(ydf, model, X_train, y), "trained by itself: similar size, other trees"
    engines = ", ".join(forest.list_compatible_engines()) or "reference engine"
    return Engine(
        "YDF",
        lambda: forest.predict(data, num_threads=threads),
        f"{detail}; {engines}, {threads} threads, from NumPy",
        same_forest=hasattr(ydf, "from_sklearn"),
    )


def _ydf_imported(ydf, model):
    """The trees in a model that averages: from_sklearn's own lets every tree vote, which is another answer."""
    voting = ydf.from_sklearn(model)
    fake = {
        "label": [str(c) for c in model.classes_],
        "features": np.zeros((len(model.classes_), model.n_features_in_)),
    }
    learner = ydf.RandomForestLearner(label="label", num_trees=0, winner_take_all=False)
    averaging = learner.train(fake, verbose=0)
    for tree in voting.iter_trees():
        averaging.add_tree(tree)
    return averaging


def _ydf_trained(ydf, model, X_train: np.ndarray, y: np.ndarray):
    """For versions without an importer: a forest by the same settings, which only a random forest has."""
    if type(model).__name__ != "RandomForestClassifier":
        raise NotImplementedError("no learner of extremely randomised trees")
    learner = ydf.RandomForestLearner(
        label="label",
        num_trees=len(model.estimators_),
        min_examples=model.min_samples_leaf,
        max_depth=-1 if model.max_depth is None else model.max_depth,
        winner_take_all=False,
    )
    return learner.train({"label": y, "features": X_train}, verbose=0)


def compare(answer: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """How far answers are from scikit-learn's: an engine that rounds thresholds sends some instances elsewhere."""
    answer = np.asarray(answer, np.float64)
    positive = answer[:, 1] if answer.ndim == 2 else answer
    difference = np.abs(positive - reference[:, 1])
    return {
        "max_abs_difference": float(difference.max(initial=0.0)),
        "share_beyond_1e-4": float((difference > 1e-4).mean()) if len(difference) else 0.0,
    }

"""Engines that answer for a fitted scikit-learn forest, each as a function without arguments.

Every engine takes the instances as a NumPy array and uses all cores. One that is not installed, or that cannot take
the forest, is named with the reason.
"""

import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .measure import timed

Made = tuple[Callable[[], np.ndarray], str]
"""What answers, and a word about it."""


@dataclass
class Engine:
    """One engine, ready to answer."""

    name: str
    answer: Callable[[], np.ndarray]
    """Probabilities of the classes ``[instances classes]``, or of class 1 ``[instances]``."""
    detail: str
    prepare_s: float = 0.0
    """Seconds from the scikit-learn model to an engine that is ready."""


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


def peers(model, X: np.ndarray, names: Collection[str] | None = None) -> tuple[list[Engine], list[Absent]]:
    """The other engines, all or those named, and those that are absent."""
    imported = lambda by, made: (made[0], f"{by}, {made[1]}, from NumPy")
    makers = {
        "ONNX Runtime": lambda: imported("skl2onnx, zipmap off", onnx_runtime(skl2onnx(model, X), X)),
        "YDF": lambda: _ydf(model, X),
        "oneDAL": lambda: _onedal(model, X),
        "treelite GTIL": lambda: imported("treelite", gtil(treelite().sklearn.import_model(model), X)),
    }
    return attempt(makers, names)


def attempt(
    makers: Mapping[str, Callable[[], Made]], names: Collection[str] | None
) -> tuple[list[Engine], list[Absent]]:
    """The engines that can be made and answer, all or those named, and those that are absent."""
    found, absent = [], []
    for name, make in makers.items():
        if names is not None and name not in names:
            continue
        try:
            seconds, _, made = timed(make)
            engine = Engine(name, *made, seconds)
            engine.answer()
            found.append(engine)
        except ImportError as error:
            absent.append(Absent(name, f"not installed (no module {error.name or 'of that name'})"))
        except Exception as error:  # a peer that fails must not end the measurement of the others
            print(f"  {name} failed: {error!r:.300}", file=sys.stderr)
            # Messages may hold paths of the machine: the file gets the kind of error alone.
            absent.append(Absent(name, f"failed ({type(error).__name__})"))
    return found, absent


def skl2onnx(model: Any, X: np.ndarray) -> bytes:
    """A graph that answers probabilities as an array."""
    from skl2onnx import to_onnx

    return to_onnx(model, X[:1], options={id(model): {"zipmap": False}}).SerializeToString()


def onnx_runtime(graph: bytes, X: np.ndarray) -> Made:
    """What answers for a graph, with all cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    feed, name = {session.get_inputs()[0].name: X}, session.get_outputs()[1].name
    return lambda: positive(session.run([name], feed)[0]), f"CPU provider, {cores()} threads"


def treelite() -> Any:
    """The package, if it is installed."""
    import treelite

    return treelite


def gtil(imported: Any, X: np.ndarray) -> Made:
    """What answers for treelite's form of a model, with all cores."""
    predict = treelite().gtil.predict
    return lambda: positive(predict(imported, X, nthread=cores())), f"gtil.predict, {cores()} threads"


def positive(answer: Any) -> np.ndarray:
    """Probabilities of class 1, of answers with any number of axes."""
    answer = np.asarray(answer)
    return answer.reshape(len(answer), -1)[:, -1]


def _onedal(model, X: np.ndarray) -> Made:
    """Intel's, by its model builder, which takes forests of two classes."""
    import daal4py
    import treelite

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it becomes a regression: of the probability of class 1
        converted = daal4py.mb.convert_model(treelite.sklearn.import_model(model))
    daal4py.daalinit(cores())
    detail = f"daal4py.mb.convert_model of treelite's import, {cores()} threads, from NumPy"
    return lambda: np.asarray(converted.predict(X)).ravel(), detail


def _ydf(model, X: np.ndarray) -> Made:
    """The trees in a model that averages: from_sklearn's own lets every tree vote, which is another answer."""
    import ydf

    data, threads, voting = {"features": X}, cores(), ydf.from_sklearn(model)
    n_classes = len(model.classes_)
    fake = {"label": list(map(str, model.classes_)), "features": np.zeros((n_classes, model.n_features_in_))}
    learner = ydf.RandomForestLearner(label="label", num_trees=0, winner_take_all=False)
    averaging = learner.train(fake, verbose=0)
    for tree in voting.iter_trees():
        averaging.add_tree(tree)
    engines = ", ".join(averaging.list_compatible_engines()) or "reference engine"
    detail = f"trees imported by from_sklearn, leaf probabilities averaged; {engines}, {threads} threads, from NumPy"
    return lambda: averaging.predict(data, num_threads=threads), detail


def compare(answer: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """How far answers are from scikit-learn's: an engine that rounds thresholds sends some instances elsewhere."""
    difference = np.abs(positive(answer).astype(np.float64) - positive(reference))
    return {
        "max_abs_difference": float(difference.max(initial=0.0)),
        "share_beyond_1e-4": float((difference > 1e-4).mean()) if len(difference) else 0.0,
    }

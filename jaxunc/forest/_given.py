"""Checks of what is handed in where a forest belongs, with messages that say what to pass instead."""

from typing import Any

from ._forest import Forest
from ._trees import Trees


def check_is_forest(given: Any, name: str = "forest", *, or_trees: bool = False) -> None:
    """Raise a TypeError that says what to pass unless it is a `Forest` (with ``or_trees`` also for `Trees`)."""
    if isinstance(given, Forest) or (or_trees and isinstance(given, Trees)):
        return
    kind = type(given).__name__
    raise TypeError(f"{name} is a {kind}. {_advice(given)}")


def _advice(given: Any) -> str:
    kind = type(given)
    if kind.__module__.partition(".")[0] == "sklearn":
        return "It is scikit-learn's: pass jaxunc.from_sklearn(model), the fitted model imported."
    if kind.__module__.startswith("jaxunc.additive"):
        return (
            "Its leaves hold values, and its trees correct each other: they are no witnesses of one question, as rules "
            "take them. Ask its raw and predict; or count instances that it was not fitted to: jaxunc.count_leaves("
            "model.trees, X, y)."
        )
    if kind.__module__.startswith("jaxunc.estimators"):
        return "Pass its forest_, which it has once it is fitted."
    if isinstance(getattr(given, "forest", None), Forest):
        return "Pass its forest."
    return "Pass a Forest, such as jaxunc.from_sklearn(model)."

"""Names of before version 0.2, and what they are called now: who asks for an old one is told the new one."""

from collections.abc import Callable
from typing import Any

RENAMED = {
    "Blended": "jaxunc.learning.BlendResult",
    "Chosen": "jaxunc.learning.ChoiceResult",
    "FORM": "jaxunc.storage.FORMAT_VERSION",
    "Fitted": "jaxunc.learning.FitResult",
    "FittedForest": "jaxunc.learning.ForestFitResult",
    "Fold": "jaxunc.Combiner",
    "HonestRows": "jaxunc.learning.OutOfSampleRows",
    "Range": "jaxunc.imprecise.Interval",
    "Scorer": "jaxunc.streaming.BatchPredictor",
    "Settled": "jaxunc.stopping.VoteResult",
    "Stopped": "jaxunc.stopping.StoppingResult",
    "Stream": "jaxunc.routing.PackedTrees",
    "bagging": "jaxunc.greedy.bagging",
    "both_counts": "jaxunc.Forest.with_counting",
    "grow_greedy_trees": "jaxunc.greedy.grow_greedy_trees",
    "honest_rows": "jaxunc.learning.out_of_sample_rows",
    "jaxunc.learning.Progress": "jaxunc.learning.FitProgress",
    "jaxunc.streaming.Progress": "jaxunc.streaming.RunProgress",
}
"""Classes and functions; with their module where several have the name."""

RENAMED_PARAMETERS = {
    "calibration_size": "held_out_size",
    "form": "algorithm",  # of transduction
    "min_leaf": "min_samples_leaf",
    "stopped": "settled_after",
}
"""Parameters of estimators and functions."""

RENAMED_VALUES = {"calibration": "held_out"}
"""Values of ``counts`` and ``source``."""


def missing(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have."""
    now = RENAMED.get(name) or RENAMED.get(f"{module}.{name}")
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f"; it is {now} now." if now else ""))


def renamed_in(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that says what old names are called now."""

    def look_up(name: str) -> Any:
        raise missing(module, name)

    return look_up

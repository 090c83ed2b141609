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
    "Range": "jaxunc.intervals.Interval",
    "Scorer": "jaxunc.streaming.BatchPredictor",
    "Settled": "jaxunc.voting.VoteResult",
    "Stopped": "jaxunc.voting.StoppingResult",
    "Stream": "jaxunc.inference.PackedTrees",
    "jaxunc.random_trees.bagging": "jaxunc.transduction.bagging",
    "both_counts": "jaxunc.Forest.with_counting",
    "jaxunc.random_trees.grow_greedy_trees": "jaxunc.transduction.grow_greedy_trees",
    "honest_rows": "jaxunc.learning.out_of_sample_rows",
    "jaxunc.Answer": "jaxunc.combiners.Answer",
    "jaxunc.Explanation": "jaxunc.combiners.Explanation",
    "jaxunc.Preference": "jaxunc.combiners.Preference",
    "jaxunc.ShardedForest": "jaxunc.parallel.ShardedForest",
    "jaxunc.Together": "jaxunc.combiners.Together",
    "jaxunc.Trees": "jaxunc.forest.Trees",
    "jaxunc.TwoFloat": "jaxunc.combiners.TwoFloat",
    "jaxunc.Uncertainty": "jaxunc.combiners.Uncertainty",
    "jaxunc.bagging": "jaxunc.transduction.bagging",
    "jaxunc.check_forest": "jaxunc.forest.check_forest",
    "jaxunc.grow_greedy_trees": "jaxunc.transduction.grow_greedy_trees",
    "jaxunc.learned_field": "jaxunc.combiners.learned_field",
    "jaxunc.leave_one_out": "jaxunc.counting.leave_one_out",
    "jaxunc.leave_one_out_certainty": "jaxunc.transduction.leave_one_out_certainty",
    "jaxunc.oob_mask": "jaxunc.counting.oob_mask",
    "jaxunc.tree_field": "jaxunc.combiners.tree_field",
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

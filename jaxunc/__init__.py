"""jaxunc: what the leaf counts of a forest of decision trees can say.

``import jaxunc as ju``: import a fitted forest (`from_sklearn`), choose a combiner (`Mean`, `EvidenceAccumulation`, …),
`bind` the two, and score instances.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jaxunc import belief, combiners, counting, forest, inference, scorers, tables
from jaxunc._checks import warn_of_wrong_jax
from jaxunc._numerics import set_storage, use_compilation_cache
from jaxunc._version import __version__ as __version__
from jaxunc.combiners import (
    AveragedIntervals,
    BetaAggregation,
    Calibrated,
    CautiousRule,
    Combiner,
    DempsterRule,
    EpistemicWeighting,
    EvidenceAccumulation,
    ExplainedVote,
    GeneralizedMixture,
    GeneralizedVote,
    LearnedPool,
    LearnedVote,
    Maximum,
    Mean,
    Median,
    OneVsRest,
    Pooling,
    Stack,
    UncertaintyDecomposition,
    Vote,
    Weighted,
    margin,
)
from jaxunc.counting import count_leaves
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind, leaf_counts, leaf_index

if TYPE_CHECKING:
    from jaxunc import (
        additive,
        compare,
        decisions,
        estimators,
        explanations,
        interop,
        learning,
        metrics,
        parallel,
        proximity,
        random_trees,
        regression,
        smoothing,
        storage,
        streaming,
        transduction,
        voting,
    )
    from jaxunc.explanations import explain
    from jaxunc.interop import (
        from_any,
        from_catboost,
        from_lightgbm,
        from_onnx,
        from_sklearn,
        from_sklearn_values,
        from_treelite,
        from_xgboost,
        from_ydf,
        to_onnx,
        to_treelite,
    )
    from jaxunc.parallel import shard
    from jaxunc.proximity import neighbour_weights, neighbours, outside_share
    from jaxunc.random_trees import grow_random_trees
    from jaxunc.storage import load, save
    from jaxunc.streaming import stream
    from jaxunc.transduction import transductive_certainty
    from jaxunc.voting import predict_until_settled

__all__ = [
    "AveragedIntervals",
    "BetaAggregation",
    "BoundForest",
    "Calibrated",
    "CautiousRule",
    "Combiner",
    "DempsterRule",
    "EpistemicWeighting",
    "EvidenceAccumulation",
    "ExplainedVote",
    "Forest",
    "GeneralizedMixture",
    "GeneralizedVote",
    "LearnedPool",
    "LearnedVote",
    "Maximum",
    "Mean",
    "Median",
    "OneVsRest",
    "Pooling",
    "Stack",
    "UncertaintyDecomposition",
    "Vote",
    "Weighted",
    "additive",
    "belief",
    "bind",
    "combiners",
    "compare",
    "count_leaves",
    "counting",
    "decisions",
    "estimators",
    "explain",
    "explanations",
    "forest",
    "from_any",
    "from_catboost",
    "from_lightgbm",
    "from_onnx",
    "from_sklearn",
    "from_sklearn_values",
    "from_treelite",
    "from_xgboost",
    "from_ydf",
    "grow_random_trees",
    "inference",
    "interop",
    "leaf_counts",
    "leaf_index",
    "learning",
    "load",
    "margin",
    "metrics",
    "neighbour_weights",
    "neighbours",
    "outside_share",
    "parallel",
    "predict_until_settled",
    "proximity",
    "random_trees",
    "regression",
    "save",
    "scorers",
    "shard",
    "smoothing",
    "storage",
    "stream",
    "streaming",
    "tables",
    "to_onnx",
    "to_treelite",
    "transduction",
    "transductive_certainty",
    "use_compilation_cache",
    "voting",
]

# The room that each of these names comes from. Such a name, or a room that was not imported above, is imported at its
# first use: scikit-learn and SciPy's statistics take longer to import than JAX does, and `bind` needs neither.
_ROOM_OF = {
    "explain": "explanations",
    "grow_random_trees": "random_trees",
    "transductive_certainty": "transduction",
    **dict.fromkeys(("load", "save"), "storage"),
    **dict.fromkeys(("neighbour_weights", "neighbours", "outside_share"), "proximity"),
    "stream": "streaming",
    "shard": "parallel",
    **dict.fromkeys(("from_any", "from_catboost", "from_lightgbm", "from_onnx", "from_sklearn"), "interop"),
    **dict.fromkeys(("from_sklearn_values", "from_treelite", "from_xgboost", "from_ydf"), "interop"),
    **dict.fromkeys(("to_onnx", "to_treelite"), "interop"),
    "predict_until_settled": "voting",
}

if not TYPE_CHECKING:  # with `__getattr__` type checkers would accept names that do not exist

    def __getattr__(name: str):
        if name in _ROOM_OF:
            globals()[name] = value = getattr(_room(_ROOM_OF[name]), name)
            return value
        if name in __all__:
            return _room(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _room(name: str):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            message = f'jaxunc.{name} reads and writes by the package pyarrow: pip install "jaxunc[cli]".'
            raise ModuleNotFoundError(message, name=error.name) from error


warn_of_wrong_jax()
# Imported when states are made: `storage` imports the estimators, and they scikit-learn.
set_storage(lambda: import_module("jaxunc.storage"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

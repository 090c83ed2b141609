"""Importers and exporters of other libraries' forests and ensembles of trees."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._any_model import ModelFile, class_weight_of, from_any, is_model_file, library_of, read_model_file
from ._catboost import from_catboost
from ._documents import UntestedVersionWarning
from ._lightgbm import from_lightgbm
from ._to_treelite import to_treelite
from ._treelite import from_treelite
from ._xgboost import from_xgboost
from ._ydf import from_ydf
from .onnx import from_onnx, to_onnx

if TYPE_CHECKING:
    from ._sklearn import (
        THRESHOLDS,
        Opened,
        Steps,
        check_rows,
        from_sklearn,
        is_read,
        known_to_sklearn,
        n_rows,
        opened,
        steps_of,
        transformed,
        way_round,
    )
    from ._sklearn_values import GROWN, from_sklearn_values, grown_leaves

__all__ = [
    "UntestedVersionWarning",
    "from_any",
    "from_catboost",
    "from_lightgbm",
    "from_onnx",
    "from_sklearn",
    "from_sklearn_values",
    "from_treelite",
    "from_xgboost",
    "from_ydf",
    "to_onnx",
    "to_treelite",
]

# Names that are imported when first used, by their module: scikit-learn is slow to import, and other files need none.
_LATER = dict.fromkeys(("from_sklearn", "is_read", "way_round", "THRESHOLDS", "Opened", "Steps"), "_sklearn")
_LATER |= dict.fromkeys(("GROWN", "from_sklearn_values", "grown_leaves"), "_sklearn_values")
_LATER |= dict.fromkeys(("check_rows", "known_to_sklearn", "n_rows", "opened", "steps_of", "transformed"), "_sklearn")

if not TYPE_CHECKING:  # type checkers that see `__getattr__` take any name for one that there is

    def __getattr__(name: str):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return value

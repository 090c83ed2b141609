"""Importers and exporters of other libraries' forests and ensembles of trees."""

from ._catboost import from_catboost
from ._lightgbm import from_lightgbm
from ._onnx import from_onnx
from ._sklearn import from_sklearn
from ._sklearn_values import from_sklearn_values
from ._to_onnx import to_onnx
from ._to_treelite import to_treelite
from ._treelite import from_treelite
from ._xgboost import from_xgboost
from ._ydf import from_ydf

__all__ = [
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

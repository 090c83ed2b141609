"""Importers of other libraries' forests and ensembles of trees."""

from ._onnx import from_onnx
from ._sklearn import from_sklearn
from ._treelite import from_treelite
from ._xgboost import from_xgboost

__all__ = ["from_onnx", "from_sklearn", "from_treelite", "from_xgboost"]

"""Importers of other libraries' forests and ensembles of trees."""

from ._sklearn import from_sklearn
from ._treelite import from_treelite
from ._xgboost import from_xgboost

__all__ = ["from_sklearn", "from_treelite", "from_xgboost"]

"""Importers of other libraries' forests and ensembles of trees."""

from ._catboost import from_catboost
from ._sklearn import from_sklearn
from ._xgboost import from_xgboost
from ._ydf import from_ydf

__all__ = ["from_catboost", "from_sklearn", "from_xgboost", "from_ydf"]

"""Importers of other libraries' forests and ensembles of trees."""

from ._hist_gradient_boosting import from_hist_gradient_boosting
from ._lightgbm import from_lightgbm
from ._sklearn import from_sklearn
from ._xgboost import from_xgboost

__all__ = ["from_hist_gradient_boosting", "from_lightgbm", "from_sklearn", "from_xgboost"]

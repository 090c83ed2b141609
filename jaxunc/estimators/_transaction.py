"""Fits that happen wholly or not at all."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

EstimatorT = TypeVar("EstimatorT")
ParametersT = ParamSpec("ParametersT")


def as_transaction(
    fit: Callable[Concatenate[EstimatorT, ParametersT], EstimatorT],
) -> Callable[Concatenate[EstimatorT, ParametersT], EstimatorT]:
    """Return the method ``fit``, changed so that after an error the estimator has all attributes of its former fit."""

    @wraps(fit)
    def fit_copy(self: EstimatorT, *args: ParametersT.args, **kwargs: ParametersT.kwargs) -> EstimatorT:
        estimator = object.__new__(type(self))
        vars(estimator).update(vars(self))
        fit(estimator, *args, **kwargs)
        self.__dict__ = vars(estimator)
        return self

    return fit_copy

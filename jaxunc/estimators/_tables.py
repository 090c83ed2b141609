"""Data on their way into classifiers: checked by scikit-learn, whatever holds them."""

from typing import Any

import jax
import numpy as np
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from jaxunc.tables import (
    Columns,
    Frame,
    array_of,
    as_csr,
    as_labels,
    check_names,
    is_sparse,
    plain_pandas,
    plain_table,
    refuse_quantities,
)


def validated(estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> Any:
    """Return X as an array of numbers, or in rows of a sparse matrix, and its labels, as ``validate_data`` does.

    Raises what that does, and a TypeError for dates, which scikit-learn takes for numbers.
    """
    X = as_csr(X, for_sklearn=True) if is_sparse(X) else numbers_among_objects(plain_table(X))
    y = tuple(labels_given(estimator, labels) for labels in y)
    if isinstance(X, Frame):
        take_names(estimator, X, reset=reset)
        checks = {"estimator": estimator, **checks}
        values: Any = array_of(X, "X")
        return check_X_y(values, *y, **checks) if y else check_array(values, input_name="X", **checks)
    return validate_data(estimator, X, *y, reset=reset, **checks)


def labels_given(estimator: Any, y: Any) -> Any:
    """Return labels as `as_labels` does; a ValueError in scikit-learn's words if there are none."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    return as_labels(y)


def numbers_among_objects(X: Any) -> Any:
    """Return an array of objects, or columns of a pandas frame, as numbers where they hold nothing else.

    Raises a TypeError for dates, times and complex numbers among them.
    """
    refuse_quantities(X, "X")
    if isinstance(X, jax.Array):
        return np.array(X)  # scikit-learn's trees read no array that cannot be written to where values are missing
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return plain_pandas(X)
    if isinstance(X, Frame) or len(X.shape) != 2 or X.dtype.kind != "O":
        return X
    values = array_of(X, "X")
    return X if values.dtype == object else values


def take_names(estimator: Any, frame: Frame, *, reset: bool) -> None:
    """Keep the names of a frame's columns, or compare them, as scikit-learn does where it knows the kind of frame."""
    n = frame.shape[1]
    if reset:
        estimator.n_features_in_, estimator.feature_names_in_ = n, np.array(frame.columns, object)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        check_names(frame.columns, Columns(len(names), tuple(map(str, names))), "X")
    elif n != estimator.n_features_in_:
        raise ValueError(f"X has {n} features, but {type(estimator).__name__} expects {estimator.n_features_in_}.")

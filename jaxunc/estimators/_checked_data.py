"""Checks of the rows, labels and weights that an estimator is given."""

from typing import Any

import jax
import numpy as np
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jaxunc._checks import as_weights, check_readable
from jaxunc.counting import as_groups
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


def check_fitted(estimator: Any, attribute: str) -> None:
    """Raise a NotFittedError unless an estimator has an ``attribute`` that ``fit`` sets."""
    if not hasattr(estimator, attribute):  # scikit-learn's check takes 40 µs, as long as the answer for one row
        check_is_fitted(estimator, attribute)


def check_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Return a copy of the weights of the rows X, checked, ``[rows]``; None for None, or if all weights are 1.

    Raises a ValueError unless there is a weight ≥ 0 for each row.
    """
    if sample_weight is None:
        return None
    check_readable("sample_weight", sample_weight)  # before scikit-learn, which reads the values under a mask
    # A copy, which no caller can change: forests keep their weights, and draw their bags from these again.
    weights = _check_sample_weight(sample_weight, X, copy=True)
    as_weights(weights, len(weights))
    return None if np.all(weights == 1) else weights


def drop_weightless_rows(X: Any, y: Any, sample_weight: np.ndarray | None, groups: Any) -> tuple[Any, Any, Any, Any]:
    """Return (X, y, weights, groups) without the rows of weight 0; raise a ValueError if no row is left.

    ``groups [rows]`` are labels, or None. If rows are dropped, labels become numbers, and weights that are all 1 None.
    """
    if sample_weight is None or sample_weight.all():
        return X, y, sample_weight, groups
    rows = np.flatnonzero(sample_weight)
    if not len(rows):
        raise ValueError("sample_weight is zero throughout, which leaves all instances out; pass others.")
    if groups is not None:
        group_numbers = as_groups(groups, len(y))
        groups = rows if group_numbers is None else group_numbers[rows]  # None: each row is a group
    return _safe_indexing(X, rows), y[rows], check_weights(sample_weight[rows], y[rows]), groups


def validate_numbers(estimator: Any, X: Any, *y: Any, reset: bool, from_pipeline: bool = False, **checks: Any) -> Any:
    """Return rows X as an array of numbers or a CSR matrix, and labels y if they are passed, as ``validate_data`` does.

    ``checks`` are further arguments of scikit-learn's ``validate_data``. With ``reset`` the names and the number of
    columns are kept in the estimator, else compared with those kept there; neither for the output of a pipeline's
    steps (``from_pipeline``). Also raises a TypeError for dates, which scikit-learn takes for numbers.
    """
    X = as_csr(X, for_sklearn=True) if is_sparse(X) else convert_objects(plain_table(X))
    y = tuple(check_labels(estimator, labels) for labels in y)
    try:
        # Without `validate_data`, which would compare a pipeline's output with the raw columns, and knows no `Frame`.
        if isinstance(X, Frame) or from_pipeline:
            if not from_pipeline:
                take_names(estimator, X, reset=reset)
            checks = {"estimator": estimator, **checks}
            values: Any = array_of(X, "X") if isinstance(X, Frame) else X
            return check_X_y(values, *y, **checks) if y else check_array(values, input_name="X", **checks)
        with np.errstate(over="ignore"):  # values beyond float32 become infinite, and are refused as such
            return validate_data(estimator, X, *y, reset=reset, **checks)
    except ValueError as error:
        if from_pipeline or WORDS not in str(error):
            raise
        how = "Put a pipeline with an encoder, such as OneHotEncoder, in the place of the forest"
        raise ValueError(f"X holds words: {error}. {how}; see docs/how_to/use_a_pipeline.md.") from error


WORDS = "convert string to float"  # NumPy's error message for words among numbers


def validate_mixed(estimator: Any, X: Any, *y: Any, reset: bool) -> Any:
    """Return rows X, and labels y if they are passed, checked; rows may hold numbers and words.

    A frame stays as it is, and other rows become an array of any dtype. With ``reset`` the names and the number of
    columns are kept in the estimator, else compared with those kept there.
    """
    X = X if is_sparse(X) else plain_table(X)
    y = tuple(check_labels(estimator, labels) for labels in y)
    least_rows = int(reset)  # a fit needs a row, an answer none
    if not (hasattr(X, "iloc") or isinstance(X, Frame)):
        checks = {"dtype": None, "ensure_all_finite": "allow-nan", "ensure_min_samples": least_rows}
        return validate_data(estimator, X, *y, reset=reset, **checks)
    # Columns of several types share no array: each is checked where it is encoded.
    y = tuple(validate_data(estimator, y=labels, reset=reset) for labels in y)
    if len(X.shape) != 2:
        raise ValueError(
            f"X has shape {X.shape}; expected a frame (instances, features). One column? Pass X.to_frame()."
        )
    if len(X) < least_rows or not X.shape[1]:
        raise ValueError(f"X has shape {X.shape}; expected (instances, features), at least one of each.")
    check_consistent_length(X, *y)
    if isinstance(X, Frame):
        take_names(estimator, X, reset=reset)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return (X, *y) if y else X


def check_labels(estimator: Any, y: Any) -> Any:
    """Return labels y as `as_labels` does; raise a ValueError for None, and for a masked array with missing labels."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    if np.ma.is_masked(y):
        raise ValueError(
            f"y is a masked array, of which {np.ma.count_masked(y)} values are masked: missing, as NaN is. Leave out "
            "these rows, or fill them: y.filled(…)."
        )
    return as_labels(y)


def convert_objects(X: Any) -> Any:
    """Return rows X with numbers in place of objects, where an array or a pandas column holds numbers alone.

    Other rows stay as they are; arrays of JAX become NumPy's. Raises a TypeError for dates, times, complex numbers.
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


def plain_numbers(X: Any, has_levels: bool) -> Any:
    """Return rows X; an array of objects becomes one of numbers, unless its columns have levels (``has_levels``)."""
    holds_objects = isinstance(X, np.ndarray) and X.dtype == object
    return array_of(X, "X") if holds_objects and not has_levels else X


def take_names(estimator: Any, frame: Frame, *, reset: bool) -> None:
    """Keep the names of a frame's columns in the estimator if ``reset``; else compare them with those kept there.

    Raises a ValueError if they differ, or if the estimator has no names and another number of columns.
    """
    n_columns = frame.shape[1]
    if reset:
        estimator.n_features_in_ = n_columns
        estimator.feature_names_in_ = np.array(frame.columns, object)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        check_names(frame.columns, Columns(len(names), tuple(map(str, names))), "X")
    elif n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} expects {estimator.n_features_in_}."
        )

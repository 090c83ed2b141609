"""The training sample, checked and encoded: order keys of numbers, ranks of nominal values."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights
from jaxunc._numerics import NAN_LAST, order_key_at_or_below, padded_rows, power_of_two
from jaxunc.tables import (
    LARGEST_CODE,
    Columns,
    encode_instances,
    fit_columns,
    holds_numbers,
    training_labels,
    warn_of_merged_values,
)

from ._state import EncodedData

SMALLEST = 256
"""Least length of padded arrays, so that all small sets share their programs."""


class EncodedSample(NamedTuple):
    """A training set, encoded for growing trees."""

    data: EncodedData
    n_present: int
    """Number of instances with a positive weight."""
    present: np.ndarray
    """Positions of the instances with a positive weight, padded."""
    order: np.ndarray
    """Positions of the features in the order of ``data``: numeric ones first."""
    boundaries: np.ndarray
    """Order key of the largest number in each rank of a nominal feature, ``[features ranks]``."""
    weight: np.ndarray
    """Weight of each instance, float64 ``[instances]``."""
    totals: np.ndarray
    """Weighted class counts of the sample."""
    labels: tuple
    columns: Columns
    """Which columns are nominal, and the levels of nominal columns that do not hold codes already."""


def encode(X, y, nominal, sample_weight, missing: str) -> EncodedSample:
    """Return a training set, checked and encoded; arguments and errors are those of `grow_random_trees`."""
    columns = _find_columns(X, nominal)
    values = np.asarray(encode_instances(X, columns)[0])
    if 0 in values.shape:
        raise ValueError(f"X has shape {values.shape}; expected (instances, features), at least one of each.")
    n, n_features = values.shape
    labels, label = training_labels(y, n)
    weight = as_weights(sample_weight, n)
    if not weight.sum() > 0:
        raise ValueError("sample_weight is 0 for every instance; there is nothing to grow on.")
    present = np.flatnonzero(weight > 0)
    totals = np.bincount(label, weights=weight, minlength=len(labels))
    is_nominal = columns.is_nominal
    _check_missing(values, is_nominal, missing)
    warn_of_merged_values(X, columns)
    # Numeric features first: the compiled program knows a nominal feature by its index.
    order = np.concatenate([np.flatnonzero(~is_nominal), np.flatnonzero(is_nominal)])
    # Padded to powers of two, so that samples of like size share a compiled program; ``stride`` and the numbers of
    # features tell what is no padding.
    keys = np.zeros(power_of_two(values.size, 4 * SMALLEST), np.int32)
    n_ranks = np.zeros(n_features, np.int32)
    boundaries = []  # of nominal features alone
    for index, feature in enumerate(order):
        column = values[:, feature]
        if is_nominal[feature]:
            column, edges = _rank_values(column, present, int(feature))
            n_ranks[index] = len(edges)
            boundaries.append(edges)
        else:
            is_missing = np.isnan(column)
            column = np.where(is_missing, NAN_LAST, order_key_at_or_below(np.where(is_missing, 0, column)))
        keys[index * n : (index + 1) * n] = column
    # Whole weights are summed as integers, which is exact in any order; others on the host, in float64.
    is_integer = np.all(weight == np.rint(weight)) and weight.sum() < 2**31
    data = EncodedData(
        keys=jax.device_put(keys),
        stride=jnp.int32(n),
        label=jax.device_put(_pad(label.astype(np.int32))),
        weight=jnp.asarray(_pad(weight), jnp.int32) if is_integer else None,
        n_features=jnp.int32(n_features),
        n_numeric=jnp.int32((~is_nominal).sum()),
        n_ranks=jax.device_put(_pad(n_ranks, 32)),
    )
    # Nominal features are the last rows.
    boundary_table = np.zeros((n_features, max(map(len, boundaries), default=0)), np.int32)
    for table_row, edges in zip(boundary_table[n_features - len(boundaries) :], boundaries, strict=True):
        table_row[: len(edges)] = edges
    return EncodedSample(
        data=data,
        n_present=len(present),
        present=_pad(present.astype(np.int32)),
        order=order,
        boundaries=boundary_table,
        weight=weight,
        totals=totals,
        labels=labels,
        columns=columns,
    )


def _pad(values: np.ndarray, smallest: int = SMALLEST) -> np.ndarray:
    """Return ``values`` padded to a length that is a power of two, and ``smallest`` at least."""
    return padded_rows(values, power_of_two(len(values), smallest))


def _find_columns(X, nominal) -> Columns:
    """Return the columns of X as `fit_columns` does, but without levels for numbers that ``nominal`` names by bools.

    These are codes already.
    """
    mask = np.asarray(nominal)
    if mask.dtype != bool:
        return fit_columns(X, nominal)
    are_numbers = holds_numbers(X)
    if mask.shape != are_numbers.shape:
        return fit_columns(X, nominal)
    columns = fit_columns(X, mask & ~are_numbers)
    return dataclasses.replace(columns, nominal=tuple(mask.tolist())) if mask.any() else columns


def _check_missing(values: np.ndarray, is_nominal: np.ndarray, missing: str) -> None:
    """Raise a ValueError that names the first NaN in ``values [instances features]``.

    With ``missing="random"`` only those in nominal features count. ``is_nominal`` is ``[features]``.
    """
    is_missing = np.isnan(values)
    if missing == "random":
        is_missing &= is_nominal
    if np.any(is_missing):
        row, column = map(int, np.argwhere(is_missing)[0])
        remedy = "impute it, or pass missing='random'"
        if is_nominal[column]:
            remedy = "in a nominal feature give missing values a code of their own"
        raise ValueError(f"X[{row}, {column}] is NaN. Random decision trees are grown on known values: {remedy}.")


def _rank_values(column: np.ndarray, present: np.ndarray, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (rank of each value in a nominal ``column``, order key of the largest number in each rank).

    Gaps have ranks, too: below the smallest value, between values that are not successive integers, and above the
    largest. So values 3, 4 and 7 have the ranks 1, 2 and 4, and the gaps 0, 3 and 5. Only values of the instances
    ``present`` count. Raises a ValueError, which tells the number ``feature``, for codes that are not small integers.
    """
    codes = np.unique(column[present])
    if np.any(codes != np.rint(codes)) or np.abs(codes).max() > LARGEST_CODE:
        examples = codes[codes != np.rint(codes)][:3].tolist() or codes[[0, -1]].tolist()
        raise ValueError(
            f"nominal feature {feature} holds {examples}; "
            f"encode its values as integers of at most {LARGEST_CODE}, or name the feature by its position: nominal="
            f"[{feature}]."
        )
    # A gap takes the rank before its value: ranks of values go on by two behind a gap, and by one without.
    has_gap = np.concatenate([[True], np.diff(codes) > 1])
    rank = np.cumsum(1 + has_gap) - 1
    edges = np.full(rank[-1] + 2, np.iinfo(np.int32).max, np.int32)
    # A rank's edge is its value, a gap's the key just below the next value: ``key <= edge`` then cuts behind the rank.
    # The last gap, above all values, keeps the largest key.
    edges[rank] = order_key_at_or_below(codes.astype(np.float64))
    edges[rank[has_gap] - 1] = edges[rank[has_gap]] - 1
    return rank[np.clip(np.searchsorted(codes, column), 0, len(codes) - 1)], edges

"""A training set made ready for greedy trees: sorted once by every numeric feature."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int

from jaxunc.tables import Columns, encode_instances, fit_columns, training_labels, warn_of_merged_values


class Presorted(NamedTuple):
    """A training set with numeric and nominal features apart; ``places`` says where each lies among all features."""

    columns: Columns
    class_labels: tuple[Any, ...]
    label: Int[np.ndarray, " instances"]
    numeric: Int[np.ndarray, " numeric"]
    """Positions of the numeric features."""
    nominal: Int[np.ndarray, " nominal"]
    """Positions of the nominal features."""
    value: Float64[np.ndarray, "numeric instances"]
    """Numbers; a missing one is -inf, below all others."""
    rank: Int[np.ndarray, "numeric instances"]
    """Place of each value among the distinct values of its feature."""
    order: Int[np.ndarray, "numeric instances"]
    """Instances by increasing value."""
    code: Int[np.ndarray, "nominal instances"]
    n_codes: int
    """Number above every code."""

    @property
    def n(self) -> int:
        """Number of instances."""
        return len(self.label)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_labels)

    def take(self, rows: Int[np.ndarray, " rows"]) -> "Presorted":
        """Return the set of some of the instances, which may come more than once."""
        rank = self.rank[:, rows]
        return self._replace(
            label=self.label[rows],
            value=self.value[:, rows],
            rank=rank,
            order=np.argsort(rank, axis=1, kind="stable").astype(np.int32),
            code=self.code[:, rows],
        )


class Queries(NamedTuple):
    """Instances to be inserted or looked up, in the terms of a training set."""

    value: Float64[np.ndarray, "queries numeric"]
    rank: Int[np.ndarray, "queries numeric"]
    """Place of the largest value of the training set that is not above; -1 if there is none."""
    code: Int[np.ndarray, "queries nominal"]
    """Code of each value; -1 for a value that is not in the training set."""

    @property
    def n(self) -> int:
        """Number of instances."""
        return len(self.value)

    def rows(self, which) -> "Queries":
        """Return some of the instances."""
        return Queries(*(part[which] for part in tuple(self)))


def presort(X, y, nominal, *, name: str = "X") -> Presorted:
    """Check a training set and sort it; raises what `grow_greedy_trees` documents."""
    columns = fit_columns(X, nominal, name=name)
    values = np.asarray(encode_instances(X, columns, name)[0])
    if 0 in values.shape:
        raise ValueError(f"{name} has shape {values.shape}; expected (instances, features), at least one of each.")
    labels, label = training_labels(y, len(values), name.replace("X", "y"))
    warn_of_merged_values(X, columns, name)
    return sorted_sample(columns, labels, label, values)


def sorted_sample(columns: Columns, labels: tuple, label: np.ndarray, values: np.ndarray) -> Presorted:
    """Sort instances ``[instances features]`` of known columns and labels; NaN where a number is missing."""
    kinds = columns.is_nominal
    numeric, nominal_places = np.flatnonzero(~kinds), np.flatnonzero(kinds)
    value = _numbers(values[:, numeric]).T
    order = np.argsort(value, axis=1, kind="stable").astype(np.int32)
    ascending = np.take_along_axis(value, order, axis=1)
    rank = np.zeros(value.shape, np.int32)
    steps = np.cumsum(ascending[:, 1:] > ascending[:, :-1], axis=1, dtype=np.int32)
    np.put_along_axis(rank[:, :], order, np.pad(steps, ((0, 0), (1, 0))), axis=1)
    code = np.ascontiguousarray(values[:, nominal_places].T).astype(np.int32)
    # Labels are gathered for every instance and feature of a node: bytes stay in the cache longer.
    narrow = np.int8 if len(labels) < 128 else np.int32
    return Presorted(
        columns=columns,
        class_labels=labels,
        label=label.astype(narrow),
        numeric=numeric,
        nominal=nominal_places,
        value=np.ascontiguousarray(value),
        rank=rank,
        order=order,
        code=code,
        n_codes=int(code.max(initial=-1)) + 1,
    )


def values_of(sample: Presorted) -> Float32[np.ndarray, "instances features"]:
    """Return the instances as they were: numbers, NaN where missing, and codes."""
    values = np.empty((sample.n, sample.columns.number), np.float32)
    values[:, sample.numeric] = np.where(np.isneginf(sample.value), np.nan, sample.value).T
    values[:, sample.nominal] = sample.code.T
    return values


def as_queries(X, sample: Presorted) -> Queries:
    """Return instances in the terms of a training set, by comparison with its values."""
    values = np.asarray(encode_instances(X, sample.columns)[0])
    value = _numbers(values[:, sample.numeric])
    rank = np.empty(value.shape, np.int32)
    for f, order in enumerate(sample.order):
        # By the values of the training set: an instance's rank is that of the largest one that is not above it.
        below = np.searchsorted(sample.value[f], value[:, f], side="right", sorter=order)
        rank[:, f] = np.where(below > 0, sample.rank[f, order[below - 1]], -1)
    return Queries(np.ascontiguousarray(value), rank, values[:, sample.nominal].astype(np.int32))


def own_queries(sample: Presorted) -> Queries:
    """Return the instances of the training set itself."""
    value, rank, code = (np.ascontiguousarray(part.T) for part in (sample.value, sample.rank, sample.code))
    return Queries(value, rank, code)


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers as float64: missing ones below all others, and a single zero."""
    # Adding 0 turns -0 into +0: both are one value, to the last bit.
    wide = values.astype(np.float64) + 0.0
    return np.where(np.isnan(wide), -np.inf, wide)

"""A training set sorted once by every numeric feature, and the tests that a node's sample allows.

`presort` makes a `Presorted` of data, and `as_queries` finds the ranks and codes of instances in it. `find_cuts` finds
the cuts between values of numeric features, and `value_counts` counts the values of nominal ones.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int

from jaxunc.tables import Columns, encode_instances, fit_columns, training_labels, warn_of_merged_values

LOWEST = np.int64(-(2**62))
"""Score where there is no test: below all others, and such that differences do not overflow."""


class Presorted(NamedTuple):
    """A training set, divided into numeric and nominal features, and sorted by each numeric feature."""

    columns: Columns
    class_labels: tuple[Any, ...]
    label: Int[np.ndarray, " instances"]  # positions in ``class_labels``
    numeric: Int[np.ndarray, " numeric"]
    """Positions of the numeric features."""
    nominal: Int[np.ndarray, " nominal"]
    """Positions of the nominal features."""
    value: Float64[np.ndarray, "numeric instances"]
    """Values of the numeric features; a missing value is -inf, below all others."""
    rank: Int[np.ndarray, "numeric instances"]
    """Index of each value among the sorted distinct values of its feature."""
    order: Int[np.ndarray, "numeric instances"]
    """Positions of the instances by increasing value."""
    code: Int[np.ndarray, "nominal instances"]
    n_codes: int
    """Largest code of all nominal features, plus 1."""

    @property
    def n(self) -> int:
        return len(self.label)

    @property
    def n_classes(self) -> int:
        return len(self.class_labels)

    def take(self, rows: Int[np.ndarray, " rows"]) -> "Presorted":
        """Return the training set that has the instances at the positions ``rows``, which may be repeated."""
        rank = self.rank[:, rows]
        return self._replace(
            label=self.label[rows],
            value=self.value[:, rows],
            rank=rank,
            order=np.argsort(rank, axis=1, kind="stable").astype(np.int32),
            code=self.code[:, rows],
        )


class Queries(NamedTuple):
    """Instances to insert or to look up, with their values also as ranks and codes of a training set."""

    value: Float64[np.ndarray, "queries numeric"]
    rank: Int[np.ndarray, "queries numeric"]
    """Rank of the training set's largest value that is not above the query's; -1 if there is none."""
    code: Int[np.ndarray, "queries nominal"]
    """Code of each value; -1 for a value that the training set does not have."""

    @property
    def n(self) -> int:
        return len(self.value)

    def rows(self, which) -> "Queries":
        return Queries(*(part[which] for part in tuple(self)))


def presort(X, y, nominal, *, name: str = "X") -> Presorted:
    """Return instances X and labels y as a training set, checked and sorted.

    Arguments and errors are those of `grow_greedy_trees`. Messages call the instances ``name``.
    """
    columns = fit_columns(X, nominal, name=name)
    values = np.asarray(encode_instances(X, columns, name)[0])
    if 0 in values.shape:
        raise ValueError(f"{name} has shape {values.shape}; expected (instances, features), at least one of each.")
    labels, label = training_labels(y, len(values), name.replace("X", "y"))
    warn_of_merged_values(X, columns, name)
    return sorted_sample(columns, labels, label, values)


def sorted_sample(columns: Columns, labels: tuple, label: np.ndarray, values: np.ndarray) -> Presorted:
    """Return a sorted training set of encoded instances: ``values [instances features]``, NaN where missing.

    ``label [instances]`` are positions in ``labels``, the sorted labels of the classes.
    """
    is_nominal = columns.is_nominal
    numeric = np.flatnonzero(~is_nominal)
    nominal_positions = np.flatnonzero(is_nominal)
    value = _numbers(values[:, numeric]).T
    order = np.argsort(value, axis=1, kind="stable").astype(np.int32)
    ascending = np.take_along_axis(value, order, axis=1)
    rank = np.zeros(value.shape, np.int32)
    # By increasing value the first instance has rank 0, and each larger value raises the rank by one.
    rank_in_order = np.cumsum(ascending[:, 1:] > ascending[:, :-1], axis=1, dtype=np.int32)
    np.put_along_axis(rank[:, :], order, np.pad(rank_in_order, ((0, 0), (1, 0))), axis=1)
    code = np.ascontiguousarray(values[:, nominal_positions].T).astype(np.int32)
    # Labels are gathered for every instance and feature of a node: as bytes more of them fit into the cache.
    label_type = np.int8 if len(labels) < 128 else np.int32
    return Presorted(
        columns=columns,
        class_labels=labels,
        label=label.astype(label_type),
        numeric=numeric,
        nominal=nominal_positions,
        value=np.ascontiguousarray(value),
        rank=rank,
        order=order,
        code=code,
        n_codes=int(code.max(initial=-1)) + 1,
    )


def as_queries(X, sample: Presorted) -> Queries:
    """Return the instances X as queries, with the ranks and codes that their values have in the training set."""
    values = np.asarray(encode_instances(X, sample.columns)[0])
    value = _numbers(values[:, sample.numeric])
    rank = np.empty(value.shape, np.int32)
    for f, order in enumerate(sample.order):
        # An instance's rank is that of the training set's largest value that is not above its own.
        n_at_most = np.searchsorted(sample.value[f], value[:, f], side="right", sorter=order)
        rank[:, f] = np.where(n_at_most > 0, sample.rank[f, order[n_at_most - 1]], -1)
    return Queries(np.ascontiguousarray(value), rank, values[:, sample.nominal].astype(np.int32))


def sample_queries(sample: Presorted) -> Queries:
    """Return the instances of the training set itself as queries."""
    value, rank, code = (np.ascontiguousarray(part.T) for part in (sample.value, sample.rank, sample.code))
    return Queries(value, rank, code)


def values_of(sample: Presorted) -> Float32[np.ndarray, "instances features"]:
    """Return the training set's instances as `sorted_sample` takes them: numbers, NaN if missing, and codes."""
    values = np.empty((sample.n, sample.columns.number), np.float32)
    values[:, sample.numeric] = np.where(np.isneginf(sample.value), np.nan, sample.value).T
    values[:, sample.nominal] = sample.code.T
    return values


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return ``values`` as float64, with -inf in place of NaN (missing), and 0 in place of -0."""
    # Adding 0 turns -0 into +0, so that both are one value to the last bit.
    wide = values.astype(np.float64) + 0.0
    return np.where(np.isnan(wide), -np.inf, wide)


class Cuts(NamedTuple):
    """Cuts between neighbouring distinct values: row after row (one for each node and feature), from low to high."""

    row: Int[np.ndarray, " cuts"]
    """Row of ``order`` (see `find_cuts`) that each cut is in; for one node, the index of its numeric feature."""
    size: Int[np.ndarray, " cuts"]
    """Number of instances below each cut."""
    start: Int[np.ndarray, " ends"]
    """Index of each row's first cut; the last entry is the number of all cuts."""
    below: Int[np.ndarray, "classes cuts"]
    """Class counts of the instances below each cut."""
    lower_value: Float64[np.ndarray, " cuts"]
    upper_value: Float64[np.ndarray, " cuts"]
    upper: Int[np.ndarray, " cuts"]
    """The rank of the value above, plus ``row`` times the number of training instances: increasing over all cuts."""
    lower_class: Int[np.ndarray, " cuts"]
    """The class of the instances that have the value below; -1 if they are of several classes."""
    upper_class: Int[np.ndarray, " cuts"]

    def select(self, which: Int[np.ndarray, " some"]) -> "Cuts":
        """Return those of the cuts that have the indices ``which``, which increase."""
        by_cut = {name: part[..., which] for name, part in self._asdict().items() if name != "start"}
        return Cuts(**by_cut, start=np.searchsorted(by_cut["row"], np.arange(len(self.start))))

    @property
    def threshold(self) -> Float64[np.ndarray, " cuts"]:
        """Threshold of each cut: halfway between the two values, below the upper one."""
        return halfway(self.lower_value, self.upper_value)

    @property
    def is_boundary(self) -> Bool[np.ndarray, " cuts"]:
        """Whether the instances with the two values beside a cut are of two classes or more."""
        return parts_classes(self.lower_class, self.upper_class)


def find_cuts(sample: Presorted, order: Int[np.ndarray, "rows members"], boundaries: bool) -> Cuts:
    """Return the cuts between neighbouring values of the numeric features, within a node or several of the same size.

    ``order`` has a row for each node and numeric feature, node after node, with the node's instances by increasing
    value. With ``boundaries`` only cuts between different classes are returned (Fayyad and Irani).
    """
    n_rows, m = order.shape
    # Row r has the feature r modulo the number of numeric ones: a node has one row for each.
    feature_offset = (np.arange(n_rows) % max(len(sample.numeric), 1))[:, None] * sample.n
    cell = (order + feature_offset).ravel()  # in the flattened arrays ``[numeric instances]``
    rank = sample.rank.ravel()[cell].reshape(n_rows, m)
    label = sample.label[order]
    # A block is the instances of a row that have one value; behind each block but a row's last is a cut.
    is_end = np.ones((n_rows, m), bool)
    np.not_equal(rank[:, 1:], rank[:, :-1], out=is_end[:, :-1])
    end = np.flatnonzero(is_end)
    block_class = _block_classes(label, end)
    column = end % m
    is_cut = column < m - 1
    if boundaries:
        is_cut[:-1] &= parts_classes(block_class[:-1], block_class[1:])
    cut_blocks = np.flatnonzero(is_cut)
    position = end[cut_blocks]  # of the last instance below each cut
    size = column[cut_blocks] + 1
    row = position // m
    low = cell[position]
    high = cell[position + 1] if len(position) else position
    value = sample.value.ravel()
    return Cuts(
        row=row,
        size=size,
        start=np.searchsorted(row, np.arange(n_rows + 1)),
        below=_class_counts(label, position, size, sample.n_classes),
        lower_value=value[low],
        upper_value=value[high],
        upper=sample.rank.ravel()[high] + row * sample.n,
        lower_class=block_class[cut_blocks],
        upper_class=block_class[cut_blocks + 1] if len(cut_blocks) else block_class[:0],
    )


def _block_classes(label: Int[np.ndarray, "rows members"], end: Int[np.ndarray, " blocks"]) -> np.ndarray:
    """Return the class of each block of instances with equal values in a row; -1 if they are of several classes.

    ``label`` has the classes of each row's instances by increasing value, ``end`` the flat index of each block's last
    instance.
    """
    block_class = label.ravel()[end].astype(np.int32)
    if len(end) == label.size:  # blocks of one instance have one class
        return block_class
    # A block has several classes if labels change inside it. Blocks need not be sorted by class: any change shows it.
    changes = np.zeros(label.shape, bool)  # whether the next instance of the row has another class
    n_changes = np.zeros(label.size + 1, np.int32)  # number of these before each instance
    np.not_equal(label[:, 1:], label[:, :-1], out=changes[:, :-1])
    np.cumsum(changes.ravel(), out=n_changes[1:])
    begin = np.concatenate([np.zeros(1, end.dtype), end[:-1] + 1])
    block_class[n_changes[end] != n_changes[begin]] = -1
    return block_class


def _class_counts(label: np.ndarray, position: np.ndarray, size: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the class counts ``[classes cuts]`` of the instances below each cut.

    ``label [rows instances]`` has the classes of each row's instances by increasing value. ``position`` is the flat
    index in ``label`` of the last instance below each cut, ``size`` the number of instances below the cut in its row.
    """
    counts = np.empty((n_classes, len(position)), np.intp)
    # The first class's count is what the others leave of the size: one running sum less.
    counts[0] = size
    for c in range(1, n_classes):
        counts[c] = np.cumsum(label == c, axis=1, dtype=np.int32).ravel()[position]
        counts[0] -= counts[c]
    return counts


def parts_classes(lower, upper):
    """Return whether the values beside each cut have different classes.

    ``lower`` and ``upper`` are the classes of the instances with the value below, and with the value above; -1 for
    several classes, which differ from all.
    """
    return (lower != upper) | (lower < 0)


def halfway(below, above):
    """Return the threshold halfway between two values; ``below`` if no float lies between this value and ``above``."""
    middle = (below + above) / 2
    # Between adjacent floats the middle rounds to one of them; at the upper one ``x <= t`` would separate nothing.
    return np.where(middle < above, middle, below)


def value_counts(
    sample: Presorted, members: Int[np.ndarray, "*nodes members"]
) -> Int[np.ndarray, "classes rows codes"]:
    """Return how many instances of a node have each class and each code, for each nominal feature.

    ``members`` are the node's instances, as positions in ``sample``, or those of several nodes of the same size. The
    result has a row for each node and nominal feature, node after node.
    """
    members = np.atleast_2d(members)
    n_rows = len(members) * len(sample.nominal)
    n_classes = sample.n_classes
    # One integer for class, row and code, so that a single count has them all: ``[nodes nominal members]``.
    cell = sample.code[:, members].swapaxes(0, 1)
    cell = cell + (np.arange(n_rows) * sample.n_codes).reshape(len(members), -1, 1)
    cell = cell + sample.label[members].astype(np.intp)[:, None, :] * (n_rows * sample.n_codes)
    counts = np.bincount(cell.ravel(), minlength=n_classes * n_rows * sample.n_codes)
    return counts.reshape(n_classes, n_rows, sample.n_codes)

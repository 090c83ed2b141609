"""How far a row lies outside of the training rows that share its leaves."""

import dataclasses
from typing import Any

import numpy as np

from jaxunc._numerics import ceil_div
from jaxunc.inference import leaf_index, narrow_trees
from jaxunc.tables import Columns, Encoded, InstancesLike, SparseRows, encode_rows

from ._leaf_rows import check_on_host, contents_of, unwrap_model

VALUES = 2**23
"""Number of values, of rows or of queries, that are compared at a time."""


def outside_share(model: Any, X: InstancesLike, *, rows: InstancesLike) -> np.ndarray:
    """Return how far out each query lies: the share of columns in which it is outside the range of its leaf's rows.

    A leaf is a box that may be unbounded, and its rows fill a smaller box. A query far from all rows still reaches a
    leaf, and is answered as if it lay near. Here it is compared with the smaller box of its leaf in each tree, and the
    share is the mean over the trees.

    Parameters
    ----------
    model
        Any model that `neighbours` takes, boosted ones too.
    X
        Queries ``[queries features]``, as for `bind`; raw ones for a pipeline.
    rows
        The rows to compare with, in any order: as a rule those that the model was grown on.

    Returns
    -------
    numpy.ndarray
        Float64 ``[queries]`` in [0, 1]. A tree adds 0 for one of the rows, and 1 where the query's leaf has no rows.

    Raises
    ------
    TypeError, ValueError
        If there is no importer for the model, rows is empty, or X or rows is traced. As `bind`, for X and rows.

    Notes
    -----
    Only columns that trees test count. A missing value lies outside where no row of the leaf lacks it. Levels are
    compared by their codes. New rows of the same distribution lie outside, too, since small leaves have narrow boxes:
    judge values by those of held-out rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import jaxunc as ju
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X[:400], y[:400])
    >>> usual, far = (ju.outside_share(forest, Z, rows=X[:400]).mean() for Z in (X[400:], 3 * X[400:]))
    >>> bool(usual < 0.5 < far)
    True
    """
    check_on_host(X, rows)
    forest, read = unwrap_model(model)
    return LeafBoxes(forest, read(rows)).outside_share(read(X))


class LeafBoxes:
    """The rows of every leaf of a forest, for repeated queries; the function `outside_share` asks it once.

    ``forest`` is a model as `contents_of` takes it, and ``rows`` are as its trees read them. ``numbers`` are the rows'
    values, needed if ``rows`` are encoded already as positions among the trees' cuts.
    """

    def __init__(self, forest: Any, rows: InstancesLike, numbers: Encoded | None = None):
        self._trees = contents_of(forest).trees
        # Values are compared as numbers; trees that compare float64 read positions among their thresholds instead.
        self._columns = dataclasses.replace(self._trees.columns, cuts=None)
        self._leaves, self._rows = self._read(rows, numbers, "rows")
        if not len(self._leaves):
            raise ValueError("rows is empty; pass the rows that the model was grown on.")

    def outside_share(self, X: InstancesLike, numbers: Encoded | None = None) -> np.ndarray:
        """Return for each query of ``X`` the share ``[queries]`` that the function `outside_share` returns.

        If X is encoded already, ``numbers`` has its values.
        """
        query_leaves, query_values = self._read(X, numbers, "X")
        leaves, trees = self._leaves, self._trees
        tested_columns = narrow_trees(trees)[1]  # None if all columns are tested
        tested_columns = np.arange(trees.n_features) if tested_columns is None else np.asarray(tested_columns)
        n_outside = np.zeros(len(query_leaves))
        if np.all(np.asarray(trees.child) == np.arange(trees.n_nodes)):  # no column is tested
            return n_outside
        n_blocks = ceil_div(len(tested_columns) * max(len(leaves), len(query_leaves)), VALUES)
        for block in np.array_split(tested_columns, n_blocks):
            row_block = _columns_of(self._rows.values, block, self._columns)
            query_block = _columns_of(query_values.values, block, self._columns)
            for t in range(trees.n_trees):
                n_outside += _count_outside(row_block, leaves[:, t], query_block, query_leaves[:, t])
        return n_outside / (trees.n_trees * len(tested_columns))

    def _read(self, rows: Any, numbers: Encoded | None, name: str) -> tuple[np.ndarray, Encoded]:
        """Return the leaf of each of ``rows`` in each tree, ``[rows trees]``, and the rows' values as numbers.

        ``numbers`` has these values already, or is None. Errors call the rows ``name``.
        """
        leaves = np.asarray(leaf_index(self._trees, encode_rows(rows, self._trees.columns, name)))
        numbers = encode_rows(rows, self._columns, name, infinite=True) if numbers is None else numbers
        return leaves, numbers


def _columns_of(values: Any, positions: np.ndarray, columns: Columns) -> np.ndarray:
    """Return the values of encoded rows in some columns, as a dense array ``[rows positions]``.

    ``values [rows columns]`` may be sparse; ``positions`` are the columns' numbers, and ``columns`` describes all.
    """
    if isinstance(values, SparseRows):
        return values.of(positions, columns.at(positions)).dense()
    return np.asarray(values)[:, positions]


def _count_outside(rows: np.ndarray, leaf: np.ndarray, queries: np.ndarray, query_leaf: np.ndarray) -> np.ndarray:
    """Return in how many columns each query lies outside of the range of its leaf's rows, ``[queries]``.

    ``rows [rows columns]``, at least one, and ``queries [queries columns]`` hold values; ``leaf`` and ``query_leaf``
    have the leaf of each row and query in a tree. For a query without rows in its leaf all columns count.
    """
    order = np.argsort(leaf, kind="stable")
    leaves_with_rows, first_row = np.unique(leaf[order], return_index=True)
    rows = rows[order]
    # A query's leaf among the leaves with rows; any of these if its leaf has none, which is set right at the end.
    box_index = np.minimum(np.searchsorted(leaves_with_rows, query_leaf), len(leaves_with_rows) - 1)
    # fmin and fmax pass over missing values.
    low = np.fmin.reduceat(rows, first_row)[box_index]
    high = np.fmax.reduceat(rows, first_row)[box_index]
    outside = ~((queries >= low) & (queries <= high))
    is_missing = np.isnan(queries)
    if is_missing.any():
        box_has_missing = np.logical_or.reduceat(np.isnan(rows), first_row)[box_index]
        outside[is_missing] = ~box_has_missing[is_missing]
    outside[leaves_with_rows[box_index] != query_leaf] = True
    return outside.sum(axis=1)

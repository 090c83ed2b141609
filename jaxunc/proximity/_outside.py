"""How far a row lies outside of the training rows that share its leaves."""

import dataclasses
from typing import Any

import numpy as np

from jaxunc.inference import leaf_index, tested
from jaxunc.tables import Columns, InstancesLike, SparseRows, encode_rows

from ._leaf_rows import check_on_host, contents_of, opened_model

VALUES = 2**23
"""Number of values of rows, or of queries, whose columns are compared at a time."""


def outside_share(model: Any, X: InstancesLike, *, rows: InstancesLike) -> np.ndarray:
    """Return how far out each query lies, in [0, 1]: the share of columns in which it leaves its leaf's rows behind.

    A leaf is a box that may be unbounded, and the rows in it fill a smaller one. A query far from all rows reaches a
    leaf as any other does, and is answered as if it lay near. Here it is compared with the smaller boxes: the share of
    the columns in which it lies outside, in the mean over the trees.

    Parameters
    ----------
    model
        Any model that `neighbours` takes, boosted ones too.
    X
        Queries ``[queries features]``, as for `bind`; of a pipeline raw ones.
    rows
        The rows to compare with, in any order: as a rule those that the model was grown on.

    Returns
    -------
    numpy.ndarray
        Float64 ``[queries]``. Of the rows themselves 0; 1 in leaves without rows.

    Raises
    ------
    TypeError, ValueError
        If there is no importer for the model, no rows, or they are traced; as `bind` of X and of rows.

    Notes
    -----
    Columns are those that trees test. A missing value lies outside where no row of the leaf lacks it. Levels are
    compared by their codes. Rows that are new and alike lie outside, too: small leaves have narrow boxes. So compare
    with the values of held-out rows.

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
    forest, read = opened_model(model)
    trees = contents_of(forest).trees
    tables = ((read(rows), "rows"), (read(X), "X"))
    leaves, places = (np.asarray(leaf_index(trees, encode_rows(each, trees.columns, name))) for each, name in tables)
    if not len(leaves):
        raise ValueError("rows is empty; pass the rows that the model was grown on.")
    # As numbers: where trees compare float64, they read between which of their thresholds a value lies.
    columns = dataclasses.replace(trees.columns, cuts=None)
    near, far = (encode_rows(each, columns, name, infinite=True) for each, name in tables)
    kept = tested(trees)[1]
    kept = np.arange(trees.n_features) if kept is None else np.asarray(kept)
    beyond = np.zeros(len(places))
    for some in np.array_split(kept, -(-len(kept) * max(len(leaves), len(places)) // VALUES)):
        inside, queries = (_columns_of(each.values, some, columns) for each in (near, far))
        for t in range(trees.n_trees):
            beyond += _outside(inside, leaves[:, t], queries, places[:, t])
    return beyond / (trees.n_trees * len(kept))


def _columns_of(values: Any, places: np.ndarray, columns: Columns) -> np.ndarray:
    return (
        values.of(places, columns.at(places)).dense()
        if isinstance(values, SparseRows)
        else np.asarray(values)[:, places]
    )


def _outside(rows: np.ndarray, leaf: np.ndarray, queries: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the number of columns in which queries at a place lie outside of the rows of that leaf, ``[queries]``."""
    order = np.argsort(leaf, kind="stable")
    filled, first = np.unique(leaf[order], return_index=True)
    rows = rows[order]
    box = np.minimum(np.searchsorted(filled, place), len(filled) - 1)
    low, high = (bound.reduceat(rows, first)[box] for bound in (np.fmin, np.fmax))
    outside = ~((queries >= low) & (queries <= high))
    if (lacks := np.isnan(queries)).any():
        outside[lacks] = ~np.logical_or.reduceat(np.isnan(rows), first)[box][lacks]
    outside[filled[box] != place] = True
    return outside.sum(axis=1)

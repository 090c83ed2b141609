"""Random ensembles whose trees test intervals of all kinds, and rows at the bounds of these."""

import dataclasses
from typing import Any

import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.interop._comparing_trees import AT_MOST, IN_SET, NOT_IN_SET, ComparingTree, ensemble_of
from jaxunc.tables import Columns, Levels

N_FEATURES, N_LEVELS = 4, 9
NUMBERS = np.array([-np.inf, -1e30, -2.5, -1, -1e-40, 0, 1e-45, 0.1, 1, 2, 3, 4, 5, 6, 7, 8, 1e5, 3e38])
SPECIAL = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, -0.5, -1e-45, 1e-40, 2.5, 2**24, 2.0**32, -3e38, 3e38])
KINDS = ("narrow", "wide", "narrow, levels", "wide, levels")
SHAPES = (
    ("identity", None, 1), ("exp", None, 1), ("identity", None, 2), ("logistic", (0, 1), 1),
    ("softmax", (0, 1, 2), 3), ("logistic", ("a", "b", "c"), 3),
)  # fmt: skip
"""Link, labels of classes, and outputs."""


def random_sets(rng: np.random.Generator, kind: str, *, n_trees: int = 6, most: int = 12) -> AdditiveTrees:
    """Return an ensemble of a kind: what is compared, float32 or float64, and whether the first columns are codes."""
    link, labels, n_outputs = SHAPES[rng.integers(len(SHAPES))]
    each = int(rng.choice([1, n_outputs]))
    per_stage = n_outputs if each == 1 else 1
    n_trees = -(-n_trees // per_stage) * per_stage
    trees = [_tree(rng, int(rng.integers(0, most)), each) for _ in range(n_trees)]
    known = tuple(Levels(tuple("abcdefghi"), False) if j < 2 else None for j in range(N_FEATURES))
    cuts = tuple(None if own is not None and kind.endswith("levels") else () for own in known)
    columns = Columns(N_FEATURES, cuts=cuts if kind.startswith("wide") else None)
    if kind.endswith("levels"):
        nominal = tuple(own is not None for own in known)
        columns = dataclasses.replace(columns, names=tuple("wxyz"), nominal=nominal, levels=known)
    averaged = labels is None and bool(rng.integers(2))
    base = rng.normal(size=n_outputs)
    return ensemble_of(trees, columns, base, link, trees_per_stage=per_stage, class_labels=labels, averaged=averaged)


def _tree(rng: np.random.Generator, n_inner: int, each: int) -> ComparingTree:
    left, right = np.full(2 * n_inner + 1, -1), np.full(2 * n_inner + 1, -1)
    open_nodes, number = [0], 1
    for _ in range(n_inner):
        node = open_nodes.pop(rng.integers(len(open_nodes)))
        left[node], right[node] = number, number + 1
        open_nodes += [number, number + 1]
        number += 2
    n = len(left)
    value, feature, missing_left = rng.choice(NUMBERS[1:], n), rng.integers(N_FEATURES, size=n), rng.random(n) >= 0.5
    chosen = np.flatnonzero((left >= 0) & (rng.random(n) < 0.7)).tolist()
    leaf_values = rng.normal(size=(n, each))
    compare, sets = np.full(n, AT_MOST), {}
    for i in chosen:
        starts, goes_left, missing_left[i] = _pieces(rng)
        # The set is of the intervals that do not reach infinity.
        compare[i], own = (NOT_IN_SET, ~goes_left) if goes_left[-1] else (IN_SET, goes_left)
        sets[i] = np.append(-np.inf, starts)[:-1][own[:-1]], starts[own[:-1]]
    return ComparingTree(feature, compare, value, left, right, missing_left, sets, leaf_values)


def _pieces(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, bool]:
    """First numbers of intervals but the first one's, sides, that of missing values: sets of categories among them."""
    if rng.random() < 0.5:
        codes = np.unique(rng.integers(0, N_LEVELS, rng.integers(1, 6)))
        starts = np.stack([codes, codes + 1.0], axis=1).ravel()
    else:
        starts = np.nextafter(np.sort(rng.choice(NUMBERS[1:], rng.integers(0, 9))), np.inf)
    goes_left = np.arange(len(starts) + 1) % 2 == rng.integers(2)
    if rng.random() < 0.3:
        goes_left = rng.random(len(starts) + 1) < 0.5
    return starts, goes_left, bool(rng.integers(2))


def rows_of(
    rng: np.random.Generator, model: AdditiveTrees, number: int, *, finite: bool = False
) -> tuple[np.ndarray, Any]:
    """Return rows at and beside all bounds, with codes where columns have levels, and the same as the model takes them.

    They are float64 for models that compare it, else float32.
    """
    dtype = np.float32 if model.columns.cuts is None else np.float64
    at = np.concatenate([NUMBERS, SPECIAL, np.arange(N_LEVELS + 2)]).astype(dtype)
    with np.errstate(over="ignore"):
        pool = np.concatenate([at, np.nextafter(at, dtype(-np.inf)), np.nextafter(at, dtype(np.inf))])
    pool = pool[np.abs(pool.astype(np.float64)) < 3.3e38] if finite else pool
    X = rng.choice(pool, (number, N_FEATURES))
    if model.columns.levels is None:
        return X, X
    import pandas as pd

    columns = {}
    for name, own, values in zip("wxyz", model.columns.levels, X.T, strict=True):
        if own is not None:
            values[:] = rng.integers(-1, len(own.values), number)
        columns[name] = values if own is None else np.array([*own.values, "no level"], object)[values.astype(int)]
    return X, pd.DataFrame(columns)

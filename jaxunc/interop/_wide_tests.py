"""Trees that compare float64: their thresholds become the cuts of columns, and nodes test the number of cuts below."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from jaxunc._numerics import order_key_at_or_below
from jaxunc.forest import Intervals, TreeNodes
from jaxunc.tables import Columns

from ._given_trees import GivenTree


class WideTest(NamedTuple):
    """The numbers as neighbouring intervals, each of which goes to one side."""

    upper: Float64[np.ndarray, " inner"]
    """The largest number of each interval but the last, rising."""
    goes_left: Bool[np.ndarray, " intervals"]
    """Whether each interval goes left."""
    missing_left: bool
    """Whether a missing value goes left."""


class WideTree(NamedTuple):
    """One tree in its library's numbering, the root first."""

    nodes: TreeNodes
    """Its nodes, checked by `check_tree`; ``threshold`` is float64, and x <= threshold goes left."""
    values: np.ndarray
    """What each node's leaf holds, ``[nodes each]``; read at leaves."""
    tests: Mapping[int, WideTest]
    """The tests of nodes that are no thresholds; their ``threshold`` is not read."""


def with_cuts(trees: Sequence[WideTree], columns: Columns) -> tuple[list[GivenTree], Columns]:
    """Return trees whose nodes test codes, and the columns with the cuts that make these codes.

    Columns with levels get no cuts: their codes are positions among the levels, and -1 counts as a missing value.

    Raises
    ------
    ValueError
        If a threshold is NaN or -inf.
    """
    has_levels = np.array([own is not None for own in columns.levels or (None,) * columns.number], bool)
    tests = [_with_unseen(tree, has_levels) for tree in trees]
    plain = [_plain(tree, own) for tree, own in zip(trees, tests, strict=True)]
    of_tests = [(int(tree.nodes.feature[i]), test) for tree, own in zip(trees, tests, strict=True) for i, test in own]
    feature = [tree.nodes.feature[nodes] for tree, nodes in zip(trees, plain, strict=True)]
    feature += [np.full(len(test.upper), j) for j, test in of_tests]
    bound = [tree.nodes.threshold[nodes] for tree, nodes in zip(trees, plain, strict=True)]
    bound += [test.upper for _, test in of_tests]
    keys, cuts = _keys(np.concatenate(feature).astype(np.int64), np.concatenate(bound), has_levels)
    ends = np.cumsum([len(one) for one in bound])[:-1]
    parts = iter(np.split(keys, ends))
    thresholds = []
    for tree, nodes in zip(trees, plain, strict=True):
        threshold = np.zeros(len(tree.nodes.left), np.int32)
        threshold[nodes] = next(parts)
        thresholds.append(threshold)
    given = []
    for tree, own, threshold in zip(trees, tests, thresholds, strict=True):
        intervals = {i: Intervals(next(parts), test.goes_left, test.missing_left) for i, test in own}
        given.append(GivenTree(tree.nodes._replace(threshold=threshold), tree.values, intervals))
    return given, dataclasses.replace(columns, cuts=cuts)


def _plain(tree: WideTree, tests: list[tuple[int, WideTest]]) -> np.ndarray:
    """The inner nodes that compare with a threshold."""
    is_plain = tree.nodes.left >= 0
    is_plain[[i for i, _ in tests]] = False
    return np.flatnonzero(is_plain)


def _with_unseen(tree: WideTree, has_levels: np.ndarray) -> list[tuple[int, WideTest]]:
    """The tests of a tree; those of columns with levels send -1 where missing values go."""
    if not has_levels.any():
        return list(tree.tests.items())
    nodes, found = tree.nodes, []
    for i in np.flatnonzero((nodes.left >= 0) & has_levels[nodes.feature]).tolist():
        below = WideTest(nodes.threshold[[i]], np.array([True, False]), not nodes.missing_right[i])
        upper, goes_left, missing_left = tree.tests.get(i, below)
        n_below = np.count_nonzero(upper <= -1)
        goes_left = np.append(missing_left, goes_left[n_below:])
        found.append((i, WideTest(np.append(-1.0, upper[n_below:]), goes_left, missing_left)))
    return found + [(i, test) for i, test in tree.tests.items() if not has_levels[nodes.feature[i]]]


def _keys(feature: np.ndarray, bound: np.ndarray, has_levels: np.ndarray) -> tuple[np.ndarray, tuple]:
    """The order keys of bounds, as codes of their columns, and the cuts of every column."""
    if np.any(np.isnan(bound) | (bound == -np.inf)):
        raise ValueError("the model has a threshold that is NaN or -inf, below which there is no number.")
    # A column that no node tests has no cuts: any number of it has the code 0.
    cuts: list[tuple[float, ...] | None] = [None if own else () for own in has_levels]
    codes = bound.copy()
    order = np.argsort(feature, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1) if len(order) else ():
        j, finite = feature[rows[0]], rows[np.isfinite(bound[rows])]
        if not has_levels[j]:
            # No number is above infinity: that one is no cut.
            own, codes[finite] = np.unique(bound[finite] + 0.0, return_inverse=True)
            cuts[j] = tuple(own.tolist())
    return order_key_at_or_below(codes), tuple(cuts)

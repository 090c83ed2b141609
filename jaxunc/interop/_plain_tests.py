"""The tests of trees as comparisons with numbers, for libraries that write them so."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from jaxunc._numerics import NAN_FIRST
from jaxunc.forest import Trees

_BEYOND, _NONE = 2139095040, -2139095040
"""Order keys of the infinities: at the first every number goes left, below the second none does."""


class PlainNodes(NamedTuple):
    """All nodes of trees that are in use, tree after tree, each root first; right children follow left ones."""

    tree: Int64[np.ndarray, " used"]
    node: Int64[np.ndarray, " used"]
    inner: Bool[np.ndarray, " used"]
    feature: Int64[np.ndarray, " used"]
    left: Int64[np.ndarray, " used"]
    missing_left: Bool[np.ndarray, " used"]
    value: Float64[np.ndarray, " used"]
    """The number at or below which instances go left."""
    none_left: Bool[np.ndarray, " used"]
    """Whether no number goes left: none is less than ``value``, which is -inf there."""


def plain_nodes(trees: Trees, *, wide: bool) -> PlainNodes:
    """Return the nodes.

    Parameters
    ----------
    trees
        The trees.
    wide
        Whether numbers are compared as they are in float64. Then those of columns that have cuts are compared with
        these, and others with the largest number that rounds to the threshold in float32, or below.
    """
    child = np.asarray(trees.child)
    is_inner = child != np.arange(trees.n_nodes)
    tree, node = np.nonzero(is_inner | np.asarray(trees.is_leaf))
    inner = is_inner[tree, node]
    feature = np.where(inner, np.asarray(trees.feature)[tree, node], 0).astype(np.int64)
    key = np.where(inner, np.asarray(trees.threshold)[tree, node].astype(np.int64), 0)
    none_left, within = key < _NONE, np.clip(key, _NONE, _BEYOND)
    narrow = np.where(within < 0, int(NAN_FIRST) - within, within).astype(np.int32).view(np.float32)
    value = largest_rounding_to(narrow) if wide else narrow.astype(np.float64)
    for j, cuts in enumerate(trees.columns.cuts or ()):
        if cuts is not None:
            own = inner & (feature == j)
            code = np.where(none_left, -1.0, narrow)[own]
            none_left[own] = code < 0
            # Beyond the last cut every code goes left.
            value[own] = np.append(cuts, np.inf)[np.clip(np.floor(code), 0, len(cuts)).astype(np.int64)]
    missing_left = inner & ~np.asarray(trees.missing_right)[tree, node]
    left = child[tree, node].astype(np.int64)
    return PlainNodes(
        tree, node, inner, feature, left, missing_left, np.where(none_left, -np.inf, value), inner & none_left
    )


def largest_rounding_to(narrow: np.ndarray) -> np.ndarray:
    """Return the largest float64 that is rounded to each float32, or below."""
    with np.errstate(over="ignore"):
        above = np.nextafter(narrow, np.float32(np.inf)).astype(np.float64)
    # The infinity lies where the next float would, for rounding.
    edge = np.where(np.isinf(above), 2.0**128, above)
    own = np.where(np.isneginf(narrow), -(2.0**128), narrow.astype(np.float64))
    middle = own / 2 + edge / 2
    is_even = narrow.view(np.int32) % 2 == 0
    return np.where(np.isposinf(narrow), np.inf, np.where(is_even, middle, np.nextafter(middle, -np.inf)))

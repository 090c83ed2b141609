"""The columns that some tree tests: of a sparse matrix no others are made dense."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from jaxunc._numerics import KeptWhileAlive
from jaxunc.forest import Trees
from jaxunc.tables import SparseRows

from ._drive import Chunk, Shapes

MOST_DENSE = 2**23
"""Values that a call makes dense, where instances are sparse and the columns many."""


class Tested(NamedTuple):
    """Trees by the columns that they test."""

    trees: Trees
    """The same trees, which number those columns alone."""
    kept: np.ndarray | None
    """The places of those columns among all; None where all are tested, and the trees are as they were."""


def tested(trees: Trees) -> Tested:
    """Return trees that have values by the columns that they test; kept while their arrays live."""
    arrays = (trees.feature, trees.threshold, trees.child)
    return _TESTED.get(arrays, trees.columns, lambda: _by_tested(trees))


_TESTED: KeptWhileAlive[Tested] = KeptWhileAlive()


def _by_tested(trees: Trees) -> Tested:
    feature, child = np.asarray(trees.feature), np.asarray(trees.child)
    inner = child != np.arange(trees.n_nodes)
    # One at least, so that there is something to make dense: trees of leaves alone test nothing.
    kept = np.union1d(feature[inner], np.zeros(0 if inner.any() else 1, feature.dtype))
    if len(kept) >= trees.n_features:
        return Tested(trees, None)
    feature = np.where(inner, np.searchsorted(kept, feature), np.minimum(feature, 0))  # of empty leaves their forks
    fewer = jax.device_put(feature.astype(np.int32))
    return Tested(dataclasses.replace(trees, feature=fewer, columns=trees.columns.at(kept)), kept)


def on_tested(trees: Trees, values):
    """Return trees and instances: where these are `SparseRows`, both by the columns tested."""
    if not isinstance(values, SparseRows):
        return trees, values
    narrow, kept = tested(trees)
    return narrow, values.of(kept, narrow.columns)


def bounded(shapes: Shapes, values) -> Shapes:
    """The shapes of calls; for `SparseRows` those that make few values dense at a time, or the least."""
    if not isinstance(values, SparseRows):
        return shapes
    most = MOST_DENSE // max(values.shape[1], 1)
    fits = lambda chunk: chunk.rows <= most  # noqa: E731
    if fits(shapes.single):
        return shapes if shapes.large is None or fits(shapes.large) else shapes._replace(large=None)
    small: tuple[Chunk, ...] = tuple(filter(fits, shapes.small)) or shapes.small[:1]
    return Shapes(small[-1], None, small[:-1]) if small else shapes._replace(large=None)

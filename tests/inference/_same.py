"""Answers that are to be the same, and trees that are merged in parts."""

from typing import Any

import jax
import numpy as np


def assert_equal(found: Any, expected: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def assert_same_bits(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@jax.jit
def merged(packed: Any, X: Any, *mask: Any) -> Any:
    return packed.merge(X, *mask)


@jax.jit
def in_halves(packed: Any, X: Any) -> Any:
    """The first two trees, and then the others."""
    carry = packed.of_trees(0, 2).advance(packed.start(len(X)), X)
    return packed.result(packed.of_trees(2, packed.n_trees).advance(carry, X))

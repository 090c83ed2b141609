"""Forests to test on: from leaf counts, from scikit-learn, and the same forest in other padding."""

import dataclasses
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.forest import TreeNodes, assemble
from jaxunc.tables import Columns


def order_key(values) -> np.ndarray:
    """The order key of float32 numbers, from its definition in the docstring of `jaxunc._numerics.order_key`."""
    bits = np.asarray(values, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(2**31) - bits, bits).astype(np.int32)


def forest_of_leaves(counts, prior=None) -> tuple[ju.Forest, np.ndarray]:
    """A forest and data in which instance i falls into leaves with ``counts[i]``, shape ``[instances trees classes]``.

    Every tree has a leaf per instance and tells them apart by the one feature, which is the instance's number.
    """
    counts = np.asarray(counts, dtype=float)
    n, n_trees, n_classes = counts.shape
    feature, threshold, left, right, leaf_of = [], [], [], [], []

    def grow(low: int, high: int) -> int:
        """The node for instances low ≤ i < high; its subtree follows it."""
        node = len(feature)
        for column, value in ((feature, 0), (threshold, 0.0), (left, -1), (right, -1), (leaf_of, low)):
            column.append(value)
        if high - low > 1:
            middle = (low + high) // 2
            threshold[node] = middle - 0.5
            left[node], right[node] = grow(low, middle), grow(middle, high)
        return node

    grow(0, n)
    children = np.array(left), np.array(right), np.zeros(len(feature), bool)
    forest = assemble(
        [TreeNodes(np.array(feature), order_key(threshold), *children) for _ in range(n_trees)],
        [counts[np.array(leaf_of), t] for t in range(n_trees)],
        columns=Columns(1),
        prior=np.full(n_classes, 1 / n_classes) if prior is None else np.asarray(prior, float),
        n_samples=float(max(counts.sum(axis=(0, 2)).mean(), 1.0)),
        class_labels=tuple(range(n_classes)),
    )
    return ju.forest.check_forest(forest), np.arange(n, dtype=np.float32)[:, None]


def padded(forest: ju.Forest, n_nodes: int, n_features: int | None = None) -> ju.Forest:
    """The same forest with more node slots (leaves that nothing reaches)."""
    more = n_nodes - forest.n_nodes
    index = jnp.arange(forest.n_nodes, n_nodes, dtype=jnp.int32)
    child = jnp.broadcast_to(index, (forest.n_trees, more))
    fill = {"feature": 0, "threshold": np.int32(2**31 - 1), "child": child, "missing_right": False}

    def wide(array, value):
        tail = jnp.broadcast_to(jnp.asarray(value, array.dtype), (forest.n_trees, more))
        return jnp.concatenate([array, tail], axis=1)

    arrays = {name: wide(getattr(forest.trees, name), value) for name, value in fill.items()}
    columns = forest.trees.columns if n_features is None else Columns(n_features)
    trees = dataclasses.replace(forest.trees, columns=columns, **arrays)
    return dataclasses.replace(forest, trees=trees, code=wide(forest.code, 0))


def leaf_nodes(forest: ju.Forest) -> np.ndarray:
    """Which nodes are leaves ``[trees nodes]``, unreachable ones included."""
    return np.asarray(forest.trees.child) == np.arange(forest.n_nodes)


@lru_cache
def toy_data(n_classes: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Six features, three of them about the class, as float32."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + rng.normal(size=n), np.linspace(-1, 1, n_classes + 1)[1:-1])
    return X, y


@lru_cache
def toy_model(n_classes: int, n_trees: int = 12) -> RandomForestClassifier:
    X, y = toy_data(n_classes)
    return RandomForestClassifier(n_trees, min_samples_leaf=3, random_state=0).fit(X, y)


@lru_cache
def toy_forest(n_classes: int, n_trees: int = 12) -> ju.Forest:
    return ju.from_sklearn(toy_model(n_classes, n_trees))


def random_counts(rng, shape: tuple[int, ...], n_classes: int, largest: int = 30) -> np.ndarray:
    """Integer leaf counts: interior, pure, tied and empty ones."""
    counts = rng.integers(0, largest, size=(*shape, n_classes))
    counts *= rng.random((*shape, n_classes)) < 0.7
    counts[rng.random(shape) < 0.1] = 0
    tied = rng.random(shape) < 0.1
    counts[tied] = rng.integers(1, largest, size=(int(tied.sum()), 1))
    return counts.astype(np.int32)


@lru_cache
def forest_with_all_leaves(n_classes: int, n_trees: int = 12) -> ju.Forest:
    """A fitted forest whose leaves were given all kinds of counts: interior, pure, tied, empty."""
    forest = toy_forest(n_classes, n_trees)
    counts = random_counts(np.random.default_rng(7), (forest.n_trees, forest.n_nodes), n_classes)
    return forest.with_counts(jnp.asarray(counts * leaf_nodes(forest)[..., None]))


def positive_counts(rng, shape: tuple[int, ...], n_classes: int) -> np.ndarray:
    """Counts inside the domain: no zeros, no ties."""
    return rng.uniform(0.5, 20, size=(*shape, n_classes))

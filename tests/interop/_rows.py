"""Rows where importers go wrong first: at thresholds, beside them, at the edges of floats; and leaves compared.

Leaves, sums and answers of imported models also come from loops in NumPy: a model of another shape compiles nothing.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import expit, softmax

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest, Trees
from jaxunc.inference import encode_for
from jaxunc.tables import Columns, encode_instances
from tests._forests import order_key

_LARGEST = float(np.finfo(np.float32).max)
EDGES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-45, -1e-45, 1e-310, 1.2e-38, _LARGEST, -_LARGEST, 2.0**24,
    2.0**24 + 1, 2.0**24 + 2, 1.0, -1.0, -0.5, 0.5, 1.7e9,
)  # fmt: skip
_ZERO = [np.nextafter(s * float(np.float32(1e-35)), [-np.inf, 0, np.inf]) for s in (-1, 1)]
WIDE = np.concatenate([[1e-40, 1e-36, -1e-36, 1e-30, 1e300, -1e300, 2.0**24 - 1], *_ZERO, np.float32([1e-35, -1e-35])])
"""More for float64, and what LightGBM takes for 0: up to the float32 next to 1e-35."""


def near(
    thresholds: Sequence, number: int, rng: np.random.Generator, dtype: type = np.float32, more: Sequence | None = None
) -> np.ndarray:
    """Return rows of thresholds of their columns, neighbours of these in the type, integers, edges, and ``more``."""
    columns = []
    for j, own in enumerate(thresholds):
        with np.errstate(over="ignore"):
            own = np.asarray(own, np.float64).astype(dtype)
            at = [own, np.nextafter(own, dtype(np.inf)), np.nextafter(own, dtype(-np.inf)), own + dtype(0.5), -own]
            edges = np.array(EDGES).astype(dtype)
        at, whole = np.concatenate(at), np.append(np.arange(-2, 70), np.arange(8) + 0.99).astype(dtype)
        pools = [pool for pool in (at, at, edges, whole, [] if more is None else more[j]) if len(pool)]
        columns.append(np.choose(rng.integers(len(pools), size=number), [rng.choice(pool, number) for pool in pools]))
    return np.stack(columns, axis=1)


def thresholds(trees: Trees) -> list[np.ndarray]:
    keys, feature, child = (np.asarray(getattr(trees, name)) for name in ("threshold", "feature", "child"))
    inner = child != np.arange(child.shape[1])
    numbers = np.where(keys < 0, np.iinfo(np.int32).min - keys, keys).astype(np.int32).view(np.float32)
    found = []
    for j, own in enumerate(trees.columns.cuts or (None,) * trees.columns.number):
        tested = np.unique(numbers[inner & (feature == j)]) if own is None else np.array(own)
        found.append(np.append(tested[np.isfinite(tested)], 0.0))
    return found


def assert_same_leaves(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Check that the leaves ``[rows trees]`` of each tree are the same, whatever their numbers."""
    ours, theirs = np.asarray(ours, np.int64), np.asarray(theirs, np.int64).reshape(len(ours), -1)
    assert ours.shape == theirs.shape
    for t in range(ours.shape[1]):
        pairs = np.unique(np.stack([ours[:, t], theirs[:, t]]), axis=1)
        assert all(len(np.unique(side)) == pairs.shape[1] for side in pairs), f"tree {t}"


def walked(trees: Trees, X: Any) -> np.ndarray:
    """The leaves ``[rows trees]`` that rows end in, test by test."""
    child, feature, threshold, missing_right = (
        np.asarray(getattr(trees, name)) for name in ("child", "feature", "threshold", "missing_right")
    )
    values = np.asarray(encode_instances(X, trees.columns, infinite=True).values)
    keys, rows, tree = order_key(values), np.arange(len(values))[:, None], np.arange(len(child))
    node = np.zeros((len(values), len(child)), np.int64)
    for _ in range(trees.depth):
        column, left = feature[tree, node], child[tree, node]
        goes_right = keys[rows, column] > threshold[tree, node]
        goes_right = np.where(np.isnan(values[rows, column]), missing_right[tree, node], goes_right)
        node = np.where(left == node, node, left + goes_right)
    return node


ROWS, TREES, NODES, COLUMNS = 64, 32, 256, 8
"""The shape in which `program_leaves` asks all models, so that they share one program."""


def program_leaves(trees: Trees, X: Any) -> np.ndarray | None:
    """The leaves ``[rows trees]`` by `leaf_index`, of models that are padded to one shape; None for larger ones."""
    trees, (values, _) = encode_for(trees, X, infinite=True)
    (n, n_columns), (n_trees, n_nodes) = values.shape, trees.feature.shape
    if n > ROWS or n_columns > COLUMNS or n_trees >= TREES or n_nodes > NODES:
        return None
    node, n_tests = np.arange(NODES, dtype=np.int32), 31
    child = np.tile(node, (TREES, 1))
    child[-1, :n_tests] = 2 * node[:n_tests] + 1  # a padding tree with as many tests as the top of a plan has at most
    child[:n_trees, :n_nodes] = trees.child
    padded = [child]
    for name, padding in (("feature", 0), ("threshold", 2**31 - 1), ("missing_right", False), ("tree_depth", 0)):
        part = np.asarray(getattr(trees, name))
        padded.append(np.full((TREES, NODES)[: part.ndim], padding, part.dtype))
        padded[-1][tuple(map(slice, part.shape))] = part
    child, feature, threshold, missing_right, depth = padded
    threshold[-1, :n_tests], depth[-1] = 0, 5
    arrays = jax.device_put((feature, threshold, child, missing_right, depth))
    rows = np.zeros((ROWS, COLUMNS), np.float32)
    rows[:n, :n_columns] = values
    return np.asarray(ju.leaf_index(Trees(*arrays, columns=Columns(COLUMNS, None)), rows))[:n, :n_trees]


def counts_of(forest: Forest) -> np.ndarray:
    """The counts of every node ``[trees nodes classes]``."""
    return np.asarray(forest.count_table)[np.asarray(forest.code)]


def counts_at(forest: Forest, X: Any) -> np.ndarray:
    """What `leaf_counts` are ``[rows trees classes]``."""
    return counts_of(forest)[np.arange(forest.n_trees), walked(forest.trees, X)]


def mean_shares(forest: Forest, X: Any) -> np.ndarray:
    """What the mean over trees is."""
    counts = counts_at(forest, X)
    return (counts / counts.sum(axis=2, keepdims=True)).mean(axis=1)


def raw_of(model: AdditiveTrees, X: Any) -> np.ndarray:
    """What `AdditiveTrees.raw` is, in float64."""
    return summed(model, walked(model.trees, X))


def answers_of(model: AdditiveTrees, X: Any) -> np.ndarray:
    """What `AdditiveTrees.predict` is, in float64."""
    raw = raw_of(model, X)
    if model.class_labels is not None and len(model.class_labels) == 2 and raw.shape[1] == 1:
        raw = np.concatenate([-raw, raw], axis=1)
    of_link = {"identity": np.asarray, "exp": np.exp, "logistic": expit, "one-vs-rest": expit}
    answers = of_link.get(model.link, lambda raw: softmax(raw, axis=1))(raw)
    if model.link == "one-vs-rest":
        answers = answers / answers.sum(axis=1, keepdims=True)
    return answers[:, 0] if model.class_labels is None and answers.shape[1] == 1 else answers


def reached(model: AdditiveTrees, leaves: np.ndarray) -> np.ndarray:
    """What `AdditiveTrees.leaf_values` are ``[rows trees each]``, in float64."""
    leaves = np.asarray(leaves)
    return np.asarray(model.values, np.float64)[np.arange(leaves.shape[1]), leaves]


def summed(model, leaves: np.ndarray, of=np.asarray) -> np.ndarray:
    """Return the sums of leaf values, or ``of`` them, ``[rows outputs]`` in float64, the base included."""
    values = of(reached(model, leaves))
    total = np.tile(of(np.asarray(model.base, np.float64)), (len(values), 1))
    if values.shape[2] == model.n_outputs:
        return total + values.sum(axis=1)
    for t, output in enumerate(model.outputs_of_trees):
        total[:, output] += values[:, t, 0]
    return total

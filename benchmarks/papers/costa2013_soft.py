"""A tree read over several branches: an instance near a threshold goes to both sides, in shares.

The share of the left side falls linearly from 1 to 0 across the threshold, over a width that is a part of the standard
deviation of the node's training instances (Quinlan's soft thresholds have widths of their own). Nominal tests and
missing values stay as they are.
"""

import numpy as np

from jaxunc.transduction import Presorted, Queries, as_queries, checked_limits, grow_greedy_tree, own_queries, presort


def soft_readings(X, y, X_test, nominal, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Laplace's estimates of all leaves by the shares of an instance: of their own counts, and of soft counts.

    Soft counts are the training instances' own shares.
    """
    sample = presort(X, y, nominal)
    tree = grow_greedy_tree(sample, checked_limits("boundary", 2))
    halves = half_widths(sample, tree, width)
    share, known = (shares(of, sample, tree, halves) for of in (as_queries(X_test, sample), own_queries(sample)))
    leaf = np.array(tree.child) == np.arange(len(tree.child))
    soft = known.T @ np.eye(sample.n_classes)[sample.label]
    return tuple(share[:, leaf] @ laplace_of(of[leaf]) for of in (np.array(tree.counts, float), soft))


def laplace_of(counts: np.ndarray) -> np.ndarray:
    """Laplace's estimate ``[leaves classes]``."""
    return (counts + 1) / (counts.sum(axis=1, keepdims=True) + counts.shape[1])


def half_widths(sample: Presorted, tree, width: float) -> np.ndarray:
    """Half the width of each node's threshold: so many standard deviations of the known values at the node."""
    hard = shares(own_queries(sample), sample, tree, np.zeros(len(tree.child)))
    found, row_of = np.zeros(len(tree.child)), {f: row for row, f in enumerate(sample.numeric.tolist())}
    for node, feature in enumerate(tree.feature):
        if tree.child[node] != node and feature in row_of:
            values = sample.value[row_of[feature], hard[:, node] > 0]
            known = values[np.isfinite(values)]
            found[node] = width * known.std() if len(known) else 0
    return found


def shares(queries: Queries, sample: Presorted, tree, halves: np.ndarray) -> np.ndarray:
    """Shares of instances at nodes ``[instances nodes]``; with no widths, 1 on the path and 0 elsewhere."""
    found = np.zeros((queries.n, len(tree.child)))
    found[:, 0] = 1
    row_of = {f: row for row, f in enumerate(sample.numeric.tolist())}
    code_of = {f: row for row, f in enumerate(sample.nominal.tolist())}
    for node, first in enumerate(tree.child):  # children lie behind their parents
        if first == node:
            continue
        feature, t = tree.feature[node], tree.threshold[node]
        if feature in row_of:
            x, half = queries.value[:, row_of[feature]], halves[node]
            left = (x <= t).astype(float)
            if half > 0 and np.isfinite(t):
                left = np.clip((t + half - x) / (2 * half), 0, 1)
        else:
            left = (queries.code[:, code_of[feature]] <= t).astype(float)
        found[:, first] += found[:, node] * left
        found[:, first + 1] += found[:, node] * (1 - left)
    return found

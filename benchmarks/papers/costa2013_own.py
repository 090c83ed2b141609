"""What the paper's Figure 3 warns of: the inserted instance makes thresholds, as any training instance does."""

import numpy as np

import jaxunc as ju
from benchmarks.data import DataSet
from jaxunc.transduction import Presorted, SplitLimits, best_test, presort


def own_threshold_counts(data: DataSet) -> np.ndarray:
    """Leaf counts ``[instances labels classes]`` of leave-one-out, an instance's values being cut at, too.

    The set with the instance under a label is the set with that label changed, so nothing is sorted anew: the tree for
    its own label is the tree of the set, of the others only the instance's path is grown.
    """
    sample, y = presort(data.X, data.y, data.nominal), data.y
    if tuple(sample.class_labels) != tuple(range(len(data.class_labels))):
        raise ValueError(f"{data.name}: a class without an instance.")
    tree = ju.transduction.grow_greedy_trees(data.X, y, nominal=data.nominal)
    plain = np.asarray(ju.leaf_counts(tree, data.X))[:, 0]
    counts = np.empty((len(y), sample.n_classes, sample.n_classes), int)
    for i in range(len(y)):
        for label in range(sample.n_classes):
            counts[i, label] = plain[i] if label == y[i] else _leaf_of(sample, i, label)
    return counts


def _leaf_of(sample: Presorted, i: int, label: int) -> np.ndarray:
    """The class counts at the end of an instance's path, with that label."""
    labels = sample.label.copy()
    labels[i] = label
    changed, limits = sample._replace(label=labels), SplitLimits(True, 2, None)
    order, members = sample.order, np.arange(sample.n, dtype=np.int32)
    while (test := best_test(changed, order, members, limits)) is not None:
        flags = np.zeros(sample.n, bool)
        flags[test.members] = True
        side = flags if flags[i] else ~flags
        members = members[side[members]]
        order = order[side[order]].reshape(len(order), len(members))
    return np.bincount(labels[members], minlength=sample.n_classes)


def agreeing(counts: np.ndarray) -> float:
    """The share of instances that every label wins over: the tree of each predicts it (of tied classes, the first)."""
    return float((counts.argmax(axis=2) == np.arange(counts.shape[1])).all(axis=1).mean())

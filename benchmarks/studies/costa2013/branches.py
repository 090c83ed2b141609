"""Lazy trees and several branches, which Costa, Verwer and Blockeel 2013 name beside their own method.

    python -m benchmarks costa2013 --parts branches [--data FOLDER] [--sets NAME ...]

Lazy trees grow one path for one instance. A tree that is read over several branches sends an instance near a threshold
to both sides. A cell has five folds of a set. The settings, `WIDTHS` among them, were chosen before any result was
seen, and not changed.
"""

import numpy as np

from benchmarks.data import DataSet
from benchmarks.studies.costa2013.methods import DECIMALS, Probabilities, laplace, widened
from benchmarks.studies.costa2013.pools import SMALL, part_of_five, pooled
from jaxunc import transduction

WIDTHS = {"narrow": 0.1, "wide": 0.5}
"""Half the width of a threshold, in standard deviations of the node's training instances."""


def _of_fold(data: DataSet, train: np.ndarray, test: np.ndarray, _: int) -> Probabilities:
    classes, y = np.unique(data.y[train], return_inverse=True)
    X, X_test, nominal = data.X[train], data.X[test], data.nominal
    counts = transduction.transductive_leaf_counts(X, y, X_test, nominal=nominal, inductive=True)
    lazy = lazy_leaf_counts(X, y, X_test, nominal)
    probs = {
        "tree_laplace": laplace(counts[:, -1:]),
        "lazy_laplace": laplace(lazy[:, -1:]),
        "tpce": laplace(counts[:, :-1]),
        "lazy_tpce": laplace(lazy[:, :-1]),
        "tpce_pool": pooled(counts[:, :-1]),
        "lazy_pool": pooled(lazy[:, :-1]),
    }
    probs["tpce_pool_tree"] = (probs["tpce_pool"] + probs["tree_laplace"]) / 2
    for name, width in WIDTHS.items():
        probs[f"soft_{name}"], probs[f"fuzzy_{name}"] = soft_readings(X, y, X_test, nominal, width)
        probs[f"tpce_pool_{name}"] = (probs["tpce_pool"] + probs[f"soft_{name}"]) / 2
    return {name: widened(of.round(DECIMALS), classes, len(data.class_labels)) for name, of in probs.items()}


# One set is left out: it has 279 features, and each step of a lazy path looks at all.
PART = part_of_five("branches", _of_fold, "lazy_pool", tuple(name for name in SMALL if name != "arrhythmia"))


# Lazy trees: one path for one instance (after Friedman, Kohavi and Yun 1996), also with the instance inserted.
#
# At each node the test is taken whose branch *of the instance* tells most. The classes of the node are weighted to be
# equally likely, so a gain is the logarithm of their number less the entropy of the branch's weights. Of equal gains
# the branch of most instances wins, then the first numeric feature at its lowest threshold, then the first nominal
# value.
#
# What differs from the paper: numbers are cut between any two values of the node in place of being made discrete
# beforehand; a nominal test is one value against the rest; there is no cache and no vote of tests of almost equal gain;
# and a missing number lies below all others, as in the library's trees. A branch has `LEAST` instances at least.

LEAST = 2
"""Instances of a branch, the inserted one among them: the setting of the other trees of the study."""
UNIT = 1e-10
"""Gains are compared in whole multiples of this many bits."""


def lazy_leaf_counts(X, y, X_test, nominal) -> np.ndarray:
    """Leaf counts ``[instances labels+1 classes]``, the inserted instance counted; with no label at last.

    A path ends where the node is pure with the instance or without it, has less than twice `LEAST` instances, or no
    branch gains.
    """
    sample = transduction.presort(X, y, nominal)
    queries, k = transduction.as_queries(X_test, sample), sample.n_classes
    found = np.zeros((queries.n * (k + 1), k), int)
    waiting = {b"": (sample.order, np.arange(sample.n), np.arange(len(found)))}
    while waiting:
        below: dict[bytes, tuple] = {}
        for order, members, pairs in waiting.values():
            for chosen, some in _branches(sample, queries, order, members, pairs, found):
                key = np.sort(chosen).tobytes()
                if key in below:
                    below[key] = (*below[key][:2], np.concatenate([below[key][2], some]))
                else:
                    among = np.zeros(sample.n, bool)
                    among[chosen] = True
                    below[key] = (order[among[order]].reshape(len(order), len(chosen)), members[among[members]], some)
        waiting = below
    return found.reshape(queries.n, k + 1, k)


def _branches(sample: transduction.Presorted, queries: transduction.Queries, order, members, pairs, found):
    """Yield the instances of each branch that pairs take, with these; the counts of the others are written down."""
    k = sample.n_classes
    totals = np.bincount(sample.label[members], minlength=k)
    units = np.vstack([np.eye(k, dtype=int), np.zeros(k, int)])
    found[pairs] = totals + units[pairs % (k + 1)]
    if np.count_nonzero(totals) < 2:
        return
    cuts = transduction.find_cuts(sample, order, False)
    counts = transduction.value_counts(sample, members).reshape(k, -1) if len(sample.nominal) else np.zeros((k, 0), int)
    inside = np.hstack([cuts.below, counts]).astype(int)
    for label in np.unique(pairs % (k + 1)):
        some = pairs[pairs % (k + 1) == label]
        with_instance = totals + units[label]
        if with_instance.sum() < 2 * LEAST:
            continue
        scores = [branch_scores(of, with_instance, units[label]) for of in (inside, totals[:, None] - inside)]
        who = some // (k + 1)
        has_code = queries.code[who][:, :, None] == np.arange(sample.n_codes)
        is_inside = np.hstack([queries.value[who][:, cuts.row] <= cuts.threshold, has_code.reshape(len(who), -1)])
        score = np.where(is_inside, scores[0], scores[1])
        if not score.shape[1]:
            continue
        test = score.argmax(axis=1)
        gains, sides = (of[np.arange(len(some)), test] for of in (score >= 0, is_inside))
        for number, side in set(zip(test[gains].tolist(), sides[gains].tolist(), strict=True)):
            chosen = _chosen(sample, cuts, order, members, number)
            yield chosen if side else np.setdiff1d(members, chosen), some[gains & (test == number) & (sides == side)]


def branch_scores(branch: np.ndarray, totals: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Scores of branches ``[classes tests]`` by gain, then size; -1 where a branch is too small or gains nothing."""
    branch = branch + unit[:, None]
    size = branch.sum(axis=0)
    weight = branch / np.maximum(totals, 1)[:, None]
    share = weight / np.maximum(weight.sum(axis=0), 1e-300)
    entropy = -(share * np.log2(np.where(share > 0, share, 1))).sum(axis=0)
    gain = np.rint((np.log2(np.count_nonzero(totals)) - entropy) / UNIT).astype(np.int64)
    return np.where((size >= LEAST) & (gain > 0), gain * (totals.sum() + 1) + size, -1)


def _chosen(sample: transduction.Presorted, cuts, order, members, number: int) -> np.ndarray:
    """The instances inside of a test."""
    if number < len(cuts.row):
        return order[cuts.row[number], : cuts.size[number]]
    row, code = divmod(number - len(cuts.row), sample.n_codes)
    return members[sample.code[row, members] == code]


# A tree read over several branches: an instance near a threshold goes to both sides, in shares.
#
# The share of the left side falls linearly from 1 to 0 across the threshold, over a width that is a part of the
# standard deviation of the node's training instances (Quinlan's soft thresholds have widths of their own). Nominal
# tests and missing values stay as they are.


def soft_readings(X, y, X_test, nominal, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Laplace's estimates of all leaves by the shares of an instance: of their own counts, and of soft counts.

    Soft counts are the training instances' own shares.
    """
    sample = transduction.presort(X, y, nominal)
    tree = transduction.grow_greedy_tree(sample, transduction.checked_limits("boundary", 2))
    halves = half_widths(sample, tree, width)
    share = shares(transduction.as_queries(X_test, sample), sample, tree, halves)
    known = shares(transduction.sample_queries(sample), sample, tree, halves)
    leaf = np.array(tree.child) == np.arange(len(tree.child))
    soft = known.T @ np.eye(sample.n_classes)[sample.label]
    laplace_of = lambda counts: (counts + 1) / (counts.sum(axis=1, keepdims=True) + counts.shape[1])
    return tuple(share[:, leaf] @ laplace_of(of[leaf]) for of in (np.array(tree.counts, float), soft))


def half_widths(sample: transduction.Presorted, tree, width: float) -> np.ndarray:
    """Half the width of each node's threshold: so many standard deviations of the known values at the node."""
    hard = shares(transduction.sample_queries(sample), sample, tree, np.zeros(len(tree.child)))
    found, row_of = np.zeros(len(tree.child)), {f: row for row, f in enumerate(sample.numeric.tolist())}
    for node, feature in enumerate(tree.feature):
        if tree.child[node] != node and feature in row_of:
            values = sample.value[row_of[feature], hard[:, node] > 0]
            known = values[np.isfinite(values)]
            found[node] = width * known.std() if len(known) else 0
    return found


def shares(queries: transduction.Queries, sample: transduction.Presorted, tree, halves: np.ndarray) -> np.ndarray:
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

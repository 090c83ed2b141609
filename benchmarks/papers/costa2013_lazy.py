"""Lazy trees: one path for one instance (after Friedman, Kohavi and Yun 1996), also with the instance inserted.

At each node the test is taken whose branch *of the instance* tells most. The classes of the node are weighted to be
equally likely, so a gain is the logarithm of their number less the entropy of the branch's weights. Of equal gains the
branch of most instances wins, then the first numeric feature at its lowest threshold, then the first nominal value.

What differs from the paper: numbers are cut between any two values of the node in place of being made discrete
beforehand; a nominal test is one value against the rest; there is no cache and no vote of tests of almost equal gain;
and a missing number lies below all others, as in the library's trees. A branch has `LEAST` instances at least.
"""

import numpy as np

from jaxunc.transduction import Presorted, Queries, as_queries, find_cuts, presort, value_counts

LEAST = 2
"""Instances of a branch, the inserted one among them: the setting of the other trees of the study."""
UNIT = 1e-10
"""Gains are compared in whole multiples of this many bits."""


def lazy_leaf_counts(X, y, X_test, nominal) -> np.ndarray:
    """Leaf counts ``[instances labels+1 classes]``, the inserted instance counted; with no label at last.

    A path ends where the node is pure with the instance or without it, has less than twice `LEAST` instances, or no
    branch gains.
    """
    sample = presort(X, y, nominal)
    queries, k = as_queries(X_test, sample), sample.n_classes
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


def _branches(sample: Presorted, queries: Queries, order, members, pairs, found):
    """Yield the instances of each branch that pairs take, with these; the counts of the others are written down."""
    k = sample.n_classes
    totals = np.bincount(sample.label[members], minlength=k)
    units = np.vstack([np.eye(k, dtype=int), np.zeros(k, int)])
    found[pairs] = totals + units[pairs % (k + 1)]
    if np.count_nonzero(totals) < 2:
        return
    cuts = find_cuts(sample, order, False)
    counts = value_counts(sample, members).reshape(k, -1) if len(sample.nominal) else np.zeros((k, 0), int)
    inside = np.hstack([cuts.below, counts]).astype(int)
    for label in np.unique(pairs % (k + 1)):
        some = pairs[pairs % (k + 1) == label]
        with_instance = totals + units[label]
        if with_instance.sum() < 2 * LEAST:
            continue
        scores = [branch_scores(of, with_instance, units[label]) for of in (inside, totals[:, None] - inside)]
        who = some // (k + 1)
        is_inside = np.hstack(
            [
                queries.value[who][:, cuts.row] <= cuts.threshold,
                (queries.code[who][:, :, None] == np.arange(sample.n_codes)).reshape(len(who), -1),
            ]
        )
        score = np.where(is_inside, scores[0], scores[1])
        if not score.shape[1]:
            continue
        test = score.argmax(axis=1)
        place = np.arange(len(some))
        gains, sides = score[place, test] >= 0, is_inside[place, test]
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


def _chosen(sample: Presorted, cuts, order, members, number: int) -> np.ndarray:
    """The instances inside of a test."""
    if number < len(cuts.row):
        return order[cuts.row[number], : cuts.size[number]]
    row, code = divmod(number - len(cuts.row), sample.n_codes)
    return members[sample.code[row, members] == code]

"""What transduction saves: for each instance and label one whole greedy tree, and its leaf; and that nothing is lost.

The tree is the library's (`jaxunc.transduction`), node by node; only where the inserted instance goes are the tests
judged with it, while its values make no thresholds. Nothing is shared between pairs, and no branch is left out.

    python -m benchmarks.speed.transduction_full --data FOLDER --work FOLDER

checks every pair of eight data sets. Each set's answer is kept in the work folder: an interrupted run goes on there.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import load
from jaxunc.transduction import (
    LOWEST,
    Presorted,
    Queries,
    SplitLimits,
    as_queries,
    best_test,
    entropy_table,
    find_cuts,
    presort,
    sample_queries,
    scores_with,
    split,
    transductive_leaf_counts,
    value_counts,
)

from .measure import say

LIMITS = SplitLimits(boundaries=True, min_samples_leaf=2, max_depth=None)
SETS = dict.fromkeys(("iris", "wine", "glass", "heart-c", "breast-cancer-ljubljana", "tic-tac-toe", "diabetes"))
SETS |= {"wdbc": 300}
"""Each instance left out, or, where a number stands, so many train and the rest are inserted."""


def full_leaf(sample: Presorted, x: Queries, label: int) -> np.ndarray:
    """Class counts of the leaf of one instance in the whole tree of a training set and that instance."""
    queue = [(sample.order, np.arange(sample.n, dtype=np.int32), True)]
    leaf = None
    while queue:
        order, members, is_here = queue.pop()
        if not is_here:
            test = best_test(sample, order, members, LIMITS)
            if test is not None:
                queue += [(*side, False) for side in split(order, members, test.members, sample.n)]
            continue
        chosen = _test_with(sample, order, members, x, label)
        if chosen is None:
            leaf = np.bincount(sample.label[members], minlength=sample.n_classes)
            leaf[label] += 1
            continue
        passes, is_inside = chosen
        inside, outside = split(order, members, passes, sample.n)
        queue += [(*inside, is_inside), (*outside, not is_inside)]
    assert leaf is not None
    return leaf


def _test_with(sample: Presorted, order, members, x: Queries, label: int):
    """The instances that pass the best test of a node that has the instance too, and whether that passes."""
    own, n = np.eye(sample.n_classes, dtype=np.intp)[label], len(members) + 1
    without = np.bincount(sample.label[members], minlength=sample.n_classes)
    totals, entropy = without + own, entropy_table(sample.n + 1)
    pure = np.count_nonzero(totals) < 2 or np.count_nonzero(without) < 2
    if pure or n < 2 * LIMITS.min_samples_leaf:
        return None
    best, chosen = entropy[totals].sum() - entropy[n], None
    cuts = find_cuts(sample, order, LIMITS.boundaries)
    is_below = x.value[0, cuts.row] <= cuts.threshold
    below = cuts.below + own[:, None] * is_below
    cut_scores = scores_with(entropy, below, totals[:, None] - below, LIMITS.min_samples_leaf)
    if len(sample.nominal):
        counts = value_counts(sample, members)
        equal = x.code[0][:, None] == np.arange(sample.n_codes)
        inside = counts + own[:, None, None] * equal
        code_scores = scores_with(entropy, inside, totals[:, None, None] - inside, LIMITS.min_samples_leaf)
        is_test = (counts.sum(axis=0) > 0) & (counts.sum(axis=0) < len(members))
        code_scores = np.where(is_test, code_scores, LOWEST)
    for f in range(sample.columns.number):
        if sample.columns.is_nominal[f]:
            row = int(np.searchsorted(sample.nominal, f))
            code = int(code_scores[row].argmax())
            if code_scores[row, code] > best:
                best, chosen = code_scores[row, code], (members[sample.code[row, members] == code], equal[row, code])
        else:
            row = int(np.searchsorted(sample.numeric, f))
            begin, end = cuts.start[row : row + 2]
            if begin < end and (found := cut_scores[begin:end].max()) > best:
                cut = begin + int(cut_scores[begin:end].argmax())
                best, chosen = found, (order[row, : cuts.size[cut]], is_below[cut])
    return None if chosen is None else (chosen[0], bool(chosen[1]))


def check(name: str, n_train: int | None, folder: Path | None) -> dict:
    """Every pair of a set: how many there are, and how many leaf counts differ."""
    data = load(name, folder)
    rows = np.random.default_rng(0).permutation(len(data.X))
    X, y = data.X[rows], data.y[rows]
    cpu = time.process_time()
    if n_train is None:
        sample = presort(X, y, data.nominal)
        found, queries = transductive_leaf_counts(X, y, nominal=data.nominal), sample_queries(sample)
    else:
        sample = presort(X[:n_train], y[:n_train], data.nominal)
        found = transductive_leaf_counts(X[:n_train], y[:n_train], X[n_train:], nominal=data.nominal)
        queries = as_queries(X[n_train:], sample)
    fast, cpu, wrong = time.process_time() - cpu, time.process_time(), 0
    for i in range(queries.n):
        own = sample.take(np.delete(np.arange(sample.n), i)) if n_train is None else sample
        for c in range(sample.n_classes):
            wrong += not np.array_equal(full_leaf(own, queries.rows(slice(i, i + 1)), c), found[i, c])
        if i % 100 == 99:
            say(f"{name}: {i + 1} of {queries.n}, {wrong} differ")
    return {
        "data": name,
        "form": "leave one out" if n_train is None else f"{n_train} train",
        "instances": len(X),
        "features": X.shape[1],
        "nominal": int(data.nominal.sum()),
        "classes": sample.n_classes,
        "pairs": int(found.shape[0] * found.shape[1]),
        "mismatches": int(wrong),
        "full_cpu_s": time.process_time() - cpu,
        "cpu_s": fast,
    }


def check_all(folder: Path | None, work: Path, names=SETS) -> list[dict]:
    """`check` of each set, each kept as soon as it is there."""
    found = []
    for name in names:
        found.append(kept(work / f"{name}.json", partial(check, name, SETS[name], folder)))
        say(f"{name}: {found[-1]['pairs']} pairs, {found[-1]['mismatches']} differ")
    return found


def kept(path: Path, part: Callable[[], object]) -> Any:
    """A part that is kept already, or measured now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(json.dumps(part()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def main(arguments: list[str] | None = None) -> None:
    """Check all, print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.transduction_full", description=main.__doc__)
    parser.add_argument("--data", type=Path, help="folder of data sets (default: JAXUNC_DATA, then OpenML)")
    parser.add_argument("--work", type=Path, required=True, help="where each set's answer is kept")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="NAME")
    options = parser.parse_args(arguments)
    print(json.dumps(check_all(options.data, options.work, options.sets), indent=1))


if __name__ == "__main__":
    main()

"""``python -m benchmarks.speed.transduction``: what transduction costs, against the trees that it does not grow.

* each instance left out, on two real sets
* 3000 + 3000 instances of 50 features: against whole trees by the same learner and one fit of scikit-learn's tree a
  pair, both timed on a sample of pairs and multiplied; and 10 000 + 10 000, with the memory that they take
* the algorithms against each other on a set of nominal features, their first calls with compilation
* every pair of eight sets compared with whole trees (`transduction_full`), if a folder for work is named

Each part of a run is kept in the work folder as soon as it is there: an interrupted run goes on after it.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import load
from jaxunc.transduction import as_queries, presort, transductive_leaf_counts

from .machine import about, command, peak_bytes, publish
from .measure import say, timed
from .transduction_full import check_all, full_leaf, kept

N_FEATURES = 50


def left_out(name: str, folder: Path | None, repeats: int) -> dict:
    """Every instance of a real set left out, with every label."""
    data = load(name, folder)
    call = partial(transductive_leaf_counts, data.X, data.y, nominal=data.nominal)
    return {"data": name, "pairs": len(data.X) * len(data.class_labels)} | _clocks(call, repeats)


def _clocks(call: Callable[[], object], repeats: int) -> dict:
    """The shortest of a few calls, by both clocks: what else the machine does only adds."""
    found = [timed(call)[:2] for _ in range(repeats)]
    return {"wall_s": min(wall for wall, _ in found), "cpu_s": min(cpu for _, cpu in found)}


def synthetic(n: int) -> tuple[np.ndarray, ...]:
    """Training set and labels, instances that are inserted."""
    X, y = make_classification(2 * n, N_FEATURES, n_informative=10, random_state=0)
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:]


def against_trees(n: int, sample_of: int, repeats: int) -> dict:
    """Against one tree a pair; a sample of pairs is timed, and all of their leaves compared."""
    X, y, queries = synthetic(n)
    found = _clocks(lambda: transductive_leaf_counts(X, y, queries), repeats)
    counts = transductive_leaf_counts(X, y, queries)
    train, n_pairs = presort(X, y, None), 2 * n
    asked = as_queries(queries, train)
    pairs = np.random.default_rng(0).choice(n_pairs, sample_of, replace=False)

    def grow():
        return [full_leaf(train, asked.rows(slice(p // 2, p // 2 + 1)), int(p % 2)) for p in pairs]

    def fit():
        for p in pairs:
            model = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=0)
            model.fit(np.vstack([X, queries[p // 2]]), np.append(y, p % 2))

    _, full, leaves = timed(grow)
    wrong = np.any(np.array(leaves) != counts[pairs // 2, pairs % 2], axis=1).sum()
    per_tree, per_fit = full / sample_of, timed(fit)[1] / sample_of
    return {
        "data": f"{n} + {n} x {N_FEATURES}",
        "pairs": n_pairs,
        **found,
        "sampled_pairs": sample_of,
        "sampled_mismatches": int(wrong),
        "full_cpu_s_per_pair": per_tree,
        "times_full_extrapolated": per_tree * n_pairs / found["cpu_s"],
        "sklearn_cpu_s_per_pair": per_fit,
        "times_sklearn_extrapolated": per_fit * n_pairs / found["cpu_s"],
    }


def large(n: int) -> dict:
    """Once, and the most memory that the process has had; run before anything else that is large."""
    X, y, queries = synthetic(n)
    before = peak_bytes()
    found = {"data": f"{n} + {n} x {N_FEATURES}", "pairs": 2 * n}
    found |= _clocks(lambda: transductive_leaf_counts(X, y, queries), 1)
    return found | {"peak_mib": peak_bytes() / 2**20, "peak_mib_before": before / 2**20}


def forms(name: str, folder: Path | None, repeats: int) -> dict:
    """All forms on one set, each instance left out: first calls, and later ones."""
    data, rows, counts = load(name, folder), [], []
    for algorithm in ("grouped", "dense"):
        call = partial(transductive_leaf_counts, data.X, data.y, nominal=data.nominal, algorithm=algorithm)
        wall, cpu, found = timed(call)
        counts.append(found)
        rows.append({"algorithm": algorithm, "first_wall_s": wall, "first_cpu_s": cpu} | _clocks(call, repeats))
    same = all(np.array_equal(counts[0], found) for found in counts)
    return {"data": name, "forms": rows, "same_counts": same}


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    parser = command("transduction", main.__doc__, 3)
    parser.add_argument("--data", type=Path, help="folder of data sets (default: JAXUNC_DATA, then OpenML)")
    parser.add_argument("--work", type=Path, help="where parts are kept (default: nowhere, and no check)")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[], object]] = {
        "large": lambda: large(200 if options.quick else 10_000),
        "synthetic": lambda: against_trees(100 if options.quick else 3000, 20, options.repeats),
    }
    if not options.quick:
        parts["left_out"] = lambda: [left_out(name, options.data, options.repeats) for name in ("diabetes", "wdbc")]
        parts["forms"] = lambda: [forms("tic-tac-toe", options.data, options.repeats)]
    result = about()
    for name, part in parts.items():
        result[name] = kept(options.work / f"part-{name}.json", part) if options.work else part()
        say(f"{name}: {json.dumps(result[name])}")
    if options.work:
        result["every_pair"] = check_all(options.data, options.work)
    publish(result, options.output)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.speed.growing``: random decision trees against scikit-learn's and the published code.

scikit-learn grows another kind of tree: it stops at pure nodes, and a node whose only drawn test leaves a side with too
few instances becomes a leaf, where random decision trees draw again up to as often as there are features. With
``min_samples_leaf`` above 1 its trees are therefore far smaller; nodes are reported beside times.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

import jaxunc as ju
from benchmarks.data import load

from .machine import about, command, publish
from .measure import Times, interleaved, ratio, summary, timed

PUBLISHED_CPU_SECONDS = {"spambase": 53.0, "mushroom": 22.0}
"""Growing 100 trees on half of the set by the published code, one thread."""


def against_sklearn(n_instances: int, min_samples_leaf: int, repeats: int) -> dict:
    """100 trees on 30 numeric features."""
    X, y = make_classification(n_instances, 30, n_informative=10, random_state=0)
    X = X.astype(np.float32)
    peer = ExtraTreesClassifier(100, max_features=1, n_jobs=-1, min_samples_leaf=min_samples_leaf, random_state=0)
    found, times = _grown(X, y, repeats, {"scikit-learn": lambda: peer.fit(X, y)}, min_samples_leaf=min_samples_leaf)
    return {
        "data": f"{n_instances} x 30, numeric",
        "min_samples_leaf": min_samples_leaf,
        **found,
        "scikit-learn": {
            **summary(times["scikit-learn"]),
            "nodes_per_tree": float(np.mean([tree.tree_.node_count for tree in peer.estimators_])),
        },
        "ratio_to_sklearn": ratio(times["jaxunc"], times["scikit-learn"]),
    }


def against_published(name: str, folder: Path | None, repeats: int) -> dict:
    """100 trees on half of a set, as the published code was timed."""
    data = load(name, folder)
    X = np.where(data.nominal & np.isnan(data.X), -1, data.X)
    X, _, y, _ = train_test_split(X, data.y, test_size=0.5, random_state=0)
    found, times = _grown(X, y, repeats, {}, nominal=data.nominal)
    return {
        "data": f"{name}, {len(X)} x {X.shape[1]}, {int(data.nominal.sum())} nominal",
        **found,
        "published_cpu_s": PUBLISHED_CPU_SECONDS[name],
        "published_over_cpu": PUBLISHED_CPU_SECONDS[name] / float(np.median(times["jaxunc"].cpu)),
    }


def _grown(X, y, repeats: int, peers: dict[str, Callable], **settings: Any) -> tuple[dict, dict[str, Times]]:
    """The first call, later ones beside peers, and the nodes of a tree; and all times."""
    grow = lambda: jax.block_until_ready(ju.grow_random_trees(jax.random.key(0), X, y, **settings))
    first, _, forest = timed(grow)
    times = interleaved({"jaxunc": grow, **peers}, repeats)
    inner = np.asarray(forest.trees.child) != np.arange(forest.n_nodes)
    nodes = float(1 + 2 * inner.sum() / forest.n_trees)
    return {"first_call_s": first, "jaxunc": {**summary(times["jaxunc"]), "nodes_per_tree": nodes}}, times


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    parser = command("growing", main.__doc__, 7)
    parser.add_argument("--data", type=Path, help="folder of data sets (default: JAXUNC_DATA, then OpenML)")
    options = parser.parse_args(arguments)
    before, n_instances = about(), 500 if options.quick else 20_000
    measured = [against_sklearn(n_instances, leaf, options.repeats) for leaf in (1, 8)]
    if not options.quick:
        measured += [against_published(name, options.data, options.repeats) for name in PUBLISHED_CPU_SECONDS]
    publish({**before, "growing": measured}, options.output)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.speed.learning``: what learning costs beside growing, and the pure fold's gradient by rows."""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from . import measure
from .machine import about, publish


def timed(make):
    """(seconds of processor time in all threads, which is the time on one core; what was made)."""
    return measure.timed(lambda: jax.block_until_ready(make()))[1:]


def histograms(n: int, n_trees: int, repeats: int) -> dict:
    """Growing, rows and fitting, in this order, on one table."""
    X, y = make_classification(n, 30, n_informative=10, flip_y=0.1, random_state=0)
    X = X.astype(np.float32)
    model = RandomForestClassifier(n_trees, n_jobs=1, random_state=0)
    growing, _ = timed(lambda: model.fit(X, y).n_features_in_)
    found: dict = {"data": f"{n} x 30", "trees": n_trees, "growing_s": growing}
    for counts in ("inbag", "both"):
        make = lambda counts=counts: ju.learning.oob_dataset(model, X, y, counts=counts).histograms
        first_making, rows = timed(make)
        making = float(np.median([timed(make)[0] for _ in range(repeats)]))
        rows = ju.learning.oob_dataset(model, X, y, counts=counts)
        rule = ju.LearnedPool(rows.prior, reads=rows.count_sets)
        first, _ = timed(lambda r=rule, h=rows: ju.learning.fit_combiner(r, h).combiner.scale)
        runs = [timed(lambda r=rule, h=rows: ju.learning.fit_combiner(r, h).combiner.scale)[0] for _ in range(repeats)]
        fitted = ju.learning.fit_combiner(rule, rows)
        found[counts] = {
            "first_rows_s": first_making,
            "rows_s": making,
            "distinct": len(rows.count_table),
            "slots": rows.code.shape[1],
            "first_fit_s": first,
            "fit_s": float(np.median(runs)),
            "fit_s_range": [min(runs), max(runs)],
            "steps": fitted.n_steps,
            "rows_and_fit_of_growing": (making + float(np.median(runs))) / growing,
        }
    return found


def loss_of_weights(forest: ju.Forest, **how):
    """The loss of the mean with weighted trees, of the logarithms of weights, rows and their classes."""

    def loss(log_weights, X, y):
        rule = ju.Weighted(ju.Mean(), jnp.exp(log_weights))
        leaves = ju.inference.leaf_table(forest, rule)
        merged = ju.inference.merge_leaves(forest.trees, leaves, X, merge=rule.merge, missing=False, **how)
        return -jnp.mean(jnp.take_along_axis(rule.finish(merged).log_probability, y[:, None], axis=1))

    return loss


def pure_fold(sizes: list[int], n_trees: int) -> dict:
    """Value and gradient in weights of the trees, in mini-batches of 8192 rows, and the memory of the program."""
    X, y = make_classification(max(sizes), 30, n_informative=10, flip_y=0.1, random_state=0)
    X = X.astype(np.float32)
    model = RandomForestClassifier(n_trees, min_samples_leaf=8, n_jobs=-1, random_state=0).fit(X[:20000], y[:20000])
    forest, labels, data = ju.from_sklearn(model), jnp.asarray(y), jnp.asarray(X)

    step = jax.jit(jax.value_and_grad(loss_of_weights(forest)))
    weights, batch = jnp.zeros(n_trees), 8192
    memory = {
        n: step.lower(weights, data[:n], labels[:n]).compile().memory_analysis().temp_size_in_bytes for n in sizes
    }
    jax.block_until_ready(step(weights, data[:batch], labels[:batch]))
    seconds = {}
    for n in sizes:
        start = time.perf_counter()
        for i in range(0, n - batch + 1, batch):
            jax.block_until_ready(step(weights, data[i : i + batch], labels[i : i + batch]))
        seconds[n] = time.perf_counter() - start
    return {"trees": n_trees, "depth": forest.depth, "epoch_s": seconds, "temporary_bytes": memory}


def main() -> None:
    """Measure, and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="a JSON file")
    args = parser.parse_args()
    result = {
        **about(),
        "histograms": histograms(20_000, 200, args.repeats),
        "pure_fold": pure_fold([24_576, 49_152, 98_304], 500),
    }
    publish(result, args.output)


if __name__ == "__main__":
    main()

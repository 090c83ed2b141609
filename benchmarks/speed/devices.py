"""``python -m benchmarks.speed.devices``: one forest over 1, 2, 4 and 8 virtual devices of this machine's processor.

What dealing out costs, not what it gains: virtual devices share the cores, so beyond their number nothing can become
faster. *Strong*: the same instances on more devices. *Weak*: so many instances for each device. Along 'data', where
nothing is exchanged, and along 'tree', where carries are joined.
"""

import os

import jax
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from .machine import about, command, publish
from .measure import compared, interleaved, on_device

DEVICES = (1, 2, 4, 8)


def sharded_forests(n_trees: int) -> tuple[dict[str, ju.BoundForest | ju.parallel.ShardedForest], np.ndarray]:
    """A bound forest, and it over so many devices along each axis; and data."""
    X, y = make_classification(60_000, 30, n_informative=10, random_state=0)
    model = RandomForestClassifier(n_trees, min_samples_leaf=8, n_jobs=-1, random_state=0).fit(X[:10_000], y[:10_000])
    bound = ju.bind(ju.from_sklearn(model), ju.Mean())
    forests: dict[str, ju.BoundForest | ju.parallel.ShardedForest] = {"bound": bound}
    for n in DEVICES:
        devices = jax.devices()[:n]
        for axis, shape in (("data", (n, 1)), ("tree", (1, n))):
            forests[f"{axis} {n}"] = ju.shard(bound, jax.make_mesh(shape, ("data", "tree"), devices=devices))
    return forests, X[10_000:].astype(np.float32)


def strong(forests: dict, X: np.ndarray, repeats: int) -> dict:
    """The same instances, whatever the devices."""
    times = interleaved({name: on_device(forest.probability, X) for name, forest in forests.items()}, repeats)
    return {"instances": len(X), **compared(times, "bound")}


def weak(forests: dict, X: np.ndarray, repeats: int) -> dict:
    """Instances in proportion to the devices along 'data'."""
    share = len(X) // max(DEVICES)
    calls = {f"data {n}": on_device(forests[f"data {n}"].probability, X[: n * share]) for n in DEVICES}
    times = interleaved(calls, repeats)
    return {"instances_per_device": share, **compared(times, "data 1")}


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    options = command("devices", main.__doc__, 7).parse_args(arguments)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", max(DEVICES))
    before = about()
    forests, X = sharded_forests(8 if options.quick else 100)
    X = X[:2000] if options.quick else X
    scores = {name: np.asarray(forest(X)) for name, forest in forests.items()}
    result = {
        **before,
        "note": f"virtual devices share {os.cpu_count()} cores: more of them than cores cannot be faster",
        "strong": strong(forests, X, options.repeats),
        "weak": weak(forests, X, options.repeats),
        "largest_difference_of_class_scores": {
            name: float(np.max(np.abs(own - scores["bound"]))) for name, own in scores.items()
        },
        "forest_bytes_per_device": {
            name: sum(array.addressable_shards[0].data.nbytes for array in forest.arrays)
            for name, forest in forests.items()
            if name != "bound"
        },
    }
    publish(result, options.output)


if __name__ == "__main__":
    main()

"""One forest on the devices of several machines: ``python -m benchmarks.speed.multi_host``.

On each machine, with the address of the first one and a free port of it::

    python -m benchmarks.speed.multi_host --coordinator 10.0.0.1:12345 --processes 2 --process-id 0    # on 10.0.0.1
    python -m benchmarks.speed.multi_host --coordinator 10.0.0.1:12345 --processes 2 --process-id 1    # on the other

or, to try it on one machine without accelerators, both in one shell (``localhost:12345``, and ``--cpu-devices 4``).
Where a cluster's manager starts the processes (Slurm, Open MPI, Kubernetes, Cloud TPU), leave the three options away:
JAX finds them. Every process passes its own rows and gets their answers.

* ``--tree N``: trees over N places; on the machines where a forest does not fit one device. N that divides the devices
  of a machine keeps what is joined within machines.
* All processes run the same program on forests that are equal: read the same file, or grow from the same seed.
* Start order does not matter; a process waits for the others for ``--wait`` seconds.
"""

import argparse

import jax
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from .measure import repeated


def start(options: argparse.Namespace) -> None:
    """Meet the other processes. Nothing may touch a device before."""
    if options.cpu_devices:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", options.cpu_devices)
    jax.distributed.initialize(
        options.coordinator, options.processes, options.process_id, initialization_timeout=options.wait
    )


def score(n_instances: int, n_trees: int, tree: int, repeats: int) -> dict:
    """Score rows of this process on all devices; compare with this process alone."""
    X, y = make_classification(2000 + n_instances, 30, n_informative=10, random_state=0)
    model = RandomForestClassifier(n_trees, min_samples_leaf=8, random_state=0).fit(X[:2000], y[:2000])
    rows, shares = X[2000:].astype(np.float32), jax.process_count()
    if tree > jax.local_device_count():  # the trees of one forest lie with several processes: they share rows
        shares = jax.device_count() // tree
    mine = np.array_split(rows, shares)[jax.process_index() * shares // jax.process_count()]
    bound = ju.bind(ju.from_sklearn(model), ju.Mean())
    mesh = jax.make_mesh((jax.device_count() // tree, tree), ("data", "tree"))
    sharded = ju.shard(bound, mesh)
    answer = sharded.probability(mine)
    return {
        "process": jax.process_index(),
        "devices": f"{jax.local_device_count()} of {jax.device_count()}",
        "mesh": dict(mesh.shape),
        "rows": len(mine),
        "median_s": repeated(lambda: sharded.probability(mine), repeats)["median"],
        "largest_difference": float(np.max(np.abs(answer - bound.probability(mine)), initial=0)),
    }


def main(arguments: list[str] | None = None) -> None:
    """Start, score, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.multi_host", description=main.__doc__)
    parser.add_argument("--coordinator", help="address:port of the first machine (default: the cluster's)")
    parser.add_argument("--processes", type=int, help="how many there are")
    parser.add_argument("--process-id", type=int, help="which this is, from 0")
    parser.add_argument("--tree", type=int, default=1, help="places along 'tree' (default: all devices along 'data')")
    parser.add_argument("--cpu-devices", type=int, help="so many virtual devices of this machine's processor")
    parser.add_argument("--instances", type=int, default=100_000, help="of all processes together")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--wait", type=int, default=300, help="seconds for the others to come")
    options = parser.parse_args(arguments)
    start(options)
    print(score(options.instances, options.trees, options.tree, options.repeats), flush=True)


if __name__ == "__main__":
    main()

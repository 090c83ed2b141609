"""One of two processes with four devices each: `test_devices` runs this file twice.

It starts as the page of commands says (`benchmarks.speed.multi_host`), and stays for what only two processes can show.
"""

import re
import sys

import jax
import numpy as np
from jax.sharding import Mesh

import jaxunc as ju
from benchmarks.speed import multi_host
from tests._forests import toy_data, toy_forest
from tests._refusal import refuses
from tests._rules import make

X, TREES = toy_data(2)[0], 11


def refused(error: type[Exception], words: str, call) -> None:
    refuses(error, re.escape(words), call)


def check(answer, expected, tolerance: float) -> None:
    for a, b in zip(jax.tree.leaves(answer), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def rows_of_ones_own(me: int, bound: ju.BoundForest) -> None:
    """As many as a process has; missing values in one of them alone; none at all; a mask."""
    for shape, tolerance in (((8, 1), 0.0), ((4, 2), 1e-6)):
        sharded = ju.shard(bound, jax.make_mesh(shape, ("data", "tree")))
        for mine in ((X[:301], X[301:358])[me], (X[:0], X[:9])[me]):
            mine = np.array(mine)
            mine[:1, 0] = np.nan if me else 0
            mask = np.arange(len(mine))[:, None] % 3 != np.arange(TREES) % 3
            check(sharded.answer(mine), bound.answer(mine), tolerance)
            check(sharded.answer(mine, tree_mask=mask), bound.answer(mine, tree_mask=mask), tolerance)
    refusals(me, sharded)


def trees_of_both(me: int, bound: ju.BoundForest) -> None:
    """Trees over all eight devices: both have the same rows, and all the answers."""
    sharded = ju.shard(bound, jax.make_mesh((1, 8), ("data", "tree")))
    check(sharded.answer(X[:77]), bound.answer(X[:77]), 1e-6)
    text = sharded.lower(77).compile().as_text()
    assert sum(f" {name}(" in text for name in ("all-gather", "all-to-all", "all-reduce")) == 1
    refused(ValueError, "Pass the same instances to both", lambda: sharded(X[me : me + 5]))


def refusals(me: int, sharded: ju.parallel.ShardedForest) -> None:
    """In both, so that none waits for the other."""
    said = ("[1] refused their data", "X has 3 features")[me]
    refused(ValueError, said, lambda: sharded(X[:5, : (6, 3)[me]]))
    refused(ValueError, "which read-out is asked for", (lambda: sharded(X), lambda: sharded.probability(X))[me])
    mask = (None, np.ones((len(X), TREES), bool))[me]
    refused(ValueError, "whether there is a tree_mask", lambda: sharded(X, tree_mask=mask))


def meshes(me: int, bound: ju.BoundForest) -> None:
    """Of one process alone, and of rows that are shared in part."""
    devices = np.array(jax.devices())
    first = Mesh(devices[:4].reshape(4, 1), ("data", "tree"))
    if me:
        refused(ValueError, "none of this process (1)", lambda: ju.shard(bound, first))
    else:
        check(ju.shard(bound, first).answer(X), bound.answer(X), 0.0)
    partly = Mesh(devices[[0, 1, 2, 4, 3, 5]].reshape(3, 2), ("data", "tree"))
    refused(ValueError, "overlap in part", lambda: ju.shard(bound, partly))


def main(coordinator: str, me: int) -> None:
    """Everything, in the same order in both."""
    options = ["--coordinator", coordinator, "--processes", "2", "--process-id", str(me), "--cpu-devices", "4"]
    multi_host.main([*options, "--tree", "2", "--instances", "501", "--trees", "5", "--repeats", "1", "--wait", "100"])
    rules = ju.combiners.Together(
        sum=ju.Mean(), exact=ju.Pooling(), collected=ju.Median(), by_tree=make("weighted_veto", 2, TREES)
    )
    bound = ju.bind(toy_forest(2, TREES), rules)
    rows_of_ones_own(me, bound)
    trees_of_both(me, bound)
    meshes(me, bound)
    print("all is well")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

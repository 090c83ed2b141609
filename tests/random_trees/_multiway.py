"""Multi-way trees written out, as forests; and what an instance is given in such a tree, from the paper."""

import jax.numpy as jnp
import numpy as np

import jaxunc as ju
from jaxunc._numerics import distinct_counts
from jaxunc.forest import Forks
from jaxunc.tables import Columns
from tests._forests import order_key

LAST = 2**31 - 1


def multiway_forest(root: dict, values: dict[int, list], n_features: int, mode: str) -> ju.Forest:
    """The forest of one tree whose nodes are ``{"counts", "split", "children"}``; ``values`` are a feature's codes.

    A test on k values becomes binary tests one after the other: below the first value present, up to it, and so on.
    """
    feature, threshold, child, counts, groups = [0], [LAST], [0], [[0, 0]], []

    def split(slot: int, number: int, key: int) -> int:
        left = len(feature)
        feature.extend([0, 0])
        threshold.extend([LAST, LAST])
        child.extend([left, left + 1])
        counts.extend([[0, 0], [0, 0]])
        feature[slot], threshold[slot], child[slot] = number, key, left
        return left

    def place(slot: int, node: dict) -> None:
        test = node.get("split")
        if test is None:
            counts[slot] = node["counts"]
            return
        number = test["feature"]
        if test["type"] == "numeric":
            key = int(order_key([test["value"]])[0]) - (test["operator"] == "<")
            left = split(slot, number, key)
            place(left, node["children"][0])
            place(left + 1, node["children"][1])
            return
        empty, members = [], []
        for value, below in zip(test["values"], node["children"], strict=True):
            if sum(below["counts"]) == 0:
                continue
            key = int(order_key([values[number].index(value)])[0])
            left = split(slot, number, key - 1)
            empty.append(left)
            slot = split(left + 1, number, key)
            members.append(slot)
            place(slot, below)
            slot = slot + 1
        groups.append(([*empty, slot], members))

    place(0, root)
    n = len(feature)
    width = 1 << (n - 1).bit_length()
    fill = lambda column, value: jnp.asarray([column + [value] * (width - n)], jnp.int32)
    table, code = distinct_counts(np.array([counts + [[0, 0]] * (width - n)]))
    for number, (empty, _) in enumerate(groups):
        for slot in empty:
            feature[slot] = -1 - number
    total = np.array(root["counts"], float)
    forks = Forks(
        tree=jnp.zeros(len(groups), jnp.int32),
        first=jnp.asarray(np.cumsum([0] + [len(members) for _, members in groups]), jnp.int32),
        node=jnp.asarray([node for _, members in groups for node in members], jnp.int32),
    )
    child, depth = jnp.asarray([child + list(range(n, width))], jnp.int32), jnp.asarray([n], jnp.int32)
    nodes = fill(feature, 0), fill(threshold, LAST), child, jnp.ones((1, width), bool)
    trees = ju.forest.Trees(*nodes, depth, Columns(n_features), forks if groups else None)
    prior, size = (jnp.asarray(of, jnp.result_type(float)) for of in (total / total.sum(), total.sum()))
    forest = ju.Forest(trees, table, code, prior, size, class_labels=(0, 1))
    return ju.forest.check_forest(forest).with_empty_leaves(mode)


def reached_leaves(forest: ju.Forest, tree: int, x: np.ndarray) -> tuple[list[int], int | None]:
    """The leaves that an instance is given in a tree, and the group of the empty leaf that it met first, if any."""
    trees = forest.trees
    feature, threshold, child = (np.asarray(getattr(trees, a))[tree] for a in ("feature", "threshold", "child"))
    keys = np.where(np.isnan(x), LAST, order_key(x))
    first, members = (np.asarray(a) for a in (trees.forks.first, trees.forks.node)) if trees.forks else ((), ())

    def walk(node: int) -> int:
        while child[node] != node:
            node = child[node] + int(keys[feature[node]] > threshold[node])
        return node

    def follow(node: int) -> list[int]:
        leaf = walk(node)
        if feature[leaf] >= 0:
            return [leaf]
        here = -1 - feature[leaf]
        return [deep for sibling in members[first[here] : first[here + 1]] for deep in follow(sibling)]

    leaf = walk(0)
    return follow(0), -1 - int(feature[leaf]) if feature[leaf] < 0 else None

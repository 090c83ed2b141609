"""Greedy trees by information gain, and bags of them (on the host).

`grow_greedy_trees` sorts the training set, and `grow_greedy_tree` grows a tree level by level, by the `best_test` of
each node. `forest_of` makes a `Forest` of the trees. Gains are compared as integers (`entropy_table`): ties are exact.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Int64

from jaxunc._checks import check_integer, check_one_of
from jaxunc._numerics import NAN_LAST, distinct_rows, order_key_at_or_below, padded_table, power_of_two
from jaxunc.forest import Forest, Trees
from jaxunc.tables import InstancesLike, LabelsLike, NominalLike

from ._presorted import LOWEST, Presorted, find_cuts, presort, value_counts
from ._scores import scores_with

CANDIDATES = ("boundary", "all")

MOST_BITS = 40
"""Largest number of binary places of a logarithm; up to 2¹⁷ instances sums then fit into 64 bits."""

MOST_INSTANCES = 2**26
"""Largest number of instances: for more, too few binary places would be left to tell gains apart."""


class SplitLimits(NamedTuple):
    """Limits on the splits of a node."""

    boundaries: bool  # whether numeric features are cut between different classes alone
    min_samples_leaf: int
    max_depth: int | None


class GreedyTree(NamedTuple):
    """The nodes of a tree, level after level; a nominal test takes two nodes (`grow_greedy_tree`)."""

    feature: list[int]
    threshold: list[float]
    child: list[int]  # number of the left child, whose sibling comes next; in a leaf the node's own number
    counts: list[np.ndarray]
    depth: int  # of these nodes: two levels for a nominal test


class ChosenTest(NamedTuple):
    """A test of a node: ``value <= threshold`` of a numeric feature, or ``code == threshold`` of a nominal one."""

    feature: int
    threshold: float
    members: Int[np.ndarray, " members"]
    """Instances that pass the test."""


def grow_greedy_trees(
    X: InstancesLike,
    y: LabelsLike,
    *,
    samples: Any = None,
    nominal: NominalLike | None = None,
    candidates: str = "boundary",
    min_samples_leaf: int = 2,
    max_depth: int | None = None,
) -> Forest:
    r"""Grow unpruned trees by information gain, with binary tests; the same instances give the same tree everywhere.

    A test that divides the n instances of a node into sides of n_1 and n_2 instances has the gain

    .. math:: n\,H - n_1 H_1 - n_2 H_2,\qquad n\,H = n\log_2 n-\sum_c n_c\log_2 n_c.

    Parameters
    ----------
    X
        Instances ``[instances features]`` (NumPy, JAX or pandas): numbers, used as float32, and what ``nominal`` names.
    y
        Labels ``[instances]``, two classes or more.
    samples
        The positions of the instances that each tree is grown on, ``[trees drawn]``; a repeated instance counts again.
        Default: one tree, on all instances.
    nominal
        The nominal features: bools, names, positions or ``"auto"``, as for `jaxunc.tables.fit_columns`, which finds the
        levels. Default: none.
    candidates
        ``"boundary"``: numeric features are cut between neighbouring values whose instances have different classes;
        ``"all"``: between any two.
    min_samples_leaf
        Least number of instances on each side of a test, ≥ 1.
    max_depth
        Nodes at this depth are leaves, ≥ 0; None for no limit.

    Returns
    -------
    Forest
        A forest of one tree, or of a tree for each row of ``samples``. A pure sample, or one whose features each have a
        single value, gives a tree of one leaf.

    Raises
    ------
    TypeError
        If a feature that is not nominal does not hold numbers, or a parameter is not an integer.
    ValueError
        If X holds infinite numbers, y a single class, lengths differ, ``nominal`` or ``samples`` do not fit X, or a
        parameter is out of range.

    Warns
    -----
    MergedValuesWarning
        If more than 1 % of a column's distinct values are equal to others as float32.

    Notes
    -----
    Numeric tests are ``x <= t``, t halfway between two neighbouring values of the node's sample; a missing number lies
    below all others. Nominal tests are ``x = v`` against the rest; a missing value is a value by itself, and an unseen
    value belongs to the rest. Gains are compared as integers (`entropy_table`), so that ties are exact: then the first
    feature is tested, at its lowest threshold. A node is a leaf if it is pure, has fewer than twice
    ``min_samples_leaf`` instances, or no test has a gain above 0. On the host; not traceable.

    References
    ----------
    Quinlan 1986; Fayyad and Irani 1992 (boundaries); Costa, Verwer and Blockeel 2013, section 4.1.

    Examples
    --------
    >>> import jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = ju.transduction.grow_greedy_trees(X, y)
    >>> tree.n_trees, tree.trees.depth, ju.leaf_counts(tree, X[:1])[0, 0].tolist()
    (1, 4, [50, 0, 0])
    """
    limits = checked_limits(candidates, min_samples_leaf, max_depth)
    sample = presort(X, y, nominal)
    if samples is None:
        return forest_of([grow_greedy_tree(sample, limits)], sample)
    rows = _check_samples(samples, sample.n)
    return forest_of([grow_greedy_tree(sample.take(row), limits) for row in rows], sample)


def checked_limits(candidates: str, min_samples_leaf: int, max_depth: int | None = None) -> SplitLimits:
    """Return settings of `grow_greedy_trees` as `SplitLimits`; raises a TypeError or a ValueError if one is invalid."""
    check_one_of("candidates", candidates, CANDIDATES)
    check_integer("min_samples_leaf", min_samples_leaf, 1)
    if max_depth is not None:
        check_integer("max_depth", max_depth, 0)
    return SplitLimits(boundaries=candidates == "boundary", min_samples_leaf=int(min_samples_leaf), max_depth=max_depth)


def _check_samples(samples, n: int) -> np.ndarray:
    """Return ``samples`` as an array ``[trees drawn]``; raises a ValueError unless it has positions of n instances."""
    rows = np.asarray(samples)
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "iu":
        raise ValueError(
            f"samples has shape {rows.shape} and dtype {rows.dtype}; pass positions of instances, integers "
            "[trees drawn]."
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"samples holds {rows.min()} to {rows.max()}; positions of {n} instances are 0 to {n - 1}.")
    return rows


def grow_greedy_tree(sample: Presorted, limits: SplitLimits) -> GreedyTree:
    """Return a tree that is grown on the whole training set ``sample``, level by level, within ``limits``.

    A nominal test "code = v" is two tests in the arrays: x ≤ v, and on its left x ≤ v - 1. Both have the node of all
    other codes as a child. Three nodes side by side are the second test, the node of all other codes, and that of v.
    """
    members = np.arange(sample.n, dtype=np.int32)
    is_nominal = sample.columns.is_nominal
    tree = GreedyTree([0], [0.0], [0], [np.zeros(sample.n_classes, np.int64)], depth=0)
    # Entries: node, its depth in the arrays, number of tests above it, and its instances as `split` returns them.
    queue = [(0, 0, 0, sample.order, members)]
    depth = 0
    while queue:
        next_level = []
        for node, level, n_tests, order, members in queue:
            tree.counts[node] = np.bincount(sample.label[members], minlength=sample.n_classes)
            test = None if n_tests == limits.max_depth else best_test(sample, order, members, limits)
            depth = max(depth, level)
            if test is None:
                continue
            inside, outside = split(order, members, test.members, sample.n)
            left = len(tree.feature)
            _set_test(tree, node, test.feature, test.threshold, left)
            # New nodes begin as leaves, which are their own children.
            n_nodes = 3 if is_nominal[test.feature] else 2
            tree.feature.extend([0] * n_nodes)
            tree.threshold.extend([0.0] * n_nodes)
            tree.child.extend(range(left, left + n_nodes))
            tree.counts.extend([np.zeros_like(tree.counts[0])] * n_nodes)
            if is_nominal[test.feature]:
                _set_test(tree, left, test.feature, test.threshold - 1, left + 1)
                level += 1
                inside, outside = outside, inside  # the node of the other codes comes first
                left += 1
            next_level += [(left, level + 1, n_tests + 1, *inside), (left + 1, level + 1, n_tests + 1, *outside)]
        queue = next_level
    return tree._replace(depth=depth)


def _set_test(tree: GreedyTree, node: int, feature: int, threshold: float, left: int) -> None:
    """Make ``node`` an inner node with the test of ``feature`` by ``threshold``, and with the left child ``left``."""
    tree.feature[node] = feature
    tree.threshold[node] = threshold
    tree.child[node] = left


def best_test(sample: Presorted, order: np.ndarray, members: np.ndarray, limits: SplitLimits) -> ChosenTest | None:
    """Return a node's test of largest gain, or None if no test within ``limits`` has a gain.

    Of tests with the same gain the first feature's is returned, at its lowest threshold. ``members`` are the node's
    instances, as positions in ``sample``; ``order [numeric members]`` are the same by increasing value of each numeric
    feature.
    """
    n = len(members)
    entropy = entropy_table(sample.n)
    totals = np.bincount(sample.label[members], minlength=sample.n_classes)
    if n < 2 * limits.min_samples_leaf or np.count_nonzero(totals) < 2:
        return None
    cuts = find_cuts(sample, order, limits.boundaries)
    scores = scores_with(entropy, cuts.below, totals[:, None] - cuts.below, limits.min_samples_leaf)
    # Features are looked at in their own order, whatever their kind.
    best_scores = np.full(sample.columns.number, LOWEST)
    nominal_scores = np.zeros((0, 0))
    if len(cuts.row):
        # Features without cuts are left out: reduceat would give them the next feature's first score.
        has_cuts = cuts.start[:-1] < cuts.start[1:]
        best_scores[sample.numeric[has_cuts]] = np.maximum.reduceat(scores, cuts.start[:-1][has_cuts])
    if len(sample.nominal):
        counts = value_counts(sample, members)
        nominal_scores = scores_with(entropy, counts, totals[:, None, None] - counts, limits.min_samples_leaf)
        best_scores[sample.nominal] = nominal_scores.max(axis=1)
    feature = int(np.argmax(best_scores))
    node_score = entropy[totals].sum() - entropy[n]
    if best_scores[feature] <= node_score:  # no gain
        return None
    if feature in sample.numeric:
        row = np.flatnonzero(sample.numeric == feature)[0]
        begin, end = cuts.start[row], cuts.start[row + 1]
        cut = begin + np.argmax(scores[begin:end])
        return ChosenTest(feature, float(cuts.threshold[cut]), order[row, : cuts.size[cut]])
    row = np.flatnonzero(sample.nominal == feature)[0]
    code = int(np.argmax(nominal_scores[row]))
    return ChosenTest(feature, code, members[sample.code[row, members] == code])


def split(order: np.ndarray, members: np.ndarray, chosen: np.ndarray, n: int):
    """Return (order, members) of the ``chosen`` instances of a node, and (order, members) of the node's others.

    ``order`` and ``members`` of the node are those of `best_test`; the results are sorted likewise. n is the number of
    training instances.
    """
    is_chosen = np.zeros(n, bool)
    is_chosen[chosen] = True
    in_order = is_chosen[order]
    in_members = is_chosen[members]
    n_rows = len(order)
    inside = order[in_order].reshape(n_rows, len(chosen)), members[in_members]
    outside = order[~in_order].reshape(n_rows, len(members) - len(chosen)), members[~in_members]
    return inside, outside


def forest_of(trees: Sequence[GreedyTree], sample: Presorted) -> Forest:
    """Return the forest of greedy trees; ``sample`` is the training set that their samples were drawn from."""
    # Rounded widths, so that forests of about one size share compiled programs. Nodes behind those of a tree are leaves
    # of zeros, which nothing reaches.
    width = power_of_two(max(len(tree.child) for tree in trees), 64)
    feature = np.zeros((len(trees), width), np.int32)
    threshold = np.full((len(trees), width), NAN_LAST, np.int32)
    child = np.tile(np.arange(width, dtype=np.int32), (len(trees), 1))
    code = np.zeros((len(trees), width), np.int32)
    leaf_nodes = []
    leaf_counts = [np.zeros((1, sample.n_classes))]
    for t, tree in enumerate(trees):
        children = np.array(tree.child, np.int32)
        is_inner = children != np.arange(len(children))
        feature[t, : len(children)] = tree.feature
        threshold[t, : len(children)][is_inner] = order_key_at_or_below(np.array(tree.threshold)[is_inner])
        child[t, : len(children)] = children
        leaf_nodes.append(np.flatnonzero(~is_inner))
        leaf_counts.append(np.array(tree.counts, float)[~is_inner])
    table, table_row = distinct_rows(np.concatenate(leaf_counts))  # row 0 is the zero vector: counts are not negative
    ends = np.cumsum([1, *map(len, leaf_nodes)])  # of the trees' leaves, which come after the zero vector
    for t, leaves in enumerate(leaf_nodes):
        code[t, leaves] = table_row[ends[t] : ends[t + 1]]
    frequencies = np.bincount(sample.label, minlength=sample.n_classes) / sample.n
    return Forest(
        trees=Trees(
            feature=jnp.asarray(feature),
            threshold=jnp.asarray(threshold),
            child=jnp.asarray(child),
            missing_right=jnp.zeros(child.shape, bool),
            tree_depth=jnp.asarray([tree.depth for tree in trees], jnp.int32),
            columns=sample.columns,
        ),
        count_table=padded_table(table),
        code=jnp.asarray(code),
        prior=jnp.asarray(frequencies, jnp.result_type(float)),
        n_samples=jnp.asarray(sample.n, jnp.result_type(float)),
        class_labels=sample.class_labels,
    )


def entropy_table(n: int) -> Int64[np.ndarray, " counts"]:
    r"""Return the integers :math:`F(i)\approx 2^b\, i\log_2 i` for i = 0 … n, with logarithms that add up exactly.

    .. math:: F(i) = i\sum_p v_p(i)\,\mathrm{round}(2^b\log_2 p)

    over the primes p, where v_p(i) is how often p divides i. So log(ab) = log a + log b holds to the last bit, and
    equal gains have equal sums of F. b is 40 up to n = 2¹⁷, and less beyond: F(n) stays below 2⁶², so that no
    difference of sums of F overflows.
    """
    if n > MOST_INSTANCES:
        raise ValueError(f"{n} instances are more than exact gains are made for (2**26); draw a sample of them.")
    # Tables by powers of two, so that few are kept; the places follow the size, as all counts of a set share one table.
    return _table(power_of_two(int(n), 64))[: n + 1]


def binary_places(n: int) -> int:
    """Return the number of binary places b of `entropy_table` for n instances.

    It is the largest that keeps the table's last entry F(n), about 2ᵇ n log₂ n, below 2⁶², and at most `MOST_BITS`.
    """
    return int(min(MOST_BITS, np.floor(62 - np.log2(n) - np.log2(np.log2(n)))))


@lru_cache(maxsize=4)
def _table(size: int) -> np.ndarray:
    """Return the entries 0 … ``size`` of `entropy_table`, in the binary places that suit ``size``; read-only."""
    places = binary_places(size)
    logs = np.zeros(size + 1, np.int64)
    is_composite = np.zeros(size + 1, bool)
    for p in range(2, int(size**0.5) + 1):
        if not is_composite[p]:
            is_composite[p * p :: p] = True
    primes = np.flatnonzero(~is_composite[2:]) + 2
    for p in primes:
        # Other numbers have sums of the primes' rounded logarithms: log p once for each power of p that divides them.
        log = int(np.rint(np.log2(float(p)) * 2.0**places))
        power = int(p)
        while power <= size:
            logs[power::power] += log
            power *= int(p)
    table = logs * np.arange(size + 1)
    table.flags.writeable = False
    return table

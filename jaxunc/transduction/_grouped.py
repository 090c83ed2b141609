"""Grouped algorithm: pairs that meet the same sample share its tables (on the host).

`descend_grouped` takes all samples of the largest size, and makes the tests of each (`_SampledNodes`). It sends the
pairs that wait at a sample on to the children that they choose. Nodes can be kept for later instances (`KeptNodes`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from ._grouped_tests import InsertedTests, LeftOutTests, NominalTests
from ._pairs import Pairs, Samples, WaitingSample, by_number
from ._presorted import Presorted, Queries
from ._scores import Change

MOST_VALUES = 2**18
"""Largest number of instances times features that choose their tests at a time, and of values in a batch of nodes."""

LEAST_KEPT, MOST_KEPT, TIMES_KEPT = 2**24, 2**28, 16
"""Bytes for nodes kept between calls: `TIMES_KEPT` times the bytes of the training set, within the other two bounds."""

FEW = 32
"""Largest sample for which sorting anew is quicker than filtering the order of its parent."""


def descend_grouped(pairs: Pairs, store: "KeptNodes | None" = None) -> None:
    """Follow all pairs down to their leaves, sample by sample, and record the leaves in ``pairs``.

    Nodes are taken from ``store``, and new ones are kept there for later calls. None: nothing is kept.
    """
    sample = pairs.sample
    samples = Samples(sample.n)
    store = KeptNodes(0) if store is None else store
    totals = np.bincount(pairs.label, minlength=sample.n_classes)
    all_pairs = np.arange(pairs.n)
    waits = pairs.end_at_leaves(totals, all_pairs)
    if waits.any():
        members = np.arange(sample.n, dtype=np.int32)
        samples.add(members, all_pairs[waits], lambda flags: store.find(flags) or sample.order)
    # Samples of one size cannot reach each other, so they are looked at together.
    while samples.largest:
        for nodes, node, waiting in _make_nodes(pairs, _take_largest(pairs, samples), store):
            _send_on(pairs, samples, nodes, node, waiting, store)
        pairs.report()


def _take_largest(pairs: Pairs, samples: Samples) -> list[WaitingSample]:
    """Remove samples of the largest size from the queue ``samples``, and return them.

    As many are removed as `MOST_VALUES` allows, but at least one. A sample's field ``kept`` is its node
    (`_NumberedNode`) if that was kept, else the result of `_SampledNodes.child_order`, which may be None.
    """
    sample = pairs.sample
    size = samples.largest
    batch = []
    # Values in the tables of one node.
    node_values = len(sample.numeric) * size + len(sample.nominal) * max(size, sample.n_codes * sample.n_classes)
    while samples.largest == size and len(batch) <= MOST_VALUES // node_values:
        batch.append(samples.take())
    return batch


def _make_nodes(
    pairs: Pairs, batch: list[WaitingSample], store: "KeptNodes"
) -> Iterator[tuple["_SampledNodes", Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]]:
    """Yield (nodes that share tables, number of each pair's node among these, numbers of the pairs that wait there).

    The nodes are those of a ``batch`` of samples of one size. New nodes are kept in ``store``.
    """
    nodes_waiting = [(sample.kept, sample.pairs) for sample in batch if isinstance(sample.kept, _NumberedNode)]
    new_samples = [sample for sample in batch if not isinstance(sample.kept, _NumberedNode)]
    if new_samples:
        members = np.stack([sample.members for sample in new_samples])
        orders = [sample.kept for sample in new_samples]
        # All have one size: either each has an order, or none does (`FEW`).
        order = _sort_members(pairs, members) if orders[0] is None else np.concatenate(orders)
        nodes = store.keep(_SampledNodes(pairs, order, members))
        nodes_waiting += [(_NumberedNode(nodes, i), sample.pairs) for i, sample in enumerate(new_samples)]
    # Kept nodes may come from several calls: those that share tables are one item.
    groups: dict[int, list[tuple[_NumberedNode, np.ndarray]]] = {}
    for node, waiting in nodes_waiting:
        groups.setdefault(id(node.nodes), []).append((node, waiting))
    for group in groups.values():
        numbered_nodes, pairs_of_nodes = zip(*group, strict=True)
        node_number = np.repeat([node.number for node in numbered_nodes], list(map(len, pairs_of_nodes)))
        yield numbered_nodes[0].nodes, node_number, np.concatenate(pairs_of_nodes)


def _sort_members(pairs: Pairs, members: Int[np.ndarray, "nodes size"]) -> Int[np.ndarray, "rows size"]:
    """Return the instances ``members`` of each node in ascending order of each numeric feature.

    The result has a row for each node and feature, node after node.
    """
    rank = pairs.sample.rank[:, members].swapaxes(0, 1)  # [nodes numeric size]
    position = np.argsort(rank, axis=2).reshape(-1, members.shape[1])
    node_of_row = np.arange(len(position)) // max(len(pairs.sample.rank), 1)
    return members[node_of_row, position.T].T


class _NumberedNode(NamedTuple):
    """One of the nodes that share tables."""

    nodes: "_SampledNodes"
    number: int  # position of the node among ``nodes``


class KeptNodes:
    """A cache of a training set's nodes, for later calls with instances that are not part of the set.

    It keeps nodes as they are made, the largest of a call first, as far as ``n_bytes`` allow. A copy or a pickle of it
    is empty.
    """

    def __init__(self, n_bytes: int):
        self._n_bytes = self._bytes_left = n_bytes
        self._nodes: dict[bytes, _NumberedNode] = {}

    @classmethod
    def of(cls, sample: Presorted) -> "KeptNodes":
        """Return an empty cache for the nodes of the training set ``sample``; a larger set gets more bytes."""
        n_bytes = sum(array.nbytes for array in (sample.value, sample.rank, sample.order, sample.code))
        return cls(min(max(TIMES_KEPT * n_bytes, LEAST_KEPT), MOST_KEPT))

    def find(self, flags: Bool[np.ndarray, " instances"]) -> _NumberedNode | None:
        """Return the kept node whose sample is the instances marked by ``flags``; None if there is none."""
        return self._nodes.get(np.packbits(flags).tobytes()) if self._nodes else None

    def keep(self, nodes: "_SampledNodes") -> "_SampledNodes":
        """Return ``nodes`` unchanged, and keep them for later calls if the cache has room for them."""
        if nodes.n_bytes <= self._bytes_left:
            self._bytes_left -= nodes.n_bytes
            for number, members in enumerate(nodes.members):
                flags = np.zeros(nodes.n_all, bool)
                flags[members] = True
                self._nodes[np.packbits(flags).tobytes()] = _NumberedNode(nodes, number)
        return nodes

    def __reduce__(self):
        return KeptNodes, (self._n_bytes,)


def _send_on(
    pairs: Pairs, samples: Samples, nodes: "_SampledNodes", node: np.ndarray, waiting: np.ndarray, store: KeptNodes
) -> None:
    """Send pairs from their nodes to the children that they choose; a pair ends if its node or its child is a leaf.

    ``waiting`` are the numbers of the pairs, and ``node`` has the number of each pair's node among ``nodes``. Samples
    of children are added to the queue ``samples``, with the nodes that ``store`` has of them.
    """
    choices = _choose_tests(pairs, nodes, node, waiting)
    pair = waiting[choices.position]
    # A node is a leaf for pairs without a test that has a gain.
    _, node_counts = pairs.with_instance(nodes.totals[node[choices.position]], pair)
    entropy = pairs.settings.entropy
    node_score = entropy[node_counts].sum(axis=1) - entropy[node_counts.sum(axis=1)]
    has_gain = choices.score > node_score
    pairs.end(pair[~has_gain], node_counts[~has_gain])
    with_gain = np.flatnonzero(has_gain)
    goes_on = pairs.end_at_leaves(choices.side_counts[with_gain], pair[with_gain])
    rows = with_gain[goes_on]  # of the choices whose pairs go on

    def kept_or_order(node_number, members, flags):
        """Return what `Samples.add` keeps for a child of the node ``node_number``: its kept node, or its order."""
        return store.find(flags) or nodes.child_order(node_number, members, flags)

    # Pairs that choose the same test and side meet in the same child, whatever their labels.
    for test, pairs_of_child in by_number(choices.test[rows], pair[rows]):
        node_number, members = nodes.child(test)
        samples.add(members, pairs_of_child, partial(kept_or_order, node_number, members))


class _TestChoices(NamedTuple):
    """The best test of each of some pairs, at the node where the pair waits."""

    position: Int[np.ndarray, " q"]  # position of the pair among those that wait
    score: Int64[np.ndarray, " q"]
    test: Int[np.ndarray, " q"]
    """The test, and the side on which the pair's instance lies, as one integer (`_SampledNodes.child` reads it)."""
    side_counts: Int[np.ndarray, "q classes"]
    """Class counts of the node's sample on that side."""


def _choose_tests(pairs: Pairs, nodes: "_SampledNodes", node: np.ndarray, waiting: np.ndarray) -> _TestChoices:
    """Return the test that each of the ``waiting`` pairs chooses at its node; arguments are those of `_send_on`."""
    # Pairs of one change share scores. They choose some at a time: a choice has an entry for every pair and feature.
    chunk_size = max(1, MOST_VALUES // pairs.sample.columns.number)
    chunks = []
    for change, positions in pairs.changes(waiting):
        scored_nodes, score_line = np.unique(node[positions], return_inverse=True)
        scores = nodes.scores(change, scored_nodes)
        for begin in range(0, len(positions), chunk_size):
            chunk = slice(begin, begin + chunk_size)
            position = positions[chunk]
            instance = waiting[position] // pairs.n_labels
            choice = nodes.choose(scores, score_line[chunk], node[position], pairs.queries, instance)
            chunks.append((position, *choice))
    return _TestChoices(*map(np.concatenate, zip(*chunks, strict=True)))


class _SampledNodes:
    """Nodes whose samples have the same size: their samples, class counts, and the tests that pairs choose among.

    ``members`` has the instances of each node, and ``order`` is the result of `_sort_members` for them.
    """

    def __init__(self, pairs: Pairs, order: Int[np.ndarray, "rows size"], members: Int[np.ndarray, "nodes size"]):
        sample = self._sample = pairs.sample
        self.order = order
        self.members = members
        settings = pairs.settings
        k = sample.n_classes
        cell = pairs.label[members] + k * np.arange(len(members))[:, None]  # of ``totals``, in the flattened array
        self.totals = np.bincount(cell.ravel(), minlength=k * len(members)).reshape(-1, k)  # [nodes classes]
        make_tests = LeftOutTests if pairs.leaves_out else InsertedTests
        self.numeric: Any = make_tests(sample, order, self.totals, settings)
        self.nominal = NominalTests(sample, members, self.totals, settings) if len(sample.nominal) else None
        # A test and a side are one integer, made of node, feature, cut or code, and side, so that sorting groups pairs.
        # The stride is the most of these numbers that a feature of a node has: two for each cut or code.
        self._stride = 2 * max(int(np.diff(self.numeric.cuts.start).max(initial=0)), sample.n_codes, 1)

    @property
    def n_all(self) -> int:
        """Number of instances in the training set."""
        return self._sample.n

    @property
    def n_bytes(self) -> int:
        """Number of bytes that the nodes and their tests take in a `KeptNodes`."""
        cuts = self.numeric.cuts
        counts_above, thresholds = cuts.below.nbytes, 8 * len(cuts.row)
        tables = sum(array.nbytes for array in (*cuts, self.order, self.members)) + counts_above + thresholds
        nominal_counts = 0 if self.nominal is None else 2 * self.nominal.inside.nbytes  # inside, and outside
        keys = len(self.members) * (self._sample.n // 8)  # a bit for each instance
        return tables + nominal_counts + keys

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]):
        """Return (scores of the numeric tests, scores of the nominal tests) of some nodes under a change.

        ``nodes`` are numbers of nodes. The second entry is None if no feature is nominal.
        """
        numeric_scores = self.numeric.scores(change, nodes)
        nominal_scores = None if self.nominal is None else self.nominal.scores(change, nodes)
        return numeric_scores, nominal_scores

    def choose(
        self, scores, line: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"], queries: Queries, instances: np.ndarray
    ) -> tuple[Int64[np.ndarray, " q"], Int[np.ndarray, " q"], Int[np.ndarray, "q classes"]]:
        """Return, for each of q instances, the best test at its node, as in `_TestChoices`: (score, test, side counts).

        ``instances`` are positions in ``queries``, and ``node`` has the node of each. ``scores`` is a result of the
        method `scores`, and ``line`` the position of each instance's node among the nodes that were scored.
        """
        sample = self._sample
        cuts = self.numeric.cuts
        numeric = self.numeric.choose(scores[0], self.numeric.locate(queries, instances, node), line)
        nominal = None
        score = numeric.score
        if self.nominal is not None:
            nominal = self.nominal.choose(scores[1], line, queries.code[instances])
            # In the order of the data's columns, so that the first feature wins ties.
            score = np.empty((len(line), sample.columns.number), np.int64)
            score[:, sample.numeric] = numeric.score
            score[:, sample.nominal] = nominal.score
        feature = score.argmax(axis=1)
        best_score = score[np.arange(len(line)), feature]
        is_nominal = np.asarray(sample.columns.is_nominal)[feature]
        threshold = np.zeros(len(line), np.intp)  # the cut's position, or the tested code
        side = np.zeros(len(line), bool)  # whether the instance is above the cut, or has another code
        counts = np.empty((sample.n_classes, len(line)), np.intp)  # below the cut, or with the code: of side False
        if len(rows := np.flatnonzero(~is_nominal)):
            feature_row = np.searchsorted(sample.numeric, feature[rows])  # position among the numeric features
            threshold[rows] = numeric.cut(rows, feature_row)
            side[rows] = numeric.is_above[rows, feature_row]
            cut = cuts.start[node[rows] * len(sample.numeric) + feature_row] + threshold[rows]
            # Where no test is left there is no cut: the pair ends at its node, whatever is read here.
            counts[:, rows] = cuts.below[:, np.minimum(cut, len(cuts.row) - 1)] if len(cuts.row) else 0
        if self.nominal is not None and nominal is not None and len(rows := np.flatnonzero(is_nominal)):
            feature_row = np.searchsorted(sample.nominal, feature[rows])
            threshold[rows] = nominal.code[rows, feature_row]
            side[rows] = nominal.is_other[rows, feature_row]
            counts[:, rows] = self.nominal.inside[:, node[rows] * len(sample.nominal) + feature_row, threshold[rows]]
        test = (node * sample.columns.number + feature) * self._stride + 2 * threshold + side
        return best_score, test, np.where(side[:, None], self.totals[node] - counts.T, counts.T)

    def child(self, test: int) -> tuple[int, Int[np.ndarray, " chosen"]]:
        """Return (number of a node, the instances that form its child) for a ``test`` of the node and one side of it.

        The integer ``test``, which `choose` returns, holds the node, the feature, the cut or code, and the side.
        """
        sample = self._sample
        node_and_feature, threshold_and_side = divmod(test, self._stride)
        node, feature = divmod(node_and_feature, sample.columns.number)
        threshold, side = divmod(threshold_and_side, 2)
        if sample.columns.is_nominal[feature]:
            row = int(np.searchsorted(sample.nominal, feature))
            members = self.members[node]
            return node, members[(sample.code[row, members] != threshold) == side]  # side 1: other codes
        row = node * len(sample.numeric) + int(np.searchsorted(sample.numeric, feature))
        size = self.numeric.cuts.size[self.numeric.cuts.start[row] + threshold]
        # The instances below a cut are the first of the feature's order: no comparison is needed.
        return node, self.order[row, size:] if side else self.order[row, :size]

    def child_order(
        self, node: int, chosen: Int[np.ndarray, " chosen"], flags: Bool[np.ndarray, " instances"]
    ) -> Int[np.ndarray, "numeric chosen"] | None:
        """Return the instances of a child in ascending order of each numeric feature; None for up to `FEW` instances.

        ``node`` is the parent's number, and ``chosen`` are the child's instances, which ``flags`` marks among all. The
        child's order is filtered from the parent's; `_sort_members` sorts the smaller children later.
        """
        if len(chosen) <= FEW:
            return None
        n_numeric = len(self._sample.numeric)
        order = self.order[node * n_numeric : (node + 1) * n_numeric]
        # Each row keeps the child's instances, in its order. Faster than a mask as the index.
        return order.ravel()[np.flatnonzero(flags[order])].reshape(n_numeric, len(chosen))

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
    """Follow all pairs down to their leaves, sample by sample; ``store`` keeps nodes between calls."""
    sample, samples = pairs.sample, Samples(pairs.sample.n)
    store = KeptNodes(0) if store is None else store
    totals, all_pairs = np.bincount(pairs.label, minlength=sample.n_classes), np.arange(pairs.n)
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
    """Take samples of the largest size off the queue: as many as `MOST_VALUES` allows, but at least one.

    What each has kept is its kept node (`_NumberedNode`) if there is one, else its order by `child_order`, or None.
    """
    sample, size, batch = pairs.sample, samples.largest, []
    sample_values = len(sample.numeric) * size + len(sample.nominal) * max(size, sample.n_codes * sample.n_classes)
    while samples.largest == size and len(batch) <= MOST_VALUES // sample_values:
        batch.append(samples.take())
    return batch


def _make_nodes(
    pairs: Pairs, batch: list[WaitingSample], store: "KeptNodes"
) -> Iterator[tuple["_SampledNodes", Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]]:
    """Yield the nodes of a batch of samples of one size: (nodes that share tables, each pair's node number, pairs).

    Samples without a kept node become nodes that share tables, and are kept in ``store``.
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
    # Kept nodes come from several calls: those of one table are looked at together.
    groups: dict[int, list[tuple[_NumberedNode, np.ndarray]]] = {}
    for node, waiting in nodes_waiting:
        groups.setdefault(id(node.nodes), []).append((node, waiting))
    for group in groups.values():
        node_number = np.repeat([node.number for node, _ in group], [len(waiting) for _, waiting in group])
        yield group[0][0].nodes, node_number, np.concatenate([waiting for _, waiting in group])


def _sort_members(pairs: Pairs, members: Int[np.ndarray, "nodes size"]) -> Int[np.ndarray, "rows size"]:
    """Return the instances of each node (``members``) in the order of each numeric feature, node after node."""
    rank = pairs.sample.rank[:, members].swapaxes(0, 1)  # [nodes numeric size]
    position = np.argsort(rank, axis=2).reshape(-1, members.shape[1])
    return members[np.arange(len(position)) // max(len(pairs.sample.rank), 1), position.T].T


class _NumberedNode(NamedTuple):
    """A node among nodes of the same size, by its number."""

    nodes: "_SampledNodes"
    number: int


class KeptNodes:
    """A cache of a training set's nodes, for instances that are not part of the set.

    Nodes are kept in the order in which they are met, the largest of a call first, up to ``n_bytes``. A copy or pickle
    is empty.
    """

    def __init__(self, n_bytes: int):
        self._n_bytes = self._bytes_left = n_bytes
        self._nodes: dict[bytes, _NumberedNode] = {}

    @classmethod
    def of(cls, sample: Presorted) -> "KeptNodes":
        """Make a store whose size fits that of a training set."""
        n_bytes = sum(array.nbytes for array in (sample.value, sample.rank, sample.order, sample.code))
        return cls(min(max(TIMES_KEPT * n_bytes, LEAST_KEPT), MOST_KEPT))

    def find(self, flags: Bool[np.ndarray, " instances"]) -> _NumberedNode | None:
        """Return the kept node of a sample, marked by ``flags``; None if there is none."""
        return self._nodes.get(np.packbits(flags).tobytes()) if self._nodes else None

    def keep(self, nodes: "_SampledNodes") -> "_SampledNodes":
        """Return the nodes unchanged; keep them for later calls if their bytes still fit."""
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
    """Send pairs from their nodes to the children that they choose; a pair ends at its node if no test has a gain.

    ``waiting`` are the numbers of the pairs, ``node`` the number of each one's node among ``nodes``. The children's
    samples are added to ``samples``; those whose nodes are in ``store`` take them from there.
    """
    # Pairs choose some at a time: the matrices of a choice have an entry for every pair and feature.
    chunk_size, entropy = max(1, MOST_VALUES // pairs.sample.columns.number), pairs.settings.entropy
    picks = []
    for change, changed in pairs.changes(waiting):
        scored_nodes, score_line = np.unique(node[changed], return_inverse=True)
        scores = nodes.scores(change, scored_nodes)
        for begin in range(0, len(changed), chunk_size):
            rows, lines = changed[begin : begin + chunk_size], score_line[begin : begin + chunk_size]
            picks.append(
                (rows, *nodes.choose(scores, lines, node[rows], pairs.queries, waiting[rows] // pairs.n_labels))
            )
    rows, best_score, test, totals = (np.concatenate(parts) for parts in zip(*picks, strict=True))
    waiting = waiting[rows]
    _, counts = pairs.with_instance(nodes.totals[node[rows]], waiting)
    stays = best_score <= entropy[counts].sum(axis=1) - entropy[counts.sum(axis=1)]  # no test has a gain
    pairs.end(waiting[stays], counts[stays])
    goes = ~stays
    goes[goes] = pairs.end_at_leaves(totals[goes], waiting[goes])

    def kept_or_order(number, chosen, flags):
        return store.find(flags) or nodes.child_order(number, chosen, flags)

    # Pairs of all changes that choose the same test and side meet in the same child.
    for test_number, arriving in by_number(test[goes], waiting[goes]):
        node_number, chosen = nodes.child(test_number)
        samples.add(chosen, arriving, partial(kept_or_order, node_number, chosen))


class _SampledNodes:
    """Some nodes whose samples have the same size: the samples, their class counts, and the tests to choose among."""

    def __init__(self, pairs: Pairs, order: Int[np.ndarray, "rows size"], members: Int[np.ndarray, "nodes size"]):
        self._sample, self.order, self.members = pairs.sample, order, members
        sample, settings, k = pairs.sample, pairs.settings, pairs.sample.n_classes
        cell = pairs.label[members] + k * np.arange(len(members))[:, None]
        self.totals = np.bincount(cell.ravel(), minlength=k * len(members)).reshape(-1, k)
        self.numeric: Any = (LeftOutTests if pairs.leaves_out else InsertedTests)(sample, order, self.totals, settings)
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
        """Number of bytes that the nodes take."""
        cuts = self.numeric.cuts
        tables = sum(array.nbytes for array in (*cuts, self.order, self.members)) + cuts.below.nbytes
        cells = 0 if self.nominal is None else 2 * self.nominal.inside.nbytes
        return tables + 8 * len(cuts.row) + cells + len(self.members) * (self._sample.n // 8)

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]):
        """Return the scores of the numeric and of the nominal tests (None without any) of nodes under a change."""
        return self.numeric.scores(change, nodes), None if self.nominal is None else self.nominal.scores(change, nodes)

    def choose(
        self, scores, line: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"], queries: Queries, instances: np.ndarray
    ) -> tuple[Int64[np.ndarray, " q"], Int[np.ndarray, " q"], Int[np.ndarray, "q classes"]]:
        """Return for each instance the best test's score, the test and the instance's side as a number, and counts.

        The counts are those of the classes on that side. ``instances`` are q positions in ``queries``, and ``node`` is
        the node of each. ``line`` is the node's position among the nodes whose ``scores``, the result of the method
        `scores`, are passed.
        """
        sample, cuts = self._sample, self.numeric.cuts
        numeric = self.numeric.choose(scores[0], self.numeric.locate(queries, instances, node), line)
        score, nominal = numeric.score, None
        if self.nominal is not None:
            nominal = self.nominal.choose(scores[1], line, queries.code[instances])
            score = np.empty((len(line), sample.columns.number), np.int64)
            score[:, sample.numeric], score[:, sample.nominal] = numeric.score, nominal.score
        # In the order of the data's columns, so that the first feature wins ties.
        feature = score.argmax(axis=1)
        best_score = score[np.arange(len(line)), feature]
        # The cut's position or the tested code; whether the instance is above the cut, or has another code; and the
        # class counts below the cut, or with the code.
        threshold, side = np.zeros(len(line), np.intp), np.zeros(len(line), bool)
        counts = np.empty((sample.n_classes, len(line)), np.intp)
        is_nominal = np.asarray(sample.columns.is_nominal)[feature]
        if len(rows := np.flatnonzero(~is_nominal)):
            feature_row = np.searchsorted(sample.numeric, feature[rows])
            threshold[rows], side[rows] = numeric.cut(rows, feature_row), numeric.is_above[rows, feature_row]
            cut = cuts.start[node[rows] * len(sample.numeric) + feature_row] + threshold[rows]
            # Where no test is left there is no cut: the pair stays, whatever is read here.
            counts[:, rows] = cuts.below[:, np.minimum(cut, len(cuts.row) - 1)] if len(cuts.row) else 0
        if self.nominal is not None and nominal is not None and len(rows := np.flatnonzero(is_nominal)):
            feature_row = np.searchsorted(sample.nominal, feature[rows])
            threshold[rows], side[rows] = nominal.code[rows, feature_row], nominal.is_other[rows, feature_row]
            counts[:, rows] = self.nominal.inside[:, node[rows] * len(sample.nominal) + feature_row, threshold[rows]]
        test = (node * sample.columns.number + feature) * self._stride + 2 * threshold + side
        return best_score, test, np.where(side[:, None], self.totals[node] - counts.T, counts.T)

    def child(self, test: int) -> tuple[int, Int[np.ndarray, " chosen"]]:
        """Return the node at which a test is asked, and the instances of its sample on one side of the test.

        ``test`` is a number that `choose` returns: node, feature, cut or code, and side in one integer.
        """
        sample = self._sample
        node_and_feature, threshold_and_side = divmod(test, self._stride)
        node, feature = divmod(node_and_feature, sample.columns.number)
        threshold, side = divmod(threshold_and_side, 2)
        if sample.columns.is_nominal[feature]:
            row, members = int(np.searchsorted(sample.nominal, feature)), self.members[node]
            return node, members[(sample.code[row, members] != threshold) == side]
        row = node * len(sample.numeric) + int(np.searchsorted(sample.numeric, feature))
        size = self.numeric.cuts.size[self.numeric.cuts.start[row] + threshold]
        # The instances below a cut are the first of the feature's order: no comparison is needed.
        return node, self.order[row, size:] if side else self.order[row, :size]

    def child_order(
        self, node: int, chosen: Int[np.ndarray, " chosen"], flags: Bool[np.ndarray, " instances"]
    ) -> Int[np.ndarray, "numeric chosen"] | None:
        """Return the chosen instances of a node in the order of each numeric feature; None for up to `FEW`.

        The order is filtered from the node's order; ``flags`` marks the chosen instances among all. Small children are
        sorted anew later, all of one size together.
        """
        if len(chosen) <= FEW:
            return None
        n_numeric = len(self._sample.numeric)
        order = self.order[node * n_numeric : (node + 1) * n_numeric]
        # Faster than a mask as the index.
        return order.ravel()[np.flatnonzero(flags[order])].reshape(n_numeric, len(chosen))

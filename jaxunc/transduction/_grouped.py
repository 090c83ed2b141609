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
from ._pairs import Pairs, Samples, by_number
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
    totals, everything = np.bincount(pairs.label, minlength=sample.n_classes), np.arange(pairs.n)
    waits = pairs.end_at_leaves(totals, everything)
    if waits.any():
        members = np.arange(sample.n, dtype=np.int32)
        samples.add(members, everything[waits], lambda flags: store.find(flags) or sample.order)
    # Samples of one size cannot reach each other, so they are looked at together.
    while samples.largest:
        for nodes, node, waiting in _nodes_of(pairs, _take_largest(pairs, samples), store):
            _send_on(pairs, samples, nodes, node, waiting, store)
        pairs.report()


def _take_largest(pairs: Pairs, samples: Samples) -> list[tuple[np.ndarray, Any, np.ndarray]]:
    """Return samples of the largest size, taken off the queue (`Samples.take`).

    They are as many as `MOST_VALUES` allows, but at least one.
    """
    sample, size, batch = pairs.sample, samples.largest, []
    values = len(sample.numeric) * size + len(sample.nominal) * max(size, sample.n_codes * sample.n_classes)
    while samples.largest == size and len(batch) <= MOST_VALUES // values:
        batch.append(samples.take())
    return batch


def _nodes_of(
    pairs: Pairs, batch: list[tuple[np.ndarray, Any, np.ndarray]], store: "KeptNodes"
) -> Iterator[tuple["_SampledNodes", np.ndarray, np.ndarray]]:
    """Yield (nodes that share tables, the number of the node of each waiting pair among them, these pairs).

    ``batch`` has for each sample its instances, its kept node or else its order (`child_order`), and the waiting pairs.
    The samples without a kept node become nodes that share tables, and are kept in ``store``.
    """
    numbered = [(node, waiting) for _, node, waiting in batch if isinstance(node, _NumberedNode)]
    new = [entry for entry in batch if not isinstance(entry[1], _NumberedNode)]
    if new:
        chosen, orders, waiting_pairs = zip(*new, strict=True)
        members = np.stack(chosen)
        order = _sort_members(pairs, members) if orders[0] is None else np.concatenate(orders)
        nodes = store.keep(_SampledNodes(pairs, order, members))
        numbered += [(_NumberedNode(nodes, i), waiting) for i, waiting in enumerate(waiting_pairs)]
    groups: dict[int, list[tuple[_NumberedNode, np.ndarray]]] = {}
    for node, waiting in numbered:
        groups.setdefault(id(node.nodes), []).append((node, waiting))
    for group in groups.values():
        number = np.repeat([node.number for node, _ in group], [len(waiting) for _, waiting in group])
        yield group[0][0].nodes, number, np.concatenate([waiting for _, waiting in group])


def _sort_members(pairs: Pairs, members: Int[np.ndarray, "nodes size"]) -> Int[np.ndarray, "rows size"]:
    """Return the instances of each node (``members``) in the order of each numeric feature, node after node."""
    rank = pairs.sample.rank[:, members].swapaxes(0, 1)
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
    """Send pairs on from nodes to the children that they choose; a pair ends at its node if no test has a gain.

    ``waiting`` are the numbers of the pairs, ``node`` the number of each one's node among ``nodes``. The children's
    samples are added to ``samples``; those whose nodes are in ``store`` take them from there.
    """
    # Pairs choose in parts: the matrices of a choice have an entry for every pair and feature.
    part_size, entropy = max(1, MOST_VALUES // pairs.sample.columns.number), pairs.settings.entropy
    parts = []
    for change, which in pairs.changes(waiting):
        some_nodes, line = np.unique(node[which], return_inverse=True)
        scores = nodes.scores(change, some_nodes)
        for begin in range(0, len(which), part_size):
            at, lines = which[begin : begin + part_size], line[begin : begin + part_size]
            parts.append((at, *nodes.choose(scores, lines, node[at], pairs.queries, waiting[at] // pairs.n_labels)))
    at, gain, test, totals = (np.concatenate(part) for part in zip(*parts, strict=True))
    waiting = waiting[at]
    _, counts = pairs.with_instance(nodes.totals[node[at]], waiting)
    stays = gain <= entropy[counts].sum(axis=1) - entropy[counts.sum(axis=1)]
    pairs.end(waiting[stays], counts[stays])
    goes = ~stays
    goes[goes] = pairs.end_at_leaves(totals[goes], waiting[goes])

    def wait(number, chosen, flags):
        return store.find(flags) or nodes.child_order(number, chosen, flags)

    # Pairs of all changes that choose the same test and side meet in the same child.
    for test_number, some in by_number(test[goes], waiting[goes]):
        number, chosen = nodes.child(test_number)
        samples.add(chosen, some, partial(wait, number, chosen))


class _SampledNodes:
    """Some nodes whose samples have the same size: the samples, their class counts, and the tests to choose among."""

    def __init__(self, pairs: Pairs, order: Int[np.ndarray, "rows size"], members: Int[np.ndarray, "nodes size"]):
        self._sample, self.order, self.members = pairs.sample, order, members
        sample, settings, k = pairs.sample, pairs.settings, pairs.sample.n_classes
        cell = pairs.label[members] + k * np.arange(len(members))[:, None]
        self.totals = np.bincount(cell.ravel(), minlength=k * len(members)).reshape(-1, k)
        self.numeric: Any = (LeftOutTests if pairs.leaves_out else InsertedTests)(sample, order, self.totals, settings)
        self.nominal = NominalTests(sample, members, self.totals, settings) if len(sample.nominal) else None
        # A test and its side are one integer, of node, feature, cut or code, and side, so that sorting groups pairs.
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
        """Return the scores of the numeric and of the nominal tests of some nodes under a change."""
        return self.numeric.scores(change, nodes), None if self.nominal is None else self.nominal.scores(change, nodes)

    def choose(
        self, scores, line: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"], queries: Queries, instances: np.ndarray
    ) -> tuple[Int64[np.ndarray, " q"], Int[np.ndarray, " q"], Int[np.ndarray, "q classes"]]:
        """Return for each instance the best test's score, its number with the instance's side, and that side's counts.

        The counts are those of classes. ``instances`` are q positions in ``queries``, and ``node`` is the node of each.
        ``line`` is the node's position among the nodes whose ``scores`` (what that method returns) are passed.
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
        best = score[np.arange(len(line)), feature]
        # The cut's position or the tested code; whether the instance is above the cut, or has another code; and the
        # class counts below the cut, or with the code.
        threshold, side = np.zeros(len(line), np.intp), np.zeros(len(line), bool)
        counts = np.empty((sample.n_classes, len(line)), np.intp)
        is_nominal = np.asarray(sample.columns.is_nominal)[feature]
        if len(which := np.flatnonzero(~is_nominal)):
            row = np.searchsorted(sample.numeric, feature[which])
            threshold[which], side[which] = numeric.cut(which, row), numeric.is_above[which, row]
            cut = cuts.start[node[which] * len(sample.numeric) + row] + threshold[which]
            # Where no test is left there is no cut: the pair stays, whatever is read here.
            counts[:, which] = cuts.below[:, np.minimum(cut, len(cuts.row) - 1)] if len(cuts.row) else 0
        if self.nominal is not None and nominal is not None and len(which := np.flatnonzero(is_nominal)):
            row = np.searchsorted(sample.nominal, feature[which])
            threshold[which], side[which] = nominal.code[which, row], nominal.is_other[which, row]
            counts[:, which] = self.nominal.inside[:, node[which] * len(sample.nominal) + row, threshold[which]]
        test = (node * sample.columns.number + feature) * self._stride + 2 * threshold + side
        return best, test, np.where(side[:, None], self.totals[node] - counts.T, counts.T)

    def child(self, test: int) -> tuple[int, Int[np.ndarray, " chosen"]]:
        """Return the node of a numbered test, and the instances on the side that the number tells."""
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

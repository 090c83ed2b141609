"""The training rows behind an answer, with their weights in it.

A leaf is a list of rows, each with its share of what the leaf counts: together a sparse matrix P ``[leaves rows]``. A
query is a row of Z ``[queries leaves]``, with a one for the leaf that it reaches in each tree. The weights of T trees
are Z P / T. The lengths of the lists tell how much memory a block of queries takes, before it is computed.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxunc._checks import check_integer, check_one_of
from jaxunc._numerics import default_platform, jit
from jaxunc.counting import mask_by_group, rows_together
from jaxunc.inference import (
    Plan,
    answer_on_device,
    block_size,
    column_keys,
    in_blocks,
    known_plan,
    leaf_index,
    unrolled_depth,
    walk_levels,
)
from jaxunc.tables import Encoded, InstancesLike, LabelsLike, NumbersLike, encode_rows, is_pandas, unchecked_rows

from ._leaf_rows import RowCounts, check_is_mean, check_on_host, contents_of, unwrap_model

KINDS = ("prediction", "out_of_bag", "leaves")
PAIRS = 3_000_000
"""Number of pairs of a query and a row of one of its leaves that are merged at a time; a single query may have more."""
QUERIES = 8192
"""Number of queries whose leaves are held at a time."""
MOST_BYTES = 2 * 10**9
"""Size up to which all weights are handed out at once."""
DENSE = 4
"""A query with at least 1/`DENSE` as many pairs as there are rows adds its weights in an array of all rows."""
GROUPS = 32
"""Number of values in a group: `_largest` takes the largest value of each group first."""
EQUAL = 2.0**40
"""Weights are rounded to 1 / `EQUAL` before they are compared, so that equal sums in another order are ties."""
DEVICE_SUMS = 2**25
"""Number of sums, one for each query and row, that an accelerator holds at a time."""
FEW = 16
"""Least number of queries in an accelerator's call."""
TREES = 8
"""Number of trees that an accelerator adds in one pass over the sums."""


class Neighbours(NamedTuple):
    """The rows of largest weight for each query, in descending order; of equal weights the lower position first."""

    index: np.ndarray
    """Positions of the rows, int32 ``[queries k]``; -1 where there are no more."""
    weight: np.ndarray
    """Their weights, float64 ``[queries k]``; 0 where there are no more."""
    total: np.ndarray
    """The sum of all rows' weights ``[queries]``: 1, less where leaves are empty, NaN where no tree counts. For the
    kind ``"leaves"`` it is the sum of the shares of trees."""
    effective: np.ndarray
    """The effective number of rows behind the answer, total² / Σ w² ``[queries]``; NaN if no row has weight."""
    ids: np.ndarray | None
    """The rows' labels in the index of their pandas frame, objects ``[queries k]``; an entry is None where there are no
    more rows, and the field is None without a frame."""


class NeighbourIndex:
    r"""The rows of every leaf of a fitted model, for repeated queries; the function `neighbours` asks it once.

    Let :math:`c_{jt}` be what row j counts in tree t, and :math:`L_t(x)` the leaf of x. A query gives row j the weight

    .. math:: w_j(x) = \frac1T \sum_t \frac{c_{jt}\,[L_t(j) = L_t(x)]}{\sum_i c_{it}\,[L_t(i) = L_t(x)]}

    Parameters
    ----------
    model, rows, kind, y, sample_weight, groups
        As for `neighbours`.

    Raises
    ------
    ValueError, TypeError
        As `neighbours` does.

    Notes
    -----
    Takes 12 bytes for each row in the bag of each tree. An accelerator holds 8 bytes for each row and tree, too.
    """

    def __init__(
        self,
        model: Any,
        rows: InstancesLike,
        *,
        kind: str = "prediction",
        y: LabelsLike | None = None,
        sample_weight: NumbersLike | None = None,
        groups: LabelsLike | None = None,
    ):
        check_on_host(rows)
        check_one_of("kind", kind, KINDS)
        if groups is not None and kind != "out_of_bag":
            raise ValueError(f"groups are together out of a bag, and kind={kind!r} asks all trees; leave groups out.")
        if kind == "leaves" and not (y is None and sample_weight is None):
            raise ValueError("kind='leaves' counts trees in which rows meet; leave y and sample_weight out.")
        forest, self._read = unwrap_model(model)
        contents = contents_of(forest)
        self._trees = contents.trees
        self.kind: str = kind
        if kind != "leaves":
            check_is_mean(forest, contents, kind)
        model_rows = self._read(rows)
        encoded = encode_rows(model_rows, self._trees.columns, "rows")
        self.n_rows: int = (n := len(encoded.values))
        if n == 0:
            raise ValueError("rows is empty; pass the rows that the model was grown on.")
        frame: Any = rows
        self._ids = frame.index.to_numpy(dtype=object) if is_pandas(rows) else None
        counts = None
        if kind != "leaves":
            counts = RowCounts(forest, contents, model_rows, n, y=y, sample_weight=sample_weight)
        self._row_leaves = self._leaves(encoded)
        self._lists: Any = self._make_lists(self._row_leaves, counts)
        if counts is not None and kind == "out_of_bag":
            # Copies are rows of equal values, and with y of equal labels.
            position = np.zeros(n, int) if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
            group_numbers = rows_together(encoded.values, position, groups, weight=sample_weight)
            has_not_seen = mask_by_group(counts.out_of_bag(), group_numbers)
            self._row_leaves = np.where(has_not_seen, self._row_leaves, -1)

    def neighbours(self, X: InstancesLike | None = None, k: int = 10) -> Neighbours:
        """Return the `Neighbours` of each query: its ``k`` rows of largest weight. ``X`` is as for `neighbours`.

        Raises a ValueError if ``k`` is more than the number of rows, or X does not fit.
        """
        check_integer("k", k, 1, ": the number of rows for each query")
        if k > self.n_rows:
            raise ValueError(f"k={k}, and there are {self.n_rows} rows; pass k={self.n_rows} at most.")
        if default_platform() == "cpu":
            blocks = [self._nearest(leaves, k) for leaves in self._chunks(X)]
        else:
            blocks = [self._nearest_on_device(X, k)]
        index, weight, total, effective = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        ids: Any = None if self._ids is None else self._ids[index]
        if ids is not None:
            ids[index < 0] = None
        return Neighbours(index, weight, total, effective, ids)

    def weights(self, X: InstancesLike | None = None) -> Any:
        """Return the weights of all rows as a sparse matrix.

        Parameters
        ----------
        X
            As for the function `neighbours`.

        Returns
        -------
        scipy.sparse.csr_array
            Weights ``[queries rows]``, float64.

        Raises
        ------
        ValueError
            If the weights may take more than 2 GB. The message names their size; nothing is computed before.
        """
        from scipy.sparse import vstack  # slow to import

        leaves = np.concatenate(list(self._chunks(X)))
        pairs = self._lengths(leaves).sum(axis=1)
        size = 12 * int(np.minimum(pairs, self.n_rows).sum())  # bytes: an entry is a float64 and an int32
        if size > MOST_BYTES:
            raise ValueError(
                f"the weights of {len(leaves)} queries for {self.n_rows} rows take up to {size / 1e9:.1f} GB, and 2 GB "
                f"are the most; ask for {int(len(leaves) * MOST_BYTES / size)} queries at a time, or for the largest "
                "by neighbours(…, k=10)."
            )
        weights: Any = vstack([block for _, block in self._blocks(leaves, pairs)] or [self._sums(leaves)], format="csr")
        weights.data /= np.repeat((leaves >= 0).sum(axis=1), np.diff(weights.indptr))
        return weights

    def means(self, values: np.ndarray, X: InstancesLike | None = None) -> np.ndarray:
        """Return for each query the means ``[queries columns]`` of ``values [rows columns]``, by the rows' weights.

        ``X`` is as for `neighbours`. The means are NaN where no tree counts.
        """
        means = []
        for leaves in self._chunks(X):
            sums = np.zeros((len(leaves), values.shape[1]))
            for queries, block in self._blocks(leaves, self._lengths(leaves).sum(axis=1)):
                sums[queries] = block @ values
            means.append(sums / _number_of_trees(leaves)[:, None])
        return np.concatenate(means)

    def _mean_and_spread(self, values: np.ndarray) -> np.ndarray:
        """Return for each row the weighted mean and standard deviation of its neighbours' ``values``, ``[2 rows]``.

        ``values`` are ``[rows]``. Both are NaN where no tree counts.
        """
        moments = []
        for leaves in self._chunks(X=None):
            n_trees = _number_of_trees(leaves)
            for queries, block in self._blocks(leaves, self._lengths(leaves).sum(axis=1)):
                mean = block @ values / n_trees[queries]
                # Squares of differences from the mean keep their digits far from 0.
                block.data *= (values[block.indices] - np.repeat(mean, np.diff(block.indptr))) ** 2
                moments.append(np.stack([mean, np.sqrt(block.sum(axis=1) / n_trees[queries])]))
        return np.concatenate(moments, axis=1)

    def _leaves(self, encoded: Encoded) -> np.ndarray:
        """Return each encoded row's leaf in each tree, int32 ``[rows trees]``: t · nodes + i for node i of tree t."""
        first_node = np.arange(self._trees.n_trees, dtype=np.int32) * np.int32(self._trees.n_nodes)
        return np.asarray(leaf_index(self._trees, encoded)) + first_node

    def _chunks(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the `_leaves` of `QUERIES` queries at a time, ``[queries trees]``; -1 where a tree does not count.

        ``X`` has the queries; None for the training rows. Out of bag a tree counts for the rows that it has not seen.
        """
        if X is None:
            for start in range(0, self.n_rows, QUERIES):
                yield self._row_leaves[start : start + QUERIES]
            return
        values, missing = encode_rows(self._read_queries(X), self._trees.columns)
        for start in range(0, max(len(values), 1), QUERIES):  # without queries an empty chunk
            yield self._leaves(Encoded(values[start : start + QUERIES], missing))

    def _read_queries(self, X: Any) -> Any:
        """Return the queries ``X`` as the trees read them.

        Raises a ValueError for the kind "out_of_bag", whose queries are the rows, and a TypeError if X is traced.
        """
        if self.kind == "out_of_bag":
            raise ValueError("kind='out_of_bag' asks about the rows themselves; leave X out, or take 'prediction'.")
        check_on_host(X)
        return self._read(X)

    def _make_lists(self, leaves: np.ndarray, counts: RowCounts | None) -> Any:
        """Return the share that each row has in each leaf, as a sparse matrix ``[nodes rows]`` over all trees' nodes.

        A row's share is what it counts by ``counts``, over what all rows of the leaf count. For the kind "leaves" it is
        1, and ``counts`` is None. ``leaves [rows trees]`` are the rows' `_leaves`.
        """
        from scipy.sparse import csr_array  # slow to import

        shape = self._trees.n_trees * self._trees.n_nodes, len(leaves)
        # SciPy keeps rows in the type of ends; as int32 they take half of the memory.
        ends = np.zeros(shape[0] + 1, np.int32 if leaves.size < 2**31 else np.int64)
        rows, shares = [], []
        # Lengths go to a view of ``ends``, whose running sum then makes ends of them.
        lengths = ends[1:].reshape(self._trees.n_trees, -1)
        for t in range(self._trees.n_trees):
            lengths[t], row, share = self._lists_of_tree(t, leaves[:, t], counts)
            rows.append(row)
            shares.append(share)
        np.cumsum(ends, dtype=ends.dtype, out=ends)
        return csr_array((np.concatenate(shares), np.concatenate(rows), ends), shape=shape)

    def _lists_of_tree(
        self, t: int, leaf: np.ndarray, counts: RowCounts | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `_make_lists` needs of tree ``t``: how many rows each node has, these rows, and their shares.

        Rows and shares are listed node after node. ``leaf [rows]`` is each row's leaf, numbered over all trees' nodes;
        ``counts`` is as for `_make_lists`.
        """
        n_nodes = self._trees.n_nodes
        leaf = leaf - t * n_nodes  # numbered within the tree
        row_count = np.ones(len(leaf)) if counts is None else counts(t, leaf)
        row = np.flatnonzero(row_count > 0)
        row = row[np.argsort(leaf[row], kind="stable")].astype(np.int32)
        share = row_count[row]
        if self.kind != "leaves":
            share = share / np.bincount(leaf, row_count, n_nodes)[leaf[row]]
        return np.bincount(leaf[row], minlength=n_nodes), row, share

    def _lengths(self, leaves: np.ndarray) -> np.ndarray:
        """Return how many rows are in each leaf of ``leaves [queries trees]``, in its shape; 0 where the leaf is -1."""
        ends = self._lists.indptr
        return np.where(leaves < 0, 0, ends[leaves + 1] - ends[leaves])

    def _blocks(self, leaves: np.ndarray, pairs: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the queries, each with the `_sums` of its queries.

        ``leaves [queries trees]`` are as `_chunks` yields them, and ``pairs [queries]`` is the number of rows in each
        query's leaves. A slice has at most `PAIRS` pairs, or a single query.
        """
        pairs_up_to = np.cumsum(pairs)
        start = 0
        while start < len(leaves):
            pairs_before = pairs_up_to[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(pairs_up_to, pairs_before + PAIRS, side="right")))
            yield slice(start, stop), self._sums(leaves[start:stop])
            start = stop

    def _sums(self, leaves: np.ndarray) -> Any:
        """Return the sum of each row's shares in the leaves of each query, as a sparse matrix ``[queries rows]``.

        ``leaves [queries trees]`` are as `_chunks` yields them; a tree with the leaf -1 adds nothing.
        """
        from scipy.sparse import csr_array

        mask = leaves >= 0
        # As int32: otherwise the product would cast all lists.
        ends = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
        to_leaves = csr_array((np.ones(ends[-1]), leaves[mask], ends), shape=(len(leaves), self._lists.shape[0]))
        return to_leaves @ self._lists

    def _nearest(self, leaves: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
        """Return the fields of `Neighbours` but ``ids``, of ``k`` rows, for queries in ``leaves [queries trees]``."""
        length = self._lengths(leaves)
        index, sums, squares = self._largest_on_host(leaves, k, length.sum(axis=1))
        # All shares of a leaf are 1 for the kind "leaves", and else they add to 1.
        total = (length if self.kind == "leaves" else length > 0).sum(axis=1)
        return _weigh(index, sums, squares, total, _number_of_trees(leaves))

    def _nearest_on_device(self, X: Any, k: int) -> tuple[np.ndarray, ...]:
        """Return the result of `_nearest` for the queries ``X`` (None: the rows), computed on the accelerator."""
        trees = self._trees
        if X is None:
            # The rows' leaves are known, so that there is nothing to walk.
            values = np.zeros((self.n_rows, 0), np.float32)
            missing = False
            leaves = self._row_leaves
        else:
            values, missing = unchecked_rows(self._read_queries(X), trees.columns)
            leaves = None
        plan = known_plan(trees)
        depth = unrolled_depth("levels", trees)
        n_keys = 2 * trees.n_features  # `column_keys` has each column twice
        block = min(block_size("levels", trees.n_trees, n_keys), max(DEVICE_SUMS // self.n_rows, 1))
        options = {"k": k, "block": block, "depth": depth, "kind": self.kind}

        def program(_, x, leaves):
            return _largest_of_all(plan, self._rows_by_tree, x, leaves, **options)

        # Values of a query, k rows and k sums, three further numbers, and the query's leaves: 4 bytes each.
        row_bytes = 4 * (values.shape[1] + 2 * k + 3 + (0 if leaves is None else trees.n_trees))
        answer, _ = answer_on_device(program, values, leaves, row_bytes, missing=missing, guess=True, least=FEW)
        index, sums, squares, total, n_trees = jax.device_get(answer)
        return _weigh(index, sums, squares, total, np.where(n_trees > 0, n_trees, np.nan))

    def _largest_on_host(self, leaves: np.ndarray, k: int, pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return for each query the rows of the ``k`` largest `_sums`, these sums, and the squares of all its sums.

        Rows and sums are ``[queries k]``, by descending sum; there are -1 and 0 after the last row. The squares are
        added up, ``[queries]``. ``leaves`` and ``pairs`` are as for `_blocks`.
        """
        index = np.full((len(leaves), k), -1, np.int32)
        sums = np.zeros((len(leaves), k))
        squares = np.zeros(len(leaves))
        # Sums are weights times the number of trees, and so is the step to which they are rounded.
        step = (_number_of_trees(leaves) / EQUAL).tolist()
        is_short = DENSE * pairs < self.n_rows  # few pairs: sparse sums, of many queries at once
        positions = np.flatnonzero(is_short).tolist()

        def write(i: int, value: np.ndarray, row: np.ndarray | None) -> None:
            """Write the results of query ``i`` from its sums ``value``, of the rows ``row`` (None: of all rows)."""
            squares[i] = np.einsum("i,i", value, value)  # BLAS would wake its threads, which wait at work
            largest_sums, largest_rows = _largest(value, row, k, step=step[i])
            index[i, : len(largest_rows)] = largest_rows
            sums[i, : len(largest_rows)] = largest_sums

        for queries, block in self._blocks(leaves[is_short], pairs[is_short]):
            for i, (start, stop) in enumerate(pairwise(block.indptr.tolist())):
                write(positions[queries.start + i], block.data[start:stop], block.indices[start:stop])
        for i in np.flatnonzero(~is_short).tolist():
            lists = self._lists[leaves[i][leaves[i] >= 0]]
            write(i, lists.T @ np.ones(lists.shape[0]), row=None)  # the sums of `_sums`, in the same order
        return index, sums, squares

    @cached_property
    def _rows_by_tree(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Arrays on the device: each row's leaf and its share there, ``[trees rows]``, and each leaf's number of rows.

        For a row that the tree has not drawn the leaf is -2, which no query's leaf is.
        """
        shape = self._trees.n_trees, self.n_rows
        leaf = np.full(shape, -2, np.int32)
        share = np.zeros(shape, jnp.result_type(float))
        length = np.diff(self._lists.indptr)
        entry_leaf = np.repeat(np.arange(self._lists.shape[0], dtype=np.int32), length)
        entry = entry_leaf // self._trees.n_nodes, self._lists.indices
        leaf[entry] = entry_leaf
        share[entry] = self._lists.data
        return jax.device_put(leaf), jax.device_put(share), jax.device_put(length.astype(np.uint32))


@jit(static_argnames=("k", "block", "depth", "kind"))
def _largest_of_all(plan: Plan, rows_by_tree, x, leaves, *, k: int, block: int, depth: int, kind: str):
    """Return the arguments of `_weigh` for all queries, and a mark of missing or infinite values among them.

    ``rows_by_tree`` is `NeighbourIndex._rows_by_tree`, and ``leaves [queries trees]`` are the queries' leaves. If those
    are None, the queries ``x`` are walked by ``plan`` to ``depth``. ``block`` queries are answered at a time.
    """
    leaf, share, length = rows_by_tree
    n_trees, n_places = plan.nodes.shape
    n_nodes = len(length) // len(leaf)

    def add(sums, tree):
        """Add the shares of one tree's rows to the sums ``[queries rows]`` of the queries in the rows' leaves."""
        row_leaf, share, query_leaf = tree
        return sums + jnp.where(query_leaf[:, None] == row_leaf, share, 0), None

    def find(x, leaves):
        """Return the arguments of `_weigh` for a block of queries, but ``number`` is 0 where no tree counts."""
        if leaves is None:
            # Node i of tree t has the place t · places + exits + i (exits come first), and the leaf t · nodes + i.
            place = walk_levels(plan, column_keys(x, missing=True), depth) - plan.n_exits
            leaves = place - jnp.arange(n_trees, dtype=jnp.int32) * (n_places - n_nodes)
        zeros = jnp.zeros((len(leaves), leaf.shape[1]), share.dtype)  # [queries rows]
        sums, _ = lax.scan(add, zeros, (leaf, share, leaves.T), unroll=TREES)
        value, row = lax.top_k(sums, k)
        mask = leaves >= 0
        n_rows = jnp.where(mask, length[jnp.maximum(leaves, 0)], 0)
        # All shares of a leaf are 1 for the kind "leaves", and else they add to 1.
        total = (n_rows if kind == "leaves" else n_rows > 0).sum(axis=1, dtype=jnp.uint32)
        index = jnp.where(value > 0, row, -1)
        squares = (sums**2).sum(axis=1)
        return index, value, squares, total, mask.sum(axis=1, dtype=jnp.int32)

    return in_blocks(find, block, x, leaves)


def _weigh(index: np.ndarray, sums: np.ndarray, squares: np.ndarray, total: np.ndarray, number: np.ndarray) -> tuple:
    """Return the fields of `Neighbours` without ``ids``: index, weight, total and effective number of rows.

    ``index`` and ``sums [queries k]`` are the rows of the largest sums of shares, -1 where there are no more, and these
    sums. The others are ``[queries]``. ``squares`` is the sum of the squares of all sums, and ``total`` the sum of all
    sums. ``number`` is the number of trees that count, NaN for none.
    """
    # Total² / Σ w²; the number of trees, by which all weights are divided, cancels.
    effective = np.divide(total.astype(float) ** 2, squares, out=np.full(len(index), np.nan), where=squares > 0)
    weight = np.where(index < 0, 0, sums / number[:, None])
    return index, weight, total / number, effective


def _number_of_trees(leaves: np.ndarray) -> np.ndarray:
    """Return how many trees count for each query, ``[queries]``: those with a leaf other than -1. NaN for none."""
    n_trees = (leaves >= 0).sum(axis=1)
    return np.where(n_trees > 0, n_trees, np.nan)


def _largest(value: np.ndarray, row: np.ndarray | None, k: int, *, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``k`` largest of the sums ``value``, by descending sum, and the row of each; sums of 0 are left out.

    Sums that are equal when rounded to a multiple of ``step`` are ties, in order of rows. ``row`` has the row of each
    sum; None if there is a sum for every row.
    """
    floor = 0.0
    # The k-th largest of groups' maxima bounds the k-th largest sum from below: the k maxima are sums themselves.
    if len(value) > GROUPS * k:
        group_maxima = value[: len(value) // GROUPS * GROUPS].reshape(GROUPS, -1).max(axis=0)
        rank = len(group_maxima) - k
        bound = float(np.partition(group_maxima, rank)[rank])
        # Ties by rounding may lie up to a step below it; the second step is a margin.
        floor = max(bound - 2 * step, 0.0)
    candidates = np.flatnonzero(value > floor)
    value = value[candidates]
    row = candidates if row is None else row[candidates]
    order = np.lexsort((row, -np.rint(value / step)))[:k]
    return value[order], row[order]


def neighbours(
    model: Any,
    X: InstancesLike | None = None,
    *,
    rows: InstancesLike,
    k: int = 10,
    kind: str = "prediction",
    y: LabelsLike | None = None,
    sample_weight: NumbersLike | None = None,
    groups: LabelsLike | None = None,
) -> Neighbours:
    """Return the training rows behind each answer of a forest, and the weight of each row in it.

    A forest's answer is a weighted mean of its training rows' targets. These are its exact weights, which add to 1. The
    weighted mean of targets is a regressor's prediction; that of class indicators is a classifier's probabilities.

    Parameters
    ----------
    model
        A fitted forest, bag or tree of scikit-learn, for classes or numbers. Or any model that `jaxunc.from_any` takes,
        a pipeline that ends in one, or an estimator of this library, whose forest answers.
    X
        Queries ``[queries features]``, as for `bind`; raw ones for a pipeline. Default: the rows themselves.
    rows
        The rows that the model was grown on, all and in their order, as they went into ``model.fit``.
    k
        Number of rows to return for each query, at most the number of all rows.
    kind
        ``"prediction"``: the weights of the forest's answer. ``"out_of_bag"``: the weights of the out-of-bag prediction
        of the rows themselves, each by the trees that have not seen it. ``"leaves"``: the share of trees in which two
        rows reach the same leaf, in the bag or not. These shares give no answer; they suit boosted models and any rows.
    y
        The rows' targets or labels. Needed where classes weigh (``class_weight``) and for other libraries' models.
        Otherwise optional: if passed, they are compared with what leaves hold.
    sample_weight
        Weights ≥ 0 that the model was grown with ``[rows]``, if any.
    groups
        A label for each row: the rows of one group are out of a bag only together. Default: copies form groups, as
        `jaxunc.counting.oob_mask` finds them, with a warning; without y they are rows of equal values.

    Returns
    -------
    Neighbours
        ``index``, ``weight`` and, of a pandas frame, ``ids`` ``[queries k]``; ``total``, ``effective`` ``[queries]``.
        ``index`` holds positions among the rows, whatever their frame's index is; ``ids`` holds the labels of that.

    Raises
    ------
    TypeError
        If there is no importer for the model, y holds no numbers where the model predicts them, or X is traced.
    ValueError
        If k is larger than the number of rows, kind is unknown, or the kind does not use an argument. If leaves hold no
        means: boosted models, forests of medians (``criterion="absolute_error"``), monotonic constraints. If the rows,
        their order or weights are not those of ``fit``: they have to give the leaves' sizes, and with y their contents.
        If the kind is ``"out_of_bag"`` and the forest's bags are unknown. As `bind`, for X and rows.

    Warns
    -----
    UserWarning
        As `jaxunc.counting.oob_mask`, of copies out of bag.

    Notes
    -----
    Out of bag, a row that is in every bag has ``index`` -1 and ``total`` NaN. A query in leaves that hold no row has a
    ``total`` of less than 1. Rows without bags or weights may be in any order; with bags, it is not noticed if a few
    rows have changed places within a leaf.

    The host uses sparse lists, in blocks: memory does not grow with the queries. Weights that differ by less than 1e-12
    are ties. An accelerator compares the leaves of all rows with the queries' in JAX's floats: float32 weights are
    right to 1e-6, and rounding decides ties. ``jax.default_device("cpu")`` keeps to the host's lists.

    References
    ----------
    Rhodes, Cutler and Moon 2023, "Geometry- and accuracy-preserving random forest proximities", for ``"out_of_bag"``.
    Breiman 2001, "Random forests", for ``"leaves"``. Lin and Jeon 2006, "Random forests and adaptive nearest
    neighbors".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import jaxunc as ju
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X[:400], y[:400])
    >>> cases = ju.neighbours(forest, X[400:], rows=X[:400], k=400)
    >>> bool(abs((cases.weight * y[cases.index]).sum(axis=1) - forest.predict(X[400:])).max() < 1e-9)
    True
    """
    check_on_host(X, rows)
    index = NeighbourIndex(model, rows, kind=kind, y=y, sample_weight=sample_weight, groups=groups)
    return index.neighbours(X, k)


def neighbour_weights(
    model: Any,
    X: InstancesLike | None = None,
    *,
    rows: InstancesLike,
    kind: str = "prediction",
    y: LabelsLike | None = None,
    sample_weight: NumbersLike | None = None,
    groups: LabelsLike | None = None,
) -> Any:
    """Return the weights of all training rows in each answer: ``weights @ y`` is what the forest says.

    Parameters
    ----------
    model, X, rows, kind, y, sample_weight, groups
        As for `neighbours`.

    Returns
    -------
    scipy.sparse.csr_array
        Float64 ``[queries rows]``. Out of bag, a row in every bag has no entry.

    Raises
    ------
    ValueError, TypeError
        As `neighbours` does. If the matrix may take more than 2 GB; nothing is computed before.
    """
    check_on_host(X, rows)
    index = NeighbourIndex(model, rows, kind=kind, y=y, sample_weight=sample_weight, groups=groups)
    return index.weights(X)

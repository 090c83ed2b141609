"""Sets of categories that scikit-learn's trees test, from its version 1.10 on.

Trees see codes. Each tree is asked which codes go left at a test (`ask_codes`). `sklearn.tree.export_dict`, or else the
model's encoder, tells which values have these codes (`labels_of`); the model itself then confirms it (`_check_labels`).
"""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sklearn.tree

from jaxunc.tables import Columns, Levels

from ._comparing_trees import IN_SET, NOT_IN_SET, ComparingTree, set_of_codes

Members = Sequence[tuple[Any, np.ndarray | None]]
"""The single trees of a model, each with the columns of the data that it sees (None: all)."""
Labels = dict[int, tuple[Any, ...]]
"""The values of nominal columns in the order of their codes, by the column's position among those that a tree sees."""
_HASH = 2  # the kind of a test by a hash, in ``split_kind``
_ROWS_PER_LABEL, _MOST_ROWS = 4, 1024  # of the rows by which labels are checked
_REMEDY = "Fit it without categorical_features, on columns that are encoded (OrdinalEncoder, OneHotEncoder), or take"


def labels_of(model: Any, estimator: Any) -> Labels:
    """Return the values of each nominal feature of ``estimator``, a single tree; {} if scikit-learn does not tell them.

    ``model`` is the estimator itself, or its forest or bag.
    """
    if getattr(estimator, "is_categorical_", None) is None:
        return {}
    # Trees of a forest are grown on codes, and know nothing of the values.
    of_forest = _of_encoder(model) if model is not estimator else None
    return of_forest or _export_labels(estimator) or _of_encoder(estimator) or {}


def _export_labels(estimator: Any) -> Labels | None:
    """Return the labels (`labels_of`) in scikit-learn's export of ``estimator``, a single tree; None without any."""
    export = getattr(sklearn.tree, "export_dict", None)  # until scikit-learn 1.10: there is none
    if export is None:
        return None
    try:
        entries = export(estimator, max_depth=0).get("categorical_features", [])
        return {int(entry["feature"]): tuple(entry["categories"]) for entry in entries}
    except (AttributeError, KeyError, TypeError, ValueError):  # it cannot write dates, nor trees without an encoder
        return None


def _of_encoder(owner: Any) -> Labels | None:
    """Return the labels (`labels_of`) in the encoder of ``owner``, a tree or forest, but for NaN; None without one."""
    categories = getattr(getattr(owner, "_categorical_encoder", None), "categories_", None)
    nominal = getattr(owner, "is_categorical_", None)
    if categories is None or nominal is None or len(categories) != np.count_nonzero(nominal):
        return None
    labels = (tuple(value for value in np.asarray(values).tolist() if not _is_nan(value)) for values in categories)
    return dict(zip(np.flatnonzero(nominal).tolist(), labels, strict=True))


def _is_nan(value: Any) -> bool:
    """Return whether ``value`` is a float that is NaN."""
    return isinstance(value, float) and value != value


def with_categories(columns: Columns, model: Any, members: Members) -> Columns:
    """Return ``columns`` with the levels of nominal ones; a ValueError if values do not have the codes of `labels_of`.

    A column's levels are its values in all ``members``, the trees of ``model``. A tree treats others' as missing.
    """
    levels: dict[int, dict[Any, None]] = {}  # dicts keep the order of values, each once
    for estimator, where in members:
        for feature, values in labels_of(model, estimator).items():
            levels.setdefault(_column(feature, where), {}).update(dict.fromkeys(values))
    if not levels:
        return columns
    for j, values in levels.items():
        for value in values:
            if not isinstance(value, str | int | float):
                raise ValueError(
                    f"the categories of column {j} hold {value!r:.40}, which is no word and no number. Fit the model "
                    "to words or numbers, NaN where one is missing."
                )
    for estimator, where in members:
        # Leaves have the feature -2.
        numeric = np.setdiff1d(np.asarray(estimator.tree_.feature), [-2, *labels_of(model, estimator)]).tolist()
        if mixed := sorted({_column(feature, where) for feature in numeric} & set(levels)):
            raise ValueError(
                f"the model's trees test categories of the columns {mixed[:5]}, and others of it numbers of the same "
                "columns: categorical_features counts the columns that a tree is shown. Fit it without max_features."
            )
    _check_labels(model, members)
    positions = range(columns.number)
    column_levels = tuple(Levels(tuple(levels[j]), has_missing=False) if j in levels else None for j in positions)
    return dataclasses.replace(columns, nominal=tuple(j in levels for j in positions), levels=column_levels)


def _column(feature: int, where: np.ndarray | None) -> int:
    """Return the column of the data at the position ``feature`` of ``where``, those that a tree sees (None: all)."""
    return feature if where is None else int(where[feature])


def _check_labels(model: Any, members: Members) -> None:
    """Raise a ValueError unless rows with the values of `labels_of` reach the same leaves as rows with their codes.

    Every tree of ``members`` is asked, but only three of a forest. ``model`` is their ensemble, or the only tree.
    """
    is_forest = model is not members[0][0] and hasattr(model, "apply")  # a bag has no apply
    for t, (estimator, _) in enumerate(members):
        rows, codes = _rows(estimator.tree_, labels_of(model, estimator))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            try:
                leaves = np.asarray(model.apply(rows))[:, t] if is_forest else np.asarray(estimator.apply(rows))
                agrees = np.array_equal(leaves, estimator.tree_.apply(codes))
            except (ValueError, TypeError, IndexError, AttributeError):
                agrees = False
        if not agrees:
            raise ValueError(
                "model's trees test categories, and this scikit-learn does not tell which values have which codes. "
                f"{_REMEDY} HistGradientBoosting, whose categories are imported."
            )
        if is_forest and t >= 2:  # all trees of a forest see the same codes
            return


def _rows(tree: Any, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Return (random rows for ``tree``, the same rows with codes in place of values in the columns of ``labels``).

    Other columns hold thresholds of the tree, and numbers 1 beside them.
    """
    rng = np.random.default_rng(0)
    n_rows = min(_MOST_ROWS, _ROWS_PER_LABEL * max(map(len, labels.values()), default=1) + 16)
    codes = np.zeros((n_rows, int(tree.n_features)), np.float32)
    feature, threshold = np.asarray(tree.feature), np.asarray(tree.threshold)
    for j in range(codes.shape[1]):
        if j in labels:
            codes[:, j] = rng.permutation(np.arange(n_rows) % max(1, len(labels[j])))  # each code about equally often
        elif len(thresholds := threshold[(feature == j) & np.isfinite(threshold)]):
            codes[:, j] = rng.choice(thresholds, n_rows) + rng.integers(-1, 2, n_rows)
    rows = codes.astype(object)
    for j, values in labels.items():
        value_of_code = np.empty(max(1, len(values)), object)  # holds None if there are no values
        value_of_code[: len(values)] = values
        rows[:, j] = value_of_code[codes[:, j].astype(np.int64)]
    return rows, codes


def nodes_with_sets(estimator: Any, labels: Labels, where: np.ndarray | None) -> np.ndarray:
    """Return the nodes of ``estimator``, a single tree, that test sets of categories.

    ``labels`` are those of `labels_of`, and ``where`` has the columns of the data that the tree sees, None for all. A
    ValueError if a node tests a hash, or its column has no values in ``labels``.
    """
    tree = estimator.tree_
    inner = tree.children_left >= 0
    feature = tree.feature  # -2 at leaves
    # Three public signs of a test of a set: `split_kind`, which columns are nominal, and a threshold of -inf. Versions
    # may lack the first two.
    split_kinds = getattr(tree, "split_kind", None)
    nominal = getattr(estimator, "is_categorical_", None)
    tests_set = tree.threshold == -np.inf
    if split_kinds is not None:
        tests_set = tests_set | (np.asarray(split_kinds) != 0)
    if nominal is not None:
        tests_set = tests_set | np.asarray(nominal)[np.where(inner, feature, 0)]
    nodes = np.flatnonzero(tests_set & inner)
    if not len(nodes):
        return nodes
    by_hash = nodes[np.asarray(split_kinds)[nodes] == _HASH] if split_kinds is not None else nodes[:0]
    if len(by_hash):
        raise ValueError(
            f"model's trees test categories of the columns {_name_columns(feature[by_hash], where)} by a random hash, "
            f"as extra trees do, which is not imported. {_REMEDY} a random forest, whose sets of categories are."
        )
    unlabelled = nodes[~np.isin(feature[nodes], list(labels))]
    if len(unlabelled):
        raise ValueError(
            f"model's trees test categories of the columns {_name_columns(feature[unlabelled], where)}: which values "
            f"these are this scikit-learn does not tell. {_REMEDY} HistGradientBoosting, whose categories are imported."
        )
    return nodes


def _name_columns(features: np.ndarray, where: np.ndarray | None) -> str:
    """Return, for messages, the first columns of ``features`` and their number; ``where`` is as in `_column`."""
    columns = sorted({_column(feature, where) for feature in features.tolist()})
    return f"{columns[:5]} ({len(columns)} in all)"


class CodesLeft(NamedTuple):
    """The codes of categories that go left at the nodes of a tree that test sets, as a table."""

    row: np.ndarray  # each node's row in the table; -1 where a node tests no categories
    table: np.ndarray  # bool [rows codes]: whether a code goes left

    def decide(self, node: np.ndarray, value: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """Return whether each row goes left at its ``node``, where its number in the tested column is ``value``.

        ``otherwise`` is the result for NaN, and at nodes that test no categories.
        """
        if not len(self.table):
            return otherwise
        is_code = (self.row[node] >= 0) & ~np.isnan(value)
        code = np.where(is_code, value, 0).astype(np.int64)
        return np.where(is_code, self.table[self.row[node], code], otherwise)


def ask_codes(tree: Any, paths: Any, nodes: np.ndarray, labels: Labels, most: int) -> CodesLeft:
    """Return which codes ``tree``, a low-level tree, sends left at ``nodes``, which test sets: `tree.apply` is asked.

    A code that does not come to a node goes where missing values go. The tree is asked about ``most`` values at a time.
    ``paths``, the tree's `_Paths`, is changed: its values for the nodes' children become codes that lead there.
    """
    codes_at: dict[int, np.ndarray] = {}  # the codes that come to each node
    goes_left_of: dict[int, np.ndarray] = {}  # whether each code goes left there
    missing_left = np.asarray(tree.missing_go_to_left) != 0
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    # Tests above come first, since they decide which codes come to a node.
    for batch in _batches_by_depth(nodes, paths, labels, most):
        for node in batch:
            n_codes = len(labels[int(paths.feature[node])])
            codes_at[node] = _codes_at(node, paths, left, codes_at, goes_left_of, n_codes)
        # A row for each node and code that comes there.
        sizes = [len(codes_at[node]) for node in batch]
        node_of_row = np.repeat(batch, sizes)
        rows = paths.reach(node_of_row)
        row_codes = np.concatenate([codes_at[node] for node in batch])
        rows[np.arange(len(node_of_row)), paths.feature[node_of_row]] = row_codes
        goes_left = _child_towards(tree.apply(rows), node_of_row, paths.parent) == left[node_of_row]
        for node, codes_go_left in zip(batch, np.split(goes_left, np.cumsum(sizes)[:-1]), strict=True):
            codes = codes_at[node]
            goes_left_of[node] = np.full(len(labels[int(paths.feature[node])]), missing_left[node])
            goes_left_of[node][codes] = codes_go_left
            for child, child_codes in ((left[node], codes[codes_go_left]), (right[node], codes[~codes_go_left])):
                paths.value[child] = child_codes[0] if len(child_codes) else np.nan
    row = np.full(len(left), -1)
    table = np.zeros((len(goes_left_of), max(map(len, goes_left_of.values()), default=0)), bool)
    for i, (node, codes_left) in enumerate(goes_left_of.items()):
        row[node] = i
        table[i, : len(codes_left)] = codes_left
    return CodesLeft(row, table)


def _batches_by_depth(nodes: np.ndarray, paths: Any, labels: Labels, most: int) -> Iterator[list[int]]:
    """Yield lists of ``nodes`` of equal depth, the least deep nodes first; arguments are those of `ask_codes`.

    A list is so short that rows for all its nodes and their codes have at most ``most`` values, or has one node.
    """
    depth = np.zeros(len(nodes), np.int64)
    ancestor = paths.parent[nodes]
    while (has_parent := ancestor >= 0).any():
        depth = depth + has_parent
        ancestor = np.where(has_parent, paths.parent[ancestor], -1)
    size = max(1, most // (paths.n_features * max(map(len, labels.values()), default=1)))
    for level_depth in np.unique(depth):
        in_level = nodes[depth == level_depth].tolist()
        yield from (in_level[start : start + size] for start in range(0, len(in_level), size))


def _codes_at(
    node: int,
    paths: Any,
    left: np.ndarray,
    codes_at: Mapping[int, np.ndarray],
    goes_left_of: Mapping[int, np.ndarray],
    n_codes: int,
) -> np.ndarray:
    """Return the codes that come to ``node``: those that the last test of the same column above it sends there.

    All ``n_codes`` of the column come if there is no such test. ``left`` has the left child of each node. For tests
    above, ``codes_at`` has the codes that come there, and ``goes_left_of`` whether each code goes left.
    """
    child = node
    ancestor = int(paths.parent[node])
    while ancestor >= 0 and paths.feature[ancestor] != paths.feature[node]:
        child = ancestor
        ancestor = int(paths.parent[ancestor])
    if ancestor < 0:
        return np.arange(n_codes)
    codes = codes_at[ancestor]
    is_left_child = left[ancestor] == child
    return codes[goes_left_of[ancestor][codes] == is_left_child]


def _child_towards(leaves: np.ndarray, nodes: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Return the child of each of ``nodes`` on the way to its leaf in ``leaves``; a ValueError if there is none.

    ``parent`` has the parent of each node of the tree.
    """
    child = np.asarray(leaves)
    # From the leaves upwards; above the root (0) there is no node to be found.
    while (is_too_deep := parent[child] != nodes).any():
        if np.any(is_too_deep & (child == 0)):
            raise ValueError(
                "model's trees send an instance elsewhere than their thresholds say, on the way to a test of "
                "categories. Upgrade jaxunc, or fit with another scikit-learn."
            )
        child = np.where(is_too_deep, parent[child], child)
    return child


def with_sets(
    tree: ComparingTree, codes: CodesLeft, labels: Labels, where: np.ndarray | None, columns: Columns
) -> ComparingTree:
    """Return ``tree`` with tests of sets at the nodes that test categories; the sets hold codes of ``columns``.

    ``codes`` has the tree's own codes that go left, and ``labels`` are their values (`labels_of`). ``where`` has the
    columns of the data that the tree sees, None for all.
    """
    compare = tree.compare.copy()
    sets = {}
    tree_codes = {}  # by column: the tree's code of each level, -1 for a level that the tree does not know
    for feature, values in labels.items():
        code_of = {value: code for code, value in enumerate(values)}
        column = _column(feature, where)
        levels = columns.levels[column] if columns.levels is not None else None
        tree_codes[column] = np.array([code_of.get(value, -1) for value in (levels.values if levels else ())], np.int64)
    for node in np.flatnonzero(codes.row >= 0).tolist():
        goes_left = codes.table[codes.row[node]]
        code_of_level = tree_codes[int(tree.feature[node])]
        missing_left = bool(tree.missing_left[node])
        # What is no category of the tree's goes where missing values go: the set holds those of the other side.
        compare[node] = NOT_IN_SET if missing_left else IN_SET
        sets[node] = set_of_codes(np.flatnonzero((code_of_level >= 0) & (goes_left[code_of_level] != missing_left)))
    return tree._replace(compare=compare, sets=sets)

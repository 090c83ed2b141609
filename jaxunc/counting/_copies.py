"""Find rows that were copied before the fit (by oversampling, a join, a repetition), and keep copies in one group."""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import check_readable, distinct_labels, warn
from jaxunc.tables import SparseRows, are_missing, as_column

CHUNK = 2**22
"""Number of values that are hashed at a time; it bounds memory."""
FEWEST_DISTINCT = 10
"""Fewest distinct rows whose multiplicities are read for a common factor: ten are all even once in 2^10 by chance."""
AGREEING_SHARE = 0.25
"""Share of the distinct rows that agree with another one in a part of the columns, from which on values are few."""
COPIED_SHARE = 0.01
"""Share of the rows that are copies, from which on there is a warning or a refusal."""
DEVIATIONS = 4
"""Rows equal rows of the fit by more than chance if their number exceeds its expectation by this many standard
deviations."""


def copies_of(values: np.ndarray | SparseRows, position: np.ndarray) -> np.ndarray | None:
    """Return the group of each row as a number ``[rows]``, where a row and its copies are a group; None without copies.

    Copies are equal in all ``values [rows features]`` and in the class, ``position [rows]``. Equal rows are not taken
    for copies in two cases:

    * Columns have few values (answers to questions, levels), so that new rows equal others as often. Many rows then
      agree in a part of the columns, too, which copies do not.
    * Equal values have several labels: they were filled in, such as gaps by an imputer. A copy keeps its row's label.

    If the multiplicities of all rows have a common factor, the whole table was repeated that often. Then that many
    equal rows are a row and its copies in these cases, too. Eight rows, the values of each as a letter:

        values    a a b c c c d e
        class     0 0 1 1 1 1 0 1
        group     0 0 1 2 2 2 3 4    of columns with many values; in any order
        group     0 1 2 3 4 5 6 7    of columns with few values (returned as None)
    """
    hash_rows = _row_hasher(values, position)
    hashes = hash_rows(np.ones((1, values.shape[1]), bool))[0]
    _, first_rows, equals, multiplicity = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    if len(first_rows) == len(equals):
        return None
    factor = math.gcd(*multiplicity.tolist()) if len(first_rows) >= FEWEST_DISTINCT else 1
    by_chance = _equal_by_chance(hash_rows, values.shape[1], first_rows, multiplicity, factor)
    # Rows that are equal by chance are exchangeable: any ``factor`` of them are one row and its copies.
    group_among_equals = np.where(by_chance, _ranks(equals, multiplicity) // factor, 0)
    copy_group = np.unique(equals * len(equals) + group_among_equals, return_inverse=True)[1]
    return None if copy_group.max() + 1 == len(equals) else copy_group


def _equal_by_chance(
    hash_rows: Any, n_columns: int, first_rows: np.ndarray, multiplicity: np.ndarray, factor: int
) -> np.ndarray:
    """Return the mask ``[rows]`` of rows that are no copies of the rows they equal: values are few, or were filled in.

    ``hash_rows`` is a `_row_hasher` of rows of ``n_columns`` columns. ``first_rows`` has the first position of each
    distinct row, and ``multiplicity`` how often the row occurs. ``factor`` says how often the whole table was repeated.
    """
    n_rows = int(multiplicity.sum())
    if _has_few_values(hash_rows, n_columns, first_rows, n_rows // factor - len(first_rows)):
        return np.ones(n_rows, bool)
    # Equal values that are repeated with several labels were filled in. A distinct row is its values with one label.
    values_group = np.unique(hash_rows(np.ones((1, n_columns), bool), label=False)[0], return_inverse=True)[1]
    n_repeated_labels = np.bincount(values_group[first_rows], multiplicity > factor)
    return n_repeated_labels[values_group] > 1


def _ranks(group: np.ndarray, group_size: np.ndarray) -> np.ndarray:
    """Return the rank of each row in its group: the number of the group's earlier rows ``[rows]``.

    ``group [rows]`` has the number of each row's group, and ``group_size [groups]`` the number of rows in each group.
    """
    ranks = np.empty(len(group), np.int64)
    group_start = np.cumsum(group_size) - group_size  # in rows sorted by group
    ranks[np.argsort(group, kind="stable")] = np.arange(len(group)) - np.repeat(group_start, group_size)
    return ranks


def rows_together(values: Any, position: np.ndarray, groups: Any = None, *, weight: Any = None) -> np.ndarray | None:
    """Return the group of each row as a number ``[rows]``; None if each row is a group by itself.

    ``groups`` has a label for each row. Without it a row and its copies, as `copies_of` finds them, are a group, with a
    warning if there are many copies. For this, ``values [rows features]`` has the encoded rows, and ``position [rows]``
    their classes. A row of ``weight`` 0, which no tree sees, is a group by itself.
    """
    if groups is not None:
        groups = as_groups(groups, len(position))
        if groups is None:
            return None
    elif not isinstance(values, SparseRows):
        values = np.asarray(values)
    if weight is not None and not (has_weight := np.asarray(weight) > 0).all():
        # Groups of the rows that have a weight, then a group for each other row.
        if groups is None:
            groups_with_weight = rows_together(values[has_weight], position[has_weight])
        else:
            groups_with_weight = as_groups(groups[has_weight], int(has_weight.sum()))
        return None if groups_with_weight is None else _add_lone_rows(groups_with_weight, has_weight)
    if groups is not None:
        return groups
    groups = copies_of(values, position)
    if groups is None:
        return None
    n_copies = len(groups) - int(groups.max()) - 1
    if n_copies >= COPIED_SHARE * len(groups):
        warn(
            f"{n_copies} of {len(groups)} rows repeat others, values and label: copies that were made before the fit, "
            "it seems (oversampling, a join). A tree that has seen one of them knows the label of all, so equal rows "
            "are out of bag, and held out, only together: few trees are left for rows with many copies. Pass each row "
            "once; to weigh classes take class_weight='balanced_subsample'. (groups= says which rows belong together; "
            "groups=range(len(y)) that none do.)"
        )
    return groups


def _add_lone_rows(groups_with_weight: np.ndarray, has_weight: np.ndarray) -> np.ndarray:
    """Return the group of each row as a number ``[rows]``; each row without weight gets a group of its own.

    ``has_weight [rows]`` says which rows have a weight, and ``groups_with_weight`` numbers the groups of these rows.
    """
    groups = np.empty(len(has_weight), np.int64)
    groups[has_weight] = groups_with_weight
    n_groups = int(groups_with_weight.max(initial=-1)) + 1
    groups[~has_weight] = n_groups + np.arange(np.count_nonzero(~has_weight))
    return groups


def as_groups(groups: Any, n: int) -> np.ndarray | None:
    """Return the group of each row as a number ``[n]``; None if each row is a group by itself.

    ``groups [n]`` has a label for each row; rows of one label are a group. Raises a ValueError for another number of
    labels or a missing one, and a TypeError if labels have no order or are masked.
    """
    check_readable("groups", groups)
    labels = np.asarray(as_column(groups, "groups"))
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}; pass one label of a group for each of the {n} instances.")
    if (missing := are_missing(labels)).any():
        raise ValueError(
            f"groups has no label for {missing.sum()} of the {n} instances (missing, NaN or masked), the first at "
            f"position {missing.argmax()}. Give each such row a group of its own: a label that no other row has."
        )
    distinct, group = distinct_labels(labels, "groups")
    return None if len(distinct) == n else group


def first_of_equals(values: Any, position: np.ndarray) -> np.ndarray:
    """Return the indices of rows that equal no earlier row in values and class (`row_hashes`), in ascending order."""
    return np.sort(np.unique(row_hashes(values, position), return_index=True)[1])


def row_hashes(values: Any, position: np.ndarray) -> np.ndarray:
    """Return a hash of each row's ``values [rows features]`` and class, ``position [rows]``: integers ``[rows]``."""
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    return _row_hasher(values, position)(np.ones((1, values.shape[1]), bool))[0]


def find_rows_of_fit(fitted: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Return whether each row equals a row of the fit, bools ``[rows]``; None if hardly more rows do than by chance.

    Both arguments are `row_hashes`: ``fitted`` of the rows of the fit, and ``rows`` of the rows in question. New rows
    equal rows of the fit by chance as often as rows of the fit equal each other.
    """
    distinct, multiplicity = np.unique(fitted, return_counts=True)
    is_of_fit = np.isin(rows, distinct)
    # The share of rows of the fit that equal others by chance; if all are repeated equally often, that is no chance.
    factor = math.gcd(*multiplicity.tolist())
    share = float(np.sum(multiplicity[multiplicity > factor]) / len(fitted))
    n = len(rows)
    most_by_chance = n * share + DEVIATIONS * math.sqrt(n * share * (1 - share))
    return is_of_fit if is_of_fit.sum() - most_by_chance > COPIED_SHARE * n else None


def mask_by_group(mask: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return ``mask [instances trees]`` with True where it is True for all instances of the instance's group.

    ``groups [instances]`` has the number of each instance's group, from 0 on; None if each is a group by itself.
    """
    if groups is None:
        return mask
    order = np.argsort(groups, kind="stable")  # rows of a group become neighbours, as `reduceat` needs them
    group_starts = np.flatnonzero(np.r_[True, np.diff(groups[order]) > 0])
    return np.logical_and.reduceat(mask[order], group_starts, axis=0)[groups]


def first_of_each(groups: np.ndarray) -> np.ndarray:
    """Return the position of the first row of each group, in ascending order; ``groups [rows]`` numbers groups."""
    return np.sort(np.unique(groups, return_index=True)[1])


def advise_on_trees(has_tree: np.ndarray, groups: np.ndarray | None) -> str:
    """Return advice, as text, for the rows that are in every bag: more trees, or for rows in groups smaller groups.

    ``has_tree [rows]`` is False for a row in every bag; ``groups`` is as for `mask_by_group`.
    """
    # More trees help rows that are groups by themselves.
    if groups is None or np.bincount(groups)[groups[~has_tree]].max(initial=1) == 1:
        return "Use more trees."
    return (
        "They are equal to others, or of one group, and out of a bag only together: more trees would hardly help. If "
        "equal rows are not copies (gaps that were filled alike, few columns), pass groups=range(len(y)); else smaller "
        "groups."
    )


class GroupCounts(NamedTuple):
    """Class counts of each row's group in the row's leaf, for each tree, as a table and its entries."""

    table: np.ndarray
    """Class counts, ``[entries classes]``: an entry for each group and leaf that meet."""
    code: np.ndarray
    """Entry of the table for each row and tree, ``[rows trees]``."""

    @classmethod
    def of(cls, groups, leaves, position, weights, n_classes: int, mask=None) -> "GroupCounts":
        """Count the rows of each group in the leaves of each tree, by weight.

        ``groups``, ``position`` and ``weights`` have the number of each row's group, its class and weight. ``leaves
        [rows trees]`` has its leaf in each tree. A row counts where ``mask [rows trees]`` is True; None: in all trees.
        """
        tables = []
        code = np.empty(leaves.shape, np.int64)
        n_before = 0  # entries of the trees before
        for tree, leaf in enumerate(leaves.T):
            # (group, leaf) as one number; each that occurs is an entry.
            group_and_leaf = groups.astype(np.int64) * (int(leaf.max(initial=0)) + 1) + leaf
            entry = np.unique(group_and_leaf, return_inverse=True)[1]
            tree_weights = weights if mask is None else weights * mask[:, tree]
            n_entries = int(entry.max(initial=-1)) + 1
            entry_counts = np.bincount(entry * n_classes + position, tree_weights, n_entries * n_classes)
            tables.append(entry_counts.reshape(n_entries, n_classes))
            code[:, tree] = entry + n_before
            n_before += n_entries
        return cls(np.concatenate(tables), code)


def _has_few_values(hash_rows: Any, n_columns: int, first_rows: np.ndarray, n_repeated: int) -> bool:
    """Return whether columns have so few values that rows are equal by chance: many agree in parts of the columns, too.

    ``hash_rows`` and ``first_rows`` are as for `_equal_by_chance`. ``n_repeated`` is the number of rows that equal an
    earlier one, in the table before it was repeated as a whole. Also True for a single column, or if that number is 0.
    """
    if n_repeated == 0 or n_columns == 1:  # one column has no parts that could show how often rows agree by chance
        return True
    fewest_agreeing = min(AGREEING_SHARE * len(first_rows), n_repeated)
    # Distinct rows must agree so often whichever part of the columns is left out.
    for hashes in hash_rows(_without_parts(n_columns), label=False)[:, first_rows]:
        _, group, group_size = np.unique(hashes, return_inverse=True, return_counts=True)
        n_agreeing = np.sum(group_size[group] > 1)
        if n_agreeing < fewest_agreeing:
            return False
    return True


def _without_parts(n_columns: int) -> np.ndarray:
    """Return ten masks of columns, bools ``[masks columns]``, each False in a half or a quarter of the columns.

    Columns are split at random three times in halves and once in quarters. Fewer than four have fewer masks.
    """
    rng = np.random.default_rng(0)
    masks = []
    for n_parts in (2, 2, 2, 4):
        part_of_column = rng.permutation(n_columns) % min(n_parts, n_columns)
        masks += [part_of_column != part for part in range(part_of_column.max() + 1)]
    return np.array(masks)


def _row_hasher(values: Any, position: np.ndarray) -> Any:
    """Return a function from masks ``[masks columns]`` to hashes ``[masks rows]`` of the rows' values in these columns.

    ``values`` are ``[rows columns]``. The rows' classes, ``position [rows]``, are hashed, too.
    """
    n_rows, n_columns = values.shape
    # Odd factors have an inverse modulo 2^64, so that products keep all bits of a value.
    *factors, label_factor = np.random.default_rng(1).integers(1, 2**63, n_columns + 1, np.uint64) | np.uint64(1)
    column_factors = np.array(factors, np.uint64)
    block_rows = max(CHUNK // max(n_columns, 1), 1)

    def hash_rows(masks: np.ndarray, *, label: bool = True) -> np.ndarray:
        """Return hashes ``[masks rows]`` of the columns in ``masks [masks columns]`` and, with ``label``, the class."""
        # A hash is a sum of values times random factors, 0 for columns outside of the mask.
        factors_by_mask = masks * column_factors
        hashes = np.zeros((len(masks), n_rows), np.uint64)
        if isinstance(values, SparseRows):
            matrix = values.matrix()
            bits = _bits(matrix.data)
            row_ends = matrix.indptr
            # Entries that are not stored add nothing; sums wrap modulo 2^64, and so do their differences.
            for k, mask_factors in enumerate(factors_by_mask):
                running_sums = np.r_[np.uint64(0), np.cumsum(bits * mask_factors[matrix.indices], dtype=np.uint64)]
                hashes[k] = running_sums[row_ends[1:]] - running_sums[row_ends[:-1]]
        else:
            for start in range(0, n_rows, block_rows):
                hashes[:, start : start + block_rows] = factors_by_mask @ _bits(values[start : start + block_rows]).T
        return hashes + position.astype(np.uint64) * label_factor if label else hashes

    return hash_rows


def _bits(cells: np.ndarray) -> np.ndarray:
    """Return an integer for each number in ``cells``, of the same shape: equal for equal numbers, and for all NaNs."""
    cells = np.ascontiguousarray(cells, np.float32) + np.float32(0)  # -0 becomes 0
    if np.isnan(cells).any():
        cells[np.isnan(cells)] = np.nan
    bits = cells.view(np.uint32)
    return (bits ^ (bits >> np.uint32(16))).astype(np.uint64)  # low bits of round numbers are 0, and products keep them

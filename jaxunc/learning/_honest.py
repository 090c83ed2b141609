"""Rows to learn from whose counts do not know their labels."""

from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, check_one_of, warn
from jaxunc.counting import both_counts, oob_mask
from jaxunc.counting._kinds import counted_forest
from jaxunc.forest import Forest
from jaxunc.forest._distinct import distinct_rows
from jaxunc.routing import leaf_index
from jaxunc.routing._mask import as_mask
from jaxunc.tables import as_instances, class_positions

from ._rows import HonestRows, Routed, histograms

Source = Literal["auto", "oob", "cross_fit", "calibration", "leave_one_out"]
FEW_TREES = 50
"""Below so many trees, the third of them that has not seen a row is another forest than all of them."""


class Shown(NamedTuple):
    """What rows see: their trees' count vectors, as rows of a table."""

    table: np.ndarray
    code: np.ndarray
    mask: np.ndarray | None


def honest_rows(
    model,
    X,
    y,
    *,
    source: Source = "auto",
    counts: Literal["inbag", "both"] = "inbag",
    sample_weight=None,
    tree_mask=None,
    n_folds: int = 5,
    max_rows: int = 100_000,
    random_state=0,
    allow_leaks: bool = False,
) -> HonestRows:
    """Labelled rows for `fit_combiner`, each with counts of trees that do not know its label.

    Learned from the counts that a forest was grown on, a rule would learn that the forest is always right: on new rows
    it is then worse than the mean (by 78 to 157 % of log loss, where that was measured).

    Parameters
    ----------
    model
        A fitted scikit-learn forest, as for `jaxunc.from_sklearn`; for ``"calibration"`` and ``"leave_one_out"`` also a
        `Forest`.
    X, y
        The rows: those that the model was fitted on, in their order; other ones for ``"calibration"``.
    source
        ``"oob"``: each row through the trees that were grown without it. ``"cross_fit"``: through a forest like it that
        is grown on the other folds. ``"calibration"``: rows that no tree was grown on, through all trees.
        ``"leave_one_out"``: through all trees, less its own label, for a `Forest` whose structure does not depend on
        labels (random decision trees) and which counts exactly these rows (where ``tree_mask`` says).
        ``"auto"``: out-of-bag with a bootstrap and 50 trees, cross-fitted otherwise; leave-one-out for a `Forest`.
    counts
        ``"inbag"``: the counts of the sample that each tree was grown on. ``"both"``: out-of-bag counts beside them,
        less the row's own label, which needs a bootstrap: for rules of both counts.
    sample_weight
        What each row counts: in the loss, and where out-of-bag counts are taken.
    tree_mask
        Which trees count which row, ``[rows trees]``; of ``"leave_one_out"`` only.
    n_folds
        Of ``"cross_fit"``: so many forests are grown.
    max_rows
        Of more rows so many are drawn at random: a rule with a few numbers does not need a million.
    random_state
        Of the folds and the draw.
    allow_leaks
        Do not refuse ``"calibration"`` rows that look like those that the forest was grown on.

    Returns
    -------
    HonestRows

    Raises
    ------
    ValueError, TypeError
        If X, y, weights or mask do not fit each other, a label is unknown or a class of the model has no row, the
        source cannot be had (no bootstrap: the message says what to do), no row has an out-of-bag tree, or calibration
        rows are the sample that the forest was grown on.

    Warns
    -----
    UserWarning
        If some rows are in every tree's bag: they are left out.

    Notes
    -----
    On the host. Rows see only some trees; sums over trees are scaled to all of them. Out-of-bag log loss is within .5 %
    of that on new rows from about 50 trees on; below, cross-fitting is nearer.
    """
    check_one_of("source", source, get_args(Source))
    check_one_of("counts", counts, ("inbag", "both"))
    if max_rows < 1 or n_folds < 2:
        raise ValueError(f"max_rows={max_rows} must be at least 1 and n_folds={n_folds} at least 2.")
    source = _source(model, source)
    labels = _labels_of(model)
    y_position = class_positions(labels, y)
    n = len(y_position)
    weight = as_weights(sample_weight, n)
    absent = [label for c, label in enumerate(labels) if not weight[y_position == c].any()]
    if absent:
        raise ValueError(f"no row is of class {absent[0]!r}: nothing can be learned of it. Pass rows of every class.")
    if tree_mask is not None and source != "leave_one_out":
        raise ValueError(f"tree_mask says which rows a forest counts; source={source!r} needs none.")
    rng = np.random.default_rng(random_state)
    rows = np.arange(n) if n <= max_rows else np.sort(rng.permutation(n)[:max_rows])
    data = _Data(X, np.asarray(y), y_position, weight, sample_weight is not None, rows)
    forest, routed = None, None
    if source == "cross_fit":
        forest, shown = _cross_fitted(model, data, counts, n_folds, random_state)
    elif source == "oob":
        forest, shown, routed = _out_of_bag(model, data, counts)
    elif source == "calibration":
        forest, shown, routed = _calibration(model, data, counts, allow_leaks)
    else:
        forest, shown = _left_out(model, data, counts, tree_mask)
    rows, y_position, weight = rows, y_position[rows], weight[rows]
    if shown.mask is not None and not (seen := shown.mask.any(axis=1)).all():
        if not seen.any():
            raise ValueError("every row is in every tree's bag; grow more trees, or take source='cross_fit'.")
        warn(f"{np.sum(~seen)} of {len(seen)} rows are in every tree's bag and are left out. Use more trees.")
        shown = Shown(shown.table, shown.code[seen], shown.mask[seen])
        y_position, weight = y_position[seen], weight[seen]
        routed = None if routed is None else Routed(routed.forest, routed.X[seen], routed.tree_mask[seen])
    found = histograms(*shown)
    pad, dtype = (0, len(found.code) - len(y_position)), jnp.result_type(float)
    if routed is not None:
        more = lambda array: np.pad(np.asarray(array), (pad, (0, 0)))  # noqa: E731
        mask = None if routed.tree_mask is None else jnp.asarray(more(routed.tree_mask))
        routed = Routed(routed.forest, jnp.asarray(more(routed.X)), mask)
    return HonestRows(
        histograms=found,
        y=jnp.asarray(np.pad(y_position, pad), jnp.int32),
        weight=jnp.asarray(np.pad(weight, pad), dtype),
        n=len(y_position),
        n_trees=forest.n_trees,
        class_labels=labels,
        count_kinds=2 if counts == "both" else 1,
        source=source,
        prior=np.asarray(forest.prior, float),
        routed=routed,
    )


class _Data(NamedTuple):
    X: Any
    y: np.ndarray
    position: np.ndarray
    weight: np.ndarray
    weighted: bool
    rows: np.ndarray

    @property
    def weights(self) -> np.ndarray | None:
        return self.weight if self.weighted else None


def _source(model, source: Source) -> str:
    if isinstance(model, Forest):
        if source in ("auto", "leave_one_out", "calibration"):
            return "leave_one_out" if source == "auto" else source
        raise ValueError(
            f"source={source!r} needs the fitted model, which knows its bags and can be grown again; a Forest has "
            "'leave_one_out' (random trees alone) and 'calibration'."
        )
    if source == "leave_one_out":
        raise ValueError(
            f"source='leave_one_out' takes labels out of counts, but {type(model).__name__} chose its tests by the "
            "labels too: pass a Forest of random trees, or take source='cross_fit'."
        )
    bags = _has_bags(model)
    if source == "auto":
        return "oob" if bags and getattr(model, "n_estimators", 1) >= FEW_TREES else "cross_fit"
    if source == "oob" and not bags:
        raise ValueError(
            f"source='oob' needs trees that leave rows out, and {type(model).__name__} has none (no bootstrap). Take "
            "source='cross_fit', which grows it again on parts of the rows, or fit it with bootstrap=True."
        )
    return source


def _has_bags(model) -> bool:
    return hasattr(type(model), "estimators_samples_") and (
        bool(getattr(model, "bootstrap", True)) or getattr(model, "max_samples", None) not in (None, 1.0)
    )


def _labels_of(model) -> tuple:
    return model.class_labels if isinstance(model, Forest) else tuple(np.asarray(model.classes_).tolist())


def _imported(model) -> Forest:
    from jaxunc.interop import from_sklearn  # brings scikit-learn

    return model if isinstance(model, Forest) else from_sklearn(model)


def _leaves(forest: Forest, X, rows: np.ndarray) -> np.ndarray:
    """Leaf of each row in each tree, part by part."""
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} have no counts of their own. Pass "
            "forest.with_empty_leaves('parent') or 'zeros', and bind the rule to the same."
        )
    values = np.asarray(as_instances(X, forest.trees.columns)[0])
    return np.asarray(leaf_index(forest, values if len(rows) == len(values) else values[rows]))


def _codes(forest: Forest, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(count vectors, the row of them for each leaf)."""
    table, code = forest.leaf_rows()
    code = np.asarray(code)
    return np.asarray(table, np.float64), code[np.arange(len(code)), leaves]


def _without_own(shown: Shown, own: np.ndarray, weight: np.ndarray | None, first: int) -> Shown:
    """The same less one instance of each row's own class, or its weight, in the columns from ``first`` on."""
    table, code, mask = shown
    n_classes = table.shape[1] - first
    by_weight, which = (
        (np.ones(1), np.zeros(len(own), np.int64)) if weight is None else np.unique(weight, return_inverse=True)
    )
    own_number = own + n_classes * which
    number = code.astype(np.int64) * (n_classes * len(by_weight)) + own_number[:, None]
    live = number if mask is None else number[mask]
    size = len(table) * n_classes * len(by_weight)
    if size <= 2**24:
        present = np.zeros(size, bool)
        present[live.ravel()] = True
        kept = np.flatnonzero(present)
        place = (np.cumsum(present, dtype=np.int32) - 1)[number]
    else:
        kept = np.unique(live)
        place = np.minimum(np.searchsorted(kept, number), len(kept) - 1).astype(np.int32)
    rows = table[kept // (n_classes * len(by_weight))].copy()
    own_of, weight_of = kept % n_classes, by_weight[kept // n_classes % len(by_weight)]
    column = first + own_of
    left = rows[np.arange(len(rows)), column] - weight_of
    # What is left of a leaf that held the instance alone is nothing, not a rounding error.
    left = np.where(left <= 1e-6 * weight_of, 0.0, left)
    rows[np.arange(len(rows)), column] = left
    rows, again = distinct_rows(rows)
    return Shown(rows, np.asarray(again)[place], mask)


def _out_of_bag(model, data: _Data, counts: str) -> tuple[Forest, Shown, Routed | None]:
    forest = _imported(model)
    mask = oob_mask(model, len(data.y))
    leaves = _leaves(forest, data.X, data.rows)
    own_mask = mask[data.rows]
    if counts == "inbag":
        table, code = _codes(forest, leaves)
        values = np.asarray(as_instances(data.X, forest.trees.columns)[0])[data.rows]
        return forest, Shown(table, code, own_mask), Routed(forest, values, own_mask)
    counted = counted_forest(forest, model, "oob", data.X, data.y, data.weights)
    both = both_counts(forest, counted.forest)
    shown = Shown(*_codes(both, leaves), own_mask)
    weight = None if counted.sample_weight is None else np.asarray(counted.sample_weight)[data.rows]
    return both, _without_own(shown, data.position[data.rows], weight, forest.n_classes), None


def _left_out(forest: Forest, data: _Data, counts: str, tree_mask) -> tuple[Forest, Shown]:
    if counts != "inbag":
        raise ValueError("a Forest has one kind of counts; counts='both' needs a model with a bootstrap.")
    leaves = _leaves(forest, data.X, data.rows)
    mask = as_mask(tree_mask, len(data.y), forest.n_trees)
    mask = None if mask is None else np.asarray(mask)[data.rows]
    shown = Shown(*_codes(forest, leaves), mask)
    empty = (np.asarray(forest.trees.feature) < 0)[np.arange(forest.n_trees), leaves].any()
    if empty:
        raise ValueError("the forest does not count these rows: some end in empty leaves. Call recount(forest, X, y).")
    own = data.position[data.rows]
    sizes = shown.table[shown.code, own[:, None]]
    least = data.weight[data.rows][:, None]
    if np.any((sizes < least * (1 - 1e-6)) & (True if mask is None else mask)):
        raise ValueError(
            "some row's own label is not among the counts of its leaves: leave_one_out needs a forest that counts "
            "exactly these rows. Call recount(forest, X, y, sample_weight=..., tree_mask=...) first."
        )
    return forest, _without_own(shown, own, data.weight[data.rows] if data.weighted else None, 0)


def _calibration(model, data: _Data, counts: str, allow_leaks: bool) -> tuple[Forest, Shown, Routed | None]:
    forest = _imported(model)
    if counts != ("both" if forest.count_kinds == 2 else "inbag"):
        raise ValueError(
            f"counts={counts!r}, but the forest given holds {forest.count_kinds} kind(s) of counts; for both pass "
            "jaxunc.counting.both_counts(forest, its out-of-bag recount)."
        )
    if not allow_leaks and _was_grown_on(model, forest, data):
        raise ValueError(
            "these rows are the sample that the forest was grown on: its leaves know their labels, and a rule learned "
            "from them would take the forest to be always right. Pass rows that were held out; or source='oob' or "
            "'cross_fit'. (allow_leaks=True learns from them nevertheless.)"
        )
    leaves = _leaves(forest, data.X, data.rows)
    shown = Shown(*_codes(forest, leaves), None)
    if forest.count_kinds != 1:
        return forest, shown, None
    values = np.asarray(as_instances(data.X, forest.trees.columns)[0])[data.rows]
    return forest, shown, Routed(forest, values, None)


def _was_grown_on(model, forest: Forest, data: _Data) -> bool:
    """Whether so many rows give the leaves just these counts, or the model says that it saw so many."""
    from jaxunc.counting import recount

    if forest.count_kinds == 1 and not forest.follows_forks:
        again = recount(forest, data.X, data.y, sample_weight=data.weights)
        if np.allclose(np.asarray(again.counts), np.asarray(forest.counts), rtol=1e-6):
            return True
    if getattr(model, "_n_samples", None) != len(data.y) or not _has_bags(model):
        return False
    # Rows that the trees saw are answered better by the trees whose bags hold them.
    right = _tree_hits(forest, data)
    inside = ~oob_mask(model, len(data.y))[data.rows]
    seen, unseen = right[inside], right[~inside]
    gap, error = seen.mean() - unseen.mean(), np.sqrt(0.25 / max(len(data.rows), 1))
    return bool(gap > max(0.02, 3 * error))


def _tree_hits(forest: Forest, data: _Data) -> np.ndarray:
    table, code = _codes(forest, _leaves(forest, data.X, data.rows))
    return np.argmax(table, axis=1)[code] == data.position[data.rows][:, None]


def _cross_fitted(model, data: _Data, counts: str, n_folds: int, random_state) -> tuple[Forest, Shown]:
    from sklearn.base import clone
    from sklearn.model_selection import KFold, StratifiedKFold

    if counts == "both" and not _has_bags(model):
        raise ValueError(
            f"counts='both' needs out-of-bag counts, and {type(model).__name__} has no bootstrap: take counts='inbag'."
        )
    X = _rows_of(data.X)
    forest = _imported(model)
    if forest.n_classes == 0 or len(data.y) < n_folds:
        raise ValueError(f"{len(data.y)} rows do not make {n_folds} folds.")
    smallest = np.bincount(data.position).min()
    folds: Any = (StratifiedKFold if smallest >= n_folds else KFold)(n_folds, shuffle=True, random_state=random_state)
    tables, codes, start = [], np.zeros((len(data.y), forest.n_trees), np.int64), 0
    for k, (grown_on, held_out) in enumerate(folds.split(np.zeros(len(data.y)), data.position)):
        weights = {} if data.weights is None else {"sample_weight": data.weights[grown_on]}
        again: Any = clone(model)
        if "random_state" in again.get_params() and again.random_state is None:
            again.set_params(random_state=k)
        again.fit(X(grown_on), data.y[grown_on], **weights)
        other = _imported(again)
        if other.class_labels != forest.class_labels:
            raise ValueError("a class is in one fold alone; pass more rows of it, or fewer folds (n_folds).")
        if counts == "both":
            counted = counted_forest(other, again, "oob", X(grown_on), data.y[grown_on], weights.get("sample_weight"))
            other = both_counts(other, counted.forest)
        table, code = _codes(other, _leaves(other, X(held_out), np.arange(len(held_out))))
        codes[held_out] = code + start
        tables.append(table)
        start += len(table)
    rows, place = distinct_rows(np.concatenate(tables))
    return forest, Shown(rows, np.asarray(place)[codes[data.rows]], None)


def _rows_of(X):
    """X by positions, whatever it is."""
    if hasattr(X, "iloc"):
        return lambda rows: X.iloc[rows]
    values = np.asarray(X)
    return lambda rows: values[rows]

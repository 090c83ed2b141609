"""Instances counted into leaves, and the values of ``counts=``: whose rows are counted, and if these suffice.

`counted_forest` makes a fitted model's forest with such counts. Out of bag, rows of every class have to be left out by
enough trees to speak for it (`check_unseen`), and as often as those of the others (`as_many_trees`).
"""

import dataclasses
import math
from inspect import signature
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, check_one_of, check_within, distinct_labels, warn
from jaxunc._numerics import KeptWhileAlive, distinct_counts, narrowest_counts, padded_table
from jaxunc.forest import Forest, Trees, check_is_forest, counts_of_forks
from jaxunc.inference import as_mask, known_plan, leaf_index, leaf_index_on_host, on_tested
from jaxunc.tables import (
    InstancesLike,
    LabelsLike,
    MaskLike,
    NumbersLike,
    SparseRows,
    as_labels,
    class_positions,
    encode_rows,
)

from ._copies import first_of_each
from ._out_of_bag import has_bags, is_ydf_forest, oob_mask, samples_anew, ungrouped_mask

CHUNK = 16384
"""Number of instances whose leaf indices are held at a time."""


def count_leaves(
    forest: Forest | Trees,
    X: InstancesLike,
    y: LabelsLike,
    *,
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    leaves: NumbersLike | None = None,
) -> Forest:
    """Return the same trees with new counts: those of the given instances, in the leaves that they reach.

    Which counts a forest holds decides what its leaves can say. Counts of the sample that a grown-out tree was grown on
    are pure by construction; counts of instances that it has not seen tell how uncertain it is.

    Parameters
    ----------
    forest
        The forest, or trees of any kind.
    X
        Instances, as for `bind`.
    y
        Their labels, among ``forest.class_labels``; of trees alone the distinct labels, sorted, become the classes.
    sample_weight
        Weight of each instance in the counts, ≥ 0; default 1.
    tree_mask
        Whether an instance counts in a tree, ``[instances trees]``: with `oob_mask`, only those that were grown without
        it. Default: all.
    leaves
        The leaf of each instance in each tree, `leaf_index` of X, where it is known: so several countings share one
        routing. Default: X is routed.

    Returns
    -------
    Forest
        With the new counts and, from the same instances, a new ``prior`` and ``n_samples``.

    Raises
    ------
    ValueError
        If X, y, the weights, the mask or the leaves differ in length, or a label is unknown (it is named). If a weight
        is negative or not finite, a leaf is no leaf of its tree, or no instance counts anywhere; of trees alone if
        there is but one label.

    Notes
    -----
    On the host; not differentiable. Instances in an empty leaf (see `Forest.with_empty_leaves`) count in its parent
    alone. Leaves that no instance reaches are empty. Out-of-bag counts are for **new**
    instances: an instance's own label is among the counts of its out-of-bag leaves.
    """
    check_is_forest(forest, or_trees=True)
    trees = forest.trees if isinstance(forest, Forest) else forest
    values = encode_rows(X, trees.columns).values
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    class_labels = forest.class_labels if isinstance(forest, Forest) else _labels_of(y)
    labels = class_positions(class_labels, y)
    n, n_classes = len(values), len(class_labels)
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels for {n} instances; pass one label per instance.")
    tree_mask = as_mask(tree_mask, n, trees.n_trees)
    tree_mask = None if tree_mask is None else np.asarray(tree_mask)
    weights = as_weights(sample_weight, n)
    total = np.bincount(labels, weights=weights, minlength=n_classes)
    if not total.sum() > 0:
        raise ValueError("no instance has a positive weight; there is nothing to count.")
    leaves = None if leaves is None else _checked_leaves(leaves, trees, n)
    counts = _counted(trees, values, leaves, labels, weights, tree_mask, n_classes)
    fork_counts = None
    if trees.forks is not None:
        # Instances in empty leaves are counted in the test itself; the leaves stay empty, as they are for every
        # combiner.
        fork = np.asarray(trees.fork)
        counted = np.zeros((trees.forks.number, n_classes))
        np.add.at(counted, fork[fork >= 0], counts[fork >= 0])
        counted = np.asarray(narrowest_counts(counted))  # as counts are kept
        fork_counts = padded_table(np.asarray(counts_of_forks(trees, counts, counted)))
        counts[fork >= 0] = 0
    table, code = distinct_counts(counts)
    dtype = jnp.result_type(float)
    new = {
        "count_table": table,
        "code": code,
        "fork_counts": fork_counts,
        "further": {},
        "prior": jnp.asarray(total / total.sum(), dtype),
        "n_samples": jnp.asarray(total.sum(), dtype),
    }
    if isinstance(forest, Forest):
        return dataclasses.replace(forest, **new)
    return Forest(trees=trees, class_labels=class_labels, **new)


def _labels_of(y) -> tuple:
    labels = distinct_labels(as_labels(y))[0]
    if len(labels) < 2:
        raise ValueError(f"y holds {len(labels)} label(s), {labels.tolist()}; counts that tell classes apart need two.")
    return tuple(labels.tolist())


def _checked_leaves(leaves, trees: Trees, n: int) -> np.ndarray:
    leaves = np.asarray(leaves)
    if leaves.shape != (n, trees.n_trees) or leaves.dtype.kind not in "iu":
        raise ValueError(
            f"leaves is of {leaves.dtype} and has shape {leaves.shape}; pass leaf_index(trees, X), integers of shape "
            f"{(n, trees.n_trees)} (instances, trees)."
        )
    inside = np.all((leaves >= 0) & (leaves < trees.n_nodes))
    if not (inside and np.asarray(trees.is_leaf)[np.arange(trees.n_trees), leaves].all()):
        raise ValueError("leaves holds nodes that are no leaves of these trees; pass leaf_index(trees, X).")
    return leaves


def _counted(trees: Trees, values, leaves, labels, weights, tree_mask, n_classes: int) -> np.ndarray:
    """Return the counts of every node ``[trees nodes classes]``, in float64."""
    counts, plan = np.zeros((trees.n_trees, trees.n_nodes * n_classes)), None
    narrow, rows = on_tested(trees, values)
    for start in range(0, len(values), CHUNK):
        part = slice(start, start + CHUNK)
        if leaves is None:
            plan = plan or known_plan(narrow)
            here = leaf_index_on_host(narrow, plan, rows[part])
        else:
            here = leaves[part]
        # (leaf, class) as one cell: a tree's counts of a chunk are one bincount.
        cells, row_weights = here * n_classes + labels[part, None], weights[part]
        for tree in range(trees.n_trees):
            counted = row_weights if tree_mask is None else row_weights * tree_mask[part, tree]
            counts[tree] += np.bincount(cells[:, tree], weights=counted, minlength=counts.shape[1])
    return counts.reshape(trees.n_trees, trees.n_nodes, n_classes)


COUNTS = ("inbag", "train", "oob", "held_out")

FEWEST = 5
"""Number of trees without a row, in the mean over the rows of a class, below which they say too little of it."""

MOST = 2000
"""Number of trees up to which more are advised."""

UNEQUAL = 0.8
"""Share of the trees without a row of the class that is out of bag most often, below which classes differ."""


class PureLeavesWarning(UserWarning):
    """Every leaf holds a single class, or a single number, so that it cannot tell how uncertain it is."""


class TooFewUnseenError(ValueError):
    """Rows of some class are in nearly every bag."""


class Counted(NamedTuple):
    """A forest whose leaves count instances by a mode, with the mask and the weights of these counts."""

    forest: Forest
    mask: np.ndarray | None
    """Whether an instance was counted in a tree, ``[instances trees]``; None if each was in all."""
    sample_weight: np.ndarray | None
    """Weight of each instance in the counts; None if all weigh 1."""


def check_counts_mode(counts: str, model, *, has_data: bool = True) -> None:
    """Raise a ValueError unless the forest can have such counts, before the work of fitting it."""
    check_one_of("counts", counts, COUNTS)
    if counts != "inbag" and not has_data:
        raise ValueError(
            f"counts={counts!r} needs data, but the forest came fitted and fit was given none: call fit(X, y) with "
            + ("other instances." if counts == "held_out" else "those that it was fitted on.")
        )
    if counts != "oob":
        return
    name = type(model).__name__
    if not (is_ydf_forest(model) or hasattr(type(model), "estimators_samples_")):
        raise ValueError(
            f"counts='oob' needs a forest with bags, and {name} has none. "
            "Take counts='held_out', or a RandomForestClassifier."
        )
    if reason := samples_anew(model):
        raise ValueError(f"counts='oob': {reason}")
    if not has_bags(model):
        raise ValueError(
            f"counts='oob' needs trees that leave instances out, but {name} has bootstrap=False (or, of YDF, no "
            "out-of-bag evaluations). "
            "Set bootstrap=True, or take counts='held_out'."
        )


class LabelledRows(NamedTuple):
    """Rows that leaves count, and what the caller knows of them."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    """What `oob_mask` takes for groups of rows."""
    mask: np.ndarray | None = None
    """The rows' `oob_mask`, where it is at hand."""
    leaves: Any = None
    """The rows' `leaf_index`, where it is at hand."""


def counted_forest(forest: Forest, model: Any, counts: str, rows: LabelledRows, *, class_weight: Any = None) -> Counted:
    """Return the forest of a fitted model, whose leaves count these rows by the mode ``counts``.

    The mode ``"inbag"`` keeps the model's counts and reads no rows. ``class_weight`` are the class weights that a model
    of another library than scikit-learn was grown with: numbers by position of the class, or ``"balanced"``.
    """
    X, y, sample_weight, groups, mask, leaves = rows
    if counts == "inbag":
        return Counted(forest, None, sample_weight)
    weights = _as_the_forest_weighs(model, forest.class_labels, y, sample_weight, class_weight)
    if counts in ("train", "held_out"):
        return Counted(count_leaves(forest, X, y, sample_weight=weights), None, weights)
    if counts != "oob":
        raise NotImplementedError(f"counts={counts!r}: nothing says which instances these are.")
    mask = oob_mask(model, len(y), X=X, y=y, sample_weight=sample_weight, groups=groups) if mask is None else mask
    ungrouped = ungrouped_mask(model, len(y), X, y)
    position, has_groups = class_positions(forest.class_labels, y), not np.array_equal(mask, ungrouped)
    check_unseen(mask, ungrouped, position, forest.class_labels, sample_weight)
    leaves = leaf_index(forest, X) if leaves is None else leaves
    if not has_groups and (weights is None or len(np.unique(weights[weights > 0])) == 1):
        return Counted(count_leaves(forest, X, y, sample_weight=weights, tree_mask=mask, leaves=leaves), mask, weights)
    # The prior of all instances: that of the out-of-bag ones would weigh classes by how often they are left out.
    weights = np.ones(len(y)) if weights is None else weights
    prior = count_leaves(forest, X, y, sample_weight=weights, leaves=leaves).prior
    weights = _as_often_out_of_bag(weights, position, mask, sample_weight)
    counted = count_leaves(forest, X, y, sample_weight=weights, tree_mask=mask, leaves=leaves)
    return Counted(counted.with_prior(prior), mask, weights)


def held_out_split(y, size, random_state, groups=None) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a fitting part and of a calibration part, with every class in both.

    Rows of one group (a number for each row) go into the same part.
    """
    check_within("held_out_size", size, "(0, 1)", ": the share that is only counted")
    from sklearn.model_selection import train_test_split  # slow to import, and rarely needed

    parts = np.arange(len(y)) if groups is None else first_of_each(groups)
    y = np.asarray(y)
    what = f"{len(y)} rows" if len(parts) == len(y) else f"{len(parts)} groups (groups=, or equal rows)"
    classes, numbers = np.unique(y[parts], return_counts=True)
    # scikit-learn refuses to stratify a class of one instance; such a class is named below, with a remedy.
    stratify = y[parts] if numbers.min(initial=2) >= 2 else None
    try:
        fitted, counted = train_test_split(parts, test_size=size, stratify=stratify, random_state=random_state)
    except ValueError:  # too few instances for one of every class in both parts
        try:
            fitted, counted = train_test_split(parts, test_size=size, random_state=random_state)
        except ValueError as error:
            raise ValueError(
                f"counts='held_out' needs rows to fit the forest and others to be counted, but held_out_size={size} "
                f"puts all of {what} into one part. Pass more of them, change held_out_size, or take counts='oob'."
            ) from error
    if groups is not None:
        fitted, counted = (np.flatnonzero(np.isin(groups, groups[part])) for part in (fitted, counted))
    for part, use in ((fitted, "to fit the forest"), (counted, "to be counted")):
        if len(absent := np.setdiff1d(classes, y[part])):
            raise ValueError(
                f"counts='held_out' leaves no instance of class {absent[0]} {use}: y holds it "
                f"in {numbers[classes == absent[0]][0]} of {what}. Change held_out_size={size}, or take counts='oob'."
            )
    return np.asarray(fitted), np.asarray(counted)


def _as_the_forest_weighs(model, labels: tuple, y, sample_weight, class_weight):
    """Return sample weights times the class weights of the model, which its in-bag counts hold too."""
    position, indices = class_positions(labels, y), np.arange(len(labels))
    of_trees = getattr(getattr(model, "estimator_", None), "class_weight", None)  # of a bag, whose trees know positions
    of_model, names = getattr(model, "class_weight", None), getattr(model, "classes_", indices)
    for weight, classes in ((of_model, names), (of_trees, indices), (class_weight, indices)):
        if weight is not None:
            of_forest = weight is of_model and hasattr(model, "estimators_")
            weight_of_class = _by_class(weight, np.asarray(classes), position, sample_weight, of_forest)
            return weight_of_class[position] if sample_weight is None else weight_of_class[position] * sample_weight
    return sample_weight


def _by_class(class_weight, classes: np.ndarray, position: np.ndarray, sample_weight, of_forest: bool) -> np.ndarray:
    """Return the class weights ``[classes]`` with which a model was grown."""
    from sklearn.utils.class_weight import compute_class_weight  # slow to import, and rarely needed

    if not isinstance(class_weight, str):
        return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), float)
    rows = np.ones(len(position)) if sample_weight is None else np.asarray(sample_weight, float)
    # scikit-learn balances the classes of a forest by weights since 1.9, and those of a tree by rows.
    if not (of_forest and "sample_weight" in signature(compute_class_weight).parameters):
        rows = (rows > 0).astype(float)
    sums = np.bincount(position, rows, len(classes))
    return np.divide(sums.sum(), np.sum(sums > 0) * sums, out=np.ones(len(classes)), where=sums > 0)


def _as_often_out_of_bag(weights, position, mask, sample_weight):
    """Return weights that make up for bags drawn by weight (scikit-learn 1.9): heavy classes are rarely out of them."""
    weights, shares = np.array(weights, float), mask.mean(axis=1)
    rows = np.ones(len(position)) if sample_weight is None else sample_weight
    usual = np.average(shares, weights=rows)
    for c in np.unique(position[rows > 0]):
        in_class = position == c
        weights[in_class] *= usual / max(np.average(shares[in_class], weights=rows[in_class]), 1 / mask.size)
    return weights


_PURE: KeptWhileAlive[bool] = KeptWhileAlive()


def has_pure_leaves(forest: Forest) -> bool:
    """Whether every leaf holds one class alone."""
    table = forest.count_table
    return _PURE.get((table,), None, lambda: bool(np.all(np.sum(np.asarray(table) > 0, axis=1) <= 1)))


def warn_of_one_doubt(forest: Forest) -> None:
    """Warn if leaves are pure, so that doubt cannot be taken apart."""
    if has_pure_leaves(forest):
        warn(
            "every leaf of this forest holds one class alone, so aleatoric doubt is 0 and all doubt is epistemic, "
            "whatever the data are. Take leaves of several rows (min_samples_leaf=5), or other counts: 'oob' or "
            "'held_out', and where trees have bags 'train'.",
            PureLeavesWarning,
        )


def warn_of_pure_leaves(forest: Forest, counts: str) -> None:
    """Warn if the counts of the instances that grew the trees cannot tell how uncertain a leaf is."""
    if counts in ("inbag", "train") and has_pure_leaves(forest):
        warn(
            "every leaf of this forest holds one class alone, since its trees were grown until they did: scores read "
            "from the counts of the instances that grew them are overconfident, and only its size tells a sure leaf "
            "from a lucky one. Take counts='oob' or 'held_out', or larger leaves (min_samples_leaf).",
            PureLeavesWarning,
        )


def shares_of_classes(
    mask: np.ndarray, position: np.ndarray, n_classes: int, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return how often rows of each class are out of bag, ``[classes]``; NaN for classes without rows that weigh."""
    weight = np.ones(len(position)) if weight is None else weight
    numbers = np.bincount(position, weight, n_classes)
    return np.bincount(position, weight * mask.mean(axis=1), n_classes) / np.where(numbers > 0, numbers, np.nan)


def check_unseen(
    mask: np.ndarray, ungrouped: np.ndarray, position: np.ndarray, labels: tuple, weight: np.ndarray | None = None
) -> None:
    """Raise a ValueError if rows of some class are in nearly every bag, while rows of the others are not.

    ``ungrouped`` is the mask of the rows as if each were a group.
    """
    shares, n_trees = shares_of_classes(mask, position, len(labels), weight), mask.shape[1]
    ungrouped_shares = shares_of_classes(ungrouped, position, len(labels), weight)
    usual = max(np.nanmax(ungrouped_shares), np.nanmax(shares))
    numbers = np.bincount(position, minlength=len(labels))
    # Beyond chance, which is large for few rows and few trees: five standard deviations of a class's share.
    least = usual / 2 - 5 * np.sqrt(usual * (1 - usual) / np.maximum(numbers * n_trees, 1))
    few = [c for c, share in enumerate(shares) if share < least[c] and share * n_trees < FEWEST]
    few = few if mask.any() else [int(np.argmax(numbers))]
    if not few:
        return
    never, member = ~mask.any(axis=1), position == few[0]
    by_weight = _BY_WEIGHT if ungrouped_shares[few[0]] < UNEQUAL * usual else ""
    of_groups = _TOGETHER if shares[few[0]] < ungrouped_shares[few[0]] else ""
    # With a margin for chance, where so many do.
    needed = math.ceil(1.2 * FEWEST / shares[few[0]] / 50) * 50 if shares[few[0]] > 0 else math.inf
    advise_on_trees = f"Or grow more trees: about {needed}." if needed <= MOST else "More trees would hardly help."
    raise TooFewUnseenError(
        f"rows of class {labels[few[0]]!r} are out of {shares[few[0]] * n_trees:.2g} of {n_trees} bags in the mean "
        f"({np.sum(never & member)} of {np.sum(member)} of none), where {usual * n_trees:.2g} are usual: too few to "
        f"say how its rows are answered by trees that have not seen them.{by_weight}{of_groups} "
        f"{advise_on_trees} Rows that were held out ('held_out') need no bags."
    )


_BY_WEIGHT = (
    " Bags are drawn by weight (class_weight='balanced' or sample_weight, since scikit-learn 1.9): take "
    "class_weight='balanced_subsample', which draws all rows alike, or no weights."
)

_TOGETHER = (
    " Rows of one group are out of bag only together, the more rarely the larger it is: those that groups= puts "
    "together, and without groups= rows that repeat others. Pass smaller groups, and each row once."
)


def as_many_trees(
    mask: np.ndarray, position: np.ndarray, n_classes: int, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the mask, thinned at random so that rows of all classes have equally many trees in the mean.

    If the number of trees told the class, combiners would learn to read it. Classes that differ little are left.
    """
    shares = shares_of_classes(mask, position, n_classes, weight)
    numbers = np.bincount(position, minlength=n_classes)
    # Beyond chance: five standard deviations of a class's share.
    chance = 5 * np.sqrt(shares * (1 - shares) / np.maximum(numbers * mask.shape[1], 1))
    least, most = np.nanargmin(shares), np.nanargmax(shares)
    if shares[least] + chance[least] >= UNEQUAL * shares[most]:
        return mask
    kept = shares[least] / shares
    return mask & (np.random.default_rng(0).random(mask.shape) < kept[position, None])


def of_classes(kept: np.ndarray, position: np.ndarray, labels: tuple) -> str:
    """Return how many rows of each class are not kept, in brackets; an empty text unless classes clearly differ."""
    sizes, lost = (np.bincount(which, minlength=len(labels)) for which in (position, position[~kept]))
    if lost.max() < 3 or np.all(lost <= 2 * sizes * lost.sum() / sizes.sum()):
        return ""
    return f" ({', '.join(f'{lost[c]} of {sizes[c]} of class {labels[c]!r}' for c in np.argsort(-lost)[:5])})"

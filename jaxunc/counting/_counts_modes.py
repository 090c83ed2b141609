"""Count instances into leaves, by the modes of ``counts=``, which say whose rows are counted.

`counted_forest` makes a fitted model's forest with the counts of a mode. Out-of-bag counts need rows of every class
that enough trees have not seen (`check_enough_unseen`). For learning, rows of all classes get equally many such trees
(`even_out_trees`).
"""

import dataclasses
import math
from inspect import signature
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import (
    as_weights,
    check_one_of,
    check_within,
    distinct_labels,
    is_concrete,
    outside_traces,
    warn,
)
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
from ._out_of_bag import has_bags, is_ydf_forest, oob_mask, reason_against_bags, ungrouped_mask

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
        Labels of the instances, among ``forest.class_labels``. If trees are passed, the distinct labels, sorted, become
        the classes.
    sample_weight
        Weight of each instance in the counts, ≥ 0; default 1.
    tree_mask
        Whether an instance counts in a tree, ``[instances trees]``. With `oob_mask` it counts in the trees that were
        grown without it. Default: in all trees.
    leaves
        The leaf of each instance in each tree, as `leaf_index` of X returns it: so several calls share one routing.
        Default: X is routed.

    Returns
    -------
    Forest
        With the new counts alone, and a new ``prior`` and ``n_samples`` of all instances, whatever the mask.

    Raises
    ------
    TypeError
        If ``forest`` is neither a forest nor trees, or its trees or another argument are traced.
    ValueError
        If X, y, the weights, the mask or the leaves differ in length, or a label is unknown (it is named). If a weight
        is negative or not finite, no weight is positive, or ``leaves`` holds a node that is not a leaf of its tree. If
        trees are passed and y holds a single label.

    Notes
    -----
    On the host; not differentiable. Instances in an empty leaf (see `Forest.with_empty_leaves`) count in its parent
    alone. Leaves that no instance reaches are empty. Out-of-bag counts are for **new** instances: an instance's own
    label is among the counts of its out-of-bag leaves.
    """
    check_is_forest(forest, or_trees=True)
    trees = forest.trees if isinstance(forest, Forest) else forest
    if not is_concrete(trees, X, y, sample_weight, tree_mask, leaves):  # the forest's other arrays are not read
        raise TypeError(
            "an argument of count_leaves is traced, and instances are counted on the host. Count outside of jit, grad "
            "and vmap; inside, arrays that are not traced are counted."
        )
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
    class_sums = np.bincount(labels, weights=weights, minlength=n_classes)
    if not class_sums.sum() > 0:
        raise ValueError("no instance has a positive weight; there is nothing to count.")
    with outside_traces():  # concrete rows are counted at once, also while a program is traced
        leaves = None if leaves is None else _check_leaves(leaves, trees, n)
        counts = _count_in_nodes(trees, values, leaves, labels, weights, tree_mask, n_classes)
        dtype = jnp.result_type(float)
        new_fields = {
            **_count_fields(trees, counts),
            "further": {},
            "prior": jnp.asarray(class_sums / class_sums.sum(), dtype),
            "n_samples": jnp.asarray(class_sums.sum(), dtype),
        }
        if isinstance(forest, Forest):
            return dataclasses.replace(forest, **new_fields)
        return Forest(trees=trees, class_labels=class_labels, **new_fields)


def _count_fields(trees: Trees, counts: np.ndarray) -> dict[str, Any]:
    """Return the fields of a `Forest` that hold the counts of its nodes, ``counts [trees nodes classes]``, by name.

    The counts of empty leaves go to their forks, and become 0 in ``counts`` itself, as every combiner expects it.
    """
    fork_counts = None
    if trees.forks is not None:
        fork = np.asarray(trees.fork)
        is_empty_leaf = fork >= 0
        empty_counts = np.zeros((trees.forks.number, counts.shape[-1]))
        np.add.at(empty_counts, fork[is_empty_leaf], counts[is_empty_leaf])
        empty_counts = np.asarray(narrowest_counts(empty_counts))  # rounded as all counts of a forest are
        fork_counts = padded_table(np.asarray(counts_of_forks(trees, counts, empty_counts)))
        counts[is_empty_leaf] = 0
    table, code = distinct_counts(counts)
    return {"count_table": table, "code": code, "fork_counts": fork_counts}


def _labels_of(y) -> tuple:
    """Return the distinct labels in y, sorted, as a tuple; raise a ValueError if there are fewer than two."""
    labels = distinct_labels(as_labels(y))[0]
    if len(labels) < 2:
        raise ValueError(f"y holds {len(labels)} label(s), {labels.tolist()}; counts that tell classes apart need two.")
    return tuple(labels.tolist())


def _check_leaves(leaves, trees: Trees, n: int) -> np.ndarray:
    """Return ``leaves [n trees]`` as int64; raise a ValueError unless they are integers, and leaves of their trees."""
    leaves = np.asarray(leaves)
    if leaves.shape != (n, trees.n_trees) or leaves.dtype.kind not in "iu":
        raise ValueError(
            f"leaves is of {leaves.dtype} and has shape {leaves.shape}; pass leaf_index(trees, X), integers of shape "
            f"{(n, trees.n_trees)} (instances, trees)."
        )
    inside = np.all((leaves >= 0) & (leaves < trees.n_nodes))
    if not (inside and np.asarray(trees.is_leaf)[np.arange(trees.n_trees), leaves].all()):
        raise ValueError("leaves holds nodes that are no leaves of these trees; pass leaf_index(trees, X).")
    return leaves.astype(np.int64)  # the caller multiplies them by the number of classes


def _count_in_nodes(trees: Trees, values, leaves, labels, weights, tree_mask, n_classes: int) -> np.ndarray:
    """Return the counts of instances in every node, float64 ``[trees nodes classes]``; inner nodes have zeros.

    ``values`` are the encoded instances, which are routed if ``leaves [instances trees]`` is None. ``labels``
    (positions of classes) and ``weights`` are ``[instances]``. ``tree_mask [instances trees]`` says which instance
    counts in which tree; None: in all.
    """
    counts = np.zeros((trees.n_trees, trees.n_nodes * n_classes))
    plan = None
    narrow_trees, rows = on_tested(trees, values)  # without the columns that no tree tests
    for start in range(0, len(values), CHUNK):
        chunk = slice(start, start + CHUNK)
        if leaves is None:
            plan = plan or known_plan(narrow_trees)
            chunk_leaves = leaf_index_on_host(narrow_trees, plan, rows[chunk])
        else:
            chunk_leaves = leaves[chunk]
        # (leaf, class) as one cell: a tree's counts of a chunk are one bincount.
        cells = chunk_leaves * n_classes + labels[chunk, None]
        row_weights = weights[chunk]
        for tree in range(trees.n_trees):
            tree_weights = row_weights if tree_mask is None else row_weights * tree_mask[chunk, tree]
            counts[tree] += np.bincount(cells[:, tree], weights=tree_weights, minlength=counts.shape[1])
    return counts.reshape(trees.n_trees, trees.n_nodes, n_classes)


COUNTS = ("inbag", "train", "oob", "held_out")
"""Modes, in this order: the model's own counts; all rows of the fit; rows out of a tree's bag; rows held out of the
fit."""

FEWEST_TREES = 5
"""Fewest trees that have not seen a row, in the mean over a class's rows; with fewer the class may be refused."""

MOST_TREES = 2000
"""Largest forest that an error message advises."""

UNEQUAL = 0.8
"""How often a class is out of bag, relative to the class that is so most often, below which classes differ."""


class PureLeavesWarning(UserWarning):
    """Every leaf holds a single class, or a single number, so that leaves cannot tell how uncertain they are."""


class TooFewUnseenError(ValueError):
    """Rows of some class are in nearly every bag, so that too few trees have not seen them."""


class Counted(NamedTuple):
    """A forest whose leaves count instances by a mode of ``counts=``, with the mask and the weights of these counts."""

    forest: Forest
    mask: np.ndarray | None
    """Whether an instance was counted in a tree, ``[instances trees]``; None if each was counted in all trees."""
    sample_weight: np.ndarray | None
    """Weight of each instance in the counts; None if all weigh 1."""


def check_counts_mode(counts: str, model, *, has_data: bool = True) -> None:
    """Raise a ValueError unless the forest of ``model``, fitted or not, can have counts of the mode ``counts``.

    ``has_data`` is False if there are no rows to count.
    """
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
    if reason := reason_against_bags(model):
        raise ValueError(f"counts='oob': {reason}")
    if not has_bags(model):
        raise ValueError(
            f"counts='oob' needs trees that leave instances out, but {name} has bootstrap=False (or, of YDF, no "
            "out-of-bag evaluations). "
            "Set bootstrap=True, or take counts='held_out'."
        )


class LabelledRows(NamedTuple):
    """Rows to count in leaves: instances X and labels y, weights, groups, and what the caller has computed before."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    """Labels of groups of rows, as for `oob_mask`."""
    mask: np.ndarray | None = None
    """The rows' `oob_mask`; None if it is not computed yet."""
    leaves: Any = None
    """The rows' `leaf_index`; None if it is not computed yet."""


def counted_forest(forest: Forest, model: Any, counts: str, rows: LabelledRows, *, class_weight: Any = None) -> Counted:
    """Return a fitted model's forest with leaves that count ``rows`` by the mode ``counts``.

    The mode ``"inbag"`` keeps the forest's counts and reads no rows. ``class_weight`` has the class weights with which
    a library other than scikit-learn grew the model: numbers by the position of the class, or ``"balanced"``.
    """
    X, y, sample_weight, groups, mask, leaves = rows
    if counts == "inbag":
        return Counted(forest, mask=None, sample_weight=sample_weight)
    weights = _weights_of_forest(model, forest.class_labels, y, sample_weight, class_weight)
    if counts in ("train", "held_out"):
        return Counted(count_leaves(forest, X, y, sample_weight=weights), mask=None, sample_weight=weights)
    if counts != "oob":
        raise NotImplementedError(f"counts={counts!r}: nothing says which instances these are.")
    if mask is None:
        mask = oob_mask(model, len(y), X=X, y=y, sample_weight=sample_weight, groups=groups)
    ungrouped = ungrouped_mask(model, len(y), X, y)
    position = class_positions(forest.class_labels, y)
    has_groups = not np.array_equal(mask, ungrouped)
    check_enough_unseen(mask, ungrouped, position, forest.class_labels, sample_weight)
    leaves = leaf_index(forest, X) if leaves is None else leaves
    weigh_alike = weights is None or len(np.unique(weights[weights > 0])) == 1
    if not has_groups and weigh_alike:  # then all classes are out of bag equally often
        counted = count_leaves(forest, X, y, sample_weight=weights, tree_mask=mask, leaves=leaves)
        return Counted(counted, mask, weights)
    # The prior is that of all instances. The weights below depend on how often a class is out of bag.
    weights = np.ones(len(y)) if weights is None else weights
    prior = count_leaves(forest, X, y, sample_weight=weights, leaves=leaves).prior
    weights = _balance_classes(weights, position, mask, sample_weight)
    counted = count_leaves(forest, X, y, sample_weight=weights, tree_mask=mask, leaves=leaves)
    return Counted(counted.with_prior(prior), mask, weights)


def held_out_split(y, size, random_state, groups=None) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random: return the positions of the rows to fit a forest on, and of the other rows, to be counted.

    ``y [rows]`` holds the labels, ``size`` is the share of rows to count, and ``random_state`` the seed, as for
    scikit-learn. ``groups [rows]`` has the number of each row's group, whose rows stay together; None: no groups.
    Raises a ValueError if a class is missing from either array.
    """
    check_within("held_out_size", size, "(0, 1)", ": the share that is only counted")
    from sklearn.model_selection import train_test_split  # slow to import, and rarely needed

    candidates = np.arange(len(y)) if groups is None else first_of_each(groups)
    y = np.asarray(y)
    units = f"{len(y)} rows" if len(candidates) == len(y) else f"{len(candidates)} groups (groups=, or equal rows)"
    # scikit-learn refuses to stratify a class of one instance; such a class is named below, with a remedy.
    class_sizes = np.unique(y[candidates], return_counts=True)[1]
    stratify = y[candidates] if class_sizes.min(initial=2) >= 2 else None
    try:
        fitted, counted = train_test_split(candidates, test_size=size, stratify=stratify, random_state=random_state)
    except ValueError:  # too few instances for one of every class in both parts
        try:
            fitted, counted = train_test_split(candidates, test_size=size, random_state=random_state)
        except ValueError as error:
            raise ValueError(
                f"counts='held_out' needs rows to fit the forest and others to be counted, but held_out_size={size} "
                f"puts all of {units} into one part. Pass more of them, change held_out_size, or take counts='oob'."
            ) from error
    if groups is not None:  # from the first rows of groups to all rows of these groups
        fitted = np.flatnonzero(np.isin(groups, groups[fitted]))
        counted = np.flatnonzero(np.isin(groups, groups[counted]))
    for positions, use in ((fitted, "to fit the forest"), (counted, "to be counted")):
        if len(absent_classes := np.setdiff1d(y, y[positions])):
            in_class = y == absent_classes[0]
            n_units = np.sum(in_class) if groups is None else len(np.unique(groups[in_class]))
            raise ValueError(
                f"counts='held_out' leaves no instance of class {absent_classes[0]} {use}: y holds it "
                f"in {n_units} of {units}. Change held_out_size={size}, or take counts='oob'."
            )
    return np.asarray(fitted), np.asarray(counted)


def _weights_of_forest(model, labels: tuple, y, sample_weight, class_weight):
    """Return the weight of each row in the model's in-bag counts ``[rows]``: sample weight times class weight.

    ``y`` holds the rows' labels, and ``labels`` those of the classes. Class weights are the model's, else those of its
    trees, else ``class_weight``. Without any of these, return ``sample_weight`` as it is, None included.
    """
    position = class_positions(labels, y)
    classes = np.arange(len(labels))
    of_forest = False
    if getattr(model, "class_weight", None) is not None:
        setting = model.class_weight
        classes = np.asarray(getattr(model, "classes_", classes))
        of_forest = hasattr(model, "estimators_")
    else:
        # The trees of a BaggingClassifier know classes by their positions, and so does ``class_weight``.
        tree_setting = getattr(getattr(model, "estimator_", None), "class_weight", None)
        setting = class_weight if tree_setting is None else tree_setting
    if setting is None:
        return sample_weight
    weight_of_class = _class_weights(setting, classes, position, sample_weight, of_forest)
    return weight_of_class[position] if sample_weight is None else weight_of_class[position] * sample_weight


def _class_weights(
    class_weight, classes: np.ndarray, position: np.ndarray, sample_weight, of_forest: bool
) -> np.ndarray:
    """Return the weight of each class ``[classes]`` by ``class_weight``, a parameter as of scikit-learn's classifiers.

    ``classes`` has the names by which ``class_weight`` knows the classes, and ``position [rows]`` each row's class.
    ``of_forest`` says whether the parameter is a forest's.
    """
    from sklearn.utils.class_weight import compute_class_weight  # slow to import, and rarely needed

    if not isinstance(class_weight, str):
        return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), float)
    row_weights = np.ones(len(position)) if sample_weight is None else np.asarray(sample_weight, float)
    # scikit-learn balances the classes of a forest by weights since 1.9, and those of a tree by rows.
    if not (of_forest and "sample_weight" in signature(compute_class_weight).parameters):
        row_weights = (row_weights > 0).astype(float)
    # "balanced": all classes with rows get the same total weight.
    class_sums = np.bincount(position, row_weights, len(classes))
    has_rows = class_sums > 0
    return np.divide(class_sums.sum(), np.sum(has_rows) * class_sums, out=np.ones(len(classes)), where=has_rows)


def _balance_classes(weights, position, mask, sample_weight):
    """Return ``weights [rows]``, scaled by class so that rows count as if classes were out of bag equally often.

    Since scikit-learn 1.9 bags are drawn by weight, so that rows of heavy classes are rarely out of a bag. ``position
    [rows]`` has each row's class, and ``mask [rows trees]`` is True where the tree has not seen the row.
    ``sample_weight`` (None: 1) weighs rows in the mean over a class.
    """
    weights = np.array(weights, float)
    shares = mask.mean(axis=1)  # share of the trees that have not seen a row
    row_weight = np.ones(len(position)) if sample_weight is None else sample_weight
    mean_share = np.average(shares, weights=row_weight)
    for c in np.unique(position[row_weight > 0]):
        in_class = position == c
        class_share = np.average(shares[in_class], weights=row_weight[in_class])
        # A class that is in every bag gets the least share above 0 that a mask can have.
        weights[in_class] *= mean_share / max(class_share, 1 / mask.size)
    return weights


_PURE: KeptWhileAlive[bool] = KeptWhileAlive()


def has_pure_leaves(forest: Forest) -> bool:
    """Return whether each leaf holds a single class, or is empty."""
    table = forest.count_table
    return _PURE.get((table,), None, lambda: bool(np.all(np.sum(np.asarray(table) > 0, axis=1) <= 1)))


def warn_of_one_doubt(forest: Forest) -> None:
    """Warn if all leaves are pure, so that all doubt is epistemic."""
    if has_pure_leaves(forest):
        warn(
            "every leaf of this forest holds one class alone, so aleatoric doubt is 0 and all doubt is epistemic, "
            "whatever the data are. Take leaves of several rows (min_samples_leaf=5), or other counts: 'oob' or "
            "'held_out', and where trees have bags 'train'.",
            PureLeavesWarning,
        )


def warn_of_pure_leaves(forest: Forest, counts: str) -> None:
    """Warn if all leaves are pure, and ``counts`` is a mode that counts the instances on which the trees were grown."""
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
    """Return, for each class, the mean over its rows of the share of trees that have not seen a row ``[classes]``.

    A class without rows of positive weight has NaN. ``mask [rows trees]`` is True where the tree has not seen the row,
    ``position [rows]`` has each row's class, and ``weight [rows]`` (None: 1) weighs rows in the mean.
    """
    weight = np.ones(len(position)) if weight is None else weight
    class_sums = np.bincount(position, weight, n_classes)
    return np.bincount(position, weight * mask.mean(axis=1), n_classes) / np.where(class_sums > 0, class_sums, np.nan)


def check_enough_unseen(
    mask: np.ndarray, ungrouped: np.ndarray, position: np.ndarray, labels: tuple, weight: np.ndarray | None = None
) -> None:
    """Raise a `TooFewUnseenError` if rows of some class, unlike those of another, are in nearly every bag.

    Raise it, too, if all rows are in every bag. ``mask [rows trees]`` is True where the tree has not seen the row;
    ``ungrouped`` is the mask that would hold if each row were a group by itself. ``position [rows]`` has each row's
    class, ``weight [rows]`` its weight (None: 1), and ``labels`` are the classes' labels.
    """
    n_trees = mask.shape[1]
    shares = shares_of_classes(mask, position, len(labels), weight)
    ungrouped_shares = shares_of_classes(ungrouped, position, len(labels), weight)
    usual_share = max(np.nanmax(ungrouped_shares), np.nanmax(shares))
    class_sizes = np.bincount(position, minlength=len(labels))
    # Less than half the usual share by five standard deviations, since chance is large for few rows and few trees.
    deviation = np.sqrt(usual_share * (1 - usual_share) / np.maximum(class_sizes * n_trees, 1))
    is_rarer = shares < usual_share / 2 - 5 * deviation
    has_too_few = is_rarer & (shares * n_trees < FEWEST_TREES)
    if mask.any() and not has_too_few.any():
        return
    # The class that the error names: the first with too few trees, or the largest if all rows are in every bag.
    c = int(np.argmax(has_too_few if mask.any() else class_sizes))
    in_class = position == c
    in_every_bag = ~mask.any(axis=1)
    raise TooFewUnseenError(
        f"rows of class {labels[c]!r} are out of {shares[c] * n_trees:.2g} of {n_trees} bags in the mean "
        f"({np.sum(in_every_bag & in_class)} of {np.sum(in_class)} of none), where {usual_share * n_trees:.2g} are "
        "usual: too few to say how its rows are answered by trees that have not seen them."
        f"{_advise_on_unseen(shares[c], ungrouped_shares[c], usual_share)} "
        "Rows that were held out ('held_out') need no bags."
    )


def _advise_on_unseen(share: float, ungrouped_share: float, usual_share: float) -> str:
    """Return advice, as text, for a class whose rows are in nearly every bag.

    ``share`` is the share of the trees that have not seen a row, in the mean over the class. ``ungrouped_share`` is
    what it would be if each row were a group by itself, and ``usual_share`` the largest such share of any class.
    """
    advice = ""
    if ungrouped_share < UNEQUAL * usual_share:
        advice += _BY_WEIGHT
    if share < ungrouped_share:
        advice += _TOGETHER
    # A fifth more trees than suffice in the mean, rounded up to 50.
    n_needed = math.ceil(1.2 * FEWEST_TREES / share / 50) * 50 if share > 0 else math.inf
    if n_needed <= MOST_TREES:
        return f"{advice} Or grow more trees: about {n_needed}."
    return f"{advice} More trees would hardly help."


_BY_WEIGHT = (
    " Bags are drawn by weight (class_weight='balanced' or sample_weight, since scikit-learn 1.9): take "
    "class_weight='balanced_subsample', which draws all rows alike, or no weights."
)

_TOGETHER = (
    " Rows of one group are out of bag only together, the more rarely the larger it is: those that groups= puts "
    "together, and without groups= rows that repeat others. Pass smaller groups, and each row once."
)


def even_out_trees(
    mask: np.ndarray, position: np.ndarray, n_classes: int, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return ``mask`` with entries set to False at random, so that rows of all classes have equally many trees.

    Otherwise combiners could learn a row's class from its number of trees. ``mask [rows trees]`` is True where the tree
    has not seen the row, and ``position [rows]`` has each row's class. The number of trees is the mean over the rows of
    a class, by ``weight [rows]`` (None: 1). A mask whose classes differ little is returned as it is.
    """
    shares = shares_of_classes(mask, position, n_classes, weight)
    class_sizes = np.bincount(position, minlength=n_classes)
    # Five standard deviations of a class's share: what chance may explain.
    chance = 5 * np.sqrt(shares * (1 - shares) / np.maximum(class_sizes * mask.shape[1], 1))
    rarest_class = np.nanargmin(shares)
    if shares[rarest_class] + chance[rarest_class] >= UNEQUAL * np.nanmax(shares):
        return mask
    kept_share = shares[rarest_class] / shares
    return mask & (np.random.default_rng(0).random(mask.shape) < kept_share[position, None])


def describe_lost_rows(kept: np.ndarray, position: np.ndarray, labels: tuple) -> str:
    """Return how many rows of which class are not kept, as text in brackets; "" unless classes clearly differ in it.

    ``kept [rows]`` says whether a row is kept, ``position [rows]`` has its class, and ``labels`` the classes' labels.
    """
    sizes = np.bincount(position, minlength=len(labels))
    n_lost = np.bincount(position[~kept], minlength=len(labels))
    # Classes clearly differ if one has lost three rows or more, and twice the share of rows that all have lost.
    if n_lost.max() < 3 or np.all(n_lost <= 2 * sizes * n_lost.sum() / sizes.sum()):
        return ""
    worst_classes = np.argsort(-n_lost)[:5]
    return f" ({', '.join(f'{n_lost[c]} of {sizes[c]} of class {labels[c]!r}' for c in worst_classes)})"

"""Importer of treelite's models, and so of all that treelite and cuML import or train.

`_Reader` reads a serialised model of format 4: arrays, each behind its length. The trees become a `Forest` if leaves
hold class probabilities and say how many instances they rest on (`_counts`), else an `AdditiveTrees`.
"""

import json
import struct
from typing import Any, NamedTuple

import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest, snap_to_integers
from jaxunc.tables import Columns

from ._comparing_trees import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    IN_SET,
    NOT_IN_SET,
    ComparingTree,
    check_number_of_columns,
    ensemble_of,
    forest_of,
    trees_of_stage,
    widen_values,
)
from ._documents import GIVEN, content_of, warn_if_newer

_OLDEST = (4, 8)  # the first version of treelite whose models are read
_COMPARE = np.array([-1, EQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST])  # by the file's numbers of comparisons
_LINKS = {  # by postprocessor
    **dict.fromkeys(("identity", "identity_multiclass"), "identity"),
    **dict.fromkeys(("sigmoid", "multiclass_ova"), "logistic"),
    **dict.fromkeys(("exponential", "exponential_standard_ratio"), "exp"),
    "softmax": "softmax",
}
_TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")  # by number
_FLOATS = {2: np.dtype("<f4"), 3: np.dtype("<f8")}  # by the file's numbers of types
_MOST_INSTANCES = 1e30  # of all leaves together: their counts are float32
_LARGEST_CATEGORY = {4: 2.0**24, 8: 2.0**32 - 1}  # by the number of bytes of a threshold


class TreeliteModel(NamedTuple):
    """The header of a model file; fields have treelite's names."""

    threshold_type: np.dtype
    leaf_type: np.dtype
    num_feature: int
    task: str
    average: bool  # whether leaf values are divided by the number of trees of their output
    num_class: np.ndarray  # number of classes of each target
    leaf_shape: np.ndarray  # (targets, classes) for which a leaf has values
    target_id: np.ndarray  # target that each tree adds to; -1 for all
    class_id: np.ndarray  # class that each tree adds to; -1 for all
    postprocessor: str
    sigmoid_alpha: float
    ratio_c: float
    base_scores: np.ndarray
    attributes: dict[str, Any]  # JSON in the model, such as what `to_treelite` writes; empty without any

    @property
    def n_outputs(self) -> int:
        """Number of sums: one for each target, or for each class of a single target."""
        return len(self.base_scores)


class _Statistics(NamedTuple):
    """What a file says of the instances that a tree was grown on, ``[nodes]``; None if some leaf lacks it."""

    data_count: np.ndarray | None  # numbers of instances
    sum_hess: np.ndarray | None  # sums of weights


def from_treelite(model: Any) -> Forest | AdditiveTrees:
    """Import a treelite model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A ``treelite.Model``, or what its ``serialize`` or ``serialize_bytes`` wrote, as a path or bytes. treelite is
        not needed for these. Written by treelite 4.8 or later.

    Returns
    -------
    Forest or AdditiveTrees
        A `Forest` with the model's counts, if leaves hold class probabilities and the numbers of their instances, as in
        classifiers of scikit-learn and cuML. Everything else is an `AdditiveTrees`. Columns have no names.
        Classes have the labels that `to_treelite` wrote, as JSON has them, and else 0, 1, …: treelite itself keeps
        none. Nor does it keep stages of parallel trees: unless `to_treelite` wrote them, the order of trees tells them.

    Raises
    ------
    TypeError
        If ``model`` is of another kind.
    ValueError
        If the file is damaged or was written by a treelite before 4.8, which lost where missing values go in
        scikit-learn's trees. Also if the model has parts that are not imported, which are named: other
        postprocessors, several targets with several classes each.

    Warns
    -----
    UntestedVersionWarning
        If a treelite wrote the model that is newer than those tested.

    Notes
    -----
    Models with float64 thresholds compare float64, others float32. scikit-learn rounds its data to float32 first, and
    treelite does not: hand float32 to a model made from it. A category is a number's integer part, as in treelite.
    What a sparse matrix does not store is missing, as it is there (`Columns.absent_is_missing`).

    If a postprocessor scales sums (``sigmoid_alpha``, ``ratio_c``), ``raw`` has the scaled sums. Class probabilities of
    ``multiclass_ova`` do not add to 1, in treelite or here.
    """
    if hasattr(model, "serialize_bytes"):
        model = model.serialize_bytes()
    if not isinstance(model, GIVEN):
        raise TypeError(f"model is a {type(model).__name__}; pass a treelite.Model, or a file or bytes of serialize.")
    # Damaged files may hold any numbers; values that are not finite are refused later, by an error.
    with np.errstate(all="ignore"):
        return _of_file(content_of(model))


def _of_file(content: bytes) -> Forest | AdditiveTrees:
    """Return the model in a file's ``content``: a forest if leaves hold counts (`_counts`), else additive trees."""
    reader = _Reader(content)
    header, n_trees = reader.header()
    outputs = _outputs(header, n_trees)
    trees, statistics = [], []
    for t, tree_outputs in enumerate(outputs):
        tree, statistic = reader.tree(f"tree {t}", header, tree_outputs)
        trees.append(tree)
        statistics.append(statistic)
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the treelite model's end.")
    cuts = (None,) * header.num_feature if header.threshold_type.itemsize == 8 else None  # not None: compare float64
    # treelite takes what a sparse matrix does not store for missing.
    columns = Columns(header.num_feature, cuts=cuts, absent_is_missing=True)
    if (counts := _counts(header, trees, statistics)) is not None:
        return _counted_forest(trees, counts, columns, _labels(header, header.n_outputs))
    link, scale = _link(header)
    tree_values = _values_to_add(header, [tree.leaf_values for tree in trees], outputs)
    return ensemble_of(
        [tree._replace(leaf_values=values * scale) for tree, values in zip(trees, tree_values, strict=True)],
        columns,
        header.base_scores * scale,
        link,
        trees_per_stage=_trees_per_stage(header, outputs),
        class_labels=_class_labels(header, link),
        averaged=header.average or header.attributes.get("averaged") is True,
    )


def _counted_forest(
    trees: list[ComparingTree], counts: list[np.ndarray], columns: Columns, labels: tuple[Any, ...]
) -> Forest:
    """Return the forest of ``trees`` whose leaves hold ``counts``, an array ``[nodes classes]`` for each tree.

    ``labels`` are the labels of the classes. A ValueError for more instances than float32 can count.
    """
    total = sum(float(tree_counts.sum()) for tree_counts in counts)
    if not total < _MOST_INSTANCES:
        raise ValueError(f"the model's leaves claim {total:.3g} instances, which float32 cannot count.")
    counted_trees = [tree._replace(leaf_values=tree_counts) for tree, tree_counts in zip(trees, counts, strict=True)]
    return forest_of(counted_trees, columns, labels)


def _outputs(header: TreeliteModel, n_trees: int) -> list[np.ndarray]:
    """Return, for each of ``n_trees``, the indices of the outputs that the tree adds to: targets, or classes of one.

    A ValueError if the ``header``'s targets and classes do not fit together, or are several of both.
    """
    classes = header.num_class
    n_targets = len(classes)
    if not n_trees or not header.num_feature > 0 or n_targets < 1 or classes.min() < 1:
        raise ValueError("the treelite model has no trees, no columns, or no outputs.")
    if n_targets > 1 and classes.max() > 1:
        raise ValueError(f"the model has {n_targets} targets with several classes; fit one model for each target.")
    n_outputs = n_targets * int(classes.max())
    if header.n_outputs != n_outputs:
        raise ValueError(f"the model has {header.n_outputs} base scores for {n_outputs} outputs.")
    target, of_class = header.target_id, header.class_id
    if target.min() < -1 or target.max() >= n_targets or of_class.min() < -1 or of_class.max() >= classes.max():
        raise ValueError("the model has trees for targets or classes that there are not.")
    output_index = np.arange(n_outputs).reshape(n_targets, -1)  # [targets classes]
    outputs = []
    for t, c in zip(target.tolist(), of_class.tolist(), strict=True):
        # -1 stands for all targets, or for all classes.
        targets = slice(None) if t == -1 else [t]
        tree_classes = slice(None) if c == -1 else [c]
        outputs.append(output_index[targets][:, tree_classes].ravel())
    return outputs


class _Reader:
    """A reader of a model's bytes, front to back; ``at`` is the position of the next byte."""

    def __init__(self, content: bytes):
        self._content = content
        self.at = 0

    def header(self) -> tuple[TreeliteModel, int]:
        """Return (header, number of trees), read from the first bytes of the model.

        A ValueError for formats other than 4, a treelite before 4.8, and lists that do not fit together.
        """
        version = self._struct("<iii")
        if version[0] != 4:
            raise ValueError(
                f"the treelite model has the format {version[0]}; from_treelite reads 4. Is the file whole?"
            )
        threshold_type, leaf_type = (_FLOATS.get(kind) for kind in self._struct("<BB"))
        (n_trees,) = self._struct("<Q")
        num_feature, task, average, num_target = self._struct("<iB?i")
        num_class, leaf_shape, target_id, class_id = (self._array("<i4") for _ in range(4))
        postprocessor = self._array("<u1").tobytes().decode("utf-8", "replace")
        sigmoid_alpha, ratio_c = self._struct("<ff")
        base_scores = self._array("<f8")
        attributes = _written_attributes(self._array("<u1").tobytes())
        self._check_no_fields("model")
        if threshold_type is None or leaf_type is None or task >= len(_TASKS) or len(num_class) != num_target:
            raise ValueError("the treelite model has types, a task or targets that are unknown. Is the file whole?")
        if not len(target_id) == len(class_id) == n_trees:
            raise ValueError(f"the treelite model has {n_trees} trees, but {len(target_id)} targets of trees.")
        if version[:2] < _OLDEST:
            raise ValueError(
                f"the model was written by treelite {'.'.join(map(str, version))}; before 4.8 scikit-learn's trees "
                "lost where missing values go. Import the original into a newer treelite and write it again."
            )
        warn_if_newer("treelite", version)
        check_number_of_columns(num_feature)
        header = TreeliteModel(
            threshold_type, leaf_type, num_feature, _TASKS[task], average, num_class, leaf_shape, target_id,
            class_id, postprocessor, sigmoid_alpha, ratio_c, base_scores, attributes,
        )  # fmt: skip
        return header, n_trees

    def tree(self, what: str, header: TreeliteModel, outputs: np.ndarray) -> tuple[ComparingTree, _Statistics]:
        """Read the next tree; return (the tree, statistics of the instances that its nodes were grown on).

        Its leaves hold a value for each of ``outputs``. A ValueError, which calls it ``what``, if arrays do not fit.
        """
        n_nodes, _ = self._struct("<i?")  # the second is whether it tests categories
        dtypes = ("<i1", "<i4", "<i4", "<i4", "?", header.leaf_type, header.threshold_type, "<i1", "?")
        arrays = [self._array(dtype) for dtype in dtypes]
        # Vectors of all nodes in one array, and where each node's begins and ends; likewise categories.
        vectors = self._array(header.leaf_type), self._array("<u8"), self._array("<u8")
        categories = self._array("<u4"), self._array("<u8"), self._array("<u8")
        # Numbers of instances, sums of weights, and gains: each as (values of nodes, whether each node has one).
        statistics = [(self._array(dtype), self._array("?")) for dtype in ("<u8", "<f8", "<f8")]
        # Fields of the tree, then fields of its nodes.
        self._check_no_fields(what)
        self._check_no_fields(what)
        ends = (*vectors[1:], *categories[1:])
        if n_nodes < 1 or any(len(array) != n_nodes for array in (*arrays, *ends)):
            raise ValueError(f"{what} has {n_nodes} nodes, but arrays of other lengths.")
        for content, first, end in (vectors, categories):
            if np.any(first > end) or np.any(end > len(content)):
                raise ValueError(f"{what} has vectors or categories that do not lie in their array.")
        kind, left, right, feature, default_left, leaf_value, threshold, compare, categories_right = arrays
        is_leaf, is_comparison, is_set = kind == 0, kind == 1, kind == 2
        if np.any((left < 0) != is_leaf) or np.any((kind < 0) | (kind > 2)):
            raise ValueError("the treelite model has leaves with children, or nodes of an unknown kind.")
        if np.any((compare[is_comparison] < 1) | (compare[is_comparison] > 5)):
            raise ValueError("the treelite model has an unknown comparison.")
        compare_set = np.where(categories_right, NOT_IN_SET, IN_SET)
        compare = np.where(is_set, compare_set, _COMPARE[np.clip(compare, 0, 5)])
        content, first, end = categories
        sets = {}
        for node in np.flatnonzero(is_set).tolist():
            node_categories = np.unique(content[first[node] : end[node]]).astype(np.float64)
            sets[node] = _set(node_categories, header.threshold_type.itemsize)
        tree = ComparingTree(
            feature=feature.astype(np.int64),
            compare=compare,
            value=threshold.astype(np.float64),  # float32 thresholds keep their value
            left=left.astype(np.int64),
            right=right.astype(np.int64),
            missing_left=default_left.astype(bool),
            sets=sets,
            leaf_values=_leaf_values(what, is_leaf, leaf_value, vectors, header, outputs),
        )
        # Of these three the gains are not needed, and another only if every leaf has it.
        counts = [
            array if len(array) == len(is_present) == n_nodes and is_present[is_leaf].all() else None
            for array, is_present in statistics[:2]
        ]
        return tree, _Statistics(*counts)

    def _take(self, size: int) -> memoryview:
        """Return the next ``size`` bytes; a ValueError if there are fewer."""
        if self.at + size > len(self._content):
            raise ValueError(f"the treelite model is cut off: {size} bytes are needed at {self.at}.")
        self.at += size
        return memoryview(self._content)[self.at - size : self.at]

    def _struct(self, kinds: str) -> tuple:
        """Return the next values, whose types are ``kinds``, a format of `struct.unpack`."""
        return struct.unpack(kinds, self._take(struct.calcsize(kinds)))

    def _array(self, kind: str | np.dtype) -> np.ndarray:
        """Return the next array, of the dtype ``kind``; its length stands before it in 8 bytes."""
        dtype = np.dtype(kind)
        (length,) = self._struct("<Q")
        raw = self._take(length * dtype.itemsize)
        # A byte that is neither 0 nor 1 is no bool.
        return np.frombuffer(raw, np.uint8) != 0 if dtype.kind == "b" else np.frombuffer(raw, dtype)

    def _check_no_fields(self, what: str) -> None:
        """Raise a ValueError, which names ``what``, if optional fields follow; no tested version writes any."""
        if (number := self._struct("<i")[0]) != 0:
            raise ValueError(f"{what} has {number} optional fields, which this version of jaxunc does not know.")


def _set(categories: np.ndarray, itemsize: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the set of numbers whose integer parts are ``categories``, as (first numbers, ends) of intervals.

    ``itemsize`` is the number of bytes of a threshold, 4 or 8. Categories that are too large for it are left out.
    """
    largest = _LARGEST_CATEGORY[itemsize]
    categories = categories[categories <= largest]
    # Numbers above the largest category are in none: its interval holds it alone.
    return categories, np.where(categories == largest, np.nextafter(categories, np.inf), categories + 1)


def _leaf_values(
    what: str, is_leaf: np.ndarray, single: np.ndarray, vectors: tuple, header: TreeliteModel, outputs: np.ndarray
) -> np.ndarray:
    """Return the leaf values ``[nodes outputs]`` of a tree for its ``outputs``, as float64.

    Leaves hold either a number each, ``single [nodes]``, or vectors. ``vectors`` are (the numbers of all vectors, where
    each node's vector begins among them, where it ends). A ValueError, which calls the tree ``what``, if leaves hold
    other vectors than the ``header`` says.
    """
    content, first, end = vectors
    leaf_lengths = (end - first).astype(np.int64)[is_leaf]
    if not leaf_lengths.any():  # no leaf has a vector
        values = single[:, None]
    else:
        if np.any(leaf_lengths != len(outputs)) or len(outputs) != np.prod(header.leaf_shape.astype(np.int64)):
            lengths = np.unique(leaf_lengths)[:3].tolist()
            raise ValueError(f"{what} has leaves of {lengths} values for {len(outputs)} outputs.")
        values = np.zeros((len(is_leaf), len(outputs)), content.dtype)
        leaf_positions = first[is_leaf].astype(np.int64)[:, None] + np.arange(len(outputs))  # in ``content``
        values[is_leaf] = content[leaf_positions]
    if values.shape[1] != len(outputs):
        raise ValueError(f"{what} has leaves of one value for {len(outputs)} outputs.")
    return values.astype(np.float64)


def _counts(header: TreeliteModel, trees: list[ComparingTree], stats: list[_Statistics]) -> list[np.ndarray] | None:
    """Return each tree's class counts ``[nodes classes]``: probabilities of its leaves times numbers of instances.

    None unless leaves hold class probabilities, and counts follow from these and ``stats``, the trees' statistics.
    """
    if not _averages_probabilities(header):
        return None
    counts = []
    for tree, statistic in zip(trees, stats, strict=True):
        tree_counts = _tree_counts(header, tree, statistic)
        if tree_counts is None:
            return None
        counts.append(tree_counts)
    return counts


def _averages_probabilities(header: TreeliteModel) -> bool:
    """Return whether a model with this ``header`` averages its trees' leaf values, one for each of several classes."""
    has_classes = len(header.num_class) == 1 and header.n_outputs >= 2
    is_average = header.average and header.postprocessor == "identity_multiclass" and not header.base_scores.any()
    is_for_all_classes = np.all(header.target_id < 0) and np.all(header.class_id < 0)
    return bool(has_classes and is_average and is_for_all_classes)


def _tree_counts(header: TreeliteModel, tree: ComparingTree, statistic: _Statistics) -> np.ndarray | None:
    """Return the class counts ``[nodes classes]`` of one tree, zeros at inner nodes; None if they do not follow.

    ``statistic`` has the instances of the tree's nodes, and ``header`` the precision of its leaf values.
    """
    is_leaf = tree.left < 0
    shares = tree.leaf_values
    is_float64 = header.leaf_type.itemsize == 8
    tolerance = 1e-9 if is_float64 else 1e-6  # of shares, for the rounding of leaf values
    # Sums of weights say more than numbers of instances.
    size = statistic.data_count if statistic.sum_hess is None else statistic.sum_hess
    if size is None or not np.all(np.isfinite(size[is_leaf]) & (size[is_leaf] > 0)):
        return None
    # A leaf's values must be probabilities. (Of NaN no comparison holds.)
    total = shares[is_leaf].sum(axis=1)
    if not np.all(shares[is_leaf] >= 0) or not np.all(np.abs(total - 1) <= tolerance * header.n_outputs):
        return None
    leaf_size = np.where(is_leaf, size, 0).astype(np.float64)
    counts = shares * leaf_size[:, None]
    # float64 shares of a sum of weights are exact, as scikit-learn's are. Other products must be near integers.
    are_integers = np.abs(counts - np.rint(counts)) <= tolerance * np.maximum(leaf_size, 1)[:, None]
    if are_integers.all():
        counts = np.rint(counts)
    elif statistic.sum_hess is None or not is_float64:
        return None
    return snap_to_integers(counts, leaf_size)


def _values_to_add(header: TreeliteModel, values: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the numbers that each tree adds to the sums: leaf ``values``, ``[nodes outputs of the tree]``, or shares.

    If the model averages, they are divided by the number of trees that add to the same output. A ValueError if there is
    none. ``outputs`` has the indices of each tree's outputs; `widen_values` may add columns for others.
    """
    n_trees_of_output = np.bincount(np.concatenate(outputs), minlength=header.n_outputs)
    if header.average and not n_trees_of_output.all():
        raise ValueError("the model averages trees, and has none for some output.")
    divisor = n_trees_of_output if header.average else np.ones(header.n_outputs)
    values = [array / divisor[tree_outputs] for array, tree_outputs in zip(values, outputs, strict=True)]
    return widen_values(values, outputs, header.n_outputs)


def _link(header: TreeliteModel) -> tuple[str, float]:
    """Return (link, scale) of a model, whose answer is link(scale · sums); a ValueError if they are not imported."""
    name = header.postprocessor
    if name not in _LINKS:
        raise ValueError(f"the postprocessor is {name!r:.60}; from_treelite imports {', '.join(sorted(_LINKS))}.")
    scale = {"sigmoid": header.sigmoid_alpha, "multiclass_ova": header.sigmoid_alpha}.get(name, 1.0)
    if name == "exponential_standard_ratio":
        scale = -np.log(2) / header.ratio_c if header.ratio_c else np.nan  # 2 ** (-sum / ratio_c), as exp
    return _LINKS[name], float(scale)


def _class_labels(header: TreeliteModel, link: str) -> tuple[Any, ...] | None:
    """Return the class labels of additive trees with this ``header`` and ``link``; None for a regressor."""
    if len(header.num_class) == 1 and header.n_outputs > 1:
        return _labels(header, header.n_outputs)
    is_binary = header.task == "kBinaryClf" and link == "logistic" and header.n_outputs == 1
    return _labels(header, 2) if is_binary else None


def _labels(header: TreeliteModel, n_classes: int) -> tuple[Any, ...]:
    """Return ``n_classes`` class labels: those of the ``header``'s attributes if they fit, else 0, 1, …."""
    labels: Any = header.attributes.get("class_labels")
    is_list = isinstance(labels, list) and all(isinstance(label, str | int | float) for label in labels)
    return tuple(labels) if is_list and len(labels) == len(set(labels)) == n_classes else tuple(range(n_classes))


def _trees_per_stage(header: TreeliteModel, outputs: list[np.ndarray]) -> int:
    """Return the number of trees of a stage, an iteration of boosting; 1 where nothing tells it.

    The ``header``'s attributes tell it if the order of trees allows their number, else the order of their ``outputs``.
    """
    by_order = trees_of_stage(outputs, header.n_outputs)
    written_number: Any = header.attributes.get("trees_per_stage")
    is_possible = type(written_number) is int and written_number > 0 and len(outputs) % written_number == 0
    fits_order = header.n_outputs == 1 or by_order in (None, written_number)
    if is_possible and fits_order:
        return written_number
    return by_order or 1


def _written_attributes(text: bytes) -> dict[str, Any]:
    """Return a model's attributes, which ``text`` has as a JSON object; {} if it is anything else."""
    try:
        attributes = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return attributes if isinstance(attributes, dict) else {}

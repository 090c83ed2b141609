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

_OLDEST = (4, 8)
_COMPARE = np.array([-1, EQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST])  # by the file's numbers of comparisons
_LINKS = {
    **dict.fromkeys(("identity", "identity_multiclass"), "identity"),
    **dict.fromkeys(("sigmoid", "multiclass_ova"), "logistic"),
    **dict.fromkeys(("exponential", "exponential_standard_ratio"), "exp"),
    "softmax": "softmax",
}
_TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")
_FLOATS = {2: np.dtype("<f4"), 3: np.dtype("<f8")}  # by the file's numbers of types
_MOST_INSTANCES = 1e30
_LARGEST_CATEGORY = {4: 2.0**24, 8: 2.0**32 - 1}  # by the bytes of a threshold


class TreeliteModel(NamedTuple):
    """The header of a model file, by treelite's names."""

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
        return len(self.base_scores)


class _Statistics(NamedTuple):
    """Numbers and weights ``[nodes]`` of the instances that a tree was grown on; None if a leaf lacks them."""

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
        A `Forest` with the model's counts, if leaves hold class probabilities and say how many instances they rest on,
        as in classifiers of scikit-learn and cuML. Everything else is an `AdditiveTrees`. Columns have no names.
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
    pairs = [reader.tree(f"tree {t}", header, tree_outputs) for t, tree_outputs in enumerate(outputs)]
    trees, statistics = [tree for tree, _ in pairs], [statistic for _, statistic in pairs]
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the treelite model's end.")
    # treelite takes what a sparse matrix does not store for missing.
    cuts = (None,) * header.num_feature if header.threshold_type.itemsize == 8 else None
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
    """Return a forest with ``counts`` as leaf values; a ValueError for more than float32 can count.

    ``labels`` are those of the classes.
    """
    total = sum(float(tree_counts.sum()) for tree_counts in counts)
    if not total < _MOST_INSTANCES:
        raise ValueError(f"the model's leaves claim {total:.3g} instances, which float32 cannot count.")
    counted = [tree._replace(leaf_values=tree_counts) for tree, tree_counts in zip(trees, counts, strict=True)]
    return forest_of(counted, columns, labels)


def _outputs(header: TreeliteModel, n_trees: int) -> list[np.ndarray]:
    """Return the indices of the outputs, targets or classes of a single target, that each of ``n_trees`` adds to."""
    classes, n_targets = header.num_class, len(header.num_class)
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
    output_index = np.arange(n_outputs).reshape(n_targets, -1)  # [targets classes]; -1 stands for all of an axis
    pairs = zip(target.tolist(), of_class.tolist(), strict=True)
    return [output_index[slice(None) if t < 0 else [t]][:, slice(None) if c < 0 else [c]].ravel() for t, c in pairs]


class _Reader:
    """A reader of a model's bytes, front to back; ``at`` is the position of the next byte."""

    def __init__(self, content: bytes):
        self._content = content
        self.at = 0

    def header(self) -> tuple[TreeliteModel, int]:
        """Return the header, and the number of trees; a ValueError for other formats and for treelite before 4.8."""
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
        """Return (the next tree, its statistics); leaves hold a value for each of ``outputs``, as ``header`` says."""
        n_nodes, _ = self._struct("<i?")
        dtypes = ("<i1", "<i4", "<i4", "<i4", "?", header.leaf_type, header.threshold_type, "<i1", "?")
        arrays = [self._array(dtype) for dtype in dtypes]
        # Vectors of all nodes in one array, and where each node's begins and ends; likewise categories.
        vectors = self._array(header.leaf_type), self._array("<u8"), self._array("<u8")
        categories = self._array("<u4"), self._array("<u8"), self._array("<u8")
        statistics = [(self._array(dtype), self._array("?")) for dtype in ("<u8", "<f8", "<f8")]
        self._check_no_fields(what)
        self._check_no_fields(what)
        ends = (*vectors[1:], *categories[1:])
        if n_nodes < 1 or any(len(array) != n_nodes for array in (*arrays, *ends)):
            raise ValueError(f"{what} has {n_nodes} nodes, but arrays of other lengths.")
        for content, first, end in (vectors, categories):
            if np.any(first > end) or np.any(end > len(content)):
                raise ValueError(f"{what} has vectors or categories that do not lie in their array.")
        kind, left, right, feature, default_left, leaf_value, threshold, compare, categories_right = arrays
        is_leaf, is_set = kind == 0, kind == 2  # 1 is a comparison
        if np.any((left < 0) != is_leaf) or np.any((kind < 0) | (kind > 2)):
            raise ValueError("the treelite model has leaves with children, or nodes of an unknown kind.")
        if np.any((compare[kind == 1] < 1) | (compare[kind == 1] > 5)):
            raise ValueError("the treelite model has an unknown comparison.")
        compare = np.where(is_set, np.where(categories_right, NOT_IN_SET, IN_SET), _COMPARE[np.clip(compare, 0, 5)])
        content, first, end = categories
        sets = {
            node: _set(np.unique(content[first[node] : end[node]]).astype(np.float64), header.threshold_type.itemsize)
            for node in np.flatnonzero(is_set).tolist()
        }
        values = _leaf_values(what, is_leaf, leaf_value, vectors, header, outputs)
        left, right, feature = (array.astype(np.int64) for array in (left, right, feature))
        # float32 thresholds keep their value as float64.
        tree = ComparingTree(
            feature, compare, threshold.astype(np.float64), left, right, default_left.astype(bool), sets, values
        )
        counts = [
            array if len(array) == len(is_present) == n_nodes and is_present[is_leaf].all() else None
            for array, is_present in statistics[:2]
        ]
        return tree, _Statistics(*counts)

    def _take(self, size: int) -> memoryview:
        if self.at + size > len(self._content):
            raise ValueError(f"the treelite model is cut off: {size} bytes are needed at {self.at}.")
        self.at += size
        return memoryview(self._content)[self.at - size : self.at]

    def _struct(self, kinds: str) -> tuple:
        return struct.unpack(kinds, self._take(struct.calcsize(kinds)))

    def _array(self, kind: str | np.dtype) -> np.ndarray:
        dtype = np.dtype(kind)
        (length,) = self._struct("<Q")
        # A byte that is neither 0 nor 1 is no bool.
        raw = self._take(length * dtype.itemsize)
        return np.frombuffer(raw, np.uint8) != 0 if dtype.kind == "b" else np.frombuffer(raw, dtype)

    def _check_no_fields(self, what: str) -> None:
        """Read the number of optional fields, 0 in all tested versions; else a ValueError that names ``what``."""
        if (number := self._struct("<i")[0]) != 0:
            raise ValueError(f"{what} has {number} optional fields, which this version of jaxunc does not know.")


def _set(categories: np.ndarray, itemsize: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the set of numbers whose integer parts are ``categories``; thresholds have ``itemsize`` bytes."""
    largest = _LARGEST_CATEGORY[itemsize]
    categories = categories[categories <= largest]
    return categories, np.where(categories == largest, np.nextafter(categories, np.inf), categories + 1)


def _leaf_values(
    what: str, is_leaf: np.ndarray, single: np.ndarray, vectors: tuple, header: TreeliteModel, outputs: np.ndarray
) -> np.ndarray:
    """Return the leaf values ``[nodes outputs]`` of a tree, which messages call ``what``, for its ``outputs``.

    Leaves hold one number each, ``single [nodes]``, or vectors. ``vectors`` are (all numbers, each node's first and end
    among them). ``is_leaf`` says which nodes are leaves; ``header`` is the file's.
    """
    content, first, end = vectors
    size = (end - first).astype(np.int64)[is_leaf]
    if not size.any():
        values = single[:, None]
    else:
        if np.any(size != len(outputs)) or len(outputs) != np.prod(header.leaf_shape.astype(np.int64)):
            raise ValueError(f"{what} has leaves of {np.unique(size)[:3].tolist()} values for {len(outputs)} outputs.")
        values = np.zeros((len(is_leaf), len(outputs)), content.dtype)
        values[is_leaf] = content[first[is_leaf].astype(np.int64)[:, None] + np.arange(len(outputs))]
    if values.shape[1] != len(outputs):
        raise ValueError(f"{what} has leaves of one value for {len(outputs)} outputs.")
    return values.astype(np.float64)


def _counts(header: TreeliteModel, trees: list[ComparingTree], stats: list[_Statistics]) -> list[np.ndarray] | None:
    """Return each tree's counts ``[nodes classes]``; None unless ``header``, leaf values and ``stats`` tell them."""
    n_classes = header.n_outputs
    is_forest = header.average and header.postprocessor == "identity_multiclass" and len(header.num_class) == 1
    if not is_forest or n_classes < 2 or header.base_scores.any():
        return None
    if np.any(header.target_id >= 0) or np.any(header.class_id >= 0):
        return None
    tolerance = 1e-9 if header.leaf_type.itemsize == 8 else 1e-6  # of shares in float64, or in float32
    counts = []
    for tree, statistic in zip(trees, stats, strict=True):
        is_leaf, shares = tree.left < 0, tree.leaf_values
        leaf_size = statistic.sum_hess if statistic.sum_hess is not None else statistic.data_count
        if leaf_size is None or not np.all(np.isfinite(leaf_size[is_leaf]) & (leaf_size[is_leaf] > 0)):
            return None
        if np.any(~(shares[is_leaf] >= 0)) or np.any(
            ~(np.abs(shares[is_leaf].sum(axis=1) - 1) <= tolerance * n_classes)
        ):
            return None
        leaf_size = np.where(is_leaf, leaf_size, 0).astype(np.float64)
        tree_counts = shares * leaf_size[:, None]
        # float64 shares of a sum of weights are exact, as scikit-learn's are. Other products must be near integers.
        are_integers = np.abs(tree_counts - np.rint(tree_counts)) <= tolerance * np.maximum(leaf_size, 1)[:, None]
        if are_integers.all():
            tree_counts = np.rint(tree_counts)
        elif statistic.sum_hess is None or header.leaf_type.itemsize < 8:
            return None
        counts.append(snap_to_integers(tree_counts, leaf_size))
    return counts


def _values_to_add(header: TreeliteModel, values: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return each tree's leaf ``values``, divided by the number of trees of their output if ``header`` says average."""
    n_trees_of_output = np.bincount(np.concatenate(outputs), minlength=header.n_outputs)
    if header.average and not n_trees_of_output.all():
        raise ValueError("the model averages trees, and has none for some output.")
    divisor = n_trees_of_output if header.average else np.ones(header.n_outputs)
    values = [array / divisor[tree_outputs] for array, tree_outputs in zip(values, outputs, strict=True)]
    return widen_values(values, outputs, header.n_outputs)


def _link(header: TreeliteModel) -> tuple[str, float]:
    """Return (the link of a model with this header, the factor by which sums are multiplied before the link)."""
    name = header.postprocessor
    if name not in _LINKS:
        raise ValueError(f"the postprocessor is {name!r:.60}; from_treelite imports {', '.join(sorted(_LINKS))}.")
    scale = {"sigmoid": header.sigmoid_alpha, "multiclass_ova": header.sigmoid_alpha}.get(name, 1.0)
    if name == "exponential_standard_ratio":
        scale = -np.log(2) / header.ratio_c if header.ratio_c else np.nan  # 2 ** (-sum / ratio_c), as exp
    return _LINKS[name], float(scale)


def _class_labels(header: TreeliteModel, link: str) -> tuple[Any, ...] | None:
    if len(header.num_class) == 1 and header.n_outputs > 1:
        return _labels(header, header.n_outputs)
    is_binary = header.task == "kBinaryClf" and link == "logistic" and header.n_outputs == 1
    return _labels(header, 2) if is_binary else None


def _labels(header: TreeliteModel, n_classes: int) -> tuple[Any, ...]:
    """Return the labels of ``n_classes``, texts or numbers, in a ``header``'s attributes, by default 0, 1, …."""
    labels: Any = header.attributes.get("class_labels")
    is_list = isinstance(labels, list) and all(isinstance(label, str | int | float) for label in labels)
    return tuple(labels) if is_list and len(labels) == len(set(labels)) == n_classes else tuple(range(n_classes))


def _trees_per_stage(header: TreeliteModel, outputs: list[np.ndarray]) -> int:
    """Return the number of trees of a stage: that in the attributes, if the trees' ``outputs`` allow it."""
    by_order = trees_of_stage(outputs, header.n_outputs)
    written: Any = header.attributes.get("trees_per_stage")
    is_possible = type(written) is int and written > 0 and len(outputs) % written == 0
    return written if is_possible and (header.n_outputs == 1 or by_order in (None, written)) else by_order or 1


def _written_attributes(text: bytes) -> dict[str, Any]:
    """Return a model's attributes, an object in JSON; empty if they are anything else."""
    try:
        attributes = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return attributes if isinstance(attributes, dict) else {}

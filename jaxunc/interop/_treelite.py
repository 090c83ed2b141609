"""Importer of treelite's models, and with them of whatever treelite and cuML import or train."""

import dataclasses
import struct
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import check_counts
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest, assemble, snap_to_integers, with_interval_tests
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
    GivenTree,
    compared_in,
    ensemble_of,
    laid_out,
    trees_of_stage,
)
from ._documents import GIVEN, content_of, warn_if_newer

_OLDEST = (4, 8)
_COMPARE = {1: EQUAL, 2: BELOW, 3: AT_MOST, 4: ABOVE, 5: AT_LEAST}
_LINKS = {
    **dict.fromkeys(("identity", "identity_multiclass"), "identity"),
    **dict.fromkeys(("sigmoid", "multiclass_ova"), "logistic"),
    **dict.fromkeys(("exponential", "exponential_standard_ratio"), "exp"),
    "softmax": "softmax",
}
_MOST_INSTANCES = 1e30
_LARGEST_CATEGORY = {4: 2.0**24, 8: 2.0**32 - 1}


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
        A `Forest` with its own counts where leaves hold class distributions and say how many instances they rest on,
        as those of scikit-learn's and cuML's classifiers do. Everything else is a `AdditiveTrees`. Columns have no
        names, classes the labels 0, 1, …: treelite keeps neither.

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

    Where a postprocessor scales sums (``sigmoid_alpha``, ``ratio_c``), ``raw`` is what is left after that. Class
    probabilities of ``multiclass_ova`` do not add to 1, there or here.
    """
    if hasattr(model, "serialize_bytes"):
        model = model.serialize_bytes()
    if not isinstance(model, GIVEN):
        raise TypeError(f"model is a {type(model).__name__}; pass a treelite.Model, or a file or bytes of serialize.")
    # Damaged files hold any numbers: what is not finite in the end is refused with words.
    with np.errstate(all="ignore"):
        return _of_file(read_treelite(content_of(model)))


def _of_file(read: "TreeliteModel") -> Forest | AdditiveTrees:
    _check_version(read.version)
    outputs = _outputs(read)
    n_outputs = len(read.base_scores)
    raw = [
        _leaf_values(f"tree {t}", tree, own, read)
        for t, (tree, own) in enumerate(zip(read.trees, outputs, strict=True))
    ]
    counts = _counts(read, raw)
    values = raw if counts is not None else _summed(read, raw, outputs, n_outputs)
    trees = [_comparing(tree, own, read.threshold_type.itemsize) for tree, own in zip(read.trees, values, strict=True)]
    given, columns = compared_in(trees, read.num_feature, wide=read.threshold_type.itemsize == 8)
    columns = dataclasses.replace(columns, absent_is_missing=True)  # as treelite itself reads sparse matrices
    if counts is not None:
        return _forest(given, counts, columns)
    link, scale = _link(read)
    return ensemble_of(
        [tree._replace(values=tree.values * scale) for tree in given],
        columns,
        read.base_scores * scale,
        link,
        trees_per_stage=trees_of_stage(outputs, n_outputs) or 1,
        class_labels=_class_labels(read, link, n_outputs),
        averaged=read.average,
    )


def _check_version(version: tuple[int, int, int]) -> None:
    text = ".".join(map(str, version))
    if version[:2] < _OLDEST:
        raise ValueError(
            f"the model was written by treelite {text}; before 4.8 scikit-learn's trees lost where missing values go. "
            "Import the original into a newer treelite and write it again."
        )
    warn_if_newer("treelite", version)


def _outputs(read: "TreeliteModel") -> list[np.ndarray]:
    """The outputs that each tree counts for."""
    classes, n_targets = read.num_class, len(read.num_class)
    if not read.trees or not read.num_feature > 0 or n_targets < 1 or classes.min() < 1:
        raise ValueError("the treelite model has no trees, no columns, or no outputs.")
    if n_targets > 1 and classes.max() > 1:
        raise ValueError(f"the model has {n_targets} targets with several classes; fit one model for each target.")
    n_outputs = n_targets * int(classes.max())
    if len(read.base_scores) != n_outputs:
        raise ValueError(f"the model has {len(read.base_scores)} base scores for {n_outputs} outputs.")
    target, of_class = read.target_id, read.class_id
    if target.min() < -1 or target.max() >= n_targets or of_class.min() < -1 or of_class.max() >= classes.max():
        raise ValueError("the model has trees for targets or classes that there are not.")
    whole = np.arange(n_outputs).reshape(n_targets, -1)
    own = zip(target.tolist(), of_class.tolist(), strict=True)
    return [whole[slice(None) if t < 0 else [t]][:, slice(None) if c < 0 else [c]].ravel() for t, c in own]


def _leaf_values(what: str, tree: "TreeliteTree", outputs: np.ndarray, read: "TreeliteModel") -> np.ndarray:
    """What leaves hold, ``[nodes outputs of the tree]``."""
    content, first, end = tree.leaf_vector
    leaf = tree.left < 0
    size = (end - first).astype(np.int64)[leaf]
    if not size.any():
        own = tree.leaf_value[:, None]
    else:
        if np.any(size != len(outputs)) or len(outputs) != np.prod(read.leaf_shape.astype(np.int64)):
            raise ValueError(
                f"{what} has leaves of {sorted(set(size.tolist()))[:3]} values for {len(outputs)} outputs."
            )
        own = np.zeros((len(leaf), len(outputs)), content.dtype)
        own[leaf] = content[first[leaf].astype(np.int64)[:, None] + np.arange(len(outputs))]
    if own.shape[1] != len(outputs):
        raise ValueError(f"{what} has leaves of one value for {len(outputs)} outputs.")
    return own.astype(np.float64)


def _comparing(tree: "TreeliteTree", values: np.ndarray, itemsize: int) -> ComparingTree:
    inner = tree.left >= 0
    if np.any(inner != (tree.kind != 0)) or np.any((tree.kind < 0) | (tree.kind > 2)):
        raise ValueError("the treelite model has leaves with children, or nodes of an unknown kind.")
    is_set = tree.kind == 2
    compare = np.array([_COMPARE.get(kind, -1) for kind in range(6)])[np.clip(tree.compare, 0, 5)]
    compare = np.where(is_set, np.where(tree.categories_right, NOT_IN_SET, IN_SET), compare)
    if np.any(compare[inner] < 0) or np.any(tree.compare[inner & ~is_set] > 5):
        raise ValueError("the treelite model has an unknown comparison.")
    content, first, end = tree.categories
    sets = {
        node: _intervals(np.unique(content[first[node] : end[node]]).astype(np.float64), itemsize)
        for node in np.flatnonzero(is_set).tolist()
    }
    default = tree.default_left.astype(bool)
    # float32 thresholds keep their value as float64.
    threshold = tree.threshold.astype(np.float64)
    left, right, feature = (part.astype(np.int64) for part in (tree.left, tree.right, tree.feature))
    return ComparingTree(feature, compare, threshold, left, right, default, sets, values)


def _intervals(categories: np.ndarray, itemsize: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers whose integer parts are these; treelite knows none above the largest."""
    largest = _LARGEST_CATEGORY[itemsize]
    known = categories[categories <= largest]
    return known, np.where(known == largest, np.nextafter(known, np.inf), known + 1)


def _counts(read: "TreeliteModel", values: list[np.ndarray]) -> list[np.ndarray] | None:
    """Class counts of the nodes of a classification forest whose leaves hold shares; None where there are none."""
    n_classes = len(read.base_scores)
    is_forest = read.average and read.postprocessor == "identity_multiclass" and len(read.num_class) == 1
    if (
        not is_forest
        or n_classes < 2
        or read.base_scores.any()
        or np.any(read.target_id >= 0)
        or np.any(read.class_id >= 0)
    ):
        return None
    tolerance = 1e-9 if read.leaf_type.itemsize == 8 else 1e-6
    found = []
    for tree, shares in zip(read.trees, values, strict=True):
        leaf = tree.left < 0
        size = tree.sum_hess if tree.sum_hess is not None else tree.data_count
        if size is None or not np.all(np.isfinite(size[leaf]) & (size[leaf] > 0)):
            return None
        if np.any(~(shares[leaf] >= 0)) or np.any(~(np.abs(shares[leaf].sum(axis=1) - 1) <= tolerance * n_classes)):
            return None
        size = np.where(leaf, size, 0).astype(np.float64)
        own = shares * size[:, None]
        # float64 shares of weights are exact, as scikit-learn's are. Others must be counts.
        near = np.abs(own - np.rint(own)) <= tolerance * np.maximum(size, 1)[:, None]
        if near.all():
            own = np.rint(own)
        elif tree.sum_hess is None or read.leaf_type.itemsize < 8:
            return None
        found.append(snap_to_integers(own, size))
    return found


def _forest(given: list[GivenTree], counts: list[np.ndarray], columns: Columns) -> Forest:
    for own in counts:
        check_counts(own, "model's leaf counts")
    # Inner nodes have no counts there: a root has those of its leaves.
    roots = np.stack([own.sum(axis=0) for own in counts])
    if not roots.sum() < _MOST_INSTANCES:
        raise ValueError(f"the model's leaves claim {roots.sum():.3g} instances, which float32 cannot count.")
    return assemble(
        [with_interval_tests(tree.nodes, tree.intervals) for tree in given],
        counts,
        columns=columns,
        prior=roots.sum(axis=0) / roots.sum(),
        n_samples=float(roots.sum(axis=1).mean()),
        class_labels=tuple(range(roots.shape[1])),
    )


def _summed(
    read: "TreeliteModel", values: list[np.ndarray], outputs: list[np.ndarray], n_outputs: int
) -> list[np.ndarray]:
    """Leaf values that are added up: one for each node, or one for each output."""
    number = np.bincount(np.concatenate(outputs), minlength=n_outputs)
    if read.average and not number.all():
        raise ValueError("the model averages trees, and has none for some output.")
    factor = number if read.average else np.ones(n_outputs)
    values = [own / factor[which] for own, which in zip(values, outputs, strict=True)]
    return laid_out(values, outputs, n_outputs)


def _link(read: "TreeliteModel") -> tuple[str, float]:
    """What sums mean, and what they are multiplied by before."""
    name = read.postprocessor
    if name not in _LINKS:
        raise ValueError(f"the postprocessor is {name!r:.60}; from_treelite imports {', '.join(sorted(_LINKS))}.")
    scale = {"sigmoid": read.sigmoid_alpha, "multiclass_ova": read.sigmoid_alpha}.get(name, 1.0)
    if name == "exponential_standard_ratio":
        scale = -np.log(2) / read.ratio_c if read.ratio_c else np.nan
    return _LINKS[name], float(scale)


def _class_labels(read: "TreeliteModel", link: str, n_outputs: int) -> tuple[int, ...] | None:
    if len(read.num_class) == 1 and n_outputs > 1:
        return tuple(range(n_outputs))
    return (0, 1) if read.task == "kBinaryClf" and link == "logistic" and n_outputs == 1 else None


# Reader of treelite's serialised models, format 4: arrays one behind the other, each behind its length.

_FLOATS = {2: np.dtype("<f4"), 3: np.dtype("<f8")}
TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")


class TreeliteTree(NamedTuple):
    """One tree, as arrays with an entry for each node."""

    kind: np.ndarray
    """0 for a leaf, 1 for a comparison, 2 for a set of categories."""
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    default_left: np.ndarray
    leaf_value: np.ndarray
    threshold: np.ndarray
    compare: np.ndarray
    categories_right: np.ndarray
    leaf_vector: tuple[np.ndarray, np.ndarray, np.ndarray]
    """All vectors one behind the other, and where that of each node begins and ends."""
    categories: tuple[np.ndarray, np.ndarray, np.ndarray]
    data_count: np.ndarray | None
    """Instances of training, where every leaf says so."""
    sum_hess: np.ndarray | None
    """Their weights, where every leaf says so."""


class TreeliteModel(NamedTuple):
    """A model as its file has it."""

    version: tuple[int, int, int]
    threshold_type: np.dtype
    leaf_type: np.dtype
    num_feature: int
    task: str
    average: bool
    num_class: np.ndarray
    leaf_shape: np.ndarray
    target_id: np.ndarray
    class_id: np.ndarray
    postprocessor: str
    sigmoid_alpha: float
    ratio_c: float
    base_scores: np.ndarray
    trees: list[TreeliteTree]


def read_treelite(content: bytes) -> TreeliteModel:
    """Return the parts of a serialised model, arrays of a tree of one length.

    Raises a ValueError if it is cut off, goes on behind its end, or is of another major version.
    """
    reader = _TreeliteReader(content)
    version = reader.struct("<iii")
    if version[0] != 4:
        raise ValueError(f"the treelite model has the format {version[0]}; from_treelite reads 4. Is the file whole?")
    threshold_type, leaf_type = (_FLOATS.get(kind) for kind in reader.struct("<BB"))
    (n_trees,) = reader.struct("<Q")
    num_feature, task, average, num_target = reader.struct("<iB?i")
    num_class, leaf_shape, target_id, class_id = (reader.array("<i4") for _ in range(4))
    postprocessor = reader.text()
    sigmoid_alpha, ratio_c = reader.struct("<ff")
    base_scores = reader.array("<f8")
    reader.text()  # attributes: nothing that trees need
    reader.no_more("model")
    if threshold_type is None or leaf_type is None or task >= len(TASKS) or len(num_class) != num_target:
        raise ValueError("the treelite model has types, a task or targets that are unknown. Is the file whole?")
    if not len(target_id) == len(class_id) == n_trees:
        raise ValueError(f"the treelite model has {n_trees} trees, but {len(target_id)} targets of trees.")
    trees = [_tree(reader, f"tree {t}", threshold_type, leaf_type) for t in range(n_trees)]
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the treelite model's end.")
    return TreeliteModel(
        version, threshold_type, leaf_type, num_feature, TASKS[task], average, num_class, leaf_shape, target_id,
        class_id, postprocessor, sigmoid_alpha, ratio_c, base_scores, trees,
    )  # fmt: skip


def _tree(reader: "_TreeliteReader", what: str, threshold_type: np.dtype, leaf_type: np.dtype) -> TreeliteTree:
    n_nodes, _ = reader.struct("<i?")
    each = ("<i1", "<i4", "<i4", "<i4", "?", leaf_type, threshold_type, "<i1", "?")
    arrays = [reader.array(dtype) for dtype in each]
    vectors = reader.array(leaf_type), reader.array("<u8"), reader.array("<u8")
    categories = reader.array("<u4"), reader.array("<u8"), reader.array("<u8")
    statistics = [(reader.array(dtype), reader.array("?")) for dtype in ("<u8", "<f8", "<f8")]
    reader.no_more(what)
    reader.no_more(what)
    ends = (*vectors[1:], *categories[1:])
    if n_nodes < 1 or any(len(one) != n_nodes for one in (*arrays, *ends)):
        raise ValueError(f"{what} has {n_nodes} nodes, but arrays of other lengths.")
    for content, first, end in (vectors, categories):
        if np.any(first > end) or np.any(end > len(content)):
            raise ValueError(f"{what} has vectors or categories that do not lie in their array.")
    leaves = arrays[0] == 0
    data_count, sum_hess = (
        own if len(own) == len(there) == n_nodes and there[leaves].all() else None for own, there in statistics[:2]
    )
    return TreeliteTree._make([*arrays, vectors, categories, data_count, sum_hess])


class _TreeliteReader:
    def __init__(self, content: bytes):
        self._content = content
        self.at = 0

    def _take(self, size: int) -> memoryview:
        if self.at + size > len(self._content):
            raise ValueError(f"the treelite model is cut off: {size} bytes are needed at {self.at}.")
        self.at += size
        return memoryview(self._content)[self.at - size : self.at]

    def struct(self, kinds: str) -> tuple:
        return struct.unpack(kinds, self._take(struct.calcsize(kinds)))

    def array(self, kind: str | np.dtype) -> np.ndarray:
        dtype = np.dtype(kind)
        (length,) = self.struct("<Q")
        # A byte that is neither 0 nor 1 is no bool.
        raw = self._take(length * dtype.itemsize)
        return np.frombuffer(raw, np.uint8) != 0 if dtype.kind == "b" else np.frombuffer(raw, dtype)

    def text(self) -> str:
        return self.array("<u1").tobytes().decode("utf-8", "replace")

    def no_more(self, what: str) -> None:
        """Check that there are no optional fields, which no version has written yet."""
        if (number := self.struct("<i")[0]) != 0:
            raise ValueError(f"{what} has {number} optional fields, which this version of jaxunc does not know.")

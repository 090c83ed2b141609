"""Reader of treelite's serialised models, format 4: arrays one behind the other, each behind its length."""

import struct
from typing import NamedTuple

import numpy as np

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

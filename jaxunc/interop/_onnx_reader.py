"""What an ONNX graph holds: the one node of trees, what its data are, and what becomes of its scores."""

from typing import Any, NamedTuple

import numpy as np

OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
OURS = "jaxunc"
"""The producer of files that `to_onnx` makes."""
_FLOAT, _INTS, _DOUBLE = 1, (2, 3, 4, 5, 6, 7, 12, 13), 11


class TreesInGraph(NamedTuple):
    """The node of trees, and what is around it."""

    operator: str
    attributes: "Attributes"
    wide: bool
    """Whether float64 is compared."""
    n_features: int | None
    """Columns of the input, where the file says so."""
    after: tuple[str, ...]
    """What the scores go through: "Sigmoid", "Softmax", "Exp", or a norm ("L1", "L2", "MAX")."""
    producer: str
    opset: int
    properties: dict[str, str]
    """The file's metadata."""


class Attributes:
    """The attributes of a node by name, each checked for its type where it is read."""

    def __init__(self, node: Any):
        self._own = {attribute.name: attribute for attribute in node.attribute}

    def _read(self, name: str, kind: str) -> Any:
        """The value, None where there is none."""
        attribute = self._own.get(name)
        if attribute is None:
            return None
        if attribute.type != getattr(attribute, kind):
            raise ValueError(f"the model's attribute {name} is none of {kind}. Is the file whole?")
        return attribute

    def ints(self, name: str) -> np.ndarray:
        """Integers, none where there is no such attribute."""
        found = self._read(name, "INTS")
        return np.array([] if found is None else list(found.ints), np.int64)

    def integer(self, name: str, default: int) -> int:
        """An integer."""
        found = self._read(name, "INT")
        return default if found is None else int(found.i)

    def text(self, name: str, default: str) -> str:
        """A text."""
        found = self._read(name, "STRING")
        return default if found is None else found.s.decode("utf-8", "replace")

    def texts(self, name: str) -> list[str]:
        """Texts, none where there is no such attribute."""
        found = self._read(name, "STRINGS")
        return [] if found is None else [one.decode("utf-8") for one in found.strings]

    def floats(self, name: str) -> np.ndarray:
        """Numbers, from a list of float32 or from the tensor of the same name."""
        if (found := self._read(f"{name}_as_tensor", "TENSOR")) is not None:
            return _array(name, found.t).astype(np.float64)
        found = self._read(name, "FLOATS")
        return np.array([] if found is None else list(found.floats), np.float64)

    def tensor(self, name: str) -> np.ndarray:
        """Numbers of a tensor, none where there is no such attribute."""
        found = self._read(name, "TENSOR")
        return np.zeros(0) if found is None else _array(name, found.t).astype(np.float64)


def _array(name: str, tensor: Any) -> np.ndarray:
    from onnx import numpy_helper  # pyright: ignore[reportMissingImports]

    if tensor.data_location == tensor.EXTERNAL or tensor.external_data:
        raise ValueError(
            f"the model keeps its attribute {name} in another file, which is not read; write it into one file by "
            "onnx.save(onnx.load(path), path)."
        )
    try:
        found = np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:
        raise ValueError(f"the model's attribute {name} is no array: {error}. Is the file whole?") from error
    if found.ndim != 1 or found.dtype.kind not in "fiub":
        raise ValueError(f"the model's attribute {name} is an array of {found.dtype}{found.shape}; expected one axis.")
    return found


def find_trees(model: Any) -> TreesInGraph:
    """Return the node of trees of a ``ModelProto``.

    Raises a ValueError if there is none or are several, or the graph does what is not understood, which is named.
    """
    _check_texts(model)
    graph = model.graph
    trees = [node for node in graph.node if node.op_type in OPERATORS]
    is_ours = model.producer_name == OURS
    if is_ours:  # those before find the sides of sets, which the metadata say
        trees = trees[-1:]
    if len(trees) != 1:
        names = sorted({node.op_type for node in graph.node})[:8]
        raise ValueError(f"the ONNX graph has {len(trees)} nodes of trees among {names}; from_onnx imports one.")
    node = trees[0]
    if not node.input or not node.output:
        raise ValueError("the ONNX graph's node of trees has no input or no output. Is the file whole?")
    versions = [entry.version for entry in model.opset_import if entry.domain == "ai.onnx.ml"]
    wide, n_features = _input(graph, node, ("Identity", "Cast", *(("Concat",) * is_ours)))
    is_classifier = node.op_type == "TreeEnsembleClassifier"
    labels = node.output[0] if is_classifier else None
    scores = node.output[1] if is_classifier and len(node.output) > 1 else None if is_classifier else node.output[0]
    opset = max((entry.version for entry in model.opset_import if not entry.domain), default=1)
    # What a file of our own does with sums its metadata say.
    after = () if is_ours else _after(graph, node, labels, scores, opset)
    return TreesInGraph(
        node.op_type,
        Attributes(node),
        wide,
        n_features,
        after,
        model.producer_name,
        max(versions, default=1),
        {one.key: one.value for one in model.metadata_props},
    )


def _check_texts(model: Any) -> None:
    """Raise a ValueError if a name is no text: protobuf gives bytes where they are no UTF-8."""
    graph = model.graph
    named = [*graph.node, *graph.input, *graph.output, *(one for node in graph.node for one in node.attribute)]
    texts = [model.producer_name, *(one.domain for one in model.opset_import), *(one.name for one in named)]
    for node in graph.node:
        texts += [node.op_type, *node.input, *node.output]
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise ValueError(f"the ONNX model has names that are no text: {odd[0]!r:.60}. Is the file whole?")


def _input(graph: Any, node: Any, passed: tuple[str, ...]) -> tuple[bool, int | None]:
    """Whether the trees compare float64, and the columns of the input, which goes through these operators first."""
    made_by = {name: one for one in graph.node for name in one.output}
    name, casts = node.input[0], []
    for _ in graph.node:
        if name not in made_by:
            break
        before = made_by[name]
        if before.op_type not in passed or not before.input:
            raise ValueError(f"the ONNX graph has {before.op_type} before its trees; from_onnx imports trees alone.")
        if before.op_type == "Cast":
            casts.append(_target(before))
        name = before.input[0]
    given = [one for one in graph.input if one.name == name]
    if not given:
        raise ValueError(f"the ONNX graph's trees read {name!r:.60}, which is no input of it. Is the file whole?")
    tensor = given[0].type.tensor_type
    kind = tensor.elem_type
    if kind not in (_FLOAT, _DOUBLE, *_INTS) or any(one not in (_FLOAT, _DOUBLE) for one in casts):
        raise ValueError(f"the ONNX graph's trees read numbers of types {[kind, *casts]}; expected float or double.")
    # Integers that are not cast are compared as float32.
    wide = _FLOAT not in (kind, *casts) and _DOUBLE in (kind, *casts)
    size = tensor.shape.dim[1].dim_value if len(tensor.shape.dim) == 2 else 0
    return wide, size if size > 0 else None


def _target(cast: Any) -> int:
    return next((int(attribute.i) for attribute in cast.attribute if attribute.name == "to"), 0)


def _after(graph: Any, trees: Any, labels: Any, scores: Any, opset: int) -> tuple[str, ...]:
    """What scores go through on their way to the outputs; None stands for labels."""
    known: dict[str, tuple[str, ...] | None] = {}
    if labels:
        known[labels] = None
    if scores:
        known[scores] = ()
    for node in graph.node:
        own = [name for name in node.input if name in known]
        if node is trees or not own:
            continue
        if len(own) > 1 or len(node.output) != 1:
            raise ValueError(f"the ONNX graph joins scores by {node.op_type} after its trees, which is not imported.")
        known[node.output[0]] = _through(node, known[own[0]], opset)
    reached = {known[one.name] for one in graph.output if one.name in known}
    if not reached:
        raise ValueError("the ONNX graph has no output that its trees lead to. Is the file whole?")
    ways = reached - {None}
    if len(ways) > 1:
        raise ValueError(f"the ONNX graph has outputs of several kinds, {sorted(map(str, ways))}; keep one.")
    return next((way for way in ways if way is not None), ())


def _through(node: Any, way: tuple[str, ...] | None, opset: int) -> tuple[str, ...] | None:
    name, attributes = node.op_type, Attributes(node)
    if name == "Identity" or (name == "Cast" and (way is None or _target(node) in (_FLOAT, _DOUBLE))):
        return way
    if way is not None:
        if name == "ZipMap":
            return way
        if name in ("Sigmoid", "Exp"):
            return (*way, name)
        if name == "Softmax" and attributes.integer("axis", -1 if opset >= 13 else 1) in (-1, 1):
            return (*way, name)
        if name == "Normalizer":
            return (*way, attributes.text("norm", "MAX"))
    raise ValueError(f"the ONNX graph has {name} after its trees, which is not imported.")

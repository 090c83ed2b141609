"""Importer of ensembles of trees from ONNX files."""

import json
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import warn
from jaxunc.additive import AdditiveTrees
from jaxunc.tables import Columns

from .._comparing_trees import check_number_of_columns, ensemble_of, trees_of_stage, widen_values
from .._documents import GIVEN, content_of, warn_if_newer
from ._graph import SETS, SETTINGS
from ._read_graph import OURS, Attributes, OnnxTrees, TreesInGraph, find_trees, read_ensemble, read_nodes, with_sets

_LINKS = {"NONE": "identity", "LOGISTIC": "logistic", "SOFTMAX": "softmax"}
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_SETTINGS = {"averaged": False, "trees_per_stage": 0, "absent_is_missing": False, "spaces_are_underlines": False}
"""What our files say in `SETTINGS`, with the values for other files. A stage of 0 trees: their order tells its size."""


class _Sums(NamedTuple):
    """The leaf values that are summed for each output, and how sums become predictions."""

    values: list[np.ndarray]  # each tree's leaf values, ``[nodes outputs of the tree]``
    outputs: list[np.ndarray]  # the indices of the outputs that each tree's values are added to
    base: np.ndarray  # the number added to the sum of each output
    link: str
    class_labels: tuple[Any, ...] | None


def from_onnx(model: Any) -> AdditiveTrees:
    """Import an ensemble of trees from ONNX, exactly: every instance reaches the leaf that it reaches in ONNX Runtime.

    Parameters
    ----------
    model
        A path, the bytes of a file, or a ``ModelProto``. Its graph holds one ``TreeEnsembleClassifier``,
        ``TreeEnsembleRegressor`` or ``TreeEnsemble``, with casts before it, and after it casts, ``ZipMap``,
        ``Normalizer``, ``Sigmoid``, ``Softmax`` or ``Exp``.

    Returns
    -------
    AdditiveTrees
        Its ``predict`` gives the graph's scores. Class labels are those of the file, columns have no names. A file that
        `to_onnx` made gives back its ensemble, its stages and the columns' names, but no levels: data must be codes.

    Raises
    ------
    ImportError
        If the package ``onnx`` is not installed.
    TypeError
        If ``model`` is of another kind.
    ValueError
        If the file is damaged, or the graph holds what is not imported, which is named: other operators, several nodes
        of trees, smallest or largest values in place of sums, the transforms ``PROBIT`` and ``SOFTMAX_ZERO``. Also
        where ONNX Runtime and the standard differ: two classes with weights for both and base values, or with weights
        for the second alone; one regression target with a transform; one weight for two classes that is never
        negative and goes through ``LOGISTIC``; a transform of the operator ``TreeEnsemble``; leaves without weights for
        one of two classes, or for a target with a base value. Also if `to_onnx` made the file from a forest: keep
        forests by `jaxunc.save`.

    Warns
    -----
    UserWarning
        If skl2onnx made the file and no node sends missing values to its true branch. It leaves out where
        scikit-learn's trees send them, so that predictions for instances with missing values are wrong in the file.
    UntestedVersionWarning
        If operators are newer than those tested.

    Notes
    -----
    Trees compare float32 where the graph's input is float or integers, float64 where it is double. ONNX Runtime sends
    missing values to the true branch of ``BRANCH_NEQ`` always, and so does this. A set holds its numbers alone, as the
    standard says; ONNX Runtime truncates numbers before it looks for them in some sets.
    """
    graph = find_trees(_proto(model))
    warn_if_newer("ONNX (ai.onnx.ml)", (graph.opset,))
    read, sums = _read(graph)
    names, settings, compared = None, _SETTINGS, read.trees
    if graph.producer == OURS:
        sums, names, settings = _read_metadata(graph.properties, sums)
        if SETS in graph.properties:
            compared = with_sets(compared, graph.n_features or 0, graph.properties[SETS])
    if graph.producer == "skl2onnx" and not read.has_tracks:
        warn(
            "skl2onnx made the model and left out where missing values go: all go to the false branch. If the data "
            "have missing values, import the scikit-learn model itself by from_sklearn."
        )
    n_features = graph.n_features or 1 + max(int(tree.feature.max()) for tree in compared)
    n_outputs = len(sums.base)
    values = widen_values(sums.values, sums.outputs, n_outputs)
    check_number_of_columns(n_features)
    link = sums.link if graph.producer == OURS else _link_after(read, sums, graph.after)
    trees = [tree._replace(leaf_values=leaf_values) for tree, leaf_values in zip(compared, values, strict=True)]
    flags = {name: settings[name] for name in ("absent_is_missing", "spaces_are_underlines")}
    columns = Columns(n_features, names, cuts=(None,) * n_features if graph.wide else None, **flags)
    by_order = trees_of_stage(sums.outputs, n_outputs)
    per_stage = settings["trees_per_stage"] or by_order or 1
    if n_outputs > 1 and by_order not in (None, per_stage):
        raise ValueError(f"the model's metadata claim {per_stage} trees a stage of {by_order}. Is the file whole?")
    averaged, labels = settings["averaged"], sums.class_labels
    return ensemble_of(
        trees, columns, sums.base, link, trees_per_stage=per_stage, class_labels=labels, averaged=averaged
    )


def _proto(model: Any) -> Any:
    """Return the ``onnx.ModelProto`` of a path or bytes, or ``model`` if it is one; errors are those of `from_onnx`."""
    given_bytes = isinstance(model, GIVEN)
    if not given_bytes and type(model).__name__ != "ModelProto":
        raise TypeError(f"model is a {type(model).__name__}; pass a path, bytes, or an onnx.ModelProto.")
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        needed = 'files of ONNX are read by the package onnx: pip install "jaxunc[onnx]".'
        raise ImportError(needed, name="onnx") from error
    if not given_bytes:
        return model
    try:
        return onnx.ModelProto.FromString(content_of(model))
    except Exception as error:  # protobuf's DecodeError, which is no ValueError
        raise ValueError(f"the file is no ONNX model: {error}. Is it whole?") from error


def _read(graph: TreesInGraph) -> tuple[OnnxTrees, _Sums]:
    """Return (the trees of the graph's node, how their leaf values are summed)."""
    attributes = graph.attributes
    if graph.operator == "TreeEnsembleClassifier":
        read = read_nodes(attributes, "class")
        return read, _classifier(attributes, read)
    if graph.operator == "TreeEnsembleRegressor":
        read = read_nodes(attributes, "target")
        aggregate, transform = attributes.text("aggregate_function", "SUM"), attributes.text("post_transform", "NONE")
        base = attributes.floats("base_values")
    else:
        read = read_ensemble(attributes)
        codes = attributes.integer("aggregate_function", 1), attributes.integer("post_transform", 0)
        aggregate, transform = (
            names[code] if 0 <= code < len(names) else str(code)
            for names, code in zip((_AGGREGATES, _TRANSFORMS), codes, strict=True)
        )
        if transform in ("SOFTMAX", "LOGISTIC"):
            raise ValueError(
                f"the model's TreeEnsemble has post_transform {codes[1]}, which is {transform} in the standard; ONNX "
                "Runtime takes 1 for LOGISTIC and 2 for SOFTMAX. Put a node Sigmoid or Softmax behind it."
            )
        base = np.zeros(0)
    return read, _regressor(attributes, read, base, aggregate, transform)


def _read_metadata(properties: dict[str, str], sums: _Sums) -> tuple[_Sums, tuple[str, ...] | None, dict[str, Any]]:
    """Return (``sums`` with link and labels, columns' names or None, `_SETTINGS`) by ``properties``, our metadata."""
    kind = properties.get("jaxunc.model")
    if kind not in ("AdditiveTrees", "TreeEnsemble"):  # the second in files of before
        raise ValueError(
            f"the file holds a forest bound to {kind}, whose trees add up what the combiner lifted: no ensemble, and "
            "no counts. Keep forests by ju.save."
        )
    try:
        labels, names = (json.loads(properties.get(key, "null")) for key in ("class_labels", "feature_names"))
        labels, names = (None if words is None else tuple(words) for words in (labels, names))
        if not all(isinstance(word, str | int | float) for words in (labels, names) for word in words or ()):
            raise ValueError("they hold other things than texts and numbers")
        settings = {**_SETTINGS, **json.loads(properties.get(SETTINGS, "{}"))}
        if any(type(settings[name]) is not type(default) for name, default in _SETTINGS.items()):
            raise ValueError(f"their {SETTINGS} are {settings!r:.60}")
        if settings["trees_per_stage"] < 0:
            raise ValueError("a stage has fewer than no trees")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the model's metadata are damaged: {error}. Is the file whole?") from error
    return sums._replace(link=properties.get("jaxunc.link", "?"), class_labels=labels), names, settings


def _link(transform: str) -> str:
    """Return the link of a ``post_transform``, a name of the standard; a ValueError if it is not imported."""
    if transform not in _LINKS:
        raise ValueError(f"the model's post_transform is {transform!r:.60}; from_onnx imports {', '.join(_LINKS)}.")
    return _LINKS[transform]


def _regressor(attributes: Attributes, read: OnnxTrees, base: np.ndarray, aggregate: str, transform: str) -> _Sums:
    """Return the sums of a regressor's trees, ``read``; ``base`` are its base values, empty without any.

    ``aggregate`` and ``transform`` are names of the standard; ``attributes`` are the node's.
    """
    n_outputs, link = attributes.integer("n_targets", 1), _link(transform)
    if aggregate not in ("SUM", "AVERAGE"):
        raise ValueError(f"the model's aggregate_function is {aggregate!r:.60}; from_onnx imports SUM and AVERAGE.")
    if not 0 < n_outputs <= len(read.weight):
        raise ValueError(f"the model has {n_outputs} targets for {len(read.weight)} weights of leaves.")
    if n_outputs == 1 and link != "identity":
        raise ValueError(f"the model has post_transform {transform} for one target, which ONNX Runtime passes by.")
    if len(base) not in (0, n_outputs):
        raise ValueError(f"the model has {len(base)} base values for {n_outputs} targets.")
    values, outputs = _values(read, n_outputs)
    if bare_targets := [k for k in _outputs_without_weights(read, n_outputs) if len(base) and base[k] != 0]:
        raise ValueError(
            f"the model has base values for the targets {bare_targets[:5]}, and leaves without weights for them; ONNX "
            "Runtime leaves the base value out there. Give these leaves weights of 0."
        )
    if aggregate == "AVERAGE":
        values = [leaf_values / len(values) for leaf_values in values]
    return _Sums(values, outputs, base if len(base) else np.zeros(n_outputs), link, None)


def _classifier(attributes: Attributes, read: OnnxTrees) -> _Sums:
    """Return the sums of a classifier's trees, ``read``, and its labels; ``attributes`` are those of the node."""
    texts, integers = attributes.texts("classlabels_strings"), attributes.ints("classlabels_int64s").tolist()
    labels, link = tuple(texts or integers), _link(attributes.text("post_transform", "NONE"))
    if len(labels) < 2 or (texts and integers) or len(set(labels)) < len(labels):
        raise ValueError(f"the model has the class labels {labels[:5]}; expected two at least, each once.")
    base, classes = attributes.floats("base_values"), np.unique(read.output)
    if len(labels) == 2 and len(classes) == 1:
        return _one_weight(read, base, link, labels)
    if len(classes) < len(labels):
        raise ValueError(f"the model has weights for the classes {classes.tolist()[:9]} of {len(labels)} alone.")
    if len(base) and (len(labels) == 2 or len(base) != len(labels)):
        raise ValueError(
            f"the model has {len(base)} base values for {len(labels)} classes, each with weights; ONNX Runtime and the "
            "standard differ about these." if len(labels) == 2 else f"the model has {len(base)} base values."
        )  # fmt: skip
    values, outputs = _values(read, len(labels))
    if len(labels) == 2 and (bare_classes := _outputs_without_weights(read, 2)):
        raise ValueError(
            f"the model has two classes, and leaves without weights for {labels[bare_classes[0]]!r:.60}; ONNX Runtime "
            "takes the other one's for both then. Give these leaves weights of 0."
        )
    return _Sums(values, outputs, base if len(base) else np.zeros(len(labels)), link, labels)


def _one_weight(read: OnnxTrees, base: np.ndarray, link: str, labels: tuple) -> _Sums:
    """Return the sums for two classes where each leaf has one weight: for the second class's probability, or its score.

    The weights are scores if any is negative. ``read`` has trees and weights, ``base`` is empty or one base value,
    ``link`` follows the sums, and ``labels`` are those of the classes.
    """
    if read.output[0] != 0 or len(base) > 1 or link == "softmax":
        raise ValueError(
            f"the model has two classes, weights for that at {int(read.output[0])} alone, {len(base)} base values and "
            f"the link {link}; from_onnx imports weights for that at 0, one base value, and no SOFTMAX."
        )
    values, outputs = _values(read, 1)
    base = base if len(base) else np.zeros(1)
    is_share = read.weight.min() >= 0
    if is_share and link == "logistic":
        raise ValueError(
            "the model has two classes and weights that are never negative, which go through LOGISTIC; ONNX Runtime "
            "then labels by the sum, as if it were a share."
        )
    if is_share:
        by_class = [np.concatenate([-leaf_values, leaf_values], axis=1) for leaf_values in values]
        return _Sums(by_class, [np.array([0, 1])] * len(by_class), np.concatenate([1 - base, base]), link, labels)
    return _Sums(values, outputs, base, link, labels)


def _values(read: OnnxTrees, n_outputs: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return each tree's leaf values ``[nodes outputs of the tree]``, and which of ``n_outputs`` these are for.

    A ValueError for other outputs; ``read`` has the trees and the weights of leaves.
    """
    if read.output.min() < 0 or read.output.max() >= n_outputs:
        raise ValueError(f"the ONNX trees have weights for outputs beyond {n_outputs}.")
    order = np.argsort(read.of_tree, kind="stable")
    ends = np.searchsorted(read.of_tree[order], np.arange(len(read.trees) + 1))
    values, outputs = [], []
    for t, tree in enumerate(read.trees):
        rows = order[ends[t] : ends[t + 1]]
        tree_outputs, column = np.unique(read.output[rows], return_inverse=True)
        leaf_values = np.zeros((len(tree.left), len(tree_outputs)))
        n_weights = np.zeros(leaf_values.shape, np.int64)
        np.add.at(n_weights, (read.node[rows], column), 1)
        if n_weights.max(initial=0) > 1 or (n_outputs == 1 and np.any(n_weights[tree.left < 0].sum(axis=1) != 1)):
            raise ValueError(f"tree {t} has leaves with several weights for one output, or none.")
        leaf_values[read.node[rows], column] = read.weight[rows]
        values.append(leaf_values)
        outputs.append(tree_outputs)
    return values, outputs


def _outputs_without_weights(read: OnnxTrees, n_outputs: int) -> list[int]:
    """Return the outputs that lack a weight in a leaf of each tree ``read``: an instance may get no weight for them."""
    n_leaves = np.array([np.count_nonzero(tree.left < 0) for tree in read.trees])
    n_weights = np.zeros((len(read.trees), n_outputs), np.int64)
    np.add.at(n_weights, (read.of_tree, read.output), 1)
    return np.flatnonzero(np.all(n_weights < n_leaves[:, None], axis=0)).tolist()


def _link_after(read: OnnxTrees, sums: _Sums, steps: tuple[str, ...]) -> str:
    """Return the link of ``sums`` after ``steps``, the operators behind the trees, ``read``; else a ValueError."""
    link, has_several = sums.link, len(sums.base) > 1
    for step in steps:
        if step in ("Sigmoid", "Exp") and link == "identity" and sums.class_labels is None:
            link = {"Sigmoid": "logistic", "Exp": "exp"}[step]
        elif step == "Softmax" and link == "identity" and has_several:
            link = "softmax"
        elif step == "L1" and link == "logistic" and has_several:
            link = "one-vs-rest"
        elif not (step == "L1" and _adds_to_one(read, sums, link)):  # L1 changes no answers that add to 1
            raise ValueError(f"the ONNX graph has {step} after scores of the link {link!r}, which is not imported.")
    return link


def _adds_to_one(read: OnnxTrees, sums: _Sums, link: str) -> bool:
    """Return whether ``sums`` of the trees ``read`` add to 1 after ``link``, so that an L1 norm changes nothing."""
    if link in ("softmax", "one-vs-rest") or (link == "logistic" and sums.class_labels is not None):
        return True
    total, lowest_sums = sums.base.sum(), sums.base.copy()
    for tree, values, tree_outputs in zip(read.trees, sums.values, sums.outputs, strict=True):
        leaves = values[tree.left < 0]
        if np.ptp(leaves.sum(axis=1)) > 1e-5:
            return False
        total += leaves.sum(axis=1)[0]
        lowest_sums[tree_outputs] += leaves.min(axis=0)
    return link == "identity" and len(sums.base) > 1 and abs(total - 1) < 1e-5 and bool(lowest_sums.min() > -1e-5)

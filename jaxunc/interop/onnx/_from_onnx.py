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

_LINKS = {"NONE": "identity", "LOGISTIC": "logistic", "SOFTMAX": "softmax"}  # by post_transform
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")  # by `TreeEnsemble`'s numbers
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # likewise
_SETTINGS = {"averaged": False, "trees_per_stage": 0, "absent_is_missing": False, "spaces_are_underlines": False}
"""What our files say in `SETTINGS`, with the values for other files. A stage of 0 trees: their order tells its size."""


class _Sums(NamedTuple):
    """The sums of an ensemble: for each output the leaf values that are added, and the link of the sum."""

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
        where ONNX Runtime and the standard differ, for example about two classes with weights for both and base values.
        Also if `to_onnx` made the file from a forest: keep forests by `jaxunc.save`.

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
    ensemble, sums = _read(graph)
    trees = ensemble.trees
    names = None
    settings = _SETTINGS
    if graph.producer == OURS:
        sums, names, settings = _read_metadata(graph.properties, sums)
        if SETS in graph.properties:
            trees = with_sets(trees, graph.n_features or 0, graph.properties[SETS])
    if graph.producer == "skl2onnx" and not ensemble.has_tracks:
        warn(
            "skl2onnx made the model and left out where missing values go: all go to the false branch. If the data "
            "have missing values, import the scikit-learn model itself by from_sklearn."
        )
    n_features = graph.n_features or 1 + max(int(tree.feature.max()) for tree in trees)  # else as many as are tested
    n_outputs = len(sums.base)
    values = widen_values(sums.values, sums.outputs, n_outputs)
    check_number_of_columns(n_features)
    link = sums.link if graph.producer == OURS else _link_after(ensemble, sums, graph.after)
    trees = [tree._replace(leaf_values=leaf_values) for tree, leaf_values in zip(trees, values, strict=True)]
    flags = {name: settings[name] for name in ("absent_is_missing", "spaces_are_underlines")}
    columns = Columns(n_features, names, cuts=(None,) * n_features if graph.wide else None, **flags)
    by_order = trees_of_stage(sums.outputs, n_outputs)
    per_stage = settings["trees_per_stage"] or by_order or 1
    if n_outputs > 1 and by_order not in (None, per_stage):
        raise ValueError(f"the model's metadata claim {per_stage} trees a stage of {by_order}. Is the file whole?")
    return ensemble_of(
        trees,
        columns,
        sums.base,
        link,
        trees_per_stage=per_stage,
        class_labels=sums.class_labels,
        averaged=settings["averaged"],
    )


def _proto(model: Any) -> Any:
    """Return ``model``, or the file whose path or bytes it is, as ``onnx.ModelProto``; errors are `from_onnx`'s."""
    is_file = isinstance(model, GIVEN)
    if not is_file and type(model).__name__ != "ModelProto":
        raise TypeError(f"model is a {type(model).__name__}; pass a path, bytes, or an onnx.ModelProto.")
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        needed = 'files of ONNX are read by the package onnx: pip install "jaxunc[onnx]".'
        raise ImportError(needed, name="onnx") from error
    if not is_file:
        return model
    try:
        return onnx.ModelProto.FromString(content_of(model))
    except Exception as error:  # protobuf's DecodeError, which is no ValueError
        raise ValueError(f"the file is no ONNX model: {error}. Is it whole?") from error


def _read(graph: TreesInGraph) -> tuple[OnnxTrees, _Sums]:
    """Return (trees, sums of their leaf values) of the node in ``graph``; a ValueError for what is not imported."""
    attributes = graph.attributes
    if graph.operator == "TreeEnsembleClassifier":
        ensemble = read_nodes(attributes, "class")
        return ensemble, _classifier(attributes, ensemble)
    if graph.operator == "TreeEnsembleRegressor":
        ensemble = read_nodes(attributes, "target")
        aggregate = attributes.text("aggregate_function", "SUM")
        transform = attributes.text("post_transform", "NONE")
        base = attributes.floats("base_values")
    else:
        ensemble = read_ensemble(attributes)
        aggregate_number = attributes.integer("aggregate_function", 1)
        transform_number = attributes.integer("post_transform", 0)
        aggregate = _name_of(aggregate_number, _AGGREGATES)
        transform = _name_of(transform_number, _TRANSFORMS)
        if transform in ("SOFTMAX", "LOGISTIC"):
            raise ValueError(
                f"the model's TreeEnsemble has post_transform {transform_number}, which is {transform} in the "
                "standard; ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX. "
                "Put a node Sigmoid or Softmax behind it."
            )
        base = np.zeros(0)
    return ensemble, _regressor(attributes, ensemble, base, aggregate, transform)


def _name_of(number: int, names: tuple[str, ...]) -> str:
    """Return ``names[number]``; the number as text if it is out of range, for the message that refuses it."""
    return names[number] if 0 <= number < len(names) else str(number)


def _read_metadata(properties: dict[str, str], sums: _Sums) -> tuple[_Sums, tuple[str, ...] | None, dict[str, Any]]:
    """Return (sums, names of columns or None, settings) of a file that `to_onnx` made, from its metadata, by name.

    The sums are ``sums`` with the link and the class labels of the metadata; settings have the names of `_SETTINGS`. A
    ValueError for a forest, and for damaged metadata.
    """
    kind = properties.get("jaxunc.model")
    if kind not in ("AdditiveTrees", "TreeEnsemble"):  # the second is its earlier name
        raise ValueError(
            f"the file holds a forest bound to {kind}, whose trees add up what the combiner lifted: no ensemble, and "
            "no counts. Keep forests by ju.save."
        )
    try:
        labels, names = (json.loads(properties.get(key, "null")) for key in ("class_labels", "feature_names"))
        labels, names = (None if words is None else tuple(words) for words in (labels, names))
        if not all(isinstance(word, str | int | float) for word in (*(labels or ()), *(names or ()))):
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
    """Return the link that ``transform`` stands for, a post_transform of ONNX; a ValueError if it is not imported."""
    if transform not in _LINKS:
        raise ValueError(f"the model's post_transform is {transform!r:.60}; from_onnx imports {', '.join(_LINKS)}.")
    return _LINKS[transform]


def _regressor(attributes: Attributes, ensemble: OnnxTrees, base: np.ndarray, aggregate: str, transform: str) -> _Sums:
    """Return the sums of ``ensemble``, the trees of a regressor; a ValueError for what is not imported.

    ``base`` has a number for each target, which is added to its sum, or is empty. ``aggregate`` (such as "SUM") and
    ``transform`` (such as "NONE") are ONNX's names.
    """
    n_outputs = attributes.integer("n_targets", 1)
    link = _link(transform)
    if aggregate not in ("SUM", "AVERAGE"):
        raise ValueError(f"the model's aggregate_function is {aggregate!r:.60}; from_onnx imports SUM and AVERAGE.")
    if not 0 < n_outputs <= len(ensemble.weight):
        raise ValueError(f"the model has {n_outputs} targets for {len(ensemble.weight)} weights of leaves.")
    if n_outputs == 1 and link != "identity":
        raise ValueError(f"the model has post_transform {transform} for one target, which ONNX Runtime passes by.")
    if len(base) not in (0, n_outputs):
        raise ValueError(f"the model has {len(base)} base values for {n_outputs} targets.")
    values, outputs = _values(ensemble, n_outputs)
    if bare_targets := [k for k in _outputs_without_weights(ensemble, n_outputs) if len(base) and base[k] != 0]:
        raise ValueError(
            f"the model has base values for the targets {bare_targets[:5]}, and leaves without weights for them; ONNX "
            "Runtime leaves the base value out there. Give these leaves weights of 0."
        )
    if aggregate == "AVERAGE":
        values = [leaf_values / len(values) for leaf_values in values]
    base = base if len(base) else np.zeros(n_outputs)
    return _Sums(values, outputs, base, link, class_labels=None)


def _classifier(attributes: Attributes, ensemble: OnnxTrees) -> _Sums:
    """Return the sums of ``ensemble``, the trees of a classifier; a ValueError for what is not imported."""
    texts = attributes.texts("classlabels_strings")
    integers = attributes.ints("classlabels_int64s").tolist()
    labels = tuple(texts or integers)
    link = _link(attributes.text("post_transform", "NONE"))
    if len(labels) < 2 or (texts and integers) or len(set(labels)) < len(labels):
        raise ValueError(f"the model has the class labels {labels[:5]}; expected two at least, each once.")
    base = attributes.floats("base_values")
    classes = np.unique(ensemble.output)  # those that have weights
    if len(labels) == 2 and len(classes) == 1:
        return _one_weight(ensemble, base, link, labels)
    if len(classes) < len(labels):
        raise ValueError(f"the model has weights for the classes {classes.tolist()[:9]} of {len(labels)} alone.")
    if len(base) and len(labels) == 2:
        raise ValueError(
            f"the model has {len(base)} base values for {len(labels)} classes, each with weights; ONNX Runtime and the "
            "standard differ about these."
        )
    if len(base) not in (0, len(labels)):
        raise ValueError(f"the model has {len(base)} base values.")
    values, outputs = _values(ensemble, len(labels))
    if len(labels) == 2 and (bare_classes := _outputs_without_weights(ensemble, 2)):
        raise ValueError(
            f"the model has two classes, and leaves without weights for {labels[bare_classes[0]]!r:.60}; ONNX Runtime "
            "takes the other one's for both then. Give these leaves weights of 0."
        )
    base = base if len(base) else np.zeros(len(labels))
    return _Sums(values, outputs, base, link, labels)


def _one_weight(ensemble: OnnxTrees, base: np.ndarray, link: str, labels: tuple) -> _Sums:
    """Return the sums of ``ensemble`` for two classes; its leaves have one weight each, for the second class.

    Weights are scores of this class if any is negative, else its probabilities. ``base`` has one number, which is added
    to the sum, or is empty. A ValueError for what is not imported.
    """
    class_index = int(ensemble.output[0])
    if class_index != 0 or len(base) > 1 or link == "softmax":
        raise ValueError(
            f"the model has two classes, weights for that at {class_index} alone, {len(base)} base values and "
            f"the link {link}; from_onnx imports weights for that at 0, one base value, and no SOFTMAX."
        )
    values, outputs = _values(ensemble, 1)
    base = base if len(base) else np.zeros(1)
    is_probability = ensemble.weight.min() >= 0
    if is_probability and link == "logistic":
        raise ValueError(
            "the model has two classes and weights that are never negative, which go through LOGISTIC; ONNX Runtime "
            "then labels by the sum, as if it were a share."
        )
    if is_probability:
        # The first class has the sum 1 - p: the base of 1, less the weights.
        by_class = [np.concatenate([-leaf_values, leaf_values], axis=1) for leaf_values in values]
        both_outputs = [np.array([0, 1])] * len(by_class)
        return _Sums(by_class, both_outputs, np.concatenate([1 - base, base]), link, labels)
    return _Sums(values, outputs, base, link, labels)


def _values(ensemble: OnnxTrees, n_outputs: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return (leaf values ``[nodes outputs of the tree]`` of each tree, outputs of each tree).

    A tree's outputs are indices, below ``n_outputs``, of the sums that its leaves have weights for. A ValueError for
    other outputs, and for leaves with two weights for one output. If there is one output, also for leaves without.
    """
    if ensemble.output.min() < 0 or ensemble.output.max() >= n_outputs:
        raise ValueError(f"the ONNX trees have weights for outputs beyond {n_outputs}.")
    order = np.argsort(ensemble.of_tree, kind="stable")
    ends = np.searchsorted(ensemble.of_tree[order], np.arange(len(ensemble.trees) + 1))
    values, outputs = [], []
    for t, tree in enumerate(ensemble.trees):
        rows = order[ends[t] : ends[t + 1]]
        tree_outputs, column = np.unique(ensemble.output[rows], return_inverse=True)
        leaf_values = np.zeros((len(tree.left), len(tree_outputs)))
        n_weights = np.zeros(leaf_values.shape, np.int64)
        np.add.at(n_weights, (ensemble.node[rows], column), 1)
        has_twice = n_weights.max(initial=0) > 1
        if has_twice or (n_outputs == 1 and np.any(n_weights[tree.left < 0].sum(axis=1) != 1)):
            raise ValueError(f"tree {t} has leaves with several weights for one output, or none.")
        leaf_values[ensemble.node[rows], column] = ensemble.weight[rows]
        values.append(leaf_values)
        outputs.append(tree_outputs)
    return values, outputs


def _outputs_without_weights(ensemble: OnnxTrees, n_outputs: int) -> list[int]:
    """Return the outputs, below ``n_outputs``, for which every tree of ``ensemble`` has a leaf without a weight.

    An instance may get no weight at all for such an output.
    """
    n_leaves = np.array([np.count_nonzero(tree.left < 0) for tree in ensemble.trees])
    n_weights = np.zeros((len(ensemble.trees), n_outputs), np.int64)
    np.add.at(n_weights, (ensemble.of_tree, ensemble.output), 1)
    return np.flatnonzero(np.all(n_weights < n_leaves[:, None], axis=0)).tolist()


def _link_after(ensemble: OnnxTrees, sums: _Sums, steps: tuple[str, ...]) -> str:
    """Return the one link that does what the link of ``sums`` and then ``steps`` do; a ValueError if there is none."""
    link = sums.link
    has_several = len(sums.base) > 1
    for step in steps:
        # Only on a regressor's sums, which have no class labels: they need not turn scores into shares of classes.
        if step in ("Sigmoid", "Exp") and link == "identity" and sums.class_labels is None:
            link = {"Sigmoid": "logistic", "Exp": "exp"}[step]
        elif step == "Softmax" and link == "identity" and has_several:
            link = "softmax"
        elif step == "L1" and link == "logistic" and has_several:
            link = "one-vs-rest"
        elif not (step == "L1" and _adds_to_one(ensemble, sums, link)):  # L1 changes no answers that add to 1
            raise ValueError(f"the ONNX graph has {step} after scores of the link {link!r}, which is not imported.")
    return link


def _adds_to_one(ensemble: OnnxTrees, sums: _Sums, link: str) -> bool:
    """Return whether every instance's answers, ``sums`` after ``link``, are at least 0 and add to 1 (up to 1e-5)."""
    if link in ("softmax", "one-vs-rest") or (link == "logistic" and sums.class_labels is not None):
        return True
    # Leaves of one tree must have the same total. So the sums have one, too, whichever leaves an instance reaches.
    total = sums.base.sum()
    lowest_sums = sums.base.copy()
    for tree, values, tree_outputs in zip(ensemble.trees, sums.values, sums.outputs, strict=True):
        leaves = values[tree.left < 0]
        if np.ptp(leaves.sum(axis=1)) > 1e-5:
            return False
        total += leaves.sum(axis=1)[0]
        lowest_sums[tree_outputs] += leaves.min(axis=0)
    return link == "identity" and len(sums.base) > 1 and abs(total - 1) < 1e-5 and bool(lowest_sums.min() > -1e-5)

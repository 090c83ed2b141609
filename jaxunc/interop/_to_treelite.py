"""Forests bound to rules, and ensembles of trees, as treelite models."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner, EvidenceAccumulation, Mean, Vote, Weighted
from jaxunc.forest import Forest, Trees
from jaxunc.inference import leaf_table
from jaxunc.scorers import score_width
from jaxunc.smoothing import SmoothedMean

from ._exported import about, asked_model
from ._plain_tests import plain_nodes
from ._treelite_tests import TreeliteNode, treelite_trees

_POSTPROCESSORS = {
    ("identity", False): "identity", ("identity", True): "identity_multiclass", ("exp", False): "exponential",
    ("logistic", False): "sigmoid", ("logistic", True): "multiclass_ova", ("softmax", True): "softmax",
}  # fmt: skip
"""By the link, and whether there are several classes."""


class _Additive(NamedTuple):
    """What trees add up, and what becomes of it."""

    values: np.ndarray
    """``[trees nodes each]``, float64."""
    base: np.ndarray
    link: str
    n_classes: int | None
    """None for numbers."""
    outputs: np.ndarray | None = None
    """The output that each tree counts for, where it has one value."""


def to_treelite(model: Any) -> Any:
    """Return a model as one of treelite, with what treelite can finish: probabilities of means, and log evidence.

    Parameters
    ----------
    model
        What `bind` returns, for `Mean`, `Vote`, `jaxunc.smoothing.SmoothedMean`, `EvidenceAccumulation`, or one of
        these with weights (`Weighted`); a fitted estimator of `jaxunc.estimators` with such a rule; or a
        `AdditiveTrees`.

    Returns
    -------
    treelite.Model
        ``treelite.gtil.predict(model, X)`` of float64 ``[instances features]`` has the probabilities of the rule
        ``[instances 1 classes]`` (the class scores where it has no probability), or what the ensemble predicts: of two
        classes with one sum the probability of the second. NaN is a missing value. ``model.serialize(path)`` writes it.

    Raises
    ------
    ImportError
        If the package ``treelite`` is not installed.
    TypeError
        If ``model`` is something else, or traced.
    ValueError
        For other rules, which are named, and take `to_onnx`: treelite adds leaf values, and has a few functions of the
        sums. If means are clipped, leaves veto a class (``smoothing=0``), empty leaves are followed, or the link of an
        ensemble is ``"one-vs-rest"``. If tests of intervals that are no categories need too many copies, or trees share
        nodes otherwise.

    Notes
    -----
    Thresholds and leaf values are float64, and sums are: any number goes where it goes here, where it is rounded to
    float32 first (columns with cuts aside). Answers are within 1e-6. Columns with levels are given as codes, as for
    `to_onnx`. Sets of categories are of integer parts, which are not rounded to float32 first. Other intervals are
    comparisons, with a copy of what is below for each. Class labels and names of columns are the model's attributes.

    Examples
    --------
    ::

        model = ju.to_treelite(ju.bind(forest, ju.Mean()))
        treelite.gtil.predict(model, X.astype(np.float64))[:, 0]  # the probabilities
    """
    model = asked_model(model)
    try:
        import treelite.model_builder  # pyright: ignore[reportMissingImports]  # noqa: F401
    except ImportError as error:
        raise ImportError('to_treelite makes models by treelite: pip install "treelite>=4.8".') from error
    if isinstance(model, AdditiveTrees):
        return _built(model.trees, _of_ensemble(model), about(model.columns, model.class_labels))
    return _built(model.forest.trees, _of_rule(model.forest, model.combiner), about(model.columns, model.class_labels))


def _of_ensemble(model: AdditiveTrees) -> _Additive:
    labels, values = model.class_labels, np.asarray(model.values, np.float64)
    outputs = model.outputs_of_trees if values.shape[2] < model.n_outputs else None
    n_classes = None if labels is None else model.n_outputs
    return _Additive(values, np.asarray(model.base, np.float64), model.link, n_classes, outputs)


def _of_rule(forest: Forest, combiner: Combiner) -> _Additive:
    weights, rule = np.ones(forest.n_trees), combiner
    if isinstance(combiner, Weighted):
        weights, rule = np.asarray(combiner.weights, np.float64), combiner.rule
    if not isinstance(rule, Mean | Vote | SmoothedMean | EvidenceAccumulation) or not weights.any():
        raise ValueError(
            f"{type(rule).__name__} is none of the rules that treelite can finish: Mean, Vote, SmoothedMean and "
            "EvidenceAccumulation, with weights that are not all 0. Take to_onnx."
        )
    table = leaf_table(forest, rule)
    if isinstance(rule, EvidenceAccumulation):
        values = np.asarray(table, np.float64) * weights[:, None, None]
        if not np.isfinite(values).all():
            raise ValueError(
                "EvidenceAccumulation(smoothing=0) has leaves that veto a class, and treelite answers NaN where all "
                "are vetoed. Take to_onnx, or some smoothing."
            )
        base = rule.finish(jnp.zeros(values.shape[2])).class_scores
        return _Additive(values, np.asarray(base, np.float64), "softmax", forest.n_classes)
    # What a leaf says by itself: its scores, and the probabilities that are read of them.
    says = rule.finish({**table, "trees": jnp.ones(forest.trees.child.shape)})
    scores = np.asarray(says.class_scores, np.float64)
    if says.probability is not None:
        width = score_width(rule.scorer) if isinstance(rule, Mean) else 1.0
        shares = scores / width + (1 / forest.n_classes if isinstance(rule, Mean) else 0)
        is_leaf = np.asarray(forest.trees.is_leaf)
        if np.abs(shares - says.probability)[is_leaf].max() > 1e-6:
            raise ValueError(
                "the mean's probabilities are clipped, or divided by what they add up to, which treelite does not. "
                "Take to_onnx."
            )
        scores = shares
    return _Additive(
        scores * (weights / weights.sum())[:, None, None], np.zeros(scores.shape[2]), "identity", forest.n_classes
    )


def _built(trees: Trees, sums: _Additive, attributes: dict[str, Any]) -> Any:
    from treelite.model_builder import (  # pyright: ignore[reportMissingImports]
        Metadata,
        ModelBuilder,
        PostProcessorFunc,
        TreeAnnotation,
    )

    n_outputs, several = len(sums.base), sums.n_classes is not None and len(sums.base) > 1
    if (name := _POSTPROCESSORS.get((sums.link, several))) is None:
        raise ValueError(f"the link {sums.link!r} of {n_outputs} sums is none of treelite's. Take to_onnx.")
    targets = 1 if several else n_outputs
    shape = (targets, n_outputs // targets) if sums.outputs is None else (1, 1)
    task = "kRegressor" if sums.n_classes is None else "kMultiClf" if several else "kBinaryClf"
    outputs = [-1] * trees.n_trees if sums.outputs is None and n_outputs > 1 else [0] * trees.n_trees
    if sums.outputs is not None:
        outputs = sums.outputs.tolist()
    whole = [0] * trees.n_trees
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(trees.n_features, task, False, targets, [n_outputs // targets] * targets, shape),
        tree_annotation=TreeAnnotation(trees.n_trees, *((whole, outputs) if several else (outputs, whole))),
        postprocessor=PostProcessorFunc(name),
        base_scores=sums.base.tolist(),
        attributes=attributes,
    )
    nodes = plain_nodes(trees, wide=True)
    for tree in treelite_trees(nodes, trees.columns):
        builder.start_tree()
        for key, node in tree:
            builder.start_node(key)
            if node.leaf is None:
                _add_test(builder, node)
            else:
                own = sums.values[nodes.tree[node.leaf], nodes.node[node.leaf]].tolist()
                builder.leaf(own if shape != (1, 1) else own[0])
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def _add_test(builder: Any, node: TreeliteNode) -> None:
    if node.categories is not None:
        builder.categorical_test(
            feature_id=node.feature,
            default_left=node.missing_left,
            category_list=node.categories,
            category_list_right_child=not node.listed_left,
            left_child_key=node.left,
            right_child_key=node.left + 1,
        )
        return
    builder.numerical_test(
        feature_id=node.feature,
        threshold=node.value,
        default_left=node.missing_left,
        opname="<" if node.none_left else "<=",
        left_child_key=node.left,
        right_child_key=node.left + 1,
    )

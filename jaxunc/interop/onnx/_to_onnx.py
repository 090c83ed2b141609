"""Exporter of bound forests and additive trees as ONNX models.

The trees are one node, which adds up what the combiner lifted (`_sum_trees`). The combiner's ``finish`` follows: JAX
traces it for one instance, and `translate` writes it operator by operator.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from jaxunc._numerics import TwoFloat, two_sum
from jaxunc._types import PyTree
from jaxunc._version import __version__
from jaxunc.additive import AdditiveTrees, apply_link
from jaxunc.combiners import Answer, Combiner, Preference, merge_kinds
from jaxunc.decisions import CautiousAnswer, interval_dominance
from jaxunc.forest import Forest, Trees
from jaxunc.inference import OfSums, ReadOuts, leaf_table
from jaxunc.scorers import Interval
from jaxunc.tables import Columns

from .._exported import describe, model_to_export
from ._graph import SETTINGS, Graph, add_trees, pieces_of
from ._translate import Rows, Unknown, Value, expand, translate

INPUT = "X"


def to_onnx(model: Any) -> Any:
    """Return a model as ONNX, which runs where neither JAX nor this library is.

    Parameters
    ----------
    model
        What `bind` returns, for a combiner whose merges are sums; a fitted estimator of `jaxunc.estimators`;
        `jaxunc.regression.LeafMoments`; or an `AdditiveTrees`.

    Returns
    -------
    onnx.ModelProto
        Its input ``X`` is float32 ``[instances features]``, NaN being a missing value. Its outputs have the names
        below. ``model.SerializeToString()`` are the bytes of a file.

        * combiners that answer an `Answer`: ``label``, ``probability`` (where there is one), ``class_scores``;
        * `GeneralizedVote`: ``set`` (bools ``[instances classes]``, as `jaxunc.decisions.nondominated`), ``mass``,
          ``total``; `AveragedIntervals`: ``set`` (as `jaxunc.decisions.interval_dominance`), ``lower``, ``upper``;
        * `jaxunc.decisions.CautiousReport`: ``label``, ``probability``, ``set``, ``lower``, ``upper``;
        * several combiners: these with the combiner's name in front, as in ``mean.probability``;
        * others: their fields, or ``answer`` (the combiner's name, among several) where they answer an array alone;
        * `jaxunc.regression.LeafMoments`: ``mean``, ``std``, ``aleatoric``, ``epistemic``;
        * `jaxunc.estimators.UncertainForestRegressor`: the same, and ``lower``, ``upper`` of 90 % intervals. With
          ``model.bound_.asking(0.8, [0.1, 0.5])``, 80 % intervals, and ``quantile_0.1``, ``quantile_0.5``;
        * an `AdditiveTrees`: ``raw``, and ``prediction`` or, for a classifier, ``label`` and ``probability``.

    Raises
    ------
    ImportError
        If the package ``onnx`` is not installed.
    TypeError
        If ``model`` is something else, or traced.
    ValueError
        If a merge of the combiner is not a sum, or its ``finish`` computes what has no operator, which is named. If
        chances (`exceeds`) are asked for, or a conformal law has too few rows for a level that is asked for. If empty
        leaves are followed. If labels are not all integers of 64 bits, all texts, all bools or all floats. If the file
        would have more than two gigabytes. If trees share nodes other than in tests of sets.

    Notes
    -----
    **What is equal.** Instances reach the leaves that they reach here. Sums over trees are taken in double precision
    and rounded once; what follows is the combiner's own ``finish``, operation by operation. So answers differ by the
    last bits of exponentials, logarithms and powers alone: in ONNX Runtime by less than 1e-6 max(1, abs(answer)). They
    are float32, float64 where JAX computes with 64 bits. Answers about numbers are float64: each tree's mean is an
    output of the trees, so that nothing cancels. They are as exact as the leaves' means in float32, as here.

    **Columns.** Those with levels are given as codes, positions among the levels, as `jaxunc.tables.encode_instances`
    makes them; the model's metadata list them. If any column is compared as float64 (it has cuts), the whole input is
    double.

    **Sets** of categories, and other tests of intervals: for each distinct set the graph appends a column to the
    instances, because trees of ONNX compare with one number.

    **Metadata.** ``feature_names``, ``class_labels`` and ``levels`` as JSON, where there are any; ``jaxunc.version``;
    of an `AdditiveTrees` what `from_onnx` gives back. Operators are of ai.onnx 18 and ai.onnx.ml 3. ONNX Runtime 1.26.0
    answers wrongly for missing values (microsoft/onnxruntime#28557).

    Examples
    --------
    ::

        model = ju.to_onnx(ju.bind(forest, ju.EvidenceAccumulation(forest.prior)))
        Path("forest.onnx").write_bytes(model.SerializeToString())

        session = onnxruntime.InferenceSession("forest.onnx")
        label, probability, class_scores = session.run(None, {"X": X.astype(np.float32)})
    """
    model = model_to_export(model)
    try:
        graph = Graph()
    except ImportError as error:
        raise ImportError('to_onnx makes models by the package onnx: pip install "jaxunc[onnx]".') from error
    if isinstance(model, AdditiveTrees):
        return _of_ensemble(graph, model)
    return _of_sums(graph, model) if isinstance(model, OfSums) else _of_combiner(graph, model)


class ExactSum(TwoFloat):
    """A sum as two floats, whose division needs arithmetic alone: ONNX has no operators for the bits of a float."""

    def divided_by(self, divisor: float | int) -> "ExactSum":
        """Return the sum divided by ``divisor``, as two floats (Dekker's division, with Veltkamp's splitting)."""
        b = jnp.asarray(divisor, self.high.dtype)
        factor = jnp.asarray(2.0 ** ((jnp.finfo(b.dtype).nmant + 2) // 2) + 1, b.dtype)

        def split(x):
            """Return two floats with half as many digits each, which add up to ``x``."""
            high = factor * x - (factor * x - x)
            return high, x - high

        quotient = self.high / b
        product = quotient * b
        a_high, a_low = split(quotient)
        b_high, b_low = split(b)
        error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
        return ExactSum(*two_sum(quotient, (((self.high - product) - error) + self.low) / b))


def _of_combiner(graph: Graph, bound: ReadOuts) -> Any:
    """Return the ONNX model of ``bound``, a bound forest: sums over the trees, then the combiner's ``finish``."""
    forest, combiner = bound.forest, bound.combiner
    stat, values = _sum_trees(graph, _instances(graph, forest.trees), forest, combiner)
    names = []  # of the outputs; `finish` fills both lists when it is traced
    label_names = []  # of those outputs that are indices of classes

    def finish(stat: PyTree) -> list[Any]:
        fields = list(_named(combiner.finish(stat)))
        names[:] = [name for name, _, _ in fields]
        label_names[:] = [name for name, _, is_class in fields if is_class]
        return [value for _, value, _ in fields]

    program: ClosedJaxpr = jax.make_jaxpr(finish)(stat)
    answers = dict(zip(names, translate(graph, program, values), strict=True))
    kind = type(combiner).__name__
    return _model(graph, forest.trees.columns, answers, forest.class_labels, kind, label_names=label_names)


def _of_sums(graph: Graph, model: OfSums) -> Any:
    """Return the ONNX model of ``model``: sums over the trees of its bound forests, then its answer of these sums.

    The answer is computed in double precision.
    """
    forest = model.parts[0].forest
    instances = _instances(graph, forest.trees)
    sums = [_sum_trees(graph, instances, bound.forest, bound.combiner, by_tree=True) for bound in model.parts]
    names = []  # of the outputs; `answer` fills them in when it is traced

    def answer(*stats: PyTree) -> list[Any]:
        columns = model.of_sums(*stats)
        names[:] = columns
        return list(columns.values())

    with jax.enable_x64(True):
        program: ClosedJaxpr = jax.make_jaxpr(answer)(*(stat for stat, _ in sums))
        outputs = translate(graph, program, [value for _, values in sums for value in values])
    answers = dict(zip(names, outputs, strict=True))
    return _model(graph, forest.trees.columns, answers, labels=None, what=type(model).__name__)


def _sum_trees(
    graph: Graph, instances: str, forest: Forest, combiner: Combiner, *, by_tree: bool = False
) -> tuple[PyTree, list[Value]]:
    """Add a node to ``graph`` that sums, over the trees, what ``combiner`` lifts from leaves; return (shapes, values).

    Values are the arrays of the merged statistic, as values of the graph; shapes are the statistic of one instance. A
    ValueError if a merge is not a sum; with ``by_tree`` the merge "collect" is allowed, too: a sum for each tree.
    """
    table = leaf_table(forest, combiner)
    arrays, structure = jax.tree.flatten(table)
    kinds = merge_kinds(combiner.merge, table)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(table)]
    pieces_of_array = {}  # by the array's index: pieces ``[trees nodes planes]``, each with sums of its own
    for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True)):
        if array.ndim == 1:  # a number for each tree, which needs no walk
            continue
        if kind not in ("sum", "exact_sum") and not (by_tree and kind == "collect"):
            raise ValueError(
                f"{type(combiner).__name__} merges its statistic{paths[i]} by {kind!r}, which sums over trees cannot "
                "say. Export a combiner whose merges are sums, or take bound.export(), which needs JAX where it runs."
            )
        values = np.asarray(array, np.float64).reshape(*array.shape[:2], -1)  # [trees nodes planes]
        if kind != "exact_sum" and array.dtype == np.float32:
            pieces_of_array[i] = [values]  # a float32 sum in ONNX is rounded once, as ours is
        else:
            n_added = 1 if kind == "collect" else forest.n_trees  # what is collected is a sum over a single tree
            pieces_of_array[i] = pieces_of(values, n_added)
    if not pieces_of_array:
        raise ValueError(f"{type(combiner).__name__} asks nothing of leaves; there is nothing to export.")
    pieces = [piece for array_pieces in pieces_of_array.values() for piece in array_pieces]
    piece_kinds = [kinds[i] for i, array_pieces in pieces_of_array.items() for _ in array_pieces]
    target = _sums_of_planes(pieces, piece_kinds, forest.n_trees)
    sums = add_trees(graph, instances, forest.trees, np.concatenate(pieces, axis=2), target)
    # Each array is put together again from the columns of its pieces' sums.
    merged_arrays = []
    next_sum = 0
    for i, (array, kind) in enumerate(zip(arrays, kinds, strict=True)):
        sum_dtype = np.dtype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else jnp.result_type(float))
        if array.ndim == 1:
            merged_arrays.append(_of_numbers(np.asarray(array, np.float64), kind, sum_dtype))
            continue
        shape = (forest.n_trees, *array.shape[2:]) if kind == "collect" else array.shape[2:]
        n_columns = math.prod(shape)
        names = []
        for _ in pieces_of_array[i]:
            indices = np.arange(next_sum, next_sum + n_columns)
            names.append(graph.node("Gather", sums, graph.constant(indices), axis=1))
            next_sum += n_columns
        merged_arrays.append(_of_pieces(graph, names, kind, shape, sum_dtype))
    stat = structure.unflatten([jax.tree.map(_shape, merged, is_leaf=_is_value) for merged in merged_arrays])
    return stat, [value for merged in merged_arrays for value in jax.tree.leaves(merged, is_leaf=_is_value)]


def _sums_of_planes(pieces: list[np.ndarray], kinds: list[str], n_trees: int) -> np.ndarray:
    """Return the index of the sum that each plane of each tree is added to, ``[trees planes]``.

    Planes are those of ``pieces [trees nodes planes]``, side by side; ``kinds`` are the pieces' merges. All trees add a
    plane to the same sum, but for the merge "collect", where each tree has a sum of its own.
    """
    target = []
    next_sum = 0
    for piece, kind in zip(pieces, kinds, strict=True):
        n_planes = piece.shape[2]
        tree_offset = n_planes * (np.arange(n_trees)[:, None] if kind == "collect" else 0)
        piece_target = next_sum + tree_offset + np.arange(n_planes)
        target.append(np.broadcast_to(piece_target, (n_trees, n_planes)))
        next_sum = int(piece_target.max()) + 1
    return np.concatenate(target, axis=1)


def _is_value(value: Any) -> bool:
    """Return whether ``value`` is one value of the graph, not a pytree of such values."""
    return isinstance(value, Rows | np.ndarray)


def _shape(value: Any) -> jax.ShapeDtypeStruct:
    """Return the shape and the dtype of a value of the graph, for tracing."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _of_pieces(graph: Graph, names: list[str], kind: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Add nodes to ``graph`` that add up an array's pieces; return the array, as `Rows` of ``shape`` and ``dtype``.

    The pieces are the tensors ``names``. For the merge (``kind``) "exact_sum" return an `ExactSum` of `Rows`, which
    holds what rounding to ``dtype`` leaves.
    """
    # Float32 arrays are a single piece (`_sum_trees`), and so are small integers.
    if kind != "exact_sum" and dtype == np.float32:
        return Rows(names[0], shape, dtype)
    total = graph.cast(names[0], np.float64)
    for name in names[1:]:
        total = graph.node("Add", total, graph.cast(name, np.float64))
    if kind != "exact_sum":
        return Rows(total, shape, dtype)
    high = graph.cast(total, dtype)
    low = graph.cast(graph.node("Sub", total, graph.cast(high, np.float64)), dtype)
    return ExactSum(Rows(high, shape, dtype), Rows(low, shape, dtype))  # pyright: ignore[reportArgumentType]


def _of_numbers(values: np.ndarray, kind: str, dtype: np.dtype) -> Any:
    """Return ``values [trees]``, merged by ``kind``, as an array of ``dtype`` without axes, the same for all instances.

    For "exact_sum" return an `ExactSum` of two such arrays.
    """
    if kind in ("min", "max"):
        return np.asarray(getattr(values, kind)(), dtype)
    total = values.sum()
    high = np.asarray(total, dtype)
    if kind == "sum":
        return high
    return ExactSum(high, np.asarray(total - np.float64(high), dtype))  # pyright: ignore[reportArgumentType]


def _named(answer: Any, prefix: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, value, whether it is the index of a class) of each output of a combiner's ``answer``.

    Names begin with ``prefix``. In a dict of answers they have the key and a dot before them.
    """
    if isinstance(answer, dict):
        for name, named_answer in answer.items():
            yield from _named(named_answer, f"{prefix}{name}.")
        return
    fields = {}
    if isinstance(answer, Answer):
        fields = {"label": answer.predicted, "probability": answer.probability, "class_scores": answer.class_scores}
        fields = {name: value for name, value in fields.items() if value is not None}
    elif isinstance(answer, CautiousAnswer):
        fields = {"label": answer.predicted, "probability": answer.probability, "set": answer.membership}
        fields |= answer.interval._asdict()
    elif isinstance(answer, Preference):
        fields = {"set": answer.remaining, "mass": answer.mass, "total": answer.total}
    elif isinstance(answer, Interval) and jnp.ndim(answer.lower) == 1:
        fields = {"set": interval_dominance(answer), **answer._asdict()}
    else:
        for path, leaf in jax.tree_util.tree_leaves_with_path(answer):
            fields[jax.tree_util.keystr(path, simple=True, separator=".")] = leaf
    for name, value in fields.items():
        # An array alone has the name by which the dict around it calls it.
        full_name = (prefix + name).rstrip(".") or "answer"
        is_class = name == "label" and isinstance(answer, Answer | CautiousAnswer)
        yield full_name, value, is_class


def _of_ensemble(graph: Graph, model: AdditiveTrees) -> Any:
    """Return the ONNX model of additive trees, ``model``, with the outputs that `to_onnx` lists."""
    values = np.asarray(model.values, np.float64)
    base = np.asarray(model.base, np.float64)
    n_classes = None if model.class_labels is None else len(model.class_labels)
    # The sums that the planes of each tree are added to, [trees planes].
    target = np.broadcast_to(np.arange(model.n_outputs), (model.n_trees, model.n_outputs))
    if values.shape[2] < model.n_outputs:  # each tree has one plane, and adds to a single output
        target = model.outputs_of_trees[:, None]
    name = add_trees(graph, _instances(graph, model.trees), model.trees, values, target, all_kept=True, base=base)
    raw = Rows(name, base.shape, np.dtype(np.float32))

    # Traced for one instance, ``raw [outputs]``; `translate` makes nodes for all instances of the program.
    def answer(raw: jax.Array) -> list[Any]:
        prediction = apply_link(model.link, raw, n_classes)
        if n_classes is None:
            return [prediction[0] if model.n_outputs == 1 else prediction]
        class_scores = jnp.concatenate([-raw, raw]) if model.n_outputs == 1 else raw
        return [jnp.argmax(class_scores), prediction]

    program = jax.make_jaxpr(answer)(jax.ShapeDtypeStruct(raw.shape, raw.dtype))
    names = ("prediction",) if model.class_labels is None else ("label", "probability")
    answers: dict[str, Value] = dict(zip(names, translate(graph, program, [raw]), strict=True))
    answers["raw"] = raw
    graph.properties["jaxunc.link"] = model.link
    settings = {"averaged": model.averaged, "trees_per_stage": model.trees_per_stage}
    settings |= {name: getattr(model.columns, name) for name in ("absent_is_missing", "spaces_are_underlines")}
    graph.properties[SETTINGS] = json.dumps(settings)
    return _model(graph, model.columns, answers, model.class_labels, "AdditiveTrees", label_names=["label"])


def _instances(graph: Graph, trees: Trees) -> str:
    """Return the name in ``graph`` of the instances as double: the input, or its cast, which changes no number.

    The input is double if columns of ``trees`` have cuts.
    """
    return graph.cast(INPUT, np.float64) if trees.columns.cuts is None else INPUT


def _model(
    graph: Graph,
    columns: Columns,
    answers: dict[str, Value],
    labels: tuple[Any, ...] | None,
    what: str,
    *,
    label_names: Sequence[str] = (),
) -> Any:
    """Return the ``ModelProto`` of ``graph``; its outputs are ``answers``, values of the graph by their names.

    For those in ``label_names``, indices of classes, the output has the classes' ``labels``. The metadata say ``what``
    the model is, and describe ``columns`` and ``labels``. A ValueError for an `Unknown` answer.
    """
    outputs: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, value in answers.items():
        if isinstance(value, Unknown):
            raise ValueError(
                f"{what} computes its {name} by {value.primitive}, for which to_onnx knows no operator of ONNX. Write "
                "finish by arithmetic, comparisons, exp, log and reductions, or take bound.export()."
            )
        rows = expand(graph, value, INPUT)
        if name in label_names:
            array = _labels(labels or ())
            graph.node("Gather", graph.constant(array), graph.node("Squeeze", rows, graph.constant([1])), output=name)
            outputs[name] = ("str" if array.dtype.kind == "U" else array.dtype.name, ())
            continue
        shape = (-1,) if value.shape == () else (0, *value.shape)  # 0: the number of instances, as it is
        graph.node("Reshape", rows, graph.constant(np.array(shape, np.int64)), output=name)
        outputs[name] = (np.dtype(value.dtype).name, tuple(value.shape))
    description = describe(columns, labels)
    properties = {name: json.dumps(value) for name, value in description.items()}
    properties |= {"jaxunc.version": __version__, "jaxunc.model": what}
    dtype = "float32" if columns.cuts is None else "float64"
    return graph.model((INPUT, dtype, columns.number), outputs, properties, __version__)


def _labels(labels: tuple[Any, ...]) -> np.ndarray:
    """Return ``labels``, those of classes, as an array of a type that ONNX has; a ValueError if it has none."""
    array = np.array(labels)
    kinds = {"i": np.int64, "u": np.uint64, "b": bool, "f": np.float64, "U": array.dtype}
    if array.dtype.kind == "u" and array.max() < 2**63:
        array = array.astype(np.int64)
    of_one_kind = len({isinstance(label, str) for label in labels}) == 1
    # Integers that no type of 64 bits holds would become floats.
    if array.dtype.kind not in kinds or not of_one_kind or array.tolist() != list(labels):
        raise ValueError(
            f"class_labels are {labels[:5]}; ONNX has labels that are all integers of 64 bits, all texts, all bools or "
            "all floats. Grow the forest on such labels."
        )
    return array.astype(kinds[array.dtype.kind])

"""The merged statistic of a rule in a graph: sums over trees, as `finish` takes them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import TwoFloat, two_sum
from jaxunc._types import PyTree
from jaxunc.combiners import Combiner, merge_kinds
from jaxunc.forest import Forest
from jaxunc.inference import leaf_table

from ._onnx_finish import Rows, Value
from ._onnx_graph import Graph
from ._onnx_writer import add_trees, pieces_of


class ExactSum(TwoFloat):
    """An exact sum whose quotient needs no bits, which operators of ONNX do not show."""

    def divided_by(self, divisor: float | int) -> "ExactSum":
        """Divide by a plain number, to twice the precision (Dekker, cut by Veltkamp's products)."""
        b = jnp.asarray(divisor, self.high.dtype)
        factor = jnp.asarray(2.0 ** ((jnp.finfo(b.dtype).nmant + 2) // 2) + 1, b.dtype)

        def split(x):
            high = factor * x - (factor * x - x)
            return high, x - high

        quotient = self.high / b
        p, (a_high, a_low), (b_high, b_low) = quotient * b, split(quotient), split(b)
        error = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
        return ExactSum(*two_sum(quotient, (((self.high - p) - error) + self.low) / b))


def summed(graph: Graph, given: str, forest: Forest, combiner: Combiner) -> tuple[PyTree, list[Value]]:
    """Add the trees; return the shapes of the merged statistic for one instance, and its values, leaf by leaf.

    Raises a ValueError if a merge is no sum.
    """
    table = leaf_table(forest, combiner)
    parts, structure = jax.tree.flatten(table)
    kinds = merge_kinds(combiner.merge, table)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(table)]
    cut = {}
    for i, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        if part.ndim == 1:
            continue
        if kind not in ("sum", "exact_sum"):
            raise ValueError(
                f"{type(combiner).__name__} merges its statistic{paths[i]} by {kind!r}, which sums over trees cannot "
                "say. Export a rule whose merges are sums, or take bound.export(), which needs JAX where it runs."
            )
        values = np.asarray(part, np.float64).reshape(*part.shape[:2], -1)
        # A single sum of float32 is rounded once, as ours is.
        cut[i] = [values] if kind == "sum" and part.dtype == np.float32 else pieces_of(values, forest.n_trees)
    if not cut:
        raise ValueError(f"{type(combiner).__name__} asks nothing of leaves; there is nothing to export.")
    planes = np.concatenate([piece for pieces in cut.values() for piece in pieces], axis=2)
    sums, at, made = add_trees(graph, given, forest.trees, planes), 0, []
    for i, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        dtype = np.dtype(part.dtype if jnp.issubdtype(part.dtype, jnp.floating) else jnp.result_type(float))
        if part.ndim == 1:
            made.append(_of_numbers(np.asarray(part, np.float64), kind, dtype))
            continue
        names = []
        for piece in cut[i]:
            places = np.arange(at, at + piece.shape[2])
            names.append(graph.node("Gather", sums, graph.constant(places), axis=1))
            at += piece.shape[2]
        made.append(_of_pieces(graph, names, kind, part.shape[2:], dtype))
    stat = structure.unflatten([jax.tree.map(_shape, one, is_leaf=_is_value) for one in made])
    return stat, [value for one in made for value in jax.tree.leaves(one, is_leaf=_is_value)]


def _is_value(one: Any) -> bool:
    return isinstance(one, Rows | np.ndarray)


def _shape(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _of_pieces(graph: Graph, names: list[str], kind: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The sum of pieces, of a float's precision or of twice that."""
    if kind == "sum" and dtype == np.float32:
        return Rows(names[0], shape, dtype)
    total = graph.cast(names[0], np.float64)
    for name in names[1:]:
        total = graph.node("Add", total, graph.cast(name, np.float64))
    if kind == "sum":
        return Rows(total, shape, dtype)
    high = graph.cast(total, dtype)
    low = graph.cast(graph.node("Sub", total, graph.cast(high, np.float64)), dtype)
    return ExactSum(Rows(high, shape, dtype), Rows(low, shape, dtype))  # pyright: ignore[reportArgumentType]


def _of_numbers(values: np.ndarray, kind: str, dtype: np.dtype) -> Any:
    """The merge of a number per tree, which is the same for all instances."""
    if kind in ("min", "max"):
        return np.asarray(getattr(values, kind)(), dtype)
    total = values.sum()
    high = np.asarray(total, dtype)
    if kind == "sum":
        return high
    return ExactSum(high, np.asarray(total - np.float64(high), dtype))  # pyright: ignore[reportArgumentType]

"""A combiner's ``finish`` as nodes of ONNX: the program that JAX traces, operator by operator.

A value of the program is traced for one instance. In the graph it has a row for each instance and a column for each of
its entries, flattened: ``[instances entries]``. So an operator that only moves entries is one ``Gather`` of columns,
whose indices are found by applying the operator to the columns' indices.

An *equation* is an operator of the program with its inputs and outputs; ``operands`` are the values of its inputs.
Functions that translate an equation add nodes to ``graph`` and return the values of its outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxunc._numerics import is_sum_in_order

from ._graph import TYPES, Graph


class Rows(NamedTuple):
    """A value that differs between instances: a tensor ``[instances entries]`` of the graph."""

    name: str
    shape: tuple[int, ...]  # of one instance
    dtype: np.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Unknown(NamedTuple):
    """A value that ONNX cannot compute, which is an error only if an output needs it."""

    primitive: str  # the operator of JAX that has no counterpart


Value = Rows | Unknown | np.ndarray  # the last is the same for all instances

_SAME = ("stop_gradient", "optimization_barrier", "copy", "copy_p")
_MOVING: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "rev", "transpose", "slice"), (0,)),
    **dict.fromkeys(("gather", "dynamic_slice", "split"), (0,)),
    "scatter": (0, 2), "concatenate": None, "stack": None, "pad": None,
}  # fmt: skip
"""Operators that only move entries, with the operands that are moved (None: all); other operands must not be `Rows`."""
_ALIKE = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "max": "Max", "min": "Min",
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
    "floor": "Floor", "ceil": "Ceil",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "and": "And", "or": "Or", "not": "Not", "xor": "Xor",
}  # fmt: skip
_REDUCING = {
    "reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd",
    "reduce_and": "ReduceMin", "reduce_or": "ReduceMax", "argmax": "ArgMax", "argmin": "ArgMin", "reduce": "CumSum",
}  # fmt: skip
_LOGICAL = ("and", "or", "not", "xor")
_LOOPS = ("scan", "while", "reduce")


def translate(graph: Graph, program: ClosedJaxpr, values: Sequence[Value]) -> list[Value]:
    """Add the operators of a program to the graph, and return the values of the program's outputs.

    ``values`` are those of its inputs. An output for which ONNX has no operator is an `Unknown`.
    """
    return _run(graph, program.jaxpr, [np.asarray(constant) for constant in program.consts], values)


def _run(graph: Graph, program: Jaxpr, constants: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Return the values in the graph of a program's outputs, given its ``constants`` and inputs, ``values``."""
    values_of: dict[Any, Value] = dict(zip(program.constvars, constants, strict=True))
    values_of.update(zip(program.invars, values, strict=True))

    def read(variable: Any) -> Value:
        return np.asarray(variable.val) if isinstance(variable, Literal) else values_of[variable]

    for equation in program.eqns:
        operands = [read(variable) for variable in equation.invars]
        values_of.update(zip(equation.outvars, _apply(graph, equation, operands), strict=True))
    return [read(variable) for variable in program.outvars]


def _apply(graph: Graph, equation: Any, operands: list[Any]) -> list[Value]:
    """Translate an equation into the graph, and return the values of its outputs, given its ``operands``.

    A program inside is translated, arrays are computed at once, and what depends on an `Unknown` is unknown.
    """
    name, outputs = equation.primitive.name, [operand.aval for operand in equation.outvars]
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    if unknown := next((operand for operand in operands if isinstance(operand, Unknown)), None):
        return [unknown] * len(outputs)
    if isinstance(inner, ClosedJaxpr) and len(inner.jaxpr.invars) == len(operands) and name not in _LOOPS:
        return translate(graph, inner, operands)
    if all(isinstance(operand, np.ndarray) for operand in operands):
        return _evaluate(equation, operands)
    if name in _SAME:
        return list(operands)
    results = None
    if name in _MOVING:
        results = _move(graph, equation, operands)
    elif name in _REDUCING and (name != "reduce" or is_sum_in_order(equation.params)):
        results = _reduce(graph, equation, operands[0], outputs[0])
    elif name in ("sort", "cumsum"):
        results = _along(graph, equation, operands)
    elif name in _ENTRYWISE and all(str(operand.dtype) in TYPES for operand in (*operands, outputs[0])):
        results = _elementwise(graph, equation, operands, outputs[0])
    return [Unknown(name)] * len(outputs) if results is None else results


def _evaluate(equation: Any, operands: Sequence[Any], **changed: Any) -> list[Any]:
    """Return the results of an equation's operator for arrays, ``operands``, with some parameters ``changed``."""
    results = equation.primitive.bind(*map(jnp.asarray, operands), **equation.params | changed)
    return [np.asarray(result) for result in (results if equation.primitive.multiple_results else [results])]


def _columns(graph: Graph, value: Any, shape: tuple[int, ...]) -> str:
    """Return the name in the graph of a value of ``shape``, to broadcast: ``[instances or 1, size of shape or 1]``."""
    if isinstance(value, np.ndarray):
        return graph.constant((value if value.size == 1 else np.broadcast_to(value, shape)).reshape(1, -1))
    if value.size in (1, int(np.prod(shape, dtype=int))):
        return value.name
    return _pick(graph, value.name, np.broadcast_to(np.arange(value.size).reshape(value.shape), shape).ravel())


def expand(graph: Graph, value: Value, instances: str) -> str:
    """Return the name of a value's columns in the graph, with as many rows as the tensor called ``instances``."""
    if isinstance(value, Rows):
        return value.name
    row = _columns(graph, value, value.shape)  # pyright: ignore
    shape = graph.node("Concat", graph.rows(instances), graph.constant(np.ones(1, np.int64)), axis=0)
    return graph.node("Expand", row, shape)


def _pick(graph: Graph, name: str, indices: np.ndarray, among: int = -1) -> str:
    """Return the name of a tensor of the columns ``indices`` of ``name``; indices ``[rest chosen]`` make a third axis.

    If they are all of ``among`` columns, in order, that is ``name`` itself, without a node in the graph.
    """
    if np.array_equal(indices, np.arange(among)):
        return name
    return graph.node("Gather", name, graph.constant(indices.astype(np.int64)), axis=1)


def _move(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate into the graph an equation that moves entries, by moving indices; None if it reads beyond operands."""
    positions = _MOVING[equation.primitive.name] or range(len(operands))
    if any(isinstance(operand, Rows) for i, operand in enumerate(operands) if i not in positions):
        return _look_up(graph, equation, operands)
    moved, entry_numbers, n_entries = [operands[i] for i in positions], list(operands), 0
    for i in positions:
        entry_numbers[i] = np.arange(n_entries, n_entries + operands[i].size, dtype=np.int32).reshape(operands[i].shape)
        n_entries += operands[i].size
    indices = _evaluate(equation, entry_numbers, **({"fill_value": None} if "fill_value" in equation.params else {}))
    if any(picked.size and picked.min() < 0 for picked in indices):  # what lies outside of the operand
        return None
    first = next(operand for operand in moved if isinstance(operand, Rows))
    name = first.name
    if len(moved) > 1:
        name = graph.node("Concat", *(expand(graph, operand, first.name) for operand in moved), axis=1)
    return [Rows(_pick(graph, name, picked.ravel(), n_entries), picked.shape, first.dtype) for picked in indices]


def _look_up(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate into the graph a look-up along a one-axis operand at an index that differs between instances.

    None if the equation is no such ``gather`` or ``dynamic_slice``. An index out of range is an error of ONNX's run in
    a ``gather``; in a ``dynamic_slice`` it is moved to the nearest end.
    """
    primitive, output, (operand, indices) = equation.primitive.name, equation.outvars[0].aval, operands[:2]
    if primitive not in ("gather", "dynamic_slice") or not isinstance(indices, Rows) or len(operand.shape) != 1:
        return None
    if primitive == "gather" and tuple(output.shape) == indices.shape[:-1]:
        index_name = indices.name  # the last axis of the indices is of size 1, as the operand has a single axis
    elif primitive == "dynamic_slice" and tuple(output.shape) == (1,):  # a slice of one entry
        first_index, last_index = (graph.constant(np.full((1, 1), end, indices.dtype)) for end in (0, operand.size - 1))
        index_name = graph.node("Min", graph.node("Max", indices.name, first_index), last_index)
    else:
        return None
    index_name = graph.cast(index_name, np.int64)
    if isinstance(operand, Rows):  # each instance has entries of its own
        name = graph.node("GatherElements", operand.name, index_name, axis=1)
    else:
        name = graph.node("Gather", graph.constant(operand), index_name)
    return [Rows(name, tuple(output.shape), operand.dtype)]


def _reduce(graph: Graph, equation: Any, operand: Rows, output: Any) -> list[Value] | None:
    """Translate an equation that reduces ``operand`` over axes; None if that is empty or `TYPES` lacks the result's.

    ``output`` has the shape and the dtype of the result.
    """
    name, axes = equation.primitive.name, equation.params.get("axes", equation.params.get("dimensions"))
    if not operand.size or str(output.dtype) not in TYPES:
        return None
    source = graph.cast(operand.name, np.int32) if operand.dtype == bool else operand.name
    source = _pick(graph, source, _last(operand, axes))  # [instances rest reduced]
    if name == "reduce":  # one after the other, as no ReduceSum promises
        sums = graph.node("CumSum", source, graph.constant(np.array(2)))
        result = graph.node("Gather", sums, graph.constant(np.int64(_last(operand, axes).shape[1] - 1)), axis=2)
    elif name in ("argmax", "argmin"):
        result = graph.cast(graph.node(_REDUCING[name], source, axis=2, keepdims=0), output.dtype)
    else:
        result = graph.node(_REDUCING[name], source, graph.constant(np.array([2])), keepdims=0)
    result = graph.cast(result, bool) if operand.dtype == bool else result
    return [Rows(result, tuple(output.shape), np.dtype(output.dtype))]


def _along(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate an equation, a sort or a cumulative sum, into the graph; None for bools or several operands."""
    operand, params = operands[0], equation.params
    if len(operands) > 1 or operand.dtype == bool or not operand.size:
        return None
    indices = _last(operand, (params["dimension" if "dimension" in params else "axis"],))
    source = _pick(graph, operand.name, indices)  # [instances rest axis]
    if equation.primitive.name == "sort":
        size = graph.constant(np.array([indices.shape[1]]))
        result = graph.node("TopK", source, size, axis=2, largest=0, unnamed=1)
    else:
        result = graph.node("CumSum", source, graph.constant(np.array(2)), reverse=int(params["reverse"]))
    flat = graph.node("Reshape", result, graph.constant(np.array([-1, indices.size])))
    return [operand._replace(name=_pick(graph, flat, np.argsort(indices, axis=None)))]


def _last(operand: Rows, axes: Sequence[int]) -> np.ndarray:
    """Return an operand's column indices ``[rest chosen]``: its ``axes`` flattened last, the others before."""
    numbers = np.moveaxis(np.arange(operand.size).reshape(operand.shape), axes, range(-len(axes), 0))
    return numbers.reshape(-1, int(np.prod([operand.shape[axis] for axis in axes], dtype=int)))


def _elementwise(graph: Graph, equation: Any, operands: list[Any], output: Any) -> list[Value] | None:
    """Translate into the graph an equation that takes operands entry by entry; None where ONNX lacks it for the types.

    ``output`` has the shape and the dtype of the result.
    """
    name, dtype = equation.primitive.name, np.dtype(output.dtype)
    if name in _ALIKE and any((operand.dtype == bool) != (name in _LOGICAL) for operand in operands) and name != "eq":
        return None  # bits of integers, an order of bools
    names = [_columns(graph, operand, tuple(output.shape)) for operand in operands]
    if name in _ALIKE:
        result = graph.node(_ALIKE[name], *names)
    elif name == "ne":
        result = graph.node("Not", graph.node("Equal", *names))
    elif name == "convert_element_type":
        result = graph.cast(names[0], dtype)
    else:
        result = _COMPOSED[name](graph, equation.params, dtype, *names)
    return None if result is None else [Rows(result, tuple(output.shape), dtype)]


def _select(graph: Graph, params: Any, dtype: np.dtype, which: str, *cases: str) -> str | None:
    """Return ``cases[1]`` where ``which`` is True, else ``cases[0]``, in the graph; None for more than two cases."""
    if len(cases) != 2:
        return None
    if dtype.kind != "b":
        return graph.node("Where", which, cases[1], cases[0])
    first = graph.node("And", graph.node("Not", which), cases[0])
    return graph.node("Or", first, graph.node("And", which, cases[1]))


def _log1p(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return log(1 + x) as log(1 + x) x / ((1 + x) - 1), in which both roundings of 1 + x cancel (Kahan)."""
    unit = graph.constant(np.ones((1, 1), dtype))
    u = graph.node("Add", unit, x)
    log = graph.node("Log", u)
    scaled = graph.node("Mul", log, graph.node("Div", x, graph.node("Sub", u, unit)))
    large = graph.node("Where", graph.node("Equal", u, x), log, scaled)
    return graph.node("Where", graph.node("Equal", u, unit), x, large)


def _expm1(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return exp(x) - 1 as (exp(x) - 1) x / log(exp(x)), in which both roundings of exp(x) cancel (Kahan)."""
    unit = graph.constant(np.ones((1, 1), dtype))
    u = graph.node("Exp", x)
    less = graph.node("Sub", u, unit)
    scaled = graph.node("Mul", less, graph.node("Div", x, graph.node("Log", u)))
    # Where the exponential is far from 1 the difference is exact enough, and may be infinite.
    far = graph.node("Greater", graph.node("Abs", x), unit)
    return graph.node("Where", graph.node("Equal", u, unit), x, graph.node("Where", far, less, scaled))


def _logistic(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return 1 / (1 + exp(-x)), since ONNX Runtime's Sigmoid is the same 1.5e-8 for all numbers below -18."""
    unit = graph.constant(np.ones((1, 1), dtype))
    return graph.node("Div", unit, graph.node("Add", unit, graph.node("Exp", graph.node("Neg", x))))


def _is_finite(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    difference = graph.node("Sub", x, x)  # NaN for NaN and for infinities, and NaN is not equal to itself
    return graph.node("Equal", difference, difference)


_COMPOSED: dict[str, Callable[..., str | None]] = {
    "select_n": _select,
    "is_finite": _is_finite,
    "log1p": _log1p,
    "expm1": _expm1,
    "logistic": _logistic,
    "exp2": lambda graph, params, dtype, x: graph.node("Pow", graph.constant(np.full((1, 1), 2, dtype)), x),
    "log2": lambda graph, params, dtype, x: graph.node(
        "Div", graph.node("Log", x), graph.constant(np.full((1, 1), np.log(2.0), dtype))
    ),
    "square": lambda graph, params, dtype, x: graph.node("Mul", x, x),
    "integer_pow": lambda graph, params, dtype, x: graph.node(
        "Pow", x, graph.constant(np.full((1, 1), params["y"], dtype))
    ),
    "clamp": lambda graph, params, dtype, low, x, high: graph.node("Min", graph.node("Max", x, low), high),
}
"""Operators made of several nodes: functions of the graph, the equation's ``params``, the result's ``dtype``, and the
operands' names, which return the name of the result, or None if there is none."""
_ENTRYWISE = {*_ALIKE, *_COMPOSED, "ne", "convert_element_type"}

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
    """A value in the graph that differs between instances: a tensor ``[instances entries]``."""

    name: str  # of the tensor
    shape: tuple[int, ...]  # of the value for one instance, whose entries are flattened in the tensor
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Number of entries of the value for one instance."""
        return int(np.prod(self.shape, dtype=int))


class Unknown(NamedTuple):
    """A value that ONNX has no operator for; it is an error only if an output of the model needs it."""

    primitive: str  # the operator of JAX that has no counterpart


Value = Rows | Unknown | np.ndarray  # the last is the same for all instances

_SAME = ("stop_gradient", "optimization_barrier", "copy", "copy_p")  # operators that return their operands
_MOVING: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "rev", "transpose", "slice"), (0,)),
    **dict.fromkeys(("gather", "dynamic_slice", "split"), (0,)),
    "scatter": (0, 2), "concatenate": None, "stack": None, "pad": None,
}  # fmt: skip
"""Operators that only move entries, with the operands that are moved (None: all); other operands must not be `Rows`."""
_ALIKE = {  # operators that ONNX has, too, which take operands entry by entry
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "max": "Max", "min": "Min",
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
    "floor": "Floor", "ceil": "Ceil",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "and": "And", "or": "Or", "not": "Not", "xor": "Xor",
}  # fmt: skip
_REDUCING = {  # operators that reduce over axes; "reduce" only where it is a sum in order
    "reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd",
    "reduce_and": "ReduceMin", "reduce_or": "ReduceMax", "argmax": "ArgMax", "argmin": "ArgMin", "reduce": "CumSum",
}  # fmt: skip
_LOGICAL = ("and", "or", "not", "xor")
_LOOPS = ("scan", "while", "reduce")  # operators that run their program several times


def translate(graph: Graph, program: ClosedJaxpr, values: Sequence[Value]) -> list[Value]:
    """Add the operators of ``program`` to ``graph``; return the program's outputs, as values of the graph.

    ``values`` are its inputs, values of the graph. An output for which ONNX has no operator is an `Unknown`.
    """
    return _run(graph, program.jaxpr, [np.asarray(constant) for constant in program.consts], values)


def _run(graph: Graph, program: Jaxpr, constants: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Add the operators of ``program`` to ``graph``; return the program's outputs, as values of the graph.

    ``constants`` and ``values`` are the program's constants and its inputs, in their order.
    """
    # The value of each variable of the program so far.
    values_of: dict[Any, Value] = dict(zip(program.constvars, constants, strict=True))
    values_of.update(zip(program.invars, values, strict=True))

    def read(variable: Any) -> Value:
        return np.asarray(variable.val) if isinstance(variable, Literal) else values_of[variable]

    for equation in program.eqns:
        operands = [read(variable) for variable in equation.invars]
        values_of.update(zip(equation.outvars, _apply(graph, equation, operands), strict=True))
    return [read(variable) for variable in program.outvars]


def _apply(graph: Graph, equation: Any, operands: list[Any]) -> list[Value]:
    """Translate ``equation``; return the values of its outputs, `Unknown` if an operand is, or ONNX has no operator.

    If all ``operands`` are arrays, results are computed at once, without nodes in ``graph``.
    """
    name = equation.primitive.name
    outputs = [variable.aval for variable in equation.outvars]
    unknown = next((operand for operand in operands if isinstance(operand, Unknown)), None)
    if unknown is not None:
        return [unknown] * len(outputs)
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    # The equation calls a program with its operands, as jit and custom derivatives do.
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
    """Return the results of the equation's operator for ``operands``, all arrays; ``changed`` are other parameters."""
    results = equation.primitive.bind(*map(jnp.asarray, operands), **equation.params | changed)
    if not equation.primitive.multiple_results:
        results = [results]
    return [np.asarray(result) for result in results]


def _columns(graph: Graph, value: Any, shape: tuple[int, ...]) -> str:
    """Return the name in ``graph`` of ``value`` broadcast to ``shape``, flattened: ``[instances, size of shape]``.

    Either axis may be of length 1, which ONNX broadcasts: the first of an array, the second of a value with one entry.
    """
    if isinstance(value, np.ndarray):
        array = value if value.size == 1 else np.broadcast_to(value, shape)
        return graph.constant(array.reshape(1, -1))
    if value.size in (1, int(np.prod(shape, dtype=int))):
        return value.name
    entry_numbers = np.arange(value.size).reshape(value.shape)
    return _pick(graph, value.name, np.broadcast_to(entry_numbers, shape).ravel())


def expand(graph: Graph, value: Value, instances: str) -> str:
    """Return the name in ``graph`` of ``value`` as ``[instances entries]``, also if it is the same for all instances.

    ``instances`` is the name of a tensor that has a row for each instance.
    """
    if isinstance(value, Rows):
        return value.name
    row = _columns(graph, value, value.shape)  # pyright: ignore
    shape = graph.node("Concat", graph.rows(instances), graph.constant(np.ones(1, np.int64)), axis=0)
    return graph.node("Expand", row, shape)


def _pick(graph: Graph, name: str, indices: np.ndarray, among: int = -1) -> str:
    """Return the name in ``graph`` of a tensor of the columns ``indices`` of the tensor ``name``.

    Indices of two axes, ``[others chosen]``, give a tensor of three, ``[instances others chosen]``. If the indices are
    those of all ``among`` columns, in order, the name is ``name`` itself.
    """
    if np.array_equal(indices, np.arange(among)):
        return name
    return graph.node("Gather", name, graph.constant(indices.astype(np.int64)), axis=1)


def _move(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate an ``equation`` that only moves entries of its ``operands``; return its outputs' values in ``graph``.

    The operator is applied to the entries' numbers, which tell where each entry goes. None for entries of no operand.
    """
    positions = _MOVING[equation.primitive.name] or range(len(operands))  # of the operands that are moved
    if any(isinstance(operand, Rows) for i, operand in enumerate(operands) if i not in positions):
        return _look_up(graph, equation, operands)
    # Entries are numbered over all operands that are moved.
    entry_numbers = list(operands)
    n_entries = 0
    for i in positions:
        size = operands[i].size
        entry_numbers[i] = np.arange(n_entries, n_entries + size, dtype=np.int32).reshape(operands[i].shape)
        n_entries += size
    # Without a value to fill in, JAX fills in the least integer for what lies outside of an operand.
    changed = {"fill_value": None} if "fill_value" in equation.params else {}
    indices = _evaluate(equation, entry_numbers, **changed)
    if any(result.size and result.min() < 0 for result in indices):
        return None
    moved_operands = [operands[i] for i in positions]
    first_rows = next(operand for operand in moved_operands if isinstance(operand, Rows))
    name = first_rows.name
    if len(moved_operands) > 1:
        name = graph.node("Concat", *(expand(graph, operand, first_rows.name) for operand in moved_operands), axis=1)
    return [Rows(_pick(graph, name, result.ravel(), n_entries), result.shape, first_rows.dtype) for result in indices]


def _look_up(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate an ``equation`` that looks up entries of an operand of one axis, at an index that instances differ in.

    Return the output's value in ``graph``; None if the equation is no such ``gather`` or ``dynamic_slice``. For an
    index out of range ONNX's run of a ``gather`` fails; a ``dynamic_slice`` takes the nearest end.
    """
    primitive = equation.primitive.name
    output = equation.outvars[0].aval
    operand, indices = operands[:2]
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
    """Translate an ``equation`` that reduces ``operand`` over axes; return the result's value in ``graph``.

    ``output`` is its shape and dtype. None if the operand is empty, or ONNX lacks the dtype.
    """
    name = equation.primitive.name
    if not operand.size or str(output.dtype) not in TYPES:
        return None
    axes = equation.params.get("axes", equation.params.get("dimensions"))  # dimensions are those of "reduce"
    indices = _last(operand, axes)
    source = graph.cast(operand.name, np.int32) if operand.dtype == bool else operand.name
    source = _pick(graph, source, indices)  # [instances others reduced]
    if name == "reduce":  # a sum in order, which ReduceSum does not promise: the last running sum
        sums = graph.node("CumSum", source, graph.constant(np.array(2)))
        last = graph.constant(np.int64(indices.shape[1] - 1))
        result = graph.node("Gather", sums, last, axis=2)
    elif name in ("argmax", "argmin"):
        result = graph.cast(graph.node(_REDUCING[name], source, axis=2, keepdims=0), output.dtype)
    else:
        result = graph.node(_REDUCING[name], source, graph.constant(np.array([2])), keepdims=0)
    result = graph.cast(result, bool) if operand.dtype == bool else result
    return [Rows(result, tuple(output.shape), np.dtype(output.dtype))]


def _along(graph: Graph, equation: Any, operands: list[Any]) -> list[Value] | None:
    """Translate an ``equation`` that sorts its operand or makes its running sums; return the value in ``graph``.

    None for bools, an empty operand, or several ``operands``.
    """
    operand, params = operands[0], equation.params
    if len(operands) > 1 or operand.dtype == bool or not operand.size:
        return None
    axis = params["dimension" if "dimension" in params else "axis"]  # of "sort", of "cumsum"
    indices = _last(operand, (axis,))
    source = _pick(graph, operand.name, indices)  # [instances others axis]
    if equation.primitive.name == "sort":
        size = graph.constant(np.array([indices.shape[1]]))
        result = graph.node("TopK", source, size, axis=2, largest=0, unnamed=1)
    else:
        result = graph.node("CumSum", source, graph.constant(np.array(2)), reverse=int(params["reverse"]))
    flat = graph.node("Reshape", result, graph.constant(np.array([-1, indices.size])))
    back = np.argsort(indices, axis=None)  # where each entry of the operand lies in ``flat``
    return [operand._replace(name=_pick(graph, flat, back))]


def _last(operand: Rows, axes: Sequence[int]) -> np.ndarray:
    """Return the numbers of an operand's entries, ``[others chosen]``: ``axes`` are flattened into the last axis."""
    numbers = np.moveaxis(np.arange(operand.size).reshape(operand.shape), axes, range(-len(axes), 0))
    return numbers.reshape(-1, int(np.prod([operand.shape[axis] for axis in axes], dtype=int)))


def _elementwise(graph: Graph, equation: Any, operands: list[Any], output: Any) -> list[Value] | None:
    """Translate an ``equation`` that takes its ``operands`` entry by entry; return the result's value in ``graph``.

    ``output`` is its shape and dtype. None where ONNX lacks the operator for these dtypes.
    """
    name = equation.primitive.name
    dtype = np.dtype(output.dtype)
    # ONNX's logical operators take bools alone, and others none, but for Equal.
    has_wrong_dtypes = any((operand.dtype == bool) != (name in _LOGICAL) for operand in operands)
    if name in _ALIKE and name != "eq" and has_wrong_dtypes:
        return None
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
    """Return the name in ``graph`` of ``cases[1]`` where ``which`` is True, else ``cases[0]``; None for more cases."""
    if len(cases) != 2:
        return None
    if dtype.kind != "b":
        return graph.node("Where", which, cases[1], cases[0])
    first = graph.node("And", graph.node("Not", which), cases[0])
    return graph.node("Or", first, graph.node("And", which, cases[1]))


def _log1p(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return the name in ``graph`` of log(1 + x) = log(u) x / (u - 1): the roundings of u = 1 + x cancel (Kahan)."""
    unit = graph.constant(np.ones((1, 1), dtype))
    u = graph.node("Add", unit, x)
    log = graph.node("Log", u)
    scaled = graph.node("Mul", log, graph.node("Div", x, graph.node("Sub", u, unit)))
    # Where 1 + x is x or 1 in floats, ``scaled`` may be NaN.
    large = graph.node("Where", graph.node("Equal", u, x), log, scaled)
    return graph.node("Where", graph.node("Equal", u, unit), x, large)


def _expm1(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return the name in ``graph`` of exp(x) - 1 = (u - 1) x / log(u): the roundings of u = exp(x) cancel (Kahan)."""
    unit = graph.constant(np.ones((1, 1), dtype))
    u = graph.node("Exp", x)
    less = graph.node("Sub", u, unit)
    scaled = graph.node("Mul", less, graph.node("Div", x, graph.node("Log", u)))
    # Where the exponential is far from 1 the difference is exact enough, and may be infinite.
    far = graph.node("Greater", graph.node("Abs", x), unit)
    return graph.node("Where", graph.node("Equal", u, unit), x, graph.node("Where", far, less, scaled))


def _logistic(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return the name in ``graph`` of 1 / (1 + exp(-x)); ONNX Runtime's Sigmoid is 1.5e-8 for all numbers below -18."""
    unit = graph.constant(np.ones((1, 1), dtype))
    return graph.node("Div", unit, graph.node("Add", unit, graph.node("Exp", graph.node("Neg", x))))


def _is_finite(graph: Graph, params: Any, dtype: np.dtype, x: str) -> str:
    """Return the name in ``graph`` of whether ``x`` is neither NaN nor an infinity."""
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

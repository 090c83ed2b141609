"""Sums and quotients that are exact, or have the same bits in every program.

`sum_in_order` adds along an axis in a fixed order, and the softmax and averages here use it. A compiler sums floats in
an order that depends on the shape of the array: a row's answer would depend on the number of rows in its batch. A
`TwoFloat` carries a number as the unevaluated sum of two floats: sums over ten thousand trees, and of counts up to 10⁹,
stay exact or nearly so in float32. `sum_before` is a running sum of integers.

Further functions check class counts, choose a type that holds them, and make tables of distinct count vectors.
"""

from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Int32, Num, Shaped, UInt32

from jaxunc._checks import as_native, check_class_axis, check_counts, check_numbers, is_concrete

from ._programs import copy_in, default_platform, power_of_two

_TRIANGLE = np.triu(np.ones((64, 64), np.float32), 1)
"""Ones above the diagonal: a row of 64 numbers times this matrix has, in each column, the sum of the numbers before."""


def sum_in_order(x: Shaped[Array, "..."], axis: int = -1, *, keepdims: bool = False) -> Num[Array, "..."]:
    """Return the sum of ``x`` along ``axis``, rounded in a way that depends only on the numbers and the axis's length.

    With ``keepdims`` the axis stays, with length 1. Up to 32 numbers are added from the first to the last. Tangents are
    summed by `jax.numpy.sum`, since this sum has no transpose.
    """
    axis = axis % x.ndim
    total = _sum(x, axis) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.sum(x, axis=axis)
    return jnp.expand_dims(total, axis) if keepdims else total


def add_up(x: Any, axis: int, *, keepdims: bool = False) -> Any:
    """Return the sum of ``x`` along ``axis``: NumPy's for its arrays, `sum_in_order` for JAX's."""
    if isinstance(x, np.ndarray):
        return x.sum(axis=axis, keepdims=keepdims)
    return sum_in_order(x, axis, keepdims=keepdims)


def is_sum_in_order(params: dict[str, Any]) -> bool:
    """Return whether a reduction in a traced program is a `sum_in_order`; ``params`` are those of its equation."""
    scalar = jnp.zeros((), params["jaxpr"].in_avals[0].dtype)
    return str(params["jaxpr"]) == str(jax.make_jaxpr(_add)(scalar, scalar))


def _add(total: Array, x: Array) -> Array:
    """Return total + x, the step of `sum_in_order`."""
    # In this form no compiler recognises a sum, which it would reorder.
    return jnp.where(jnp.isnan(x), x, total + x)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _sum(x: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """Return the sum of floats along ``axis`` by a reduction that adds in order."""
    return lax.reduce(x, jnp.zeros((), x.dtype), _add, (axis,))


@_sum.defjvp
def _sum_jvp(axis, primals, tangents):
    """Return (sum of x, its tangent: the sum of dx), given ``primals`` (x,) and ``tangents`` (dx,) of `_sum`."""
    return _sum(*primals, axis), jnp.sum(*tangents, axis=axis)


def scale_and_move(x: Float[Array, "..."], scale: Array, move: Array) -> Float[Array, "..."]:
    """Return ``scale * x + move``, rounded after the product and again after the sum: no compiler can fuse the two."""
    # The select changes nothing, but stands between product and sum.
    product = scale * x
    return jnp.where(jnp.isnan(product), jnp.asarray(jnp.nan, product.dtype), product) + move


def rounded(product: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``product`` (finite) unchanged, in a form that no compiler fuses with a sum in which it is a term."""
    largest = jnp.finfo(product.dtype).max
    return jnp.clip(product, -largest, largest)


def safe_divide(numerator: Array, denominator: Array, otherwise: float | Array = 0.0) -> Array:
    """Return ``numerator / denominator``; where the denominator is zero, ``otherwise``, with gradient 0."""
    zero = denominator == 0
    return jnp.where(zero, otherwise, _divide(numerator, jnp.where(zero, 1, denominator)))


@jax.custom_jvp
def _divide(numerator: Array, denominator: Array) -> Array:
    """Return ``numerator / denominator``, with a derivative of its own that does not square the denominator."""
    # JAX's derivative does, and a square may leave the range of floats.
    return numerator / denominator


@_divide.defjvp
def _divide_jvp(primals, tangents):
    """Return (quotient q = x/y, its tangent (dx - q dy)/y), given ``primals`` (x, y) and ``tangents`` (dx, dy)."""
    quotient = _divide(*primals)
    # Integers have tangents of a type without numbers.
    dx, dy = (0.0 if d.dtype == jax.dtypes.float0 else d for d in tangents)
    return quotient, (dx - quotient * dy) / jnp.asarray(primals[1], quotient.dtype)


def divide_by_shared(numerator: Array, denominator: Array, otherwise: float | Array = 0.0) -> Array:
    """Return `safe_divide` of the arguments, each quotient correctly rounded even if numerators share a denominator.

    XLA would multiply by the reciprocal of a denominator that is broadcast: 41/41 would be 0.99999994, and 0.5 -
    20.5/41 not zero. Here the denominator depends on the numerator, so it is not broadcast. A barrier would also do,
    but costs one more kernel on a GPU.
    """
    numerator = jnp.asarray(numerator, jnp.result_type(numerator, denominator, float))
    nan = jnp.asarray(jnp.nan, numerator.dtype)
    return safe_divide(numerator, jnp.where(jnp.isnan(numerator), nan, denominator), otherwise)


def shares_of(counts: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return ``counts`` divided by their sum over classes; where the sum is zero, equal shares, with gradient 0."""
    return divide_by_shared(counts, sum_in_order(counts, keepdims=True), 1 / counts.shape[-1])


@jax.custom_jvp
def floored_log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``log(max(x, tiny))``, where tiny is the smallest normal float: finite at zero, as losses need it.

    The gradient is 1/max(x, √tiny): large and finite at zero, so that an optimiser can still move x away from zero.
    """
    return jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny))


@floored_log.defjvp
def _floored_log_jvp(primals, tangents):
    """Return (`floored_log` of x, its tangent), given ``primals`` (x,) and ``tangents`` (dx,)."""
    (x,), (dx,) = primals, tangents
    return floored_log(x), dx / jnp.maximum(x, jnp.finfo(x.dtype).tiny ** 0.5)


def log_softmax(x: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return `jax.nn.log_softmax` of ``x`` along the last axis, with sums by `sum_in_order`."""
    shifted = x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    return shifted - jnp.log(sum_in_order(jnp.exp(shifted), keepdims=True))


def softmax(x: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return `jax.nn.softmax` of ``x`` along the last axis, with sums by `sum_in_order`."""
    power = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True)))
    return power / sum_in_order(power, keepdims=True)


def log_average(logs: Float[Array, "... terms"], weights: Float[Array, "terms"]) -> Float[Array, "..."]:
    """Return log Σ w exp(x) over terms, with x in ``logs`` and w ≥ 0 in ``weights``; x may be NaN where w is 0.

    Terms are added by `sum_in_order`. Where the sum is 0 the result is -inf, with gradient 0. The gradient is smooth in
    the weights, also where a weight is 0.
    """
    largest = jnp.max(jnp.where(weights != 0, logs, -jnp.inf), axis=-1, keepdims=True)
    largest = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, jnp.zeros_like(largest)))
    # A term of weight 0 adds nothing, but has a slope in its weight: kept finite, as the term may be the largest.
    shifted = jnp.where((weights == 0) & jnp.isnan(logs), -jnp.inf, logs) - largest
    limit = np.log(jnp.finfo(logs.dtype).max) / 2
    total = sum_in_order(jnp.exp(jnp.minimum(shifted, limit)) * weights)
    is_zero = total == 0
    log_total = jnp.log(jnp.where(is_zero, jnp.ones_like(total), total)) + largest[..., 0]
    return jnp.where(is_zero, -jnp.inf, log_total)


def float_dtype(*arrays) -> jnp.dtype:
    """Return the dtype to compute in: the common one of those ``arrays`` that hold floats, else JAX's default float."""
    # Only dtypes are read: to put an array on a device would compile a program for its shape.
    dtypes = [jax.dtypes.canonicalize_dtype((a if hasattr(a, "dtype") else jnp.asarray(a)).dtype) for a in arrays]
    floats = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]
    return jnp.result_type(*floats) if floats else jnp.result_type(float)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return (rounded sum s, its exact rounding error e): ``a + b = s + e`` (Knuth)."""
    s = a + b
    # The parts of b and of a that arrived in s: the differences are exact, whichever of a and b is larger.
    b_seen = s - a
    return s, (a - (s - b_seen)) + (b - b_seen)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return (rounded product p, its rounding error e): ``a b = p + e`` to twice the precision (Dekker)."""
    # Floats are cut in halves by their bits: Dekker's way is undone by compilers that fuse a product and a sum.
    bits = {4: jnp.int32, 8: jnp.int64}[a.dtype.itemsize]
    keep = jnp.asarray(-(1 << (jnp.finfo(a.dtype).nmant + 2) // 2), bits)  # all bits but those of the lower half

    def split(x):
        """Return (leading half of the digits of ``x``, the rest)."""
        high = lax.bitcast_convert_type(lax.bitcast_convert_type(x, bits) & keep, x.dtype)
        return high, x - high

    product = rounded(a * b)
    a_high, a_low = split(a)
    b_high, b_low = split(b)
    # Each product is rounded before it is added, in every program: else last bits would differ between programs.
    error = (a_high * b_high - product) + rounded(a_high * b_low) + rounded(a_low * b_high)
    return product, error + rounded(a_low * b_low)


class TwoFloat(NamedTuple):
    """The number ``high + low``, with ``|low|`` at most half a unit in the last place of ``high``."""

    high: Float[Array, "..."]
    low: Float[Array, "..."]

    @property
    def value(self) -> Float[Array, "..."]:
        """The single float nearest to the number."""
        return self.high + self.low

    def plus(self, other: "TwoFloat") -> "TwoFloat":
        """Return this number plus ``other``, to twice the precision."""
        high, error = two_sum(self.high, other.high)
        return type(self)(*two_sum(high, error + (self.low + other.low)))

    def minus(self, other: "TwoFloat") -> "TwoFloat":
        """Return this number less ``other``, to twice the precision: zero exactly where the two are equal."""
        return self.plus(TwoFloat(-other.high, -other.low))

    def divided_by(self, divisor: float | int) -> "TwoFloat":
        """Return this number divided by the plain number ``divisor``, to twice the precision."""
        # The divisor depends on each number: XLA would multiply by a constant's reciprocal, and cancel dividing and
        # multiplying by it.
        divisors = jnp.where(jnp.isnan(self.high), self.high, jnp.asarray(divisor, self.high.dtype))
        quotient = self.high / divisors
        product, error = _two_product(quotient, divisors)
        rest = ((self.high - product) - error) + self.low
        return type(self)(*two_sum(quotient, rest / divisors))


def two_float_from_limbs(low: UInt32[Array, "..."], high: Int[Array, "..."]) -> TwoFloat:
    """Return the integer ``high 2³² + low`` as a `TwoFloat`: exact below 2⁴⁸ in float32, below 2⁵³ in float64."""
    dtype = jnp.result_type(float)
    total, error = two_sum(high.astype(dtype) * 2.0**32, (low >> 16).astype(dtype) * 2.0**16)
    total, last_error = two_sum(total, (low & 0xFFFF).astype(dtype))
    return TwoFloat(*two_sum(total, error + last_error))


def two_floats(counts: Num[Array, "..."]) -> TwoFloat:
    """Return ``counts`` >= 0 as a `TwoFloat`: exact for integers of 32 bits, and for wider ones below 2⁵³."""
    if counts.dtype in (jnp.int32, jnp.uint32) and jnp.result_type(float) == jnp.float32:
        return two_float_from_limbs(counts.astype(jnp.uint32), jnp.zeros(counts.shape, jnp.int32))
    high = counts.astype(float_dtype(counts))
    return TwoFloat(high, jnp.zeros_like(high))


def sum_before(values: Int32[Array, "n"], largest: int) -> Int32[Array, "n"]:
    """Return the sum of the ``values`` before each position.

    The values must be ≥ 0 and add to at most ``largest``; n must be a multiple of 64.
    """
    if default_platform() != "cpu" or largest >= 2**24:
        return jnp.cumsum(values) - values
    # Products with a triangle of ones: exact, since float32 holds integers below 2²⁴.
    rows = values.reshape(-1, 64).astype(jnp.float32)
    sum_within_row = jnp.matmul(rows, _TRIANGLE, precision="highest").astype(jnp.int32)
    row_sums = jnp.sum(values.reshape(-1, 64), axis=1, dtype=values.dtype)
    sum_before_row = jnp.cumsum(row_sums) - row_sums
    return (sum_within_row + sum_before_row[:, None]).reshape(-1)


AnyCounts = TypeVar("AnyCounts", Array, np.ndarray)
LARGEST_TABLE, ENTRIES_A_ROW = 2**22, 32
"""Most entries of a table by which `distinct_rows` avoids sorting; how many entries take as long as sorting one row."""


def as_counts(counts) -> Num[Array, "..."]:
    """Return ``counts`` as an array of JAX; integers of the host that JAX's integers cannot hold become floats.

    Floats of 16 bits become float32: they hold no count beyond 65504, and fewer digits than a sum over trees needs.
    Booleans become 0 and 1 as int32. Raises a TypeError if ``counts`` holds no numbers.
    """
    check_numbers("counts", counts)
    if not isinstance(counts, jax.Array) and is_concrete(counts):
        # On the host, since JAX cuts numbers beyond 32 bits without a word.
        counts = as_native(np.asarray(counts))
        narrow = jax.dtypes.canonicalize_dtype(counts.dtype)
        if np.issubdtype(narrow, np.integer) and narrow != counts.dtype and counts.size:
            limits = np.iinfo(narrow)
            if counts.min() < limits.min or counts.max() > limits.max:
                counts = counts.astype(jnp.result_type(float))
    counts = copy_in(counts)
    if counts.dtype == jnp.bool_:
        return counts.astype(jnp.int32)
    narrow_float = jnp.issubdtype(counts.dtype, jnp.floating) and counts.dtype.itemsize < 4
    return counts.astype(jnp.float32) if narrow_float else counts


def checked_counts(counts) -> Num[Array, "... classes"]:
    """Return ``counts`` as `as_counts` does; raise a ValueError unless they are finite, >= 0, and have a class axis."""
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    return counts


def counts_dtype(*tables) -> jnp.dtype:
    """Return the dtype that holds the counts of all ``tables``: `float_dtype` if some are floats, else an integer's."""
    dtypes = [jax.dtypes.canonicalize_dtype(table.dtype) for table in tables]
    if any(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes):
        return float_dtype(*tables)
    return jnp.dtype(np.result_type(*dtypes))


def subtract_counts(counts: AnyCounts, part: AnyCounts) -> AnyCounts:
    """Return ``counts - part``, the part being some of the counts; exactly 0 where the rest may be a rounding error."""
    rest = counts - part
    tolerance = 4 * float(np.finfo(np.float32).eps) * counts.astype(float_dtype(counts))
    return rest.__array_namespace__().where(rest.astype(tolerance.dtype) <= tolerance, rest.dtype.type(0), rest)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (distinct ``rows``, sorted; index of each row among them), as `numpy.unique` does, but faster."""
    most_entries = min(LARGEST_TABLE, ENTRIES_A_ROW * len(rows))
    if rows.size and rows.min() >= 0 and rows.max() < most_entries:
        # Rows of small counts, as in leaves, are digits of a number: a table of numbers replaces sorting.
        n_values = np.array([column.max() for column in rows.T], np.int64) + 1
        # The table has an entry for each combination of values. Their number is a product, which may overflow; 1e-9 is
        # for rounding.
        if np.log2(n_values).sum() <= np.log2(most_entries) + 1e-9:
            small_rows = rows.astype(np.int32)
            if rows.dtype.kind in "iu" or np.array_equal(small_rows, rows):
                distinct, index = _distinct_by_table(small_rows, n_values)
                return distinct.astype(rows.dtype), index
    order = np.lexsort(rows.T[::-1])
    sorted_rows = rows[order]
    is_new = np.ones(len(rows), bool)  # whether a row differs from the one before
    is_new[1:] = np.any([column[1:] != column[:-1] for column in sorted_rows.T], axis=0)
    index = np.empty(len(rows), np.int64)
    index[order] = np.cumsum(is_new) - 1
    return sorted_rows[is_new], index


def _distinct_by_table(rows: Int32[np.ndarray, "rows columns"], n_values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `distinct_rows` where each column has few values, from 0 up to its ``n_values - 1``."""
    # A row is a number, whose digits are its values, each of a radix of its own: marks in a table show which occur.
    row_number = np.zeros(len(rows), np.int32)
    for column, radix in zip(rows.T, n_values, strict=True):
        row_number *= int(radix)
        row_number += column
    marks = np.zeros(np.prod(n_values), np.int32)
    marks[row_number] = 1
    numbers = np.flatnonzero(marks)
    index = np.cumsum(marks, dtype=np.int32) - 1  # of each number that occurs, among those
    return np.stack(np.unravel_index(numbers, tuple(n_values)), axis=1), index[row_number]


def distinct_counts(counts: np.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Return (``count_table``, ``code``) of a `Forest` with ``counts [trees nodes classes]``."""
    n_trees, n_nodes, n_classes = counts.shape
    no_counts = np.zeros((1, n_classes))  # the first row of each table, also if no leaf has it
    rows, row_of_node = distinct_rows(np.concatenate([no_counts, counts.reshape(-1, n_classes)]))
    code = row_of_node[1:].reshape(n_trees, n_nodes).astype(np.int32)
    return padded_table(rows), jnp.asarray(code, jnp.int32)


def padded_table(table: np.ndarray):
    """Return ``table`` as `narrowest_counts` does, with rows of zeros up to a power of two, 1024 at least."""
    padded = np.zeros((power_of_two(len(table), 1024), table.shape[1]))
    padded[: len(table)] = table
    return narrowest_counts(padded)


def narrowest_counts(table: np.ndarray) -> jnp.ndarray:
    """Return a ``table`` of counts as an array of JAX of its `narrowest_dtype`."""
    dtype = narrowest_dtype(table)
    return jnp.asarray(table.astype(dtype), dtype)  # JAX would compile a program that converts


def narrowest_dtype(table: np.ndarray) -> np.dtype:
    """Return int32 if the counts in ``table`` are integers that int32 holds, else JAX's default dtype of floats."""
    # With integers sums and ties over trees are exact; fractions come from weights.
    integral = np.all(table == np.rint(table)) and table.max(initial=0) < 2**31
    return np.dtype(np.int32) if integral else jnp.result_type(float)


def unit_weight(weight: np.ndarray) -> float:
    """Return the weight that counts as one row, among the weights ``weight`` of rows.

    It is 1, since weights are repeats; the largest weight if that is below 1 and above 0; or the weight that all have,
    so that equal weights count as none.
    """
    largest = float(weight.max(initial=0))
    return (largest if (weight == largest).all() else min(1.0, largest)) or 1.0

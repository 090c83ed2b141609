"""Search for all places where the marginal likelihood may have its optima, on a grid of log κ.

Along log κ the sign of the excess Σ_c μ_c exp(r_c) - 1 is that of the likelihood's slope (see `_root`). Every crossing
from above to below is a maximum. What is tabulated are sums over leaves on the grid, of counts that are put together
in bins; r is looked up in the tables. So the grid costs little beside one look at all leaves. Crossings are known well
enough to start a search from each, which then looks at the leaves themselves.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxunc._numerics import add_up

from ._root import HIGHEST, LOWEST

_BINS = 12


class Crossings(NamedTuple):
    """Crossings by steps of the grid: one for each step ``[steps ...]``, and one beyond its end."""

    present: Any
    start: Any
    """Approximate log κ of the crossing."""
    r: Any
    """Approximate r of the crossing, ``[steps ... classes]``."""
    low: Any
    high: Any
    """Values of log κ between which the crossing lies."""


def find_crossings(tables: Callable[..., Any], ends: tuple[Any, Any], mean, falls, start, n_steps: int, xp: ModuleType):
    """Find all crossings. ``falls`` says that the likelihood falls towards κ = ∞, so that there is one in any case."""
    place = xp.arange(n_steps, dtype=mean.dtype).reshape(-1, *[1] * ends[0].ndim)
    step = (ends[1] - ends[0]) / (n_steps - 1)
    t = ends[0] + place * step
    table = tables(t)
    if xp is jnp:
        table = lax.optimization_barrier(table)  # not anew for every use
    # On the grid r_c is where S(n_c, μ_c κ e^r) = S(n, κ): a look-up in the table of S(n_c, ·), no search.
    r = _looked_up(*table, step[..., None], xp)  # pyright: ignore[reportCallIssue]
    excess = xp.log1p(add_up(mean * xp.expm1(r), -1))
    if xp is jnp:
        r, excess = lax.optimization_barrier((r, excess))
    # For large κ the sum tends to 0 and its sign to that of rounding errors.
    noise = 64 * xp.finfo(mean.dtype).eps
    above, below = excess > noise, excess < -noise
    last_sign = _running_max(xp.where(above | below, place, -1.0), xp)
    # What is too small to have a sign has that of its predecessor; the first one has it from theory.
    above = (last_sign < 0) | (_at(above.astype(place.dtype), last_sign, xp) > 0)
    before, after = excess[:-1], excess[1:]
    between = xp.clip(xp.where(before != after, before / xp.where(before != after, before - after, 1), 0.5), 0, 1)
    present, begin = above[:-1] & ~above[1:], t[:-1] + between * step
    begin_r = r[:-1] + between[..., None] * (r[1:] - r[:-1])
    low, high = t[:-1] - step, t[1:] + step
    # One crossing alone has the widest bracket, whose ends are certain.
    alone = falls & (add_up(present, 0) == 1) & ~above[-1]
    low, high = xp.where(alone, LOWEST, low), xp.where(alone, HIGHEST, high)
    beyond = falls & above[-1]
    widest = [xp.full_like(start, end)[None] for end in (LOWEST, HIGHEST)]
    parts = (present, begin, begin_r, low, high), (beyond[None], start[None], xp.zeros_like(r[:1]), *widest)
    return Crossings(*(xp.concatenate(pair) for pair in zip(*parts, strict=True)))


def search_range(counts, times, xp: ModuleType):
    """Return the log κ ``[...]`` below which the likelihood rises for certain, and above which it hardly changes.

    At the lower end only leaves with two classes count, at the upper one κ is that many times the squares of counts.
    """
    size = add_up(counts, -1)
    leaves = xp.maximum(add_up(xp.where(size > 0, times, 0), -1), 1)
    largest = xp.log(xp.maximum(size.max(axis=-1), 2))
    low = -xp.log(leaves) - xp.log(largest * counts.shape[-1]) - 3
    return xp.clip(low, LOWEST, -1), xp.clip(xp.log(leaves) + 2 * largest + 2, 1, HIGHEST)


def put_together(values, times, xp: ModuleType):
    """Replace many values by few, ``[... 2·bins]``: two in each bin of log n, with the same first three moments."""
    if values.shape[-1] <= 2 * _BINS:
        return values, times
    filled = (values > 0) & (times > 0)
    log = xp.log(xp.where(filled, values, 1))
    low = xp.where(filled, log, xp.inf).min(axis=-1, keepdims=True)
    high = xp.where(filled, log, -xp.inf).max(axis=-1, keepdims=True)
    low, high = xp.where(low <= high, low, 0), xp.where(low <= high, high, 0)
    width = (high - low + 1e-3) / _BINS
    # Bins of equal width in log n: what a leaf adds to S(n, κ) changes with the ratio of n and κ.
    index = xp.where(filled, xp.clip(xp.floor((log - low) / width), 0, _BINS - 1), 0)
    apart = xp.where(filled, xp.expm1(log - low - (index + 0.5) * width), 0)
    weight = xp.where(filled, times, 0.0)
    total, first, second = _sums(index, (weight, weight * apart, weight * apart * apart), xp)
    middle = first / xp.where(total > 0, total, 1)
    spread = xp.sqrt(xp.maximum(second / xp.where(total > 0, total, 1) - middle * middle, 0))
    centre = xp.exp(low + (xp.arange(_BINS, dtype=values.dtype) + 0.5) * width)
    nodes = [centre * (1 + middle - spread), centre * (1 + middle + spread)]
    return xp.concatenate(nodes, axis=-1), xp.concatenate([total / 2, total / 2], axis=-1)


def _sums(index, parts, xp: ModuleType):
    """Return the sum of each part in each bin ``[... bins]``."""
    lead, n_values = index.shape[:-1], index.shape[-1]
    n_rows = int(np.prod(lead))
    row = xp.arange(n_rows, dtype="int32")[:, None] * _BINS
    flat = (index.reshape(n_rows, n_values).astype("int32") + row).reshape(-1)
    parts = [xp.broadcast_to(part, index.shape).reshape(-1) for part in parts]
    if xp is np:
        return [np.bincount(flat, part, n_rows * _BINS).reshape(*lead, _BINS) for part in parts]
    sums = jnp.zeros((n_rows * _BINS, len(parts)), index.dtype).at[flat].add(jnp.stack(parts, axis=-1))
    return [sums[:, i].reshape(*lead, _BINS) for i in range(len(parts))]


def _looked_up(of_sizes, of_classes, classes_slope, step, xp: ModuleType):
    """Return r on the grid, from tables of S and of its slope: cubic interpolation of the inverse of log S."""
    wanted, values, slopes = xp.log(of_sizes)[..., None], xp.log(of_classes), classes_slope / of_classes
    n_steps = of_classes.shape[0]
    # log S falls along the grid: the values above the wanted one tell the cell.
    passed = add_up(values[:, None] > wanted[None], 0)
    cell = xp.clip(passed - 1, 0, n_steps - 2)
    v0, v1, d0, d1 = (xp.take_along_axis(table, cell + i, axis=0) for table in (values, slopes) for i in (0, 1))
    fall = v0 - v1
    x = (v0 - wanted) / fall
    # Slopes of the inverse function, in cells; a cubic through both ends with these slopes (Hermite).
    d0, d1 = (-fall / (step * d) for d in (d0, d1))
    inside = xp.clip(x, 0, 1)
    outside = 1 - inside
    offset = inside * inside * (3 - 2 * inside) + inside * outside * (outside * d0 - inside * d1)
    # Beyond the ends of the grid a straight line goes on; the clip keeps exp(r) finite.
    offset = offset + xp.where(x < 0, x * d0, 0) + xp.where(x > 1, (x - 1) * d1, 0)
    grid = xp.arange(n_steps).reshape(-1, *[1] * (of_classes.ndim - 1))
    return xp.clip(step * ((cell - grid).astype(of_classes.dtype) + offset), -60, 60)


def _running_max(x, xp: ModuleType):
    return np.maximum.accumulate(x) if xp is np else lax.cummax(x)


def _at(values, place, xp: ModuleType):
    return xp.take_along_axis(values, xp.maximum(place, 0).astype("int32"), axis=0)

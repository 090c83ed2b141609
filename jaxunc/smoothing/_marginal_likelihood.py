"""The marginal likelihood of the leaves' counts: Dirichlet-multinomial, beta-binomial for two classes.

It may have several maxima. `find_crossings` finds intervals of log κ, on a grid, that hold one each: there the excess
Σ_c μ_c exp(r_c) - 1, which has the sign of the likelihood's slope, falls through 0. `_find_best` starts a search
(`find_root`) in each of them, and keeps the best maximum. The grid costs less than one pass over all leaves: sums over
leaves are tabulated with counts binned, and r is looked up in the tables. Only the searches read the leaves themselves.
κ, μ and r are those of `_likelihood`.
"""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxunc._numerics import add_up, digamma_gaps, log1p_minus, log_gamma_gap

from ._likelihood import HIGHEST, LOWEST, Equations, Leaves, find_root, loop

_MANY = 1024
"""Number of distinct values above which a first search with binned values saves time."""

_BINS = 12
"""Number of bins of values."""

_STEPS = 48
_FEW_STEPS = 24
"""Steps of the grid of log κ; few where many trees of few leaves each are fitted at once."""


class Tally(NamedTuple):
    """How often each count and each leaf size occurs in a tree; the marginal likelihood depends on these alone."""

    counts: Any
    """Distinct counts ``[... classes values]``; sums along the last axis are vectorised."""
    times: Any
    """Number of leaves with each count of the class, ``[... classes values]`` (``1`` stands for all classes)."""
    sizes: Any
    """Distinct leaf sizes ``[... values]``."""
    size_times: Any
    """Number of leaves of each size, ``[... values]``."""

    @classmethod
    def of(cls, counts, times, xp: ModuleType) -> "Tally":
        """Return the tally of leaves with ``counts [... leaves classes]`` that occur ``times [... leaves]`` each.

        On the host, equal values of a single tree are joined. In traces, and for several trees, each leaf has an entry
        of its own.
        """
        if xp is not np or counts.ndim != 2:
            return cls(xp.swapaxes(counts, -1, -2), times[..., None, :], add_up(counts, -1), times)
        columns = [_together(column, times) for column in counts.T]
        longest = max(len(values) for values, _ in columns)
        padded = [[np.pad(array, (0, longest - len(array))) for array in column] for column in columns]
        values = np.stack([column_values for column_values, _ in padded])
        value_times = np.stack([column_times for _, column_times in padded])
        return cls(values, value_times, *_together(add_up(counts, -1), times))


def _together(values, times):
    """Return the distinct ones of ``values [entries]``, and for each the sum of its ``times [entries]``."""
    distinct, position = np.unique(values, return_inverse=True)
    return distinct, np.bincount(position, times)


def overdispersed(counts, times, leaves: Leaves, xp: ModuleType):
    """Return whether the leaves of each tree differ by more than chance ``[...]``.

    Then the marginal likelihood falls towards κ = ∞. ``counts [... leaves classes]`` are those of leaves that occur
    ``times [... leaves]`` each, and ``leaves`` is what `leaves_of` returns for them.

    With a leaf's counts n_c, their sum n, its shares p_c and the mean shares μ_c, the coefficient of 1/κ at κ = ∞ is

        ½ Σ_leaves (Σ_c n_c (n_c - 1)/μ_c - n (n - 1)) = ½ (Σ_leaves n² Σ_c (p_c - μ_c)²/μ_c - (C - 1) Σ_leaves n)

    for C classes. The second form is computed: in it nothing cancels.
    """
    size = add_up(counts, -1)
    mean = leaves.mean[..., None, :]
    deviation = xp.where(size[..., None] > 0, leaves.proportions - mean, 0)
    distance = add_up(deviation * deviation / xp.where(mean > 0, mean, 1), -1)
    by_chance = (add_up(leaves.mean > 0, -1) - 1).astype(counts.dtype) * add_up(times * size, -1)
    # More than rounding makes of an equality.
    return add_up(times * size * size * distance, -1) > by_chance * (1 + 64 * xp.finfo(counts.dtype).eps)


def fit_marginal(counts, times, mean, start, active, falls, xp: ModuleType):
    """Return the α ``[... classes]`` of the largest marginal likelihood, and two bools ``[...]`` for each tree.

    The bools say whether the search converged, and whether α is more likely than the limit κ = ∞. ``counts`` are
    ``[... leaves classes]``, each leaf occurs ``times [... leaves]``, and ``mean`` is μ. ``start`` is a guess of log κ,
    and ``falls`` is what `overdispersed` returns. Trees that are not ``active [...]`` are not searched.
    """
    if xp is jnp:
        return _solve(counts, times, mean, start, active, falls)
    return _find_best(counts, times, mean, start, active, falls, np)


class _Best(NamedTuple):
    """The best maximum that searches have reached so far, for each tree."""

    number: Any  # how many of each tree's crossings were searched from
    alpha: Any
    gain: Any  # log likelihood less that of the limit κ = ∞
    converged: Any  # whether the search of this maximum converged


def _find_best(counts, times, mean, start, active, falls, xp: ModuleType):
    """Return α and the two bools of `fit_marginal`: the best maximum that is reached from the crossings.

    A search starts from each of `find_crossings` in turn; there are hardly ever two.
    """
    tally = Tally.of(counts, times, xp)
    binned = Tally(*bin_sizes(tally.counts, tally.times, xp), *bin_sizes(tally.sizes, tally.size_times, xp))
    equations = _equations(tally, mean, xp)
    binned_equations = _equations(binned, mean, xp)
    ends = search_range(counts, times, xp)
    is_large = tally.counts.shape[-1] > _MANY
    n_steps = _STEPS if is_large or xp is np else _FEW_STEPS
    crossings = find_crossings(partial(_tables, binned, mean, xp), ends, mean, falls, start, n_steps, xp)
    present = crossings.present & active
    crossing_number = xp.cumsum(present, axis=0)  # of each tree's crossings, from 1
    n_crossings = add_up(present, 0)
    # The gain reads every leaf, so it is computed only if several maxima, or a maximum and κ = ∞, have to be compared.
    # A single maximum is the best if the likelihood falls towards κ = ∞.
    must_compare = (active & ~(falls & (n_crossings == 1))).any()
    gain_of = lambda alpha: _gain(counts, times, mean, alpha, xp)

    def improve(best: _Best) -> _Best:
        """Search from each tree's next crossing, and keep its maximum if its gain exceeds that of ``best``."""
        # Each tree's next crossing, picked by sums over the steps; trees without one take no part in this search.
        is_next = present & (crossing_number == best.number + 1)
        has_next = is_next.any(axis=0)
        start_and_ends = crossings.start, crossings.low, crossings.high
        t, low, high = (add_up(xp.where(is_next, by_step, 0), 0) for by_step in start_and_ends)
        r = add_up(xp.where(is_next[..., None], crossings.r, 0), 0)
        # Many distinct counts: search with the binned values first, and take the last steps with all values.
        if is_large:
            r, t, _ = find_root(binned_equations, mean, t, has_next, xp, r, (low, high))
        r, t, converged = find_root(equations, mean, t, has_next, xp, r, (low, high))
        alpha = mean * xp.exp(r + t[..., None])
        if xp is np:
            gain = gain_of(alpha) if must_compare else xp.zeros_like(t)
        else:
            gain = lax.cond(must_compare, gain_of, lambda _: xp.zeros_like(t), alpha)
        is_better = has_next & (gain > best.gain)
        alpha = xp.where(is_better[..., None], alpha, best.alpha)
        return _Best(
            number=best.number + 1,
            alpha=alpha,
            gain=xp.where(is_better, gain, best.gain),
            converged=xp.where(is_better, converged, best.converged),
        )

    # If the likelihood falls towards κ = ∞, any maximum will do. Else it must gain more over that limit than rounding.
    size = add_up(counts, -1)
    least_gain = xp.where(falls, -xp.inf, xp.finfo(mean.dtype).eps * add_up(times * size, -1))
    no_best = _Best(xp.zeros((), "int32"), xp.zeros_like(mean) + mean, least_gain, xp.ones_like(falls))
    best = loop(improve, lambda best: best.number < n_crossings.max(initial=0), no_best, len(present), xp)
    return best.alpha, best.converged, best.gain > least_gain


def _tables(tally: Tally, mean, xp: ModuleType, t):
    """Return S(n, κ) ``[steps ...]``, S(n_c, μ_c κ) ``[steps ... classes]`` and its slope for each ``t`` = log κ.

    S(n, a) is Σ ψ(n+a) - ψ(a) over the leaves of ``tally``, which hold n_c instances of class c and n in all. ``mean``
    is μ. For a class that occurs in no leaf, S(n, κ) stands in.
    """
    is_seen = mean > 0
    total = xp.exp(t)
    of_sizes, sizes_slope = _score(tally.sizes, tally.size_times, total[..., None], xp)
    alpha = xp.where(is_seen, mean, 1.0) * total[..., None]
    of_classes, classes_slope = _score(tally.counts, tally.times, alpha[..., None], xp)
    of_classes = xp.where(is_seen, of_classes, of_sizes[..., None])
    classes_slope = xp.where(is_seen, classes_slope, sizes_slope[..., None])
    return of_sizes, of_classes, classes_slope


def _gain(counts, times, mean, alpha, xp: ModuleType):
    """Return the marginal log likelihood at ``alpha`` less that at κ = ∞, for each tree ``[...]``.

    ``alpha`` and ``mean``, which is μ, are ``[... classes]``. Each leaf, with ``counts [... leaves classes]`` n_c and
    their sum n, occurs ``times [... leaves]``. The sum goes leaf by leaf, so that hardly anything cancels::

        log Γ(n+a) - log Γ(a) = n log(n+a) + R(n, a)
        R(n, a) = a (log(1 + n/a) - n/a) - ½ log(1 + n/a) + δ(n+a) - δ(a)    with δ = `log_gamma_gap`

    A leaf's log likelihood is this for (n_c, α_c), summed over classes, less this for (n, κ), where κ = Σ_c α_c. At
    κ = ∞ it is Σ_c n_c log μ_c. With the shares p̂_c = (n_c + α_c) / (n + κ) the difference is::

        Σ_c n_c log(p̂_c/μ_c) + Σ_c R(n_c, α_c) - R(n, κ)
    """
    is_seen = mean > 0
    alpha = xp.where(is_seen, alpha, 0.0)
    total = add_up(alpha, -1)
    size = add_up(counts, -1)
    safe_alpha = xp.where(is_seen, alpha, 1.0)[..., None, :]
    safe_total = xp.where(total > 0, total, 1.0)[..., None]

    def remainder(n, a):
        """Return R(n, a)."""
        return a * log1p_minus(n / a, xp) - 0.5 * xp.log1p(n / a) + log_gamma_gap(n + a, xp) - log_gamma_gap(a, xp)

    # p̂_c/μ_c; a class that occurs in no leaf has 1 for its α and μ here, and is left out of the sum below.
    share = (counts + safe_alpha) / (size + safe_total)[..., None] / xp.where(is_seen, mean, 1.0)[..., None, :]
    of_class = counts * xp.log(share) + remainder(counts, safe_alpha)
    gain = add_up(xp.where(is_seen[..., None, :], of_class, 0.0), -1) - remainder(size, safe_total)
    return add_up(times * gain, -1)


def _equations(tally: Tally, mean, xp: ModuleType) -> Equations:
    """Return the equations that hold at a maximum of the marginal likelihood of ``tally``; ``mean`` is μ."""
    is_seen = mean > 0

    def equations(r, t):
        """Return F = log S(n, κ) - log S(n_c, α_c), ∂F/∂r and ∂F/∂t, where S(n, a) = Σ_leaves ψ(n+a) - ψ(a)."""
        alpha = xp.where(is_seen, mean * xp.exp(r + t[..., None]), 1.0)
        total = xp.exp(t)
        of_classes, classes_slope = _score(tally.counts, tally.times, alpha[..., None], xp)
        of_sizes, sizes_slope = _score(tally.sizes, tally.size_times, total[..., None], xp)
        of_sizes = of_sizes[..., None]
        sizes_slope = sizes_slope[..., None]
        # A class that occurs in no leaf has α = 0 and no equation: its sums are replaced, and its results are zeros.
        of_classes = xp.where(is_seen, of_classes, 1.0)
        classes_slope = xp.where(is_seen, classes_slope, -1.0)
        # `_score` has slopes along log a. log α_c grows by 1 with r and with t, and log κ = t with t alone.
        slope = -classes_slope / of_classes
        value = xp.where(is_seen, xp.log(of_sizes / of_classes), 0.0)
        return value, slope, xp.where(is_seen, slope + sizes_slope / of_sizes, 0.0)

    return equations


def _score(n, times, a, xp: ModuleType):
    """Return the sum S of ``times`` (ψ(n+a) - ψ(a)) along the last axis, and ∂S/∂log a."""
    # With ψ(a) = log a - gap, the difference of the logarithms is one logarithm, in which nothing cancels.
    gap, gap_slope = digamma_gaps(a, xp)
    if xp is jnp:
        gap, gap_slope = lax.optimization_barrier((gap, gap_slope))  # not anew for every n
    further_gap, further_slope = digamma_gaps(n + a, xp)
    value = xp.log1p(n / a) + (gap - further_gap)
    slope = a / (n + a) * further_slope - gap_slope - n / (n + a)
    return add_up(times * value, -1), add_up(times * slope, -1)


@jax.custom_jvp
def _solve(counts, times, mean, start, active, falls):
    """Return α and the two bools of `fit_marginal` for traced arguments, with a derivative along the counts."""
    return _find_best(counts, times, mean, start, active, falls, jnp)


@_solve.defjvp
def _solve_jvp(primals, tangents):
    """Return the values of `_solve`, and their derivative along the tangent of the counts (implicit functions).

    Two equations are differentiated: S(n_c, α_c) = S(n, κ) for every class (`_tables` has S), and κ = Σ α_c. They give

        d log α_c = (push_c + total_slope d log κ)/class_slope_c,    d log κ = Σ α_c/κ d log α_c,

    where push_c is the direct effect of the counts. The mean only scales the search for α, so it has no part in this.
    """
    counts, times, mean, _, active, _ = primals
    d_counts, *_ = tangents
    alpha, converged, finite = _solve(*primals)
    active = active & finite
    is_seen = (mean > 0) & active[..., None]
    safe_alpha = jnp.where(is_seen, alpha, 1.0)
    total = jnp.where(active, add_up(jnp.where(is_seen, alpha, 0.0), -1), 1.0)

    # The direct effect of the counts is through S alone; κ and α follow by the slopes of the equations.
    def scores(counts):
        """Return S(n_c, α_c) - S(n, κ) of each class; and (S(n, κ), slope of S(n_c, α_c), slope of S(n, κ))."""
        class_counts = jnp.swapaxes(counts, -1, -2)
        sizes = add_up(counts, -1)
        of_classes, classes_slope = _score(class_counts, times[..., None, :], safe_alpha[..., None], jnp)
        of_sizes, sizes_slope = _score(sizes, times, total[..., None], jnp)
        return of_classes - of_sizes[..., None], (of_sizes, classes_slope, sizes_slope)

    _, d_score, (of_sizes, classes_slope, sizes_slope) = jax.jvp(scores, (counts,), (d_counts,), has_aux=True)
    of_sizes = jnp.where(active, of_sizes, 1.0)[..., None]
    class_slope = jnp.where(is_seen, -classes_slope / of_sizes, 1.0)
    total_slope = -sizes_slope[..., None] / of_sizes
    share = jnp.where(is_seen, alpha, 0.0) / total[..., None]
    push = jnp.where(is_seen, d_score / of_sizes, 0.0)
    fall = add_up(share * (class_slope - total_slope) / class_slope, -1)  # 1 - Σ α_c/κ total_slope/class_slope_c
    d_log_total = jnp.where(active, jnp.sum(share * push / class_slope, axis=-1) / jnp.where(active, fall, 1.0), 0.0)
    d_log_alpha = jnp.where(is_seen, (push + total_slope * d_log_total[..., None]) / class_slope, 0.0)
    no_tangent = jnp.zeros(converged.shape, jax.dtypes.float0)
    return (alpha, converged, finite), (alpha * d_log_alpha, no_tangent, no_tangent)


class Crossings(NamedTuple):
    """The points where the excess falls through 0: at most one in each step of the grid, and one beyond its end.

    Fields are ``[steps ...]``, and the one beyond the end is last.
    """

    present: Any
    """Whether there is a crossing."""
    start: Any
    """Approximate log κ of the crossing."""
    r: Any
    """Approximate r of the crossing, ``[steps ... classes]``."""
    low: Any
    high: Any
    """Values of log κ between which the crossing lies."""


def find_crossings(tables: Callable[..., Any], ends: tuple[Any, Any], mean, falls, start, n_steps: int, xp: ModuleType):
    """Return the `Crossings`, the points of log κ where the excess Σ_c μ_c exp(r_c) - 1 falls through 0.

    They are looked for on a grid of ``n_steps`` values of log κ between ``ends``. ``tables`` is `_tables` as a function
    of log κ, and ``mean`` is μ. Where ``falls`` is True, the excess is below 0 towards κ = ∞. If it is above 0 at the
    grid's end, there is a crossing beyond, for which ``start`` is a guess.
    """
    position = xp.arange(n_steps, dtype=mean.dtype).reshape(-1, *[1] * ends[0].ndim)
    step = (ends[1] - ends[0]) / (n_steps - 1)
    t = ends[0] + position * step
    table = tables(t)
    if xp is jnp:
        table = lax.optimization_barrier(table)  # not anew for every use
    # On the grid r_c solves S(n_c, μ_c κ e^r) = S(n, κ): inverting the table of S(n_c, ·) gives it, without a search.
    r = _look_up(*table, step[..., None], xp)  # pyright: ignore[reportCallIssue]
    excess = xp.log1p(add_up(mean * xp.expm1(r), -1))
    if xp is jnp:
        r, excess = lax.optimization_barrier((r, excess))
    above = _is_above(excess, position, xp)
    # A crossing lies in each step before which the excess is above 0, and after which it is not.
    present = above[:-1] & ~above[1:]
    before = excess[:-1]
    after = excess[1:]
    # Where in the step a straight line from one excess to the other is 0.
    fraction = xp.clip(xp.where(before != after, before / xp.where(before != after, before - after, 1), 0.5), 0, 1)
    crossing_t = t[:-1] + fraction * step
    crossing_r = r[:-1] + fraction[..., None] * (r[1:] - r[:-1])
    low = t[:-1] - step  # a step wider at both ends, as the excess is approximate
    high = t[1:] + step
    # A single crossing has the widest bracket, since the signs at its ends are certain.
    is_single = falls & (add_up(present, 0) == 1) & ~above[-1]
    low = xp.where(is_single, LOWEST, low)
    high = xp.where(is_single, HIGHEST, high)
    on_grid = Crossings(present, crossing_t, crossing_r, low, high)
    beyond_end = Crossings(
        present=(falls & above[-1])[None],
        start=start[None],
        r=xp.zeros_like(r[:1]),
        low=xp.full_like(start, LOWEST)[None],
        high=xp.full_like(start, HIGHEST)[None],
    )
    return Crossings(*(xp.concatenate(pair) for pair in zip(on_grid, beyond_end, strict=True)))


def _is_above(excess, position, xp: ModuleType):
    """Return whether the ``excess [steps ...]`` is above 0 at each step; ``position`` numbers the steps, as floats."""
    # For large κ the excess tends to 0, and rounding errors decide its sign. One that is too small to have a sign takes
    # that of the step before; the first one is above 0 by theory.
    noise = 64 * xp.finfo(position.dtype).eps
    above = excess > noise
    below = excess < -noise
    accumulate_max = np.maximum.accumulate if xp is np else lax.cummax
    last_signed = accumulate_max(xp.where(above | below, position, -1.0))  # -1 before the first step with a sign
    sign_position = xp.maximum(last_signed, 0).astype("int32")
    return (last_signed < 0) | (xp.take_along_axis(above.astype(position.dtype), sign_position, axis=0) > 0)


def search_range(counts, times, xp: ModuleType):
    """Return the ends of the range of log κ ``[...]`` that is searched for maxima of the marginal likelihood.

    Below the first end the likelihood surely rises, and above the second it hardly changes.
    """
    # At the first end only leaves with two classes or more matter. The second is the logarithm of e² times the number
    # of leaves times the square of the largest leaf's size.
    size = add_up(counts, -1)
    n_leaves = xp.maximum(add_up(xp.where(size > 0, times, 0), -1), 1)
    log_size = xp.log(xp.maximum(size.max(axis=-1), 2))
    low = -xp.log(n_leaves) - xp.log(log_size * counts.shape[-1]) - 3
    return xp.clip(low, LOWEST, -1), xp.clip(xp.log(n_leaves) + 2 * log_size + 2, 1, HIGHEST)


def bin_sizes(values, times, xp: ModuleType):
    """Return fewer values that stand for ``values``, and how often each occurs, both ``[... 2·bins]`` or shorter.

    ``values`` occur ``times`` each. The two values of each bin have the same total, mean and variance as those in it.
    """
    if values.shape[-1] <= 2 * _BINS:
        return values, times
    is_filled = (values > 0) & (times > 0)  # counts of 0, such as padding, add nothing to S
    log_value = xp.log(xp.where(is_filled, values, 1))
    low = xp.where(is_filled, log_value, xp.inf).min(axis=-1, keepdims=True)
    high = xp.where(is_filled, log_value, -xp.inf).max(axis=-1, keepdims=True)
    has_values = low <= high  # False if there is no positive value: then both ends are infinite
    low = xp.where(has_values, low, 0)
    high = xp.where(has_values, high, 0)
    width = (high - low + 1e-3) / _BINS  # positive even if all values are equal
    # Bins of equal width in log n: what a leaf adds to S(n, κ) changes with the ratio of n and κ.
    index = xp.where(is_filled, xp.clip(xp.floor((log_value - low) / width), 0, _BINS - 1), 0)
    # How far each value is from the centre of its bin, relative to the centre.
    deviation = xp.where(is_filled, xp.expm1(log_value - low - (index + 0.5) * width), 0)
    weight = xp.where(is_filled, times, 0.0)
    total, first_moment, second_moment = _sums(index, (weight, weight * deviation, weight * deviation * deviation), xp)
    mean_deviation = first_moment / xp.where(total > 0, total, 1)
    spread = xp.sqrt(xp.maximum(second_moment / xp.where(total > 0, total, 1) - mean_deviation * mean_deviation, 0))
    centre = xp.exp(low + (xp.arange(_BINS, dtype=values.dtype) + 0.5) * width)
    # Two values, each one standard deviation from the mean, have the mean and the variance of those in the bin.
    points = [centre * (1 + mean_deviation - spread), centre * (1 + mean_deviation + spread)]
    return xp.concatenate(points, axis=-1), xp.concatenate([total / 2, total / 2], axis=-1)


def _sums(index, parts, xp: ModuleType):
    """Return for each array of ``parts`` the sums of its entries by bin, ``[... bins]``; ``index`` has their bins."""
    *leading_shape, n_values = index.shape
    n_rows = int(np.prod(leading_shape))
    # Each row has a range of bins to itself, so that all are added in one call.
    first_bin = xp.arange(n_rows, dtype="int32")[:, None] * _BINS
    flat_index = (index.reshape(n_rows, n_values).astype("int32") + first_bin).reshape(-1)
    parts = [xp.broadcast_to(part, index.shape).reshape(-1) for part in parts]
    if xp is np:
        return [np.bincount(flat_index, part, n_rows * _BINS).reshape(*leading_shape, _BINS) for part in parts]
    sums = jnp.zeros((n_rows * _BINS, len(parts)), index.dtype).at[flat_index].add(jnp.stack(parts, axis=-1))
    return [sums[:, i].reshape(*leading_shape, _BINS) for i in range(len(parts))]


def _look_up(of_sizes, of_classes, classes_slope, step, xp: ModuleType):
    """Return the r ``[steps ... classes]`` with S(n_c, μ_c κ e^r) = S(n, κ) at each value of κ on the grid.

    The arguments are what `_tables` returns, and the ``step`` of log κ on the grid. The inverse of log S is
    interpolated by cubics.
    """
    wanted = xp.log(of_sizes)[..., None]
    values = xp.log(of_classes)
    slopes = classes_slope / of_classes
    n_steps = of_classes.shape[0]
    # log S falls along the grid, so the number of values above the wanted one tells the cell between two steps.
    n_above = add_up(values[:, None] > wanted[None], 0)
    cell = xp.clip(n_above - 1, 0, n_steps - 2)
    # Values and slopes at both ends of the cell.
    v0, v1 = (xp.take_along_axis(values, cell + i, axis=0) for i in (0, 1))
    d0, d1 = (xp.take_along_axis(slopes, cell + i, axis=0) for i in (0, 1))
    fall = v0 - v1
    x = (v0 - wanted) / fall  # from 0 at the cell's start to 1 at its end
    # Slopes of the inverse function, in cells; a cubic through both ends with these slopes (Hermite).
    inverse_d0, inverse_d1 = (-fall / (step * d) for d in (d0, d1))
    inside = xp.clip(x, 0, 1)
    rest = 1 - inside
    offset = inside * inside * (3 - 2 * inside) + inside * rest * (rest * inverse_d0 - inside * inverse_d1)
    # Beyond the ends of the grid a straight line goes on; the clip keeps exp(r) finite.
    offset = offset + xp.where(x < 0, x * inverse_d0, 0) + xp.where(x > 1, (x - 1) * inverse_d1, 0)
    grid = xp.arange(n_steps).reshape(-1, *[1] * (of_classes.ndim - 1))
    return xp.clip(step * ((cell - grid).astype(of_classes.dtype) + offset), -60, 60)

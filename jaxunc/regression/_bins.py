"""Targets in bins: ordered classes for `count_leaves` and every combiner, and back from probabilities to numbers."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import as_weights, check_bool, check_integer, check_numbers, check_within
from jaxunc._numerics import unit_weight
from jaxunc.tables import NumbersLike

from ._moments import checked_target

POINTS = 33
"""Number of quantiles of its values that a bin keeps."""
BIN_SCORES = 2**21
"""Largest number of values of distribution functions that `TargetBins.crps` holds in memory at a time."""
TIED = 1e-9
"""Share of a sum of weights below which differences count as rounding."""
LOPSIDED = 16
"""Largest ratio of the widths of a bin's halves, each with half of its rows; a wider half becomes a bin by itself."""
FEWEST = 5
"""Fewest rows in each half of a bin that is cut."""


class TargetBins(NamedTuple):
    """Ordered bins that a number is cut into, and the distribution of the values within each bin."""

    edges: np.ndarray
    """The least value of each bin but the first, ``[bins - 1]``: a value lies in the last bin whose edge it reaches."""
    table: np.ndarray
    """Quantiles of the values within each bin at 0, 1/32 … 1, ``[bins 33]``; equal in an atom, a bin of one value."""
    means: np.ndarray
    """The mean of the values within each bin, ``[bins]``."""
    codes: np.ndarray
    """The bin of each value that the bins were made of, ``[instances]``: what `count_leaves` counts."""

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.means)

    @property
    def is_atom(self) -> np.ndarray:
        """Whether a bin holds one value alone, ``[bins]``."""
        return self.table[:, 0] == self.table[:, -1]

    def code(self, y: NumbersLike) -> np.ndarray:
        """Return the bin of each number ``[instances]``; a number between two bins gets the nearer bin."""
        return np.searchsorted(self.edges, checked_target(y, len(np.atleast_1d(np.asarray(y)))), side="right")

    def mean(self, p: NumbersLike) -> np.ndarray:
        """Return the mean target ``[instances]`` by probabilities ``p [instances bins]``, divided by their sums."""
        shares = self._shares(p)
        return shares @ self.means / shares.sum(axis=1)

    def quantile(self, p: NumbersLike, levels: NumbersLike) -> np.ndarray:
        """Return the quantiles ``[instances levels]`` of targets whose bins have the probabilities p.

        Parameters
        ----------
        p
            Probabilities of the bins ``[instances bins]``, ≥ 0; they are divided by their sum.
        levels
            Levels in [0, 1], ``[levels]``. Those at 0 and 1 give the ends of the outermost bins with a probability.

        Raises
        ------
        ValueError
            If a level lies outside [0, 1], or p has another shape or negative numbers. A row of NaN gives NaN.
        """
        shares = self._shares(p)
        levels = checked_levels(levels)
        quantiles = np.array(self.quantiles(shares, levels)).reshape(len(levels), len(shares)).T.copy()
        quantiles[~np.isfinite(shares.sum(axis=1))] = np.nan
        return quantiles

    def quantiles(self, shares: Any, levels: np.ndarray, xp: Any = np) -> list[Any]:
        """Return the quantiles of distributions: a list with an array ``[...]`` for each of ``levels``.

        ``shares [... bins]`` has the weights ≥ 0 of the bins, of any positive sum. A level is a number, or an array
        ``[...]`` with a number for each row of shares. ``xp`` is NumPy or ``jax.numpy``.
        """
        ends = xp.cumsum(shares, axis=-1)
        ends = ends / ends[..., -1:]  # the distribution function at the end of each bin
        quantiles = []
        for level in levels:
            # The first bin up to which the distribution reaches the level, and at 0 the first with a probability.
            row_level = level[..., None] if np.ndim(level) else level
            bin_ = xp.minimum(xp.sum((ends < row_level) | (ends <= 0), axis=-1, keepdims=True), self.n_bins - 1)
            share, end = (xp.take_along_axis(array, bin_, axis=-1)[..., 0] for array in (shares, ends))
            mass = share / xp.sum(shares, axis=-1)
            fraction = (level - (end - mass)) / xp.where(mass > 0, mass, 1)
            # NaN, of rows without an answer, must not become an index.
            position = xp.clip(xp.where(xp.isnan(fraction), 0, fraction), 0, 1) * (POINTS - 1)
            point = xp.minimum(xp.floor(position), POINTS - 2)
            table_index = bin_[..., 0] * POINTS + point.astype(np.int64)
            low, high = (xp.take(xp.asarray(self.table.ravel()), table_index + i, mode="clip") for i in (0, 1))
            # In this form an atom's quantile is its value to the bit, since high - low is 0.
            quantiles.append(low + (high - low) * (position - point))
        return quantiles

    def cdf(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        """Return the probability ``[instances]`` that each target is at most the number ``y [instances]``.

        ``p [instances bins]`` are the probabilities of the bins, which are divided by their sums.
        """
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        bin_ = np.searchsorted(self.edges, target, side="right")
        points = self.table[bin_]
        # Up to the last of equal points, as a distribution function is continuous from the right.
        last_point = np.sum(points <= target[:, None], axis=1) - 1
        point = np.clip(last_point, 0, POINTS - 2)
        low, high = (np.take_along_axis(points, index[:, None], axis=1)[:, 0] for index in (point, point + 1))
        fraction = np.clip((target - low) / np.where(high > low, high - low, 1), 0, 1)
        # The share of the bin up to the target: 0 below all points, 1 from the last one on.
        within = np.where(last_point < 0, 0, np.where(last_point == POINTS - 1, 1, (point + fraction) / (POINTS - 1)))
        below = np.cumsum(shares, axis=1) - shares
        rows = np.arange(len(shares))
        return (below[rows, bin_] + shares[rows, bin_] * within) / np.sum(shares, axis=1)

    def crps(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        r"""Return the continuous ranked probability score ``[instances]``, :math:`\int (F(x) - [x \ge y])^2 dx`.

        ``p [instances bins]`` are the probabilities of the bins, and ``y [instances]`` the targets. The score is exact
        for the distribution F of `quantile` and `cdf`, in units of the target; smaller is better.
        """
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        scores = np.empty(len(target))
        step = max(BIN_SCORES // self.table.size, 1)
        for start in range(0, len(target), step):
            rows = slice(start, start + step)
            scores[rows] = self._crps(shares[rows], target[rows])
        return scores

    def _crps(self, shares: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the scores of `crps` by ``shares [instances bins]`` and ``target [instances]``, for few instances."""
        shares = shares / shares.sum(axis=1, keepdims=True)
        bin_starts = np.cumsum(shares, axis=1) - shares
        levels = bin_starts[:, :, None] + shares[:, :, None] * np.linspace(0, 1, POINTS)  # [instances bins points]
        x = self.table.ravel()
        cdf = levels.reshape(len(target), -1)
        y = target[:, None]
        # Between two points F is a line. The part of it below y counts F², the part above (1 - F)².
        low, high = x[:-1], x[1:]
        cdf_low, cdf_high = cdf[:, :-1], cdf[:, 1:]
        split = np.clip(y, low, high)
        cdf_split = cdf_low + (cdf_high - cdf_low) * (split - low) / np.where(high > low, high - low, 1)
        inside = _square(split - low, cdf_low, cdf_split) + _square(high - split, 1 - cdf_split, 1 - cdf_high)
        # Beyond the outermost points F is 0 or 1, so that the whole distance counts.
        return inside.sum(axis=1) + np.maximum(x[0] - target, 0) + np.maximum(target - x[-1], 0)

    def _shares(self, p: NumbersLike) -> np.ndarray:
        """Return ``p [instances bins]`` as float64; raise a ValueError for other shapes, numbers < 0, rows of zeros."""
        check_numbers("p", p)
        shares = np.asarray(p, np.float64)
        if shares.ndim != 2 or shares.shape[1] != self.n_bins:
            raise ValueError(f"p has shape {shares.shape}; pass probabilities (instances, {self.n_bins}) of the bins.")
        if (shares < 0).any() or (shares.sum(axis=1) == 0).any():
            raise ValueError("p has a row with negative numbers or none above 0; pass probabilities of the bins.")
        return shares


def _square(width: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the integral of the square of a line that goes from u to v over ``width``."""
    return width * (u * u + u * v + v * v) / 3


def check_bins(bins: TargetBins) -> None:
    """Raise a ValueError unless the arrays of ``bins`` fit each other and the bins ascend, as `target_bins` has it."""
    edges, table, means, codes = bins
    n = len(means)  # number of bins
    shapes = [array.shape for array in (edges, table, means)]
    if not n or shapes != [(n - 1,), (n, POINTS), (n,)] or codes.ndim != 1 or codes.dtype.kind != "i":
        raise ValueError(f"bins of a target have arrays of shapes {shapes}; expected (bins - 1,), (bins, {POINTS}), …")
    if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (edges, table, means)):
        raise ValueError("bins of a target hold what are no finite numbers of float64.")
    low, high = table[:, 0], table[:, -1]
    is_separate = (high[:-1] < edges).all() and (edges <= low[1:]).all()
    # A mean is rounded, so that it may lie just outside of its values.
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    inside = ((means >= low - slack) & (means <= high + slack)).all()
    if (np.diff(table, axis=1) < 0).any() or not (is_separate and inside) or ((codes < 0) | (codes >= n)).any():
        raise ValueError("bins of a target are not in their order, or hold means and codes of others.")


def checked_levels(levels: Any, name: str = "levels") -> np.ndarray:
    """Return ``levels`` as float64 ``[levels]``; raise a ValueError about ``name`` unless all lie in [0, 1]."""
    check_numbers(name, levels)
    numbers = np.atleast_1d(np.asarray(levels, np.float64))
    if numbers.ndim != 1 or np.asarray(levels).dtype == bool or not ((numbers >= 0) & (numbers <= 1)).all():
        raise ValueError(f"{name}={np.asarray(levels).tolist()!r:.80} must be numbers in [0, 1], such as [0.05, 0.95].")
    return numbers


def checked_limits(limits: Any) -> np.ndarray:
    """Return ``limits``, a number or several, as float64 ``[limits]``.

    Raises a TypeError or a ValueError unless they are finite numbers, one at least.
    """
    check_numbers("limits", limits)
    numbers = np.atleast_1d(np.asarray(limits, np.float64))
    if numbers.ndim != 1 or not numbers.size or np.asarray(limits).dtype == bool or not np.isfinite(numbers).all():
        raise ValueError(f"limits={np.asarray(limits).tolist()!r:.80} must be finite numbers, such as [100, 200].")
    return numbers


def interval_levels(coverage: Any, what: str = "intervals") -> np.ndarray:
    """Return the levels of the quantiles that end intervals, ``[2·coverages]``: lower, upper for each coverage in turn.

    ``coverage`` is one number or a list. Raises a TypeError or a ValueError unless all are numbers in (0, 1); the
    message calls the intervals ``what``.
    """
    check_numbers("coverage", coverage)
    shape = np.shape(coverage) if np.ndim(coverage) == 1 else ()
    meaning = f": how often {what} are to hold the truth"
    if shape == (0,):
        raise ValueError(f"coverage=[] names nothing; pass numbers in (0, 1){meaning}.")
    check_within("coverage", coverage, "(0, 1)", meaning, shape=shape)
    coverages = np.atleast_1d(np.asarray(coverage, float))
    return np.stack([(1 - coverages) / 2, (1 + coverages) / 2], axis=1).ravel()


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles ``[levels]`` of ascending ``values``, each of which counts as often as its ``weight`` > 0 says.

    With whole weights they equal `numpy.quantile` of the repeated values. Each quantile is the mean of the values over
    a window of one row's weight: 1, or the largest weight if all are less than 1 (`unit_weight`).
    """
    if (weight == 1).all():
        return np.quantile(values, levels)
    unit = unit_weight(weight)
    ends = np.cumsum(weight)
    starts = np.r_[0, ends[:-1]]
    quantiles = np.empty(len(levels))
    for i, start in enumerate(levels * (ends[-1] - unit)):  # of the window, which ends a unit later
        first = min(int(np.searchsorted(ends, start, side="right")), len(values) - 1)
        window = slice(first, max(int(np.searchsorted(starts, start + unit)), first + 1))  # the values that it meets
        overlap = np.maximum(np.minimum(ends[window], start + unit) - np.maximum(starts[window], start), 0)
        offset = values[window] - values[first]  # an atom's quantile is its value to the bit
        quantiles[i] = values[first] + overlap @ offset / (overlap.sum() or 1)
    return quantiles


def target_bins(
    y: NumbersLike, n_bins: int = 20, *, sample_weight: NumbersLike | None = None, tails: bool = True
) -> TargetBins:
    r"""Cut the values of a number into bins of about equally many rows; each frequent value has a bin of its own.

    The codes are ordered classes: ``count_leaves(trees, X, bins.codes)`` makes a `Forest` of them for every combiner.
    With `Mean` it is the quantile regression forest at the resolution of the bins, which is finer in long tails.

    Parameters
    ----------
    y
        Values of the target ``[instances]``, finite.
    n_bins
        About how many bins; two at least. A value that makes up half a bin's share or more is an *atom*, with a bin of
        its own; the values between atoms are cut by quantiles, in as many bins as their share asks for.
    sample_weight
        How often each value counts ``[instances]``, ≥ 0; default 1. Values of weight 0 do not shape the bins; each gets
        the code of the nearest bin.
    tails
        Whether bins with a long tail are cut at their median: those where one half of the rows spans over 16 times the
        width of the other half. Their halves are cut likewise, as long as both have five rows.

    Returns
    -------
    TargetBins
        ``codes [instances]``; ``code(y)`` of other values; ``quantile(p, levels)``, ``cdf(p, y)``, ``mean(p)`` and
        ``crps(p, y)`` of probabilities ``p [instances bins]``. Fewer bins where there are fewer distinct values, one of
        a constant.

    Raises
    ------
    ValueError, TypeError
        If y is empty, not ``[instances]``, masked, or holds other than finite numbers, or some whose sums overflow; if
        n_bins < 2. If weights are negative, not finite, of another length, or all 0. If tails is no bool.

    Notes
    -----
    Within a bin the distribution is that of its own values, kept as 33 quantiles: straight lines from edge to edge
    would widen intervals by 13 to 16 %. No probability lies between two bins. Ordinal targets come as their ranks.

    References
    ----------
    Meinshausen 2006, "Quantile regression forests".

    Examples
    --------
    >>> import numpy as np
    >>> from jaxunc.regression import target_bins
    >>> bins = target_bins(np.r_[np.zeros(50), np.arange(1, 51)], n_bins=4)
    >>> bins.n_bins, bins.is_atom.tolist()
    (3, [True, False, False])
    >>> bins.quantile(np.array([[0.5, 0.25, 0.25]]), [0.25, 0.75]).tolist()
    [[0.0, 25.0]]
    """
    check_integer("n_bins", n_bins, 2)
    check_bool("tails", tails)
    target = checked_target(y, len(np.atleast_1d(np.asarray(y))))
    if not len(target):
        raise ValueError("y is empty; there is nothing to cut into bins.")
    weight = as_weights(sample_weight, len(target))
    if not (has_weight := weight > 0).any():
        raise ValueError("sample_weight is 0 throughout; there is nothing to cut into bins.")
    with np.errstate(over="ignore"):
        is_huge = not np.isfinite(4 * np.abs(target) @ np.maximum(weight, 1))
    if is_huge:
        largest = np.abs(target).max()
        raise ValueError(f"y holds numbers of up to {largest:.3g}, whose sums overflow; divide it by that.")
    weight = weight[has_weight]
    values, position = np.unique(target[has_weight], return_inverse=True)
    value_weight = np.bincount(position, weight)
    bin_starts = _bin_starts(value_weight, n_bins, unit_weight(weight))
    if tails:
        fewest = FEWEST * unit_weight(weight) * (1 - TIED)
        ends = [*bin_starts.tolist(), len(values)]
        cuts = [_cuts(values, value_weight, bin_ends, fewest) for bin_ends in itertools.pairwise(ends)]
        bin_starts = np.sort(np.concatenate([bin_starts, *cuts]).astype(np.intp))
    # An edge is halfway between two bins, or the upper value where the middle is rounded down to the lower one.
    below, above = values[bin_starts[1:] - 1], values[bin_starts[1:]]
    edges = below + (above - below) / 2
    edges = np.where(edges > below, edges, above)
    # Rows of each bin, in the order of their values.
    bin_of_value = np.searchsorted(bin_starts, np.arange(len(values)), side="right") - 1
    last_rows = np.cumsum(np.bincount(bin_of_value[position]))[:-1]
    rows_of_bins = np.split(np.argsort(position, kind="stable"), last_rows)
    bin_values = [(values[position[rows]], weight[rows]) for rows in rows_of_bins]
    levels = np.linspace(0, 1, POINTS)
    table = [np.maximum.accumulate(weighted_quantiles(numbers, weights, levels)) for numbers, weights in bin_values]
    means = np.array([np.average(numbers, weights=weights) for numbers, weights in bin_values])
    return TargetBins(edges, np.stack(table), means, np.searchsorted(edges, target, side="right"))


def _bin_starts(value_weight: np.ndarray, n_bins: int, unit: float) -> np.ndarray:
    """Return the positions of the values with which bins begin, in ascending order, before long tails are cut.

    ``value_weight`` has the weight of each distinct value, in the order of the values; ``unit`` is the weight of a row.
    An atom is a bin by itself. The values between two atoms are cut into bins of about equal weight.
    """
    bin_weight = value_weight.sum() / n_bins
    is_atom = value_weight >= max(bin_weight / 2, 2 * unit) * (1 - TIED)  # half a bin, and two rows at least
    no_atom = -1

    def run_key(position: int) -> int:
        """Return a key of its own for each atom, and one key for the values between two atoms."""
        return position if is_atom[position] else no_atom

    starts = []
    for key, members in itertools.groupby(range(len(value_weight)), key=run_key):
        run = np.array(list(members))
        starts.append(run[0])
        if key == no_atom:
            cumulative = np.cumsum(value_weight[run])
            # To nine digits first: 2.4999999999 is 2.5 with an error of rounding, which must not decide.
            n_parts = max(1, round(round(cumulative[-1] / bin_weight, 9)))
            part_ends = np.arange(1, n_parts) * cumulative[-1] / n_parts
            # A part begins after the value with which the weight reaches the end of the part before.
            starts += (run[0] + 1 + np.searchsorted(cumulative, part_ends * (1 - TIED))).tolist()
    return np.unique([start for start in starts if start < len(value_weight)])


def _cuts(values: np.ndarray, times: np.ndarray, ends: tuple[int, int], fewest: float) -> list[int]:
    """Return the positions where a bin is cut, so that no half of its rows is `LOPSIDED` times as wide as the other.

    ``values`` ascend and are distinct, ``times`` says how often each counts, and the bin has those at the positions
    ``range(*ends)``. A half with fewer than ``fewest`` rows is not cut off.
    """
    start, stop = ends
    cumulative = np.cumsum(times[start:stop])
    # Widths are measured without the outermost rows, if they weigh next to nothing.
    first, half, last = np.searchsorted(
        cumulative, cumulative[-1] * np.array([TIED, (1 - TIED) / 2, 1 - TIED])
    ).tolist()
    if half >= last or min(cumulative[half], cumulative[-1] - cumulative[half]) < fewest:
        return []  # no value is above the median, or a half has too few rows
    low, below, above, high = values[start:stop][[first, half, half + 1, last]] / 4  # differences stay finite
    median = below + (above - below) / 2
    lower_width, upper_width = median - low, high - median
    if max(lower_width, upper_width) / LOPSIDED <= min(lower_width, upper_width):
        return []
    middle = start + half + 1
    lower_cuts = _cuts(values, times, (start, middle), fewest)
    upper_cuts = _cuts(values, times, (middle, stop), fewest)
    return [middle, *lower_cuts, *upper_cuts]

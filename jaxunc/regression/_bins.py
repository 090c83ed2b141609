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
    """Quantiles of the values within each bin at 0, 1/32 … 1, ``[bins 33]``; equal for an atom, a bin of one value."""
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
        """Return quantiles ``[instances levels]``.

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
        shares, levels = self._shares(p), checked_levels(levels)
        quantiles = np.array(self.quantiles(shares, levels)).reshape(len(levels), len(shares)).T.copy()
        quantiles[~np.isfinite(shares.sum(axis=1))] = np.nan
        return quantiles

    def quantiles(self, shares: Any, levels: np.ndarray, xp: Any = np) -> list[Any]:
        """Return the quantiles of distributions: a list with an array ``[...]`` for each of ``levels``.

        ``shares [... bins]`` has the weights ≥ 0 of the bins, of any positive sum. A level is a number, or an array
        ``[...]`` with a number for each row of shares. ``xp`` is NumPy or ``jax.numpy``.
        """
        ends, quantiles = xp.cumsum(shares, axis=-1), []  # the distribution function at the end of each bin
        ends = ends / ends[..., -1:]
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
            low, high = (xp.take(xp.asarray(self.table.ravel()), table_index + step, mode="clip") for step in (0, 1))
            # In this form an atom's quantile is its value to the bit, since high - low is 0.
            quantiles.append(low + (high - low) * (position - point))
        return quantiles

    def cdf(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        """Return the probability ``[instances]`` of values up to y, a number for each row of p ``[instances bins]``."""
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        bin_ = np.searchsorted(self.edges, target, side="right")
        points = self.table[bin_]
        # Up to the last of equal points, as a distribution function is continuous from the right.
        last_point = np.sum(points <= target[:, None], axis=1) - 1
        point = np.clip(last_point, 0, POINTS - 2)
        low, high = (np.take_along_axis(points, index[:, None], axis=1)[:, 0] for index in (point, point + 1))
        fraction = np.clip((target - low) / np.where(high > low, high - low, 1), 0, 1)
        within = np.where(last_point < 0, 0, np.where(last_point == POINTS - 1, 1, (point + fraction) / (POINTS - 1)))
        below = np.cumsum(shares, axis=1) - shares
        rows = np.arange(len(shares))
        return (below[rows, bin_] + shares[rows, bin_] * within) / np.sum(shares, axis=1)

    def crps(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        r"""Return the continuous ranked probability score ``[instances]``, :math:`\int (F(x) - [x \ge y])^2 dx`.

        The score is exact for the distribution F of `quantile` and `cdf`, by the bins' probabilities p ``[instances
        bins]``. y are the targets ``[instances]``. It is in units of the target, and smaller is better.
        """
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        scores, step = np.empty(len(target)), max(BIN_SCORES // self.table.size, 1)
        for start in range(0, len(target), step):
            rows = slice(start, start + step)
            scores[rows] = self._crps(shares[rows], target[rows])
        return scores

    def _crps(self, shares: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the CRPS ``[instances]`` of targets ``[instances]``, by ``shares [instances bins]``; rows are few."""
        shares = shares / shares.sum(axis=1, keepdims=True)
        bin_starts = np.cumsum(shares, axis=1) - shares
        levels = bin_starts[:, :, None] + shares[:, :, None] * np.linspace(0, 1, POINTS)  # [instances bins points]
        x, cdf = self.table.ravel(), levels.reshape(len(target), -1)
        y = target[:, None]
        # Between two points F is a line. The part of it below y counts F², the part above (1 - F)².
        low, high, cdf_low, cdf_high = x[:-1], x[1:], cdf[:, :-1], cdf[:, 1:]
        split = np.clip(y, low, high)
        cdf_split = cdf_low + (cdf_high - cdf_low) * (split - low) / np.where(high > low, high - low, 1)
        inside = _square(split - low, cdf_low, cdf_split) + _square(high - split, 1 - cdf_split, 1 - cdf_high)
        # Beyond the outermost points F is 0 or 1, so that the whole distance counts.
        return inside.sum(axis=1) + np.maximum(x[0] - target, 0) + np.maximum(target - x[-1], 0)

    def _shares(self, p: NumbersLike) -> np.ndarray:
        """Return ``p [instances bins]`` as float64; raise a ValueError for other shapes, numbers < 0 and rows of 0."""
        check_numbers("p", p)
        shares = np.asarray(p, np.float64)
        if shares.ndim != 2 or shares.shape[1] != self.n_bins:
            raise ValueError(f"p has shape {shares.shape}; pass probabilities (instances, {self.n_bins}) of the bins.")
        if (shares < 0).any() or (shares.sum(axis=1) == 0).any():
            raise ValueError("p has a row with negative numbers or none above 0; pass probabilities of the bins.")
        return shares


def _square(width: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the integral, over a width, of the square of a line from u to v."""
    return width * (u * u + u * v + v * v) / 3


def check_bins(bins: TargetBins) -> None:
    """Raise a ValueError unless these are bins in their order, as `target_bins` makes them."""
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
    """Return limits as float64 ``[limits]``; raise a TypeError or a ValueError unless they are finite, at least one."""
    check_numbers("limits", limits)
    numbers = np.atleast_1d(np.asarray(limits, np.float64))
    if numbers.ndim != 1 or not numbers.size or np.asarray(limits).dtype == bool or not np.isfinite(numbers).all():
        raise ValueError(f"limits={np.asarray(limits).tolist()!r:.80} must be finite numbers, such as [100, 200].")
    return numbers


def interval_levels(coverage: Any, what: str = "intervals") -> np.ndarray:
    """Return the quantile levels ``[2·coverages]`` of intervals' ends: lower and upper for each coverage in turn.

    ``coverage`` is one number or a list. Raises a TypeError or a ValueError unless all are numbers in (0, 1); its
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
    """Return quantiles ``[levels]`` of ascending ``values``, each repeated as often as its ``weight`` (> 0) says.

    They equal `numpy.quantile` of the repeated values: each is the mean of a window of one row's weight. A row weighs
    1, or as much as the heaviest value if all weigh less than 1.
    """
    if (weight == 1).all():
        return np.quantile(values, levels)
    unit, ends = unit_weight(weight), np.cumsum(weight)
    starts = np.r_[0, ends[:-1]]
    quantiles = np.empty(len(levels))
    for i, start in enumerate(levels * (ends[-1] - unit)):
        first = min(int(np.searchsorted(ends, start, side="right")), len(values) - 1)
        window = slice(first, max(int(np.searchsorted(starts, start + unit)), first + 1))
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
    weight, (values, position) = weight[has_weight], np.unique(target[has_weight], return_inverse=True)
    value_weight = np.bincount(position, weight)
    bin_weight = value_weight.sum() / n_bins
    is_atom = value_weight >= max(bin_weight / 2, 2 * unit_weight(weight)) * (1 - TIED)
    all_starts = []
    # Each atom by itself (its position is the key), and the runs of other values between atoms (-1).
    for atom, members in itertools.groupby(range(len(values)), key=lambda i: i if is_atom[i] else -1):
        run = np.array(list(members))
        all_starts.append(run[0])
        if atom < 0:  # cut where equal parts of the rows end, by values
            cumulative = np.cumsum(value_weight[run])
            n_parts = max(1, round(round(cumulative[-1] / bin_weight, 9)))  # rounding errors decide no half
            part_ends = np.arange(1, n_parts) * cumulative[-1] / n_parts
            all_starts += (run[0] + 1 + np.searchsorted(cumulative, part_ends * (1 - TIED))).tolist()
    bin_starts = np.unique([start for start in all_starts if start < len(values)])
    ends, fewest = [*bin_starts.tolist(), len(values)], FEWEST * unit_weight(weight) * (1 - TIED)
    cuts = [_cuts(values, value_weight, pair, fewest) for pair in itertools.pairwise(ends) if tails]
    bin_starts = np.sort(np.concatenate([bin_starts, *cuts]).astype(np.intp))
    bin_of_value = np.searchsorted(bin_starts, np.arange(len(values)), side="right") - 1
    below, above = values[bin_starts[1:] - 1], values[bin_starts[1:]]
    edges = below + (above - below) / 2
    edges = np.where(edges > below, edges, above)  # where the middle is rounded down to the lower value
    order, ends = np.argsort(position, kind="stable"), np.cumsum(np.bincount(bin_of_value[position]))[:-1]
    bin_values = [(values[position[rows]], weight[rows]) for rows in np.split(order, ends)]
    levels = np.linspace(0, 1, POINTS)
    table = np.stack([np.maximum.accumulate(weighted_quantiles(*part, levels)) for part in bin_values])
    means = np.array([np.average(part, weights=weights) for part, weights in bin_values])
    return TargetBins(edges, table, means, np.searchsorted(edges, target, side="right"))


def _cuts(values: np.ndarray, times: np.ndarray, ends: tuple[int, int], fewest: float) -> list[int]:
    """Return the positions where a bin is cut until no half of its rows is `LOPSIDED` times as wide as the other.

    ``values`` ascend and are distinct, ``times`` says how often each counts, and the bin has the values from position
    ``ends[0]`` up to ``ends[1]``. A half with fewer than ``fewest`` rows is not cut off.
    """
    start, stop = ends
    cumulative = np.cumsum(times[start:stop])
    # Widths are measured without the outermost rows, if they weigh next to nothing.
    first, half, last = np.searchsorted(
        cumulative, cumulative[-1] * np.array([TIED, (1 - TIED) / 2, 1 - TIED])
    ).tolist()
    if half >= last or min(cumulative[half], cumulative[-1] - cumulative[half]) < fewest:
        return []
    low, below, above, high = values[start:stop][[first, half, half + 1, last]] / 4  # differences stay finite
    median = below + (above - below) / 2
    if max(median - low, high - median) / LOPSIDED <= min(median - low, high - median):
        return []
    middle = start + half + 1
    halves = ((start, middle), (middle, stop))
    return [middle, *(cut for half in halves for cut in _cuts(values, times, half, fewest))]

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
"""Number of values of a distribution function that are held at a time."""
TIED = 1e-9
"""Share of a sum of weights that is taken for rounding."""
LOPSIDED = 16
"""Largest ratio of the widths of a bin's halves, each with half of its rows; a wider half becomes a bin by itself."""
FEWEST = 5
"""Fewest rows in each half of a bin that is cut."""


class TargetBins(NamedTuple):
    """Bins of a number, in order, and the distribution of the values within each."""

    edges: np.ndarray
    """The least value of each bin but the first, ``[bins - 1]``: a value lies in the last bin whose edge it reaches."""
    table: np.ndarray
    """Quantiles of the values within each bin at 0, 1/32 … 1, ``[bins 33]``; one value throughout for an atom."""
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
        return np.searchsorted(self.edges, checked_target(y, len(np.asarray(y))), side="right")

    def mean(self, p: NumbersLike) -> np.ndarray:
        """Return the mean ``[instances]`` of each distribution, by the bins' probabilities p ``[instances bins]``."""
        return self._shares(p) @ self.means

    def quantile(self, p: NumbersLike, levels: NumbersLike) -> np.ndarray:
        """Return quantiles ``[instances levels]``.

        Parameters
        ----------
        p
            Probabilities of the bins ``[instances bins]``, ≥ 0; they are divided by their sum.
        levels
            Levels in [0, 1], ``[levels]``. At 0 and 1 there are the ends of the outermost bins with a probability.

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
        """Return a list of quantiles, an array ``[...]`` for each level, of ``shares [... bins]``.

        A level is a number, or an array ``[...]``: a number for each row of shares. ``xp`` is NumPy or ``jax.numpy``.
        """
        above, quantiles = xp.cumsum(shares, axis=-1), []
        above = above / above[..., -1:]
        for level in levels:
            # The first bin up to which the distribution reaches the level, and at 0 the first with a probability.
            of_rows = level[..., None] if np.ndim(level) else level
            bin_ = xp.minimum(xp.sum((above < of_rows) | (above <= 0), axis=-1, keepdims=True), self.n_bins - 1)
            has, up_to = (xp.take_along_axis(each, bin_, axis=-1)[..., 0] for each in (shares, above))
            mass = has / xp.sum(shares, axis=-1)
            within = (level - (up_to - mass)) / xp.where(mass > 0, mass, 1)
            position = xp.clip(xp.where(xp.isnan(within), 0, within), 0, 1) * (POINTS - 1)
            at = xp.minimum(xp.floor(position), POINTS - 2)
            first = bin_[..., 0] * POINTS + at.astype(np.int64)
            low, high = (xp.take(xp.asarray(self.table.ravel()), first + more, mode="clip") for more in (0, 1))
            # One product, and none where both are equal: an atom's quantile is its value to the bit.
            quantiles.append(low + (high - low) * (position - at))
        return quantiles

    def cdf(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        """Return the probability ``[instances]`` of values up to y, a number for each row of p ``[instances bins]``."""
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        bin_ = np.searchsorted(self.edges, target, side="right")
        points = self.table[bin_]
        # Up to the last of equal points, as a distribution function is continuous from the right.
        last = np.sum(points <= target[:, None], axis=1) - 1
        at = np.clip(last, 0, POINTS - 2)
        low, high = (np.take_along_axis(points, position[:, None], axis=1)[:, 0] for position in (at, at + 1))
        part = np.clip((target - low) / np.where(high > low, high - low, 1), 0, 1)
        share = np.where(last < 0, 0, np.where(last == POINTS - 1, 1, (at + part) / (POINTS - 1)))
        below = np.cumsum(shares, axis=1) - shares
        rows = np.arange(len(shares))
        return (below[rows, bin_] + shares[rows, bin_] * share) / np.sum(shares, axis=1)

    def crps(self, p: NumbersLike, y: NumbersLike) -> np.ndarray:
        r"""Return the continuous ranked probability score ``[instances]``, :math:`\int (F(x) - [x \ge y])^2 dx`.

        Exactly, of the distribution F that `quantile` and `cdf` describe, by the bins' probabilities p ``[instances
        bins]``; y are the targets ``[instances]``. In units of the target, smaller is better.
        """
        shares = self._shares(p)
        target = checked_target(y, len(shares))
        scores, step = np.empty(len(target)), max(BIN_SCORES // self.table.size, 1)
        for start in range(0, len(target), step):
            part = slice(start, start + step)
            scores[part] = self._crps(shares[part], target[part])
        return scores

    def _crps(self, shares: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return `crps` ``[instances]`` of targets ``[instances]``, by ``shares [instances bins]`` of few instances."""
        shares = shares / shares.sum(axis=1, keepdims=True)
        below = np.cumsum(shares, axis=1) - shares
        levels = below[:, :, None] + shares[:, :, None] * np.linspace(0, 1, POINTS)
        x, f = self.table.ravel(), levels.reshape(len(target), -1)
        y = target[:, None]
        # Between two points F is a line. The part of it below y counts F², the part above (1 - F)².
        low, high, a, b = x[:-1], x[1:], f[:, :-1], f[:, 1:]
        cut = np.clip(y, low, high)
        middle = a + (b - a) * (cut - low) / np.where(high > low, high - low, 1)
        inside = _square(cut - low, a, middle) + _square(high - cut, 1 - middle, 1 - b)
        return inside.sum(axis=1) + np.maximum(x[0] - target, 0) + np.maximum(target - x[-1], 0)

    def _shares(self, p: NumbersLike) -> np.ndarray:
        """Return ``p [instances bins]`` as float64; a ValueError for other shapes, negative numbers, and rows of 0."""
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
    n = len(means)
    shapes = [array.shape for array in (edges, table, means)]
    if not n or shapes != [(n - 1,), (n, POINTS), (n,)] or codes.ndim != 1 or codes.dtype.kind != "i":
        raise ValueError(f"bins of a target have arrays of shapes {shapes}; expected (bins - 1,), (bins, {POINTS}), …")
    if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (edges, table, means)):
        raise ValueError("bins of a target hold what are no finite numbers of float64.")
    low, high = table[:, 0], table[:, -1]
    is_separate = (high[:-1] < edges).all() and (edges <= low[1:]).all()
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    inside = ((means >= low - slack) & (means <= high + slack)).all()
    if (np.diff(table, axis=1) < 0).any() or not (is_separate and inside) or ((codes < 0) | (codes >= n)).any():
        raise ValueError("bins of a target are not in their order, or hold means and codes of others.")


def checked_levels(levels: Any, name: str = "levels") -> np.ndarray:
    """Return levels of quantiles ``[levels]``; raises a ValueError, which calls them ``name``, outside [0, 1]."""
    check_numbers(name, levels)
    numbers = np.atleast_1d(np.asarray(levels, np.float64))
    if numbers.ndim != 1 or np.asarray(levels).dtype == bool or not ((numbers >= 0) & (numbers <= 1)).all():
        raise ValueError(f"{name}={np.asarray(levels).tolist()!r:.80} must be numbers in [0, 1], such as [0.05, 0.95].")
    return numbers


def checked_limits(limits: Any) -> np.ndarray:
    """Return limits ``[limits]``; raises a TypeError or a ValueError unless these are finite numbers, at least one."""
    check_numbers("limits", limits)
    numbers = np.atleast_1d(np.asarray(limits, np.float64))
    if numbers.ndim != 1 or not numbers.size or np.asarray(limits).dtype == bool or not np.isfinite(numbers).all():
        raise ValueError(f"limits={np.asarray(limits).tolist()!r:.80} must be finite numbers, such as [100, 200].")
    return numbers


def interval_levels(coverage: Any, what: str = "intervals") -> np.ndarray:
    """Return the quantile levels ``[2·coverages]`` of intervals' ends: lower and upper for each coverage in turn.

    ``coverage`` is one number or a list. Raises a TypeError or a ValueError, which calls the intervals ``what``, unless
    all are numbers in (0, 1).
    """
    check_numbers("coverage", coverage)
    shape = np.shape(coverage) if np.ndim(coverage) == 1 else ()
    why = f": how often {what} are to hold the truth"
    if shape == (0,):
        raise ValueError(f"coverage=[] names nothing; pass numbers in (0, 1){why}.")
    check_within("coverage", coverage, "(0, 1)", why, shape=shape)
    each = np.atleast_1d(np.asarray(coverage, float))
    return np.stack([(1 - each) / 2, (1 + each) / 2], axis=1).ravel()


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles ``[levels]`` of ascending ``values``, each repeated as often as its ``weight`` (> 0) says.

    They are NumPy's, of the repeated values: each is a mean over one row. Where all weigh less than 1, the heaviest
    value counts as a row.
    """
    if (weight == 1).all():
        return np.quantile(values, levels)
    unit, up_to = unit_weight(weight), np.cumsum(weight)
    below = np.r_[0, up_to[:-1]]
    quantiles = np.empty(len(levels))
    for i, start in enumerate(levels * (up_to[-1] - unit)):
        first = min(int(np.searchsorted(up_to, start, side="right")), len(values) - 1)
        part = slice(first, max(int(np.searchsorted(below, start + unit)), first + 1))
        share = np.maximum(np.minimum(up_to[part], start + unit) - np.maximum(below[part], start), 0)
        offset = values[part] - values[first]  # an atom's quantile is its value to the bit
        quantiles[i] = values[first] + share @ offset / (share.sum() or 1)
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
        How often each value counts ``[instances]``, ≥ 0; default 1. Values of weight 0 have no part in the bins, and
        the codes of the nearest.
    tails
        Whether a bin of which one half of the rows lies more than 16 times as wide as the other is cut at its median,
        and so are its halves, while both have five rows.

    Returns
    -------
    TargetBins
        ``codes [instances]``; ``code(y)`` of other values; ``quantile(p, levels)``, ``cdf(p, y)``, ``mean(p)`` and
        ``crps(p, y)`` of probabilities ``p [instances bins]``. Fewer bins where there are fewer distinct values, one of
        a constant.

    Raises
    ------
    ValueError, TypeError
        If y is empty, not ``[instances]``, masked, or holds other than finite numbers; if n_bins < 2. If weights are
        negative, not finite, of another length, or all 0. If tails is no bool.

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
    weight, (values, position) = weight[has_weight], np.unique(target[has_weight], return_inverse=True)
    times = np.bincount(position, weight)
    share = times.sum() / n_bins
    is_atom = times >= max(share / 2, 2 * unit_weight(weight)) * (1 - TIED)
    starts = []
    for atom, members in itertools.groupby(range(len(values)), key=lambda i: i if is_atom[i] else -1):
        run = np.array(list(members))
        starts.append(run[0])
        if atom < 0:  # cut where equal parts of the rows end, by values
            rows = np.cumsum(times[run])
            n_parts = max(1, round(round(rows[-1] / share, 9)))
            wanted = np.arange(1, n_parts) * rows[-1] / n_parts
            starts += (run[0] + 1 + np.searchsorted(rows, wanted * (1 - TIED))).tolist()
    first = np.unique([start for start in starts if start < len(values)])
    ends, fewest = [*first.tolist(), len(values)], FEWEST * unit_weight(weight) * (1 - TIED)
    cuts = [_cuts(values, times, pair, fewest) for pair in itertools.pairwise(ends) if tails]
    first = np.sort(np.concatenate([first, *cuts]).astype(np.intp))
    code = np.searchsorted(first, np.arange(len(values)), side="right") - 1
    below, above = values[first[1:] - 1], values[first[1:]]
    edges = below + (above - below) / 2
    edges = np.where(edges > below, edges, above)
    order, ends = np.argsort(position, kind="stable"), np.cumsum(np.bincount(code[position]))[:-1]
    inside = [(values[position[rows]], weight[rows]) for rows in np.split(order, ends)]
    levels = np.linspace(0, 1, POINTS)
    table = np.stack([np.maximum.accumulate(weighted_quantiles(*part, levels)) for part in inside])
    means = np.array([np.average(part, weights=times) for part, times in inside])
    return TargetBins(edges, table, means, np.searchsorted(edges, target, side="right"))


def _cuts(values: np.ndarray, times: np.ndarray, ends: tuple[int, int], fewest: float) -> list[int]:
    """Return the positions where a bin is cut until no half of its rows is `LOPSIDED` times as wide as the other.

    ``values`` ascend and are distinct, ``times`` says how often each counts, and the bin has the values from position
    ``ends[0]`` up to ``ends[1]``. A half with fewer than ``fewest`` rows is not cut off.
    """
    start, stop = ends
    rows = np.cumsum(times[start:stop])
    # Rows that weigh next to nothing lie beyond the ends.
    first, half, last = np.searchsorted(rows, rows[-1] * np.array([TIED, (1 - TIED) / 2, 1 - TIED])).tolist()
    if half >= last or min(rows[half], rows[-1] - rows[half]) < fewest:
        return []
    low, below, above, high = values[start:stop][[first, half, half + 1, last]] / 4  # differences stay finite
    median = below + (above - below) / 2
    if max(median - low, high - median) / LOPSIDED <= min(median - low, high - median):
        return []
    middle = start + half + 1
    halves = ((start, middle), (middle, stop))
    return [middle, *(cut for half in halves for cut in _cuts(values, times, half, fewest))]

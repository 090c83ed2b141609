"""The distribution of a number for each instance: probabilities, quantiles, draws and scores of one law."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array

from jaxunc._checks import check_integer, check_key, check_numbers
from jaxunc.tables import NumbersLike

from ._bins import POINTS, TargetBins, checked_levels, interval_levels
from ._moments import Moments

if TYPE_CHECKING:
    from ._law import NumberLaw

HALVINGS = 53
"""Halvings of [0, 1] until a level has the digits of float64."""
CACHED = 2**17
"""Largest number of values in the arrays of the instances asked at a time: they stay in the processor's cache."""
MIDDLES = 512
"""Number of levels by which moments and scores are summed where quantiles are mapped back or rounded."""
SHORT = 1e-9
"""Range of levels up to which a line counts as constant, since differences of its integrals have lost their digits."""


class NumberDistribution:
    r"""The predicted distribution of a target for each instance, made by `UncertainForestRegressor`.

    Everything follows from the quantiles :math:`q_\tau` that ``predict`` and ``predict_interval`` return:
    :math:`F(y) = \sup\{\tau: q_\tau \le y\}`. Quantiles are piecewise linear in the level, or steps, so moments and
    scores are exact sums. All arrays are float64, on the host.

    Notes
    -----
    With transformed targets quantiles are mapped back to targets; with whole targets they are rounded. All else follows
    from these quantiles, and mean, standard deviation and CRPS are then sums over 512 levels.

    The mean and standard deviation are those of the law; the model's own are ``predict(X, return_std=True)``. No law
    has any probability beyond its outermost residual. A conformal law promises nothing beyond its outermost ranks:
    ``quantile`` refuses such levels, and everything else takes the outermost residual there. Rows out of bag that every
    tree has seen get NaN.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from jaxunc.estimators import UncertainForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = UncertainForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> distribution = model.predict_distribution(X[300:])
    >>> distribution.exceeds(200).shape, distribution.sample(0, 5).shape
    ((142,), (142, 5))
    >>> bool((distribution.quantile(0.9) == model.predict(X[300:], quantiles=0.9)).all())
    True
    """

    def __init__(
        self,
        law: "NumberLaw",
        bins: TargetBins,
        moments: Moments | None,
        *,
        shares: np.ndarray | None,
        support: tuple[float, float],
        strata: np.ndarray | None = None,
    ):
        self._law = law
        self._bins = bins
        self._support = support
        # None for what the law does not read: methods test for None, not for the kind of law.
        self._moments = moments if law.reads_moments else None
        self._shares = shares if law.weight < 1 else None
        self._strata = strata if law.strata is not None else None

    def __len__(self) -> int:
        return len(self._centre)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} instances)"

    @property
    def mean(self) -> np.ndarray:
        """The mean of the law ``[instances]``, in units of the target."""
        return self._centre + self._whole[:, 0] if self._is_plain else self._by_levels[:, 0]

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the law ``[instances]``, in units of the target."""
        if not self._is_plain:
            return self._by_levels[:, 1]
        square = self._whole[:, 2] + self._products
        return np.sqrt(np.maximum(square - self._whole[:, 0] ** 2, 0))

    def quantile(self, levels: NumbersLike) -> np.ndarray:
        """Return quantiles, those of ``predict(X, quantiles=levels)`` to the bit.

        Parameters
        ----------
        levels
            Levels in [0, 1]: one, or several.

        Returns
        -------
        numpy.ndarray
            ``[instances]`` of one level, ``[instances levels]`` of several, in their order.

        Raises
        ------
        ValueError
            If a level lies outside [0, 1], or a conformal law was fitted to fewer rows than a level needs.
        """
        target_levels = checked_levels(levels)
        law_levels = target_levels if self._law.target_map is None else self._law.target_map.levels(target_levels)
        leaf_quantiles = None if self._shares is None else self._bins.quantile(self._shares, law_levels)
        if self._strata is None:
            quantiles = self._law.quantile(self._moments, law_levels, leaf_quantiles)
        else:
            quantiles = self._by_ranks_of_strata(law_levels)
        quantiles = np.clip(self._law.as_targets(quantiles, target_levels), *self._support)
        return quantiles[:, 0] if np.ndim(np.asarray(levels)) == 0 else quantiles

    def interval(self, coverage: NumbersLike = 0.9) -> np.ndarray:
        """Return intervals ``[instances 2]``, those of ``predict_interval(X, coverage)`` to the bit.

        Parameters
        ----------
        coverage
            How often an interval holds the target, in (0, 1). Several give ``[instances coverages 2]``.

        Raises
        ------
        ValueError
            If a coverage lies outside (0, 1), or a conformal law was fitted to fewer rows than it needs.
        """
        ends = self.quantile(interval_levels(coverage))
        return ends if np.ndim(np.asarray(coverage)) == 0 else ends.reshape(len(ends), np.size(coverage), 2)

    def cdf(self, y: NumbersLike) -> np.ndarray:
        """Return the probability that the target is at most y: 0 below the support and 1 from its upper end on.

        Parameters
        ----------
        y
            A finite number, one for each instance ``[instances]``, or several ``[instances k]``.

        Returns
        -------
        numpy.ndarray
            Probabilities ``[instances]`` or ``[instances k]``, which never fall as y grows; exact within 1e-15.

        Raises
        ------
        ValueError, TypeError
            If y has another shape, or holds what is no finite number; the row is named.
        """
        return self._of_parts(lambda part, target: part._cdf(target), y)

    def exceeds(self, limit: NumbersLike) -> np.ndarray:
        """Return the probability that the target is above a limit: 1 - ``cdf(limit)``, with its shapes and errors.

        Parameters
        ----------
        limit
            A finite number, one for each instance ``[instances]``, or several ``[instances k]``.
        """
        return 1 - self._of_parts(lambda part, target: part._cdf(target), limit, "limit")

    def sample(self, key: Array | int, n: int) -> np.ndarray:
        """Return independent draws ``[instances n]`` from each instance's distribution.

        Parameters
        ----------
        key
            A typed key, ``jax.random.key(seed)``, or an integer ≥ 0. It alone determines the draws.
        n
            Number of draws for each instance, ≥ 1.

        Raises
        ------
        ValueError, TypeError
            If the key is of another kind, or n is no integer ≥ 1.
        """
        check_integer("n", n, 1)
        if isinstance(key, int | np.integer):
            check_integer("key", key, 0)
            seed = int(key)
        else:
            check_key(key)
            seed = np.asarray(jax.random.key_data(key)).tolist()
        levels = np.random.default_rng(seed).random((len(self), int(n)))
        return self._of_parts(lambda part, level: np.clip(part._at(level), *part._support), levels)

    def crps(self, y: NumbersLike) -> np.ndarray:
        r"""Return the continuous ranked probability score, :math:`\int (F(x) - [x \ge y])^2 dx`, of each instance.

        It is twice the integral of the pinball loss over all levels, exactly; in units of the target, smaller is
        better. Shapes and errors are those of ``cdf``.

        Parameters
        ----------
        y
            A finite number, one for each instance ``[instances]``, or several ``[instances k]``.
        """

        def scores(part: "NumberDistribution", target: np.ndarray) -> np.ndarray:
            """Return scores ``[instances k]`` of the targets ``[instances k]``, for the instances of ``part``."""
            low, high = part._support
            losses = np.empty(target.shape)
            if not part._is_plain:
                level, weight, q = part._read_levels()
                for i, column in enumerate(target.T):
                    losses[:, i] = 2 * (((level - (column[:, None] < q)) * (column[:, None] - q)) @ weight)
                return losses
            # 2 ∫ (τ - [y < q]) (y - q) dτ, in the integrals of q and τ q. Beyond the support all distance is added.
            for i, column in enumerate(np.clip(target, low, high).T):
                level = part._cdf(column[:, None])[:, 0]
                upper = part._integrals(level, 1)[0]
                offset = column - part._centre
                losses[:, i] = 2 * (upper - part._whole[:, 1] - offset * (0.5 - level)) + np.abs(target[:, i] - column)
            return np.maximum(losses, 0)

        return self._of_parts(scores, y, n_points=self._n_points)

    @property
    def _is_plain(self) -> bool:
        """Whether quantiles are neither mapped back nor rounded, so that moments are exact sums."""
        return self._law.target_map is None and not self._law.step

    @property
    def _n_points(self) -> int | None:
        """Number of levels at which an instance's quantiles are summed; None where integrals are exact."""
        return None if self._is_plain else MIDDLES

    def _read_levels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (levels ``[512]``, their weights ``[512]``, quantiles at the levels ``[instances 512]``).

        The weighted sum over levels approximates an integral over all levels. Levels are denser near 0 and 1, where
        quantiles are steep.
        """
        u = (np.arange(MIDDLES) + 0.5) / MIDDLES
        level = u**2 * (3 - 2 * u)
        weight = u * (1 - u)  # in proportion to the derivative of the level by u
        q = np.clip(self._at(np.tile(level, (len(self), 1))), *self._support)
        return level, weight / weight.sum(), q

    @cached_property
    def _by_levels(self) -> np.ndarray:
        """Mean and standard deviation ``[instances 2]``, as sums over the levels of `_read_levels`."""

        def moments(part: "NumberDistribution", _: Any) -> np.ndarray:
            _, weight, q = part._read_levels()
            mean = q @ weight
            return np.stack([mean, np.sqrt((q - mean[:, None]) ** 2 @ weight)], axis=1)

        return self._of_parts(moments, np.zeros((len(self), 2)), n_points=MIDDLES)

    @cached_property
    def _centre(self) -> np.ndarray:
        """A number near each instance's quantiles, which is subtracted so that squares keep their digits.

        It is in the units that the model is fitted to; NaN for rows without an answer.
        """
        if self._moments is not None:
            return self._moments.mean
        assert self._shares is not None
        return self._bins.mean(self._shares)

    @cached_property
    def _by_stratum(self) -> "list[tuple[NumberLaw, np.ndarray]]":
        """Pairs of a stratum's law and the positions of its rows; one pair with all rows if there are no strata."""
        if self._strata is None:
            return [(self._law, np.arange(len(self)))]
        return [(self._law.of_stratum(k), np.flatnonzero(self._strata == k)) for k in np.unique(self._strata).tolist()]

    def _by_ranks_of_strata(self, levels: np.ndarray) -> np.ndarray:
        """Return the quantiles ``[instances levels]``, each row's by the ranks within its stratum.

        Raises a ValueError that names the stratum if a level needs more rows than the stratum has.
        """
        strata = self._law.strata
        stratum_of_row = self._strata
        assert strata is not None
        assert stratum_of_row is not None
        assert self._moments is not None
        quantiles = np.empty((len(self), len(levels)))
        for law, rows in self._by_stratum:
            moments = Moments(*(array[rows] for array in self._moments))
            try:
                quantiles[rows] = law.quantile(moments, levels, leaf_quantiles=None)
            except ValueError as error:
                value = strata.values[stratum_of_row[rows[0]]]
                raise ValueError(f"of the rows with {value} in column {strata.label}: {error}") from error
        return quantiles

    @cached_property
    def _residuals(self) -> "_Lines | None":
        """The quantiles of the law's residuals, as one line over levels; None if the law's weight is 0."""
        return _residual_lines(self._law)

    @cached_property
    def _within_bins(self) -> "_Lines":
        """A line for each bin: quantiles of the values within the bin, less their mean, over levels within the bin."""
        return _Lines(np.linspace(0, 1, POINTS), self._bins.table - _means(self._bins.table)[:, None])

    @cached_property
    def _whole(self) -> np.ndarray:
        """The three integrals of `_integrals` over all levels, ``[instances 3]``."""
        return self._of_parts(lambda part, _: part._integrals(0, 1).T, np.zeros((len(self), 3)))

    @cached_property
    def _products(self) -> np.ndarray:
        """Twice the integral of the product of q's two parts (`_integrals`), ``[instances]``; 0 if one is missing."""
        if self._residuals is None or self._shares is None:
            return np.zeros(len(self))
        return self._of_parts(lambda part, _: part._product_integrals()[:, None], 0.0, n_points=self._bins.table.size)

    def _of_parts(
        self, ask: Callable[..., np.ndarray], y: Any, name: str = "y", *, n_points: int | None = None
    ) -> np.ndarray:
        """Return the results ``[instances k]`` of the function ``ask`` for all instances, in the shape of y.

        ``ask(part, numbers)`` is called for a few instances at a time: ``part`` is their distribution, all of one
        stratum, and ``numbers [instances k]`` are their y. Errors call y ``name``. An instance takes ``n_points``
        numbers in memory, by default one for each bin.
        """
        target = self._as_numbers(y, name)
        if not n_points:
            n_points = 1 if self._shares is None else self._bins.n_bins
        step = max(CACHED // max(n_points, target.shape[1]), 1)
        results = np.empty(target.shape)
        for law, positions in self._by_stratum if target.size else []:
            lines = self._residuals if self._strata is None else _residual_lines(law)
            for start in range(0, len(positions), step):
                rows = positions[start : start + step]
                moments = None if self._moments is None else Moments(*(array[rows] for array in self._moments))
                shares = None if self._shares is None else self._shares[rows]
                part = NumberDistribution(law, self._bins, moments, shares=shares, support=self._support)
                # Cached properties, computed once for all parts.
                part._residuals = lines
                part._within_bins = self._within_bins
                results[rows] = ask(part, target[rows])
        return results if np.ndim(y) == 2 else results[:, 0]

    def _as_numbers(self, y: Any, name: str) -> np.ndarray:
        """Return y, a number, one for each instance or several, as float64 ``[instances k]``.

        Raises a ValueError or a TypeError, which calls y ``name``, for another shape, NaN or infinity.
        """
        check_numbers(name, y)
        numbers = np.asarray(y, np.float64)
        n = len(self)
        if numbers.ndim > 2 or (numbers.ndim and len(numbers) != n):
            raise ValueError(
                f"{name} has shape {numbers.shape}; pass a number, one for each of {n} instances, or several ({n}, k)."
            )
        numbers = numbers if numbers.ndim == 2 else numbers[..., None]  # an axis of one number for each instance
        numbers = np.broadcast_to(numbers, (n, numbers.shape[-1]))
        if not (is_finite := np.isfinite(numbers)).all():
            row, column = np.argwhere(~is_finite)[0]
            raise ValueError(f"{name} holds {numbers[row, column]} in row {row}; pass finite numbers.")
        return numbers

    def _at(self, levels: np.ndarray) -> np.ndarray:
        """Return each instance's quantiles at levels of its own, both ``[instances levels]``; they are not clipped."""
        law_levels = levels if self._law.target_map is None else self._law.target_map.levels(levels)
        leaf_quantiles = None
        if self._shares is not None:
            leaf_quantiles = np.stack(self._bins.quantiles(self._shares.astype(np.float64), law_levels.T), axis=1)
        if self._moments is None:
            assert leaf_quantiles is not None
            # `TargetBins.quantiles` returns a number even for rows without an answer.
            quantiles = np.where(np.isnan(self._centre)[:, None], np.nan, leaf_quantiles)
        else:
            z = np.zeros(0) if self._residuals is None else self._residuals.at(law_levels)  # a local law reads no z
            quantiles = self._law.blend(self._moments, law_levels, z, leaf_quantiles)
        return self._law.as_targets(quantiles, levels)

    def _levels_up_to(self, y: np.ndarray) -> np.ndarray:
        """Return the largest level whose unclipped quantile is at most y, both ``[instances k]``, by bisection."""
        low, high = np.zeros(y.shape), np.ones(y.shape)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_reached = self._at(middle) <= y
            low = np.where(is_reached, middle, low)
            high = np.where(is_reached, high, middle)
        # Bisection comes close to the level 1, and never returns it.
        low = np.where(self._at(np.ones(y.shape)) <= y, 1, low)
        return np.where(np.isnan(self._centre)[:, None], np.nan, low)

    def _cdf(self, y: np.ndarray) -> np.ndarray:
        """Return the probability that the target is at most y, both ``[instances k]``; NaN for rows without answer."""
        low, high = self._support
        level = self._levels_up_to(y)
        has_answer = ~np.isnan(level)
        level = np.where((y >= high) & has_answer, 1, level)
        return np.where((y < low) & has_answer, 0, level)

    @cached_property
    def _within_support(self) -> np.ndarray:
        """The least and the largest level whose quantiles lie within the support, ``[2 instances]``."""
        ends = np.array(self._support)
        levels = np.repeat([[0.0], [1.0]], len(self), axis=1)
        if (has_end := np.isfinite(ends)).any():
            levels[has_end] = self._levels_up_to(np.tile(ends[has_end], (len(self), 1))).T
        return np.stack([levels[0], np.maximum(*levels)])

    def _integrals(self, start: Any, stop: Any) -> np.ndarray:
        r"""Return integrals of q, τ q and q² over levels τ from ``start`` to ``stop``, ``[3 instances]``.

        q is the quantile less `_centre`. It is a sum of two parts, of residuals and of leaves. The third integral is of
        the sum of their squares; `_products` has the rest of q², twice their product.
        """
        low, high = self._within_support
        up_to_stop = self._integrals_up_to(np.clip(stop, low, high))
        total = up_to_stop - self._integrals_up_to(np.clip(start, low, high))
        for end, lower, upper in zip(self._support, (0.0, high), (low, 1.0), strict=True):
            if np.isfinite(end):  # from lower to upper quantiles are clipped to the support's end, a constant
                left = np.clip(start, lower, upper)
                right = np.clip(stop, lower, upper)
                q = end - self._centre
                total += np.stack([q * (right - left), q * (right**2 - left**2) / 2, q**2 * (right - left)])
        return total

    def _integrals_up_to(self, level: np.ndarray) -> np.ndarray:
        """Return the integrals of `_integrals` from 0 to ``level [instances]``, of quantiles that are not clipped."""
        total = np.zeros((3, len(level)))
        if self._residuals is not None:
            scale = self._residual_scale
            total += np.stack([scale, scale, scale**2]) * self._residuals.integrals(level)
        if self._shares is not None:
            scale = self._leaf_parts[0]
            total += np.stack([scale, scale, scale**2]) * self._leaf_integrals(level)
        return total

    def _leaf_integrals(self, level: np.ndarray) -> np.ndarray:
        """Return integrals of b, τ b and b² over levels τ from 0 to ``level [instances]``, ``[3 instances]``.

        b is the quantile of the leaves, less `_centre`. Within a bin it is the bin's mean plus a line (`_within_bins`),
        whose integral over the bin is 0.
        """
        _, shares, means = self._leaf_parts
        lines = self._within_bins
        rows = np.arange(len(level))
        starts = np.cumsum(shares, axis=1) - shares  # level at which each bin begins
        # Over whole bins, where τ = start + share · u, u from 0 to 1. Terms with the line's integral, 0, are left out.
        _, line_by_level, line_square = lines.whole[:, None]
        by_level = starts * means + shares * (means / 2 + line_by_level)
        by_bin = np.stack([shares * means, shares * by_level, shares * (line_square + means**2)])  # [3 instances bins]
        before = np.cumsum(by_bin, axis=2) - by_bin
        # Over the part of a bin up to the level: first of the line, then of the line with the bin's mean added.
        bin_ = np.minimum(np.sum(starts + shares <= level[:, None], axis=1), self._bins.n_bins - 1)
        share, start, mean = (array[rows, bin_] for array in (shares, starts, means))
        u = np.clip((level - start) / np.where(share > 0, share, 1), 0, 1)
        line_plain, line_by_level, line_square = lines.integrals(u, bin_)
        plain = line_plain + mean * u
        by_level = line_by_level + mean * u**2 / 2
        square = line_square + mean * (2 * line_plain + mean * u)
        return before[:, rows, bin_] + share * np.stack([plain, start * plain + share * by_level, square])

    def _product_integrals(self) -> np.ndarray:
        """Return twice the integral of the product of q's two parts, ``[instances]``, for `_products`."""
        assert self._residuals is not None
        scale, shares, means = self._leaf_parts
        low, high = self._within_support[:, :, None]
        # The bins' means, times the integral of the residuals' part over each bin.
        starts = np.cumsum(shares, axis=1) - shares
        ends = np.clip(np.stack([starts, starts + shares]), low, high)
        product = np.sum(means * np.diff(self._residuals.integrals(ends)[0], axis=0)[0], axis=1)
        # The line within each bin that is no atom, by pieces left_value + slope (τ - left), times r of the residuals.
        has_spread = ~self._bins.is_atom
        if has_spread.any():
            bin_knots = self._within_bins.values[has_spread]  # [bins points]; what follows is [instances bins points]
            levels = starts[:, has_spread, None] + shares[:, has_spread, None] * np.linspace(0, 1, POINTS)
            clipped = np.clip(levels, low[..., None], high[..., None])
            left = clipped[..., :-1]
            width = np.diff(clipped, axis=-1)
            length = np.diff(levels, axis=-1)
            slope = np.diff(bin_knots, axis=-1) / np.where(length > 0, length, 1)
            left_value = bin_knots[:, :-1] + slope * (left - levels[..., :-1])
            plain, by_level = np.diff(self._residuals.integrals(clipped, squares=False), axis=-1)
            # The integral of (τ - left) r; over a short range, where the difference has lost its digits, r is constant.
            by_slope = np.where(width > SHORT, by_level - left * plain, width / 2 * plain)
            product += np.sum(left_value * plain + slope * by_slope, axis=(1, 2))
        return 2 * self._residual_scale * scale * product

    @cached_property
    def _residual_scale(self) -> np.ndarray:
        """The factor of standardised residuals in each instance's quantiles, ``[instances]``: w s of `NumberLaw`."""
        assert self._moments is not None
        return self._law.weight * self._law.deviation(self._moments)

    @cached_property
    def _leaf_parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What makes the leaves' part of quantiles: (factor ``[instances]``, shares and means of bins).

        Shares and means are ``[instances bins]``. `_centre` is subtracted from the means, unless the law is local: then
        bins hold standardised residuals.
        """
        assert self._shares is not None
        shares = self._shares / np.sum(self._shares, axis=1, keepdims=True, dtype=np.float64)
        means = np.broadcast_to(_means(self._bins.table), shares.shape)
        if self._law.is_local:
            assert self._moments is not None
            return self._law.deviation(self._moments), shares, means
        return np.full(len(shares), 1 - self._law.weight), shares, means - self._centre[:, None]


def _means(table: np.ndarray) -> np.ndarray:
    """Return each bin's mean ``[bins]`` from its quantiles ``table [bins points]``, which are linear in between."""
    offset = table - table[:, :1]  # 0 in an atom, whose mean is exact
    return table[:, 0] + (offset[:, :-1] + offset[:, 1:]).mean(axis=1) / 2


def _residual_lines(law: "NumberLaw") -> "_Lines | None":
    """Return the quantiles of a law's residuals as a line over levels; None if the law's weight is 0."""
    if law.weight == 0:
        return None
    levels, z = law.knots()
    return _Lines(levels, z[None])


class _Lines:
    """Piecewise linear functions of the level, called lines, and their integrals.

    ``values [lines knots]`` are the functions' values at ``levels [knots]``, which ascend from 0 to 1.
    """

    def __init__(self, levels: np.ndarray, values: np.ndarray):
        self._levels = levels
        self.values = values
        self._is_even = np.array_equal(levels, np.linspace(0, 1, len(levels)))  # so that no search is needed
        width = np.diff(levels)
        # Behind each knot; 0 behind the last.
        self._slope = np.diff(values, axis=1, append=values[:, -1:]) / np.append(np.where(width > 0, width, 1), 1)
        first_knot = np.arange(values.size).reshape(values.shape)[:, :-1]  # of each piece, in the flat ``values``
        by_piece = np.stack(self._within(first_knot, levels[:-1], width))
        # The three integrals up to each knot, [3 lines knots].
        self._up_to = np.concatenate([np.zeros((3, len(values), 1)), np.cumsum(by_piece, axis=2)], axis=2)

    @property
    def whole(self) -> np.ndarray:
        """Integrals of all lines over all levels, ``[3 lines]``."""
        return self._up_to[:, :, -1]

    def at(self, level: np.ndarray) -> np.ndarray:
        """Return the value of the line ``values[0]`` at each ``level [...]``, for functions that are a single line."""
        return np.interp(level, self._levels, self.values[0])

    def integrals(self, level: np.ndarray, line: Any = 0, *, squares: bool = True) -> np.ndarray:
        """Return integrals of z, τ z and z² over levels τ from 0 to ``level [...]``, ``[3 ...]``.

        z is the line with the index ``line``, one for all levels or one for each. Without ``squares`` the third
        integral is left out, ``[2 ...]``.
        """
        n_pieces = len(self._levels) - 1
        if self._is_even:
            with np.errstate(invalid="ignore"):  # NaN is in any range
                piece = (level * n_pieces).astype(np.intp)
        else:
            piece = np.searchsorted(self._levels, level, side="right") - 1
        piece = np.clip(piece, 0, n_pieces - 1)
        knot = line * (n_pieces + 1) + piece
        start = self._levels.take(piece)
        within = self._within(knot, start, level - start, squares=squares)
        up_to = self._up_to.reshape(3, -1)[: len(within)]
        return np.stack([integral.take(knot) + addend for integral, addend in zip(up_to, within, strict=True)])

    def _within(
        self, knot: np.ndarray, start: np.ndarray, width: np.ndarray, *, squares: bool = True
    ) -> list[np.ndarray]:
        """Return the integrals of z, τ z and z² over a range of ``width`` levels τ, from a knot at level ``start``.

        ``knot`` has the knots' positions in the flat ``values``. Without ``squares`` z² is left out.
        """
        z = self.values.take(knot)
        rise = self._slope.take(knot) * width
        plain = width * (z + rise / 2)
        by_level = start * plain + width**2 * (z / 2 + rise / 3)
        if not squares:
            return [plain, by_level]
        return [plain, by_level, width * (z * (z + rise) + rise**2 / 3)]

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
"""Numbers of a kind that are held at a time, so that the next step finds them in the processor's cache."""
SHORT = 1e-9
"""Length of a range of levels below which a line over it is taken for its middle: its slope has lost its digits."""


class NumberDistribution:
    r"""The distribution of a target for each instance, as `UncertainForestRegressor` has it.

    All of it follows from the quantiles :math:`q_\tau` that ``predict`` and ``predict_interval`` return:
    :math:`F(y) = \sup\{\tau: q_\tau \le y\}`. They are lines between knots, or steps, so moments and scores are exact
    sums over these. All arrays are float64, of the host.

    Notes
    -----
    The mean and standard deviation are those of the law; the model's own are ``predict(X, return_std=True)``. Beyond
    the outermost residual no law has any probability. A conformal law promises nothing beyond its outermost ranks:
    ``quantile`` refuses such levels, and all else has the outermost residual there. Rows out of bag that every tree has
    seen have NaN.

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
        self._law, self._bins, self._support = law, bins, support
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
        return self._centre + self._whole[:, 0]

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the law ``[instances]``, in units of the target."""
        return np.sqrt(np.maximum(self._whole[:, 2] - self._whole[:, 0] ** 2, 0))

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
        at = checked_levels(levels)
        of_leaves = None if self._shares is None else self._bins.quantile(self._shares, at)
        if self._strata is None:
            quantiles = self._law.quantile(self._moments, at, of_leaves)
        else:
            quantiles = self._by_ranks_of_strata(at)
        quantiles = np.clip(quantiles, *self._support)
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
        return ends if np.ndim(np.asarray(coverage)) == 0 else ends.reshape(len(ends), -1, 2)

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
        return self._of_parts(lambda part, target: part._cdf(target), y, halve=True)

    def exceeds(self, limit: NumbersLike) -> np.ndarray:
        """Return the probability that the target is above a limit: 1 - ``cdf(limit)``, with its shapes and errors.

        Parameters
        ----------
        limit
            A finite number, one for each instance ``[instances]``, or several ``[instances k]``.
        """
        return 1 - self._of_parts(lambda part, target: part._cdf(target), limit, "limit", halve=True)

    def sample(self, key: Array | int, n: int) -> np.ndarray:
        """Return draws ``[instances n]``: quantiles at levels that are uniform, of each instance by itself.

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
            low, high = part._support
            found = np.empty(target.shape)
            for i, own in enumerate(np.clip(target, low, high).T):
                level = part._cdf(own[:, None])[:, 0]
                above, y = part._integrals(level, 1)[0], own - part._centre
                found[:, i] = 2 * (above - part._whole[:, 1] - y * (0.5 - level)) + np.abs(target[:, i] - own)
            return np.maximum(found, 0)

        return self._of_parts(scores, y)

    @cached_property
    def _centre(self) -> np.ndarray:
        """A number near each instance's quantiles, subtracted from them to keep digits in squares; NaN if unknown."""
        if self._moments is not None:
            return self._moments.mean
        assert self._shares is not None
        return self._bins.mean(self._shares) / np.sum(self._shares, axis=1)

    @cached_property
    def _by_stratum(self) -> "list[tuple[NumberLaw, np.ndarray]]":
        """The law of each stratum, and the positions of its rows; one of all rows where there are no strata."""
        if self._strata is None:
            return [(self._law, np.arange(len(self)))]
        return [(self._law.of_stratum(k), np.flatnonzero(self._strata == k)) for k in np.unique(self._strata).tolist()]

    def _by_ranks_of_strata(self, levels: np.ndarray) -> np.ndarray:
        """Return quantiles ``[instances levels]`` by the ranks of each row's own stratum."""
        strata, number, quantiles = self._law.strata, self._strata, np.empty((len(self), len(levels)))
        assert strata is not None
        assert number is not None
        assert self._moments is not None
        for law, rows in self._by_stratum:
            try:
                quantiles[rows] = law.quantile(Moments(*(part[rows] for part in self._moments)), levels, None)
            except ValueError as error:
                value = strata.values[number[rows[0]]]
                raise ValueError(f"of the rows with {value} in column {strata.label}: {error}") from error
        return quantiles

    @cached_property
    def _residuals(self) -> "_Line | None":
        """The quantiles of the law's residuals, a line between knots; None if the law has no weight for them."""
        return _Line(*self._law.knots()) if self._law.weight > 0 else None

    @cached_property
    def _whole(self) -> np.ndarray:
        """Integrals of q, τ q and q² over all levels τ, ``[instances 3]``: q is the quantile less the centre."""
        return self._of_parts(lambda part, _: part._integrals(0, 1).T, np.zeros((len(self), 3)))

    def _of_parts(self, ask: Callable[..., np.ndarray], y: Any, name: str = "y", *, halve: bool = False) -> np.ndarray:
        """Call ``ask`` on parts of few instances with their numbers ``[instances k]``; return the results in y's shape.

        Parts are sized for the memory that an instance takes: a number for each bin if ``ask`` halves levels, else one
        for each point of each bin.
        """
        target = self._checked(y, name)
        n_points = 1 if self._shares is None else self._bins.n_bins if halve else self._bins.table.size
        step = max(CACHED // max(n_points, target.shape[1]), 1)
        found = np.empty(target.shape)
        for law, every in self._by_stratum if target.size else ():
            line = self._residuals if self._strata is None else _Line(*law.knots())
            for start in range(0, len(every), step):
                rows = every[start : start + step]
                moments = None if self._moments is None else Moments(*(each[rows] for each in self._moments))
                shares = None if self._shares is None else self._shares[rows]
                part = NumberDistribution(law, self._bins, moments, shares=shares, support=self._support)
                part._residuals = line
                if "_whole" in vars(self):
                    part._whole = self._whole[rows]
                found[rows] = ask(part, target[rows])
        return found if np.ndim(y) == 2 else found[:, 0]

    def _checked(self, y: Any, name: str) -> np.ndarray:
        """Return numbers as float64 ``[instances k]``; raises an error for other shapes and for what is not finite."""
        check_numbers(name, y)
        numbers, n = np.asarray(y, np.float64), len(self)
        if numbers.ndim > 2 or (numbers.ndim and len(numbers) != n):
            raise ValueError(
                f"{name} has shape {numbers.shape}; pass a number, one for each of {n} instances, or several ({n}, k)."
            )
        numbers = numbers if numbers.ndim == 2 else numbers[..., None]
        numbers = np.broadcast_to(numbers, (n, numbers.shape[-1]))
        if not (finite := np.isfinite(numbers)).all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(f"{name} holds {numbers[row, column]} in row {row}; pass finite numbers.")
        return numbers

    def _at(self, levels: np.ndarray) -> np.ndarray:
        """Return quantiles at each instance's own levels, both ``[instances levels]``, not clipped to the support."""
        of_leaves = None
        if self._shares is not None:
            of_leaves = np.stack(self._bins.quantiles(self._shares.astype(np.float64), levels.T), axis=1)
        if self._moments is None:
            assert of_leaves is not None
            return np.where(np.isnan(self._centre)[:, None], np.nan, of_leaves)
        z = np.zeros(0) if self._residuals is None else self._residuals.at(levels)
        return self._law.blend(self._moments, levels, z, of_leaves)

    def _levels_up_to(self, y: np.ndarray) -> np.ndarray:
        """Return the largest level whose quantile (not clipped to the support) is at most y, both ``[instances k]``."""
        low, high = np.zeros(y.shape), np.ones(y.shape)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            reached = self._at(middle) <= y
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        low = np.where(self._at(np.ones(y.shape)) <= y, 1, low)
        return np.where(np.isnan(self._centre)[:, None], np.nan, low)

    def _cdf(self, y: np.ndarray) -> np.ndarray:
        (low, high), level = self._support, self._levels_up_to(y)
        return np.where((y < low) & ~np.isnan(level), 0, np.where((y >= high) & ~np.isnan(level), 1, level))

    @cached_property
    def _within_support(self) -> tuple[np.ndarray, np.ndarray]:
        """The levels between which quantiles lie within the support, ``[instances]`` each."""
        ends = np.tile(self._support, (len(self), 1))
        if not np.isfinite(ends).any():
            return np.zeros(len(self)), np.ones(len(self))
        low, high = self._levels_up_to(ends).T
        return low, np.maximum(low, high)

    def _integrals(self, start: Any, stop: Any) -> np.ndarray:
        r"""Return integrals of q, τ q and q² over levels τ, ``[3 instances]``: q is the quantile less the centre."""
        inside = self._within_support
        total = self._unsupported_integrals(*(np.clip(level, *inside) for level in (start, stop)))
        for end, lower, upper in zip(self._support, (np.zeros(()), inside[1]), (inside[0], np.ones(())), strict=True):
            if np.isfinite(end):
                first, last, q = np.clip(start, lower, upper), np.clip(stop, lower, upper), end - self._centre
                total += np.stack([q * (last - first), q * (last**2 - first**2) / 2, q**2 * (last - first)])
        return total

    def _unsupported_integrals(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Return `_integrals` without the support: sums over ranges of levels in which the leaves' part is linear."""
        levels, leaves = self._lines()
        at = np.clip(levels, start[:, None, None], stop[:, None, None])
        left, width, length = at[..., :-1], np.diff(at, axis=-1), np.diff(levels, axis=-1)
        slope = np.diff(leaves, axis=-1) / np.where(length > 0, length, 1)
        a = leaves[..., :-1] + slope * np.clip(left - levels[..., :-1], 0, length)
        b = a + slope * width
        total = np.stack(
            [
                width * (a + b) / 2,
                left * width * (a + b) / 2 + width**2 * (a / 6 + b / 3),
                width * (a**2 + a * b + b**2) / 3,
            ]
        )
        if self._residuals is not None:
            assert self._moments is not None
            scale = (self._law.weight * self._law.deviation(self._moments))[:, None, None]
            of_z = np.diff(self._residuals.integrals(at), axis=-1)
            first, by_level, square = scale * of_z[0], scale * of_z[1], scale**2 * of_z[2]
            slope = np.where(width > SHORT, (b - a) / np.maximum(width, SHORT), 0)
            value = np.where(width > SHORT, a - slope * left, (a + b) / 2)
            total += np.stack([first, by_level, square + 2 * (value * first + slope * by_level)])
        return total.sum(axis=(2, 3))

    def _lines(self) -> tuple[np.ndarray, np.ndarray]:
        """Return levels and the leaves' part of quantiles there, ``[instances bins points]``; linear between points."""
        n = len(self)
        if self._shares is None:
            return np.tile([0.0, 1.0], (n, 1, 1)), np.zeros((n, 1, 2))
        shares = self._shares / np.sum(self._shares, axis=1, keepdims=True, dtype=np.float64)
        below = np.cumsum(shares, axis=1) - shares
        levels = below[:, :, None] + shares[:, :, None] * np.linspace(0, 1, POINTS)
        if self._law.is_local:
            assert self._moments is not None
            return levels, self._law.deviation(self._moments)[:, None, None] * self._bins.table
        return levels, (1 - self._law.weight) * (self._bins.table - self._centre[:, None, None])


class _Line:
    """A line between knots, as a function of the level, and its integrals from level 0 on."""

    def __init__(self, levels: np.ndarray, values: np.ndarray):
        self._levels, self._values = levels, values
        width = np.diff(levels)
        self._slope = np.diff(values) / np.where(width > 0, width, 1)
        steps = self._within(np.arange(len(width)), width)
        self._up_to = np.concatenate([np.zeros((3, 1)), np.cumsum(steps, axis=1)], axis=1)

    def at(self, level: np.ndarray) -> np.ndarray:
        return np.interp(level, self._levels, self._values)

    def integrals(self, level: np.ndarray) -> np.ndarray:
        """Return integrals of z, τ z and z² from level 0 to each level ``[3 ...]``."""
        segment = np.clip(np.searchsorted(self._levels, level, side="right") - 1, 0, len(self._levels) - 2)
        return self._up_to[:, segment] + self._within(segment, level - self._levels[segment])

    def _within(self, segment: np.ndarray, width: np.ndarray) -> np.ndarray:
        z, slope = self._values[segment], self._slope[segment]
        first = width * (z + slope * width / 2)
        return np.stack(
            [
                first,
                self._levels[segment] * first + width**2 * (z / 2 + slope * width / 3),
                width * (z**2 + z * slope * width + (slope * width) ** 2 / 3),
            ]
        )

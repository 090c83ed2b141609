"""Laws of a number: how quantiles of a target follow from a forest's answer.

A law reads `Moments` and the quantiles of the targets in the leaves (`TargetBins`). It is fitted to rows whose answers
do not know their targets: out of bag, or held out.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import unit_weight
from jaxunc.combiners import Mean
from jaxunc.forest import Forest
from jaxunc.inference import bind
from jaxunc.tables import Columns, Encoded

from ._bins import TargetBins, checked_levels, checked_limits, interval_levels, weighted_quantiles
from ._distribution import NumberDistribution
from ._leaf_scales import LeafScales
from ._moments import LeafMoments, Moments
from ._strata import Strata, check_strata
from ._target_map import TargetMap, check_target_map

LAWS = ("learned", "residuals", "conformal", "bins", "neighbours")
SCORES = ("interval_score", "crps")
LEVELS = {"interval_score": (0.05, 0.95), "crps": tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())}
"""Levels of the quantiles that are scored: the ends of 90 % intervals, or levels whose mean loss is half a CRPS."""
FLOORS = (3, 1, 0.3, 0.1, 0.03, 0.01, 0.001, 0)
"""Candidate floors: shares of the mean squared residual that may be added to the variances. The largest of equally good
floors is taken: rows out of bag have fewer trees than new rows, so their variances may be 0 where those of new rows are
not."""
WEIGHTS = tuple(np.linspace(0, 1, 11).round(1).tolist())  # candidates for the weight w of a law
FIXED_FLOOR = 0.03
"""The floor of conformal laws, as a share of the targets' total variance."""
SHARE = 1e-12
"""Relative error of rounding that ranks may have: 100 · .07 is 7.000000000000001."""


class NumberLaw(NamedTuple):
    r"""The law :math:`q_\tau(x) = w\,(m(x) + s(x) z_\tau) + (1 - w)\,b_\tau(x)` of a target.

    w is a weight from 0 to 1. m is the mean of `Moments`, and :math:`s^2` the sum of its two variances and ``added``.
    :math:`z_\tau` are quantiles of the standardised residuals (y - m)/s of the rows that the law was fitted to.
    :math:`b_\tau` are quantiles of the targets in the leaves; for a local law they are :math:`m + s \zeta_\tau`, with
    :math:`\zeta` the z in the leaves.
    """

    weight: float
    """w in [0, 1]: the weight of the quantiles that are made of residuals."""
    added: float
    """The floor: a number that is added to each row's variance, in squared units of the target."""
    least: float
    """Smallest s, above 0, since residuals are divided by s."""
    residuals: np.ndarray
    """z in ascending order."""
    is_by_rank: bool
    """Whether quantiles of z are order statistics at the ranks of conformal prediction."""
    weights: np.ndarray = np.zeros(0)
    """How often each z counts; empty where all count alike."""
    is_local: bool = False
    """Whether leaves hold standardised residuals in place of targets."""
    support: tuple[float, float] = (-math.inf, math.inf)
    """The range of targets that the user declares; a model's link may narrow it."""
    strata: Strata | None = None
    """Strata whose residuals are ranked separately; None if all rows are ranked together."""
    step: float = 0.0
    """Distance between possible targets, which are then whole numbers; 0 if any number is possible."""
    target_map: TargetMap | None = None
    """Map from targets to what the model is fitted to, if any. All but ``support`` and ``step`` is in mapped units."""

    def of_stratum(self, k: int) -> "NumberLaw":
        """Return the law of the stratum with number ``k``: the same law with the residuals of that stratum alone."""
        assert self.strata is not None
        rows = self.strata.number == k
        residuals, weights = in_order(self.residuals[rows], self.weights[rows] if len(self.weights) else None)
        return self._replace(residuals=residuals, weights=weights, strata=None)

    @property
    def reads_moments(self) -> bool:
        """Whether the quantiles of the law depend on an instance's `Moments`."""
        return self.weight > 0 or self.is_local

    @property
    def repeats(self) -> np.ndarray:
        """How often each of the ``residuals`` counts, ``[residuals]``: ``weights``, or ones where all count alike."""
        return self.weights if len(self.weights) else np.ones(len(self.residuals))

    def as_targets(self, quantiles: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return ``quantiles [instances levels]`` of transformed targets as quantiles of targets, at ``levels``.

        They are mapped back, and rounded to possible targets. With a falling map ``quantiles`` are those at 1 -
        ``levels``. Without a map, and with any number possible, they are returned unchanged.
        """
        if self.target_map is not None:
            quantiles = self.target_map.inverse(quantiles)
            if self.is_by_rank:  # outwards by rounding, so that a target that ties with an end is held
                rounding = 2 * np.finfo(np.float64).eps * np.abs(quantiles)
                quantiles = quantiles + np.where(np.asarray(levels) >= 0.5, 1.0, -1.0) * rounding
        return self.on_grid(quantiles) if self.step else quantiles

    def on_grid(self, y: Any, xp: Any = np) -> Any:
        """Return the possible target that is nearest to each number ``y``; possible targets are ``step`` apart.

        ``xp`` is NumPy or ``jax.numpy``. A possible target between two numbers stays between the two rounded numbers,
        so an interval loses none.
        """
        start = self.support[0] if math.isfinite(self.support[0]) else 0.0
        return start + self.step * xp.rint((y - start) / self.step)

    def knots(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (ascending levels, quantile of z at each level), between which quantiles are linear.

        If quantiles are ``is_by_rank``, they are a step function, and each step's level occurs twice. Beyond the
        outermost ranks, which `quantile` refuses, the quantile is the outermost z.
        """
        z, weights = self.residuals, self.repeats
        if self.is_by_rank:
            return _rank_knots(z, weights)
        if len(z) > 1 and (weights == 1).all():
            return np.linspace(0, 1, len(z)), z
        return _window_knots(z, weights)

    def deviation(self, moments: Moments, xp: Any = np) -> Any:
        """Return s, the scale of each instance's residual, ``[instances]``, by the ``moments``.

        ``xp`` is the module of their arrays: NumPy or ``jax.numpy``.
        """
        return xp.maximum(xp.sqrt(moments.aleatoric + moments.epistemic + self.added), self.least)

    def quantile(self, moments: Moments | None, levels: np.ndarray, leaf_quantiles: Any, xp: Any = np) -> Any:
        """Return quantiles ``[instances levels]``, before they are mapped back, rounded and clipped to the support.

        ``leaf_quantiles [instances levels]`` are b, or ζ of a local law; with the weight 1 they may be None.
        ``moments`` may be None with the weight 0, unless the law is local. ``xp`` is NumPy or ``jax.numpy``. Raises a
        ValueError for ranks that need more rows than the law was fitted to.
        """
        if leaf_quantiles is not None and not self.reads_moments:
            return leaf_quantiles
        assert moments is not None
        z = np.zeros(0)
        if self.is_by_rank:
            z = np.array([_by_rank(self.residuals, self.repeats, level) for level in levels])
        elif not self.is_local:
            z = weighted_quantiles(self.residuals, self.repeats, levels)
        return self.blend(moments, levels, z, leaf_quantiles, xp)

    def blend(self, moments: Moments, levels: np.ndarray, z: np.ndarray, leaf_quantiles: Any, xp: Any = np) -> Any:
        """Return the quantiles ``[instances levels]`` of `quantile`, from quantiles ``z`` of standardised residuals.

        ``z`` is ``[levels]`` or ``[instances levels]``; a local law does not read it. The other arguments are those of
        `quantile`.
        """
        if self.is_local:
            return moments.mean[..., None] + self.deviation(moments, xp)[..., None] * leaf_quantiles
        s = self.deviation(moments, xp)
        # The axis of levels comes first, so that NumPy's innermost loop is the long one: a quarter less time.
        offset = xp.moveaxis(s * (z.T if z.ndim > 1 else z.reshape(-1, *[1] * s.ndim)), 0, -1)
        by_residuals = moments.mean[..., None] + offset
        if self.is_by_rank:
            # Outwards by rounding, since m + s ((y - m)/s) may differ from y: a target that ties with an end is held.
            rounding = 2 * float(xp.finfo(by_residuals.dtype).eps) * (abs(by_residuals) + abs(offset))
            by_residuals = by_residuals + np.where(np.asarray(levels) >= 0.5, 1.0, -1.0) * rounding
        if leaf_quantiles is None or self.weight == 1:
            return by_residuals
        return self.weight * by_residuals + (1 - self.weight) * leaf_quantiles


LEAVES_ALONE = NumberLaw(weight=0.0, added=0.0, least=1.0, residuals=np.zeros(0), is_by_rank=False)
"""Law that stands in before one is fitted: the quantiles of the targets in the leaves."""


def check_law(law: NumberLaw) -> None:
    """Raise a ValueError unless the fields of ``law`` are in range and fit each other."""
    z = law.residuals
    if z.ndim != 1 or z.dtype != np.float64 or not np.isfinite(z).all() or (np.diff(z) < 0).any():
        raise ValueError("residuals of a law are not finite numbers of float64 in ascending order.")
    w = law.weights
    if w.shape not in ((0,), z.shape) or w.dtype != np.float64 or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("weights of a law are not finite numbers of float64 above 0, one for each residual.")
    if not (0 <= law.weight <= 1 and 0 <= law.added < math.inf and 0 < law.least < math.inf):
        raise ValueError(f"a law has weight={law.weight}, added={law.added}, least={law.least}: out of range.")
    if not law.support[0] < law.support[1]:
        raise ValueError(f"a law has support={law.support}: its ends are not in their order.")
    is_partial = (law.is_by_rank and law.weight != 1) or (law.is_local and law.weight != 0)
    if (law.weight > 0 and not len(z)) or is_partial:
        raise ValueError("a law reads residuals that it does not have, or ranks or leaves of residuals in part.")
    if not 0 <= law.step < math.inf:
        raise ValueError(f"a law has step={law.step}, which is no number of 0 or more.")
    if law.target_map is not None:
        check_target_map(law.target_map)
    if law.strata is not None:
        check_strata(law.strata, len(z))
        if not law.is_by_rank:
            raise ValueError("a law has strata, and no ranks.")


class NumberAnswer(eqx.Module):
    """Answer of a model of numbers: arrays ``[instances]``, which `columns` names for files."""

    moments: Moments
    mean: np.ndarray
    """The model's mean; with transformed targets, that mean mapped back."""
    std: np.ndarray
    """The standard deviation by the moments; with transformed targets, by the law."""
    interval: np.ndarray
    """Ends of the intervals ``[instances 2·coverages]``."""
    quantiles: np.ndarray
    """Quantiles ``[instances levels]``."""
    exceeds: np.ndarray
    """Probabilities that the target is above limits ``[instances limits]``."""
    names: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    """Names of the columns of ``interval``, ``quantiles`` and ``exceeds``; empty for what is not asked for."""
    outputs = ("mean", "std", "interval", "quantile", "exceeds", "uncertainty")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the columns ``[instances]``, by name, of ``output``, one of ``outputs``."""
        tables = {"interval": self.interval, "quantile": self.quantiles, "exceeds": self.exceeds}
        if output in tables:
            names = dict(zip(tables, self.names, strict=True))[output]
            return dict(zip(names, tables[output].T, strict=True))
        if output == "uncertainty":
            return {"aleatoric": self.moments.aleatoric, "epistemic": self.moments.epistemic}
        return {output: self.mean if output == "mean" else self.std}


class LawOutputs(NamedTuple):
    """Coverages, levels and limits for which `BoundLaw.answer` has columns, and the names of these columns."""

    coverage: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()

    @property
    def levels(self) -> np.ndarray:
        """Levels of the intervals' ends, then those of the quantiles."""
        return np.concatenate([interval_levels(self.coverage) if self.coverage else [], self.quantiles])

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the columns of intervals, of quantiles, and of probabilities above limits, as three tuples.

        The names of intervals hold the coverage if there are several.
        """
        suffixes = [f"_{coverage:.12g}" for coverage in self.coverage] if len(self.coverage) > 1 else [""]
        ends = [end + suffix for suffix in suffixes for end in ("lower", "upper")] if self.coverage else []
        levels, limits = ([f"{number:.12g}" for number in numbers] for numbers in self[1:])
        return tuple(ends), tuple(f"quantile_{text}" for text in levels), tuple(f"exceeds_{text}" for text in limits)


class BoundLaw:
    """A model that answers with the distribution of a number: moments, bins, a forest of bin counts, and a law.

    ``forest`` counts the bins of targets in leaves. It is None with a single bin, and for boosted models, whose leaves
    hold no targets. ``request`` says which intervals, quantiles and limits `answer` has columns for.
    """

    def __init__(
        self, moments: LeafMoments | LeafScales, bins: TargetBins, forest: Forest | None, law: NumberLaw = LEAVES_ALONE
    ):
        self.moments, self.bins, self.law = moments, bins, law
        self.bin_shares: Any = None if forest is None else bind(forest, Mean())
        self.request = LawOutputs((0.9,))

    @property
    def columns(self) -> Columns:
        """The columns of the data that the model reads."""
        return self.moments.columns

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that answers have columns for."""
        outputs = NumberAnswer.outputs
        return outputs if self.moments.separates_doubt else tuple(name for name in outputs if name != "uncertainty")

    @property
    def support(self) -> tuple[float, float]:
        """The range of quantiles: the intersection of the link's range, mapped back, and the law's support."""
        low, high = self.moments.support
        if self.law.target_map is not None:
            low, high = sorted(self.law.target_map.inverse([low, high]).tolist())
        least, largest = self.law.support
        return max(low, least), min(high, largest)

    def asking(self, coverage: Any, quantiles: Any, limits: Any = None) -> "BoundLaw":
        """Return the same model with another ``request``: coverages, levels of quantiles, and limits.

        Each argument is a number, several, or None for no columns. Raises a TypeError or a ValueError unless these are
        numbers in range, and a ValueError for a repeated number.
        """
        coverages = levels = thresholds = ()
        if coverage is not None:
            interval_levels(coverage)  # checks it
            coverages = np.ravel(coverage).tolist()
        if quantiles is not None:
            levels = checked_levels(quantiles, "quantiles").tolist()
        if limits is not None:
            thresholds = checked_limits(limits).tolist()
        request = LawOutputs(tuple(coverages), tuple(levels), tuple(thresholds))
        nouns = {"coverage": "coverage", "quantiles": "level", "limits": "limit"}
        for (setting, noun), names in zip(nouns.items(), request.names, strict=True):
            if len(set(names)) < len(names):
                raise ValueError(f"{setting}={list(getattr(request, setting))} names a {noun} twice; name each once.")
        bound = object.__new__(BoundLaw)  # a copy: nothing is bound again
        vars(bound).update(vars(self) | {"request": request})
        return bound

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bound forests that the law answers by, as `to_onnx` asks: of moments, and of bins where they count."""
        reads_bins = self.bin_shares is not None and self.law.weight < 1
        return (*self.moments.parts, self.bin_shares) if reads_bins else self.moments.parts

    def over(self, transform: Callable[[Any], Any]) -> "BoundLaw":
        """Return the law with each of its bound forests replaced by ``transform(bound)``, as `shard` does."""
        bound = object.__new__(BoundLaw)
        bin_shares = None if self.bin_shares is None else transform(self.bin_shares)
        vars(bound).update(vars(self) | {"moments": self.moments.over(transform), "bin_shares": bin_shares})
        return bound

    def of_sums(self, stat: Any, bin_stat: Any = None) -> dict[str, Any]:
        """Return the columns of `answer` for one instance, by name, inside a 64-bit JAX program.

        ``stat`` and ``bin_stat`` are the merged statistics of moments and of bins; ``bin_stat`` is None without bins.
        Raises a ValueError for strata, transformed targets and limits, which such a program cannot answer.
        """
        by_moments = self.moments.of_sums(stat)
        self._check_for_program()
        end_names, level_names, _ = self.request.names
        quantile_names = (*end_names, *level_names)
        bins = None if bin_stat is None else self.bin_shares.combiner.finish(bin_stat)
        shares = jnp.ones(1) if bins is None else bins.probability.astype(float)
        leaf_quantiles = None
        if self.law.weight < 1 and quantile_names:
            leaf_quantiles = jnp.stack(self.bins.quantiles(shares, self.request.levels, jnp))
        moments = Moments(by_moments["mean"], by_moments["aleatoric"], by_moments["epistemic"])
        quantiles = self.law.quantile(moments, self.request.levels, leaf_quantiles, jnp)
        if self.law.step:
            quantiles = self.law.on_grid(quantiles, jnp)
        if self.support != (-math.inf, math.inf):
            quantiles = jnp.clip(quantiles, *self.support)
        outputs = by_moments
        if not self.moments.separates_doubt:
            outputs = {name: by_moments[name] for name in ("mean", "std")}
        return outputs | {name: quantiles[i] for i, name in enumerate(quantile_names)}

    def _check_for_program(self) -> None:
        """Raise a ValueError if the model has strata, transformed targets or limits, which `of_sums` cannot answer."""
        _, _, limit_names = self.request.names
        if self.law.strata is not None:
            raise ValueError(
                f"coverage is promised by the column {self.law.strata.label}, each value with ranks of its own, which "
                "such a program cannot look up; ask the model itself, or fit it without coverage_by."
            )
        if self.law.target_map is not None:
            raise ValueError(
                "the model is fitted to transformed targets, and such a program cannot take them back; ask the model "
                "itself, or export one that is fitted to the targets."
            )
        if limit_names:
            raise ValueError(f"the columns {limit_names} are made on the host alone; ask for intervals and quantiles.")

    def quantile(self, X: Any, levels: np.ndarray, moments: Moments | None = None) -> np.ndarray:
        """Return the quantiles ``[instances levels]`` for instances X; ``moments`` are theirs, if known already."""
        return self.distribution(X, moments).quantile(levels)

    def distribution(
        self, X: Any, moments: Moments | None = None, strata: np.ndarray | None = None
    ) -> NumberDistribution:
        """Return the distribution of each instance's target.

        ``moments`` and ``strata`` (a number for each row) are those of X, if known already. Raises a ValueError if the
        law has strata and X does not hold their column.
        """
        if strata is None and self.law.strata is not None:
            if isinstance(X, Encoded) or self.law.strata.is_raw:
                raise ValueError(
                    f"coverage is promised by the column {self.law.strata.label}, which these rows do not show; ask "
                    "the model itself, which reads it."
                )
            strata = self.law.strata.numbers(X)
        if moments is None and self.law.reads_moments:
            moments = self.moments.answer(X)
        shares = None if self.law.weight == 1 else self._shares(X)
        return NumberDistribution(self.law, self.bins, moments, shares=shares, support=self.support, strata=strata)

    def _shares(self, X: Any) -> np.ndarray:
        """Return the probability of each bin for the instances X ``[instances bins]``; 1 if there is a single bin."""
        if self.bin_shares is None:
            return np.ones((len(self.moments.answer(X).mean), 1))
        return np.asarray(self.bin_shares.probability(X))

    def answer(self, X: Any, strata: np.ndarray | None = None) -> NumberAnswer:
        """Return moments and the intervals, quantiles and probabilities of ``request``, for X ``[instances features]``.

        ``strata`` are the numbers of the rows' strata, if known already.
        """
        levels = self.request.levels
        limits = self.request.limits
        moments = self.moments.answer(X)
        n_rows = len(moments.mean)
        mean, std = moments.mean, moments.std
        values = np.zeros((n_rows, len(levels)))
        chances = np.zeros((n_rows, len(limits)))
        if len(levels) or limits or self.law.target_map is not None:
            distribution = self.distribution(X, moments, strata)
            if self.law.target_map is not None:
                mean = self.law.target_map.inverse(mean)
                std = distribution.std
            if len(levels):
                values = distribution.quantile(levels)
            if limits:
                chances = distribution.exceeds(np.tile(limits, (n_rows, 1)))
        n_ends = 2 * len(self.request.coverage)
        return NumberAnswer(
            moments=moments,
            mean=mean,
            std=std,
            interval=values[:, :n_ends],
            quantiles=values[:, n_ends:],
            exceeds=chances,
            names=self.request.names,
        )

    def blank_answer(self) -> NumberAnswer:
        """Return an answer of zeros for one instance, with the columns of `answer`."""
        ends, quantiles, chances = (np.zeros((1, len(names))) for names in self.request.names)
        zero = np.zeros(1)
        return NumberAnswer(
            moments=Moments(zero, zero, zero),
            mean=zero,
            std=zero,
            interval=ends,
            quantiles=quantiles,
            exceeds=chances,
            names=self.request.names,
        )


def _rank_knots(z: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (levels, quantiles of ``z``) as `NumberLaw.knots` does, for quantiles by rank (`_by_rank`).

    ``z`` ascend, and each counts as often as its weight says. `_by_rank` rounds ranks up above the median, and down
    below it. So of z = 1, 2, 4 with equal weights the quantile is 1 at levels below .5, 2 at .5, and 4 above: the
    levels are 0, .5, .5, .5, .5, 1 and the quantiles 1, 1, 2, 2, 4, 4.
    """
    unit = unit_weight(weights)
    ends = np.cumsum(weights)
    total = ends[-1] + unit  # a new row counts, too
    # The level of the step from each z to the next, by the rule above and by the rule below the median. It is the one
    # that lies where its rule holds; if neither does, it is the median.
    upper_steps = ends / total / (1 - SHARE)
    lower_steps = (ends + unit) / total / (1 + SHARE)
    steps = np.maximum(upper_steps, np.minimum(lower_steps, 0.5))[:-1]
    return np.r_[0, np.repeat(steps, 2), 1], np.repeat(z, 2)


def _window_knots(z: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (levels, quantiles of ``z``) as `NumberLaw.knots` does, for quantiles by `weighted_quantiles`.

    ``z`` ascend, and each counts as often as its weight says. A quantile is the mean of z over a window of one row's
    weight. It has a knot where either end of the window passes from one z to the next. So of z = 1, 2, 4 with weights
    2, 1, 1 windows start at 0, 1, 2, 3: the levels are 0, 1/3, 2/3, 1 and the quantiles 1, 1, 2, 4.
    """
    unit = unit_weight(weights)
    ends = np.cumsum(weights)
    last_start = ends[-1] - unit
    if len(z) == 1 or last_start <= 0:  # one row at most
        return np.array([0.0, 1.0]), np.full(2, np.average(z, weights=weights))
    start = np.unique(np.clip(np.r_[0, ends, ends - unit], 0, last_start))
    # Sums of z up to both ends of each window, and the first and the last z in it.
    sums = [np.interp(end, np.r_[0, ends], np.r_[0, np.cumsum(weights * z)]) for end in (start, start + unit)]
    first = np.minimum(np.searchsorted(ends, start * (1 + SHARE), side="right"), len(z) - 1)
    last = np.searchsorted(ends - weights, (start + unit) * (1 - SHARE)) - 1
    # Clipped, so that the mean of equal z is their value to the bit.
    quantiles = np.clip((sums[1] - sums[0]) / unit, z[first], z[np.maximum(last, first)])
    return start / last_start, np.maximum.accumulate(quantiles)


def _by_rank(residuals: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Return the residual at the conformal rank of ``level``: the rank is rounded away from the median.

    ``residuals`` ascend, and ``weights`` say how often each counts. Raises a ValueError if the rank lies beyond them.
    """
    n = len(residuals)
    is_upper = level >= 0.5
    unit = unit_weight(weights)  # the weight of a new row, which is ranked with the residuals
    ends = np.cumsum(weights)
    total = ends[-1] if n else 0.0
    if is_upper:  # the first residual whose rank is the level's or more
        index = int(np.searchsorted(ends, (total + unit) * level * (1 - SHARE)))
    else:  # the last whose rank is the level's or less
        index = int(np.searchsorted(ends - weights + unit, (total + unit) * level * (1 + SHARE), side="right")) - 1
    if not 0 <= index < n:
        tail = 1 - level if is_upper else level  # n rows of equal weight reach tails of 1 / (n + 1) or more
        needs = "which no number of rows gives" if tail == 0 else f"which needs {math.ceil(1 / tail * (1 - SHARE)) - 1}"
        weight_text = "" if (weights == unit).all() else f", which weigh {total / unit:.4g}"
        raise ValueError(
            f"a conformal quantile at the level {level:g} is asked for, {needs} calibration rows, and there are {n}"
            f"{weight_text}; pass more of them, or ask for less coverage."
        )
    return float(residuals[index])


def fit_law(
    law: str,
    moments: Moments,
    y: np.ndarray,
    leaf_quantiles: Any,
    spread: float,
    *,
    score: str = "interval_score",
    sample_weight: np.ndarray | None = None,
) -> NumberLaw:
    """Return the law with the best score on rows whose answers were made without their targets.

    Parameters
    ----------
    law
        How the weight w and the floor of a `NumberLaw` are chosen. ``"learned"``: both have the best score.
        ``"residuals"``: w = 1, and the floor has the best score. ``"bins"``: w = 0. ``"conformal"``: w = 1, a fixed
        floor, and quantiles by rank. ``"neighbours"``: as ``"residuals"``, but then w = 0 and the law is local. The
        caller then counts standardised residuals in the leaves.
    moments, y
        The forest's answers for the rows, made without their targets; and the targets, ``[rows]``.
    leaf_quantiles
        A function from levels to quantiles ``[rows levels]`` of the targets in the leaves, less the row's own target.
    spread
        Total variance of the targets (`LeafMoments.spread`), of which a fixed floor is a share.
    score
        ``"interval_score"`` of 90 % intervals, or ``"crps"``.
    sample_weight
        How often the rows count ``[rows]``, ≥ 0, in ranks, too; default 1. Equal weights count as 1.
    """
    if sample_weight is None or not np.any(sample_weight != sample_weight[:1]):
        sample_weight = None
    difference = y - moments.mean
    error = float(np.average(difference**2, weights=sample_weight)) if len(difference) else 0.0

    def make_law(weight: float, added: float) -> NumberLaw:
        """Return the law with a ``weight`` and a floor ``added``, and with its standardised residuals."""
        # Of the leaves' spread alone: rows that are ranked must not decide by what residuals are divided.
        min_deviation = 1e-6 * (math.sqrt(spread) or 1.0)
        candidate = NumberLaw(weight, added, min_deviation, residuals=np.zeros(0), is_by_rank=law == "conformal")
        residuals, weights = in_order(difference / candidate.deviation(moments), sample_weight)
        return candidate._replace(residuals=residuals, weights=weights)

    if law == "conformal":
        return make_law(1.0, FIXED_FLOOR * spread)
    if law == "bins":
        return make_law(0.0, 0.0)
    levels = np.array(LEVELS[score])
    weights: tuple[float, ...] = (1.0,)
    by_leaves = np.zeros(())
    if law == "learned":
        weights = WEIGHTS
        by_leaves = leaf_quantiles(levels)
    best_law = make_law(1.0, 0.0)
    least_loss = math.inf
    for floor in FLOORS:
        candidate = make_law(1.0, floor * error)
        by_residuals = candidate.quantile(moments, levels, leaf_quantiles=None)
        for weight in weights:
            blend = by_residuals if weight == 1 else weight * by_residuals + (1 - weight) * by_leaves
            loss = pinball(blend, y, levels, sample_weight)
            if loss < least_loss * (1 - 1e-9):  # of equal losses the first wins, with the largest floor
                best_law = candidate._replace(weight=weight)
                least_loss = loss
    return best_law._replace(weight=0.0, is_local=True) if law == "neighbours" else best_law


def order_of(residuals: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the positions of the residuals with a ``weight`` above 0 (None: all), in ascending order of residuals."""
    order = np.argsort(residuals, kind="stable")
    return order if weight is None else order[weight[order] > 0]


def in_order(residuals: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (residuals with a ``weight`` above 0 in ascending order, their weights).

    The weights are empty if all are equal, or ``weight`` is None: all residuals then count alike.
    """
    order = order_of(residuals, weight)
    if weight is None:
        return residuals[order], np.zeros(0)
    weight = weight[order]
    return residuals[order], weight if np.any(weight != weight[:1]) else np.zeros(0)


def pinball(quantiles: np.ndarray, y: np.ndarray, levels: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the mean pinball loss of ``quantiles [rows levels]`` for the targets ``y [rows]``.

    ``weight`` says how often each row counts; None: once. For the two levels of an interval's ends, this loss is in
    proportion to the interval score.
    """
    difference = y[:, None] - quantiles
    losses = np.maximum(levels * difference, (levels - 1) * difference)
    return float(np.average(np.mean(losses, axis=1), weights=weight))

"""Laws of a number: methods that make the quantiles of a target from a forest's answer.

A law reads `Moments` and the quantiles of the targets in the leaves (`TargetBins`). It is fitted by rows that the
answers were made without: out of bag, or held out.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import one_row
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
"""Shares of the mean squared residual that may be added to the variances. Of equally good ones the largest is taken:
new rows are answered by more trees than rows out of bag, and variances that are 0 out of bag may be positive there."""
WEIGHTS = tuple(np.linspace(0, 1, 11).round(1).tolist())
FIXED_FLOOR = 0.03
"""Share of the leaves' whole variance that is added where nothing is learned."""
SHARE = 1e-12
"""Relative rounding error of a rank: 100 · .07 is 7.000000000000001."""


class NumberLaw(NamedTuple):
    r"""The law :math:`q_\tau(x) = w\,(m(x) + s(x) z_\tau) + (1 - w)\,b_\tau(x)` of a target.

    m and :math:`s^2 - \text{added}` are the mean, and the sum of both variances, of `Moments`; z the standardised
    residuals (y - m)/s of the rows that fitted it; b the quantiles of the targets in the leaves, or of a local law
    :math:`m + s \zeta_\tau`, with the quantiles of z in the leaves.
    """

    weight: float
    """w in [0, 1]: the weight of the quantiles by residuals."""
    added: float
    """Number that is added to the variance of each row, in squared units of the target."""
    least: float
    """Smallest s, so that no residual is divided by 0."""
    residuals: np.ndarray
    """z in ascending order."""
    is_by_rank: bool
    """Whether quantiles of z are taken at the ranks of conformal prediction."""
    weights: np.ndarray = np.zeros(0)
    """How often each z counts; empty where all count alike."""
    is_local: bool = False
    """Whether the leaves hold z."""
    support: tuple[float, float] = (-math.inf, math.inf)
    """The range of targets that the user knows; a model's link may have a narrower one."""
    strata: Strata | None = None
    """The strata that have ranks of their own; None where all rows share them."""
    step: float = 0.0
    """What lies between targets, which are whole numbers; 0 where they are any."""
    target_map: TargetMap | None = None
    """The map of targets to the numbers that a law is of, all but ``support`` and ``step``; None if they are these."""

    def of_stratum(self, k: int) -> "NumberLaw":
        """Return the law of the rows of one stratum: the ranks of their own residuals."""
        assert self.strata is not None
        of = self.strata.number == k
        residuals, weights = in_order(self.residuals[of], self.weights[of] if len(self.weights) else None)
        return self._replace(residuals=residuals, weights=weights, strata=None)

    @property
    def reads_moments(self) -> bool:
        """Whether quantiles are made of moments."""
        return self.weight > 0 or self.is_local

    @property
    def repeats(self) -> np.ndarray:
        """How often each z counts."""
        return self.weights if len(self.weights) else np.ones(len(self.residuals))

    def as_targets(self, quantiles: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return targets of quantiles ``[instances levels]`` of what the model is fitted to, at levels of targets."""
        if self.target_map is not None:
            quantiles = self.target_map.inverse(quantiles)
            if self.is_by_rank:  # a target that ties is held, as in `blend`
                rounding = 2 * np.finfo(np.float64).eps * np.abs(quantiles)
                quantiles = quantiles + np.where(np.asarray(levels) >= 0.5, 1.0, -1.0) * rounding
        return self.on_grid(quantiles) if self.step else quantiles

    def on_grid(self, y: Any, xp: Any = np) -> Any:
        """Return the nearest of the targets that there can be.

        An interval loses no target by this: one that lies within its ends does so within the rounded ends.
        """
        start = self.support[0] if math.isfinite(self.support[0]) else 0.0
        return start + self.step * xp.rint((y - start) / self.step)

    def knots(self) -> tuple[np.ndarray, np.ndarray]:
        """Return levels, in ascending order, and quantiles of z at these: lines between them are all quantiles.

        Ranks are steps: a level twice. Beyond the outermost ranks, which `quantile` refuses, lies the outermost z.
        """
        z, weights = self.residuals, self.repeats
        unit, up_to = one_row(weights), np.cumsum(weights)
        total, span = up_to[-1] + unit, up_to[-1] - unit
        if self.is_by_rank:
            upper, lower = up_to / total / (1 - SHARE), (up_to + unit) / total / (1 + SHARE)
            steps = np.maximum(upper, np.minimum(lower, 0.5))[:-1]
            return np.r_[0, np.repeat(steps, 2), 1], np.repeat(z, 2)
        if len(z) == 1 or span <= 0:
            return np.array([0.0, 1.0]), np.full(2, np.average(z, weights=weights))
        if (weights == 1).all():
            return np.linspace(0, 1, len(z)), z
        # A quantile is a mean over one row, whose two ends pass from one z to the next at these.
        start = np.unique(np.clip(np.r_[0, up_to, up_to - unit, span], 0, span))
        sums = [np.interp(at, np.r_[0, up_to], np.r_[0, np.cumsum(weights * z)]) for at in (start, start + unit)]
        first = np.minimum(np.searchsorted(up_to, start * (1 + SHARE), side="right"), len(z) - 1)
        last = np.searchsorted(up_to - weights, (start + unit) * (1 - SHARE)) - 1
        # An atom's quantile is its value to the bit.
        values = np.clip((sums[1] - sums[0]) / unit, z[first], z[np.maximum(last, first)])
        return start / span, np.maximum.accumulate(values)

    def deviation(self, moments: Moments, xp: Any = np) -> Any:
        """Return s of each row ``[instances]``."""
        return xp.maximum(xp.sqrt(moments.aleatoric + moments.epistemic + self.added), self.least)

    def quantile(self, moments: Moments | None, levels: np.ndarray, leaf_quantiles: Any, xp: Any = np) -> Any:
        """Return quantiles ``[instances levels]``; a weight of 1 needs no quantiles of the leaves, 0 no moments.

        Raises a ValueError for ranks that need more rows than fitted the law. ``xp`` is NumPy, or JAX's.
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
        """Return `quantile` where these of z are known, of all rows ``[levels]`` or of each ``[instances levels]``."""
        if self.is_local:
            return moments.mean[..., None] + self.deviation(moments, xp)[..., None] * leaf_quantiles
        apart = self.deviation(moments, xp)[..., None] * z
        by_residuals = moments.mean[..., None] + apart
        if self.is_by_rank:
            # A target whose residual ties with z is held: m + s ((y - m)/s) differs from y by rounding.
            rounding = 2 * float(xp.finfo(by_residuals.dtype).eps) * (abs(by_residuals) + abs(apart))
            by_residuals = by_residuals + np.where(np.asarray(levels) >= 0.5, 1.0, -1.0) * rounding
        if leaf_quantiles is None or self.weight == 1:
            return by_residuals
        return self.weight * by_residuals + (1 - self.weight) * leaf_quantiles


LEAVES_ALONE = NumberLaw(0.0, 0.0, 1.0, np.zeros(0), False)
"""The law before one is fitted."""


def check_law(law: NumberLaw) -> None:
    """Raise a ValueError unless `fit_law` may have made the law."""
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
    apart = (law.is_by_rank and law.weight != 1) or (law.is_local and law.weight != 0)
    if (law.weight > 0 and not len(z)) or apart:
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
    """A forest's answer with numbers: arrays ``[instances]``, and columns of files."""

    moments: Moments
    mean: np.ndarray
    """The model's mean; of a model of transformed targets the target that its mean is taken back to."""
    std: np.ndarray
    """That of the moments; of a model of transformed targets that of the law."""
    interval: np.ndarray
    """Ends of the intervals ``[instances 2·coverages]``."""
    quantiles: np.ndarray
    """``[instances levels]``."""
    exceeds: np.ndarray
    """Probabilities to be above limits ``[instances limits]``."""
    names: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    """Names of the columns of these three; none of what is not asked for."""
    outputs = ("mean", "std", "interval", "quantile", "exceeds", "uncertainty")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The columns of one of the `outputs`."""
        further = {"interval": self.interval, "quantile": self.quantiles, "exceeds": self.exceeds}
        if output in further:
            return dict(zip(self.names[list(further).index(output)], further[output].T, strict=True))
        if output == "uncertainty":
            return {"aleatoric": self.moments.aleatoric, "epistemic": self.moments.epistemic}
        return {output: self.mean if output == "mean" else self.std}


class Asked(NamedTuple):
    """What `BoundLaw.answer` returns beside moments: settings of outputs, and names of their columns."""

    coverage: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()

    @property
    def levels(self) -> np.ndarray:
        """Levels of the ends of intervals, then of quantiles."""
        return np.concatenate([interval_levels(self.coverage) if self.coverage else [], self.quantiles])

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the columns of intervals, quantiles and chances; those of one interval bear no coverage."""
        several = [f"_{coverage:.12g}" for coverage in self.coverage] if len(self.coverage) > 1 else [""]
        ends = [end + name for name in several for end in ("lower", "upper")] if self.coverage else []
        levels, limits = ([f"{number:.12g}" for number in each] for each in self[1:])
        return tuple(ends), tuple(f"quantile_{level}" for level in levels), tuple(f"exceeds_{at}" for at in limits)


class BoundLaw:
    """A model that answers with a number's distribution: moments, bins, their counts in leaves, and a law.

    ``forest`` has these counts; None where there is one bin, and of boosted models, whose leaves hold no targets.
    ``asked`` are the intervals, quantiles and chances that `answer` returns.
    """

    def __init__(
        self, moments: LeafMoments | LeafScales, bins: TargetBins, forest: Forest | None, law: NumberLaw = LEAVES_ALONE
    ):
        self.moments, self.bins, self.law = moments, bins, law
        self.own: Any = None if forest is None else bind(forest, Mean())
        self.asked = Asked((0.9,))

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.moments.columns

    @property
    def outputs(self) -> tuple[str, ...]:
        """What its answers have columns of."""
        outputs = NumberAnswer.outputs
        return outputs if self.moments.separates_doubt else tuple(name for name in outputs if name != "uncertainty")

    @property
    def support(self) -> tuple[float, float]:
        """The range of quantiles: of the model's link, and of the law."""
        (low, high), ends = self.moments.support, self.law.support
        if self.law.target_map is not None:
            low, high = sorted(self.law.target_map.inverse([low, high]).tolist())
        return max(low, ends[0]), min(high, ends[1])

    def asking(self, coverage: Any, quantiles: Any, limits: Any = None) -> "BoundLaw":
        """Return the same with other intervals, quantiles and chances: numbers, several of them, or None.

        Raises what `interval_levels`, `checked_levels` and `checked_limits` do, and a ValueError for one named twice.
        """
        if coverage is not None:
            interval_levels(coverage)
        levels = () if quantiles is None else checked_levels(quantiles, "quantiles").tolist()
        above = () if limits is None else checked_limits(limits).tolist()
        asked = Asked(*map(tuple, (() if coverage is None else np.ravel(coverage).tolist(), levels, above)))
        words = {"coverage": "coverage", "quantiles": "level", "limits": "limit"}
        for (setting, word), names in zip(words.items(), asked.names, strict=True):
            if len(set(names)) < len(names):
                raise ValueError(f"{setting}={list(getattr(asked, setting))} names a {word} twice; name each once.")
        law = object.__new__(BoundLaw)
        vars(law).update(vars(self) | {"asked": asked})
        return law

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bound forests of the moments and of the bins, where these are read: for `to_onnx`."""
        return (*self.moments.parts, *((self.own,) if self.own is not None and self.law.weight < 1 else ()))

    def over(self, transform: Callable[[Any], Any]) -> "BoundLaw":
        """Return the law with ``transform`` applied to its bound forests."""
        law = object.__new__(BoundLaw)
        bin_shares = None if self.own is None else transform(self.own)
        vars(law).update(vars(self) | {"moments": self.moments.over(transform), "own": bin_shares})
        return law

    def of_sums(self, stat: Any, bin_stat: Any = None) -> dict[str, Any]:
        """Return the columns of `answer` for one instance from the merged statistics, as `LeafMoments.of_sums` does."""
        columns = self.moments.of_sums(stat)
        levels, (ends, of_levels, chances) = self.asked.levels, self.asked.names
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
        if chances:
            raise ValueError(f"the columns {chances} are made on the host alone; ask for intervals and quantiles.")
        names = (*ends, *of_levels)
        p = jnp.ones(1) if bin_stat is None else self.own.combiner.finish(bin_stat).probability.astype(float)
        of_leaves = jnp.stack(self.bins.quantiles(p, levels, jnp)) if self.law.weight < 1 and names else None
        moments = Moments(columns["mean"], columns["aleatoric"], columns["epistemic"])
        quantiles = self.law.quantile(moments, levels, of_leaves, jnp)
        quantiles = self.law.on_grid(quantiles, jnp) if self.law.step else quantiles
        if self.support != (-math.inf, math.inf):
            quantiles = jnp.clip(quantiles, *self.support)
        said = columns if self.moments.separates_doubt else {name: columns[name] for name in ("mean", "std")}
        return said | {name: quantiles[i] for i, name in enumerate(names)}

    def quantile(self, X: Any, levels: np.ndarray, moments: Moments | None = None) -> np.ndarray:
        """Return quantiles ``[instances levels]``; of the instances' moments, where these are known."""
        return self.distribution(X, moments).quantile(levels)

    def distribution(
        self, X: Any, moments: Moments | None = None, strata: np.ndarray | None = None
    ) -> NumberDistribution:
        """Return the distribution of each instance's target.

        Of the instances' moments and numbers of strata, where these are known; a ValueError for rows that do not tell
        their strata.
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
        """Return the probabilities of the bins by the leaves ``[instances bins]``."""
        if self.own is None:
            return np.ones((len(self.moments.answer(X).mean), 1))
        return np.asarray(self.own.probability(X))

    def answer(self, X: Any, strata: np.ndarray | None = None) -> NumberAnswer:
        """Return moments, and the interval and quantiles that are asked for, of instances ``[instances features]``.

        ``strata`` are the numbers of their strata, where these are known.
        """
        (coverage, _, limits), levels = self.asked, self.asked.levels
        moments = self.moments.answer(X)
        n, n_ends = len(moments.mean), 2 * len(coverage)
        distribution, mean, std = None, moments.mean, moments.std
        if len(levels) or limits or self.law.target_map is not None:
            distribution = self.distribution(X, moments, strata)
        if self.law.target_map is not None:
            assert distribution is not None
            mean, std = self.law.target_map.inverse(mean), distribution.std
        values, chances = np.zeros((n, len(levels))), np.zeros((n, len(limits)))
        if distribution is not None:
            values = distribution.quantile(levels) if len(levels) else values
            chances = distribution.exceeds(np.tile(limits, (n, 1))) if limits else chances
        return NumberAnswer(moments, mean, std, values[:, :n_ends], values[:, n_ends:], chances, self.asked.names)

    def blank_answer(self) -> NumberAnswer:
        """Return an answer for one instance, all zeros."""
        ends, quantiles, chances = (np.zeros((1, len(names))) for names in self.asked.names)
        zero = np.zeros(1)
        return NumberAnswer(Moments(zero, zero, zero), zero, zero, ends, quantiles, chances, self.asked.names)


def _by_rank(residuals: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Return the residual at the conformal rank of a level, rounded outwards.

    The residual of a new row weighs as much as `one_row`.
    """
    n, upper = len(residuals), level >= 0.5
    unit, up_to = one_row(weights), np.cumsum(weights)
    total = up_to[-1] if n else 0.0
    if upper:
        index = int(np.searchsorted(up_to, (total + unit) * level * (1 - SHARE)))
    else:
        index = int(np.searchsorted(up_to - weights + unit, (total + unit) * level * (1 + SHARE), side="right")) - 1
    if not 0 <= index < n:
        tail = 1 - level if upper else level
        needed = (
            "which no number of rows gives" if tail == 0 else f"which needs {math.ceil(1 / tail * (1 - SHARE)) - 1}"
        )
        weigh = "" if (weights == unit).all() else f", which weigh {total / unit:.4g}"
        raise ValueError(
            f"a conformal quantile at the level {level:g} is asked for, {needed} calibration rows, and there are {n}"
            f"{weigh}; pass more of them, or ask for less coverage."
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
    """Return the law that suits rows best whose targets the forest's answers were made without.

    Parameters
    ----------
    law
        ``"learned"``: weight and floor by the score. ``"residuals"``: weight 1, and the floor by the score.
        ``"bins"``: weight 0. ``"conformal"``: weight 1, a fixed floor, and quantiles by rank. ``"neighbours"``: weight
        0 and a learned floor, for leaves that hold z.
    moments, y
        The forest's answers for the rows, made without their targets; and the targets, ``[rows]``.
    leaf_quantiles
        A function from levels to the quantiles ``[rows levels]`` of the targets in the leaves, without the row's own.
    spread
        The whole variance of the targets in the leaves (`LeafMoments.spread`), of which a fixed floor is a share.
    score
        ``"interval_score"`` of 90 % intervals, or ``"crps"``.
    sample_weight
        How often the rows count ``[rows]``, ≥ 0, in ranks, too; default 1. Equal weights count as 1.
    """
    if sample_weight is None or not np.any(sample_weight != sample_weight[:1]):
        sample_weight = None
    apart = y - moments.mean
    error = float(np.average(apart**2, weights=sample_weight)) if len(apart) else 0.0

    def make_law(weight: float, added: float) -> NumberLaw:
        # By the leaves alone: rows that are ranked must not decide what they are divided by.
        min_deviation = 1e-6 * (math.sqrt(spread) or 1.0)
        candidate = NumberLaw(weight, added, min_deviation, np.zeros(0), law == "conformal")
        residuals, weights = in_order(apart / candidate.deviation(moments), sample_weight)
        return candidate._replace(residuals=residuals, weights=weights)

    if law == "conformal":
        return make_law(1.0, FIXED_FLOOR * spread)
    if law == "bins":
        return make_law(0.0, 0.0)
    levels = np.array(LEVELS[score])
    weights, of_leaves = (WEIGHTS, leaf_quantiles(levels)) if law == "learned" else ((1.0,), np.zeros(()))
    best, smallest = make_law(1.0, 0.0), math.inf
    for floor in FLOORS:
        candidate = make_law(1.0, floor * error)
        by_residuals = candidate.quantile(moments, levels, None)
        for weight in weights:
            blend = by_residuals if weight == 1 else weight * by_residuals + (1 - weight) * of_leaves
            loss = pinball(blend, y, levels, sample_weight)
            if loss < smallest * (1 - 1e-9):
                best, smallest = candidate._replace(weight=weight), loss
    return best._replace(weight=0.0, is_local=True) if law == "neighbours" else best


def order_of(residuals: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the positions of residuals of positive weight, in ascending order."""
    order = np.argsort(residuals, kind="stable")
    return order if weight is None else order[weight[order] > 0]


def in_order(residuals: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals of positive weight, in ascending order, and their weights; empty if all are equal."""
    order = order_of(residuals, weight)
    if weight is None:
        return residuals[order], np.zeros(0)
    weight = weight[order]
    return residuals[order], weight if np.any(weight != weight[:1]) else np.zeros(0)


def pinball(quantiles: np.ndarray, y: np.ndarray, levels: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the mean pinball loss; at the two ends of an interval it is proportional to the interval score."""
    apart = y[:, None] - quantiles
    return float(np.average(np.mean(np.maximum(levels * apart, (levels - 1) * apart), axis=1), weights=weight))

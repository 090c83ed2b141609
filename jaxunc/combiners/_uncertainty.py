"""How much trees leave open: the mean of their intervals of probabilities, and uncertainty split by its kind."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_one_of
from jaxunc._numerics import divide_by_shared, float_dtype, rounded, safe_divide, shares_of, sum_in_order
from jaxunc._types import PyTree
from jaxunc.scorers import Interval, idm_interval, single_strength, support
from jaxunc.tables import NumbersLike

from ._combiner import Combiner, learned_field


class AveragedIntervals(Combiner[Interval]):
    r"""The means over trees of the lower and of the upper bounds of each class's probability.

    .. math:: \left[\frac1T \sum_t \frac{n_{t,c}}{N_t + s},\; \frac1T \sum_t \frac{n_{t,c} + s}{N_t + s}\right]

    where n_{t,c} of the N_t instances in the leaf of tree t are of class c, and T is the number of trees.

    Parameters
    ----------
    s
        The strength of the imprecise Dirichlet model, > 0.

    Raises
    ------
    ValueError
        If s is not one number, positive and finite.

    Warns
    -----
    FractionsWarning
        Where concrete counts enter: if all rows add to 1 and not all are integers.

    Notes
    -----
    Called, it answers an `Interval`: ``(lower, upper)``, each ``[... classes]``, in [0, 1].
    `jaxunc.decisions.interval_dominance` decides.

    An empty leaf counts as [0, 1]; so does no tree at all. Sums are compensated. For two classes an upper bound is one
    less the other class's lower bound. So a bound of exactly one half is one half for both, and in float32 upper bounds
    have an absolute error of 6e-8. Differentiable in counts and s. Streams two planes for two classes, else C + 1.

    References
    ----------
    Zhang, Quost and Masson 2021, the baseline of the experiments.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jaxunc as ju
    >>> lower, upper = ju.AveragedIntervals(s=1)(jnp.array([[1, 2], [0, 3]]))
    >>> print(lower, upper)
    [0.125 0.625] [0.375 0.875]
    """

    s: Float[Array, "..."] = learned_field("positive")
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def __init__(self, s: NumbersLike):
        self.s = single_strength(s)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the lower bounds of a leaf's class probabilities ``[... classes]``, and 1, to count the trees.

        For more than two classes the statistic also has the intervals' width ``[...]``, which all classes share.
        """
        stat = {"lower": idm_interval(counts, self.s).lower, "trees": jnp.ones(())}
        if counts.shape[-1] == 2:
            return stat
        size = sum_in_order(counts.astype(float_dtype(counts, self.s)))
        return {**stat, "width": self.s / (size + self.s)}

    def finish(self, stat: PyTree) -> Interval:
        """Return the mean intervals: the merged bounds of a statistic, divided by its number of trees."""
        total = stat["lower"]
        trees = jnp.asarray(stat["trees"])[..., None]
        lower = divide_by_shared(total, trees)
        lower = jnp.where(lower > 1, 1.0, lower)  # not `minimum` and `clip`, which halve the slope at their ends
        width = stat.get("width")
        # For two classes an upper bound is 1 minus the other class's lower bound, so both are one half together.
        upper = 1 - lower[..., ::-1] if width is None else lower + safe_divide(width[..., None], trees, 1.0)
        upper = jnp.where(upper < lower, lower, upper)
        return Interval(lower, jnp.where(upper > 1, 1.0, upper))


class Uncertainty(NamedTuple):
    """Uncertainty of each instance, split by its kind; total = aleatoric + epistemic."""

    total: Float[Array | np.ndarray, "..."]
    aleatoric: Float[Array | np.ndarray, "..."]
    """Uncertainty that more data would not remove: the classes overlap."""
    epistemic: Float[Array | np.ndarray, "..."]
    """Uncertainty that more data would remove: the trees disagree, or their leaves hold little."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that `columns` makes: "uncertainty" alone."""
        return ("uncertainty",)

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the three uncertainties as NumPy arrays, each under ``output``, "_" and the name of its field."""
        return {f"{output}_{name}": np.asarray(values) for name, values in self._asdict().items()}


class UncertaintyDecomposition(Combiner[Uncertainty]):
    r"""Aleatoric and epistemic uncertainty of an instance's class, from the leaves of all trees.

    For the imprecise Dirichlet model (``"interval"``) the probabilities that the trees' mean intervals allow for,

    .. math:: \mathcal P = \{\ell + w\,t : t \ge 0,\ \textstyle\sum_c t_c = 1\}, \qquad
              \ell_c = \frac1T \sum_i \frac{n_{i,c}}{N_i + s}, \qquad w = \frac1T \sum_i \frac{s}{N_i + s}

    (all that lie between the bounds of `AveragedIntervals`, whose symbols these are), have entropies H with

    .. math:: \max_{\mathcal P} H = H(\max\{\ell, \lambda\}), \ \sum_c \max\{\lambda - \ell_c, 0\} = w, \qquad
              \min_{\mathcal P} H = \min_c H(\ell + w\,e_c)

    where λ is a level, and e_c the distribution that is certain of class c.

    Parameters
    ----------
    kind
        ``"entropy"``: total H(mean p) of the leaves' shares p, aleatoric mean H(p), epistemic their difference (the
        mutual information of class and tree), in bits. ``"plausibility"``: epistemic mean u_e, aleatoric mean u_a of
        the leaves (`scorers.uncertainty`); two classes only, each in [0, 1]. ``"interval"``: total the largest and
        aleatoric the least entropy of the probabilities above, epistemic their difference, in bits.
    s
        The strength of the imprecise Dirichlet model, > 0, of the kind ``"interval"``; 1 if none is given.

    Raises
    ------
    ValueError
        If the kind is unknown, s is not one number, positive and finite, or is given to another kind, or
        ``"plausibility"`` meets more than two classes.

    Warns
    -----
    FractionsWarning
        Kind ``"interval"``, where concrete counts enter: if all rows add to 1 and not all are integers.

    Notes
    -----
    Called, it answers an `Uncertainty`: ``(total, aleatoric, epistemic)``, each ``[...]``.

    An empty leaf counts as uniform (entropy), or as fully epistemic (plausibility, interval). No tree: total and
    epistemic 1 bit per doubling of the classes (entropy, interval), or epistemic 1. Trees that disagree add to the
    epistemic part of entropies, but to the aleatoric part of intervals: these ask how much is known of the mean.

    Entropy is differentiable (0 log 0 = 0, with gradient 0). So is the largest entropy of intervals; the least one has
    a kink where two classes lead together, and the mean of their slopes there.

    References
    ----------
    Shaker and Hüllermeier 2020; Busch et al. 2021, section 3.1.2. Intervals: Abellán and Moral 2005 (both extremes of
    the entropy); Hüllermeier, Destercke and Shaker 2022; Walley 1996.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> total, aleatoric, epistemic = UncertaintyDecomposition("interval", s=2)(jnp.array([[1, 1], [2, 0], [6, 0]]))
    >>> print(total, aleatoric.round(4), epistemic.round(4))
    1.0 0.4138 0.5862
    """

    kind: Literal["entropy", "plausibility", "interval"] = eqx.field(static=True, default="entropy")
    s: Float[Array, "..."] | None = learned_field("fixed", default=None)
    merge: ClassVar[str] = "sum"

    def __init__(self, kind: Literal["entropy", "plausibility", "interval"] = "entropy", s: NumbersLike | None = None):
        check_one_of("kind", kind, ("entropy", "plausibility", "interval"))
        if kind != "interval" and s is not None:
            raise ValueError(f"s={s!r} is the strength of intervals, but kind={kind!r}; leave it out.")
        self.kind = kind
        strength = 1.0 if s is None else s
        self.s = single_strength(strength) if kind == "interval" else None

    @property
    def reads_sizes(self) -> bool:
        """Whether the uncertainty depends on leaf sizes: true but for the kind "entropy", which reads shares alone."""
        return self.kind != "entropy"

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return what is averaged over trees, by kind, and 1, to count the trees.

        * "entropy": the leaf's shares of the classes, and their entropy;
        * "plausibility": the leaf's aleatoric uncertainty, and 1 less its epistemic one;
        * "interval": the lower bounds of the class probabilities, and the width of the intervals.
        """
        trees = jnp.ones(())
        if self.s is not None:
            size = sum_in_order(counts.astype(float_dtype(counts, self.s)))
            return {"lower": idm_interval(counts, self.s).lower, "width": self.s / (size + self.s), "trees": trees}
        if self.kind == "plausibility":
            log_degrees = support(counts).log_degrees
            aleatoric = -jnp.expm1(jnp.max(log_degrees, axis=-1))
            return {"aleatoric": aleatoric, "certain": -jnp.expm1(jnp.min(log_degrees, axis=-1)), "trees": trees}
        counts = counts.astype(float_dtype(counts))
        shares = shares_of(counts)
        return {"shares": shares, "entropy": entropy(shares), "trees": trees}

    def finish(self, stat: PyTree) -> Uncertainty:
        """Return the three uncertainties of a merged statistic, from means over its trees."""
        trees = jnp.asarray(stat["trees"])
        if self.kind == "plausibility":
            aleatoric = divide_by_shared(stat["aleatoric"], trees)
            epistemic = 1 - divide_by_shared(stat["certain"], trees)
            return Uncertainty(aleatoric + epistemic, aleatoric, epistemic)
        if self.kind == "interval":
            lower = divide_by_shared(stat["lower"], trees[..., None])
            total, least = extreme_entropies(lower, divide_by_shared(stat["width"], trees, 1.0))
            # Rounding must not take it out of [0, total]; not `clip`, which halves the slope at its ends.
            aleatoric = jnp.where(least < 0, 0.0, jnp.where(least > total, total, least))
            return Uncertainty(total, aleatoric, total - aleatoric)
        n_classes = stat["shares"].shape[-1]
        total = entropy(divide_by_shared(stat["shares"], trees[..., None], 1 / n_classes))
        # The mean entropy is at most the entropy of the mean; rounding must not make the epistemic part negative.
        aleatoric = jnp.minimum(divide_by_shared(stat["entropy"], trees), total)
        return Uncertainty(total, aleatoric, total - aleatoric)


def entropy(probs: Float[Array, "... classes"]) -> Float[Array, "..."]:
    """Return the Shannon entropy of ``probs`` in bits, with 0 log 0 = 0."""
    safe = jnp.where(probs > 0, probs, 1.0)
    return -sum_in_order(rounded(probs * jnp.log2(safe)))


def _surprise(probs: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return -p log₂ p for each entry p of ``probs``: what that probability adds to the entropy."""
    return entropy(probs[..., None])


def extreme_entropies(
    lower: Float[Array, "... classes"], width: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return the largest and the least entropy, in bits, of all probabilities that intervals of one ``width`` allow.

    ``lower`` has the intervals' lower bounds, which add to 1 with ``width``. So the probabilities are lower + width t,
    with shares t ≥ 0 of the classes that add to 1.
    """
    return _largest_entropy(lower, width), _least_entropy(lower, width)


def _largest_entropy(lower: Float[Array, "... classes"], width: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the largest entropy of the probabilities lower + width t (`extreme_entropies`)."""
    # It is where ``width`` raises the least probable classes to a common level.
    ascending = jnp.sort(lower, axis=-1)
    n_raised = jnp.arange(1, lower.shape[-1] + 1, dtype=lower.dtype)
    # The levels that raising any number of the least probable classes would reach: the lowest of them is the level.
    levels = (width[..., None] + jnp.cumsum(ascending, axis=-1)) / n_raised
    level = jnp.min(levels, axis=-1, keepdims=True)
    # At the optimum the shares t have no slope (envelope theorem): only lower and width do.
    shares = lax.stop_gradient(safe_divide(jnp.maximum(level - lower, 0.0), width[..., None]))
    return entropy(lower + rounded(width[..., None] * shares))


def _least_entropy(lower: Float[Array, "... classes"], width: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the least entropy of the probabilities lower + width t (`extreme_entropies`).

    There a class with the largest lower bound gets all of ``width``. The slope is the mean over all such classes.
    """
    top_class = jnp.argmax(lower, axis=-1, keepdims=True)
    is_largest = lower == jnp.take_along_axis(lower, top_class, axis=-1)
    is_leading = is_largest | (jnp.arange(lower.shape[-1]) == top_class)  # one class at least, also among NaN
    # How the entropy changes if a class gets ``width``: equal for all leading classes, of which the mean is taken.
    changes = jnp.where(is_leading, _surprise(lower + width[..., None]) - _surprise(lower), 0.0)
    change = sum_in_order(changes) / sum_in_order(is_leading.astype(lower.dtype))
    return sum_in_order(_surprise(lower)) + change

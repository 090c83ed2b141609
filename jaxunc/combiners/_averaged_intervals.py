"""The mean of interval-valued probabilities."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jaxunc._numerics import divide_by_shared, float_dtype, safe_divide, sum_in_order
from jaxunc._types import PyTree
from jaxunc.intervals import Interval, idm_interval, one_strength
from jaxunc.tables import NumbersLike

from ._combiner import Combiner
from ._fields import learned_field


class AveragedIntervals(Combiner[Interval]):
    r"""The means over trees of the lower and of the upper bounds of each class's probability.

    .. math:: \left[\frac1T \sum_t \frac{n_{t,c}}{N_t + s},\; \frac1T \sum_t \frac{n_{t,c} + s}{N_t + s}\right]

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
        self.s = one_strength(s)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The lower bounds; for more than two classes the width, which is the same for all; 1 for the tree."""
        stat = {"lower": idm_interval(counts, self.s).lower, "trees": jnp.ones(())}
        if counts.shape[-1] == 2:
            return stat
        size = sum_in_order(counts.astype(float_dtype(counts, self.s)))
        return {**stat, "width": self.s / (size + self.s)}

    def finish(self, stat: PyTree) -> Interval:
        """Divide the totals by the number of trees."""
        total = stat["lower"]
        trees = jnp.asarray(stat["trees"])[..., None]
        lower = jnp.minimum(divide_by_shared(total, trees), 1.0)
        width = stat.get("width")
        # Of two classes an upper bound is what the other's lower bound leaves, so both meet one half together.
        upper = 1 - lower[..., ::-1] if width is None else lower + safe_divide(width[..., None], trees, 1.0)
        return Interval(lower, jnp.clip(upper, lower, 1.0))

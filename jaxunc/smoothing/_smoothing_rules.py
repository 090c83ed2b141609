"""Rules that smooth: each leaf by its tree's prior, or the leaves that an instance reaches by their own."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc._checks import check_one_of
from jaxunc._numerics import divide_by_shared, float_dtype, shares_of, sum_in_order
from jaxunc._types import PyTree
from jaxunc.combiners import Answer, Combiner, learned_field, tree_field

from ._fit import METHODS, Method, fit_dirichlet_prior
from ._prior import BetaPrior, DirichletPrior, checked_concentration


class SmoothedMean(Combiner[Answer]):
    r"""The mean over trees of leaf probabilities that are drawn towards a prior: (1/K) Σ_t (n_c + α_c)/(n + Σα).

    What `Mean` answers on a forest of `smooth_forest`, with the counts left as they are, for other rules to read.

    Parameters
    ----------
    prior
        A prior as `fit_forest_prior` returns it: ``alpha`` ``[trees classes]``, or ``[classes]`` for all trees; a
        `BetaPrior` ``[trees]`` or of numbers.

    Raises
    ------
    ValueError
        If the parameters have other axes or, outside a trace, are negative or not finite. Also if the counts that the
        rule meets have other classes.

    Notes
    -----
    Class scores, probability: the mean. Score: the mean for class 1 less 1/2. Leaf without instances: the prior's
    mean. No tree (all masked): 1/C. Differentiable in the prior, which is a leaf of the rule.

    References
    ----------
    Sutton-Charani 2020, equation 2; for forests it is named there as an extension.
    """

    shared: Array | None = learned_field("positive")
    by_tree: Array | None = tree_field("positive")
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def __init__(self, prior: BetaPrior | DirichletPrior):
        alpha = checked_concentration(prior)
        if alpha.ndim not in (1, 2):
            raise ValueError(f"the prior's parameters have shape {alpha.shape}; expected [trees classes] or [classes].")
        self.by_tree, self.shared = (alpha, None) if alpha.ndim == 2 else (None, alpha)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The leaf's smoothed probabilities, and 1 for the tree."""
        alpha = jnp.asarray(self.shared if self.by_tree is None else self.by_tree)
        if alpha.shape[-1] != counts.shape[-1]:
            raise ValueError(f"the prior has {alpha.shape[-1]} classes, but counts have {counts.shape[-1]}.")
        return {"share": shares_of(counts.astype(float_dtype(counts)) + alpha), "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Divide the totals by the number of trees."""
        n_classes = stat["share"].shape[-1]
        mean = divide_by_shared(stat["share"], jnp.asarray(stat["trees"])[..., None], 1 / n_classes)
        return _of_shares(mean)


class MemberSmoothing(Combiner[Answer]):
    r"""The leaves that an instance reaches, one of each tree, smoothed by a prior that is fitted to *them*.

    For each instance the K leaves :math:`(n^t)_t` are the artificial sample: with the prior α fitted to them,

    .. math:: \hat p_c = \frac1K \sum_t \frac{n^t_c + \alpha_c}{n^t + \sum \alpha}

    So a tree with a small leaf borrows from the other trees' estimates for the same instance. Between two known rules:
    where the trees agree (CONCENTRATED) it is the prior's mean, which weighs trees by their leaves' size as `Pooling`
    does; where all leaves are pure, by moments, it is the mean of frequencies, `Mean`.

    Parameters
    ----------
    method
        See `fit_dirichlet_prior`. ``"moments"`` has a closed form; the likelihoods search for each instance.
    clip
        See `fit_dirichlet_prior`.

    Raises
    ------
    ValueError
        If the method is unknown or ``clip`` outside (0, 1/2); outside (0, 1/classes), when the rule meets counts.

    Notes
    -----
    jaxunc's own: the paper's conclusion names an adjustment "at the aggregation phase with the same type of artificial
    sample". It would have classifiers in the place of leaves; the paper leaves it open.

    Class scores, probability: as for `SmoothedMean`. It keeps the counts of every tree for a chunk of instances. Trees
    that are masked have no part in the fit. No tree: 1/C. Gradient: through the fit too.

    References
    ----------
    Sutton-Charani 2020, section 7 (future work).
    """

    method: Method = eqx.field(static=True, default="moments")
    clip: float = eqx.field(static=True, default=1e-3)
    merge: ClassVar[str] = "collect"
    reads_sizes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_one_of("method", self.method, METHODS)
        if not 0 < self.clip < 0.5:
            raise ValueError(f"clip={self.clip!r} must be a number in (0, 1/classes), such as 0.001.")

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The leaf's counts."""
        return counts.astype(float_dtype(counts))

    def finish(self, stat: Num[Array, "... trees classes"]) -> Answer:
        """Fit, smooth, average over the trees that count."""
        # Masked trees come as NaN; as empty leaves they have no weight in the fit.
        present = ~jnp.isnan(stat).any(axis=-1)
        counts = jnp.where(present[..., None], stat, 0.0)
        prior = fit_dirichlet_prior(counts, self.method, self.clip)
        share = shares_of(counts + prior.alpha[..., None, :])
        total = sum_in_order(jnp.where(present[..., None], share, 0.0), -2)
        n_trees = jnp.sum(present, axis=-1, dtype=jnp.int32)[..., None].astype(total.dtype)
        return _of_shares(divide_by_shared(total, n_trees, 1 / total.shape[-1]))


def _of_shares(shares) -> Answer:
    return Answer.from_shares(shares, shares, shares[..., 1] - 0.5 if shares.shape[-1] == 2 else None)

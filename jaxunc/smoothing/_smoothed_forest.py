"""Forests smoothed by the prior of each tree, and two combiners that smooth.

`smooth_forest` adds the prior to the counts. `SmoothedMean` leaves them as they are, and answers as the mean of the
smoothed forest does. `MemberSmoothing` fits a prior to the leaves that one instance reaches.
"""

import dataclasses
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import check_one_of, is_concrete, warn, warn_of_fractions
from jaxunc._numerics import distinct_counts, divide_by_shared, float_dtype, padded_table, shares_of, sum_in_order
from jaxunc._types import PyTree
from jaxunc.combiners import Answer, Combiner, learned_field, tree_field
from jaxunc.forest import Forest, check_is_forest, counts_of_forks

from ._prior import (
    METHODS,
    BetaPrior,
    DirichletPrior,
    Method,
    PriorStatus,
    PriorWarning,
    checked_concentration,
    fit_dirichlet_prior,
)

Level = Literal["tree", "forest"]


def fit_forest_prior(
    forest: Forest, *, level: Level = "tree", method: Method = "weighted_mle", clip: float = 1e-3
) -> DirichletPrior:
    """Fit a prior to the leaves of each tree, or one prior to all leaves of the forest.

    Parameters
    ----------
    forest
        The forest; any number of classes.
    level
        ``"tree"``: a prior for each tree, as the paper has it. ``"forest"``: the leaves of all trees are one sample.
    method, clip
        The method of the fit, and the stand-in for proportions of 0, as for `fit_dirichlet_prior`.

    Returns
    -------
    DirichletPrior
        ``alpha`` ``[trees classes]`` and ``status`` ``[trees]``; or ``[classes]`` and a scalar.

    Raises
    ------
    ValueError
        If the level is unknown, or as for `fit_dirichlet_prior`. A tree without instances in any leaf is refused.

    References
    ----------
    Sutton-Charani 2020, section 3; the forest's prior is not in the paper.
    """
    check_is_forest(forest)
    check_one_of("level", level, ("tree", "forest"))
    counts = forest.counts if not is_concrete(forest.count_table, forest.code) else np.asarray(forest.counts)
    if level == "forest":
        counts = counts.reshape(-1, forest.n_classes)
    return fit_dirichlet_prior(counts, method, clip)


def smooth_forest(
    forest: Forest,
    prior: Level | BetaPrior | DirichletPrior = "tree",
    *,
    method: Method = "weighted_mle",
    clip: float = 1e-3,
) -> Forest:
    """Return the forest with a prior added to the counts of its leaves.

    Relative frequencies of the new counts are the smoothed probabilities (n_c + α_c)/(n + Σα), for the counts n_c of a
    leaf, their sum n and the prior's parameters α_c. So `Mean` averages smoothed trees.

    Parameters
    ----------
    forest
        The forest.
    prior
        ``"tree"`` or ``"forest"``: fitted here, as by `fit_forest_prior` at this level. Or a fitted prior, with
        ``alpha`` ``[trees classes]`` or ``[classes]`` (of a `BetaPrior` ``[trees]`` or a number).
    method, clip
        The method of the fit, and the stand-in for proportions of 0, as for `fit_dirichlet_prior`; not read if a prior
        is given.

    Returns
    -------
    Forest
        Differentiable in the counts and the prior.

    Raises
    ------
    ValueError
        As for `fit_forest_prior`. Also if a given prior does not fit the forest or, outside a trace, has parameters
        that are negative or not finite.

    Warns
    -----
    PriorWarning
        If a prior that is fitted here smooths nothing (PURE), makes leaves that differ equal (CONCENTRATED), or is
        inexact (NOT_CONVERGED). The status of `fit_forest_prior` names the trees.

    Notes
    -----
    Meant for the mean of frequencies. Other combiners take the prior for instances that were seen: to those that read
    the size of a leaf (plausibility, pooling) it is larger by Σα, which is 2¹⁰⁰ where the status is CONCENTRATED. Where
    instances in empty leaves are routed on and their leaves summed, the prior is added for every leaf that they reach.

    References
    ----------
    Sutton-Charani 2020, equation 2.
    """
    check_is_forest(forest)
    if isinstance(prior, str):
        prior = fit_forest_prior(forest, level=prior, method=method, clip=clip)
        _warn_of_status(forest, prior)
    else:  # as a fit does, too
        warn_of_fractions(forest.count_table)
    alpha = checked_concentration(prior)
    shapes = ((forest.n_classes,), (forest.n_trees, forest.n_classes))
    if alpha.shape not in shapes:
        raise ValueError(
            f"the prior's parameters have shape {alpha.shape}; this forest needs {shapes[1]} (trees, classes) or "
            f"{shapes[0]}."
        )
    is_leaf = forest.trees.is_leaf
    node_alpha = jnp.broadcast_to(alpha, shapes[1])[:, None]  # [trees 1 classes]
    table, forks = forest.count_table, forest.trees.forks
    fork_counts = forest.fork_counts
    if forks is not None:
        # A fork's node may answer in place of its empty leaves, so it gets the prior, too: once, leaves summed before.
        counts_at_forks = fork_counts
        if counts_at_forks is None:
            counts_at_forks = counts_of_forks(forest.trees, forest.count_table[forest.code])
        counts_at_forks = jnp.asarray(counts_at_forks)[: forks.number]
        fork_counts = counts_at_forks.astype(float_dtype(counts_at_forks, alpha)) + node_alpha[forks.tree, 0]
    if not is_concrete(forest, alpha):
        # Traced: every node gets a row of the count table, since equal rows cannot be found.
        counts = table.astype(float_dtype(table, alpha))[forest.code] + node_alpha
        counts = jnp.where(is_leaf[..., None], counts, jnp.zeros_like(counts))
        code = jnp.arange(is_leaf.size, dtype=jnp.int32).reshape(is_leaf.shape)
        table = counts.reshape(is_leaf.size, -1)
        return dataclasses.replace(forest, count_table=table, code=code, fork_counts=fork_counts, further={})
    counts = np.asarray(table, np.float64)[np.asarray(forest.code)] + np.asarray(node_alpha, np.float64)
    table, code = distinct_counts(np.where(np.asarray(is_leaf)[..., None], counts, 0))
    dtype = jnp.result_type(float)
    if fork_counts is not None:
        fork_counts = padded_table(np.asarray(fork_counts)).astype(dtype)
    return dataclasses.replace(forest, count_table=table.astype(dtype), code=code, fork_counts=fork_counts, further={})


_OUTCOMES = {
    PriorStatus.PURE: "smooth nothing, since every leaf is pure",
    PriorStatus.CONCENTRATED: "give all leaves the same probabilities, since these differ no more than by chance",
    PriorStatus.NOT_CONVERGED: "are not as exact as they should be, since the search did not converge",
}
"""The words of the warning for each status of fitted priors that is warned of."""


def _warn_of_status(forest: Forest, prior: DirichletPrior) -> None:
    """Warn (PriorWarning), once for each status, if fitted priors of a forest do not smooth well; not if traced."""
    if not is_concrete(prior.status, forest.count_table):
        return
    status = np.atleast_1d(np.asarray(prior.status)).copy()
    if np.any(status == PriorStatus.CONCENTRATED):
        # The leaves by prior: those of a tree, or of the whole forest.
        counts = np.asarray(forest.counts, np.float64).reshape(len(status), -1, forest.n_classes)
        size = counts.sum(axis=-1, keepdims=True)
        share = np.divide(counts, size, out=np.full_like(counts, np.nan), where=size > 0)
        # Where all leaves are alike, a prior of infinite weight changes nothing, so there is no reason to warn.
        is_alike = np.nanmax(share, axis=1) - np.nanmin(share, axis=1) < 1e-9
        status[(status == PriorStatus.CONCENTRATED) & is_alike.all(axis=-1)] = PriorStatus.FITTED
    for status_kind, outcome in _OUTCOMES.items():
        if n_priors := int(np.sum(status == status_kind)):
            warn(
                f"{n_priors} of {len(status)} fitted priors {outcome}. Take another method, or larger leaves.",
                PriorWarning,
            )


class SmoothedMean(Combiner[Answer]):
    r"""The mean over trees of leaf probabilities that are drawn towards a prior: (1/K) Σ_t (n_c + α_c)/(n + Σα).

    K is the number of trees; n_c are the counts of a tree's leaf, n is their sum. It answers as `Mean` does for
    `smooth_forest`, but leaves the counts as they are for other combiners.

    Parameters
    ----------
    prior
        A prior as `fit_forest_prior` returns it: ``alpha`` ``[trees classes]``, or ``[classes]`` for all trees; a
        `BetaPrior` ``[trees]`` or of numbers.

    Raises
    ------
    ValueError
        If the parameters have other axes or, outside a trace, are negative or not finite. When called, if the counts
        have another number of classes.

    Notes
    -----
    Class scores, probability: the mean. Score: the mean for class 1 less 1/2. Leaf without instances: the prior's
    mean. No tree (all masked): 1/C. Differentiable in the prior.

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
        is_by_tree = alpha.ndim == 2
        self.by_tree = alpha if is_by_tree else None
        self.shared = None if is_by_tree else alpha

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's smoothed probabilities ``[... classes]``, and 1, to count the trees."""
        alpha = jnp.asarray(self.shared if self.by_tree is None else self.by_tree)
        if alpha.shape[-1] != counts.shape[-1]:
            raise ValueError(f"the prior has {alpha.shape[-1]} classes, but counts have {counts.shape[-1]}.")
        return {"share": shares_of(counts.astype(float_dtype(counts)) + alpha), "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of the mean probabilities: the merged ones, divided by the number of trees."""
        n_classes = stat["share"].shape[-1]
        mean = divide_by_shared(stat["share"], jnp.asarray(stat["trees"])[..., None], 1 / n_classes)
        return _of_shares(mean)


class MemberSmoothing(Combiner[Answer]):
    r"""The leaves that an instance reaches, one of each tree, smoothed by a prior that is fitted to *them*.

    For each instance the K leaves :math:`(n^t)_t` are the artificial sample: with the prior α fitted to them,

    .. math:: \hat p_c = \frac1K \sum_t \frac{n^t_c + \alpha_c}{n^t + \sum \alpha}

    So a tree with a small leaf borrows from the other trees' estimates for the same instance. The answer lies between
    those of two combiners. Where the trees agree (CONCENTRATED) it is the prior's mean, which weighs trees by the size
    of their leaves as `Pooling` does. With ``"moments"`` and pure leaves it is the mean of frequencies, as of `Mean`.

    Parameters
    ----------
    method
        How the prior is fitted, as for `fit_dirichlet_prior`. ``"moments"`` has a closed form; the likelihoods search
        for each instance.
    clip
        Stand-in for proportions of 0, as for `fit_dirichlet_prior`.

    Raises
    ------
    ValueError
        If the method is unknown or ``clip`` outside (0, 1/2); when it is called, outside (0, 1/classes).

    Notes
    -----
    The combiner is jaxunc's. The paper's conclusion only names an adjustment "at the aggregation phase with the same
    type of artificial sample", made of classifiers instead of leaves.

    Class scores, probability: as for `SmoothedMean`. It keeps the counts of every tree for a chunk of instances. Masked
    trees have no part in the fit. No tree: 1/C. Gradient: through the fit too.

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
        if not (isinstance(self.clip, float | np.floating) and 0 < self.clip < 0.5):
            raise ValueError(f"clip={self.clip!r} must be a number in (0, 1/classes), such as 0.001.")

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's counts as floats; the prior is fitted to those of all trees in `finish`."""
        return counts.astype(float_dtype(counts))

    def finish(self, stat: Num[Array, "... trees classes"]) -> Answer:
        """Return the answer of the mean probabilities of leaves that are smoothed by a prior fitted to these leaves."""
        # Masked trees come as NaN; as empty leaves they have no weight in the fit.
        is_present = ~jnp.isnan(stat).any(axis=-1)
        counts = jnp.where(is_present[..., None], stat, 0.0)
        prior = fit_dirichlet_prior(counts, self.method, self.clip)
        share = shares_of(counts + prior.alpha[..., None, :])
        total = sum_in_order(jnp.where(is_present[..., None], share, 0.0), -2)
        n_trees = jnp.sum(is_present, axis=-1, dtype=jnp.int32)[..., None].astype(total.dtype)
        return _of_shares(divide_by_shared(total, n_trees, 1 / total.shape[-1]))


def _of_shares(shares) -> Answer:
    """Return the answer whose probabilities, and class scores, are ``shares [... classes]``."""
    score = shares[..., 1] - 0.5 if shares.shape[-1] == 2 else None
    return Answer.from_shares(shares, shares, score)

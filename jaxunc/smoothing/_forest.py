"""Smoothing of all leaves of a forest."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_one_of, is_concrete, warn, warn_of_fractions
from jaxunc._numerics import distinct_counts, float_dtype, padded_table
from jaxunc.forest import Forest, check_is_forest, counts_of_forks

from ._fit import Method, fit_dirichlet_prior
from ._prior import BetaPrior, DirichletPrior, PriorStatus, PriorWarning, checked_concentration

Level = Literal["tree", "forest"]


def fit_forest_prior(
    forest: Forest, *, level: Level = "tree", method: Method = "weighted_mle", clip: float = 1e-3
) -> DirichletPrior:
    """Fit a prior to each tree's own leaves, or one prior to all leaves of the forest.

    Parameters
    ----------
    forest
        The forest; any number of classes.
    level
        ``"tree"``: a prior for each tree, as the paper has it. ``"forest"``: the leaves of all trees are one sample.
    method, clip
        See `fit_dirichlet_prior`.

    Returns
    -------
    DirichletPrior
        ``alpha`` ``[trees classes]`` and ``status`` ``[trees]``; or ``[classes]`` and a scalar.

    Raises
    ------
    ValueError
        If the level is unknown, or as for `fit_dirichlet_prior`: a tree whose leaves all have no counts is refused.

    References
    ----------
    Sutton-Charani 2020, section 3; the forest's prior is not in the paper.
    """
    check_is_forest(forest)
    check_one_of("level", level, ("tree", "forest"))
    counts = forest.counts if not is_concrete(forest.count_table, forest.code) else np.asarray(forest.counts)
    return fit_dirichlet_prior(counts if level == "tree" else counts.reshape(-1, forest.n_classes), method, clip)


def smooth_forest(
    forest: Forest,
    prior: Level | BetaPrior | DirichletPrior = "tree",
    *,
    method: Method = "weighted_mle",
    clip: float = 1e-3,
) -> Forest:
    """Return the same trees with the prior's instances added to the counts of their leaves.

    Relative frequencies of the new counts are the smoothed probabilities (n_c + α_c)/(n + Σα): `Mean` then averages
    smoothed trees, and of a single tree answers with the corrected leaves of the paper.

    Parameters
    ----------
    forest
        The forest.
    prior
        ``"tree"`` or ``"forest"``: the prior is fitted, as `fit_forest_prior` does it. Or one that was fitted, with
        ``alpha`` ``[trees classes]`` or ``[classes]`` (of a `BetaPrior` ``[trees]`` or a number).
    method, clip
        See `fit_dirichlet_prior`; not read if a prior is given.

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
        If a prior that is fitted here smooths nothing (PURE), or gives the same probabilities to leaves that differ
        (CONCENTRATED). Also if it is not as exact as it should be (NOT_CONVERGED). `fit_forest_prior` says of which
        trees.

    Notes
    -----
    For the mean of frequencies. Other rules take the prior's instances for instances that were seen: those that read
    how much a leaf rests on (plausibility, pooling) then believe it to rest on Σα more, which where the status is
    CONCENTRATED is 2¹⁰⁰. `SmoothedMean` leaves the counts as they are. Where instances in empty leaves are routed on
    and summed, the prior is added for every leaf that they reach.

    References
    ----------
    Sutton-Charani 2020, equation 2.
    """
    check_is_forest(forest)
    if isinstance(prior, str):
        prior = fit_forest_prior(forest, level=prior, method=method, clip=clip)
        _warn_of_status(forest, prior)
    else:  # as the fit does
        warn_of_fractions(forest.count_table)
    alpha = checked_concentration(prior)
    shapes = ((forest.n_classes,), (forest.n_trees, forest.n_classes))
    if alpha.shape not in shapes:
        raise ValueError(
            f"the prior's parameters have shape {alpha.shape}; this forest needs {shapes[1]} (trees, classes) or "
            f"{shapes[0]}."
        )
    leaf, by_node = forest.trees.is_leaf, jnp.broadcast_to(alpha, shapes[1])[:, None]
    table, forks = forest.count_table, forest.trees.forks
    fork_counts = forest.fork_counts
    if forks is not None:
        own = counts_of_forks(forest.trees, forest.count_table[forest.code]) if fork_counts is None else fork_counts
        own = jnp.asarray(own)[: forks.number]
        fork_counts = own.astype(float_dtype(own, alpha)) + by_node[forks.tree, 0]
    if not is_concrete(forest, alpha):
        # Traced: every node keeps a row of its own, since distinct rows cannot be told.
        counts = table.astype(float_dtype(table, alpha))[forest.code] + by_node
        counts = jnp.where(leaf[..., None], counts, jnp.zeros_like(counts))
        code = jnp.arange(leaf.size, dtype=jnp.int32).reshape(leaf.shape)
        table = counts.reshape(leaf.size, -1)
        return dataclasses.replace(forest, count_table=table, code=code, fork_counts=fork_counts, further={})
    counts = np.asarray(table, np.float64)[np.asarray(forest.code)] + np.asarray(by_node, np.float64)
    table, code = distinct_counts(np.where(np.asarray(leaf)[..., None], counts, 0))
    dtype = jnp.result_type(float)
    if fork_counts is not None:
        fork_counts = padded_table(np.asarray(fork_counts)).astype(dtype)
    return dataclasses.replace(forest, count_table=table.astype(dtype), code=code, fork_counts=fork_counts, further={})


_OUTCOMES = {
    PriorStatus.PURE: "smooth nothing, since every leaf is pure",
    PriorStatus.CONCENTRATED: "give all leaves the same probabilities, since these differ no more than by chance",
    PriorStatus.NOT_CONVERGED: "are not as exact as they should be, since the search did not converge",
}


def _warn_of_status(forest: Forest, prior: DirichletPrior) -> None:
    """Warn of fitted priors that do not smooth well: one for all leaves, or one for each tree."""
    if not is_concrete(prior.status, forest.count_table):
        return
    status = np.atleast_1d(np.asarray(prior.status)).copy()
    if np.any(status == PriorStatus.CONCENTRATED):
        counts = np.asarray(forest.counts, np.float64).reshape(len(status), -1, forest.n_classes)
        size = counts.sum(axis=-1, keepdims=True)
        share = np.divide(counts, size, out=np.full_like(counts, np.nan), where=size > 0)
        # Leaves that are all alike lose nothing by a prior of infinite weight; only others are a reason to warn.
        alike = np.nanmax(share, axis=1) - np.nanmin(share, axis=1) < 1e-9
        status[(status == PriorStatus.CONCENTRATED) & alike.all(axis=-1)] = PriorStatus.FITTED
    for one, outcome in _OUTCOMES.items():
        if number := int(np.sum(status == one)):
            warn(
                f"{number} of {len(status)} fitted priors {outcome}. Take another method, or larger leaves.",
                PriorWarning,
            )

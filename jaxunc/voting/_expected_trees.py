"""Expected numbers of trees that a vote takes: for known probabilities, and for a sample of instances.

With two classes the lead is a random walk, which is followed exactly (`_open_walks`); with more, votes are simulated
(`_open_votes`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Num

from jaxunc._checks import check_class_axis, check_confidence, check_counts, check_within, checked_key
from jaxunc._numerics import jit
from jaxunc.tables import NumbersLike

from ._leader_probability import Criterion, Population
from ._stopping_rules import StoppingRule, Thresholds, checked_promise, make_rule
from ._vote_prior import checked_prior, fit_vote_prior
from ._win_probability import checked_probabilities

DRAWS = 2000  # number of votes that are simulated for each probability vector of three classes or more

LARGEST_SAMPLE = 2000  # largest number of instances that `forest_size_for` looks at


class ExpectedTrees(NamedTuple):
    """Expected number of trees that a vote uses, and the probability that the vote is settled."""

    n_trees_used: Float[np.ndarray, "..."]
    """Mean number of trees used; a vote that is not settled uses ``max_trees``."""
    settled: Float[np.ndarray, "..."]
    """Probability that ``max_trees`` trees or fewer settle the vote."""


class ForestSize(NamedTuple):
    """For several sizes of a forest, the share of a sample's instances whose votes such a forest settles."""

    n_trees: Int[np.ndarray, "sizes"]
    """Sizes of forests."""
    settled: Float[np.ndarray, "sizes"]
    """Share of instances that a forest of that size settles."""
    n_trees_used: Float[np.ndarray, "sizes"]
    """Mean number of trees used."""
    needed: int | None
    """Least number of trees that settle the ``share`` of `forest_size_for`; None if ``max_trees`` do not."""

    @property
    def unsettled(self) -> float:
        """Share of instances whose vote even the largest forest does not settle.

        More trees settle more instances, but slowly: of nearly tied votes ten times as many trees leave unsettled about
        a third of those before.
        """
        return 1 - float(self.settled[-1])


def expected_trees(
    p: Float[Array | np.ndarray, "... classes"],
    confidence: float | None = None,
    *,
    disagreement: float | None = None,
    criterion: Criterion = "bound",
    population: Population = "infinite",
    max_trees: int = 1000,
    prior: NumbersLike = 1.0,
    key: jax.Array | None = None,
) -> ExpectedTrees:
    r"""Return the mean number of trees that a vote uses, if each tree votes for class i with probability p_i.

    For two classes the mean is exact: the distribution of the lead among open votes is followed tree by tree. For more
    classes it is the mean over 2000 simulated votes.

    No tree abstains here. If each abstains with probability q, independently of its vote, multiply ``max_trees`` and
    the mean number of trees used by 1/(1 - q).

    Parameters
    ----------
    p
        Probabilities of a vote ``[... classes]``, adding to 1.
    confidence, disagreement, criterion, population
        See `stop_after`. A finite population has ``max_trees`` trees.
    max_trees
        Largest number of trees used. Without a limit every vote would be settled in the end, also at p = 1/2: the lead
        of a random walk exceeds any multiple of √t some time.
    prior
        See `stop_after`.
    key
        Random key of the simulated votes; by default ``jax.random.key(0)``.

    Returns
    -------
    ExpectedTrees
        Mean and probability of being settled, ``[...]``, float64.

    Raises
    ------
    ValueError
        If ``p`` does not hold probabilities, and as `stop_after`. For three classes and more only ``"certain"`` is
        taken, and ``"bound"`` for an infinite population with one prior for all classes: the others have no table.

    References
    ----------
    Hernández-Lobato et al. 2011, section 2.2 and Figure 4, computed there by drawing.

    Examples
    --------
    >>> print(expected_trees(np.array([[0.0, 1.0], [0.3, 0.7]]), 0.99, max_trees=101).n_trees_used.round(1))
    [ 6.  31.4]
    """
    values = checked_probabilities(p)
    rows = values.reshape(-1, values.shape[-1])
    shape = values.shape[:-1]
    promise = checked_promise(criterion, confidence, disagreement)
    rule = _make_tabled_rule(rows.shape[1], max_trees, promise, prior, criterion, population)
    open_share = _left_open(rows, rule, max_trees, checked_key(key))
    # A tree is used by the votes that are still open before it.
    return ExpectedTrees(open_share[:-1].sum(axis=0).reshape(shape), 1 - open_share[-1].reshape(shape))


def forest_size_for(
    vote_counts: Num[Array | np.ndarray, "instances classes"],
    confidence: float,
    *,
    share: float = 0.95,
    max_trees: int = 2000,
    prior: NumbersLike | None = None,
    key: jax.Array | None = None,
) -> ForestSize:
    """Return how many trees a forest needs to settle a share of instances, from the votes of a small forest.

    Each instance's probabilities of a vote have a Dirichlet posterior, whose prior is fitted to the sample. They are
    drawn once for each instance (2000 of them at most), and votes are followed as in `expected_trees`.

    Parameters
    ----------
    vote_counts
        Votes of some tens of trees for instances that these were not grown on, ``[instances classes]``. Trees that
        abstain count neither here nor in the answer: if a share q abstains, divide the returned numbers by 1 - q.
    confidence
        See `stop_after`. The criterion is ``"bound"``; `optimal_votes` returns what ``"optimal"`` costs.
    share
        The share of instances to be settled, in (0, 1).
    max_trees
        The largest forest that is looked at.
    prior
        α of the sample's Dirichlet prior; by default that of `fit_vote_prior`, which warns and takes the uniform prior
        where nothing can be learned. The stopping rule always has the uniform prior.
    key
        Random key; by default ``jax.random.key(0)``.

    Returns
    -------
    ForestSize
        For sizes from 1 to ``max_trees``, in about equal ratios. ``needed`` is the answer, ``unsettled`` the share that
        ``max_trees`` trees leave open.

    Raises
    ------
    ValueError
        If votes, confidence, share or prior are not as above.
    """
    check_class_axis(vote_counts, "vote_counts")
    check_counts(vote_counts, "vote_counts")
    counts = np.asarray(vote_counts, float)
    if counts.ndim != 2 or not len(counts):
        raise ValueError(f"vote_counts has shape {counts.shape}; expected [instances classes], one instance at least.")
    check_within("share", share, "(0, 1)")
    alpha = fit_vote_prior(counts) if prior is None else checked_prior(prior, counts.shape[1])
    draw_key, vote_key = jax.random.split(checked_key(key))
    if len(counts) > LARGEST_SAMPLE:
        counts = counts[np.linspace(0, len(counts) - 1, LARGEST_SAMPLE).astype(int)]
    # p is not known: one draw for each instance from its posterior.
    p = np.asarray(jax.random.dirichlet(draw_key, jnp.asarray(counts + alpha)), float)
    check_confidence(confidence)
    rule = _make_tabled_rule(counts.shape[1], max_trees, confidence, 1.0)
    open_share = _left_open(p, rule, max_trees, vote_key, draws=1).mean(axis=1)
    sizes = np.unique(np.geomspace(1, max_trees, 8 * len(str(max_trees)) + 8).round().astype(int))
    # A tree is used by the votes that are still open before it.
    trees_used = np.cumsum(open_share)
    enough = np.flatnonzero(1 - open_share >= share)
    return ForestSize(sizes, 1 - open_share[sizes], trees_used[sizes - 1], int(enough[0]) if len(enough) else None)


def _make_tabled_rule(
    n_classes: int,
    max_trees: int,
    promise: float,
    prior,
    criterion: Criterion = "bound",
    population: Population = "infinite",
) -> StoppingRule:
    """Return the stopping rule with a table for votes of at most ``max_trees`` trees, none of which abstains.

    ``promise`` is the disagreement for criterion "optimal", else the confidence. The other arguments are those of
    `stop_after`. Raises a ValueError for settings that have no table: their trees cannot be counted beforehand.
    """
    rule = make_rule(n_classes, max_trees, promise, criterion, population, prior)
    if rule is not None:
        return rule
    if criterion == "bound" and population == "infinite":
        raise ValueError("prior differs between classes, which three classes and more cannot have here; pass a number.")
    raise ValueError(
        f"criterion={criterion!r} of a population={population!r} has no table for {n_classes} classes, so its "
        "trees cannot be counted here; choose criterion='bound' of population='infinite', or 'certain'."
    )


def _left_open(p: np.ndarray, rule: StoppingRule, max_trees: int, key, draws=DRAWS) -> Float[np.ndarray, "polled n"]:
    """Return the probability that a vote is not settled by 0, 1, … ``max_trees`` trees, for each row of ``p``.

    A row of ``p [n classes]`` has the probabilities with which a tree votes for each class. The result is exact for two
    classes; for more it is a share of ``draws`` votes that are simulated for each row by the random ``key``.
    """
    if isinstance(rule, Thresholds):
        least_votes = np.asarray(rule.least, np.int64)
        t = np.arange(max_trees + 1)
        # Class 1 with v of t votes has the lead 2v - t. A lead of ``high`` or more settles the vote for class 1, one of
        # ``low`` or less for class 0. No lead reaches ±(t + 1): it stands for votes that cannot be settled.
        high = np.minimum(2 * least_votes[1] - t, t + 1)
        low = np.maximum(t - 2 * least_votes[0], -t - 1)
        widest = int(max(high.max(), -low.min()))
        open_share = _open_walks(jnp.asarray(p[:, 1]), jnp.asarray(low), jnp.asarray(high), widest)
        return np.concatenate([np.ones((1, len(p))), np.asarray(open_share, float)])
    return np.asarray(_open_votes(rule, jnp.log(jnp.asarray(p)), key, max_trees, draws), float)


@jit(static_argnames="widest")
def _open_walks(p: Float[Array, "n"], low: Int[Array, "polled"], high: Int[Array, "polled"], widest: int):
    """Return the probability ``[trees n]`` that a vote of two classes is not settled by 1, 2, … trees.

    A tree votes for class 1 with the probability ``p``, so the lead of class 1 is a random walk. After t trees a lead
    of ``low[t]`` or less, or of ``high[t]`` or more, settles the vote; leads lie within ±``widest``.
    """
    # One entry beyond the widest lead on either side takes what has just been settled, and is then set to 0.
    lead = jnp.arange(-widest - 1, widest + 2)

    def step(state, bounds):
        """Return (state after one more tree, probability ``[n]`` that the vote is open).

        ``state`` has the probability of each lead of an open vote, ``[n leads]``. ``bounds`` are ``low`` and ``high``
        for this tree.
        """
        low_lead, high_lead = bounds
        # A vote for class 1 raises the lead by one, another lowers it by one.
        up = jnp.pad(state[:, :-1], ((0, 0), (1, 0))) * p[:, None]
        down = jnp.pad(state[:, 1:], ((0, 0), (0, 1))) * (1 - p[:, None])
        state = jnp.where((lead < high_lead) & (lead > low_lead), up + down, 0.0)
        return state, jnp.sum(state, axis=1)

    start = jnp.broadcast_to((lead == 0).astype(p.dtype), (p.shape[0], lead.shape[0]))
    return lax.scan(step, start, (low[1:], high[1:]))[1]


@jit(static_argnames=("max_trees", "draws"))
def _open_votes(rule: StoppingRule, log_p: Float[Array, "n classes"], key, max_trees: int, draws: int):
    """Return the share of simulated votes that ``rule`` has not settled after 0, 1, … trees, ``[1 + max_trees, n]``.

    ``draws`` votes are simulated for each row of ``log_p``, the log probabilities with which a tree votes for a class.
    """
    n = log_p.shape[0]
    votes = jnp.zeros((rule.n_rows, n * draws), jnp.int32)

    def step(carry, t):
        """Return (votes and whether they are settled after tree t, share of open votes for each row)."""
        votes, settled = carry
        # The key of a tree depends on its number only, so that a larger max_trees continues the same votes.
        vote = jax.random.categorical(jax.random.fold_in(key, t), log_p[:, None], axis=-1, shape=(n, draws))
        votes = rule.add(votes, vote.reshape(-1), ~settled)
        settled = settled | rule.holds(votes, t)
        return (votes, settled), jnp.mean((~settled).reshape(n, draws), axis=1)

    trees = jnp.arange(1, max_trees + 1, dtype=jnp.int32)
    open_share: Float[Array, "polled n"] = lax.scan(step, (votes, jnp.zeros(n * draws, bool)), trees)[1]
    return jnp.concatenate([jnp.ones((1, n), open_share.dtype), open_share])

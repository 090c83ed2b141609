"""Stopping rules: tables of integers that tell from votes alone whether they are settled.

`make_rule` returns the `StoppingRule` of a criterion:

| criterion | classes | rule | table |
|---|---|---|---|
| "bound", "exact" | two | `Thresholds` | by t the least votes of each class, `critical_votes` |
| the same, finite population | two | `Thresholds` | `critical_final_votes` |
| "optimal" | two | `Thresholds` | `optimal_votes` |
| "bound" | more | `Costs` | the factors of Eq. 8 as integers |
| "certain" | any | `Leads`; of two classes `Thresholds` | by t the lead with which nothing can change |

`ThresholdsByVotes` takes the place of `Thresholds` where trees may abstain. What has no table is left to
`_stop_after.ProbabilityRule`.
"""

import abc
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32
from scipy.special import betainc

from jaxunc._checks import check_confidence, check_integer, check_one_of, is_concrete
from jaxunc._numerics import take
from jaxunc.tables import NumbersLike

from ._leader_probability import POPULATIONS, Criterion, Population, allowed_loss, overtaken_by_one
from ._optimal_boundary import DISAGREEMENT, check_disagreement, optimal_votes
from ._vote_prior import checked_prior

CONFIDENCE = 0.99  # the confidence by default

NEVER = 2**30  # number of votes that no forest reaches: more than there are trees
MOST_CLASSES = 2**15 - 1  # most classes of `Costs`: of more the costs of the rivals, 1 at least, exceed the budget


def checked_promise(criterion: Criterion, confidence: float | None, disagreement: float | None) -> float:
    """Return the number that a criterion promises to keep: the disagreement for "optimal", else the confidence.

    The number is checked; None stands for its default. Raises a ValueError for an unknown criterion, for a number out
    of range, and if the number that the criterion does not use is passed.
    """
    check_one_of("criterion", criterion, get_args(Criterion))
    if criterion == "optimal":
        if confidence is not None:
            raise ValueError(
                f"confidence={confidence!r} is a promise for each instance, but criterion='optimal' makes one for the "
                "mean of all: pass disagreement=0.01 for one in a hundred, or choose criterion='bound'."
            )
        disagreement = DISAGREEMENT if disagreement is None else disagreement
        check_disagreement(disagreement)
        return float(disagreement)
    if disagreement is not None:
        raise ValueError(
            f"disagreement={disagreement!r} is what criterion='optimal' promises for the mean of all instances; "
            f"criterion={criterion!r} makes a promise for each: pass a confidence, or choose criterion='optimal'."
        )
    confidence = CONFIDENCE if confidence is None else confidence
    check_confidence(confidence)
    return float(confidence)


class StoppingRule(eqx.Module):
    """A stopping rule: how the votes for n instances are counted, and when each instance's vote is settled.

    Votes are int32 ``[rows n]``, with a row for each class. With two classes, if no tree abstains, there is one row:
    the votes for class 1.
    """

    n_classes: eqx.AbstractVar[int]
    first: eqx.AbstractVar[Int32[np.ndarray | Array, ""]]
    """Least number of trees that can settle a vote; more than there are if none can."""

    @property
    def n_rows(self) -> int:
        """Number of rows of votes."""
        return self.n_classes

    def add(self, votes: Int32[Array, "rows n"], vote: Array, counts: Bool[Array, "n"]) -> Int32[Array, "rows n"]:
        """Return ``votes`` plus one tree's votes, which are added for the instances where ``counts`` is True.

        ``vote [n]`` is the class that the tree votes for; ``n_classes`` where it abstains.
        """
        if self.n_rows == 1:
            return votes + jnp.where(counts, vote.astype(jnp.int32), 0)
        is_voted_for = (jnp.arange(self.n_classes, dtype=jnp.int32)[:, None] == vote.astype(jnp.int32)) & counts
        return votes + is_voted_for.astype(jnp.int32)

    def by_class(self, votes: Int32[Array, "rows n"], polled: Int32[Array, "n"]) -> Int32[Array, "n classes"]:
        """Return ``votes`` as a column for each class; ``polled`` is the number of trees that each instance used."""
        return jnp.stack([polled - votes[0], votes[0]], axis=1) if self.n_rows == 1 else votes.T

    @abc.abstractmethod
    def holds(self, votes: Int32[Array, "rows n"], t: Int32[Array, ""]) -> Bool[Array, "n"]:
        """Return whether each instance's vote is settled after ``t`` trees."""


class Thresholds(StoppingRule):
    """Rule for two classes if no tree abstains: the least votes with which each class wins, by number of trees used."""

    least: Int32[np.ndarray | Array, "2 polled"]
    first: Int32[np.ndarray | Array, ""]
    n_classes: int = eqx.field(static=True, default=2)

    @property
    def n_rows(self) -> int:
        """1: only the votes for class 1 are counted; class 0 has the rest of the trees."""
        return 1

    def holds(self, votes, t):
        """Return whether class 0 or class 1 has the votes that it needs after ``t`` trees."""
        ones = votes[0]
        return (ones >= self.least[1, t]) | (t - ones >= self.least[0, t])


class ThresholdsByVotes(StoppingRule):
    """Rule for two classes if trees may abstain: the least votes with which each class wins, by number of votes."""

    least: Int32[np.ndarray | Array, "2 voted"]
    first: Int32[np.ndarray | Array, ""]
    of_all: bool = eqx.field(static=True, default=False)  # whether the thresholds hold only while no tree has abstained
    n_classes: int = eqx.field(static=True, default=2)

    def holds(self, votes, t):
        """Return whether the leading class, in a tie class 0, has the votes that it needs.

        With ``of_all`` no instance is settled after a tree has abstained.
        """
        zeros, ones = votes
        voted = zeros + ones
        leader = (ones > zeros).astype(jnp.int32)
        # One flat gather in place of one for each class.
        least = take(jnp.asarray(self.least).reshape(-1), leader * self.least.shape[1] + voted)
        settled = jnp.maximum(zeros, ones) >= least
        return settled & (voted == t) if self.of_all else settled


class Costs(StoppingRule):
    """Rule for three classes and more: the sum of a cost for each rival has to be within a budget.

    The ``cost`` of a rival is -log I, where I is its factor in Eq. 8 (`win_probability`), scaled and rounded up to an
    integer: sums of floats would depend on how a compiler orders them. The factor depends on the rival's votes and the
    lead over it alone.
    """

    cost: Int32[np.ndarray | Array, "rivals leads"]
    budget: Int32[np.ndarray | Array, ""]
    first: Int32[np.ndarray | Array, ""]
    n_classes: int = eqx.field(static=True)

    def holds(self, votes, t):
        """Return whether the sum of the rivals' costs is within the budget; never in a tie."""
        leader_votes = jnp.max(votes, axis=0)
        n_rival_votes, n_leads = self.cost.shape
        row = jnp.minimum(votes, n_rival_votes - 1)
        column = jnp.minimum(leader_votes - votes, n_leads - 1)  # a lead beyond the table costs no more than the last
        costs = take(jnp.asarray(self.cost).reshape(-1), row * n_leads + column)
        # The sum takes the leader for a rival with lead 0: that cost is subtracted once. A tied rival's cost remains,
        # and is above the budget.
        return jnp.sum(costs, axis=0) - self.cost[0, 0] <= self.budget


class Leads(StoppingRule):
    """Rule for criterion "certain": the least lead that the remaining trees cannot make up for, by trees used."""

    least: Int32[np.ndarray | Array, "polled"]
    first: Int32[np.ndarray | Array, ""]
    n_classes: int = eqx.field(static=True)

    def holds(self, votes, t):
        """Return whether the lead over the runner-up is at least that of the table for ``t`` trees."""
        leader_votes = jnp.max(votes, axis=0)
        is_leader = jnp.arange(self.n_classes)[:, None] == jnp.argmax(votes, axis=0)
        return leader_votes - jnp.max(jnp.where(is_leader, -1, votes), axis=0) >= self.least[t]


def make_rule(
    n_classes: int,
    max_trees: int,
    promise: float,
    criterion: Criterion,
    population: Population,
    prior,
    *,
    n_trees: int | None = None,
    abstaining: bool | None = False,
) -> StoppingRule | None:
    """Return the stopping rule that compares votes with a table; None for settings that have no table.

    ``criterion``, ``population`` and ``prior`` are as for `stop_after`, whose errors are raised. ``promise`` is what
    `checked_promise` returns. At most ``max_trees`` trees vote. The whole population has ``n_trees`` (None:
    ``max_trees``), which a finite population and criterion "certain" need. ``abstaining`` says whether a tree may
    abstain; None if that is not known, since votes are traced.
    """
    check_integer("max_trees", max_trees, 1)
    check_one_of("population", population, POPULATIONS)
    n_trees = max_trees if n_trees is None else n_trees
    is_finite = population == "finite"
    if criterion == "optimal":
        least_votes = optimal_table(n_classes, max_trees, promise, population, prior, n_trees=n_trees)
        return None if is_finite and abstaining else _thresholds(least_votes, population, abstaining)
    alpha = checked_prior(prior, n_classes)
    if criterion == "certain":
        return _certain(n_classes, n_trees, abstaining)
    if n_classes == 2 and not (is_finite and abstaining):
        if is_finite:
            least_votes = critical_final_votes(n_trees, promise, prior=prior)
        else:
            least_votes = critical_votes(max_trees, promise, prior=prior)
        return _thresholds(least_votes, population, abstaining)
    if criterion == "bound" and not is_finite and np.all(alpha == alpha[0]):
        return _costs(n_classes, max_trees, promise, float(alpha[0]))
    return None


def _thresholds(table, population: Population, abstaining: bool | None) -> StoppingRule:
    """Return the rule for two classes that compares votes with a ``table`` of the least votes with which a class wins.

    The table is ``[2 votes]``, or ``[votes]`` for both classes; -1 where no number of votes suffices. ``abstaining`` is
    as for `make_rule`. The table of a finite ``population`` holds only while no tree has abstained.
    """
    # Any number of votes would reach -1; none reaches `NEVER`.
    least_votes = np.broadcast_to(table, (2, np.shape(table)[-1]))
    least_votes = np.where(least_votes < 0, NEVER, least_votes).astype(np.int32)
    first = _first((least_votes < NEVER).any(axis=0))
    if abstaining is False:
        return Thresholds(least=least_votes, first=first)
    return ThresholdsByVotes(least=least_votes, first=first, of_all=population == "finite")


def _certain(n_classes: int, n_trees: int, abstaining: bool | None) -> StoppingRule:
    """Return the rule for criterion "certain": the lead has to exceed the number of trees that remain of ``n_trees``.

    ``abstaining`` is as for `make_rule`.
    """
    # As long as half of the trees remain, they could all vote for a rival.
    first = np.array(n_trees // 2 + 1, np.int32)
    if n_classes == 2 and abstaining is False:  # t₁ - (t - t₁) > T - t, so t₁ > T/2
        return Thresholds(least=np.full((2, n_trees + 1), first, np.int32), first=first)
    return Leads(least=np.arange(n_trees + 1, 0, -1, dtype=np.int32), first=first, n_classes=n_classes)


def _costs(n_classes: int, max_trees: int, confidence: float, alpha: float) -> Costs:
    """Return the rule of Eq. 8 (`win_probability`) for at most ``max_trees`` trees, with one α for all classes."""
    if n_classes > MOST_CLASSES:
        raise ValueError(
            f"criterion='bound' with one prior is for {MOST_CLASSES} classes at most, and there are {n_classes}; "
            "choose criterion='certain'."
        )
    # The confidence stands for a cost of cap - 1. It has to be exceeded, so the budget is cap - 2. Costs are limited to
    # ``cap``: one such rival alone leaves the vote open.
    cap = 2**30 // n_classes  # so that all costs together fit an int32
    scale = (cap - 1) / -np.log(confidence)
    # Up to 8 standard deviations √n of the lead between two equally probable classes with n votes, 2 α of the prior
    # among them. There a rival wins with 6e-16: not seldom enough for many classes, or a confidence next to 1.
    deviations = 8 if (1 - confidence) / n_classes > 1e-14 else 10
    leads = range(int(min(max_trees, deviations * (max_trees + 2 * alpha) ** 0.5 + 8)) + 1)
    cost = np.zeros((max_trees // 2 + 1, len(leads)), np.int32)
    for lead in leads:
        rivals = np.arange((max_trees - lead) // 2 + 1)  # the votes that a rival can have beside this lead
        with np.errstate(divide="ignore"):
            exact_cost = -np.log1p(-betainc(rivals + lead + alpha, rivals + alpha, 0.5)) * scale
        # Rounded up, so that a sum within the budget holds for the exact logarithms, too.
        cost[: len(rivals), lead] = np.ceil(np.minimum(exact_cost, cap))
    cost[:, 0] = cap  # a tie never settles
    # Of t votes the costs are least if all are for the leader, and its n_classes - 1 rivals have none.
    can_settle = (n_classes - 1) * cost[0].astype(np.int64) <= cap - 2
    return Costs(cost=cost, budget=np.array(cap - 2, np.int32), first=_first(can_settle), n_classes=n_classes)


def _first(able) -> np.ndarray:
    """Return the least number t of trees that can settle a vote, by ``able[t]``; `NEVER` if no number can."""
    return np.array(able.argmax() if able.any() else NEVER, np.int32)


def critical_votes(max_trees: int, confidence: float, *, prior: NumbersLike = 1.0) -> Int32[np.ndarray, "..."]:
    r"""Return the least votes of t trees with which the leader of two classes wins the vote of an infinite ensemble.

    .. math:: t^*(t; \pi) = \min\{t_1 > t/2 : I_{1/2}(t - t_1 + \alpha,\; t_1 + \alpha) > \pi\}

    For α = 1 it is computed in integers (by the binomial sum of Eq. 7), so that no rounding decides; a confidence such
    as .99 is the double nearest to it. For any other prior the incomplete beta function is computed in float64. Trees
    that abstain are not counted in t.

    Parameters
    ----------
    max_trees
        The largest t.
    confidence
        π in (.5, 1), both excluded.
    prior
        α of the Dirichlet prior: one number, or one for each of two classes.

    Returns
    -------
    np.ndarray
        Least votes ``[max_trees + 1]``, by t; -1 where no number of votes suffices. If ``prior`` has a number for each
        class ``[2 max_trees+1]``, for class 0 and class 1.

    Raises
    ------
    TypeError, ValueError
        If ``max_trees`` is not a positive integer, the confidence is outside of (.5, 1), or the prior is not positive.

    References
    ----------
    Hernández-Lobato et al. 2011, section 2.2 and Figure 3.

    Examples
    --------
    >>> critical_votes(8, 0.99)
    array([-1, -1, -1, -1, -1, -1,  6,  7,  8], dtype=int32)
    """
    check_integer("max_trees", max_trees, 1)
    check_confidence(confidence)
    alpha: np.ndarray = checked_prior(prior, 2)

    def table(leader_alpha: float, rival_alpha: float) -> Int32[np.ndarray, "polled"]:
        """Return the least votes of a class, by t, from its α and its rival's."""
        if leader_alpha == rival_alpha == 1:
            return _exact_table(max_trees, confidence)
        lost = lambda t, rival: float(betainc(t - rival + leader_alpha, rival + rival_alpha, 0.5))
        return _least_votes(max_trees, lost, 1 - confidence)

    return table(*alpha) if np.ndim(prior) == 0 else np.stack([table(*alpha), table(*alpha[::-1])])


def critical_final_votes(
    max_trees: int, confidence: float, *, prior: NumbersLike = 1.0
) -> Int32[np.ndarray, "2 polled"]:
    """Return the least votes of t trees with which a class wins the vote of all ``max_trees`` trees.

    Given t votes, the votes of the remaining trees are Beta-binomial. Class 0 wins a tie. No tree abstains: where one
    may, `stop_after` computes the probability itself. Arguments and errors are those of `critical_votes`. The table is
    ``[2 max_trees+1]``, for class 0 and class 1; -1 where no number of votes suffices (Hernández-Lobato et al. 2009).

    >>> critical_final_votes(8, 0.99)
    array([[-1, -1, -1,  3,  4,  4,  4,  4,  4],
           [-1, -1, -1, -1,  4,  5,  5,  5,  5]], dtype=int32)
    """
    check_integer("max_trees", max_trees, 1)
    check_confidence(confidence)
    alpha: np.ndarray = checked_prior(prior, 2)

    def lost(c: int) -> Callable[[int, int], float]:
        """Return the function ``lost`` of `_least_votes` for class ``c`` as the leader."""
        shapes = float(alpha[c]), float(alpha[1 - c])
        return lambda t, rival: overtaken_by_one(t - rival, rival, max_trees, shapes, first=c == 1)

    allowed = allowed_loss(confidence)
    return np.stack([_least_votes(max_trees, lost(c), allowed, wins_tie=c == 0) for c in (0, 1)])


def _exact_table(max_trees: int, confidence: float) -> Int32[np.ndarray, "polled"]:
    """Return the table of `critical_votes` for α = 1, in whole numbers.

    If the rival has m of t votes, the leader loses with probability 2⁻ⁿ Σ_{k≤m} C(n, k), n = t + 1. The largest m
    with which the vote is settled (-1: none) grows by one at most from one n to the next. So the sum is carried along,
    with its next term: by Pascal's rule Σ_{k≤m} C(n, k) = 2 Σ_{k≤m} C(n-1, k) - C(n-1, m).
    """
    # Whole numbers from here on: a vote that just reaches the confidence must not depend on rounding.
    allowed = 1 - Fraction(float(confidence))
    least_votes = np.full(max_trees + 1, -1, np.int32)
    m = -1
    total, next_term = 0, 1  # Σ_{k≤m} C(n, k) and C(n, m + 1), here for n = 1
    for n in range(2, max_trees + 2):
        total = 2 * total - next_term * (m + 1) // (n - 1 - m)  # the quotient is C(n-1, m)
        next_term = next_term * n // (n - 1 - m)  # C(n, m+1) from C(n-1, m+1)
        if (total + next_term) * allowed.denominator < allowed.numerator << n:
            total, m = total + next_term, m + 1
            next_term = next_term * (n - m) // (m + 1)
        if m >= 0:  # t = n - 1 votes, m of them for the rival
            least_votes[n - 1] = n - 1 - m
    return least_votes


def _least_votes(
    max_trees: int, lost: Callable[[int, int], float], allowed: float, *, wins_tie: bool = False
) -> Int32[np.ndarray, "polled"]:
    """Return the least votes of t trees, by t, with which the leader loses with a probability below ``allowed``.

    ``lost(t, votes of the rival)`` is the probability that the leader loses. A class that ``wins_tie`` leads in a tie,
    too. The result is -1 where no number of votes is enough.
    """
    least_votes = np.full(max_trees + 1, -1, np.int32)
    rival = -1  # the largest number of the rival's votes that is allowed; it never falls as t grows
    for t in range(1, max_trees + 1):
        # One more vote for the rival, as long as the leader leads and its probability to lose is allowed.
        while 2 * (rival + 1) < t + wins_tie and lost(t, rival + 1) < allowed:
            rival += 1
        if rival >= 0:
            least_votes[t] = t - rival
    return least_votes


def optimal_table(
    n_classes: int, max_trees: int, disagreement: float, population: Population, prior, *, n_trees: int | None = None
) -> Int32[np.ndarray, "2 polled"]:
    """Return the table of `optimal_votes`, cached between calls; a ValueError for three classes and more.

    ``max_trees``, ``prior`` and ``n_trees`` are as for `optimal_votes`.
    """
    if n_classes != 2:
        raise ValueError(
            f"criterion='optimal' is for two classes, and there are {n_classes}: of more no boundary is known that "
            "keeps a promised mean with the fewest trees. Choose criterion='bound' or 'exact', with a confidence."
        )
    if n_trees is None or population == "infinite":  # an infinite population has one table for any n_trees
        n_trees = max_trees
    if not is_concrete(prior) or np.asarray(prior).dtype.kind not in "iuf":  # `optimal_votes` refuses these
        return optimal_votes(max_trees, disagreement, population=population, prior=prior, n_trees=n_trees).least
    values = np.asarray(prior, float)
    return _kept_table(max_trees, disagreement, population, values.shape, values.tobytes(), n_trees)


@lru_cache(maxsize=16)
def _kept_table(max_trees: int, disagreement: float, population: Population, shape, content: bytes, n_trees: int):
    """Return the table of `optimal_table`, read-only; the prior comes as a ``shape`` and bytes, which can be cached."""
    prior = np.frombuffer(content).reshape(shape)
    least = optimal_votes(max_trees, disagreement, population=population, prior=prior, n_trees=n_trees).least
    least.setflags(write=False)
    return least

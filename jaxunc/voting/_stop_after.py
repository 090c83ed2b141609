"""`stop_after`: votes counted tree by tree, up to the tree at which the winner is settled.

`poll` is one compiled scan over the trees, by a `StoppingRule`, which compares integers with tables. Where there is no
table, `poll_on_host` computes the leader's probability after each tree, by a `ProbabilityRule`.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Int32

from jaxunc._checks import check_integer, check_readable, is_concrete
from jaxunc._numerics import copy_in, jit
from jaxunc.tables import NumbersLike

from ._leader_probability import Criterion, Population, Votes, allowed_loss, is_final_weights, leader_probability, loss
from ._stopping_rules import StoppingRule, checked_promise, make_rule, optimal_table
from ._vote_prior import checked_prior


class StoppingResult(NamedTuple):
    """The vote of each instance, counted up to the tree that settled it, or over all trees where none did."""

    n_trees_used: Int32[Array | np.ndarray, "instances"]
    """Number of trees used, abstaining ones included: up to the tree that settled the vote, or all."""
    predicted: Int32[Array | np.ndarray, "instances"]
    """The class with most votes of the trees used, the first of several; class 0 where every tree abstained."""
    settled: Bool[Array | np.ndarray, "instances"]
    """Whether the vote was settled."""
    votes: Int32[Array | np.ndarray, "instances classes"]
    """Votes of the trees used."""


def stop_after(
    votes: Int[Array | np.ndarray, "instances trees"],
    n_classes: int,
    *,
    confidence: float | None = None,
    disagreement: float | None = None,
    criterion: Criterion = "bound",
    population: Population = "infinite",
    prior: NumbersLike = 1.0,
) -> StoppingResult:
    r"""Count votes tree by tree, and stop each instance at the first tree that settles its winner.

    A vote is settled if the probability that the class in the lead wins exceeds ``confidence`` = π; by the criterion
    ``"optimal"``, if the votes have reached the boundary of `optimal_votes`.

    Parameters
    ----------
    votes
        The class that each tree votes for, 0 to n_classes - 1 ``[instances trees]``, in the order in which trees are
        used; -1 where a tree abstains.
    n_classes
        Number of classes, 2 at least.
    confidence
        π in (.5, 1), both excluded; by default .99.
    disagreement
        Only for ``criterion="optimal"``, in place of the confidence: the share of all instances, in (0, .5), that may
        be settled for another class than the population's; by default .01.
    criterion
        * ``"bound"``: stop once :math:`L(y^*|t) > \pi` (Eq. 8). For two classes L is the exact probability
          :math:`I_{1/2}(t_2 + \alpha_2, t_1 + \alpha_1)`, with the leader's votes t₁ and the regularised incomplete
          beta function (`critical_votes`); for more a product over the rivals.
        * ``"exact"``: stop once the exact probability exceeds π: earlier with three classes and more, on the host and
          slower.
        * ``"certain"``: stop once the lead exceeds the number of trees that remain. The confidence plays no part.
        * ``"optimal"``, for two classes: use the fewest trees in the mean that keep the disagreement, if the prior is
          right. The promise holds for the mean of all instances, not for each.
    population
        ``"infinite"``: the class has to win the vote of an infinite ensemble. ``"finite"``: it has to win the vote of
        all these trees (for three classes and more a bound: 1 less the sum over rivals, 0 at least).
    prior
        α of the Dirichlet prior, one number or one for each class; see `fit_vote_prior`. For the criterion
        ``"optimal"`` and a finite population also weights of the final counts; see `optimal_votes`.

    Returns
    -------
    StoppingResult
        The stopped votes, one entry per instance (empty for no instances).

    Raises
    ------
    ValueError
        If there is no tree, votes lie outside of the classes, the confidence outside of (.5, 1), a name is unknown, or
        the prior is not positive. For three classes or more also if the criterion is "optimal", or "exact" with a
        finite population. If a confidence is passed for "optimal", or a disagreement for another criterion. If the
        prior weighs final counts and a tree abstains.
    TypeError
        If votes are not integers.

    Notes
    -----
    A tree that abstains counts in ``n_trees_used``, but not as a vote. In an infinite ensemble Eq. 7 and 8 hold
    however many trees abstained. In a finite population the remaining trees are expected to abstain as often as those
    so far. There the boundary of ``"optimal"`` holds only while no tree has abstained. Afterwards an instance is
    settled once its leader wins with a probability above 1 less the disagreement: it is kept, with more trees.

    Traceable in the votes; with three classes or more only for ``"certain"``, and for ``"bound"`` with an infinite
    population and one prior for all classes. Traced votes of two classes and a finite population are not settled once a
    tree has abstained, except by ``"certain"``: no table is made for them. No gradient. The votes of a boosted model
    mean nothing here: its trees are not exchangeable.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, section 2.2.

    Examples
    --------
    >>> result = stop_after(np.array([[1, 1, 1, 1, 1, 1, 0, 0]]), 2, confidence=0.99)
    >>> int(result.n_trees_used[0]), int(result.predicted[0]), bool(result.settled[0])
    (6, 1, True)
    """
    _check_votes(votes, n_classes)
    promise = checked_promise(criterion, confidence, disagreement)
    settings = (n_classes, np.shape(votes)[1], promise, criterion, population, prior)
    # Without abstention a vote of two classes is one number, and its rule one comparison; traced votes may abstain.
    abstaining = bool(np.any(np.asarray(votes) < 0)) if is_concrete(votes) else None
    rule = make_rule(*settings, abstaining=abstaining)

    def code_abstentions(votes):
        """Return ``votes`` as int32, with the number of classes in place of a negative number (an abstention)."""
        integers = votes.astype(np.int32)
        return integers.__array_namespace__().where(integers < 0, n_classes, integers)

    no_votes = np.zeros((np.shape(votes)[0], n_classes), np.int32)
    if rule is None:
        if not is_concrete(votes):
            raise ValueError("votes are traced, but this criterion takes them on the host; call it outside of jit.")
        return poll_on_host(make_probability_rule(*settings), code_abstentions(np.asarray(votes)), no_votes, 0)
    return poll(rule, code_abstentions(copy_in(votes)), jnp.asarray(no_votes), jnp.int32(0))


def _check_votes(votes, n_classes) -> None:
    """Raise a TypeError or a ValueError unless ``votes [instances trees]`` are integers from -1 to n_classes - 1."""
    check_integer("n_classes", n_classes, 2)
    check_readable("votes", votes)
    shape = np.shape(votes)
    if len(shape) != 2 or shape[1] < 1:
        raise ValueError(f"votes has shape {shape}; expected [instances trees] with one tree at least.")
    dtype = votes.dtype if hasattr(votes, "dtype") else np.asarray(votes).dtype
    if not np.issubdtype(dtype, np.integer):
        raise TypeError(f"votes has dtype {dtype}; pass the class that each tree votes for, as integers.")
    if is_concrete(votes) and shape[0]:
        least, most = int(np.min(votes)), int(np.max(votes))
        if least < -1 or most >= n_classes:
            c = least if least < -1 else most
            raise ValueError(f"votes holds {c}, outside of the classes 0 to {n_classes - 1} (-1: the tree abstains).")


@jit
def poll(
    rule: StoppingRule,
    votes: Int[Array, "instances trees"],
    before: Int32[Array, "instances classes"],
    t: Int32[Array, ""],
) -> StoppingResult:
    """Count ``votes`` tree by tree, for each instance until ``rule`` holds, and return the result.

    ``t`` trees have voted before, with the counts ``before``. A vote that equals the number of classes is an
    abstention.
    """

    def step(carry, tree):
        """Count the votes of one tree: its number, from 1, and the class ``[instances]`` that it votes for."""
        counts, polled, settled = carry
        t, vote = tree
        counts = rule.add(counts, vote, ~settled)
        # A settled vote keeps its counts and number of trees: the scan goes on for the others.
        return (counts, jnp.where(settled, polled, t), settled | rule.holds(counts, t)), None

    n, n_trees = votes.shape
    # Instances come last, as the rule wants them. A rule of one row keeps the votes for class 1 only.
    counts = before[:, 1:].T if rule.n_rows == 1 else before.T
    start = (counts, jnp.full(n, t, jnp.int32), jnp.zeros(n, bool))
    trees = (t + jnp.arange(1, n_trees + 1, dtype=jnp.int32), votes.T)
    counts, polled, settled = lax.scan(step, start, trees)[0]
    by_class = rule.by_class(counts, polled)
    return StoppingResult(polled, jnp.argmax(by_class, axis=1).astype(jnp.int32), settled, by_class)


class ProbabilityRule(NamedTuple):
    """A stopping rule without a table: it computes the leader's probability, on the host.

    Settings are fields, and not variables of a closure, so that bound votes can be copied and pickled.
    """

    n_trees: int  # number of trees of a finite population
    confidence: float  # probability of the leader that settles a vote; by criterion "optimal" 1 less the disagreement
    criterion: Criterion
    population: Population
    alpha: Float[np.ndarray, "classes"]
    least: Int32[np.ndarray, "2 polled"] | None = None
    """Least votes for each class, by t, for criterion "optimal" while no tree has abstained; else None."""

    def __call__(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return whether each of the votes ``[n classes]`` is settled after ``t`` trees, abstaining ones included."""
        ascending = np.sort(votes, axis=1)
        settled = ascending[:, -1] > ascending[:, -2]  # ties never settle: a tied rival is a factor of one half
        settled[settled] = self._is_settled(votes[settled], t)
        return settled

    def _is_settled(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return whether each of the votes ``[n classes]`` of ``t`` trees is settled; none has a tie for the lead."""
        if self.least is not None:
            least = np.where(self.least[:, t] < 0, t + 1, self.least[:, t])  # -1: no number of votes is enough
            settled = np.any(votes >= least, axis=1)
            # The table is for votes without abstention; others are settled by the leader's probability.
            abstained = votes.sum(axis=1) < t
            settled[abstained] = self._is_final(votes[abstained], t)
            return settled
        if self.population == "finite":
            return self._is_final(votes, t)
        if self.criterion == "exact":
            return self._is_exactly_settled(votes, t)
        return self._probability(votes, t, self.criterion) > self.confidence

    def _is_final(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return whether each leader after ``t`` trees wins the vote of all trees more probably than ``confidence``."""
        allowed = allowed_loss(self.confidence)
        return loss(votes, np.full(len(votes), t), self.n_trees, self.alpha, limit=allowed) < allowed

    def _is_exactly_settled(self, votes: Votes, t: int) -> Bool[np.ndarray, "n"]:
        """Return whether each leader after ``t`` trees wins an infinite ensemble more probably than ``confidence``.

        The probability is an integral, computed only where two bounds do not decide. Its lower bound is a product of
        one factor for each rival (Eq. 8), its upper bound the least of these factors.
        """
        probability = self._probability(votes, t, "bound")
        upper_bound = np.ones(len(votes))
        if np.all(self.alpha == self.alpha[0]):  # then the runner-up's factor is the least
            best_two = np.sort(votes, axis=1)[:, :-3:-1]  # descending; "bound" reads no numbers of trees
            upper_bound = leader_probability(best_two, best_two.sum(axis=1), 0, "bound", "infinite", self.alpha[:2])
        undecided = (probability <= self.confidence) & (upper_bound > self.confidence)
        probability[undecided] = self._probability(votes[undecided], t, "exact")
        return probability > self.confidence

    def _probability(self, votes: Votes, t: int, criterion: Criterion) -> Float[np.ndarray, "n"]:
        """Return the `leader_probability` for ``votes`` of ``t`` trees, by a ``criterion``."""
        polled = np.full(len(votes), t)
        return leader_probability(votes, polled, self.n_trees, criterion, self.population, self.alpha)


def make_probability_rule(
    n_classes: int,
    max_trees: int,
    promise: float,
    criterion: Criterion,
    population: Population,
    prior,
    *,
    n_trees: int | None = None,
) -> ProbabilityRule:
    """Return the stopping rule for settings for which `make_rule`, with the same arguments, returns None.

    Raises a ValueError for criterion "exact" with three classes or more in a finite population, and for weights of
    final counts.
    """
    if population == "finite" and criterion == "exact" and n_classes > 2:
        raise ValueError(
            "criterion='exact' of a finite population has no tractable form for three classes and more; "
            "choose criterion='bound' (1 less the sum over the rivals) or 'certain'."
        )
    n_trees = max_trees if n_trees is None else n_trees
    least_votes = None
    if criterion == "optimal":
        if is_final_weights(prior, population, n_trees):
            raise ValueError(
                "prior weighs the final counts of trees that all vote, but some leaves are empty or tied, and their "
                "trees abstain; pass α instead, one number or one for each class."
            )
        least_votes = optimal_table(n_classes, max_trees, promise, population, prior, n_trees=n_trees)
    confidence = 1 - promise if criterion == "optimal" else promise  # `checked_promise`
    return ProbabilityRule(n_trees, confidence, criterion, population, checked_prior(prior, n_classes), least_votes)


def poll_on_host(
    rule: ProbabilityRule, votes: np.ndarray, before: Int32[np.ndarray, "instances classes"], t: int
) -> StoppingResult:
    """Count ``votes`` tree by tree, for each instance until ``rule`` settles it, on the host.

    ``votes [instances trees]`` and the other arguments are those of `poll`.
    """
    n, n_classes = before.shape
    counts = before.copy()
    polled = np.full(n, t, np.int32)
    settled = np.zeros(n, bool)
    for n_trees_used, vote in enumerate(votes.T, start=t + 1):
        open_rows = np.flatnonzero(~settled)
        if not len(open_rows):
            break
        voting_rows = open_rows[vote[open_rows] < n_classes]
        counts[voting_rows, vote[voting_rows]] += 1
        polled[open_rows] = n_trees_used
        settled[open_rows] = rule(counts[open_rows], n_trees_used)
    return StoppingResult(polled, counts.argmax(axis=1).astype(np.int32), settled, counts)

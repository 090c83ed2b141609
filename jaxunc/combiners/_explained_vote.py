"""Explanations of a cautious forest's votes: who abstains, and up to which strength s a single class is decided."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Num

from jaxunc._numerics import TwoFloat, divide_by_shared, float_dtype, safe_divide
from jaxunc._types import PyTree
from jaxunc.scorers import differences, dominance, single_strength
from jaxunc.tables import NumbersLike

from ._combiner import Combiner, learned_field
from ._generalized_vote import Mass, check_mass, matrix, pairs, share_out, total_of, tree_mass
from ._merge import Merging
from ._sums import total_of_classes


class Explanation(NamedTuple):
    """The reasons behind the decision of a cautious forest."""

    support: Float[Array | np.ndarray, "... classes"]
    """Share of the mass in trees that prefer this class to all others. 0 if there is no mass."""
    abstaining: Float[Array | np.ndarray, "..."]
    """Share of the mass in trees that prefer no class to all others; 1 if there is no mass. With the support of all
    classes it adds to 1."""
    abstaining_trees: Bool[Array | np.ndarray, "... trees"]
    """Whether each tree abstains, which means that it prefers no class to all others; False for masked trees."""
    largest_s: Float[Array | np.ndarray, "..."]
    """The largest s at which the decision is a single class. 0 if there is no such s, since ties leave it open however
    small s is. NaN for masses of certainty, which themselves depend on s."""


class ExplainedVote(Combiner[Explanation]):
    r"""Explanation of a `GeneralizedVote`: which trees are for each class or abstain, and up to which s it decides.

    A class c' is rejected if half of the mass or more prefers another class c to it. As s grows, a tree can only lose
    preferences. So for equal and leaf-size masses the largest s that rejects c' is an order statistic: a weighted
    quantile of the trees' leads over c'. With the masses m_t of the trees, and the counts n_t of their leaves:

    .. math:: s_{c \succ c'} = \max \Big\{ d : \sum_t m_t [n_{t,c} - n_{t,c'} \ge d] \ge \tfrac12 \sum_t m_t \Big\},
              \qquad s_{c'} = \max_c s_{c \succ c'}

    It is 0 if that is not positive. With two classes, class 0 needs more than half to reject class 1. The decision is a
    single class for s in (s₍₁₎, s₍₂₎], the least and the second least s_c'. For two classes the least is always 0.

    Parameters
    ----------
    s
        The strength at which trees are asked whether they abstain, > 0.
    mass
        See `GeneralizedVote`.

    Raises
    ------
    ValueError
        As `GeneralizedVote` does.

    Warns
    -----
    FractionsWarning
        As `GeneralizedVote` does.

    Notes
    -----
    Called, it answers an `Explanation`: ``support`` ``[... classes]``, ``abstaining`` ``[...]``, ``abstaining_trees``
    ``[... trees]`` and ``largest_s`` ``[...]``.

    The masses are compared exactly, as in `GeneralizedVote`; ``largest_s`` itself is rounded to a float. No mass:
    ``largest_s`` is 0. Every tree's leads are kept for a chunk of instances and sorted, C(C - 1) times: ask it of few
    instances. Gradient of ``largest_s``: that of the lead of one tree.

    References
    ----------
    Zhang, Quost and Masson 2021, where explanations of indeterminate decisions are future work.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jaxunc as ju
    >>> counts = jnp.array([[0, 4], [1, 2], [2, 5]])
    >>> explanation = ju.ExplainedVote(s=4)(counts)
    >>> print(explanation.abstaining_trees, float(explanation.largest_s))
    [False  True  True] 3.0
    >>> print(ju.decisions.nondominated(ju.GeneralizedVote(s=3)(counts)))
    [False  True]
    """

    s: Float[Array, "..."] = learned_field("fixed")
    mass: Mass = eqx.field(static=True, default="equal")
    merge: ClassVar[dict[str, str]] = {"support": "exact_sum", "total": "exact_sum", "trees": "collect"}
    reads_sizes: ClassVar[bool] = True

    def __init__(self, s: NumbersLike, mass: Mass = "equal"):
        check_mass(mass)
        self.s, self.mass = single_strength(s), mass

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the tree's mass by supported class and in all, its leads by pair of classes, and if it abstains."""
        pieces = tree_mass(counts, self.s.astype(float_dtype(counts, self.s)), self.mass)
        beside = ~jnp.eye(counts.shape[-1], dtype=bool)
        sure = jnp.all(dominance(counts, self.s) | ~beside, axis=-1)
        trees: dict[str, Any] = {"leads": pairs(differences(counts)), "abstains": ~jnp.any(sure, axis=-1)}
        if self.mass == "leaf_size":
            trees["mass"] = _as_collected(pieces)
        return {"support": share_out(pieces, sure), "total": pieces, "trees": trees}

    def finish(self, stat: PyTree) -> Explanation:
        """Return the explanation: merged masses divided by the total, and the order statistic of the leads."""
        support, total = total_of(stat["support"]), total_of(stat["total"])
        # Added as pairs of floats: the abstaining share may be a small difference of nearly equal masses.
        decided = total_of_classes(support)
        total_mass = jnp.broadcast_to(total.value, decided.high.shape)
        trees = stat["trees"]
        if self.mass == "certainty":
            largest = jnp.full(total_mass.shape, jnp.nan, total_mass.dtype)
        else:
            largest = _largest_s(trees["leads"], trees.get("mass", {}), total)
        return Explanation(
            support=divide_by_shared(support.value, total_mass[..., None]),
            abstaining=safe_divide(jnp.maximum(total.minus(decided).value, 0.0), total_mass, 1.0),
            abstaining_trees=trees["abstains"] == 1,
            largest_s=largest,
        )


def _as_collected(pieces: dict[str, Array]) -> dict[str, Array]:
    """Return the masses ``pieces`` (`tree_mass`) as planes that can be collected as floats.

    Integers become half words, which float32 holds exactly.
    """
    units = pieces.get("units")
    if units is None or not jnp.issubdtype(units.dtype, jnp.integer):
        return pieces
    return {"low": units & 0xFFFF, "high": units >> 16}


def _largest_s(leads: Float[Array, "... trees pairs"], mass: dict[str, Array], total: TwoFloat) -> Float[Array, "..."]:
    """Return the largest s that decides a single class, 0 if none does.

    Leads of masked trees are NaN; ``mass [... trees]`` is empty for equal masses; ``total`` is the sum of masses.
    """
    present = ~jnp.isnan(leads)
    by_pair = {name: jnp.where(present, part[..., None], 0) for name, part in mass.items()} or {"units": present}
    if "low" in mass or not mass:
        by_pair = {name: part.astype(jnp.uint32) for name, part in by_pair.items()}
    # From the largest lead down, masses are added until they reach half: that lead is the largest s that still does.
    order = jnp.argsort(-leads, axis=-2)  # NaN last
    in_order = lambda part: jnp.moveaxis(jnp.take_along_axis(part, order, axis=-2), -2, 0)
    by_tree = jax.tree.map(in_order, (leads, by_pair))
    names, merging = sorted(by_pair), Merging.of("exact_sum", by_pair)
    n_pairs, shape = leads.shape[-1], by_tree[0].shape[1:]
    half = TwoFloat(*(jnp.broadcast_to(part[..., None], shape) for part in total))
    strict = jnp.arange(n_pairs) < (1 if n_pairs == 2 else 0)  # of two classes, class 0 over 1

    def include(carry, tree):
        """Add the mass of the next lead for each pair, and keep the lead with which the sum reaches half.

        ``carry`` has the sums, whether they reached half, and these leads; ``tree`` the next leads and masses.
        """
        so_far, is_reached, largest = carry
        lead, parts = tree
        # Exact sums, as in the vote itself: half must be reached here for the same s as there.
        so_far, _ = merging.include(so_far, [parts[name] for name in names])
        reached = total_of(dict(zip(names, merging.result(so_far), strict=True)))
        excess = TwoFloat(2 * reached.high, 2 * reached.low).minus(half).value
        enough = (excess > 0) | ((excess == 0) & ~strict)
        return (so_far, is_reached | enough, jnp.where(enough & ~is_reached, lead, largest)), None

    is_reached, largest = jnp.broadcast_to(half.high <= 0, shape), jnp.zeros(shape, leads.dtype)
    largest = lax.scan(include, (merging.start([shape for _ in names]), is_reached, largest), by_tree)[0][2]
    rejected_up_to = jnp.max(matrix(jnp.maximum(largest, 0.0), jnp.zeros(shape[:-1], leads.dtype)), axis=-2)
    # The answer is a single class while all others are rejected: up to the second smallest of the classes' s.
    least, second = jnp.moveaxis(jnp.sort(rejected_up_to, axis=-1)[..., :2], -1, 0)
    return jnp.where(second > least, second, 0.0)

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
    preferences. So for equal and leaf-size masses the largest s at which c' is rejected is a weighted quantile of the
    trees' leads over c'. With the masses m_t of the trees, and the counts n_t of their leaves:

    .. math:: s_{c \succ c'} = \max \Big\{ d : \sum_t m_t [n_{t,c} - n_{t,c'} \ge d] \ge \tfrac12 \sum_t m_t \Big\},
              \qquad s_{c'} = \max_c s_{c \succ c'}

    s_c' is 0 if that is not positive. With two classes, class 0 needs more than half to reject class 1. The decision is
    a single class for s in (s₍₁₎, s₍₂₎], the least and the second least s_c'. For two classes the least is always 0.

    Parameters
    ----------
    s
        The strength at which trees are asked whether they abstain, > 0.
    mass
        The mass of a tree's vote, ``"equal"``, ``"leaf_size"`` or ``"certainty"``, as for `GeneralizedVote`.

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
        self.s = single_strength(s)
        self.mass = mass

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return what a tree contributes to the vote, as a dictionary with three entries.

        ``support`` is the tree's mass by class, at the class that it prefers to all others. ``total`` is its mass.
        ``trees`` is collected: the leads by pair of classes, whether it abstains, and its mass if that is leaf size.
        """
        pieces = tree_mass(counts, self.s.astype(float_dtype(counts, self.s)), self.mass)
        off_diagonal = ~jnp.eye(counts.shape[-1], dtype=bool)
        is_supported = jnp.all(dominance(counts, self.s) | ~off_diagonal, axis=-1)
        collected: dict[str, Any] = {"leads": pairs(differences(counts)), "abstains": ~jnp.any(is_supported, axis=-1)}
        if self.mass == "leaf_size":
            collected["mass"] = _as_collected(pieces)
        return {"support": share_out(pieces, is_supported), "total": pieces, "trees": collected}

    def finish(self, stat: PyTree) -> Explanation:
        """Return the explanation that a merged statistic gives: shares of the total mass, and the largest s."""
        support = total_of(stat["support"])
        total = total_of(stat["total"])
        # Added as pairs of floats: the abstaining share may be a small difference of nearly equal masses.
        decided_mass = total_of_classes(support)
        total_mass = jnp.broadcast_to(total.value, decided_mass.high.shape)
        trees = stat["trees"]
        if self.mass == "certainty":
            largest_s = jnp.full(total_mass.shape, jnp.nan, total_mass.dtype)
        else:
            largest_s = _largest_s(trees["leads"], trees.get("mass", {}), total)
        return Explanation(
            support=divide_by_shared(support.value, total_mass[..., None]),
            abstaining=safe_divide(jnp.maximum(total.minus(decided_mass).value, 0.0), total_mass, 1.0),
            abstaining_trees=trees["abstains"] == 1,
            largest_s=largest_s,
        )


def _as_collected(pieces: dict[str, Array]) -> dict[str, Array]:
    """Return masses in ``pieces`` of `tree_mass` in such pieces as float32 holds: integers in halves of 16 bits."""
    units = pieces.get("units")
    if units is None or not jnp.issubdtype(units.dtype, jnp.integer):
        return pieces
    return {"low": units & 0xFFFF, "high": units >> 16}


def _largest_s(leads: Float[Array, "... trees pairs"], mass: dict[str, Array], total: TwoFloat) -> Float[Array, "..."]:
    """Return the largest s at which the vote decides for a single class, 0 if it does so at none.

    ``leads`` are NaN where a tree is masked. ``mass`` has the trees' masses ``[... trees]`` in the pieces of
    `_as_collected`, none if masses are equal. ``total`` is the sum of all masses.
    """
    is_present = ~jnp.isnan(leads)
    masses = {name: jnp.where(is_present, piece[..., None], 0) for name, piece in mass.items()}
    if not masses:
        masses = {"units": is_present}
    if "low" in mass or not mass:  # whole masses, which come as floats or bools: integers add without rounding
        masses = {name: piece.astype(jnp.uint32) for name, piece in masses.items()}
    lead_at_half = _leads_at_half(leads, masses, total)
    no_lead = jnp.zeros(lead_at_half.shape[:-1], leads.dtype)  # of a class over itself
    # The largest s that rejects each class is that of the class with the largest such lead over it.
    rejected_up_to = jnp.max(matrix(jnp.maximum(lead_at_half, 0.0), no_lead), axis=-2)
    # A single class is left where all others are rejected: beyond the least of the classes' s, up to the second.
    least, second = jnp.moveaxis(jnp.sort(rejected_up_to, axis=-1)[..., :2], -1, 0)
    return jnp.where(second > least, second, 0.0)


def _leads_at_half(
    leads: Float[Array, "... trees pairs"], masses: dict[str, Array], total: TwoFloat
) -> Float[Array, "... pairs"]:
    """Return for each pair of classes the largest s at which half of the total mass prefers its first class.

    ``masses`` are the trees' masses ``[... trees pairs]`` in the pieces of `_as_collected`, and ``total`` is their sum.
    """
    # Masses are added by descending lead. The lead of the tree with which they reach half is that s.
    order = jnp.argsort(-leads, axis=-2)  # NaN last

    def in_order(by_tree):
        """Return an array ``[... trees pairs]`` with the trees in front, by descending lead."""
        return jnp.moveaxis(jnp.take_along_axis(by_tree, order, axis=-2), -2, 0)

    leads_in_order, masses_in_order = jax.tree.map(in_order, (leads, masses))
    names = sorted(masses)
    merging = Merging.of("exact_sum", masses)
    n_pairs = leads.shape[-1]
    pair_shape = leads_in_order.shape[1:]
    total_by_pair = TwoFloat(*(jnp.broadcast_to(part[..., None], pair_shape) for part in total))
    # Of two classes, class 0 needs more than half to reject class 1: that is the first pair.
    must_exceed = jnp.arange(n_pairs) < (1 if n_pairs == 2 else 0)

    def include(carry, tree):
        """Add the mass of the next tree of each pair, and keep its lead if the sum reaches half with it."""
        sums, is_reached, lead_at_half = carry
        lead, lead_masses = tree
        # Exact sums, as in the vote itself: half must be reached here for the same s as there.
        sums, _ = merging.include(sums, [lead_masses[name] for name in names])
        mass_so_far = total_of(dict(zip(names, merging.result(sums), strict=True)))
        excess = TwoFloat(2 * mass_so_far.high, 2 * mass_so_far.low).minus(total_by_pair).value
        reaches_half = (excess > 0) | ((excess == 0) & ~must_exceed)
        return (sums, is_reached | reaches_half, jnp.where(reaches_half & ~is_reached, lead, lead_at_half)), None

    # Without any mass, half counts as reached from the start: the largest s stays 0.
    is_reached = jnp.broadcast_to(total_by_pair.high <= 0, pair_shape)
    no_lead = jnp.zeros(pair_shape, leads.dtype)
    start = merging.start([pair_shape for _ in names]), is_reached, no_lead
    (_, _, lead_at_half), _ = lax.scan(include, start, (leads_in_order, masses_in_order))
    return lead_at_half

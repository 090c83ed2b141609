"""The vote of a cautious forest: trees whose intervals do not tell the classes apart abstain."""

import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, Shaped

from jaxunc._numerics import TwoFloat, float_dtype
from jaxunc._types import PyTree
from jaxunc.intervals import dominance, one_strength
from jaxunc.tables import NumbersLike

from ._combiner import Combiner
from ._fields import learned_field
from ._masses import Mass, beyond_half, check_mass, share_out, total_of, tree_mass
from ._preference import Preference


class GeneralizedVote(Combiner[Preference]):
    r"""Trees vote for a class over another where the interval of their leaf is on its side of one half, or abstain.

    With the intervals of the imprecise Dirichlet model and masses m_t of the trees, for two classes

    .. math:: bel = \sum_t m_t [\underline p_t \ge \tfrac12], \qquad pl = \sum_t m_t [\overline p_t > \tfrac12]

    are the belief and the plausibility that the probability of class 1 is at least (more than) one half. A tree is for
    class 1 if n₁ - n₀ ≥ s, for class 0 if n₀ - n₁ ≥ s, and else it abstains. With more classes (an extension) each pair
    is compared so:

    .. math:: B(c \succ c') = \sum_t m_t [n_c - n_{c'} \ge s]

    Parameters
    ----------
    s
        The strength of the model, > 0: the instances that could yet be added to a leaf.
    mass
        ``"equal"``: 1 for each tree. ``"leaf_size"``: the number N of instances in the leaf. ``"certainty"``:
        N/(N + s), one less the width of the interval.

    Raises
    ------
    ValueError
        If s is not one number, positive and finite, or the mass is unknown.

    Warns
    -----
    FractionsWarning
        Where concrete counts enter: if all rows add to 1 and not all are integers.

    Notes
    -----
    Called, it answers a `Preference`: ``mass`` ``[... classes classes]`` and ``total`` ``[...]``; for two classes with
    ``.belief`` and ``.plausibility``. `jaxunc.decisions.nondominated` decides.

    Exact for integer counts: n_c - n_c' ≥ s is decided without division. For equal and leaf-size masses ``excess`` is 0
    at half of the total and nowhere else, up to totals of 2⁴⁶ in float32. Masses of certainty are rounded: within 1e-6
    (float64: 1e-12) of the total a half is a half. Leaf sizes of weighted instances are compared as the floats that
    they are. An empty leaf abstains; if all are empty, masses of size and certainty have the total 0.

    Merges C(C - 1) planes, and one for masses that are no constant: two classes cost little more than the mean, ten
    classes ninety planes. A bit of each is looked up, 32 in a number. Gradient: of the masses of certainty alone.

    References
    ----------
    Zhang, Quost and Masson 2021, "Tree aggregation" and "Decision strategy"; more than two classes are named there as
    future work.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jaxunc as ju
    >>> preference = ju.GeneralizedVote(s=1)(jnp.array([[0, 4], [1, 1], [2, 5]]))
    >>> print(f"{float(preference.belief):.3f} {float(preference.plausibility):.3f}")
    0.667 1.000
    >>> print(ju.decisions.nondominated(preference))
    [False  True]
    """

    s: Float[Array, "..."] = learned_field("positive")
    mass: Mass = eqx.field(static=True, default="equal")
    merge: ClassVar[str] = "exact_sum"
    reads_sizes: ClassVar[bool] = True

    def __init__(self, s: NumbersLike, mass: Mass = "equal"):
        check_mass(mass)
        self.s, self.mass = one_strength(s), mass

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Mass of the tree, and the same for each pair of which the leaf prefers the first."""
        pieces = tree_mass(counts, self.s.astype(float_dtype(counts, self.s)), self.mass)
        return {"mass": share_out(pieces, pairs(dominance(counts, self.s))), "total": pieces}

    def finish(self, stat: PyTree) -> Preference:
        """Arrange the pairs as a matrix."""
        mass, total = total_of(stat["mass"]), total_of(stat["total"])
        by_pair = TwoFloat(*(jnp.broadcast_to(part[..., None], mass.high.shape) for part in total))
        excess = beyond_half(mass, by_pair, self.mass)
        whole = jnp.broadcast_to(total.value, mass.high.shape[:-1])
        return Preference(matrix(mass.value, jnp.zeros_like(whole)), whole, matrix(excess, -whole))


def pairs(by_pair: Shaped[Array, "... classes classes"]) -> Shaped[Array, "... pairs"]:
    """Return the entries beside the diagonal, row by row."""
    n_classes = by_pair.shape[-1]
    # The diagonal is left out: nobody prefers a class to itself, and each pair is a plane to carry. After its first
    # entry come n_classes others, and the next one behind them.
    flat = by_pair.reshape(*by_pair.shape[:-2], n_classes * n_classes)[..., 1:]
    rows = flat.reshape(*by_pair.shape[:-2], n_classes - 1, n_classes + 1)[..., :-1]
    return rows.reshape(*by_pair.shape[:-2], n_classes * (n_classes - 1))


def matrix(by_pair: Float[Array, "... pairs"], diagonal: Float[Array, "..."]) -> Float[Array, "... classes classes"]:
    """Return the matrix of the entries that `pairs` took out, with a value for the diagonal."""
    n_classes = (1 + math.isqrt(1 + 4 * by_pair.shape[-1])) // 2
    # After each entry of the diagonal but the last come n_classes others, row by row.
    rows = by_pair.reshape(*diagonal.shape, n_classes - 1, n_classes)
    first = jnp.broadcast_to(diagonal[..., None, None], (*diagonal.shape, n_classes - 1, 1))
    flat = jnp.concatenate([first, rows], axis=-1).reshape(*diagonal.shape, -1)
    return jnp.concatenate([flat, diagonal[..., None]], axis=-1).reshape(*diagonal.shape, n_classes, n_classes)

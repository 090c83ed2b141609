"""The vote of a cautious forest: trees whose intervals do not tell the classes apart abstain.

`GeneralizedVote` is as published, `LearnedVote` has numbers that can be learned; both answer with a `Preference`. Last
come the steps that both share with `ExplainedVote`.
"""

import dataclasses
import math
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num, Shaped

from jaxunc._checks import check_one_of, check_within
from jaxunc._numerics import TwoFloat, copy_in, float_dtype, safe_divide, sum_in_order
from jaxunc._types import PyTree
from jaxunc.scorers import checked_strength, differences, dominance, single_strength, undominated
from jaxunc.tables import NumbersLike

from ._combiner import Combiner, learned_field
from ._learned_pool import log_size_weight

Mass: TypeAlias = Literal["equal", "leaf_size", "certainty"]
"""Mass of a tree's vote: 1, the size of its leaf, or how certain its interval is."""


class Preference(NamedTuple):
    """The mass of the trees that prefer one class to another: the answer of a cautious forest's vote."""

    mass: Float[Array | np.ndarray, "... classes classes"]
    """Entry (c, c') is the mass of the trees that prefer c to c'; 0 on the diagonal."""
    total: Float[Array | np.ndarray, "..."]
    """The mass of all trees, those included that abstain. 0 if no tree counts, or all leaves are empty."""
    excess: Float[Array | np.ndarray, "... classes classes"] | None = None
    """2 mass - total, computed before rounding, so that an exact half gives 0: ≥ 0 where at least half of the mass
    prefers c to c'. None in preferences made by hand; then it is computed from ``mass`` and ``total``."""

    @property
    def belief(self) -> Array:
        """The belief in class 1 ``[...]``, of two: the share of the mass that prefers it; 0 without mass."""
        return self._share(1, 0)

    @property
    def plausibility(self) -> Array:
        """The plausibility of class 1 ``[...]``, of two: the share of mass not preferring class 0; 1 without mass."""
        return 1 - self._share(0, 1)

    @property
    def remaining(self) -> Bool[Array | np.ndarray, "... classes"]:
        """Whether each class remains: a class is rejected if half of the mass or more prefers another one to it.

        `jaxunc.decisions.nondominated` returns it: a NumPy array if ``mass`` is one. Without mass, all classes remain.
        """
        xp = np if isinstance(self.mass, np.ndarray) else jnp
        n_classes = self.mass.shape[-1]
        total = self.total[..., None, None]
        excess = 2 * self.mass - total if self.excess is None else self.excess
        is_preferred = (excess >= 0) & (total > 0)
        if n_classes == 2:
            # Where half of the mass prefers either class, class 1 remains.
            rejects_one = (excess[..., 0, 1] > 0) & (self.total > 0)
            rejects_zero = is_preferred[..., 1, 0] & ~rejects_one
            return xp.stack([~rejects_zero, ~rejects_one], axis=-1)
        off_diagonal = xp.broadcast_to(~xp.eye(n_classes, dtype=bool), self.mass.shape)
        return undominated(is_preferred & off_diagonal)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that `columns` makes: "set" alone."""
        return ("set",)

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the dictionary ``{output: array}``, whose array ``[instances classes]`` says which classes remain."""
        return {output: np.asarray(self.remaining)}

    def _share(self, preferred: int, other: int) -> Array:
        """Return the share ``[...]`` of the mass that prefers class ``preferred`` to ``other``; 0 without mass."""
        if self.mass.shape[-1] != 2:
            raise ValueError(
                f"belief and plausibility of class 1 are those of two classes; this preference has "
                f"{self.mass.shape[-1]}. Divide the mass of a pair by the total instead."
            )
        return safe_divide(jnp.asarray(self.mass[..., preferred, other]), jnp.asarray(self.total))


class GeneralizedVote(Combiner[Preference]):
    r"""A vote in which a tree prefers a class if its leaf's interval is on that side of one half, and else abstains.

    Tree t has the mass m_t. In its leaf the probability of class 1 has, by the imprecise Dirichlet model, the interval
    :math:`[\underline p_t, \overline p_t]`. For two classes

    .. math:: bel = \sum_t m_t [\underline p_t \ge \tfrac12], \qquad pl = \sum_t m_t [\overline p_t > \tfrac12]

    are the belief and the plausibility that the probability of class 1 is at least (more than) one half. With the
    counts n of its leaf a tree is for class 1 if n₁ - n₀ ≥ s, and for class 0 if n₀ - n₁ ≥ s. Else it abstains. With
    more classes (an extension) each pair is compared so:

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
    at half of the total and nowhere else, up to totals of 2⁴⁶ in float32. Masses of certainty are rounded: ``excess``
    within 1e-6 (float64: 1e-12) of the total is 0. Leaf sizes of weighted instances are floats, compared as such. An
    empty leaf abstains; if all are empty, masses of size and certainty have the total 0.

    Merges C(C - 1) numbers for C classes, and one more for masses that vary: two classes cost little more than a mean.
    Lifting takes some 16 C² bytes for each distinct vector of counts, an answer 8 C² bytes. Gradient: of the masses of
    certainty alone.

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
        self.s = single_strength(s)
        self.mass = mass

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the tree's mass, "total", and by pair of classes its "mass" if it prefers the first, else 0."""
        pieces = tree_mass(counts, self.s.astype(float_dtype(counts, self.s)), self.mass)
        return {"mass": share_out(pieces, pairs(dominance(counts, self.s))), "total": pieces}

    def finish(self, stat: PyTree) -> Preference:
        """Return the `Preference` that merged masses give, with the pairs of classes arranged as matrices."""
        mass = total_of(stat["mass"])
        total = total_of(stat["total"])
        total_by_pair = TwoFloat(*(jnp.broadcast_to(part[..., None], mass.high.shape) for part in total))
        excess = beyond_half(mass, total_by_pair, self.mass)
        total_mass = jnp.broadcast_to(total.value, mass.high.shape[:-1])
        return Preference(
            mass=matrix(mass.value, jnp.zeros_like(total_mass)),
            total=total_mass,
            excess=matrix(excess, -total_mass),
        )


class LearnedVote(Combiner[Preference]):
    r"""`GeneralizedVote` with comparisons that have a slope, and masses that are a function of the leaf's size.

    .. math:: B(c \succ c') = \sum_t m_t \, \sigma\Big(\frac{n_c - n_{c'} - s}{\tau}\Big), \qquad
              m_t = N_t^\alpha \, \frac{N_t}{N_t + \kappa}

    σ is the logistic function, n_t are the counts of the leaf of tree t, and N_t is their sum. As τ falls to 0 it is
    the comparison n_c - n_c' ≥ s of the cautious forest (`hardened`). The masses of `GeneralizedVote` are α = κ = 0
    (``"equal"``), α = 1, κ = 0 (``"leaf_size"``) and α = 0, κ = s (``"certainty"``).

    Parameters
    ----------
    s
        The strength, > 0.
    size_power, half_size
        α, and κ ≥ 0: the size at which the second factor is one half.
    softness
        τ ≥ 0, in instances. Not learned.

    Raises
    ------
    ValueError
        If s is not one number, positive and finite, or κ or τ is negative or not finite.

    Notes
    -----
    Answers with a `Preference`, for `jaxunc.decisions.nondominated`; learn it by the loss ``"utility"``. Masses are
    floats: near a half rounding decides (`GeneralizedVote` is exact). An empty leaf has no mass unless masses are
    equal. For \|α\| > 3.5 sizes are in units of 256 instances, and N^α is held within 2^±112 (float64: 2^±896).

    Gradient: in all numbers for τ > 0; in the masses alone for τ = 0.

    References
    ----------
    Zhang, Quost and Masson 2021, whose outlook names learned weights of trees.
    """

    s: Float[Array, ""] = learned_field("positive")
    size_power: Float[Array, ""] = learned_field("real")
    half_size: Float[Array, ""] = learned_field("positive", nearest=1.0)
    softness: Float[Array, ""] = learned_field("fixed")
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def __init__(
        self,
        s: NumbersLike = 1.0,
        size_power: NumbersLike = 0.0,
        half_size: NumbersLike = 0.0,
        softness: NumbersLike = 0.5,
    ):
        check_within("s", s, "(0, inf)", ": a vote has one strength for all classes, trees and instances")
        check_within("size_power", size_power, "(-inf, inf)")
        check_within("half_size", half_size, "[0, inf)")
        check_within("softness", softness, "[0, inf)")
        dtype = float_dtype(jnp.asarray(size_power, float), half_size, softness)
        self.s = checked_strength(s)
        self.size_power = copy_in(size_power, dtype)
        self.half_size = copy_in(half_size, dtype)
        self.softness = copy_in(softness, dtype)

    def hardened(self) -> "LearnedVote":
        """Return a copy whose comparisons are exact, as in the published vote (softness τ = 0)."""
        return dataclasses.replace(self, softness=jnp.zeros_like(self.softness))

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the tree's mass, "total", and for each pair of classes the "mass" that prefers the first class."""
        dtype = float_dtype(counts, self.s)
        cast = lambda value: value.astype(dtype)
        size = sum_in_order(cast(counts))
        # A harmless size in empty leaves: the logarithm of 0 would make gradients NaN, even where it is not used.
        safe_size = jnp.where(size > 0, size, jnp.ones_like(size))
        mass = jnp.exp(log_size_weight(safe_size, self.size_power)) * (safe_size / (safe_size + cast(self.half_size)))
        equal_masses = (self.size_power == 0) & (self.half_size == 0)
        mass_of_empty = jnp.where(equal_masses, jnp.ones_like(mass), jnp.zeros_like(mass))
        mass = jnp.where(size > 0, mass, mass_of_empty)
        beyond_s = pairs(cast(differences(counts))) - cast(self.s)  # of each pair of classes
        is_soft = self.softness > 0
        soft_preference = jax.nn.sigmoid(beyond_s / cast(jnp.where(is_soft, self.softness, 1)))
        preference = jnp.where(is_soft, soft_preference, (beyond_s >= 0).astype(dtype))
        return {"mass": mass[..., None] * preference, "total": mass}

    def finish(self, stat: PyTree) -> Preference:
        """Return the `Preference` that merged masses give, with the pairs of classes arranged as a matrix."""
        return Preference(matrix(stat["mass"], jnp.zeros_like(stat["total"])), stat["total"])


_LIMB = 16
"""Bits of the lower of two limbs of a leaf's size: sums of each limb over classes fit 32 bits."""


def check_mass(mass: str) -> None:
    """Raise a ValueError unless ``mass`` is "equal", "leaf_size" or "certainty"."""
    check_one_of("mass", mass, get_args(Mass))


def tree_mass(counts: Num[Array, "... classes"], s: Array, mass: Mass) -> dict[str, Array]:
    """Return the masses of trees whose leaves hold ``counts``, in pieces that add up without rounding.

    The pieces are ``units``, or ``low`` and ``high`` of an integer high · 2¹⁶ + low. ``mass`` is the kind of mass, of
    which "certainty" depends on the strength ``s``.
    """
    if mass == "equal":
        return {"units": jnp.ones(())}
    is_integer = jnp.issubdtype(counts.dtype, jnp.integer)
    if mass == "leaf_size" and is_integer:
        # Two counts below 2³¹ add up to less than 2³².
        if counts.shape[-1] == 2 and jnp.iinfo(counts.dtype).max < 1 << 31:
            return {"units": jnp.sum(counts.astype(jnp.uint32), axis=-1, dtype=jnp.uint32)}
        # The sum of many large counts may not fit 32 bits, so each count is split in two limbs, whose sums do fit.
        counts = counts.astype(jnp.int32) if counts.dtype.itemsize < 4 else counts  # so that the mask fits
        limbs = {"low": counts & ((1 << _LIMB) - 1), "high": counts >> _LIMB}
        return {name: jnp.sum(limb, axis=-1, dtype=jnp.uint32) for name, limb in limbs.items()}
    size = sum_in_order(counts.astype(float_dtype(counts)))
    return {"units": size if mass == "leaf_size" else size / (size + s)}


def share_out(pieces: dict[str, Array], where: Bool[Array, "... k"]) -> dict[str, Array]:
    """Return a tree's mass, in the ``pieces`` of `tree_mass`, in each column where ``where`` is true, else 0."""
    return {name: jnp.where(where, piece[..., None], 0) for name, piece in pieces.items()}


def total_of(pieces: dict[str, TwoFloat]) -> TwoFloat:
    """Return the mass of all trees from the merged ``pieces`` of `tree_mass`: exact up to 2⁴⁶ in float32."""
    if "high" not in pieces:
        return pieces["units"]
    # A power of two moves no digits, so only the last sum could round; as a pair of floats it does not.
    return jax.tree.map(lambda part: part * 2.0**_LIMB, pieces["high"]).plus(pieces["low"])


def beyond_half(mass: TwoFloat, total: TwoFloat, kind: Mass) -> Array:
    """Return 2 ``mass`` - ``total``, whose sign tells whether a mass reaches half of the total; an exact half gives 0.

    Masses of the ``kind`` "certainty" are rounded: differences that may be due to rounding become 0.
    """
    excess = TwoFloat(2 * mass.high, 2 * mass.low).minus(total).value
    if kind != "certainty":
        return excess
    tolerance = 1e-12 if excess.dtype == jnp.float64 else 1e-6
    return jnp.where(jnp.abs(excess) <= tolerance * total.high, 0.0, excess)


def pairs(by_pair: Shaped[Array, "... classes classes"]) -> Shaped[Array, "... pairs"]:
    """Return the entries of the matrices ``by_pair`` without those on the diagonal, row by row."""
    n_classes = by_pair.shape[-1]
    # The diagonal is left out: no tree prefers a class to itself, and each pair is a plane to carry. In the flat matrix
    # n_classes other entries lie between two entries of the diagonal. So without its first entry, the flat matrix falls
    # into rows that end with a diagonal entry.
    flat = by_pair.reshape(*by_pair.shape[:-2], n_classes * n_classes)[..., 1:]
    rows = flat.reshape(*by_pair.shape[:-2], n_classes - 1, n_classes + 1)[..., :-1]
    return rows.reshape(*by_pair.shape[:-2], n_classes * (n_classes - 1))


def matrix(by_pair: Float[Array, "... pairs"], diagonal: Float[Array, "..."]) -> Float[Array, "... classes classes"]:
    """Return the matrices with ``by_pair`` off the diagonal, in the order of `pairs`, and ``diagonal`` all along it."""
    n_classes = (1 + math.isqrt(1 + 4 * by_pair.shape[-1])) // 2  # C (C - 1) pairs, solved for C
    # In the flat matrix n_classes other entries lie between two entries of the diagonal: one is put before each row.
    rows = by_pair.reshape(*diagonal.shape, n_classes - 1, n_classes)
    diagonals = jnp.broadcast_to(diagonal[..., None, None], (*diagonal.shape, n_classes - 1, 1))
    flat = jnp.concatenate([diagonals, rows], axis=-1).reshape(*diagonal.shape, -1)
    return jnp.concatenate([flat, diagonal[..., None]], axis=-1).reshape(*diagonal.shape, n_classes, n_classes)

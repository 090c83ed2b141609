"""The vote of a cautious forest whose caution, and whose trees' masses, are learned."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_within
from jaxunc._numerics import float_dtype, sum_in_order
from jaxunc._types import PyTree
from jaxunc.intervals import checked_strength
from jaxunc.tables import NumbersLike

from ._combiner import Combiner
from ._fields import learned_field
from ._generalized_vote import matrix, pairs
from ._preference import Preference


class LearnedVote(Combiner[Preference]):
    r"""`GeneralizedVote` with comparisons that have a slope, and masses that are a function of the leaf's size.

    .. math:: B(c \succ c') = \sum_t m_t \, \sigma\Big(\frac{n_c - n_{c'} - s}{\tau}\Big), \qquad
              m_t = N_t^\alpha \, \frac{N_t}{N_t + \kappa}

    σ is the logistic function. As τ falls to 0 it is the comparison n_c - n_c' ≥ s of the cautious forest (`hardened`);
    equal masses are α = κ = 0, those of the leaf size α = 1, κ = 0, those of certainty α = 0, κ = s.

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
    floats: a half is told from what is near it up to rounding (`GeneralizedVote` is exact). An empty leaf has no mass
    unless masses are equal. Gradient: in all numbers for τ > 0; in the masses alone for τ = 0.

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
        self.size_power, self.half_size = jnp.asarray(size_power, dtype), jnp.asarray(half_size, dtype)
        self.softness = jnp.asarray(softness, dtype)

    def hardened(self) -> "LearnedVote":
        """The rule with its learned numbers and exact comparisons, τ = 0: a vote as published, with these numbers."""
        return dataclasses.replace(self, softness=jnp.zeros_like(self.softness))

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Mass of the tree, and the part of it that goes to the first of each pair of classes."""
        dtype = float_dtype(counts, self.s)
        counts = counts.astype(dtype)
        number = lambda value: value.astype(dtype)  # noqa: E731
        size = sum_in_order(counts)
        # A harmless size in empty leaves: their logarithm would make gradients NaN, even where it is not used.
        some = jnp.where(size > 0, size, jnp.ones_like(size))
        mass = jnp.exp(number(self.size_power) * jnp.log(some)) * some / (some + number(self.half_size))
        equal = (self.size_power == 0) & (self.half_size == 0)
        mass = jnp.where(size > 0, mass, jnp.where(equal, jnp.ones_like(mass), jnp.zeros_like(mass)))
        lead = pairs(counts[..., :, None] - counts[..., None, :]) - number(self.s)
        soft = self.softness > 0
        sure = jax.nn.sigmoid(lead / number(jnp.where(soft, self.softness, 1)))
        beats = jnp.where(soft, sure, (lead >= 0).astype(dtype))
        return {"mass": mass[..., None] * beats, "total": mass}

    def finish(self, stat: PyTree) -> Preference:
        """Arrange the pairs as a matrix."""
        return Preference(matrix(stat["mass"], jnp.zeros_like(stat["total"])), stat["total"])

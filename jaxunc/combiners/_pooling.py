"""Pooling: all leaves as one."""

from functools import reduce
from typing import ClassVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Num

from jaxunc._numerics import TwoFloat, divide_by_shared
from jaxunc._types import PyTree

from ._answer import Answer
from ._combiner import Combiner


class Pooling(Combiner[Answer]):
    r"""Relative frequencies of the counts of all leaves together.

    .. math:: g_{pool} = \frac{\sum_i w_i^+}{\sum_i N_i} - \frac12

    Notes
    -----
    Class scores: centred shares (n_c - N/C)/N. Score: the one of class 1. Probability: the shares. Integer counts are
    summed without rounding (up to 2⁴⁸ in float32). Class scores are quotients of exact differences, so a lead of one
    instance in 10¹³ is no tie. Leaves that are all empty: scores 0, equal shares.

    Gradient: (1 - share)/N for the class's own counts, -share/N for the others; 0 if all leaves are empty.

    References
    ----------
    Busch et al. 2021, section 4, "Pooling".
    """

    merge: ClassVar[str] = "exact_sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Counts as they are, class by class."""
        return tuple(counts[..., c] for c in range(counts.shape[-1]))

    def finish(self, stat: tuple[TwoFloat, ...]) -> Answer:
        """Shares of the total."""
        total = _total(stat)
        # Of all classes at once: a division each would have the compiler repeat the total for every one of them.
        own, total = _stacked(stat, axis=-1), TwoFloat(*(part[..., None] for part in total))
        # Subtracted as pairs of floats, before anything is divided: a lead of one instance survives at any size.
        scores = divide_by_shared(own.minus(total.divided_by(len(stat))).value, total.value)
        shares = divide_by_shared(own.value, total.value, 1 / len(stat))
        return Answer.from_shares(shares, scores, scores[..., 1] if len(stat) == 2 else None)


UNROLLED = 8
"""Classes up to which the total is one expression: a compiler's time for one grows with its square."""


def _total(stat: tuple[TwoFloat, ...]) -> TwoFloat:
    """Add classes up, one after the other."""
    if len(stat) <= UNROLLED:
        return reduce(TwoFloat.plus, stat)
    return lax.scan(lambda total, own: (total.plus(own), None), stat[0], _stacked(stat[1:], axis=0))[0]


def _stacked(stat: tuple[TwoFloat, ...], axis: int) -> TwoFloat:
    return TwoFloat(*(jnp.stack(part, axis) for part in zip(*stat, strict=True)))

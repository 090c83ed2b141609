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
        if len(stat) <= UNROLLED:
            total = reduce(TwoFloat.plus, stat)
            found = [_score_and_share(own, total, len(stat)) for own in stat]
            scores, shares = (jnp.stack(part, axis=-1) for part in zip(*found, strict=True))
        else:
            own, total = _stacked(stat), _total(stat)
            scores, shares = _score_and_share(own, TwoFloat(*(part[..., None] for part in total)), len(stat))
        return Answer.from_shares(shares, scores, scores[..., 1] if len(stat) == 2 else None)


UNROLLED = 8
"""Classes up to which each is an expression of its own, which takes a kernel less on a GPU. The compiler repeats the
total for every one of them: its time grows with their square."""


def _score_and_share(own: TwoFloat, total: TwoFloat, n_classes: int) -> tuple[Array, Array]:
    # Subtracted as pairs of floats, before anything is divided: a lead of one instance survives at any size.
    lead = own.minus(total.divided_by(n_classes)).value
    return divide_by_shared(lead, total.value), divide_by_shared(own.value, total.value, 1 / n_classes)


def _total(stat: tuple[TwoFloat, ...]) -> TwoFloat:
    """Add classes up in their order, by a loop."""
    others = TwoFloat(*(jnp.stack(part) for part in zip(*stat[1:], strict=True)))
    return lax.scan(lambda total, own: (total.plus(own), None), stat[0], others)[0]


def _stacked(stat: tuple[TwoFloat, ...]) -> TwoFloat:
    return TwoFloat(*(jnp.stack(part, axis=-1) for part in zip(*stat, strict=True)))

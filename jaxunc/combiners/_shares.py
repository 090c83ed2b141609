"""Combiners that add up leaves and divide: the votes of all leaves, or their counts as if all were one leaf."""

from functools import reduce
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Num

from jaxunc._checks import check_one_of
from jaxunc._numerics import TwoFloat, divide_by_shared, shares_of
from jaxunc._types import PyTree

from ._answer import Answer, margin
from ._combiner import Combiner


class Vote(Combiner[Answer]):
    r"""Majority vote: each tree votes for the largest class of its leaf; tied classes share the vote.

    .. math:: h_{vote} = \frac1K \sum_i \mathrm{sgn}(v_i), \qquad \mathrm{sgn}(0) = 0

    Parameters
    ----------
    ties
        ``"split"``: tied classes share the vote, as above. ``"literal"``: the paper's printed formula, the share of
        trees with v_i > 0: a tie is a vote for the first of the tied classes.

    Raises
    ------
    ValueError
        If ``ties`` is unknown.

    Notes
    -----
    Class scores and probability: the shares of the votes. Score: share of class 1 less that of class 0, which is the
    mean sign (the form of the paper's code). For literal ties: the printed share less 1/2. An empty leaf is a tie; no
    tree at all gives equal shares. Ties are decided on the counts, so they are exact. The gradient is zero. Where
    trees vote one by one (`jaxunc.voting`) votes are whole: there tied classes take turns over the trees.

    References
    ----------
    Busch et al. 2021, section 3.2.
    """

    ties: Literal["split", "literal"] = eqx.field(static=True, default="split")
    merge: ClassVar[str] = "sum"

    def __check_init__(self) -> None:
        check_one_of("ties", self.ties, ("split", "literal"))

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Share of the tree's vote for every class."""
        dtype = jnp.result_type(float)
        if self.ties == "literal":
            share = jax.nn.one_hot(jnp.argmax(counts, axis=-1), counts.shape[-1], dtype=dtype)
        else:
            # Ties on the counts as they are: shares would tie, or part, by rounding.
            share = shares_of((counts == jnp.max(counts, axis=-1, keepdims=True)).astype(dtype))
        return {"share": share, "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Divide by the number of votes."""
        share = stat["share"]
        shares = divide_by_shared(share, jnp.asarray(stat["trees"])[..., None], 1 / share.shape[-1])
        score = margin(shares) * (0.5 if self.ties == "literal" else 1.0) if shares.shape[-1] == 2 else None
        return Answer.from_shares(shares, shares, score)


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
        """Counts as they are; of few classes class by class."""
        n_classes = counts.shape[-1]
        return tuple(counts[..., c] for c in range(n_classes)) if n_classes <= UNROLLED else counts

    def finish(self, stat: TwoFloat | tuple[TwoFloat, ...]) -> Answer:
        """Shares of the total."""
        if isinstance(stat, TwoFloat):
            total = TwoFloat(*(part[..., None] for part in total_of_classes(stat)))
            scores, shares = _score_and_share(stat, total, stat.high.shape[-1])
        else:
            total = reduce(TwoFloat.plus, stat)
            pairs = [_score_and_share(plane, total, len(stat)) for plane in stat]
            scores, shares = (jnp.stack(part, axis=-1) for part in zip(*pairs, strict=True))
        return Answer.from_shares(shares, scores, scores[..., 1] if shares.shape[-1] == 2 else None)


UNROLLED = 8
"""Classes up to which each is an expression of its own, which takes a kernel less on a GPU. The compiler repeats the
total for each: its time grows with their square."""


def _score_and_share(plane: TwoFloat, total: TwoFloat, n_classes: int) -> tuple[Array, Array]:
    # Subtracted as pairs of floats, before anything is divided: a lead of one instance survives at any size.
    lead = plane.minus(total.divided_by(n_classes)).value
    return divide_by_shared(lead, total.value), divide_by_shared(plane.value, total.value, 1 / n_classes)


def total_of_classes(stat: TwoFloat) -> TwoFloat:
    """Add up the last axis in its order, by a loop."""
    first, others = (
        jax.tree.map(lambda part, at=at: jnp.moveaxis(part, -1, 0)[at], stat) for at in (0, slice(1, None))
    )
    return lax.scan(lambda total, plane: (total.plus(plane), None), first, others)[0]

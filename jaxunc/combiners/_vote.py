"""Majority vote."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc._checks import check_one_of
from jaxunc._numerics import divide_by_shared, shares_of
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
    tree at all gives equal shares. Ties are decided on the counts, so they are exact. The gradient is zero. Votes that
    are polled one by one (`jaxunc.voting`) are whole: there tied classes take turns over the trees.

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

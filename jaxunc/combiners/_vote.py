"""Majority vote."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc._numerics import safe_divide, shares_of

from ._answer import Answer, margin
from ._fold import Fold


class Vote(Fold):
    r"""Each tree votes for the largest class of its leaf; tied classes share the vote.

    .. math:: h_{vote} = \frac1K \sum_i \mathrm{sgn}(v_i), \qquad \mathrm{sgn}(0) = 0

    Notes
    -----
    Class scores and probability: the shares of the votes. Score: share of class 1 less that of class 0, which is the
    mean sign. (The paper prints sgn(v_i > 0); its code takes the sign.) An empty leaf votes for every class alike; no
    tree at all gives equal shares. Ties are decided on the counts, so they are exact. The gradient is zero.

    References
    ----------
    Busch et al. 2021, section 3.2.
    """

    merge: ClassVar[str] = "sum"

    def lift(self, counts: Num[Array, "... classes"]):
        """A share of the tree's vote for every class."""
        winners = counts == jnp.max(counts, axis=-1, keepdims=True)
        votes = winners.astype(jnp.result_type(float))
        return {"share": shares_of(votes), "trees": jnp.ones(())}

    def finish(self, stat) -> Answer:
        """Shares of all votes."""
        share = stat["share"]
        shares = safe_divide(share, jnp.asarray(stat["trees"])[..., None], 1 / share.shape[-1])
        return Answer.from_shares(shares, shares, margin(shares) if shares.shape[-1] == 2 else None)

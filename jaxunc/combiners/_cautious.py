"""Denœux's cautious rule."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc.tables import NumbersLike

from ._answer import Answer
from ._belief_rule import BeliefRule


class CautiousRule(BeliefRule):
    r"""Leaves as belief functions, combined by the cautious rule: for sources that are not independent.

    Canonical weights merge by their minimum, w(±) = min_i w_i(±). On leaf masses, which support one class at most, the
    weight of that class is m_i(Ω) and the other's is 1, so

    .. math:: m(\{+\}) = w_-(1 - w_+), \quad m(\{-\}) = w_+(1 - w_-), \quad m(\Omega) = w_- w_+, \quad
              \text{score} = w_- - w_+ = \max_i s_+^i - \max_i s_-^i

    Equal leaves count once (the rule is idempotent): more trees only matter if one is more certain than all before.

    Parameters
    ----------
    normalized, eps, prior, reliability
        See `DempsterRule`.

    Raises
    ------
    ValueError
        As for `DempsterRule`.

    Notes
    -----
    Class scores: log q of the singletons, log w(+) for − and log w(−) for +; rank by `margin`. Score: m(+) - m(−),
    normalised or not. Probability: pignistic, of the normalised masses. An empty leaf is neutral; no tree: scores 0.

    Gradient: that of the plausibility of the leaf with the smallest weight, the first tree's on ties. A leaf has a say
    in the weight of the class that it supports, an evenly split one in both. The latter counts where no other leaf
    supports the class, with the mean of the slopes at both sides of the kink. Empty and opposed leaves never take its
    place. So the margin of evenly split leaves alone has its exact slope. Beside a leaf that supports one class it has
    a kink, and half of the slope.

    References
    ----------
    Busch et al. 2021, section 4, "Cautious"; Denœux 2006.
    """

    merge: ClassVar[str] = "min"
    reads_sizes: ClassVar[bool] = True
    silence: ClassVar[float] = float("inf")

    def __init__(
        self,
        normalized: bool = False,
        eps: NumbersLike = 1e-5,
        prior: NumbersLike | None = None,
        reliability: NumbersLike | None = None,
    ):
        super().__init__(normalized, eps, prior, reliability)

    def finish(self, stat: Float[Array, "... 2"]) -> Answer:
        """Finish as all belief rules do. Where no leaf has a say the minimum is at infinity, and nothing is known."""
        return super().finish(jnp.where(jnp.isposinf(stat), 0.0, stat))

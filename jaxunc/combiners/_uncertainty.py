"""How uncertain a forest is, and of what kind."""

from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._checks import check_one_of
from jaxunc._numerics import float_dtype, safe_divide, shares_of

from ._fold import Fold


class Uncertainty(NamedTuple):
    """Uncertainty of each instance, split by its kind; total = aleatoric + epistemic."""

    total: Float[Array | np.ndarray, "..."]
    aleatoric: Float[Array | np.ndarray, "..."]
    """What more data would not remove: the classes overlap."""
    epistemic: Float[Array | np.ndarray, "..."]
    """What more data would: the trees disagree, or their leaves hold little."""


class UncertaintyDecomposition(Fold):
    r"""Aleatoric and epistemic uncertainty, streamed like any rule.

    Parameters
    ----------
    kind
        ``"entropy"``: total H(mean p), aleatoric mean H(p), epistemic their difference (the mutual information of class
        and tree), in bits, any number of classes. ``"plausibility"``: epistemic mean u_e, aleatoric mean u_a, with
        u_e = min π and u_a = 1 - max π of each leaf; two classes, each in [0, 1].

    Returns (when called)
    ---------------------
    Uncertainty
        ``(total, aleatoric, epistemic)``, each ``[...]``.

    Raises
    ------
    ValueError
        If the kind is unknown, or ``"plausibility"`` meets more than two classes.

    Notes
    -----
    An empty leaf counts as uniform (entropy), or as fully epistemic (plausibility). No tree: total and epistemic 1 bit
    per doubling of the classes (entropy), or epistemic 1. Entropy is differentiable (0 log 0 = 0, with gradient 0).

    References
    ----------
    Shaker and Hüllermeier 2020; Busch et al. 2021, section 3.1.2.
    """

    kind: Literal["entropy", "plausibility"] = eqx.field(static=True, default="entropy")
    merge: ClassVar[str] = "sum"

    @property
    def reads_sizes(self) -> bool:
        """Entropies are of shares alone."""
        return self.kind != "entropy"

    def __check_init__(self):
        check_one_of("kind", self.kind, ("entropy", "plausibility"))

    def lift(self, counts: Num[Array, "... classes"]):
        """Shares and their entropy, or the two uncertainties of the leaf; and 1 for the tree."""
        trees = jnp.ones(())
        if self.kind == "plausibility":
            log_degrees = scorers.support(counts).log_degrees
            aleatoric = -jnp.expm1(jnp.max(log_degrees, axis=-1))
            return {"aleatoric": aleatoric, "certain": -jnp.expm1(jnp.min(log_degrees, axis=-1)), "trees": trees}
        counts = counts.astype(float_dtype(counts))
        shares = shares_of(counts)
        return {"shares": shares, "entropy": entropy(shares), "trees": trees}

    def finish(self, stat) -> Uncertainty:
        """Means over the trees."""
        trees = jnp.asarray(stat["trees"])
        if self.kind == "plausibility":
            aleatoric = safe_divide(stat["aleatoric"], trees)
            epistemic = 1 - safe_divide(stat["certain"], trees)
            return Uncertainty(aleatoric + epistemic, aleatoric, epistemic)
        n_classes = stat["shares"].shape[-1]
        total = entropy(safe_divide(stat["shares"], trees[..., None], 1 / n_classes))
        aleatoric = jnp.minimum(safe_divide(stat["entropy"], trees), total)
        return Uncertainty(total, aleatoric, total - aleatoric)


def entropy(probs: Float[Array, "... classes"]) -> Float[Array, "..."]:
    """Shannon entropy in bits, 0 log 0 = 0."""
    safe = jnp.where(probs > 0, probs, 1.0)
    return -jnp.sum(probs * jnp.log2(safe), axis=-1)

"""Averaging what leaves believe about θ, instead of a number that each makes of it."""

import math
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc import scorers
from jaxunc._checks import check_one_of
from jaxunc._numerics import divide_by_shared, sum_in_order
from jaxunc._types import PyTree

from ._answer import Answer, margin
from ._combiner import Combiner
from ._mean import answer_of_mean, answer_of_scores

GRID_SIZE = 101


class BetaAggregation(Combiner[Answer]):
    r"""The mean over trees of the densities of Beta(w⁺+1, w⁻+1), read by its area or its mode.

    .. math:: f(\theta) = \frac1K \sum_i f_i(\theta), \qquad
              h_{sum} = \frac{\sum_{j > 50} f(j/100)}{\sum_{j > 50} f(j/100) + \sum_{j < 50} f(j/100)}, \qquad
              h_{max} = \arg\max_j f(j/100) / 100

    Parameters
    ----------
    statistic
        ``"sum"``: the share of the area beyond 1/2, on the published grid. ``"exact"``: its limit on fine grids,
        (1/K) Σ I_{1/2}(w⁻+1, w⁺+1). ``"max"``: the mode on the published grid, the first one on ties; it merges 101
        numbers a leaf and costs accordingly.

    Raises
    ------
    ValueError
        If the statistic is unknown, or counts have more than two classes (use OneVsRest).

    Notes
    -----
    Score: the published value less 1/2, in [-1/2, 1/2]. Probability: (1 - h, h). Class scores: log(1 - h) and log h
    for ``"sum"`` (they keep their order where h rounds to 1), ∓ the score otherwise. An empty leaf has the uniform
    density; no tree, or only leaves so large (N > 10⁴) that their density falls between two nodes: 0.

    Gradient: smooth for ``"sum"`` and ``"exact"``, zero for ``"max"``.

    References
    ----------
    Busch et al. 2021, published code.
    """

    statistic: Literal["sum", "exact", "max"] = eqx.field(static=True, default="sum")
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_one_of("statistic", self.statistic, ("sum", "exact", "max"))

    def lift(self, counts: Num[Array, "... 2"]) -> PyTree:
        """The areas below and beyond 1/2, the leaf's exact area, or its whole density."""
        if counts.shape[-1] != 2:
            raise ValueError(
                f"BetaAggregation combines two classes, but counts have {counts.shape[-1]}. "
                "Combine each class against the rest: OneVsRest(BetaAggregation())."
            )
        if self.statistic == "exact":
            beyond = scorers.confidence_bounds(counts, family="beta", statistic="area", weighted=False) / 2
            return {"score": beyond[..., None], "trees": jnp.ones(())}
        density = scorers.beta_densities(counts, grid_size=GRID_SIZE)
        if self.statistic == "max":
            return density
        half = GRID_SIZE // 2
        return jnp.stack([sum_in_order(density[..., :half]), sum_in_order(density[..., half + 1 :])], axis=-1)

    def finish(self, stat: PyTree) -> Answer:
        """The share beyond 1/2, or where the mean density is largest."""
        if self.statistic == "exact":
            return answer_of_mean(stat, 1.0)
        if self.statistic == "max":
            mode = jnp.argmax(stat, axis=-1).astype(stat.dtype)
            seen = jnp.max(stat, axis=-1) > 0
            return answer_of_scores(jnp.where(seen, (mode - GRID_SIZE // 2) / (GRID_SIZE - 1), 0.0)[..., None], 1.0)
        tiny = jnp.finfo(stat.dtype).tiny
        total = sum_in_order(stat, keepdims=True)
        seen = total > math.sqrt(tiny)  # of less no slope could be represented
        stat, total = jnp.where(seen, stat, 0.5), jnp.where(seen, total, 1.0)
        shares = divide_by_shared(stat, total)
        logs = jnp.log(jnp.maximum(stat, tiny)) - jnp.log(total)
        return Answer(logs, margin(shares) / 2, shares, logs)

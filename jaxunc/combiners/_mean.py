"""The mean of leaf scores."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._numerics import divide_by_shared, shares_of
from jaxunc._types import PyTree
from jaxunc.scorers import as_partial, score_width

from ._answer import Answer
from ._combiner import Combiner


class Mean(Combiner[Answer]):
    r"""The mean of leaf scores over trees, h_avg = (1/K) Σ p(w_i).

    ``Mean()`` averages relative frequencies: what scikit-learn's forests answer.

    Parameters
    ----------
    scorer
        A function of counts ``[... 2]`` → ``[...]``, or with more classes ``[... classes]`` → ``[... classes]``; from
        `jaxunc.scorers` or your own. With settings: ``functools.partial(scorer, setting=value)``, or JAX's ``Partial``,
        which means the same here; its numbers are leaves of the rule, which can be learned.

    Notes
    -----
    Class scores: ∓ the mean score for two classes, the mean scores for more. Score: the mean score. Probability: 1/2
    ± score/width, clipped to [0, 1], where the width is that of the scorer's range (1 for centred probabilities, 2
    for plausibility). Scores without a bound (`scorers.linear`, `scorers.ucb`) have none: asking for it raises a
    ValueError. No tree (all masked): 0, or 1/C.

    Scores of leaves are rounded before they are added, with compensation. So the mean of shares is within 4 eps (5e-7
    in float32) of the true one for any number of trees, and 0 for a class that no leaf has.

    References
    ----------
    Busch et al. 2021, section 3.2.
    """

    scorer: Partial
    merge: ClassVar[str] = "sum"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Score of the leaf along a last axis (of one entry if it is binary), and 1 for the tree."""
        return {"score": score_planes(self.scorer, counts), "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Divide the total by the number of trees."""
        return answer_of_mean(stat, score_width(self.scorer))


def answer_of_mean(stat: PyTree, width: float) -> Answer:
    """Read totals of leaf scores ("score") and how many trees they are of ("trees"), of a scorer with this width.

    A class that no tree gives anything has exactly 0.
    """
    total, trees = stat["score"], jnp.asarray(stat["trees"])[..., None]
    scores = divide_by_shared(total, trees)
    if total.shape[-1] == 1 or math.isinf(width):
        return answer_of_scores(scores, width)
    # From the totals, since the mean of so many times -1/C, once rounded, need not be -1/C. Zero by comparison, since a
    # sum may be fused with the product before it is rounded; its slope is that of the total.
    total, equal = total / width, trees * (1 / total.shape[-1])
    shares = jnp.where(total <= -equal, total - lax.stop_gradient(total), total + equal)
    return Answer.from_shares(shares_of(shares), scores, None)


def answer_of_scores(scores: Float[Array, "... k"], width: float) -> Answer:
    """Read combined leaf scores (one for two classes, one per class for more) of a scorer with this width."""
    if scores.shape[-1] == 1:
        score = scores[..., 0]
        both = jnp.stack([-score, score], axis=-1)
        if math.isinf(width):
            return Answer(both, score, None, None)
        # A score in an interval of this width around 0, read as a probability around one half.
        shares = 0.5 + both / width
        outside = (shares < 0) | (shares > 1)  # not `clip`, which halves the slope at 0 and 1
        return Answer.from_shares(jnp.where(outside, jnp.clip(shares, 0.0, 1.0), shares), both, score)
    if math.isinf(width):
        return Answer(scores, None, None, None)
    shares = jnp.maximum(scores / width + 1 / scores.shape[-1], 0.0)
    # Medians and extremes may find every class improbable.
    return Answer.from_shares(shares_of(shares), scores, None)


def score_planes(scorer: Callable[..., Any], counts: Num[Array, "... classes"]) -> Array:
    """Scores with a last axis: one entry for a binary score, one per class otherwise."""
    score = scorer(counts)
    if score.shape == counts.shape[:-1] and counts.shape[-1] == 2:
        return score[..., None]
    if score.shape == counts.shape and counts.shape[-1] > 2:
        return score
    raise ValueError(
        f"scorer returned shape {score.shape} for counts of shape {counts.shape}; expected {counts.shape[:-1]} for "
        "two classes and the shape of the counts for more."
    )

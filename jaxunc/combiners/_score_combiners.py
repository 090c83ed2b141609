"""Combiners of one score a leaf: their mean, weighted or not, their median, the most extreme one, and mixtures.

`score_planes` returns the leaves' scores; `answer_of_mean` and `answer_of_scores` make an answer of combined scores.
Last comes `BetaAggregation`, which averages the leaves' whole densities instead of scores.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._checks import check_one_of, is_concrete
from jaxunc._numerics import divide_by_shared, safe_divide, shares_of, sum_in_order
from jaxunc._types import PyTree
from jaxunc.scorers import as_partial, score_width, support

from ._answer import Answer, margin
from ._combiner import Combiner


class Mean(Combiner[Answer]):
    r"""The mean of leaf scores over trees, h_avg = (1/K) Σ p(w_i).

    p is the scorer, w_i are the counts of the leaf of tree i, and K is the number of trees. ``Mean()`` averages
    relative frequencies: what scikit-learn's forests answer.

    Parameters
    ----------
    scorer
        A function of counts ``[... 2]`` → ``[...]``, or with more classes ``[... classes]`` → ``[... classes]``; from
        `jaxunc.scorers` or your own. With settings: ``functools.partial(scorer, setting=value)``, or JAX's ``Partial``,
        which means the same here; its numbers are leaves of the combiner, which can be learned.

    Notes
    -----
    Class scores: minus and plus the mean score for class 0 and 1, the mean scores for more classes. Score: the mean
    score. Probability of class 1: 1/2 + score/width, clipped to [0, 1], where the width is that of the scorer's range
    (1 for centred probabilities, 2 for plausibility). Scores without a bound (`scorers.linear`, `scorers.ucb`) have no
    probability: asking for it raises a ValueError. No tree (all masked): scores 0, equal probabilities.

    Scores of leaves are rounded before they are added, with compensation. So the mean of shares is within 4 eps (5e-7
    in float32) of the true one for any number of trees. It is 0 for a class that no leaf has.

    References
    ----------
    Busch et al. 2021, section 3.2.
    """

    scorer: Partial
    merge: ClassVar[str] = "sum"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's scores along a last axis (one entry for two classes), and 1, to count the trees."""
        return {"score": score_planes(self.scorer, counts), "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of the mean score: the merged scores, divided by the number of trees."""
        return answer_of_mean(stat, score_width(self.scorer))


def answer_of_mean(stat: PyTree, width: float | Float[Array, ""]) -> Answer:
    """Return the answer of the mean of leaf scores, from their sum ``stat["score"]`` over ``stat["trees"]`` trees.

    The sum is ``[... k]``, where k is 1 for two classes, else their number; ``width`` is the scorer's `score_width`.
    """
    total = stat["score"]
    trees = jnp.asarray(stat["trees"])[..., None]
    scores = divide_by_shared(total, trees)
    if total.shape[-1] == 1 or _is_infinite(width):
        return answer_of_scores(scores, width)
    width = _as_precise(width, total)
    # A class without counts in any leaf must have exactly 0. So shares come from the totals, since a rounded mean of
    # many -1/C need not be -1/C. The 0 comes by comparison, with the total's slope, whatever the compiler fuses.
    total = total / width
    even_share = trees * (1 / total.shape[-1])  # the sum of 1/C over the trees
    shares = jnp.where(total <= -even_share, total - lax.stop_gradient(total), total + even_share)
    return Answer.from_shares(shares_of(shares), scores, score=None)


def answer_of_scores(scores: Float[Array, "... k"], width: float | Float[Array, ""]) -> Answer:
    """Return the answer of ``scores [... k]``, each a mean, median or the like of a scorer's scores over trees.

    k is 1 for two classes, else their number; ``width`` is the scorer's `score_width`.
    """
    is_unbounded = _is_infinite(width)
    width = _as_precise(width, scores)
    if scores.shape[-1] == 1:
        score = scores[..., 0]
        class_scores = jnp.stack([-score, score], axis=-1)
        if is_unbounded:
            return Answer(class_scores, score, probability=None, log_probability=None)
        # Scores lie in an interval of this width around 0, probabilities in one of width 1 around one half.
        shares = 0.5 + class_scores / width
        is_outside = (shares < 0) | (shares > 1)  # not `clip`, which halves the slope at 0 and 1
        return Answer.from_shares(jnp.where(is_outside, jnp.clip(shares, 0.0, 1.0), shares), class_scores, score)
    if is_unbounded:
        return Answer(scores, score=None, probability=None, log_probability=None)
    shares = scores / width + 1 / scores.shape[-1]
    shares = jnp.where(shares < 0, 0.0, shares)  # not `maximum`, which halves the slope at 0
    # Medians and extremes need not add to 1; they may even find every class improbable.
    return Answer.from_shares(shares_of(shares), scores, score=None)


def _is_infinite(width: float | Float[Array, ""]) -> bool:
    """Return whether ``width`` is infinite; a traced one counts as finite."""
    return is_concrete(width) and math.isinf(width)


def _as_precise(width: float | Float[Array, ""], scores: Float[Array, "... k"]) -> float | Float[Array, ""]:
    """Return ``width`` as it is if it is a float, and else as an array in the precision of ``scores``."""
    return width if isinstance(width, float) else jnp.asarray(width, scores.dtype)


def score_planes(scorer: Callable[..., Any], counts: Num[Array, "... classes"]) -> Array:
    """Return the scores that ``scorer`` gives leaves, ``[... k]``: k is 1 for two classes, else the number of classes.

    Raises a ValueError if the scorer returns another shape.
    """
    score = scorer(counts)
    if score.shape == counts.shape[:-1] and counts.shape[-1] == 2:
        return score[..., None]
    if score.shape == counts.shape and counts.shape[-1] > 2:
        return score
    raise ValueError(
        f"scorer returned shape {score.shape} for counts of shape {counts.shape}; expected {counts.shape[:-1]} for "
        "two classes and the shape of the counts for more."
    )


class EpistemicWeighting(Combiner[Answer]):
    r"""The mean of plausibility scores, each times one minus its leaf's epistemic uncertainty.

    .. math:: \frac1K \sum_i (1 - u_e^i)\, p_{pls}^i, \qquad u_e = \min\{\pi(+), \pi(-)\}

    over the leaves i of K trees, with the score p_pls and the degrees of support π of `scorers.plausibility`.

    Notes
    -----
    Class scores: ∓ the score, in [-1, 1]. Probability: (1 ± score)/2. An empty leaf contributes 0; no tree: 0. Raises a
    ValueError for more than two classes (use OneVsRest). Gradient: the plausibility's, with a kink of u_e at ties.

    References
    ----------
    Busch et al. 2021, published code.
    """

    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: Num[Array, "... 2"]) -> PyTree:
        """Return the leaf's plausibility score times 1 less its epistemic uncertainty, and 1, to count the trees."""
        leaf = support(counts)
        certainty = -jnp.expm1(jnp.min(leaf.log_degrees, axis=-1))
        return {"score": (certainty * leaf.preference)[..., None], "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of the mean score: the merged scores, divided by the number of trees."""
        return answer_of_mean(stat, width=2.0)


class Median(Combiner[Answer]):
    """The median of leaf scores over trees; of an even number the mean of the two middle ones.

    Parameters
    ----------
    scorer
        The function that scores the counts of a leaf, as for `Mean`.

    Notes
    -----
    Class scores, score, probability: as for `Mean`, of the median. No tree: 0. Gradient: that of the middle leaf or
    leaves. An order statistic: it keeps every tree's score for a chunk of instances, and sorts.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code.
    """

    scorer: Partial
    merge: ClassVar[str] = "collect"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's scores along a last axis, which has one entry for two classes."""
        return score_planes(self.scorer, counts)

    def finish(self, stat: Float[Array, "... trees k"]) -> Answer:
        """Return the answer of the median score over the trees that are not masked."""
        return answer_of_scores(median_of_trees(stat), score_width(self.scorer))


def median_of_trees(scores: Float[Array, "... trees k"]) -> Float[Array, "... k"]:
    """Return the median of ``scores`` over trees; NaN (a masked tree) is left out. It is 0 if no tree is left."""
    n_trees = jnp.sum(~jnp.isnan(scores), axis=-2, keepdims=True)
    ordered = jnp.sort(scores, axis=-2)  # NaN last, so that the middle is that of the trees before
    low = jnp.take_along_axis(ordered, jnp.maximum(n_trees - 1, 0) // 2, axis=-2)
    high = jnp.take_along_axis(ordered, n_trees // 2, axis=-2)
    high = jnp.where(n_trees % 2 == 1, low, high)  # of an odd number both are the middle element
    middle = jnp.squeeze((low + high) / 2, axis=-2)
    return jnp.where(jnp.squeeze(n_trees, axis=-2) > 0, middle, 0.0)


class Maximum(Combiner[Answer]):
    r"""The leaf score that is largest in absolute value: v_j with j = argmax \|v_i\| of the scores v_i.

    Parameters
    ----------
    scorer
        The function that scores the counts of a leaf, as for `Mean`.

    Notes
    -----
    Class scores, score, probability: as for `Mean`, of the extreme score. Two scores of opposite sign that are equally
    extreme say nothing about the class: 0. (The published code takes the first tree's, which depends on the order of
    the trees; the sign of either would favour a class.) With more classes, each is treated so. No tree: 0.

    Gradient: that of the extreme leaf, the first tree's on ties; of two opposite ones half of both.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code.
    """

    scorer: Partial
    merge: ClassVar[str] = "max"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's score and its negative: their maxima over trees are the two extremes."""
        score = score_planes(self.scorer, counts)
        return {"highest": score, "lowest": -score}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of the score with the largest absolute value, which is one of the merged extremes."""
        return answer_of_scores(extreme_of(stat["highest"], stat["lowest"]), score_width(self.scorer))


def extreme_of(highest: Float[Array, "..."], highest_negated: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the score with the largest absolute value over trees, or 0 where scores of opposite sign tie.

    ``highest`` is the largest of the scores, and ``highest_negated`` that of the negated ones.
    """
    # A tie is 0 as half of a difference, so that both scores have half of the gradient.
    not_highest = jnp.where(highest == highest_negated, (highest - highest_negated) / 2, -highest_negated)
    extreme = jnp.where(highest > highest_negated, highest, not_highest)
    return jnp.where(jnp.isfinite(extreme), extreme, 0.0)  # without any tree both extremes are -inf


Reference = Literal["mean", "median", "maximum"]


class GeneralizedMixture(Combiner[Answer]):
    r"""A weighted mean of leaf scores, with less weight the further a score is from a reference Θ.

    .. math:: H_\Theta = \frac{1}{K-1} \sum_i \Big(v_i - v_i \frac{|v_i - \Theta|}{\sum_j |v_j - \Theta|}\Big)

    where v_i is the score of the leaf of tree i, and K is the number of trees.

    Parameters
    ----------
    scorer
        The function that scores the counts of a leaf, as for `Mean`.
    reference
        Θ: the ``"mean"``, ``"median"`` or ``"maximum"`` of the scores; the maximum is in absolute value, and 0 if two
        scores of opposite sign tie, as for `Maximum`.

    Raises
    ------
    ValueError
        If the reference is unknown.

    Notes
    -----
    The weights add to 1. Class scores, score, probability: as for `Mean`, of H. All scores equal, or a single tree:
    that score (the published code raises for a single tree). No tree: 0. Not smooth where v_i = Θ (subgradient 0).
    It keeps every tree's score for a chunk of instances.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code; Farias et al. 2016.
    """

    scorer: Partial
    reference: Reference = eqx.field(static=True)
    merge: ClassVar[str] = "collect"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability, reference: Reference = "mean"):
        check_one_of("reference", reference, ("mean", "median", "maximum"))
        self.scorer = as_partial(scorer)
        self.reference = reference

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the leaf's scores along a last axis, which has one entry for two classes."""
        return score_planes(self.scorer, counts)

    def finish(self, stat: Float[Array, "... trees k"]) -> Answer:
        """Return the answer of the mixture H: a tree's score has less weight the further it is from the reference."""
        # Masked trees have the score NaN.
        is_present = ~jnp.isnan(stat)
        scores = jnp.where(is_present, stat, 0.0)
        n_trees = jnp.sum(is_present, axis=-2).astype(scores.dtype)
        total = sum_in_order(scores, -2)
        mean = safe_divide(total, n_trees)
        reference = mean
        if self.reference == "median":
            reference = median_of_trees(stat)
        elif self.reference == "maximum":
            reference = _extreme(stat)
        distance = jnp.where(is_present, jnp.abs(scores - reference[..., None, :]), 0.0)
        total_distance = sum_in_order(distance, -2)
        # The `where` keeps the compiler from fusing product and sum, which would round once instead of twice.
        weighted_total = sum_in_order(jnp.where(is_present, scores * distance, 0.0), -2)
        # The weights (1 - d_i/Σd)/(K - 1) without forming them: the plain sum less the sum weighted by distance.
        mixture = safe_divide(total - safe_divide(weighted_total, total_distance), n_trees - 1)
        # Without any spread all scores are equal, and the mean is that score.
        return answer_of_scores(jnp.where(total_distance > 0, mixture, mean), score_width(self.scorer))


def _extreme(scores: Float[Array, "... trees k"]) -> Float[Array, "... k"]:
    """Return `extreme_of` the scores of all trees but masked ones, whose scores are NaN; 0 if no tree is left."""
    is_masked = jnp.isnan(scores)

    def highest(signed_scores):  # read by index, so that on ties the first tree alone has the gradient
        best_tree = jnp.argmax(jnp.where(is_masked, -jnp.inf, signed_scores), axis=-2, keepdims=True)
        return jnp.squeeze(jnp.take_along_axis(signed_scores, best_tree, axis=-2), axis=-2)

    return extreme_of(highest(scores), highest(-scores))


GRID_SIZE = 101
"""Nodes θ = 0, 0.01, …, 1 of the published grid."""


class BetaAggregation(Combiner[Answer]):
    r"""The mean over trees of the densities of Beta(w⁺+1, w⁻+1), read by its area or its mode.

    .. math:: f(\theta) = \frac1K \sum_i f_i(\theta), \qquad
              h_{sum} = \frac{\sum_{j > 50} f(j/100)}{\sum_{j > 50} f(j/100) + \sum_{j < 50} f(j/100)}, \qquad
              h_{max} = \arg\max_j f(j/100) / 100

    where w⁺ and w⁻ are the counts of class 1 and class 0 in a leaf, and f_i is the density of the leaf of tree i of K.

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
        """Return what is added up of a leaf's density, by ``statistic``.

        * "sum": the areas below and beyond 1/2, on the grid;
        * "exact": the area beyond 1/2 less 1/2, and 1, to count the trees;
        * "max": the density at each node of the grid.
        """
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
        half = GRID_SIZE // 2  # the node θ = 1/2, which belongs to neither area
        return jnp.stack([sum_in_order(density[..., :half]), sum_in_order(density[..., half + 1 :])], axis=-1)

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer by ``statistic``: the share of the mean density's area beyond 1/2, or ("max") its mode."""
        if self.statistic == "exact":
            return answer_of_mean(stat, width=1.0)
        if self.statistic == "max":
            mode = jnp.argmax(stat, axis=-1).astype(stat.dtype)
            has_density = jnp.max(stat, axis=-1) > 0
            scores = jnp.where(has_density, (mode - GRID_SIZE // 2) / (GRID_SIZE - 1), 0.0)
            return answer_of_scores(scores[..., None], width=1.0)
        tiny = jnp.finfo(stat.dtype).tiny
        total = sum_in_order(stat, keepdims=True)
        has_density = total > math.sqrt(tiny)  # the slope of a smaller total could not be represented
        stat = jnp.where(has_density, stat, 0.5)
        total = jnp.where(has_density, total, 1.0)
        shares = divide_by_shared(stat, total)
        log_shares = jnp.log(jnp.maximum(stat, tiny)) - jnp.log(total)
        return Answer(log_shares, margin(shares) / 2, shares, log_shares)

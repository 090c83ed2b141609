"""Combiners that add up leaves: their votes, their counts as if all were one leaf, or how far each moves the odds."""

import math
from functools import reduce
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_numbers, check_one_of, check_probability_vector, check_within, is_concrete
from jaxunc._numerics import (
    TwoFloat,
    copy_in,
    divide_by_shared,
    float_dtype,
    log_softmax,
    safe_divide,
    shares_of,
    sum_in_order,
    two_floats,
)
from jaxunc._types import PyTree
from jaxunc.scorers import differences
from jaxunc.tables import NumbersLike

from ._answer import MANY, Answer, margin
from ._combiner import Combiner, learned_field


class Vote(Combiner[Answer]):
    r"""Majority vote: each tree votes for the largest class of its leaf; tied classes share the vote.

    .. math:: h_{vote} = \frac1K \sum_i \mathrm{sgn}(v_i), \qquad \mathrm{sgn}(0) = 0

    where v_i is the share of class 1 in the leaf of tree i less 1/2, and K is the number of trees.

    Parameters
    ----------
    ties
        ``"split"``: tied classes share the vote, as above. ``"literal"``: the paper's printed formula, the share of
        trees with v_i > 0, so that a tie is a vote for the first of the tied classes.

    Raises
    ------
    ValueError
        If ``ties`` is unknown.

    Notes
    -----
    Class scores and probability: the shares of the votes. Score: share of class 1 less that of class 0, which is the
    mean sign (the form of the paper's code); for literal ties, the printed share less 1/2. An empty leaf is a tie; no
    tree at all gives equal shares. Ties are those of the counts, without rounding. The gradient is zero. Where trees
    vote one by one (`jaxunc.voting`) votes are whole: there tied classes take turns over the trees.

    References
    ----------
    Busch et al. 2021, section 3.2.
    """

    ties: Literal["split", "literal"] = eqx.field(static=True, default="split")
    merge: ClassVar[str] = "sum"

    def __check_init__(self) -> None:
        check_one_of("ties", self.ties, ("split", "literal"))

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the share of the tree's vote that each class gets ``[... classes]``, and 1, to count the trees."""
        dtype = jnp.result_type(float)
        if self.ties == "literal":
            share = jax.nn.one_hot(jnp.argmax(counts, axis=-1), counts.shape[-1], dtype=dtype)
        else:
            # Ties are found on the counts themselves: shares might tie, or differ, by rounding alone.
            share = shares_of((counts == jnp.max(counts, axis=-1, keepdims=True)).astype(dtype))
        return {"share": share, "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of the merged shares of votes, divided by the number of trees."""
        share = stat["share"]
        shares = divide_by_shared(share, jnp.asarray(stat["trees"])[..., None], 1 / share.shape[-1])
        score = None
        if shares.shape[-1] == 2:  # the printed formula is a share less 1/2, which is half of the margin
            score = margin(shares) * (0.5 if self.ties == "literal" else 1.0)
        return Answer.from_shares(shares, shares, score)


class Pooling(Combiner[Answer]):
    r"""Relative frequencies of the counts of all leaves together.

    .. math:: g_{pool} = \frac{\sum_i w_i^+}{\sum_i N_i} - \frac12

    where w_i^+ of the N_i instances in the leaf of tree i are of class 1.

    Notes
    -----
    Class scores: centred shares (n_c - N/C)/N, if n_c of the N instances in all leaves are of class c, one of C. Score:
    the class score of class 1. Probability: the shares. Integer counts are summed without rounding (up to 2⁴⁸ in
    float32). Class scores are quotients of exact differences, so a lead of one instance in 10¹³ is no tie. Leaves that
    are all empty: scores 0, equal shares.

    Gradient: (1 - share)/N for the class's own counts, -share/N for the others; 0 if all leaves are empty.

    References
    ----------
    Busch et al. 2021, section 4, "Pooling".
    """

    merge: ClassVar[str] = "exact_sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the counts as they are, or, for up to `UNROLLED` classes, as a tuple of one plane per class."""
        n_classes = counts.shape[-1]
        if n_classes > UNROLLED:
            return counts
        return tuple(counts[..., c] for c in range(n_classes))

    def finish(self, stat: TwoFloat | tuple[TwoFloat, ...]) -> Answer:
        """Return the answer of the leaves' summed counts: shares of the C classes, and as scores these less 1/C."""
        if isinstance(stat, TwoFloat):
            total = TwoFloat(*(part[..., None] for part in total_of_classes(stat)))
            scores, shares = _score_and_share(stat, total, stat.high.shape[-1])
        else:
            total = reduce(TwoFloat.plus, stat)
            by_class = [_score_and_share(plane, total, len(stat)) for plane in stat]
            scores, shares = (jnp.stack(part, axis=-1) for part in zip(*by_class, strict=True))
        return Answer.from_shares(shares, scores, scores[..., 1] if shares.shape[-1] == 2 else None)


UNROLLED = 8
"""Number of classes up to which each class is a separate plane, which saves a kernel on a GPU. The compiler repeats the
total for each class, so that its time grows with the square of their number."""


def _score_and_share(plane: TwoFloat, total: TwoFloat, n_classes: int) -> tuple[Array, Array]:
    """Return the centred share (n_c - N/C)/N of a class, and its share n_c/N; 0 and 1/C if N is 0.

    ``plane`` is n_c, the count of the class, ``total`` is N, the count of all classes, and ``n_classes`` is C.
    """
    # Subtracted as pairs of floats, before anything is divided: a lead of one instance survives at any size.
    lead = plane.minus(total.divided_by(n_classes)).value
    return divide_by_shared(lead, total.value), divide_by_shared(plane.value, total.value, 1 / n_classes)


def total_of_classes(stat: TwoFloat) -> TwoFloat:
    """Return the sum ``[...]`` of the two-floats ``stat [... classes]`` over classes, added in their order."""
    by_class = jax.tree.map(lambda part: jnp.moveaxis(part, -1, 0), stat)
    first = jax.tree.map(lambda part: part[0], by_class)
    others = jax.tree.map(lambda part: part[1:], by_class)
    return lax.scan(lambda total, plane: (total.plus(plane), None), first, others)[0]


class EvidenceAccumulation(Combiner[Answer]):
    r"""Leaves as independent pieces of evidence, each measured against the prior (EVA).

    .. math:: \ell_c = \log P(c) + \sum_i \Big(\log P(c \mid w_i) - \log P(c)\Big), \qquad
              P(c \mid w) = \frac{w_c + \lambda}{N + C\lambda}

    where w_i are the counts of the leaf of tree i, N is their sum, and C the number of classes.

    Parameters
    ----------
    prior
        Class probabilities ``[classes]``, all positive; or the probability of class 1. Usually ``forest.prior``.
    smoothing
        λ ≥ 0, 0.1 in the paper. With λ = 0 an absent class is vetoed.
    prior_term
        ``"log"``: the formula above. ``"published_code"``: the paper's code, which for K trees subtracts (K-1) P(c)
        instead of (K-1) log P(c); equal at a uniform prior only.
    smooth_to_prior
        Smooth towards the prior, (w_c + CλP(c))/(N + Cλ), which makes an empty leaf neutral. With the paper's
        smoothing it is evidence for equal odds.

    Raises
    ------
    ValueError
        If the prior has an entry that is not positive or does not add to 1, λ is negative, or the option is unknown.

    Notes
    -----
    Class scores: ℓ + log C, which is 0 where there is no evidence at a uniform prior. The constant, common to all
    classes, keeps leads of one in 10⁹ apart in float32. Score: the logit ℓ₊ - ℓ₋, which has the sign of the paper's
    difference of products and neither under- nor overflows. Probability: softmax(ℓ). If λ = 0 and every class is
    vetoed, the leaves contradict each other: class scores are -inf, the score is 0, the probability the prior. With λ =
    0 an empty leaf is no evidence. No tree: the prior.

    Gradient: smooth for λ > 0, in the prior and λ too. At λ = 0 a veto has gradient 0.

    References
    ----------
    Busch et al. 2021, section 4, "Evidence accumulation".
    """

    prior_term: Literal["log", "published_code"] = eqx.field(static=True)
    smooth_to_prior: bool = eqx.field(static=True)
    log_prior: Float[Array, "classes"] = learned_field("log_simplex")
    smoothing: Float[Array, ""] = learned_field("positive")
    merge: ClassVar[str] = "sum"

    def __init__(
        self,
        prior: NumbersLike,
        smoothing: NumbersLike = 0.1,
        prior_term: Literal["log", "published_code"] = "log",
        smooth_to_prior: bool = False,
    ):
        check_one_of("prior_term", prior_term, ("log", "published_code"))
        check_numbers("prior", prior)
        check_within("smoothing", smoothing, "[0, inf)", "; the paper uses 0.1")
        check_bool("smooth_to_prior", smooth_to_prior)
        dtype = float_dtype(prior, smoothing)
        if np.ndim(prior) == 0:
            # 1 less the prior is taken before rounding, if it can be: near 1 that of a rounded number has lost digits.
            if is_concrete(prior):
                number = np.asarray(prior, float)
                prior = np.stack([1 - number, number])
            else:
                number = jnp.asarray(prior)
                prior = jnp.stack([1 - number, number])
        prior = copy_in(prior, dtype)
        check_probability_vector(prior, prior.shape[-1])
        # As a logarithm, which learning can move freely: the prior stays positive, and a softmax makes it add to 1.
        self.log_prior = jnp.log(prior)
        self.smoothing = copy_in(smoothing, dtype)
        self.prior_term = prior_term
        self.smooth_to_prior = bool(smooth_to_prior)

    @property
    def prior(self) -> Float[Array, "classes"]:
        """The prior probabilities of the classes, of which the combiner holds the logarithms."""
        return jnp.exp(self.log_prior)

    @property
    def reads_sizes(self) -> bool:
        """Whether the answer depends on leaf sizes: true unless the smoothing is 0 (a traced one may be more)."""
        return not is_concrete(self.smoothing) or bool(np.any(np.asarray(self.smoothing) > 0))

    def _prior_gain(self) -> Array:
        """Return log P(c), or P(c) for the paper's code, plus log C for each class c of C: ``[classes]``."""
        # As log(C P(c)) it is 0 at a uniform prior; `lift` subtracts it from log(C P(c|w)).
        term = self.prior if self.prior_term == "published_code" else self.log_prior
        return term + math.log(self.log_prior.shape[-1])

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the evidence of a leaf for each class c: log P(c|w) less the prior term; -inf vetoes the class."""
        n_classes = counts.shape[-1]
        if self.log_prior.shape[-1] != n_classes:
            raise ValueError(
                f"prior has {self.log_prior.shape[-1]} classes, but counts have {n_classes}; "
                "pass one probability per class."
            )
        dtype = float_dtype(counts, self.log_prior)
        lead = _lead(counts).astype(dtype)
        # Each class is smoothed by λ times this: C times its prior, or 1.
        relative_prior = n_classes * self.prior if self.smooth_to_prior else jnp.ones(n_classes, dtype)
        total = sum_in_order(counts.astype(dtype), keepdims=True) + n_classes * self.smoothing
        smoothed = counts.astype(dtype) + self.smoothing * relative_prior
        is_silent = total == 0
        is_vetoed = smoothed == 0
        # log(C P(c|w)), by the excess C P(c|w) - 1 where that is small: a lead of one in 10⁹ is evidence.
        excess = safe_divide(lead + n_classes * self.smoothing * (relative_prior - 1), total)
        ratio = safe_divide(n_classes * jnp.where(is_vetoed, 1.0, smoothed), total)
        is_near = jnp.abs(excess) < 0.5
        gain = jnp.where(is_near, jnp.log1p(jnp.where(is_near, excess, 0.0)), jnp.log(jnp.where(is_near, 1.0, ratio)))
        # A veto enters at the end, so that no gradient passes through an infinity.
        gain = jnp.where(is_vetoed, -jnp.inf, gain)
        return jnp.where(is_silent, 0.0, gain - self._prior_gain())

    def finish(self, stat: Float[Array, "... classes"]) -> Answer:
        """Return the answer of the merged evidence with the prior, or of the prior where all classes are vetoed."""
        class_scores = stat + self._prior_gain()
        # Where every class is vetoed the trees contradict each other. A softmax would be NaN: the prior answers.
        is_conflict = jnp.all(jnp.isneginf(class_scores), axis=-1)
        admissible = jnp.where(is_conflict[..., None], self.log_prior, class_scores)
        log_probability = log_softmax(admissible)
        score = None
        if class_scores.shape[-1] == 2:
            score = margin(jnp.where(is_conflict[..., None], 0.0, class_scores))
        return Answer(class_scores, score, jnp.exp(log_probability), log_probability)


def _lead(counts: Num[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return how far each class leads: C w_c - N, for the counts w of C classes with the sum N."""
    # Differences of counts are taken before anything is rounded, so that large counts do not hide a small lead.
    n_classes = counts.shape[-1]
    if n_classes <= MANY:
        return sum_in_order(differences(counts))
    # All pairs of many classes would be too many numbers: two-float arithmetic keeps the digits instead.
    exact_counts = two_floats(counts)
    mean = jax.tree.map(lambda part: part[..., None], total_of_classes(exact_counts).divided_by(n_classes))
    return n_classes * exact_counts.minus(mean).value

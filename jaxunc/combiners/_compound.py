"""Combiners made of others: several at once, their average, one with a weight for every tree, one calibrated."""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_kind, check_within, is_concrete
from jaxunc._numerics import copy_in, float_dtype, log_average, log_softmax, scale_and_move
from jaxunc._types import AnswerT, PyTree
from jaxunc.tables import NumbersLike

from ._answer import Answer, columns_of, kind_of, margin
from ._combiner import Combiner, check_is_combiner, learned_field, tree_field

EachT = TypeVar("EachT")
"""The type of the answer of each of several combiners."""


class Together(Combiner[dict[str, EachT]]):
    """Several combiners at once, answering with a dictionary of their answers.

    An example is ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))``. Raises a ValueError without combiners, a
    TypeError for anything that is not a `Combiner`.

    Parameters
    ----------
    **rules
        Combiners by the name that each answers under.
    """

    rules: dict[str, Combiner[EachT]]

    def __init__(self, **rules: Combiner[EachT]):
        if not rules:
            raise ValueError("Together needs at least one combiner, by name: Together(mean=Mean()).")
        for name, rule in rules.items():
            if not isinstance(rule, Combiner):
                raise TypeError(f"{name}={rule!r} is no Combiner; pass some such as Mean().")
        self.rules = rules

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: a dictionary of each combiner's merge, by its name."""
        return {name: rule.merge for name, rule in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
        """Return the statistic of each combiner, by its name, from those columns of ``counts`` that it reads."""
        return lift_each(self, counts)

    def finish(self, stat: PyTree) -> dict[str, EachT]:
        """Return the answer of each combiner, by its name, from its merged statistic in ``stat``."""
        return {name: rule.finish(stat[name]) for name, rule in self.rules.items()}


def as_combiner(value: Any) -> Combiner:
    """Return ``value`` if it is a `Combiner`, `Together` of it if it maps names to combiners, or raise a TypeError."""
    if isinstance(value, Mapping):
        for key, combiner in value.items():
            if not isinstance(key, str):
                raise TypeError(
                    f"combiner has the key {key!r:.60}; name combiners by strings: {{'mean': jaxunc.Mean()}}."
                )
            check_is_combiner(combiner, f"combiner[{key!r}]")
        return Together(**value)
    check_is_combiner(value, "combiner")
    return value


def lift_each(several: Any, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
    """Return the statistic of each combiner in ``several.rules``, by its name, from the columns that it reads.

    In ``counts`` the count sets of ``several``, a combiner made of others, stand side by side.
    """
    count_sets = several.count_sets
    return {name: rule.lift(columns_of(counts, count_sets, rule.count_sets)) for name, rule in several.rules.items()}


class Stack(Combiner[Answer]):
    r"""The average of several combiners' probabilities.

    .. math:: P(c) = \sum_i v_i P_i(c)

    P_i are the probabilities of combiner i, and v_i is its weight. Where rows do not tell which of two combiners is
    better, their average loses little against the better one. In any row its log loss is at most log 1/v_i above that
    of combiner i. Its mean log loss is often below both.

    Parameters
    ----------
    rules
        Combiners with probabilities: by name, or a sequence, where names are positions (``"0"``, ``"1"``, …).
    weights
        v, adding to 1, one number per combiner ``[rules]`` in the order of ``rules``. Default: all alike.

    Raises
    ------
    TypeError
        If a rule is not a `Combiner`, or ``rules`` is neither a mapping by name nor a sequence.
    ValueError
        If ``rules`` is empty, or the weights are negative, do not add to 1 or are not one per combiner. When called, if
        a combiner has no probabilities.

    Notes
    -----
    Class scores: log P, which do not saturate; score: their difference. If one combiner's answer is undefined (no
    tree), so is the average. Gradient: smooth in the weights (0 included) and in the numbers of the combiners.

    References
    ----------
    A linear opinion pool (Stone 1961); of weights learned from rows that no combiner has seen, stacking (Wolpert 1992).
    """

    rules: dict[str, Combiner]
    weights: Float[Array, "rules"] = learned_field("simplex")

    def __init__(self, rules: Any, weights: Any = None):
        if isinstance(rules, list | tuple):
            digits = len(str(len(rules) - 1))  # so that names are sorted as the combiners are
            rules = {f"{index:0{digits}}": rule for index, rule in enumerate(rules)}
        if not isinstance(rules, Mapping) or not all(isinstance(name, str) for name in rules):
            raise TypeError(f"rules={rules!r:.80} are no combiners by name; pass a dictionary or a list of them.")
        if not rules:
            raise ValueError("rules is empty; pass combiners by name: Stack({'mean': Mean(), 'vote': Vote()}).")
        for name, rule in rules.items():
            if not isinstance(rule, Combiner):
                raise TypeError(f"rules[{name!r}]={rule!r} is no Combiner; pass some with probabilities, as Mean().")
        weights = np.full(len(rules), 1 / len(rules)) if weights is None else weights
        if np.shape(weights) != (len(rules),):
            raise ValueError(
                f"weights has shape {np.shape(weights)}; pass one number for each of {len(rules)} combiners."
            )
        # Pytrees sort dictionaries by name, so rules and weights are kept in that order.
        order = sorted(range(len(rules)), key=list(rules).__getitem__)
        self.rules = {name: rules[name] for name in sorted(rules)}
        self.weights = copy_in(weights, float_dtype(weights))[jnp.array(order)]
        if is_concrete(weights):
            values = np.asarray(weights, float)
            if not (np.all(values >= 0) and abs(values.sum() - 1) < 1e-4):
                raise ValueError(f"weights={values.tolist()} must be at least 0 and add to 1.")

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: a dictionary of each combiner's merge, by its name."""
        return {name: rule.merge for name, rule in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> PyTree:
        """Return the statistic of each combiner, by its name, from those columns of ``counts`` that it reads."""
        return lift_each(self, counts)

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer with the average of the combiners' probabilities, from their merged statistics."""
        log_shares = []
        for name, rule in self.rules.items():
            answer = rule.finish(stat[name])
            if not isinstance(answer, Answer) or answer.log_probability is None:
                raise ValueError(f"rules[{name!r}] ({type(rule).__name__}) has no probabilities to average.")
            log_shares.append(answer.log_probability)
        stacked = jnp.stack(log_shares, axis=-1)
        # From logarithms, so that probabilities below the smallest float count, too. The average is normalised anew,
        # since it adds to 1 but for rounding.
        log_share = log_softmax(log_average(stacked, self.weights.astype(stacked.dtype)))
        score = margin(log_share) if log_share.shape[-1] == 2 else None
        return Answer(log_share, score, jnp.exp(log_share), log_share)


class Weighted(Combiner[AnswerT]):
    """A combiner of sums with a weight per tree: each tree counts as that many copies of itself.

    The weight multiplies all that the tree contributes, denominators included; a weight of 0 leaves the tree out.
    Differentiable in the weights. Weighted counts are floats: exact sums of integers are no longer exact.

    Parameters
    ----------
    rule
        A combiner whose merges are sums. Dempster's rule sums logarithms, so there the weight is an exponent. For
        discounting see the ``reliability`` of `DempsterRule`.
    weights
        One weight per tree, ≥ 0, shape ``[trees]``.

    Raises
    ------
    ValueError
        If a merge of the combiner is not a sum, or a weight is negative or not finite. When called, if there are more
        or fewer trees than weights.
    """

    rule: Combiner[AnswerT]
    weights: Float[Array, "..."] = tree_field("positive")

    def __init__(self, rule: Combiner[AnswerT], weights: NumbersLike):
        check_is_combiner(rule, "rule")
        check_within("weights", weights, "[0, inf)", "; a weight of 0 leaves a tree out", shape=None)
        merges = set(jax.tree.leaves(rule.merge))
        if not merges <= {"sum", "exact_sum"}:
            raise ValueError(
                f"{type(rule).__name__} merges by {sorted(merges)}; weights multiply sums, and a minimum or maximum "
                "has none. Leave trees out by a tree_mask instead."
            )
        if is_concrete(weights):
            values = np.asarray(weights, dtype=float)
            if values.ndim != 1:
                raise ValueError(f"weights has shape {values.shape}; pass one weight per tree, shape (trees,).")
        self.rule = rule
        self.weights = copy_in(weights, float_dtype(weights))

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: as that of ``rule`` does."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistic of ``rule`` times the weight of the tree."""

        def weigh(plane: Array):
            """Return a plane of the statistic times the weight."""
            # A veto (-inf) stays a veto unless the weight is 0. As a product it, or its gradient, would be NaN.
            plane = jnp.asarray(plane).astype(float_dtype(plane, self.weights))
            is_veto = jnp.isinf(plane)
            return jnp.where(is_veto & (self.weights > 0), plane, jnp.where(is_veto, 0, plane) * self.weights)

        return jax.tree.map(weigh, self.rule.lift(counts))

    def finish(self, stat: PyTree) -> AnswerT:
        """Return the answer of ``rule`` to the merged statistic."""
        return self.rule.finish(stat)


class Calibrated(Combiner[Answer]):
    r"""A combiner with probabilities, whose logarithms are clipped, scaled and moved.

    .. math:: P'(c) \propto \exp\big(s_c \log \max(P(c), \epsilon) + b_c\big)

    With ``one_vs_rest`` each class is calibrated against the others by itself, and the results are made to add to 1:

    .. math:: P'(c) \propto \sigma\big(s_c \log \frac{\bar P(c)}{1 - \bar P(c)} + b_c\big), \qquad
              \bar P(c) = \min(\max(P(c), \epsilon), 1 - \epsilon)

    P are the combiner's probabilities. One scale for all classes is the inverse of a temperature. With a bias per class
    it is Platt's scaling of two classes; with a scale per class too, vector scaling. The defaults only clip.

    Parameters
    ----------
    rule
        The combiner. If it has numbers that can be learned, they are learned together with these.
    scale
        s > 0: one number, or one per class ``[classes]``.
    bias
        b: one number, which changes nothing, or one per class ``[classes]``.
    clip
        ε in [0, 1): smaller probabilities are replaced by it. Not learned.
    one_vs_rest
        Whether to use the second formula. It helps where the probabilities of the other classes tell of a class, such
        as one between two others.

    Raises
    ------
    TypeError
        If ``rule`` is not a `Combiner` or, when called, does not answer with an `Answer`.
    ValueError
        If a number is outside of its range (0 < ε < 1/2 with ``one_vs_rest``). When called, if the combiner has no
        probabilities, or a scale or bias per class is given for another number of classes.

    Notes
    -----
    Class scores: s log P + b, log σ(...) with ``one_vs_rest``. Score: their difference, the logit, for two classes.
    Probability: their softmax. Gradient: smooth, but 0 in a probability below ε.

    References
    ----------
    Platt 1999; Guo et al. 2017, "On calibration of modern neural networks".
    """

    rule: Combiner
    one_vs_rest: bool = eqx.field(static=True)
    scale: Float[Array, "..."] = learned_field("positive")
    bias: Float[Array, "..."] = learned_field("real", spread=2.0)
    clip: Float[Array, ""] = learned_field("fixed")

    def __init__(
        self, rule: Combiner, scale: Any = 1.0, bias: Any = 0.0, clip: Any = 1e-6, *, one_vs_rest: bool = False
    ):
        check_kind("rule", rule, Combiner, "a combiner with probabilities, such as Mean()")
        check_within("scale", scale, "(0, inf)", shape=None)
        check_within("bias", bias, "(-inf, inf)", shape=None)
        check_bool("one_vs_rest", one_vs_rest)
        if one_vs_rest:
            check_within("clip", clip, "(0, 0.5)", " with one_vs_rest: P and 1 - P are clipped")
        else:
            check_within("clip", clip, "[0, 1)", ": it is the smallest probability")
        dtype = float_dtype(scale, bias)
        self.rule = rule
        self.scale = copy_in(scale, dtype)
        self.bias = copy_in(bias, dtype)
        self.clip = copy_in(clip, dtype)
        self.one_vs_rest = bool(one_vs_rest)

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: as that of ``rule`` does."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistic of ``rule``, the combiner that is calibrated."""
        return self.rule.lift(counts)

    def finish(self, stat: PyTree) -> Answer:
        """Return the answer of ``rule`` to the merged statistic, with calibrated probabilities."""
        answer = self.rule.finish(stat)
        name = type(self.rule).__name__
        if not isinstance(answer, Answer):
            raise TypeError(f"{name} answers with {kind_of(answer)}, not with probabilities to calibrate.")
        if answer.log_probability is None:
            raise ValueError(f"{name} has no probabilities to calibrate: its scores have no bound.")
        log_share = answer.log_probability
        for field, value in (("scale", self.scale), ("bias", self.bias)):
            if value.ndim and value.shape != log_share.shape[-1:]:
                raise ValueError(f"{field} has shape {value.shape}; {name} has {log_share.shape[-1]} classes.")
        scale, bias, clip = (number.astype(log_share.dtype) for number in (self.scale, self.bias, self.clip))
        if self.one_vs_rest:
            # Logarithms are clipped: a float tells 1 - ε from 1 by its logarithm, however small ε.
            clip = jnp.maximum(clip, jnp.finfo(clip.dtype).tiny)
            log_share = jnp.clip(log_share, jnp.log(clip), jnp.log1p(-clip))
            logit = log_share - jnp.log(-jnp.expm1(log_share))
            return Answer.from_log_evidence(log_sigmoid(scale_and_move(logit, scale, bias)))
        # If ε is 0, nothing is clipped: the floor is -inf, and neither log(0) nor a veto may enter the gradient.
        floor = jnp.where(clip > 0, jnp.log(jnp.where(clip > 0, clip, jnp.ones_like(clip))), -jnp.inf)
        log_share = jnp.maximum(log_share, floor)
        vetoed = jnp.isneginf(log_share)
        log_evidence = scale_and_move(jnp.where(vetoed, 0, log_share), scale, bias)
        return Answer.from_log_evidence(jnp.where(vetoed, -jnp.inf, log_evidence))

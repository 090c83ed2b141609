"""Numbers of leaves whose sum over the trees is a combiner's answer, or a part of it: these are explained.

`leaf_statistic` reads them from a forest. A combiner whose answer is not such a sum is refused, with an alternative.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jaxunc import scorers
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import (
    AveragedIntervals,
    BetaAggregation,
    Calibrated,
    CautiousRule,
    Combiner,
    DempsterRule,
    EpistemicWeighting,
    EvidenceAccumulation,
    LearnedPool,
    Mean,
    Pooling,
    UncertaintyDecomposition,
    Vote,
    Weighted,
    as_combiner,
)
from jaxunc.forest import Forest
from jaxunc.inference import leaf_table
from jaxunc.scorers import score_width


class LeafStatistic(NamedTuple):
    """Numbers of leaves whose sum over the trees, plus a constant, is explained."""

    table: Float[np.ndarray, "trees nodes stat"]
    constant: Float[np.ndarray, "stat"]
    of: str
    """What the sum is, such as "probability": the field ``of`` of `Attributions`."""
    names: tuple[Any, ...]
    """What each number is about: a class label, or a kind of uncertainty."""
    weights: Float[np.ndarray, "trees"] | None = None
    """Weights of the trees if the answer is a mean: the sum over trees is divided by the sum of weights; else None."""


def leaf_statistic(forest: Forest, combiner: Combiner) -> LeafStatistic:
    """Return the numbers of a forest's leaves whose sum over the trees is the answer of a combiner.

    Raises a TypeError or a ValueError if the answer is no such sum.
    """
    combiner = as_combiner(combiner)
    rule = combiner
    while isinstance(rule, Weighted):
        rule = rule.rule
    read = _READERS.get(type(rule))
    if read is None:
        raise TypeError(
            f"{type(rule).__name__} cannot be explained: {_ALTERNATIVES.get(type(rule), _REFUSAL)} "
            f"These can: {', '.join(sorted(readable.__name__ for readable in _READERS))}, and Weighted ones."
        )
    stat = jax.tree.map(lambda part: np.asarray(part, np.float64), leaf_table(forest, combiner))
    weights = stat.get("trees") if isinstance(stat, dict) else None
    if weights is not None and not weights.any():
        raise ValueError("all weights are 0: no tree is left whose answer could be explained.")
    statistic = read(rule, stat, forest.class_labels)._replace(weights=weights)
    if not np.isfinite(statistic.table).all():
        raise ValueError(
            f"a leaf vetoes a class for {type(rule).__name__}: a score of -inf has no shares. Give every leaf some "
            "doubt: smoothing > 0 for EvidenceAccumulation, eps > 0 for DempsterRule."
        )
    return statistic


def margins_of(model: AdditiveTrees) -> LeafStatistic:
    """Return the statistic of an additive model, whose sum is its raw output: the values of its leaves.

    A tree that adds to one output has 0 for the other outputs.
    """
    values = np.asarray(model.values, np.float64)
    if values.shape[2] < model.n_outputs:
        values = values * (model.outputs_of_trees[:, None, None] == np.arange(model.n_outputs))
    labels = model.class_labels
    names = tuple(range(model.n_outputs)) if labels is None else labels[-model.n_outputs :]
    return LeafStatistic(values, np.asarray(model.base, np.float64), "raw", names)


def _probability(width: float, score: np.ndarray, labels: tuple) -> LeafStatistic:
    """Return the statistic of the probabilities 1/n + Σ score / width of n classes, which have these ``labels``.

    ``score`` is ``[trees nodes classes]``; for two classes it may be ``[trees nodes 1]``, the score of class 1.
    ``width`` is the difference between the largest and the least possible score.
    """
    if score.shape[-1] == 1:
        score = np.concatenate([-score, score], axis=-1)
    return LeafStatistic(score / width, np.full(len(labels), 1 / len(labels)), "probability", labels)


def _mean(rule: Mean, stat: dict, labels: tuple) -> LeafStatistic:
    """Return the statistic of `Mean` from its leaf table: probabilities if these are means of scores, else scores."""
    score = stat["score"]
    width = score_width(rule.scorer)
    # Probabilities by other scorers for several classes are not sums: they are clipped and divided by their sum.
    if np.isfinite(width) and (len(labels) == 2 or rule.scorer.func is scorers.probability):
        return _probability(width, score, labels)
    if score.shape[-1] == 1:
        score = np.concatenate([-score, score], axis=-1)
    return LeafStatistic(score, np.zeros(len(labels)), "class scores", labels)


def _beta(rule: BetaAggregation, stat: Any, labels: tuple) -> LeafStatistic:
    """Return the statistic of `BetaAggregation` from its leaf table; raise a ValueError unless it is "exact"."""
    if rule.statistic != "exact":
        raise ValueError(
            f"statistic={rule.statistic!r} of BetaAggregation reads the mean density, which is no sum of what leaves "
            "say; explain BetaAggregation('exact')."
        )
    return _probability(1.0, stat["score"], labels)


def _evidence(rule: EvidenceAccumulation, stat: np.ndarray, labels: tuple) -> LeafStatistic:
    """Return the statistic of `EvidenceAccumulation` from its leaf table: class scores.

    Their constant is the prior term plus log C, for C classes: the class scores where no leaf is evidence.
    """
    return LeafStatistic(stat, np.asarray(rule._prior_gain(), np.float64), "class scores", labels)


def _uncertainty(rule: UncertaintyDecomposition, stat: dict, labels: tuple) -> LeafStatistic:
    """Return the aleatoric and epistemic uncertainty of leaves, or for the kind "entropy" the aleatoric one alone.

    Raises a ValueError for the kind "interval", which is no sum over leaves.
    """
    if rule.kind == "plausibility":  # the epistemic part is 1 less the mean of what leaves have as "certain"
        table = np.stack([stat["aleatoric"], -stat["certain"]], axis=-1)
        return LeafStatistic(table, np.array([0.0, 1.0]), "uncertainty", ("aleatoric", "epistemic"))
    if rule.kind == "entropy":
        return LeafStatistic(stat["entropy"][..., None], np.zeros(1), "uncertainty", ("aleatoric",))
    raise ValueError(
        "kind='interval' of UncertaintyDecomposition has entropies of means, which are no sums of what leaves say; "
        "explain UncertaintyDecomposition('plausibility'), or AveragedIntervals for the bounds themselves."
    )


def _intervals(rule: AveragedIntervals, stat: dict, labels: tuple) -> LeafStatistic:
    """Return the statistic of `AveragedIntervals`: lower bounds of all classes, then upper bounds of all classes."""
    lower, width = stat["lower"], stat.get("width")
    # An upper bound is lower + width; of two classes 1 less the other's lower bound. The constant has the 1 of upper
    # bounds, which without a tree are 1.
    upper = -lower[..., ::-1] if width is None else lower + (width - stat["trees"][:, None])[..., None]
    constant = np.repeat([0.0, 1.0], len(labels))
    names = tuple((side, label) for side in ("lower", "upper") for label in labels)
    return LeafStatistic(np.concatenate([lower, upper], axis=-1), constant, "bounds of the probability", names)


def _vote(rule: Vote, stat: dict, labels: tuple) -> LeafStatistic:
    """Return the statistic of `Vote` from its leaf table: probabilities, which without a tree are equal."""
    return _probability(1.0, stat["share"] - stat["trees"][:, None, None] / len(labels), labels)


_READERS: dict[type, Callable[[Any, Any, tuple], LeafStatistic]] = {
    Mean: _mean,
    EpistemicWeighting: lambda rule, stat, labels: _probability(2.0, stat["score"], labels),
    BetaAggregation: _beta,
    Vote: _vote,
    Pooling: lambda rule, stat, labels: LeafStatistic(
        np.stack(stat, axis=-1) if isinstance(stat, tuple) else np.asarray(stat),  # of many classes an array
        np.zeros(len(labels)),
        "pooled counts",
        labels,
    ),
    # The numerators: a leaf's weight is the same for all classes, and its sum divides them for each instance.
    LearnedPool: lambda rule, stat, labels: LeafStatistic(
        stat["power"], np.zeros(len(labels)), "pooled shares", labels
    ),
    EvidenceAccumulation: _evidence,
    DempsterRule: lambda rule, stat, labels: LeafStatistic(stat, np.zeros(2), "class scores", labels),
    UncertaintyDecomposition: _uncertainty,
    AveragedIntervals: _intervals,
}
_REFUSAL = "its answer is no sum of what leaves say; explain Mean of the same forest, whose probability is such a sum."
_ALTERNATIVES: dict[type, str] = {
    Calibrated: "its probabilities are no sums; explain the combiner that it holds, its rule.",
    CautiousRule: "it merges by the minimum; explain DempsterRule, whose log commonalities are sums.",
}

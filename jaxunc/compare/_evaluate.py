"""Evaluation of one forest on one test fold: all combiners by one pass over the trees, their measures and curves.

The forest itself is measured, too: where its mean class frequency is uncertain and wrong, which rows are doubtful and
why, which sets and intervals it answers with, and how many trees a majority vote needs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Int32, Num, Real

from jaxunc import metrics
from jaxunc._checks import check_integer, check_within
from jaxunc._numerics import jit
from jaxunc.combiners import Answer, AveragedIntervals, Combiner, GeneralizedVote, Together, UncertaintyDecomposition
from jaxunc.decisions import nondominated
from jaxunc.forest import Forest, Trees
from jaxunc.inference import bind, leaf_index
from jaxunc.scorers import Interval
from jaxunc.voting import stop_after, votes_of_counts

from ._settings import COMPARED_COMBINERS

RANKED_MEASURES = {"accuracy": True, "auc": True, "brier": False, "log_loss": False}
"""{measure that combiners are ranked by: whether larger is better}."""
COMPARED_MEASURES = (*RANKED_MEASURES, "calibration_error", "risk_coverage")
"""Names of all measures of a combiner; the last is the area under the risk-coverage curve."""
SET_MEASURES = ("determinacy", "single_set_accuracy", "u65", "u80", "set_size")  # measures of sets of classes
STRENGTHS = (1, 2, 3, 5, 10, 20)
"""Values of s at which forests answer with sets (`jaxunc.GeneralizedVote`). With whole counts, s < 1 acts as 1."""
INTERVAL_STRENGTH = 1  # value of s for intervals (`jaxunc.AveragedIntervals`)
INTERVAL_BINS = ("size", "hits", "probability", "lower", "upper")
"""Keys of `Outcome.intervals`: sums over the predictions in each bin of the mean class frequency."""
BRIER_RANGE = ("lower", "mean", "upper")
"""Keys of `Outcome.brier_range`: least Brier score inside the intervals, the mean class frequency's, the largest."""
POLL_MEASURES = ("n_polled", "settled", "accuracy", "whole_accuracy", "same")
"""Keys of `Outcome.polling`: mean number of trees used, share of settled votes, accuracy of the vote of the trees used,
accuracy of the vote of all trees, and share of rows for which both votes agree."""
CONFIDENCE = 0.99  # confidence with which a settled vote names the class that infinitely many trees would choose
MOST_CLASSES = 10  # of more classes no sets and intervals are made: every tree compares each pair of classes
N_BINS = 10  # number of bins of confidence, or of probability, in reliability diagrams
N_POINTS = 20  # number of points of accuracy-rejection curves: coverages 1/20, 2/20, … 1
N_CELLS = 16  # number of bins of uncertainty along each axis
TOPS = (1, 5, 10, 20)
"""Shares of the rows, in per cent, that are called most likely positive; the share of positives in each is measured."""
EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99)
"""Edges between bins of the positive class's probability: fine near 0 for rare classes, and equal in all folds, so that
bins add over folds."""
N_DOUBTFUL = 6  # number of doubtful rows that are kept of a test fold
N_ALIKE = 3  # number of training rows that are shown beside each doubtful row
# Log probabilities are clipped as scikit-learn's log loss clips probabilities, so that both agree.
_LEAST_LOG = float(np.log(np.finfo(np.float64).eps))
# Decimals of the numbers in an outcome.
_DIGITS = 7
# Instances whose leaves are compared at once: ten classes of 100 trees take 40 MB.
_BATCH = 1024
# Training rows whose leaves are held at once: their comparisons with six doubtful rows in 100 trees take 20 MB.
_ALIKE_BATCH = 2**15
Answers = Callable[[np.ndarray], Answer]  # function from instances to their answers


class Outcome(NamedTuple):
    """The results of combiners on one test fold, as plain numbers and lists; "combiner" stands for a name."""

    measures: dict[str, dict[str, float]]  # {combiner: {measure: value}}, of `COMPARED_MEASURES`
    reliability: dict[str, dict[str, list]]
    """{combiner: {"size", "hits", "confidence"}}: numbers of instances and of right ones, and sum of confidences, each
    a list of `N_BINS`."""
    rejection: dict[str, list[float]]
    """{combiner: accuracies at coverages 1/N_POINTS … 1}, the least certain instances being rejected first."""
    uncertainty: list[list[int]]
    """[aleatoric bin, epistemic bin, instances, errors of the mean class frequency], empty bins left out."""
    sets: dict[str, dict[str, float | None]]
    """{s: {measure: value}}: `SET_MEASURES` of the forest's sets (equal masses) for each of `STRENGTHS`;
    ``single_set_accuracy`` is None if no set holds one class alone. Empty for more than `MOST_CLASSES` classes."""
    set_sizes: dict[str, list[int]]  # {s: instances whose set holds 1, 2, … classes}, for the same sets
    intervals: dict[str, list]
    """{`INTERVAL_BINS`: a number for each of `N_BINS`}: the number of predictions in a bin of the mean class frequency,
    how many of them came true, and sums of the frequency and of the ends of its averaged interval at
    `INTERVAL_STRENGTH`. For two classes a prediction is an instance's probability of the second; for more, that of each
    class. Empty for more than `MOST_CLASSES` classes."""
    brier_range: dict[str, float]  # {`BRIER_RANGE`: value}, of the same intervals; empty unless there are two classes
    polling: dict[str, float]
    """{`POLL_MEASURES`: value} of a vote that stops once settled; empty for more than `MOST_CLASSES` classes."""
    positive: dict[str, dict[str, Any]]
    """{combiner: {"average_precision": value, "top": share of positives in each of `TOPS`, "size", "hits",
    "probability": sums over the bins between `EDGES`}}; empty unless there are two classes."""
    costs: dict[str, float]  # {combiner: mean cost of decisions of least expected cost}; empty unless costs are given
    doubtful: list[dict[str, Any]]
    """The rows with the largest total uncertainty of the mean class frequency: "row" (position), "truth" and
    "predicted" (positions of classes), "probability" (of the predicted class), "aleatoric", "epistemic", and
    "leaf_rows", the median number of rows in its leaves (None for more than `MOST_CLASSES` classes). A study turns
    "row" into the number in the file. It adds "columns", {name: value as text}, and "alike", [row, class] of the
    training rows that share a leaf with it in the most trees."""


class UncertaintyMap(NamedTuple):
    """Numbers of instances by their aleatoric (first axis) and epistemic uncertainty (second axis)."""

    size: Int32[Array | np.ndarray, "bins bins"]
    """Number of all instances in each bin."""
    errors: Int32[Array | np.ndarray, "bins bins"]
    """Number of instances in each bin whose prediction is wrong."""
    aleatoric_edges: Float[Array | np.ndarray, "edges"]
    """Edges of the bins of the first axis: one more than bins."""
    epistemic_edges: Float[Array | np.ndarray, "edges"]
    """Edges of the bins of the second axis."""


def evaluate(
    forest: Forest,
    combiners: Sequence[str],
    X: Float[np.ndarray, "instances features"],
    y: Int[np.ndarray, "instances"],
    learned: Mapping[str, Answers] = MappingProxyType({}),
    *,
    positive: int = 1,
    costs: Any = None,
) -> Outcome:
    """Return the outcome of combiners, by name, on the leaves of a forest and the instances of a test fold.

    ``learned`` is {combiner: answer function} of the combiners that learn or are a given model. Labels ``y`` and the
    ``positive`` class are positions in ``forest.class_labels``. ``costs`` are ``[truth decision]``, or None.
    """
    rules = {name: COMPARED_COMBINERS[name].make(forest) for name in combiners if name not in learned}
    cautious = forest.n_classes <= MOST_CLASSES
    if cautious:
        rules |= {"leaves": _Leaves(), "intervals": AveragedIntervals(INTERVAL_STRENGTH)}
    # One pass over the trees answers for all combiners, and for what figures need besides.
    together = Together(
        mean=COMPARED_COMBINERS["probability"].make(forest), uncertainty=UncertaintyDecomposition(), **rules
    )
    answers: dict[str, Any] = bind(forest, together).answer(X) | {name: answer(X) for name, answer in learned.items()}
    labels = jnp.asarray(y, jnp.int32)
    stacked = _Answers(*(np.stack([getattr(answers[name], part) for name in combiners]) for part in _Answers._fields))
    measures, reliability, rejection = jax.tree.map(np.asarray, _measure(stacked, labels))
    right = np.argmax(answers["mean"].class_scores, axis=1) == y
    upper = float(np.log2(forest.n_classes))
    cells = uncertainty_map(
        answers["uncertainty"].aleatoric, answers["uncertainty"].epistemic, right, n_bins=N_CELLS, upper=(upper, upper)
    )
    size, errors = np.asarray(cells.size), np.asarray(cells.errors)
    sets, set_sizes = _evaluate_sets(answers["leaves"], labels) if cautious else ({}, {})
    cautious_answers = (answers["mean"].probability, answers["intervals"], y) if cautious else None
    binary = forest.n_classes == 2
    decide = lambda name: cheapest_decisions(answers[name].probability, costs)
    return Outcome(
        measures={name: {key: _rounded(row[i]) for key, row in measures.items()} for i, name in enumerate(combiners)},
        reliability={name: _bins(*(part[i] for part in reliability)) for i, name in enumerate(combiners)},
        rejection={name: [_rounded(v) for v in rejection[i]] for i, name in enumerate(combiners)},
        uncertainty=[[int(i), int(j), int(size[i, j]), int(errors[i, j])] for i, j in np.argwhere(size)],
        sets=sets,
        set_sizes=set_sizes,
        intervals=_interval_bins(*cautious_answers) if cautious_answers else {},
        brier_range=_brier_range(*cautious_answers) if cautious_answers and binary else {},
        polling=_polling(answers["leaves"], labels) if cautious else {},
        positive={name: _measure_positive(answers[name], y == positive, positive) for name in combiners if binary},
        costs={} if costs is None else {name: _rounded(np.mean(costs[y, decide(name)])) for name in combiners},
        doubtful=_doubtful(answers, y),
    )


def cheapest_decisions(probability: Any, costs: Float[np.ndarray, "classes classes"]) -> Int[np.ndarray, "instances"]:
    """Return each instance's decision of least expected cost, among equals the first.

    ``probability`` is ``[instances classes]``, and ``costs`` are ``[truth decision]``.
    """
    return np.argmin(np.asarray(probability, float) @ costs, axis=1)


def _measure_positive(answer: Answer, y: np.ndarray, positive: int) -> dict[str, Any]:
    """Return one combiner's entry of `Outcome.positive`, from its answer.

    ``y`` says which instances are positive; ``positive`` is the class's position. Instances may tie in the combiner's
    ranking: "top" is the mean over all their orders, average precision takes each group of ties as one step.
    """
    scores, probs = np.asarray(answer.class_scores, float), np.asarray(answer.probability, float)[:, positive]
    with np.errstate(invalid="ignore"):
        keys = np.nan_to_num(scores[:, 1 - positive] - scores[:, positive], nan=0.0, posinf=np.inf, neginf=-np.inf)
    group = np.unique(keys, return_inverse=True)[1]
    hits = np.bincount(group, y)
    n_so_far, hits_so_far = np.cumsum(np.bincount(group)), np.cumsum(hits)
    n_top = [max(1, round(len(y) * top / 100)) for top in TOPS]
    bin_of = np.searchsorted(EDGES, probs)
    sums = [np.bincount(bin_of, numbers, len(EDGES) + 1) for numbers in (np.ones(len(y)), y, probs)]
    return {
        "average_precision": _rounded(np.sum(hits * hits_so_far / n_so_far) / max(1, hits_so_far[-1])),
        "top": [_rounded(np.interp(n, [0, *n_so_far], [0, *hits_so_far]) / n) for n in n_top],
        "size": sums[0].astype(int).tolist(),
        "hits": sums[1].astype(int).tolist(),
        "probability": [_rounded(v) for v in sums[2]],
    }


def _doubtful(answers: dict[str, Any], y: np.ndarray) -> list[dict[str, Any]]:
    """Return `Outcome.doubtful`, with rows as positions among the instances of the fold.

    ``answers`` has those of the combiners "mean", "uncertainty" and (for few classes) "leaves"; ``y`` has the classes.
    """
    total, aleatoric, epistemic = (np.asarray(part, float) for part in answers["uncertainty"])
    probs, scores = np.asarray(answers["mean"].probability, float), np.asarray(answers["mean"].class_scores)
    leaves = np.median(np.asarray(answers["leaves"]).sum(axis=2), axis=1) if "leaves" in answers else None
    return [
        {
            "row": int(i),
            "truth": int(y[i]),
            "predicted": (best := int(np.argmax(scores[i]))),
            "probability": _rounded(probs[i, best]),
            "aleatoric": _rounded(aleatoric[i]),
            "epistemic": _rounded(epistemic[i]),
            "leaf_rows": None if leaves is None else _rounded(leaves[i]),
        }
        for i in np.argsort(-total, kind="stable")[:N_DOUBTFUL]
    ]


def rows_alike(
    trees: Trees, X: Float[np.ndarray, "rows features"], doubtful: Float[np.ndarray, "doubtful features"]
) -> Int[np.ndarray, "doubtful alike"]:
    """Return the positions of the `N_ALIKE` training rows ``X`` that share a leaf with a doubtful row in most trees.

    The row with the most shared leaves comes first; of equals the row of lower position.
    """
    leaves = np.asarray(leaf_index(trees, doubtful))[:, None]
    meetings = [
        (np.asarray(leaf_index(trees, X[start : start + _ALIKE_BATCH])) == leaves).sum(axis=2)
        for start in range(0, len(X), _ALIKE_BATCH)
    ]
    return np.argsort(-np.concatenate(meetings, axis=1), axis=1, kind="stable")[:, :N_ALIKE]


class _Leaves(Combiner[Array]):
    """A combiner that answers with the counts of every leaf, from which sets are made for all s.

    For two classes this is as fast as merging votes. For ten it takes a third of the time: a tree has 10 counts, and
    votes on 90 pairs for each s.
    """

    merge: ClassVar[str] = "collect"

    def lift(self, counts: Num[Array, "... classes"]):
        """Return the counts as they are."""
        return counts

    def finish(self, stat) -> Float[Array, "... trees classes"]:
        """Return the counts of all trees, which ``stat`` holds."""
        return stat


class _Answers(NamedTuple):
    """The answers of all combiners ``[combiners instances classes]``, or of one combiner without the first axis."""

    class_scores: Float[Array | np.ndarray, "... instances classes"]
    probability: Float[Array | np.ndarray, "... instances classes"]
    log_probability: Float[Array | np.ndarray, "... instances classes"]


@jit
def _measure(answers: _Answers, y: Int[Array, "instances"]):
    """Return what `_measure_one` does for the answers of all combiners, with a leading axis of combiners."""
    return jax.vmap(lambda answer: _measure_one(answer, y))(answers)


def _measure_one(answer: _Answers, y):
    """Return {measure: value}, the reliability curve, and accuracies (least coverage first) of one combiner's answer.

    Accuracy is that of the largest class score. AUC is one class against the rest, averaged over the classes. The Brier
    score is the mean squared error of the probability of class 1; for more classes, summed over all.
    """
    scores, shares, log_probs = map(jnp.asarray, answer)
    # Shares add to 1 up to rounding only, which metrics would refuse or count.
    probs = shares / jnp.sum(shares, axis=1, keepdims=True)
    binary = probs.shape[1] == 2
    # Class scores still order instances whose probabilities are both rounded to 0 or to 1.
    keys = _finite(scores[:, 1] - scores[:, 0]) if binary else _ranking_keys(shares, log_probs)
    right = jnp.argmax(scores, axis=1) == y
    best = jax.lax.top_k(scores, 2)[0]
    certainty = _finite(best[:, 0] - best[:, 1])
    measures = {
        "accuracy": metrics.accuracy(scores, y),
        "auc": metrics.auc(keys, y),
        "brier": metrics.brier_score(probs, y, scale_by_half=binary),
        "log_loss": metrics.log_loss_from_logs(jnp.maximum(log_probs, _LEAST_LOG), y),
        "calibration_error": metrics.calibration_error(probs, y, n_bins=N_BINS),
        "risk_coverage": metrics.area_under_risk_coverage(certainty, right),
    }
    curve = metrics.accuracy_rejection_curve(certainty, right, n_points=N_POINTS)
    # The metric's curve begins with nothing rejected, an outcome's with the least coverage.
    return measures, metrics.reliability_curve(probs, y, n_bins=N_BINS), curve.accuracy[::-1]


def _finite(difference: Float[Array, "instances"]) -> Float[Array, "instances"]:
    """Return differences of class scores with 0 for NaN, which is -inf - -inf: every class is excluded."""
    return jnp.where(jnp.isnan(difference), 0.0, difference)


def _ranking_keys(
    probs: Float[Array, "instances classes"], log_probs: Float[Array, "instances classes"]
) -> Float[Array, "instances classes"]:
    """Return keys for AUC in the order of ``probs``; by ``log_probs`` even of those that round to 0 or 1."""
    classes, tiny = jnp.arange(probs.shape[1]), 1e-30
    others = jax.lax.map(lambda c: jax.nn.logsumexp(jnp.where(classes == c, -jnp.inf, log_probs), axis=1), classes)
    # Probabilities that round to 1 are ordered by what the other classes have, those near 0 by their logarithms.
    logs = jnp.where(probs > tiny, jnp.log(jnp.maximum(probs, tiny)), log_probs)
    return jnp.where(probs == 1, -others.T, logs)


def _bins(confidence, accuracy, size) -> dict[str, list]:
    """Return one combiner's entry of `Outcome.reliability`, from mean confidence, accuracy and size of each bin."""
    filled = size > 0
    return {
        "size": size.astype(int).tolist(),
        "hits": np.rint(np.where(filled, accuracy, 0) * size).astype(int).tolist(),
        "confidence": [_rounded(v) for v in np.where(filled, confidence, 0).astype(float) * size],
    }


def uncertainty_map(
    aleatoric: Real[Array | np.ndarray, "instances"],
    epistemic: Real[Array | np.ndarray, "instances"],
    correct: metrics.Labels,
    *,
    n_bins: int = 20,
    upper: tuple[float, float] = (1.0, 1.0),
) -> UncertaintyMap:
    r"""Return two-dimensional histograms by aleatoric and epistemic uncertainty, of all instances and of wrong ones.

    With the edges :math:`e_a = u\,a/B` of an axis of B = ``n_bins`` bins, whose limit u is in ``upper`` (aleatoric,
    epistemic), and ``correct`` 1 for a right prediction, 0 for a wrong one:

    .. math:: size_{ab} = \sum_i [e_a \le aleatoric_i < e_{a+1}]\,[e_b \le epistemic_i < e_{b+1}], \qquad
              errors_{ab} = \text{the same sum over the wrong predictions}

    Values at or beyond the upper limit are in the last bin, values below 0 (by rounding) in the first. An entropy in
    bits of K classes is at most log₂ K. Instances with NaN, or with a ``correct`` that is not 0 or 1, raise a
    ValueError; under a trace they are left out. Cost O(n B).

    References
    ----------
    Senge et al. 2014; Hüllermeier and Waegeman 2021 (the two kinds).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> aleatoric, epistemic = jnp.array([0.1, 0.2, 0.9, 1.0]), jnp.array([0.0, 0.1, 0.6, 0.3])
    >>> drawn = uncertainty_map(aleatoric, epistemic, jnp.array([1, 1, 0, 1]), n_bins=2)
    >>> print(drawn.size.tolist(), drawn.errors.tolist(), drawn.aleatoric_edges)
    [[2, 0], [1, 1]] [[0, 0], [0, 1]] [0.  0.5 1. ]
    """
    check_integer("n_bins", n_bins, 1)
    ends = ", two positive numbers: the ends of both axes. For entropies in bits of K classes take log2(K)"
    check_within("upper", upper, "(0, inf)", ends, shape=(2,))
    axes_given, edges = {"aleatoric": aleatoric, "epistemic": epistemic}, []
    axes = {name: metrics.as_array(values, name=name) for name, values in axes_given.items()}
    for (name, values), limit in zip(axes.items(), upper, strict=True):
        metrics.check_column(values, name=name, remedy="An uncertainty per class has to be summed over the classes.")
        metrics.check_no_nan(values, name=name)
        axes[name] = metrics.as_floats(values)
        edges.append(jnp.asarray(np.arange(n_bins + 1) / n_bins * float(limit), axes[name].dtype))
    correct = metrics.checked_labels(correct, axes["aleatoric"].shape[0], 2, name="correct")
    if axes["epistemic"].shape != correct.shape:
        raise ValueError(
            f"epistemic has shape {axes['epistemic'].shape} and aleatoric {correct.shape}; expected both of each "
            "prediction, in the same order."
        )
    return UncertaintyMap(*_map_counts(*axes.values(), correct, *edges), *edges)


@jit
def _map_counts(aleatoric, epistemic, correct, aleatoric_edges, epistemic_edges):
    """Return numbers of instances, and of those not ``correct``, ``[aleatoric bins, epistemic bins]``, by the edges."""
    n_bins = aleatoric_edges.shape[0] - 1
    row, column = _bin_of(aleatoric, aleatoric_edges), _bin_of(epistemic, epistemic_edges)
    is_valid = (correct >= 0) & (correct < 2) & ~jnp.isnan(aleatoric) & ~jnp.isnan(epistemic)
    count = partial(jnp.zeros((n_bins, n_bins), jnp.int32).at[row, column].add, mode="promise_in_bounds")
    return count(is_valid.astype(jnp.int32)), count((is_valid & (correct == 0)).astype(jnp.int32))


def _bin_of(values, edges):
    """Return the bin of each value: the number of inner edges at or below it."""
    return jnp.sum(values[:, None] >= edges[None, 1:-1], axis=1, dtype=jnp.int32)


def _evaluate_sets(
    leaves: Float[Array, "instances trees classes"], y: Int[Array, "instances"]
) -> tuple[dict[str, dict[str, float | None]], dict[str, list[int]]]:
    """Return `Outcome.sets` and `Outcome.set_sizes`, from the counts of the leaves that instances reach."""
    measures, sizes = jax.tree.map(np.asarray, _measure_sets(leaves, y))
    finite = lambda value: _rounded(value) if np.isfinite(value) else None
    names = [str(s) for s in STRENGTHS]
    return (
        {s: {name: finite(measures[name][i]) for name in SET_MEASURES} for i, s in enumerate(names)},
        {s: sizes[i].tolist() for i, s in enumerate(names)},
    )


@jit
def _measure_sets(
    leaves: Float[Array, "instances trees classes"], y: Int[Array, "instances"]
) -> tuple[dict[str, Float[Array, "strengths"]], Int32[Array, "strengths classes"]]:
    """Return `SET_MEASURES` of the nondominated sets for each of `STRENGTHS`, and how many sets have each size."""
    n_classes = leaves.shape[-1]

    def at(s):
        """Return {measure of sets: value} and the number of sets of each size ``[classes]``, for one s."""
        vote = GeneralizedVote(s)
        # In batches, since a vote compares all pairs of classes for each instance and tree.
        membership = lax.map(lambda counts: nondominated(vote(counts)), leaves, batch_size=_BATCH)
        measures = {
            "determinacy": metrics.determinacy(membership),
            "single_set_accuracy": metrics.single_set_accuracy(membership, y),
            "u65": metrics.discounted_utility(membership, y, kind=65),
            "u80": metrics.discounted_utility(membership, y, kind=80),
            "set_size": metrics.set_size(membership),
        }
        sizes = jnp.sum(membership, axis=1, dtype=jnp.int32)[:, None] == jnp.arange(1, n_classes + 1)
        return measures, jnp.sum(sizes, axis=0, dtype=jnp.int32)

    return lax.map(at, jnp.asarray(STRENGTHS, leaves.dtype))


def _interval_bins(
    probability: Float[Array, "instances classes"], interval: Interval, y: Int[np.ndarray, "instances"]
) -> dict[str, list]:
    """Return `Outcome.intervals`, from mean class frequencies and averaged intervals, in bins ((b - 1)/B, b/B]."""
    parts = [np.asarray(part) for part in (probability, *interval)]
    n_classes = parts[0].shape[1]
    # With two classes the interval of class 0 mirrors that of class 1, and would count every instance twice.
    first = 1 if n_classes == 2 else 0
    probs, lower, upper = (part[:, first:].ravel() for part in parts)
    came_true = (y[:, None] == np.arange(first, n_classes)).ravel()
    bin_of = np.searchsorted(np.arange(1, N_BINS, dtype=probs.dtype) / N_BINS, probs)
    count = lambda of: np.bincount(bin_of, of, N_BINS)
    sums = {"probability": probs, "lower": lower, "upper": upper}
    return {
        "size": count(None).tolist(),
        "hits": count(came_true).astype(int).tolist(),
        **{name: [_rounded(v) for v in count(values)] for name, values in sums.items()},
    }


def _brier_range(
    probability: Float[Array, "instances 2"], interval: Interval, y: Int[np.ndarray, "instances"]
) -> dict[str, float]:
    """Return `Outcome.brier_range`, of the mean class frequency ``probability`` and the averaged interval."""
    lower, upper = metrics.interval_brier(Interval(interval.lower[:, 1], interval.upper[:, 1]), y)
    mean = np.mean((np.asarray(probability, float)[:, 1] - y) ** 2)
    return dict(zip(BRIER_RANGE, map(_rounded, (lower, mean, upper)), strict=True))


def _polling(leaves: Num[Array, "instances trees classes"], y: Int[Array, "instances"]) -> dict[str, float]:
    """Return `Outcome.polling`, from the counts of the leaves that instances reach, and classes ``y``."""
    n_trees, n_classes = leaves.shape[1:]
    votes = votes_of_counts(np.asarray(leaves), np.arange(n_trees)).astype(np.int32)
    result = stop_after(votes, n_classes, confidence=CONFIDENCE)
    whole = np.stack([np.sum(votes == c, axis=1) for c in range(n_classes)], axis=1).argmax(axis=1)
    values = result.n_trees_used, result.settled, result.predicted == y, whole == y, result.predicted == whole
    measures = zip(POLL_MEASURES, map(np.asarray, values), strict=True)
    return {name: round(float(np.mean(numbers)), 7) for name, numbers in measures}


def _rounded(value) -> float:
    return round(float(value), _DIGITS)

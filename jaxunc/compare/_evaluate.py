"""Evaluation of one forest on one test fold: all combiners by one pass over the trees, their measures and curves.

The forest itself is measured, too: where its mean class frequency is uncertain and wrong, and which rows are doubtful
and why. So are the sets and intervals that it answers with, and how many trees a majority vote needs.
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
"""Keys of `Outcome.polling`: mean number of trees used, share of settled votes, accuracy of the vote of these trees and
of that of all trees, and share of rows for which both votes agree."""
CONFIDENCE = 0.99  # confidence with which a settled vote names the class that infinitely many trees would choose
MOST_CLASSES = 10  # of more classes no sets and intervals are made: every tree compares each pair of classes
N_BINS = 10  # number of bins of confidence, or of probability, in reliability diagrams
N_POINTS = 20  # number of points of accuracy-rejection curves: coverages 1/20, 2/20, … 1
N_CELLS = 16  # number of bins of uncertainty along each axis
TOPS = (1, 5, 10, 20)  # shares of the rows, in per cent, that are called most likely positive
EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99)
"""Edges between bins of the positive class's probability: fine near 0 for rare classes, and equal in all folds, so that
bins add over folds."""
N_DOUBTFUL = 6  # number of doubtful rows that are kept of a test fold
N_ALIKE = 3  # number of training rows that are shown beside each doubtful row
_LEAST_LOG = float(np.log(np.finfo(np.float64).eps))  # where log probabilities are clipped, as by scikit-learn's loss
_DIGITS = 7  # number of decimals of the numbers in an outcome
_BATCH = 1024  # number of instances whose pairs of classes are compared at once: ten classes, 100 trees take 40 MB
_ALIKE_BATCH = 2**15  # number of training rows that are compared with doubtful rows at once: 100 trees take 20 MB
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
    """[aleatoric bin, epistemic bin, instances, errors of the mean class frequency] of each bin that is not empty."""
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
    """Return the outcome on one test fold: how the named combiners answer its instances from the leaves of a forest.

    ``learned`` is {combiner: function from instances to their answer} of the combiners that learn or are a given model.
    Labels ``y`` and the ``positive`` class are positions in ``forest.class_labels``. ``costs`` are
    ``[truth decision]``, or None.
    """
    rules = {name: COMPARED_COMBINERS[name].make(forest) for name in combiners if name not in learned}
    has_sets = forest.n_classes <= MOST_CLASSES
    if has_sets:
        rules |= {"leaves": _Leaves(), "intervals": AveragedIntervals(INTERVAL_STRENGTH)}
    # One pass over the trees answers for all combiners, and for what figures need besides.
    together = Together(
        mean=COMPARED_COMBINERS["probability"].make(forest), uncertainty=UncertaintyDecomposition(), **rules
    )
    answers: dict[str, Any] = bind(forest, together).answer(X) | {name: answer(X) for name, answer in learned.items()}
    labels = jnp.asarray(y, jnp.int32)
    stacked = _Answers(
        class_scores=np.stack([answers[name].class_scores for name in combiners]),
        probability=np.stack([answers[name].probability for name in combiners]),
        log_probability=np.stack([answers[name].log_probability for name in combiners]),
    )
    measures, reliability, rejection = jax.tree.map(np.asarray, _measure(stacked, labels))
    right = np.argmax(answers["mean"].class_scores, axis=1) == y
    uncertainty = answers["uncertainty"]
    most_bits = float(np.log2(forest.n_classes))  # the largest entropy
    limits = most_bits, most_bits
    counted = uncertainty_map(uncertainty.aleatoric, uncertainty.epistemic, right, n_bins=N_CELLS, upper=limits)
    size = np.asarray(counted.size)
    errors = np.asarray(counted.errors)
    sets, set_sizes, intervals, brier_range, polling = {}, {}, {}, {}, {}  # where there are too many classes
    binary = forest.n_classes == 2
    if has_sets:
        sets, set_sizes = _evaluate_sets(answers["leaves"], labels)
        intervals = _interval_bins(answers["mean"].probability, answers["intervals"], y)
        if binary:
            brier_range = _brier_range(answers["mean"].probability, answers["intervals"], y)
        polling = _polling(answers["leaves"], labels)
    mean_costs = {}
    if costs is not None:
        for name in combiners:
            decisions = cheapest_decisions(answers[name].probability, costs)
            mean_costs[name] = _rounded(np.mean(costs[y, decisions]))
    return Outcome(
        measures={name: {key: _rounded(row[i]) for key, row in measures.items()} for i, name in enumerate(combiners)},
        reliability={name: _bins(*(field[i] for field in reliability)) for i, name in enumerate(combiners)},
        rejection={name: [_rounded(v) for v in rejection[i]] for i, name in enumerate(combiners)},
        uncertainty=[[int(i), int(j), int(size[i, j]), int(errors[i, j])] for i, j in np.argwhere(size)],
        sets=sets,
        set_sizes=set_sizes,
        intervals=intervals,
        brier_range=brier_range,
        polling=polling,
        positive={name: _measure_positive(answers[name], y == positive, positive) for name in combiners if binary},
        costs=mean_costs,
        doubtful=_doubtful(answers, y),
    )


def cheapest_decisions(probability: Any, costs: Float[np.ndarray, "classes classes"]) -> Int[np.ndarray, "instances"]:
    """Return for each instance the decision of least expected cost, the first of equals.

    ``probability`` is ``[instances classes]``, and ``costs`` are ``[truth decision]``.
    """
    return np.argmin(np.asarray(probability, float) @ costs, axis=1)


def _measure_positive(answer: Answer, y: np.ndarray, positive: int) -> dict[str, Any]:
    """Return a combiner's entry of `Outcome.positive`: how well its answer finds the positive one of two classes.

    ``y`` says which instances are positive, and ``positive`` is the class's position. Where the combiner ranks
    instances alike, "top" is the mean over all their orders, and average precision takes each group as one step.
    """
    scores = np.asarray(answer.class_scores, float)
    probs = np.asarray(answer.probability, float)[:, positive]
    with np.errstate(invalid="ignore"):  # two scores of -inf have no difference: they count as equal
        sort_keys = np.nan_to_num(scores[:, 1 - positive] - scores[:, positive], nan=0.0, posinf=np.inf, neginf=-np.inf)
    tie_group = np.unique(sort_keys, return_inverse=True)[1]  # 0 is most likely positive
    hits = np.bincount(tie_group, y)  # number of positive instances in each group
    # Numbers of instances, and of positive ones, in a group and all groups above it.
    n_above = np.cumsum(np.bincount(tie_group))
    hits_above = np.cumsum(hits)
    top_sizes = [max(1, round(len(y) * top / 100)) for top in TOPS]
    bin_of = np.searchsorted(EDGES, probs)

    def sum_by_bin(weights: np.ndarray) -> np.ndarray:
        return np.bincount(bin_of, weights, minlength=len(EDGES) + 1)

    return {
        "average_precision": _rounded(np.sum(hits * hits_above / n_above) / max(1, hits_above[-1])),
        # Interpolation spreads the hits of a group evenly over it, as the mean over its orders does.
        "top": [_rounded(np.interp(n, [0, *n_above], [0, *hits_above]) / n) for n in top_sizes],
        "size": sum_by_bin(np.ones(len(y))).astype(int).tolist(),
        "hits": sum_by_bin(y).astype(int).tolist(),
        "probability": [_rounded(v) for v in sum_by_bin(probs)],
    }


def _doubtful(answers: dict[str, Any], y: np.ndarray) -> list[dict[str, Any]]:
    """Return the `N_DOUBTFUL` rows of largest total uncertainty, as entries of `Outcome.doubtful`, the largest first.

    ``answers`` has "mean", "uncertainty" and, if there are few classes, "leaves"; ``y`` holds the rows' true classes.
    "row" is a position in the test fold.
    """
    total, aleatoric, epistemic = (np.asarray(measure, float) for measure in answers["uncertainty"])
    probs = np.asarray(answers["mean"].probability, float)
    predicted = np.argmax(np.asarray(answers["mean"].class_scores), axis=1)
    leaf_rows = np.median(np.asarray(answers["leaves"]).sum(axis=2), axis=1) if "leaves" in answers else None
    doubtful = []
    for i in np.argsort(-total, kind="stable")[:N_DOUBTFUL]:
        row = {
            "row": int(i),
            "truth": int(y[i]),
            "predicted": int(predicted[i]),
            "probability": _rounded(probs[i, predicted[i]]),
            "aleatoric": _rounded(aleatoric[i]),
            "epistemic": _rounded(epistemic[i]),
            "leaf_rows": None if leaf_rows is None else _rounded(leaf_rows[i]),
        }
        doubtful.append(row)
    return doubtful


def rows_alike(
    trees: Trees, X: Float[np.ndarray, "rows features"], doubtful: Float[np.ndarray, "doubtful features"]
) -> Int[np.ndarray, "doubtful alike"]:
    """Return for each doubtful row the positions of the `N_ALIKE` training rows ``X`` that are most like it.

    Rows are alike by the number of trees in which they share a leaf. The most alike comes first; of equals the row of
    lower position.
    """
    doubtful_leaves = np.asarray(leaf_index(trees, doubtful))[:, None]  # [doubtful, 1, trees]
    n_shared = []  # numbers of trees [doubtful, rows of a batch]
    for start in range(0, len(X), _ALIKE_BATCH):
        leaves = np.asarray(leaf_index(trees, X[start : start + _ALIKE_BATCH]))  # [rows of a batch, trees]
        n_shared.append((leaves == doubtful_leaves).sum(axis=2))
    return np.argsort(-np.concatenate(n_shared, axis=1), axis=1, kind="stable")[:, :N_ALIKE]


class _Leaves(Combiner[Array]):
    """A combiner that answers with the counts of every leaf, from which sets are made for all s.

    For ten classes this takes a third of the time of merging votes, of which a tree has 90 for each s.
    """

    merge: ClassVar[str] = "collect"

    def lift(self, counts: Num[Array, "... classes"]):
        """Return the counts of a leaf as they are."""
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
    """Return the results of `_measure_one` for all combiners, as arrays whose first axis is combiners."""
    return jax.vmap(lambda answer: _measure_one(answer, y))(answers)


def _measure_one(answer: _Answers, y):
    """Return one combiner's {measure: value}, its reliability curve, and its accuracies by rising coverage.

    ``answer`` has the combiner's arrays ``[instances classes]``, and ``y [instances]`` the true classes. The Brier
    score is the mean squared error of the probability of class 1; for more than two classes it is summed over all.
    """
    scores, raw_probs, log_probs = map(jnp.asarray, answer)
    # Probabilities add to 1 up to rounding only, which metrics would refuse or count.
    probs = raw_probs / jnp.sum(raw_probs, axis=1, keepdims=True)
    binary = probs.shape[1] == 2
    # Class scores still order instances whose probabilities are both rounded to 0 or to 1.
    ranking_keys = _finite(scores[:, 1] - scores[:, 0]) if binary else _ranking_keys(raw_probs, log_probs)
    right = jnp.argmax(scores, axis=1) == y
    top_scores = jax.lax.top_k(scores, 2)[0]
    certainty = _finite(top_scores[:, 0] - top_scores[:, 1])
    measures = {
        "accuracy": metrics.accuracy(scores, y),
        "auc": metrics.auc(ranking_keys, y),
        "brier": metrics.brier_score(probs, y, scale_by_half=binary),
        "log_loss": metrics.log_loss_from_logs(jnp.maximum(log_probs, _LEAST_LOG), y),
        "calibration_error": metrics.calibration_error(probs, y, n_bins=N_BINS),
        "risk_coverage": metrics.area_under_risk_coverage(certainty, right),
    }
    curve = metrics.accuracy_rejection_curve(certainty, right, n_points=N_POINTS)
    # The metric's curve begins with nothing rejected, an outcome's with the least coverage.
    return measures, metrics.reliability_curve(probs, y, n_bins=N_BINS), curve.accuracy[::-1]


def _finite(difference: Float[Array, "instances"]) -> Float[Array, "instances"]:
    """Return differences of class scores, with 0 in place of NaN: of two classes whose scores are both -inf."""
    return jnp.where(jnp.isnan(difference), 0.0, difference)


def _ranking_keys(
    probs: Float[Array, "instances classes"], log_probs: Float[Array, "instances classes"]
) -> Float[Array, "instances classes"]:
    """Return keys ``[instances classes]`` that rank the instances, in each column by the probability of its class.

    Probabilities that are rounded to 0 or 1 tie in ``probs``: there ``log_probs`` decide.
    """
    classes = jnp.arange(probs.shape[1])
    tiny = 1e-30  # near the least number of float32

    def log_of_others(c):
        """Return the logarithm of the probability of all classes but ``c``, ``[instances]``."""
        return jax.nn.logsumexp(jnp.where(classes == c, -jnp.inf, log_probs), axis=1)

    log_others = jax.lax.map(log_of_others, classes)  # [classes, instances]
    # Probabilities that round to 1 are ordered by what is left to the other classes, those near 0 by their logarithms.
    logs = jnp.where(probs > tiny, jnp.log(jnp.maximum(probs, tiny)), log_probs)
    return jnp.where(probs == 1, -log_others.T, logs)


def _bins(confidence, accuracy, size) -> dict[str, list]:
    """Return an entry of `Outcome.reliability`: sums over each bin, which add over folds, from means over each bin.

    ``confidence`` and ``accuracy`` are means ``[bins]``, NaN in empty bins. ``size [bins]`` is the number of instances.
    """
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
    r"""Return two-dimensional histograms of all instances and of wrong ones, by aleatoric and epistemic uncertainty.

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
    axes = {
        "aleatoric": metrics.as_array(aleatoric, name="aleatoric"),
        "epistemic": metrics.as_array(epistemic, name="epistemic"),
    }
    edges = []
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
    """Return the numbers of all instances and of the wrong ones in each bin, ``[aleatoric bins, epistemic bins]`` each.

    The first three arguments are ``[instances]``, with ``correct`` 0 or 1; edges are ``[bins + 1]``, of as many bins
    for each axis. Instances with NaN or another ``correct`` are not counted.
    """
    n_bins = aleatoric_edges.shape[0] - 1
    i = _bin_of(aleatoric, aleatoric_edges)
    j = _bin_of(epistemic, epistemic_edges)
    is_valid = (correct >= 0) & (correct < 2) & ~jnp.isnan(aleatoric) & ~jnp.isnan(epistemic)
    # Every value has a bin, even NaN, so that bounds need no check.
    count = partial(jnp.zeros((n_bins, n_bins), jnp.int32).at[i, j].add, mode="promise_in_bounds")
    return count(is_valid.astype(jnp.int32)), count((is_valid & (correct == 0)).astype(jnp.int32))


def _bin_of(values, edges):
    """Return each value's bin, from 0, between ``edges [bins + 1]``; values beyond these are in the outer bins."""
    return jnp.sum(values[:, None] >= edges[None, 1:-1], axis=1, dtype=jnp.int32)


def _evaluate_sets(
    leaves: Float[Array, "instances trees classes"], y: Int[Array, "instances"]
) -> tuple[dict[str, dict[str, float | None]], dict[str, list[int]]]:
    """Return `Outcome.sets` and `Outcome.set_sizes`, from the counts in ``leaves`` and the true classes ``y``."""
    measures, sizes = jax.tree.map(np.asarray, _measure_sets(leaves, y))
    sets, set_sizes = {}, {}
    for i, s in enumerate(map(str, STRENGTHS)):
        values = {name: measures[name][i] for name in SET_MEASURES}
        sets[s] = {name: _rounded(value) if np.isfinite(value) else None for name, value in values.items()}
        set_sizes[s] = sizes[i].tolist()
    return sets, set_sizes


@jit
def _measure_sets(
    leaves: Float[Array, "instances trees classes"], y: Int[Array, "instances"]
) -> tuple[dict[str, Float[Array, "strengths"]], Int32[Array, "strengths classes"]]:
    """Return {measure: value for each of `STRENGTHS`} of the instances' sets, and how many hold 1, 2, … classes.

    A set holds the classes that no other dominates by the votes of the trees (`GeneralizedVote`), by the counts in
    their ``leaves``.
    """
    n_classes = leaves.shape[-1]

    def measure_at(s):
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
        # Whether each set has each size: [instances, classes].
        has_size = jnp.sum(membership, axis=1, dtype=jnp.int32)[:, None] == jnp.arange(1, n_classes + 1)
        return measures, jnp.sum(has_size, axis=0, dtype=jnp.int32)

    return lax.map(measure_at, jnp.asarray(STRENGTHS, leaves.dtype))


def _interval_bins(
    probability: Float[Array, "instances classes"], interval: Interval, y: Int[np.ndarray, "instances"]
) -> dict[str, list]:
    """Return `Outcome.intervals`: sums over bins ((b - 1)/B, b/B] of the mean class frequency, ``probability``.

    ``interval`` has the averaged intervals ``[instances classes]``.
    """
    arrays = [np.asarray(array) for array in (probability, *interval)]
    n_classes = arrays[0].shape[1]
    # With two classes the interval of class 0 mirrors that of class 1, and would count every instance twice.
    first_class = 1 if n_classes == 2 else 0
    probs, lower, upper = (array[:, first_class:].ravel() for array in arrays)
    came_true = (y[:, None] == np.arange(first_class, n_classes)).ravel()
    bin_of = np.searchsorted(np.arange(1, N_BINS, dtype=probs.dtype) / N_BINS, probs)
    sum_by_bin = lambda weights: np.bincount(bin_of, weights, N_BINS)
    sums = {"probability": probs, "lower": lower, "upper": upper}
    return {
        "size": np.bincount(bin_of, minlength=N_BINS).tolist(),
        "hits": sum_by_bin(came_true).astype(int).tolist(),
        **{name: [_rounded(v) for v in sum_by_bin(values)] for name, values in sums.items()},
    }


def _brier_range(
    probability: Float[Array, "instances 2"], interval: Interval, y: Int[np.ndarray, "instances"]
) -> dict[str, float]:
    """Return `Outcome.brier_range`: the Brier score of ``probability``, and the range that the intervals allow."""
    lower, upper = metrics.interval_brier(Interval(interval.lower[:, 1], interval.upper[:, 1]), y)
    mean = np.mean((np.asarray(probability, float)[:, 1] - y) ** 2)
    return dict(zip(BRIER_RANGE, map(_rounded, (lower, mean, upper)), strict=True))


def _polling(leaves: Num[Array, "instances trees classes"], y: Int[Array, "instances"]) -> dict[str, float]:
    """Return `Outcome.polling`: measures of a vote that stops once settled, of trees with the counts in ``leaves``."""
    n_trees, n_classes = leaves.shape[1:]
    votes = votes_of_counts(np.asarray(leaves), np.arange(n_trees)).astype(np.int32)
    result = stop_after(votes, n_classes, confidence=CONFIDENCE)
    n_votes = np.stack([np.sum(votes == c, axis=1) for c in range(n_classes)], axis=1)  # [instances, classes]
    winner = n_votes.argmax(axis=1)  # by all trees
    by_instance = {
        "n_polled": result.n_trees_used,
        "settled": result.settled,
        "accuracy": result.predicted == y,
        "whole_accuracy": winner == y,
        "same": result.predicted == winner,
    }
    return {name: _rounded(np.mean(np.asarray(values))) for name, values in by_instance.items()}


def _rounded(value) -> float:
    return round(float(value), _DIGITS)

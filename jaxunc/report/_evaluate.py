"""One forest on one test fold: every rule by one routing, its measures and its curves."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxunc import metrics
from jaxunc.combiners import GeneralizedVote, Together, UncertaintyDecomposition
from jaxunc.decisions import nondominated
from jaxunc.forest import Forest
from jaxunc.routing import bind

from ._rules import RULES

METRICS = {"accuracy": True, "auc": True, "brier": False, "log_loss": False}
"""The measures that rules are ranked by, and whether larger is better."""

MEASURES = (*METRICS, "calibration_error", "risk_coverage")
"""All measures."""

SET_MEASURES = ("determinacy", "single_set_accuracy", "u65", "u80", "set_size")
"""The measures of sets of classes."""

STRENGTHS = (1, 2, 5)
"""The values of s at which forests answer with sets: see `jaxunc.GeneralizedVote`."""

MOST_CLASSES = 10
"""Of more classes than this there are no sets: each pair of them is a statistic of its own."""

N_BINS = 10
"""Bins of confidence in reliability diagrams."""

N_POINTS = 20
"""Points of accuracy-rejection curves: coverages 1/20, 2/20, … 1."""

N_CELLS = 16
"""Bins of uncertainty along each axis."""

# scikit-learn's log loss clips probabilities at the rounding unit of float64; logarithms would let it grow on.
_LEAST_LOG = float(np.log(np.finfo(np.float64).eps))
_DIGITS = 7


class Outcome(NamedTuple):
    """How the rules did on one test fold, as plain numbers and lists."""

    measures: dict[str, dict[str, float]]
    """{rule: {measure: value}}: `METRICS`, ``calibration_error`` and ``risk_coverage`` (the area under the curve)."""
    reliability: dict[str, dict[str, list]]
    """{rule: {"size", "hits", "confidence"}}: instances, right ones and summed confidence, for each of `N_BINS`."""
    rejection: dict[str, list[float]]
    """{rule: accuracies at coverages 1/N_POINTS … 1}, the least certain instances being rejected first."""
    uncertainty: list[list[int]]
    """[aleatoric bin, epistemic bin, instances, errors of the mean class frequency], empty bins left out."""
    sets: dict[str, dict[str, float | None]]
    """{s: {measure: value}}: `SET_MEASURES` of the sets of a cautious forest (equal masses), for each of `STRENGTHS`;
    the accuracy of single classes is None where no set is one. Empty for more than `MOST_CLASSES`."""


def evaluate(
    forest: Forest,
    rules: Sequence[str],
    X: Float[np.ndarray, "instances features"],
    y: Int[np.ndarray, "instances"],
) -> Outcome:
    """Rules of `RULES` on the leaves of a forest. ``y`` holds positions in ``forest.class_labels``."""
    folds = {name: RULES[name].make(forest) for name in rules}
    if forest.n_classes <= MOST_CLASSES:
        folds["sets"] = Together(**{str(s): GeneralizedVote(s) for s in STRENGTHS})
    together = Together(mean=RULES["probability"].make(forest), uncertainty=UncertaintyDecomposition(), **folds)
    answers = bind(forest, together).answer(X)
    labels = jnp.asarray(y, jnp.int32)
    stacked = _Answers(*(np.stack([getattr(answers[name], part) for name in rules]) for part in _Answers._fields))
    measures, reliability, rejection = jax.tree.map(np.asarray, _measure(stacked, labels))
    right = np.argmax(answers["mean"].class_scores, axis=1) == y
    upper = float(np.log2(forest.n_classes))
    cells = metrics.uncertainty_map(
        answers["uncertainty"].aleatoric, answers["uncertainty"].epistemic, right, n_bins=N_CELLS, upper=(upper, upper)
    )
    size, errors = np.asarray(cells.size), np.asarray(cells.errors)
    return Outcome(
        {name: {key: _rounded(values[i]) for key, values in measures.items()} for i, name in enumerate(rules)},
        {name: _bins(*(part[i] for part in reliability)) for i, name in enumerate(rules)},
        {name: [_rounded(v) for v in rejection[i]] for i, name in enumerate(rules)},
        [[int(i), int(j), int(size[i, j]), int(errors[i, j])] for i, j in np.argwhere(size)],
        {
            s: {key: _rounded(value) if np.isfinite(value) else None for key, value in measured.items()}
            for s, measured in jax.tree.map(np.asarray, _measure_sets(answers.get("sets", {}), labels)).items()
        },
    )


class _Answers(NamedTuple):
    """The answers of all rules, or of one."""

    class_scores: Float[Array | np.ndarray, "... instances classes"]
    probability: Float[Array | np.ndarray, "... instances classes"]
    log_probability: Float[Array | np.ndarray, "... instances classes"]


@jax.jit
def _measure(answers: _Answers, y: Int[Array, "instances"]):
    """Measures, reliability curve and rejection curve of each rule; the answers' leading axis is the rules'."""
    return jax.vmap(lambda answer: _measure_one(answer, y))(answers)


@jax.jit
def _measure_sets(preferences, y: Int[Array, "instances"]) -> dict[str, dict[str, Float[Array, ""]]]:
    """`SET_MEASURES` of what the classes that are not dominated make, for each s."""
    sets = {s: nondominated(preference) for s, preference in preferences.items()}
    return {
        s: {
            "determinacy": metrics.determinacy(membership),
            "single_set_accuracy": metrics.single_set_accuracy(membership, y),
            "u65": metrics.discounted_utility(membership, y, kind=65),
            "u80": metrics.discounted_utility(membership, y, kind=80),
            "set_size": metrics.set_size(membership),
        }
        for s, membership in sets.items()
    }


def _measure_one(answer: _Answers, y):
    """Accuracy is that of the largest class score, AUC one class against the rest, averaged over the classes. Brier is
    the mean squared error of the probability: for two classes of that of class 1, for more summed over the classes."""
    scores, shares, log_probs = map(jnp.asarray, answer)
    probs = shares / jnp.sum(shares, axis=1, keepdims=True)
    binary = probs.shape[1] == 2
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
    # Rejected shares increase along the curve, coverages along ours.
    return measures, metrics.reliability_curve(probs, y, n_bins=N_BINS), curve.accuracy[::-1]


def _finite(difference: Float[Array, "instances"]) -> Float[Array, "instances"]:
    """Scores that are all -inf (every class excluded) differ by nothing."""
    return jnp.where(jnp.isnan(difference), 0.0, difference)


def _ranking_keys(
    probs: Float[Array, "instances classes"], log_probs: Float[Array, "instances classes"]
) -> Float[Array, "instances classes"]:
    """Numbers in the order of the probabilities that also order those which round to 0 or 1."""
    classes, tiny = jnp.arange(probs.shape[1]), 1e-30
    others = jax.lax.map(lambda c: jax.nn.logsumexp(jnp.where(classes == c, -jnp.inf, log_probs), axis=1), classes)
    logs = jnp.where(probs > tiny, jnp.log(jnp.maximum(probs, tiny)), log_probs)
    return jnp.where(probs == 1, -others.T, logs)


def _rounded(value) -> float:
    return round(float(value), _DIGITS)


def _bins(confidence, accuracy, size) -> dict[str, list]:
    """Sums over the bins, which add over folds."""
    filled = size > 0
    return {
        "size": size.astype(int).tolist(),
        "hits": np.rint(np.where(filled, accuracy, 0) * size).astype(int).tolist(),
        "confidence": [_rounded(v) for v in np.where(filled, confidence, 0).astype(float) * size],
    }

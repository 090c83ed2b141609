"""Evaluation of one forest's laws of a number on one test fold: coverage, width and scores of their intervals.

The laws are those of `UncertainForestRegressor`, each fitted out of bag to one forest. They are compared with residuals
of one width, a normal law of the variance between trees, and the quantiles of the training targets.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float, Int
from sklearn.frozen import FrozenEstimator

from jaxunc import metrics
from jaxunc.counting import oob_mask
from jaxunc.estimators import UncertainForestRegressor

from ._settings import BASE_RATES, PLAIN, TREES

COVERAGE = 0.9  # nominal coverage of the intervals that are scored
LEVELS = np.arange(1, 20) / 20
"""Levels .05, .1, … .95 of the quantiles that are scored; the outermost two are the ends of the scored intervals."""
COVERAGES = np.arange(1, 10) / 10
"""Nominal coverages of the intervals between the i-th lowest and the i-th highest of `LEVELS`, the inmost first."""
MEASURES_OF_LAWS = {
    "interval_score": False,
    "pinball_loss": False,
    "coverage": None,
    "worst_fifth": None,
    "width": None,
    "seconds": None,
}
"""{measure of laws: whether larger is better}; None for a measure that is not tested. ``worst_fifth`` is the least
coverage among five groups of rows, by the standard deviation that their leaves give, over all test folds together."""
N_FIFTHS = 5
N_DRAWN = 24  # number of rows of a test fold whose intervals are kept


class NumberOutcome(NamedTuple):
    """The results of the laws on one test fold, each under its name, as plain numbers and lists."""

    measures: dict[str, dict[str, float]]
    """{law: {measure: value}}, of `MEASURES_OF_LAWS` without ``worst_fifth``. `BASE_RATES` is a law here and below."""
    covered: dict[str, list[int]]  # {law: for each of `COVERAGES`, the number of rows whose target the interval holds}
    fifths: dict[str, list[int]]
    """{law: for each fifth, the number of rows whose target the scored interval holds}; "size" has all rows of each."""
    drawn: dict[str, list[list[float]]]  # {law: [lower, upper, target] of `N_DRAWN` rows at most, those of all laws}


def evaluate_laws(
    forest: Any,
    laws: Sequence[str],
    training_rows: tuple[Float[np.ndarray, "train features"], Float[np.ndarray, "train"], Int[np.ndarray, "train"]],
    X: Float[np.ndarray, "instances features"],
    y: Float[np.ndarray, "instances"],
) -> NumberOutcome:
    """Return the outcome of the named laws of one forest on the test rows ``X`` and their targets ``y``.

    The forest has bags and was grown on ``training_rows``: features, targets, and for each row the number of its group.
    Raises a ValueError where too few rows are out of bag for the ends of a conformal interval.
    """
    X_train, y_train, groups = training_rows
    models = {}
    quantiles, seconds = {}, {}  # {law: quantiles [rows, levels]}, {law: how long its fit and its answer took}
    # The law of residuals is always fitted: it refuses forests without rows out of bag, and its moments are read below.
    for law in dict.fromkeys(["residuals", *(law for law in laws if law not in (PLAIN, TREES))]):
        start = time.perf_counter()
        models[law] = UncertainForestRegressor(FrozenEstimator(forest), law=law).fit(X_train, y_train, groups=groups)
        quantiles[law] = models[law].predict(X, quantiles=LEVELS)
        seconds[law] = time.perf_counter() - start
    leaf_moments = models["residuals"].moments_  # the forest, answering with means and variances of leaves
    start = time.perf_counter()
    moments = leaf_moments.answer(X)
    # A normal law of the variance between trees.
    quantiles[TREES] = moments.mean[:, None] + np.sqrt(moments.epistemic)[:, None] * scipy.stats.norm.ppf(LEVELS)
    seconds[TREES] = time.perf_counter() - start
    start = time.perf_counter()
    is_oob = oob_mask(forest, len(y_train), groups=groups)  # [rows, trees]
    has_oob = is_oob.any(axis=1)
    residuals = y_train[has_oob] - leaf_moments.answer(X_train[has_oob], tree_mask=is_oob[has_oob]).mean
    quantiles[PLAIN] = moments.mean[:, None] + np.quantile(residuals, LEVELS)
    seconds[PLAIN] = time.perf_counter() - start
    quantiles[BASE_RATES] = np.tile(np.quantile(y_train, LEVELS), (len(y), 1))
    seconds[BASE_RATES] = 0.0
    fifth = np.empty(len(y), int)  # the group of each row, by rank of the leaves' standard deviation
    fifth[np.argsort(moments.std, kind="stable")] = np.arange(len(y)) * N_FIFTHS // len(y)
    drawn_rows = np.linspace(0, len(y) - 1, min(N_DRAWN, len(y))).round().astype(int)  # evenly spread over the fold
    sizes = np.bincount(fifth, minlength=N_FIFTHS).tolist()
    outcome = NumberOutcome(measures={}, covered={}, fifths={"size": sizes}, drawn={})
    for law in (*laws, BASE_RATES):
        # Rounding may put quantiles out of order, and the interval score refuses a lower end above the upper one.
        ordered = np.maximum.accumulate(quantiles[law], axis=1)
        outcome.measures[law] = _measures(ordered, y, seconds[law])
        # `COVERAGES` begin with the inmost quantiles, which have the largest index.
        outcome.covered[law] = [int(_contains(ordered, y, i).sum()) for i in reversed(range(len(COVERAGES)))]
        outcome.fifths[law] = np.bincount(fifth[_contains(ordered, y)], minlength=N_FIFTHS).tolist()
        outcome.drawn[law] = [[_digits(v) for v in (ordered[i, 0], ordered[i, -1], y[i])] for i in drawn_rows]
    return outcome


def _measures(quantiles: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, float]:
    """Return {measure: value} of one law, from its ``quantiles [rows levels]`` at `LEVELS` and the targets ``y``."""
    ends = quantiles[:, [0, -1]]
    return {
        "interval_score": _digits(metrics.interval_score(ends, y, coverage=COVERAGE)),
        "pinball_loss": _digits(metrics.pinball_loss(quantiles, y, quantiles=LEVELS)),
        "coverage": _digits(_contains(quantiles, y).mean()),
        "width": _digits((ends[:, 1] - ends[:, 0]).mean()),
        "seconds": round(seconds, 3),
    }


def _contains(quantiles: np.ndarray, y: np.ndarray, i: int = 0) -> np.ndarray:
    """Return for each target in ``y`` whether its row of ``quantiles [rows levels]`` holds it between two quantiles.

    These are the i-th lowest and the i-th highest, counted from 0.
    """
    return (quantiles[:, i] <= y) & (y <= quantiles[:, -1 - i])


def _digits(value: Any) -> float:
    """Return a number rounded to eight significant digits, as outcomes keep it."""
    return float(f"{float(value):.8g}")


def are_sound(outcome: NumberOutcome, laws: Sequence[str]) -> bool:
    """Return whether an outcome from a file fits these laws: names of laws and measures, lengths of lists, counts."""
    law_names = {*laws, BASE_RATES}
    n_rows = sum(outcome.fifths["size"])
    measure_names = {name for name in MEASURES_OF_LAWS if name != "worst_fifth"}
    return (
        set(outcome.measures) == set(outcome.covered) == set(outcome.drawn) == law_names
        and set(outcome.fifths) == {*law_names, "size"}
        and all(set(values) == measure_names for values in outcome.measures.values())
        and all(len(counts) == len(COVERAGES) for counts in outcome.covered.values())
        and all(len(counts) == N_FIFTHS for counts in outcome.fifths.values())
        and all(0 <= n <= n_rows for counts in outcome.covered.values() for n in counts)
        and all(len(row) == 3 for rows in outcome.drawn.values() for row in rows)
    )


def observed_coverages(outcomes: Sequence[NumberOutcome], law: str) -> list[float]:
    """Return the share of rows, in the outcomes of test folds, that a law's intervals hold at each of `COVERAGES`."""
    n_rows = sum(sum(outcome.fifths["size"]) for outcome in outcomes)
    return (np.sum([outcome.covered[law] for outcome in outcomes], axis=0) / n_rows).tolist()


def worst_fifth(outcomes: Sequence[NumberOutcome], law: str) -> float:
    """Return the least coverage of a law's scored intervals in a fifth of the rows, over the outcomes of test folds."""
    n_held, n_rows = (np.sum([outcome.fifths[name] for outcome in outcomes], axis=0) for name in (law, "size"))
    return float((n_held[n_rows > 0] / n_rows[n_rows > 0]).min())

"""Laws of a number on one test fold: how often their intervals hold it, how wide they are, and what both are worth.

The laws are those of `UncertainForestRegressor`, each fitted out of bag to one forest. Beside them stand residuals of
one width, a normal law of what the trees disagree by, and the quantiles of the target alone.
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

COVERAGE = 0.9
"""Coverage of the intervals that are scored."""
LEVELS = np.arange(1, 20) / 20
"""Levels of the quantiles that are scored; the outermost are the ends of these intervals."""
COVERAGES = (LEVELS[:9:-1] - LEVELS[:9]).round(2)[::-1]
"""Coverages of which it is counted how often the interval between two quantiles holds the target."""
MEASURES_OF_LAWS = {
    "interval_score": False,
    "pinball_loss": False,
    "coverage": None,
    "worst_fifth": None,
    "width": None,
    "seconds": None,
}
"""Measures of laws, and whether larger is better; None of those by which nothing is tested. ``worst_fifth`` is the
least coverage of five parts of the rows, by how widely their leaves are spread, all test parts together."""
N_FIFTHS = 5
N_DRAWN = 24
"""Number of rows of a test part whose intervals are kept."""


class NumberOutcome(NamedTuple):
    """The results of the laws on one test fold, each under its name, as plain numbers and lists."""

    measures: dict[str, dict[str, float]]
    """{law: {measure: value}}, of `MEASURES_OF_LAWS` without ``worst_fifth``; also of the `BASE_RATES`, as below."""
    covered: dict[str, list[int]]
    """{law: rows whose target the interval of each of `COVERAGES` holds}."""
    fifths: dict[str, list[int]]
    """{law: rows whose target the scored interval holds, in each fifth}; under "size" the rows in each."""
    drawn: dict[str, list[list[float]]]
    """{law: [lower, upper, target] of some rows, the same for all laws}."""


def evaluate_laws(
    forest: Any,
    laws: Sequence[str],
    training_rows: tuple[Float[np.ndarray, "train features"], Float[np.ndarray, "train"], Int[np.ndarray, "train"]],
    X: Float[np.ndarray, "instances features"],
    y: Float[np.ndarray, "instances"],
) -> NumberOutcome:
    """Evaluate laws, by name, of a forest with bags that was grown on ``training_rows``: rows, targets, and groups.

    Raises a ValueError where too few rows are out of bag for the ends of a conformal interval.
    """
    X_known, y_known, groups = training_rows
    models, quantiles, seconds = {}, {}, {}
    # The residuals' law always: it refuses what has no row out of bag, and others read its moments.
    for law in dict.fromkeys(["residuals", *(law for law in laws if law not in (PLAIN, TREES))]):
        start = time.perf_counter()
        models[law] = UncertainForestRegressor(FrozenEstimator(forest), law=law).fit(X_known, y_known, groups=groups)
        quantiles[law] = models[law].predict(X, quantiles=LEVELS)
        seconds[law] = time.perf_counter() - start
    read = models["residuals"].moments_
    start = time.perf_counter()
    moments = read.answer(X)
    quantiles[TREES] = moments.mean[:, None] + np.sqrt(moments.epistemic)[:, None] * scipy.stats.norm.ppf(LEVELS)
    seconds[TREES] = time.perf_counter() - start
    start = time.perf_counter()
    unseen = oob_mask(forest, len(y_known), groups=groups)
    some = unseen.any(axis=1)
    apart = y_known[some] - read.answer(X_known[some], tree_mask=unseen[some]).mean
    quantiles[PLAIN] = moments.mean[:, None] + np.quantile(apart, LEVELS)
    seconds[PLAIN] = time.perf_counter() - start
    quantiles[BASE_RATES], seconds[BASE_RATES] = np.tile(np.quantile(y_known, LEVELS), (len(y), 1)), 0.0
    # Quantiles that rounding alone puts out of order are none that cross.
    kept = {law: np.maximum.accumulate(quantiles[law], axis=1) for law in (*laws, BASE_RATES)}
    fifth = np.empty(len(y), int)
    fifth[np.argsort(moments.std, kind="stable")] = np.arange(len(y)) * N_FIFTHS // len(y)
    rows = np.linspace(0, len(y) - 1, min(N_DRAWN, len(y))).round().astype(int)
    counted = {law: np.bincount(fifth[_held(of, y)], minlength=N_FIFTHS).tolist() for law, of in kept.items()}
    return NumberOutcome(
        measures={law: _measures(of, y, seconds[law]) for law, of in kept.items()},
        covered={law: [int(_held(of, y, i).sum()) for i in range(9)][::-1] for law, of in kept.items()},
        fifths={"size": np.bincount(fifth, minlength=N_FIFTHS).tolist(), **counted},
        drawn={law: [list(map(_digits, (*of[i, [0, -1]], y[i]))) for i in rows] for law, of in kept.items()},
    )


def _measures(quantiles: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, float]:
    ends = quantiles[:, [0, -1]]
    return {
        "interval_score": _digits(metrics.interval_score(ends, y, coverage=COVERAGE)),
        "pinball_loss": _digits(metrics.pinball_loss(quantiles, y, quantiles=LEVELS)),
        "coverage": _digits(_held(quantiles, y).mean()),
        "width": _digits((ends[:, 1] - ends[:, 0]).mean()),
        "seconds": round(seconds, 3),
    }


def _held(quantiles: np.ndarray, y: np.ndarray, i: int = 0) -> np.ndarray:
    """Return which targets lie between the quantiles that are the i-th ones from both ends."""
    return (quantiles[:, i] <= y) & (y <= quantiles[:, -1 - i])


def _digits(value: Any) -> float:
    return float(f"{float(value):.8g}")


def are_sound(outcome: NumberOutcome, laws: Sequence[str]) -> bool:
    """Return whether the parts of an outcome have these laws, and the right sizes."""
    every, n_rows = {*laws, BASE_RATES}, sum(outcome.fifths["size"])
    kept = {name for name in MEASURES_OF_LAWS if name != "worst_fifth"}
    return (
        set(outcome.measures) == set(outcome.covered) == set(outcome.drawn) == every
        and set(outcome.fifths) == {*every, "size"}
        and all(set(values) == kept for values in outcome.measures.values())
        and all(len(counts) == len(COVERAGES) for counts in outcome.covered.values())
        and all(len(counts) == N_FIFTHS for counts in outcome.fifths.values())
        and all(0 <= n <= n_rows for counts in outcome.covered.values() for n in counts)
        and all(len(row) == 3 for rows in outcome.drawn.values() for row in rows)
    )


def held_shares(outcomes: Sequence[NumberOutcome], law: str) -> list[float]:
    """Return the share of rows that the intervals of each of `COVERAGES` hold, over several test folds."""
    n_rows = sum(sum(outcome.fifths["size"]) for outcome in outcomes)
    return (np.sum([outcome.covered[law] for outcome in outcomes], axis=0) / n_rows).tolist()


def worst_fifth(outcomes: Sequence[NumberOutcome], law: str) -> float:
    """Return the least share of rows that scored intervals hold in a fifth, over several test folds."""
    held, size = (np.sum([outcome.fifths[name] for outcome in outcomes], axis=0) for name in (law, "size"))
    return float((held[size > 0] / size[size > 0]).min())

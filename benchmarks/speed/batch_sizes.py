"""Time against the number of rows, from one to many, for every engine that takes the forest."""

from collections.abc import Callable

import numpy as np

import jaxunc as ju

from . import engines
from .measure import Times, interleaved, ratio, spread
from .workloads import FULL, WORKLOADS, Scale, fit, make_data

PEERS = "oneDAL", "treelite GTIL"
"""Those that are made of a forest within a second; the others are measured with the workloads."""

ROWS, REPEATS = (1, 8, 64, 1000, 10_000, 100_000), 7
MOST_CALLS, ROWS_TIMED = 20, 20_000
"""Calls in one timing, so that short ones are not those of a core that wakes up; and their rows together."""


def batch_sizes(scale: Scale) -> list[dict]:
    """Shallow and grown-out trees; ratios are to this library's time, round by round."""
    found = []
    for shape, settings in (("depth 8", {"max_depth": 8}), ("grown out", {"max_depth": None})):
        data = make_data(30, scale.training_size, ROWS[-1] if scale is FULL else 64)
        model = fit(WORKLOADS["W2"], data, scale, **settings)
        bound = ju.bind(ju.from_sklearn(model), ju.Mean())
        for n in (n for n in ROWS if n <= len(data.query)):
            found += _of_size(shape, model, bound, data, n)
    return found


def _of_size(shape: str, model, bound: ju.BoundForest, data, n: int) -> list[dict]:
    X = np.ascontiguousarray(data.query[:n])
    ours = engines.Engine("jaxunc", lambda: np.asarray(bound.probability(X)), "bind(forest, Mean()).probability")
    peers, _ = engines.peers(model, X, data.y, data.X, PEERS)
    found = [ours, engines.scikit_learn(model, X), *peers]
    reference = ours.answer()
    calls = min(MOST_CALLS, max(1, ROWS_TIMED // n))
    times = interleaved({engine.name: _many(engine.answer, calls) for engine in found}, REPEATS)
    rows = []
    for engine in found:
        per_call = Times([wall / calls for wall in times[engine.name].wall], [])
        rows.append(
            {
                "shape": shape,
                "rows": n,
                "engine": engine.name,
                "steady_s": spread(per_call.wall),
                "ratio_to_jaxunc": ratio(times[engine.name], times["jaxunc"]),
                **engines.compare(engine.answer(), reference),
            }
        )
    return rows


def _many(answer: Callable[[], object], times: int) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            answer()

    return call

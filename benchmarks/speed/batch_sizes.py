"""Time against the number of rows, from one to a million, for every engine that takes the forest.

``python -m benchmarks.speed.batch_sizes --trees 100 --depth 4 8 --rows 1 256`` measures some of it alone.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import jaxunc as ju

from . import engines, report
from .machine import about
from .measure import Times, interleaved, ratio, spread, timed
from .workloads import FULL, WORKLOADS, Scale, fit, make_data


@dataclass(frozen=True)
class Shape:
    """A forest."""

    depth: int | None
    trees: int = 100
    columns: int = 30

    @property
    def name(self) -> str:
        """What is told of it."""
        return "grown out" if self.depth is None else f"depth {self.depth}"


SHAPES = (Shape(4), Shape(8), Shape(None))
OTHERS = tuple(
    replace(shape, **changed)
    for changed in ({"trees": 10}, {"trees": 1000}, {"columns": 5}, {"columns": 200})
    for shape in (Shape(8), Shape(None))
)
PEERS = "oneDAL", "treelite GTIL"
"""Those that are made of a forest within a second; the others are measured with the workloads."""

ROWS = (1, 16, 256, 4096, 65_536, 1_000_000)
MOST_PAIRS, MOST_VALUES, MOST_OF_SLOW = 10**8, 5 * 10**7, 10**7
"""Rows times trees, and times columns, up to which a batch is measured; and the former for engines that are slow."""

MOST_CALLS, SECONDS_TIMED = 50, 0.05
"""Calls in one timing, so that short ones are not those of a core that wakes up, and the seconds that they take."""


def batch_sizes(scale: Scale, shapes: Sequence[Shape] = (*SHAPES, *OTHERS), sizes: Sequence[int] = ROWS) -> list[dict]:
    """The time of each engine for each forest and number of rows, and its ratio to ours, round by round."""
    found = []
    for shape in shapes:
        data = make_data(shape.columns, scale.training_size, max(sizes) if scale is FULL else 64)
        trees = scale.trees(shape.trees)
        model = fit(WORKLOADS["W2"], data, scale, n_trees=trees, max_depth=shape.depth)
        bound = ju.bind(ju.from_sklearn(model), ju.Mean())
        for n in (n for n in sizes if n <= len(data.query)):
            if n * trees <= MOST_PAIRS and n * shape.columns <= MOST_VALUES:
                found += _of_size(shape, model, bound, data, n)
    return found


def _of_size(shape: Shape, model, bound: ju.BoundForest, data, n: int) -> list[dict]:
    X = np.ascontiguousarray(data.query[:n])
    ours = engines.Engine("jaxunc", lambda: np.asarray(bound.probability(X)), "bind(forest, Mean()).probability")
    own = shape in SHAPES and n * shape.trees <= MOST_OF_SLOW
    peers, _ = engines.peers(model, X, PEERS if own else PEERS[:1])
    found = [ours, engines.scikit_learn(model, X), *peers]
    reference = ours.answer()
    calls = {engine.name: _calls(engine.answer) for engine in found}
    times = interleaved({engine.name: partial(_many, engine.answer, calls[engine.name]) for engine in found}, 7)
    times = {name: Times([wall / calls[name] for wall in one.wall], []) for name, one in times.items()}
    return [
        {
            "shape": shape.name,
            "trees": shape.trees,
            "columns": shape.columns,
            "rows": n,
            "engine": engine.name,
            "steady_s": spread(times[engine.name].wall),
            "ratio_to_jaxunc": ratio(times[engine.name], times["jaxunc"]),
            **engines.compare(engine.answer(), reference),
        }
        for engine in found
    ]


def _calls(answer: Callable[[], object]) -> int:
    answer()
    return min(MOST_CALLS, max(1, round(SECONDS_TIMED / timed(answer)[0])))


def _many(answer: Callable[[], object], times: int) -> None:
    for _ in range(times):
        answer()


def main(arguments: list[str] | None = None) -> None:
    """Measure all forests of these numbers of trees and depths by all numbers of rows, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.batch_sizes", description=main.__doc__)
    parser.add_argument("--trees", nargs="+", type=int, default=[100])
    parser.add_argument("--depth", nargs="+", type=int, default=[4, 8, 0], help="0: grown out")
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--output", type=Path, help="default: print only")
    options = parser.parse_args(arguments)
    shapes = [Shape(depth or None, trees) for trees in options.trees for depth in options.depth]
    result = {**about(), "workloads": [], "sections": {"batch-sizes": batch_sizes(FULL, shapes, options.rows)}}
    report.show(result)
    if options.output is not None:
        report.write(result, options.output)


if __name__ == "__main__":
    main()

"""Routing and the mean, by depth, trees and rows; and what a call's size and form do."""

import time
from functools import partial

import jax

import jaxunc as ju
from jaxunc.inference._by_table import merge_and_finish

from ..measure import on_device
from .forests import make_forest, make_rows, mean_path
from .timing import WALK, Case, Cases, from_host, repeats, timed

GRID = {
    (8, 100): (1_000, 10_000, 100_000, 1_000_000, 16_000_000),
    (16, 100): (1_000, 100_000, 1_000_000, 16_000_000),
    (32, 100): (1_000, 1_000_000),
    (4, 100): (1_000_000,),
    (8, 16): (1_000, 1_000_000),
    (8, 1000): (1_000, 1_000_000),
    (16, 1000): (1_000_000,),
    (24, 100): (1_000_000,),
}
"""Rows by depth and trees, what is asked first in front: the time may end."""
QUICK_GRID = {(10, 8): (100,)}

HOST_GRID = {(8, 100): (1_000, 100_000, 1_000_000), (16, 100): (1_000_000,)}

MANY = 10_000_000
"""Rows beyond which a single thread is asked, too: it takes the largest calls sooner (`cut`)."""

CALL_ROWS = (1024, 8192, 32768, 131_072, 524_288)
"""Rows of one program of one block."""


def routing(quick: bool) -> Cases:
    """The mean's probabilities, of rows that lie on the device and of rows of the host."""
    yield from _grid(QUICK_GRID if quick else GRID, quick, WALK)


def host_routing(quick: bool) -> Cases:
    """The same in the walk that suits the backend, for a process that has none but the CPU."""
    yield from _grid(QUICK_GRID if quick else HOST_GRID, quick, None)


def _grid(grid: dict, quick: bool, walk) -> Cases:
    for (depth, n_trees), sizes in grid.items():
        forest, levels = make_forest(depth, n_trees)
        start = time.perf_counter()
        bound = jax.block_until_ready(ju.bind(forest, ju.Mean(), walk=walk))
        about = {"depth": depth, "trees": n_trees, "bind_s": time.perf_counter() - start}
        about["mean_path"] = mean_path(forest, levels)
        for n in sizes:
            for place, answer in (("device", on_device), ("host", from_host)):
                labels = {**about, "rows": n, "from": place, "threads": bound.threads}
                yield labels, partial(_rate, bound, n, answer, quick)
        if n > MANY:
            alone = ju.bind(forest, ju.Mean(), walk=walk, threads=1)
            yield {**about, "rows": n, "from": "device", "threads": 1}, partial(_rate, alone, n, on_device, quick)


def _rate(bound: ju.BoundForest, n: int, answer, quick: bool) -> dict:
    found = timed(answer(bound.probability, make_rows(n)), repeats(quick))
    return found | {"million_rows_per_s": n / found["steady_s"]["median"] / 1e6}


def calls(quick: bool) -> Cases:
    """One program, by the rows of a call: with the levels unrolled, and as a loop over them."""
    for depth in (4,) if quick else (8, 16):
        forest, _ = make_forest(depth, 4 if quick else 100)
        for rows in CALL_ROWS[:1] if quick else CALL_ROWS:
            for form in ("unrolled", "loop"):
                yield _call(forest, depth, rows, form, quick)


def _call(forest: ju.Forest, depth: int, rows: int, form: str, quick: bool) -> Case:
    def measure() -> dict:
        rule = ju.Mean()
        bound = ju.bind(forest, rule, walk=WALK)
        stream = bound.engine.packed
        spec = stream.spec if form == "unrolled" else stream.spec._replace(depth=-1)
        X, run = make_rows(rows), merge_and_finish.jitted
        start = time.perf_counter()
        program = run.lower(spec, rows, rule, "probability", stream.arrays, X, None).compile()
        compile_s = time.perf_counter() - start
        # A compiled program takes what is not static alone.
        found = timed(lambda: jax.block_until_ready(program(rule, stream.arrays, X, None)), repeats(quick))
        return {
            "compile_s": compile_s,
            **found,
            "ns_per_row": found["steady_s"]["median"] / rows * 1e9,
            "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
        }

    return {"depth": depth, "trees": forest.n_trees, "rows": rows, "form": form}, measure

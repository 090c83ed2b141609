"""``python -m benchmarks.speed.imported``: models of other libraries, against their own predictions and other engines.

1000 boosted trees of depth 6 on 100 000 rows of 30 columns, 100 of them on 10 000 rows, and random forests of these
libraries; of depth 3 where ``shallow`` is among the sizes. Each library's own prediction with all cores is the
reference: an engine's time is told as a share of it, round by round. Before a time counts, leaves are compared with the
library's own, and answers with its answers.

A library that is not installed is named, with the reason, as is one that fails; the others go on. The file is written
after each model, so that a run that was cut off keeps what it had.
"""

import argparse
import os
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxunc as ju

from .engines import Engine, attempt
from .imported_models import LIBRARIES, Library
from .machine import about
from .measure import interleaved, ratio, repeated, say, spread, summary, timed
from .report import chosen_output, print_table, quartiles, write
from .workloads import TRAINING_SIZE, Data, make_data

SIZES = {"large": (1000, 6, 100_000), "shallow": (1000, 3, 100_000), "small": (100, 6, 10_000)}
"""Trees, their depth, and rows."""
QUICK = {"large": (20, 4, 2000), "shallow": (20, 3, 2000), "small": (5, 3, 500)}
FOREST_TREES = 0.1
"""Trees of random forests, as a share."""
LEAF_ROWS = 10_000
"""Rows whose leaves are compared, half of them at thresholds."""
IMPORTS = 5
CLOSE = 1e-4
"""An answer that is farther off than this is of other leaves."""


def measure(name: str, library: Library, size: tuple[int, int, int], repeats: int, asked: list[str] | None) -> dict:
    """One model: its import, its leaves, and the time of all engines."""
    n_trees, depth, n_rows = size
    if name.endswith("forest"):
        n_trees = max(2, round(n_trees * FOREST_TREES))
    data = make_data(30, TRAINING_SIZE if n_trees > 20 else 1000, n_rows)
    model = library.fit(data, n_trees, depth)
    imported = library.load(model)
    ours, first_call_s = _ours(imported, data.query)
    own = Engine("own", lambda: library.own(model, data.query), library.detail)
    others, absent = attempt({peer: partial(make, model, data.query) for peer, make in library.peers.items()}, asked)
    found = [own, ours, *others]
    answers = {engine.name: np.asarray(engine.answer(), np.float64) for engine in found}
    leaves = _leaf_mismatches(library, model, imported, data)
    agreement = {}
    for engine, answer in answers.items():
        off = np.abs(answer - answers["own"])
        agreement[engine] = {"max_abs_difference": float(off.max()), "rows_beyond_1e-4": int(np.sum(off > CLOSE))}
    if leaves["mismatches"] or agreement["jaxunc"]["rows_beyond_1e-4"]:
        raise AssertionError(f"{name}: jaxunc is not exact: {leaves}, {agreement['jaxunc']}")
    times = interleaved({engine.name: engine.answer for engine in found}, repeats)
    return {
        "library": name,
        "trees": imported.n_trees,
        "depth": depth,
        "rows": n_rows,
        "columns": data.query.shape[1],
        "import_s": repeated(lambda: jax.block_until_ready(library.load(model)), IMPORTS),
        "import_cpu_s": spread([timed(lambda: jax.block_until_ready(library.load(model)))[1] for _ in range(IMPORTS)]),
        "first_call_s": first_call_s,
        "load": os.getloadavg()[0],
        "leaves": leaves,
        "engines": [
            {
                "name": engine.name,
                "detail": engine.detail,
                "prepare_s": engine.prepare_s,
                **summary(times[engine.name]),
                "ratio_to_own": ratio(times[engine.name], times["own"]),
                "cpu_ratio_to_own": ratio(times[engine.name], times["own"], "cpu"),
                "answers": agreement[engine.name],
            }
            for engine in found
        ],
        "absent": [vars(engine) for engine in absent],
    }


def _ours(imported: Any, X: np.ndarray) -> tuple[Engine, float]:
    """This library's engine, and the seconds of its first call."""
    if isinstance(imported, ju.Forest):
        answer, detail = ju.bind(imported, ju.Mean()).probability, "bind(forest, Mean()).probability"
    else:
        answer, detail = imported.predict, "AdditiveTrees.predict"
    engine = Engine("jaxunc", lambda: np.asarray(answer(X))[:, 1], detail)
    return engine, timed(engine.answer)[0]


def _leaf_mismatches(library: Library, model: Any, imported: Any, data: Data) -> dict[str, int | None]:
    """Leaves visited, and how many of them are not the library's own; of libraries that do not tell: None visited."""
    if library.leaves is None:
        return {"visits": None, "mismatches": 0}
    half = data.query[: LEAF_ROWS // 2]
    X = np.concatenate([half, near_thresholds(imported.trees, half, LEAF_ROWS // 2)])
    theirs = np.asarray(library.leaves(model, X)).reshape(len(X), -1).astype(np.int64)
    own = np.asarray(ju.leaf_index(imported.trees, X))
    return {"visits": own.size, "mismatches": sum(wrong(a, b) for a, b in zip(own.T, theirs.T, strict=True))}


def near_thresholds(trees: Any, pool: np.ndarray, n: int) -> np.ndarray:
    """Rows of thresholds of float32 trees and their neighbours; for columns that are coded, of the data's values."""
    rng, columns = np.random.default_rng(0), []
    keys, feature, child = (np.asarray(getattr(trees, name)) for name in ("threshold", "feature", "child"))
    inner = child != np.arange(child.shape[1])
    values = np.where(keys < 0, np.iinfo(np.int32).min - keys, keys).astype(np.int32).view(np.float32)
    cuts = trees.columns.cuts or (None,) * trees.columns.number
    for j, own_cuts in enumerate(cuts):
        own = values[inner & (feature == j)] if own_cuts is None else np.array(own_cuts, np.float32)
        own = own[np.isfinite(own)]
        own = np.concatenate([pool[:, j], own, np.nextafter(own, -np.inf), np.nextafter(own, np.inf)])
        columns.append(rng.choice(own.astype(np.float32), n))
    return np.stack(columns, axis=1)


def wrong(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Visits of one tree that break a one-to-one correspondence of leaf numbers."""
    _, a = np.unique(ours, return_inverse=True)
    _, b = np.unique(theirs, return_inverse=True)
    met = np.zeros((a.max() + 1, b.max() + 1), np.int64)
    np.add.at(met, (a, b), 1)
    best_of_a, best_of_b = met.argmax(axis=1), met.argmax(axis=0)
    mutual = [i for i, j in enumerate(best_of_a) if best_of_b[j] == i]
    return int(met.sum() - met[mutual, best_of_a[mutual]].sum())


def show(result: dict) -> None:
    """Print the tables."""
    for model in result["models"]:
        visits = model["leaves"]["visits"]
        leaves = f"{model['leaves']['mismatches']} of {visits} leaves wrong" if visits else "it tells no leaves"
        title = f"{model['library']}: {model['trees']} trees of depth {model['depth']}, {model['rows']} rows"
        title += f"; import {model['import_s']['median']:.2f} s; {leaves}"
        rows = []
        for engine in model["engines"]:
            cpu, answers = engine["cpu_ratio_to_own"]["median"], engine["answers"]
            times = [f"{engine['steady_s']['median'] * 1e3:.1f}", quartiles(engine["ratio_to_own"]), f"{cpu:.3f}"]
            off = [f"{answers['max_abs_difference']:.1e}", str(answers["rows_beyond_1e-4"])]
            rows.append([engine["name"], *times, *off])
        rows += [[one["name"], one["reason"], "", "", "", ""] for one in model["absent"]]
        header = ["engine", "ms", "share of own (quartiles)", "of CPU", "off by", f"rows beyond {CLOSE:g}"]
        print_table(title, header, rows)
    for one in result["absent"]:
        print(f"{one['library']}: {one['reason']}")


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.imported", description=main.__doc__)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="NAME")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=["large", "small"])
    parser.add_argument("--engines", nargs="+", metavar="NAME", help="other engines to ask (default: all that take it)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", type=int, help="at most so many rows (default: 100000 and 10000)")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, writes only to --output")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/imported-<device kind>.json")
    options = parser.parse_args(arguments)
    result: dict[str, Any] = {**about(), "repeats": options.repeats, "models": [], "absent": []}
    output = chosen_output(options, result["device"], "imported")
    for name, make in LIBRARIES.items():
        for size in options.sizes if name in options.libraries else ():
            if name.endswith("forest") and size != "large":
                continue
            say(f"{name}, {size}: measuring")
            try:
                n_trees, depth, n_rows = (QUICK if options.quick else SIZES)[size]
                chosen = n_trees, depth, min(n_rows, options.rows or n_rows)
                repeats = 2 if options.quick else options.repeats
                result["models"].append(measure(name, make(), chosen, repeats, options.engines))
            except ImportError as error:
                result["absent"].append({"library": name, "reason": f"not installed (no module {error.name})"})
            except Exception as error:  # the others go on; messages may hold paths of the machine
                traceback.print_exc()
                result["absent"].append({"library": name, "reason": f"failed ({type(error).__name__})"})
            if output is not None:
                write(result, output)
    show(result)


if __name__ == "__main__":
    main()

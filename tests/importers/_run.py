"""Many models, library after library, counted: each answered, refused in words, not made by its library, or a fault."""

import importlib
import importlib.util
import json
import linecache
import multiprocessing
import re
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jaxunc as ju

from ._compare import Mismatch, Way, check

LIBRARIES = {
    "sklearn": "scikit-learn", "xgboost": "xgboost-cpu", "lightgbm": "lightgbm", "catboost": "catboost", "ydf": "ydf",
    "onnx": "onnxruntime",
}  # fmt: skip
"""Libraries by their modules, and the distributions whose versions are told."""
_CODES = {library: code for code, library in enumerate(LIBRARIES)}
_CHUNK = 100
_PACKAGE = str(Path(ju.__file__).parent)


class Outcome:
    """What became of models: Counters by way, but for faults."""

    def __init__(self):
        self.answered = Counter()  # ways whose answers are the library's
        self.refused, self.not_made = Counter(), Counter()  # ways and reasons; what the library itself raised
        self.leaves, self.by_program = Counter(), Counter()  # leaves that were compared; those that `leaf_index` told
        self.faults: list[str] = []

    def sort(self, error: Exception, way: str) -> None:
        """Count a refusal in words, and tell everything else."""
        if isinstance(error, Mismatch):
            self.faults.append(f"{way}: {error}")
        elif _in_words(error):
            self.refused[f"{way}: {_shape_of(error)}"] += 1
        else:
            last = traceback.extract_tb(error.__traceback__)[-4:]
            where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in last)
            self.faults.append(f"{way}: {type(error).__name__}: {str(error)[:300]} ({where})")


def installed() -> list[str]:
    needed = {name: [name] for name in LIBRARIES} | {"onnx": ["onnx", "onnxruntime"]}
    return [name for name in LIBRARIES if all(importlib.util.find_spec(one) for one in needed[name])]


def maker(library: str) -> Any:
    return importlib.import_module(f"tests.importers._{library}")


def try_seed(library: str, number: int) -> Outcome:
    """Make one model by its seed, and ask it by every way in."""
    seed, outcome = [_CODES[library], number], Outcome()
    # What we draw ourselves changes nothing of what the library is asked.
    rng = np.random.default_rng([*seed, 1])
    ways = maker(library).make(np.random.default_rng(seed))
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                way = next(ways, None)
        except Exception as error:  # whatever a library raises
            outcome.not_made[f"{type(error).__name__}: {_shape_of(error)}"] += 1
            return outcome
        if way is None:
            return outcome
        _try_way(way, rng, outcome)


def _try_way(way: Way, rng: np.random.Generator, outcome: Outcome) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = way.load()
            compared, by_program = check(way, model, way.rows)
            outcome.leaves[way.name] += compared
            outcome.by_program[way.name] += by_program
        except Exception as error:
            outcome.sort(error, way.name)
            return
        outcome.answered[way.name] += 1
        if isinstance(way.rows, pd.DataFrame):
            _ask_differently(way, model, way.rows, rng, outcome)
    for one in said:
        if one.filename.startswith(_PACKAGE) and issubclass(one.category, RuntimeWarning | DeprecationWarning):
            outcome.faults.append(f"{way.name}: warns: {one.category.__name__}: {one.message}")
            return


def _ask_differently(way: Way, model: Any, frame: pd.DataFrame, rng: np.random.Generator, outcome: Outcome) -> None:
    """The same rows in another carrier, or their columns in another order, are the same rows, or are refused."""
    import pyarrow as pa

    carriers: dict[str, Callable[[], object]] = {
        "turned": lambda: frame[frame.columns[::-1]],
        "arrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
        "objects": lambda: frame.astype(object),
        "dictionary": lambda: {name: frame[name].to_numpy() for name in frame},
    }
    if importlib.util.find_spec("polars"):
        carriers["polars"] = lambda: importlib.import_module("polars").from_pandas(frame)
    carrier = list(carriers)[rng.integers(len(carriers))]
    if rng.random() < 0.5:
        return
    try:
        rows = carriers[carrier]()
    except Exception:  # what these carriers do not hold
        return
    try:
        check(way, model, rows)
        outcome.answered[f"{way.name}, {carrier}"] += 1
    except Exception as error:
        outcome.sort(error, f"{way.name}, {carrier}")


def _in_words(error: Exception) -> bool:
    """Whether jaxunc itself raised the error, by a statement that says so."""
    if type(error) not in (TypeError, ValueError, RuntimeError):
        return False
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(_PACKAGE) and "raise" in linecache.getline(last.filename, last.lineno or 0)


def _shape_of(error: Exception) -> str:
    message = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"", "'…'", str(error).strip().split("\n")[0])
    message = re.sub(r"[\[({][^\])}]*[\])}]", "(…)", message)
    return re.sub(r"-?\d[\d.e+-]*", "#", message)[:120]


def run_one(library: str, seed: int) -> int:
    """Try one model and print what became of it; 1 where it is at fault."""
    outcome = try_seed(library, seed)
    print(f"{library} {seed}: answered {dict(outcome.answered)}")
    for name, reasons in {"refused": outcome.refused, "not made": outcome.not_made}.items():
        for said, number in reasons.items():
            print(f"  {name} ({number}): {said}")
    for fault in outcome.faults:
        print(f"  FAULT by {fault}")
    return int(bool(outcome.faults))


def counts_of(library: str, start: int, stop: int) -> dict[str, Any]:
    ju.use_compilation_cache(Path(tempfile.gettempdir(), "jaxunc-programs-of-importers"))
    began, models, every, such_as = time.process_time(), Counter(), Outcome(), {}
    for seed in range(start, stop):
        outcome = try_seed(library, seed)
        states = {"at fault": outcome.faults, "answered": outcome.answered, "refused": outcome.refused}
        models[next((state for state, cases in states.items() if cases), "not made")] += 1
        every.answered += outcome.answered
        every.by_program += outcome.by_program
        every.refused += outcome.refused
        every.not_made += outcome.not_made
        such_as = dict.fromkeys([*outcome.refused, *outcome.not_made], seed) | such_as
        again = f"python -m tests.importers --libraries {library} --only {seed}"
        every.faults += [f"{fault} | {again}" for fault in outcome.faults]
    return {
        "models": dict(models), "answered": dict(every.answered), "refused": dict(every.refused),
        "not made": dict(every.not_made), "such as": such_as, "faults": every.faults,
        "by program": every.by_program.total(), "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def run(libraries: list[str], models: int, seed: int, processes: int, output: Path | None) -> int:
    """Try so many models, print and keep what became of them; 1 where there are faults."""
    kept = json.loads(output.read_text()) if output is not None and output.exists() else {"libraries": {}}
    kept["versions"] = {"jaxunc": ju.__version__} | {name: metadata.version(LIBRARIES[name]) for name in libraries}
    stop, faults = seed + -(-models // len(libraries)), 0
    chunks = [(name, a, min(a + _CHUNK, stop)) for a in range(seed, stop, _CHUNK) for name in libraries]
    done = {(name, *part) for name, own in kept["libraries"].items() for part in own["seeds"]}
    for chunk, counts in _counted([chunk for chunk in chunks if chunk not in done], processes):
        faults += len(counts["faults"])
        _add(kept["libraries"], chunk, counts)
        print(f"{chunk[0]} {chunk[1]}-{chunk[2] - 1}: {counts['models']} in {counts['seconds']} s", flush=True)
        for fault in counts["faults"]:
            print(f"  FAULT {fault}", flush=True)
        if output is not None:
            output.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    for name, own in kept["libraries"].items() if output is None else ():
        for kind in ("answered", "refused", "not made"):
            print(f"{name}, {kind}:")
            for said, number in Counter(own[kind]).most_common():
                such_as = own["such as"].get(said)
                print(f"  {number:6d}  {said}" + (f"  (such as {such_as})" if such_as is not None else ""))
    return int(faults > 0)


def _counted(chunks: list[tuple], processes: int) -> Iterator[tuple[tuple, dict]]:
    """The counts of chunks as they come; several processes take one each, since compiled programs stay in them."""
    if processes == 1:
        yield from ((chunk, counts_of(*chunk)) for chunk in chunks)
        return
    with ThreadPoolExecutor(processes) as threads:
        for future in as_completed([threads.submit(_count_alone, chunk) for chunk in chunks]):
            yield future.result()


def _count_alone(chunk: tuple) -> tuple[tuple, dict]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return chunk, pool.submit(counts_of, *chunk).result()
        except BrokenProcessPool:  # a library ended it
            return chunk, {"models": {}, "faults": [f"a process ended within {chunk}"], "seconds": 0.0}


def _add(libraries: dict[str, Any], chunk: tuple, counts: dict[str, Any]) -> None:
    own = libraries.setdefault(chunk[0], {"seeds": [], "seconds": 0.0, "faults": [], "such as": {}})
    own["seeds"].append(chunk[1:])
    own["seconds"] = round(own["seconds"] + counts["seconds"], 1)
    own["faults"] += counts["faults"]
    own["such as"] = counts.get("such as", {}) | own["such as"]
    for kind in ("models", "answered", "refused", "not made"):
        own[kind] = dict(Counter(own.get(kind, {})) + Counter(counts.get(kind, {})))

"""Many models: library after library, in several processes, counted in a file that a later run goes on with."""

import importlib
import importlib.util
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from pathlib import Path
from typing import Any

import jaxunc as ju

from ._outcomes import Outcome, try_model

LIBRARIES = {
    "sklearn": "scikit-learn", "xgboost": "xgboost-cpu", "lightgbm": "lightgbm", "catboost": "catboost", "ydf": "ydf",
    "onnx": "onnxruntime",
}  # fmt: skip
"""Libraries by their modules, and the distributions whose versions are told."""
_CHUNK = 100
_CHUNKS = 24  # chunks of one process
_CODES = {library: code for code, library in enumerate(LIBRARIES)}


def installed() -> list[str]:
    needed = {name: [name] for name in LIBRARIES} | {"onnx": ["onnx", "onnxruntime"]}
    return [name for name in LIBRARIES if all(importlib.util.find_spec(one) for one in needed[name])]


def maker(library: str) -> Any:
    return importlib.import_module(f"tests.importers._{library}")


def try_seed(library: str, seed: int) -> Outcome:
    return try_model(maker(library).make, [_CODES[library], seed])


def command(library: str, seed: int) -> str:
    return f"python -m tests.importers --libraries {library} --only {seed}"


def run_one(library: str, seed: int) -> int:
    """Try one model and print what became of it; 1 where it is at fault."""
    outcome = try_seed(library, seed)
    print(f"{library} {seed}: answered {dict(outcome.answered)}")
    for name in ("refused", "not_made"):
        for said, number in getattr(outcome, name).items():
            print(f"  {name.replace('_', ' ')} ({number}): {said}")
    for fault in outcome.faults:
        print(f"  FAULT by {fault.way}: {fault.said}")
    return int(bool(outcome.faults))


def counts_of(library: str, start: int, stop: int) -> dict[str, Any]:
    ju.use_compilation_cache(Path(tempfile.gettempdir(), "jaxunc-programs-of-importers"))
    began, models, by_program = time.process_time(), Counter(), 0
    answered, refused, not_made, faults, such_as = Counter(), Counter(), Counter(), [], {}
    for seed in range(start, stop):
        outcome = try_seed(library, seed)
        models[_state(outcome)] += 1
        answered += outcome.answered
        by_program += outcome.by_program.total()
        refused += outcome.refused
        not_made += outcome.not_made
        such_as = dict.fromkeys([*outcome.refused, *outcome.not_made], seed) | such_as
        faults += [f"{fault.way}: {fault.said} | {command(library, seed)}" for fault in outcome.faults]
    return {
        "models": dict(models), "answered": dict(answered), "refused": dict(refused), "not made": dict(not_made),
        "such as": such_as, "faults": faults, "by program": by_program,
        "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def _state(outcome: Outcome) -> str:
    if outcome.faults:
        return "at fault"
    if outcome.answered:
        return "answered"
    return "refused" if outcome.refused else "not made"


def run(libraries: list[str], models: int, seed: int, processes: int, output: Path | None) -> int:
    """Try so many models, print and keep what became of them; 1 where there are faults."""
    found = json.loads(output.read_text()) if output is not None and output.exists() else {"libraries": {}}
    found["versions"] = {"jaxunc": metadata.version("jaxunc")} if _is_distribution("jaxunc") else {}
    found["versions"] |= {name: metadata.version(LIBRARIES[name]) for name in libraries}
    each, faults = -(-models // len(libraries)), 0
    starts = range(seed, seed + each, _CHUNK)
    chunks = [(name, a, min(a + _CHUNK, seed + each)) for a in starts for name in libraries]
    done = {(name, *part) for name, own in found["libraries"].items() for part in own["seeds"]}
    left = [chunk for chunk in chunks if chunk not in done]
    for chunk, counts in _counted(left, processes):
        faults += len(counts["faults"])
        _add(found["libraries"], chunk, counts)
        print(f"{chunk[0]} {chunk[1]}-{chunk[2] - 1}: {counts['models']} in {counts['seconds']} s", flush=True)
        for fault in counts["faults"]:
            print(f"  FAULT {fault}", flush=True)
        if output is not None:
            output.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    if output is None:
        for name, own in found["libraries"].items():
            for kind in ("answered", "refused", "not made"):
                print(f"{name}, {kind}:")
                for said, number in sorted(own[kind].items(), key=lambda one: -one[1]):
                    seed = own["such as"].get(said)
                    print(f"  {number:6d}  {said}" + (f"  (such as {seed})" if seed is not None else ""))
    return int(faults > 0)


def _is_distribution(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _counted(chunks: list[tuple], processes: int) -> Iterator[tuple[tuple, dict]]:
    if processes == 1:
        for chunk in chunks:
            yield chunk, counts_of(*chunk)
        return
    left = list(chunks)
    while left:
        # Processes are given up after some chunks: compiled programs stay in them.
        now = left[: _CHUNKS * processes]
        for chunk, counts in _in_a_pool(now, processes):
            left.remove(chunk)
            now.remove(chunk)
            yield chunk, counts
        # A library ended a process: what was under way is tried alone.
        for chunk in now[: 2 * processes]:
            left.remove(chunk)
            alone = [counts for _, counts in _in_a_pool([chunk], 1)]
            ended = {"models": {}, "faults": [f"a process ended within {chunk}"], "seconds": 0.0}
            yield chunk, alone[0] if alone else ended


def _in_a_pool(chunks: list[tuple], processes: int) -> Iterator[tuple[tuple, dict]]:
    """The counts of chunks as they come, until all are done or a process has ended."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        futures = {pool.submit(counts_of, *chunk): chunk for chunk in chunks}
        for future in as_completed(futures):
            try:
                counts = future.result()
            except BrokenProcessPool:
                continue
            yield futures[future], counts


def _add(libraries: dict[str, Any], chunk: tuple, counts: dict[str, Any]) -> None:
    name, start, stop = chunk
    own = libraries.setdefault(name, {"seeds": [], "seconds": 0.0, "faults": []})
    own["seeds"].append([start, stop])
    own["seconds"] = round(own["seconds"] + counts["seconds"], 1)
    own["faults"] += counts["faults"]
    own["such as"] = counts.get("such as", {}) | own.get("such as", {})
    for kind in ("models", "answered", "refused", "not made"):
        own[kind] = dict(Counter(own.get(kind, {})) + Counter(counts.get(kind, {})))

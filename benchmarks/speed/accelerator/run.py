"""Parts of the measurement in a process of their own, which may crash or hang without an end of the others.

That process says in lines of JSON what it found. If it dies, or a part takes much longer than it may, the part has a
failure, and the parts after it get a new process.
"""

import itertools
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from ..machine import about
from .algorithms import growing, learning
from .answers import correctness
from .nvforest import nvforest
from .routing import calls, host_routing, routing
from .rules import reports, rules, votes
from .timing import Cases


class Part(NamedTuple):
    """A part of the measurement."""

    cases: Callable[[bool], Cases]
    """quick or not → what is measured, one after the other."""
    seconds: float
    """No further case begins after these."""
    backend: str | None = None
    """The only backend of its process; None: all that there are."""


PARTS = {
    "correctness": Part(correctness, 130),
    "routing": Part(routing, 110),
    "calls": Part(calls, 40),
    "rules": Part(rules, 50),
    "votes": Part(votes, 60),
    "reports": Part(reports, 20),
    "growing": Part(growing, 30),
    "learning": Part(learning, 30),
    "nvforest": Part(nvforest, 25),
    "routing on the host": Part(host_routing, 20, "cpu"),
}
"""The parts, in the order in which they are measured."""

GRACE_SECONDS = 25
"""After a part's time for the case that is being measured then; a process that takes longer is ended."""

START_SECONDS = 150
"""For a process to begin, also on a busy machine."""


def measure_part(part: Part, *, quick: bool, seconds: float, tell: Callable[[dict], None]) -> None:
    """Measure the cases of a part and tell of each; of one that failed the message, of those left out how many."""
    start, left_out = time.perf_counter(), 0
    try:
        for labels, measure in part.cases(quick):
            if time.perf_counter() - start > seconds:
                left_out += 1
                continue
            tell({**labels, **attempt(measure)})
    except Exception as error:  # what is made for the cases failed: there are no further ones
        tell({"failed": message(error)})
    if left_out:
        tell({"left_out": left_out, "failed": f"no time left after {seconds:.0f} s"})


def attempt(measure: Callable[[], dict]) -> dict:
    """Return what was measured, or the message of the failure."""
    try:
        return measure()
    except Exception as error:  # one that fails must not end the measurement of the others
        return {"failed": message(error)}


def message(error: BaseException | str) -> str:
    """Return the kind of an error and what it says, shortened, without the folders of the machine."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return re.sub(r"(?:/[\w.+-]+)+/", "…/", " ".join(text.split()))[:400]


def work(names: list[str], *, quick: bool, seconds: float, out: IO[str]) -> None:
    """Measure parts one after the other in this process, and write lines of JSON."""
    end = time.perf_counter() + seconds

    def line(**found) -> None:
        print(json.dumps(found), file=out, flush=True)

    line(about=about())
    for name in names:
        start = time.perf_counter()
        line(begins=name)
        limit = min(PARTS[name].seconds, max(0.0, end - start))
        measure_part(PARTS[name], quick=quick, seconds=limit, tell=lambda row: line(row=row))
        line(ends=name, seconds=time.perf_counter() - start)


def measured(names: list[str], *, quick: bool, seconds: float) -> Iterator[tuple[str, dict]]:
    """Yield each part's name and what was found, as soon as it has ended; before, as "about", on what it runs."""
    end, names = time.perf_counter() + seconds, list(names)
    while names:
        backend = PARTS[names[0]].backend
        together = list(itertools.takewhile(lambda name, backend=backend: PARTS[name].backend == backend, names))
        for name, found in by_process(command(together, quick, end - time.perf_counter()), together, backend, end):
            if name in names:
                names.remove(name)
            yield name, found


def command(names: list[str], quick: bool, seconds: float) -> list[str]:
    """Return the command of a process that measures these parts."""
    words = [sys.executable, "-m", "benchmarks.speed.accelerator", "--worker", f"{seconds:.1f}"]
    return [*words, "--parts", *names, *["--quick"] * quick]


def by_process(
    words: list[str], names: list[str], backend: str | None, end: float, start_seconds: float = START_SECONDS
) -> Iterator[tuple[str, dict]]:
    """Yield the parts of one process until it has ended, in whatever way: of the part in which it ends so, too."""
    environment = os.environ | ({"JAX_PLATFORMS": backend} if backend else {})
    waiting, rows, start = list(names), [], time.perf_counter()
    limit, how, of = start + start_seconds, None, {"backend": backend}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        lines: queue.Queue[dict] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while (found := lines.get(timeout=max(0.0, min(limit, end + GRACE_SECONDS) - time.perf_counter()))) != {}:
                if "about" in found:
                    of = {"backend": found["about"]["device"]["backend"]}
                    yield "about", found["about"]
                elif "begins" in found:
                    start = time.perf_counter()
                    limit = start + PARTS[found["begins"]].seconds + GRACE_SECONDS
                elif "ends" in found:
                    yield waiting.pop(0), {**of, "seconds": found["seconds"], "rows": rows}
                    rows = []
                else:
                    rows.append(found["row"])
        except queue.Empty:
            how = "it took too long"
        finally:
            process.kill()
            process.wait()
            reader.join()
        if waiting:
            rows.append({"failed": f"the process ended: {how or _last_words(errors, process.returncode)}"})
            yield waiting[0], {**of, "seconds": time.perf_counter() - start, "rows": rows}


def _read(stream: IO[str], lines: "queue.Queue[dict]") -> None:
    """Hand on the lines of a process as they come, and an empty one at its end."""
    with stream:
        for line in stream:
            if line.startswith("{"):
                lines.put(json.loads(line))
    lines.put({})


def _last_words(errors: IO[str], returncode: int) -> str:
    errors.seek(0)
    said = [line for line in errors.read().splitlines() if line.strip()]
    return message(f"exit status {returncode}: {said[-1] if said else 'it said nothing'}")

"""``python -m benchmarks.speed.import_time``: what ``import jaxunc`` costs beside the import of JAX and Equinox.

Every import is made by a fresh process, which times itself: starting Python is no part of it.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from .machine import about, command, publish
from .measure import Times, compared

IMPORTS = {
    "jax and equinox": "import jax, equinox",
    "jaxunc": "import jaxunc",
    "jaxunc predict": "import jaxunc.__main__, jaxunc.streaming",
    "every room": "import jaxunc; [getattr(jaxunc, name) for name in jaxunc.__all__]",
}
_ROOT = Path(__file__).resolve().parents[2]
_TIMED = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
{}
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def fresh_import(statement: str) -> list[float]:
    """Wall and CPU seconds of a statement in a process of its own."""
    command = [sys.executable, "-c", _TIMED.format(statement), str(_ROOT)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def import_times(repeats: int) -> dict:
    """Every statement once a round, in a new order each round, after one untimed round that fills the disk's cache."""
    times = {name: Times() for name in IMPORTS}
    rng = np.random.default_rng(0)
    for turn in range(repeats + 1):
        for name in rng.permutation(list(IMPORTS)):
            wall, cpu = fresh_import(IMPORTS[name])
            if turn:
                times[name].wall.append(wall)
                times[name].cpu.append(cpu)
    return compared(times, "jax and equinox")


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    options = command("import_time", main.__doc__, 15).parse_args(arguments)
    publish(about() | {"import": import_times(1 if options.quick else options.repeats)}, options.output)


if __name__ == "__main__":
    main()

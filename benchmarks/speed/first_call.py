"""From a fitted model to the first answer, in a fresh process: what a user waits for.

`measure_first_call` starts the process; run as a module, this file is that process.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]


def measure_first_call(model, X: np.ndarray) -> dict:
    """Seconds of each step, taken in a process that has compiled nothing (and reads no cache of compiled programs)."""
    with tempfile.TemporaryDirectory() as folder:
        # The child reads what was written here a moment ago: the one place where a pickle is no risk.
        with open(Path(folder, "model.pickle"), "wb") as file:
            pickle.dump(model, file, protocol=pickle.HIGHEST_PROTOCOL)
        np.save(Path(folder, "X.npy"), X)
        environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        # On an accelerator the parent holds most of the memory already.
        environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        command = [sys.executable, "-m", "benchmarks.speed.first_call", folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"failed": f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


class Stopwatch:
    """Seconds since the last look."""

    def __init__(self):
        self.last = time.perf_counter()

    def __call__(self) -> float:
        now = time.perf_counter()
        passed, self.last = now - self.last, now
        return passed


@contextmanager
def compilations() -> Iterator[list[float]]:
    """The seconds of each program that is compiled meanwhile."""
    import jax

    compiled: list[float] = []

    def listen(event: str, seconds: float, **_) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def main(folder: str) -> None:
    """The fresh process: prints one line of JSON."""
    with open(Path(folder, "model.pickle"), "rb") as file:
        model = pickle.load(file)
    X = np.load(Path(folder, "X.npy"))
    lap, steps = Stopwatch(), {"process": "fresh", "n_instances": len(X), "n_trees": len(model.estimators_)}
    import jax

    import jaxunc as ju

    steps["import_jaxunc_s"] = lap()
    jax.devices()
    steps["start_backend_s"] = lap()
    with compilations() as compiled:
        forest = jax.block_until_ready(ju.from_sklearn(model))
        steps["from_sklearn_s"] = lap()
        bound = jax.block_until_ready(ju.bind(forest, ju.Mean()))
        steps["bind_s"] = lap()
        before = len(compiled)
        jax.block_until_ready(bound.probability(X))
        steps["first_call_s"] = lap()
        steps["first_call_compilations"], steps["all_compilations"] = len(compiled) - before, len(compiled)
        jax.block_until_ready(bound.probability(X))
        steps["second_call_s"] = lap()
    steps["model_to_answer_s"] = steps["from_sklearn_s"] + steps["bind_s"] + steps["first_call_s"]
    print(json.dumps(steps))


if __name__ == "__main__":
    main(sys.argv[1])

"""``python -m benchmarks.speed.server``: a server's day.

Thousands of calls of random sizes to every estimator and to bound forests: what is compiled after the first hundred of
each, how the process grows, and how long calls take. Each model is measured in a process of its own. A server warms up:
the first calls go through the powers of two, by every method.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc import estimators

from .first_call import compilations
from .machine import about, command, publish
from .measure import say, spread

CALLS, QUICK_CALLS = 20_000, 300
FIRST = 100
"""Calls after which nothing may be compiled, and memory stays flat."""

METHODS = 8
"""No model is asked by more."""

MOST = 3000
"""Instances of a call at most; those of transduction, which takes each by itself, are fewer."""
MOST_INSERTED = 20
N_FEATURES, N_CLASSES, N_TREES, N_TRAINING = 8, 3, 20, 300

Methods = list[Callable]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Three classes around their centres."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, MOST)
    return (rng.normal(size=(MOST, N_FEATURES)) + y[:, None]).astype(np.float32), y


def _forest() -> RandomForestClassifier:
    return RandomForestClassifier(N_TREES, min_samples_leaf=3, random_state=0)


def _fitted(model):
    X, y = data()
    return model.fit(X[:N_TRAINING], y[:N_TRAINING])


def _estimator(model, *further: str) -> Methods:
    _fitted(model)
    return [getattr(model, name) for name in ("predict", "predict_proba", *further)]


def _bound(rule) -> Methods:
    X, forest = data()[0], ju.from_sklearn(_fitted(_forest()))
    bound = ju.bind(forest, rule(forest))
    mask = np.random.default_rng(1).random((MOST, N_TREES)) < 0.6
    missing = np.where(np.random.default_rng(2).random(X.shape) < 0.05, np.nan, X).astype(np.float32)
    return [bound, lambda x: bound(x, tree_mask=mask[: len(x)]), lambda x: bound(missing[: len(x)])]


def _leaves() -> Methods:
    forest = ju.from_sklearn(_fitted(_forest()))
    return [lambda x: ju.leaf_index(forest, x), lambda x: ju.leaf_counts(forest, x), ju.voting.bind_vote(forest)]


MODELS: dict[str, Callable[[], Methods]] = {
    "CombinedForestClassifier": lambda: _estimator(
        estimators.CombinedForestClassifier(random_state=0),
        "decision_function",
        "predict_uncertainty",
        "predict_polled",
    ),
    "CautiousForestClassifier": lambda: _estimator(
        estimators.CautiousForestClassifier(_forest()), "predict_set", "predict_interval", "explain"
    ),
    "RandomDecisionTreesClassifier": lambda: _estimator(
        estimators.RandomDecisionTreesClassifier(N_TREES, random_state=0), "predict_uncertainty"
    ),
    "TransductiveTreeClassifier": lambda: _estimator(estimators.TransductiveTreeClassifier(combiner=ju.Mean())),
    "bound, Mean": lambda: _bound(lambda _: ju.Mean()),
    "bound, EvidenceAccumulation": lambda: _bound(lambda forest: ju.EvidenceAccumulation(forest.prior)),
    "bound, CautiousReport": lambda: _bound(lambda _: ju.decisions.CautiousReport(1.0)),
    "bound, Median": lambda: _bound(lambda _: ju.combiners.Median()),
    "leaf_index, leaf_counts, bind_vote": _leaves,
}


def resident_bytes() -> int:
    """Of this process; 0 where the system does not say."""
    said = Path("/proc/self/statm")
    return int(said.read_text().split()[1]) * 4096 if said.exists() else 0


def day(name: str, calls: int) -> dict:
    """So many calls of one model, in this process."""
    methods, X, rng = MODELS[name](), data()[0], np.random.default_rng(3)
    most = MOST_INSERTED if name.startswith("Transductive") else MOST
    sizes, which = rng.integers(1, most + 1, calls), rng.integers(0, 1000, calls)
    powers = 2 ** np.arange(int(most).bit_length())
    warm = len(powers) * METHODS
    sizes[:warm], which[:warm] = np.repeat(powers, METHODS), np.tile(np.arange(METHODS), len(powers))
    seconds, late, resident = [], [], []
    with compilations() as compiled:
        for i in range(calls):
            before, start = len(compiled), time.perf_counter()
            methods[which[i] % len(methods)](X[: sizes[i]])
            seconds.append(time.perf_counter() - start)
            if i >= FIRST and len(compiled) > before:
                late.append({"call": i, "instances": int(sizes[i]), "programs": len(compiled) - before})
            if i + 1 == FIRST or (i >= FIRST and i % 100 == 99):
                resident.append(resident_bytes() / 2**20)
    after = np.asarray(seconds[FIRST:]) * 1e3
    return {
        "model": name,
        "calls": calls,
        "sizes": len(set(sizes.tolist())),
        "compiled_first": len(compiled) - sum(one["programs"] for one in late),
        "compiled_later": sum(one["programs"] for one in late),
        "later": late[:20],
        "resident_mib_after_first": resident[0],
        "resident_mib_at_end": resident[-1],
        "growth_mib": max(resident) - resident[0],
        "call_ms": spread(after),
        "call_ms_99th": float(np.quantile(after, 0.99)),
    }


def in_fresh_process(name: str, calls: int) -> dict:
    """The same in a process of its own, so that one model's memory is not another's."""
    command = [sys.executable, "-m", "benchmarks.speed.server", "--calls", str(calls), "--one", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout)
    programs = f"{found['compiled_first']} programs, {found['compiled_later']} after the first {FIRST} calls"
    say(f"{name}: {programs}, {found['growth_mib']:.1f} MiB more, {found['call_ms']['median']:.2f} ms a call")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    parser = command("server", main.__doc__)
    parser.add_argument("--calls", type=int, help=f"calls of each model (default {CALLS})")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, metavar="NAME")
    parser.add_argument("--one", choices=MODELS, help="one model, in this process: prints its row alone")
    options = parser.parse_args(arguments)
    calls = options.calls or (QUICK_CALLS if options.quick else CALLS)
    if calls <= FIRST:
        parser.error(f"--calls must exceed {FIRST}, those after which nothing may be compiled")
    if options.one:
        print(json.dumps(day(options.one, calls)))
        return
    result = about() | {"calls": calls, "first": FIRST, "most_instances": MOST, "inserted": MOST_INSERTED}
    result["days"] = [in_fresh_process(name, calls) for name in options.models]
    publish(result, options.output)


if __name__ == "__main__":
    main()

"""After a fork no program runs: whatever is called answers without one, or refuses instead of hanging."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._patience import patience

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.once

PROGRAM = """
import os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import numpy as np
import jaxunc as ju
from tests._patience import Deadline, HangError, patience
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, RandomDecisionTreesClassifier

X = np.random.default_rng(0).normal(size=(200, 3))
y = (X[:, 0] > 0).astype(int)
model = RandomForestClassifier(50, min_samples_leaf=3, random_state=0).fit(X, y)
if (child := os.fork()) == 0:  # before anything is compiled
    ju.bind(ju.from_sklearn(model), ju.Mean())(X)
    os._exit(7)
words = {"before": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
boosted = ju.from_any(HistGradientBoostingClassifier(max_iter=3).fit(X, y))
forest = ju.from_sklearn(model)
bound = ju.bind(forest, ju.Mean())
counts = np.array([[1.0, 2.0]])
JOBS = {
    "bound": lambda: bound(X),
    "one row": lambda: bound(X[:1]),
    "bind": lambda: ju.bind(forest, ju.Mean())(X),
    "import": lambda: ju.bind(ju.from_sklearn(model), ju.Mean())(X),
    "boosted": lambda: boosted.predict(X),
    "leaves": lambda: ju.leaf_index(forest, X),
    "count_leaves": lambda: ju.count_leaves(forest, X, y),
    "settled": lambda: ju.predict_until_settled(forest, X),
    "certainty": lambda: ju.transductive_certainty(X, y, X[:3]),
    "auc": lambda: ju.metrics.auc(np.array([0.1, 0.9]), np.array([0, 1])),
    "scorer": lambda: ju.scorers.plausibility(counts),
    "rule": lambda: ju.Mean()(counts[None]),
    "decision": lambda: ju.decisions.expected_utility_set(np.array([0.3, 0.7])),
    "smoothing": lambda: ju.smoothing.smooth_forest(forest),
    "combined": lambda: CombinedForestClassifier(RandomForestClassifier(50)).fit(X, y),
    "cautious": lambda: CautiousForestClassifier(RandomForestClassifier(5)).fit(X, y),
    "random trees": lambda: RandomDecisionTreesClassifier(5).fit(X, y),
    "export": lambda: bound.export("probability"),
}
for name, job in JOBS.items():
    job()  # compiled here: a program that is ready must not run there either
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            job()
            word = "answered"
        except RuntimeError as error:
            word = "refused" if "forked" in str(error) and "spawn" in str(error) else repr(error)
        except BaseException as error:
            word = repr(error)
        os.write(writer, word.encode())
        os._exit(0)
    deadline = Deadline(1)
    while not os.waitpid(child, os.WNOHANG)[0]:
        try:
            deadline.left()
        except HangError:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.write(writer, b"hung")
            break
        time.sleep(0.01)
    words[name] = os.read(reader, 1000).decode()
for name, model in (("pool: bound", bound.probability), ("pool: boosted", boosted.predict)):
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        try:
            pool.submit(model, X).result(patience(1))
            words[name] = "answered"
        except RuntimeError as error:
            words[name] = "refused" if "forked" in str(error) and "spawn" in str(error) else repr(error)
        except BaseException as error:
            words[name] = repr(error)
        for worker in pool._processes.values():
            worker.kill()
print(words)
"""

STARTED = """
import os, signal, sys
import jax, numpy as np
from jaxunc.metrics import auc

for begin in sys.argv[2:]:
    if not (fresh := os.fork()):  # as a process that has imported it, and no more
        exec(begin)
        if not (child := os.fork()):
            signal.alarm(int(sys.argv[1]))
            try:
                auc(np.array([0.1, 0.9]), np.array([0, 1]))
            except RuntimeError as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
    print(os.waitstatus_to_exitcode(os.waitpid(fresh, 0)[1]), flush=True)
"""
BEGUN = {"jax.devices()": 7, "jax.device_put(np.ones(3))": 7, "jax.local_devices()": 7, "": 9}
"""What begins before anything is compiled, and whether a forked process refuses (7) or answers (9) then."""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads have no names here")
def test_threads_that_run_before_anything_is_compiled():
    command = [sys.executable, "-W", "ignore", "-c", STARTED, str(int(patience(2))), *BEGUN]
    run = subprocess.run(command, capture_output=True, text=True, timeout=5 * patience(2), check=False)
    assert run.stdout.split() == [str(code) for code in BEGUN.values()], run.stderr


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_everything_answers_or_refuses():
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=patience(100), check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    words = ast.literal_eval(run.stdout)
    assert words.pop("before") == 7
    assert {name: word for name, word in words.items() if word not in ("answered", "refused")} == {}
    assert words["bound"] == words["boosted"] == words["auc"] == "refused"
    assert words["pool: bound"] == words["pool: boosted"] == "refused"

"""Compiled programs in a folder: found by the next process, which answers the same."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier
from tests._rooms import ROOT

pytestmark = pytest.mark.once

WORK = """
X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
forest = ju.grow_random_trees(jax.random.key(0), X, X[:, 0] > 0, n_trees=3)
found = ju.bind(forest, ju.Mean()).probability(X)
"""
ANSWERS = """
import collections, json, sys
import jax, numpy as np
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.rpartition("/")[2]]))
import jaxunc as ju

folder = ju.use_compilation_cache(*sys.argv[1:])
WORK
print(json.dumps([str(folder), events["cache_hits"], events["cache_misses"], np.asarray(found).tobytes().hex()]))
"""


def process(*arguments, work=WORK, **environment) -> list:
    """The folder that a fresh process uses, programs found there and not, and its answers."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_COMPILATION_CACHE"}
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{ANSWERS.replace('WORK', work)}"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.exhaustive
def test_the_next_process_compiles_nothing(tmp_path):
    folder, _, misses, first = process(XDG_CACHE_HOME=str(tmp_path))
    assert folder == str(tmp_path / "jaxunc")
    assert misses > 5
    assert (tmp_path / "jaxunc").stat().st_mode & 0o77 == 0
    *_, hits, misses, second = process(tmp_path / "jaxunc")
    assert (hits > 5, misses, second) == (True, 0, first)
    for entry in (tmp_path / "jaxunc").glob("*-cache"):
        entry.write_bytes(b"damaged")
    assert process(tmp_path / "jaxunc")[3] == first


@pytest.mark.parametrize("start", [["-m", "jaxunc"], ["-c", "from jaxunc.__main__ import main; main()"]])
@pytest.mark.exhaustive
def test_commands_say_nothing_of_programs_that_they_load(start, tmp_path):
    """On some processors XLA prints lines of error for each program that it finds: as a module and as a script."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    ju.save(tmp_path / "model", RandomDecisionTreesClassifier(5, random_state=0).fit(X, X[:, 0] > 0))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b,c", comments="")
    own = {"XDG_CACHE_HOME": str(tmp_path / "caches"), "PYTHONPATH": str(ROOT)}
    unset = {"JAX_ENABLE_COMPILATION_CACHE", "JAX_LOGGING_LEVEL", "TF_CPP_MIN_LOG_LEVEL"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    entries = []
    for time in ("first", "second"):
        command = [sys.executable, *start, "predict", "model", "t.csv", "--output", time, "--quiet"]
        done = subprocess.run(command, cwd=tmp_path, env=kept | own, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        entries.append({path.name for path in (tmp_path / "caches" / "jaxunc").glob("*-cache")})
    assert len(entries[0]) > 2
    assert entries[0] == entries[1], "the second time all are found"


@pytest.mark.exhaustive
def test_settings_of_jax_hold(tmp_path):
    own, off = str(tmp_path / "own"), {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    little = "found = jax.jit(abs)(1.0)"
    assert process(work=little, JAX_COMPILATION_CACHE_DIR=own)[0] == own
    assert process(work=little, XDG_CACHE_HOME=str(tmp_path), **off)[:3] == ["None", 0, 0]
    assert not (tmp_path / "jaxunc").exists()
    (tmp_path / "file").write_text("")
    assert process(work=little, XDG_CACHE_HOME=str(tmp_path / "file"))[:3] == ["None", 0, 0]


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(TypeError):
        ju.use_compilation_cache(7)
    (tmp_path / "file").write_text("")
    jax.config.update("jax_enable_compilation_cache", True)
    try:
        with pytest.raises(OSError, match="file"):
            ju.use_compilation_cache(tmp_path / "file")
    finally:
        jax.config.update("jax_enable_compilation_cache", False)

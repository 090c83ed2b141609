"""What ``import jaxunc`` brings along, and what waits for its first use."""

import json
import subprocess
import sys

import jaxtyping
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.ensemble import RandomForestRegressor

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier, UncertainForestRegressor
from tests._rooms import AT_ONCE, ROOMS, ROOT
from tests.conftest import TYPED

pytestmark = pytest.mark.once
LATER = [room for room in ROOMS if room not in AT_ONCE]
"""Rooms that are read when they are first used."""


def fresh(program: str) -> str:
    """What a program prints in a process of its own, where every warning is an error."""
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


# A backend of that name cannot be started: whoever tries gets an error.
NO_DEVICE = "import os; os.environ['JAX_PLATFORMS'] = 'nowhere'\n"


BARE = f"""{NO_DEVICE}
import json, warnings
import jaxlib
import jaxunc as ju

told = {{"modules": [*sys.modules]}}


def anew():
    for name in [name for name in sys.modules if name.split(".")[0] == "jaxunc"]:
        del sys.modules[name]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        import jaxunc
    return jaxunc, [(one.category.__name__, one.filename, str(one.message)) for one in said]


sys.modules["pyarrow"] = None
try:
    anew()[0].stream
except ImportError as error:
    told["no pyarrow"] = str(error)
for jaxlib.__version__ in ("0.10.1", "0.10.2"):
    told[jaxlib.__version__] = anew()[1]
try:
    import jax.numpy
    jax.numpy.zeros(1)
except RuntimeError as error:
    told["device"] = str(error)
print(json.dumps(told))
"""


@pytest.mark.room
def test_import_brings_neither_the_heavy_modules_nor_a_device_and_names_what_is_missing_or_wrong():
    """A package of an extra that is missing is named, and a version of JAX that computes wrongly is warned of."""
    told = json.loads(fresh(BARE))
    assert not {"sklearn", "scipy.stats", "matplotlib", "pandas", "rich", "optax"} & set(told["modules"])
    assert not {f"jaxunc.{room}" for room in LATER} & set(told["modules"])
    assert told["no pyarrow"] == 'jaxunc.streaming reads and writes by the package pyarrow: pip install "jaxunc[cli]".'
    assert told["0.10.1"] == []
    ((kind, place, words),) = told["0.10.2"]
    assert (kind, place) == ("WrongJaxWarning", "<string>")
    assert words.startswith("jaxlib 0.10.2 computes wrong")
    assert "nowhere" in told["device"], "or no device that an import starts would be seen"


PREDICT = """
import logging, re
import jax
from jaxunc.__main__ import main

class Compiled(logging.Handler):
    def emit(self, record):
        if found := re.match(r"Finished XLA compilation of (?:jit)?\\W?_?(\\w+)", record.getMessage()):
            print("compiled:" + found[1])

jax.config.update("jax_log_compiles", True)
logging.getLogger("jax").addHandler(Compiled())
logging.getLogger("jax").propagate = False
main(["predict", {model!r}, {data!r}, "--output", {output!r}, "--quiet"])
print(*sys.modules)
"""
OF_SCORING = {"lift_tree", "scalars_program", "merge_chunk", "finish_chunk", "merge_and_finish"}
"""Names of the programs that are compiled to bind a model and to score rows."""
OF_SOME_PROCESSORS = {"probe_wide_vectors"}
"""What AMD's processors compile besides: `tests/inference/test_processors.py` says who compiles it."""


@pytest.mark.room
@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.exhaustive(keep=1)
def test_predict_imports_and_compiles_what_it_needs(numbers, tmp_path, rng, monkeypatch):
    """What it imports and compiles besides is most of what a short run takes."""
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")
    X = rng.normal(size=(20, 3)).astype(np.float32)
    labels = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    if numbers:
        model = UncertainForestRegressor(RandomForestRegressor(12, random_state=0)).fit(X, X[:, 0])
    else:
        model = RandomDecisionTreesClassifier(3, combiner="mean", random_state=0).fit(X, labels)
    ju.save(tmp_path / "model", model)
    parquet.write_table(pa.table({f"column{j}": X[:, j] for j in range(3)}), tmp_path / "rows.parquet")
    paths = {name: str(tmp_path / name) for name in ("model", "output")}
    found = fresh(PREDICT.format(**paths, data=str(tmp_path / "rows.parquet"))).split()
    slow = {"sklearn", "scipy.stats", "pandas", "matplotlib", "narwhals", "optax", "rich", "onnx"}
    assert not slow & set(found)
    assert not {"jaxunc.estimators", "jaxunc.learning", "jaxunc.voting"} & set(found)
    compiled = [word.removeprefix("compiled:") for word in found if word.startswith("compiled:")]
    if numbers:  # two forests
        return
    assert 1 < len(compiled) == len(set(compiled))
    assert set(compiled) <= OF_SCORING | OF_SOME_PROCESSORS


EVERY_WAY = """
import jaxunc as ju

assert set(ju.__all__) <= set(dir(ju))
assert "sklearn" not in sys.modules
import sklearn.tree  # a library that comes later than jaxunc

rooms = [getattr(ju, name) for name in ju.__all__]
import jaxunc.compare

assert ju.from_sklearn is ju.interop.from_sklearn is ju.__dict__["from_sklearn"]
assert ju.counting.oob_mask is ju.counting.oob_mask
assert ju.grow_random_trees is ju.random_trees.grow_random_trees
assert ju.transduction.grow_greedy_trees is ju.transduction.grow_greedy_trees

for statement in (
    "from jaxunc import estimators",
    "import jaxunc.estimators as estimators",
    "import jaxunc; estimators = jaxunc.estimators",
    "from jaxunc import *",
):
    for name in [name for name in sys.modules if name.split(".")[0] == "jaxunc"]:
        del sys.modules[name]
    found = {}
    exec(statement, found)
    assert found["estimators"].__name__ == "jaxunc.estimators"
    assert found["estimators"].CombinedForestClassifier.__name__ == "CombinedForestClassifier"
print("done")
"""


@pytest.mark.exhaustive
def test_rooms_are_found_in_every_way_of_asking_and_start_no_device():
    assert fresh(NO_DEVICE + EVERY_WAY) == "done\n"


def test_unknown_names_are_refused_as_everywhere():
    with pytest.raises(AttributeError, match="module 'jaxunc' has no attribute 'forrest'"):
        ju.forrest  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'forrest'"):
        from jaxunc import forrest  # noqa: F401


@pytest.mark.skipif(not TYPED, reason="JAXUNC_TEST_TYPES=1 checks types")
def test_types_are_checked_in_rooms_that_are_read_late():
    with pytest.raises(jaxtyping.TypeCheckError):
        ju.counting.oob_mask(None, "twelve")
    with pytest.raises(jaxtyping.TypeCheckError):
        ju.metrics.brier_score("sure", "yes")

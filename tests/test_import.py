"""What ``import jaxunc`` brings along, and what waits for its first use."""

import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest

import jaxunc as ju

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
LATER = ("comparison", "decisions", "estimators", "growing", "interop", "metrics", "plotting", "smoothing")
"""Rooms that are read when they are first used."""


def fresh(program: str) -> list[str]:
    """The words that a program prints in a process of its own, where every warning is an error."""
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


def test_import_brings_neither_the_heavy_modules_nor_a_device():
    loaded = fresh(
        "import jaxunc\n"
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "print(backends_are_initialized(), *sys.modules)"
    )
    assert loaded[0] == "False"
    assert not {"sklearn", "scipy.stats", "matplotlib", "pandas", "rich", "optax"} & set(loaded)
    assert not {f"jaxunc.{room}" for room in (*LATER, "report")} & set(loaded)


def test_no_room_starts_a_device_when_it_is_read():
    program = (
        "import jaxunc, jaxunc.report\n"
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "rooms = [getattr(jaxunc, name) for name in jaxunc.__all__]\n"
        "print(backends_are_initialized(), 'sklearn' in sys.modules)"
    )
    assert fresh(program) == ["False", "True"]


@pytest.mark.parametrize(
    "statement",
    [
        "from jaxunc import estimators",
        "import jaxunc.estimators as estimators",
        "import jaxunc; estimators = jaxunc.estimators",
        "from jaxunc import *",
    ],
)
def test_every_way_of_asking_for_a_room_finds_it(statement):
    program = f"{statement}\nprint(estimators.__name__, estimators.CombinedForestClassifier.__name__)"
    assert fresh(program) == ["jaxunc.estimators", "CombinedForestClassifier"]


def test_names_are_those_of_their_rooms_and_are_listed_before_they_are_read():
    program = (
        "import jaxunc as ju\n"
        "missing = set(ju.__all__) - set(dir(ju))\n"
        "print(len(missing), ju.from_sklearn is ju.interop.from_sklearn, ju.oob_mask is ju.interop.oob_mask)\n"
        "print(ju.grow_random_trees is ju.growing.grow_random_trees, ju.__dict__['oob_mask'] is ju.oob_mask)"
    )
    assert fresh(program) == ["0", "True", "True", "True", "True"]


def test_a_library_that_comes_later_is_welcome():
    program = (
        "import jaxunc as ju\n"
        "from sklearn.datasets import load_breast_cancer\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "X, y = load_breast_cancer(return_X_y=True)\n"
        "forest = ju.from_sklearn(DecisionTreeClassifier(max_depth=2).fit(X, y))\n"
        "print(forest.n_trees, forest.n_classes)"
    )
    assert fresh(program) == ["1", "2"]


def test_unknown_names_are_refused_as_everywhere():
    with pytest.raises(AttributeError, match="module 'jaxunc' has no attribute 'forrest'"):
        ju.forrest  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'forrest'"):
        from jaxunc import forrest  # noqa: F401


def test_types_are_checked_in_rooms_that_are_read_late(x64):
    if x64:
        pytest.skip("this run has no type hook")
    with pytest.raises(jaxtyping.TypeCheckError):
        ju.oob_mask(None, "twelve")
    with pytest.raises(jaxtyping.TypeCheckError):
        ju.metrics.brier_score("sure", "yes")

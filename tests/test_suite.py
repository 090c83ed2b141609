"""The suite itself: no test judges by a clock (`_patience` alone says when something hangs); shares meet all cases."""

import ast
import math
import re
from pathlib import Path

import pytest

from tests import _exhaustive

pytestmark = pytest.mark.once

TESTS = Path(__file__).parent
CLOCK = re.compile(
    r"\b(?:monotonic|perf_counter|process_time|thread_time|default_timer|clock_gettime)(?:_ns)?\b"
    r"|\btime\.time(?:_ns)?\(|\bfrom time import\b|\bgetrusage\(.*\)\.ru_[us]time|\bos\.times\("
    r"|\bdatetime\.(?:now|today|utcnow)\(|\balarm\(\d|\bsetitimer\([^)]*[1-9]\d*\.?\d*\)"
)
READERS = {
    "_patience.py": "says when something hangs",
    "test_suite.py": "names the clocks",
    "importers/_run.py": "tells how long its models took, which nothing compares",
}
"""Files that read a clock, and what for."""
WAITS = {"wait", "join", "result"}
"""Methods whose one argument is how long they wait."""


def sources() -> list[Path]:
    return [file for file in sorted(TESTS.rglob("*.py")) if str(file.relative_to(TESTS)) not in READERS]


def limits_in(text: str) -> list[int]:
    """The lines of calls that wait for so many seconds, written as a number."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    waiting = lambda call: isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
    numbers = [(call, one.value) for call in calls for one in call.keywords if one.arg == "timeout"]
    numbers += [(call, call.args[0]) for call in calls if waiting(call) and len(call.args) == 1]
    is_number = lambda node: isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return [call.lineno for call, value in numbers if is_number(value)]


def test_no_test_reads_a_clock():
    lines = [(file, i, line) for file in sources() for i, line in enumerate(file.read_text("utf-8").splitlines(), 1)]
    found = [f"{file.relative_to(TESTS)}:{i}: {line.strip()}" for file, i, line in lines if CLOCK.search(line)]
    assert not found, f"count what is done instead, or wait by tests._patience: {found}"


@pytest.mark.room
def test_what_waits_is_patient():
    found = [f"{file.relative_to(TESTS)}:{i}" for file in sources() for i in limits_in(file.read_text("utf-8"))]
    assert not found, f"limits are tests._patience.patience(seconds on an idle machine): {found}"


def test_readers_read_one():
    for name in READERS:
        assert CLOCK.search((TESTS / name).read_text("utf-8")), f"{name} reads no clock; take it off the list"


READ = ["time.perf_counter()", "if time.time() > end:", "time.monotonic_ns()", "signal.alarm(25)", "datetime.now()"]


@pytest.mark.parametrize("line", READ)
def test_clocks_are_seen(line):
    assert CLOCK.search(line)


def test_limits_are_seen():
    assert limits_in("run(x, timeout=5)\nq.wait(3)\nq.wait()\n','.join(x)\nrun(timeout=patience(3))") == [1, 2]


@pytest.mark.parametrize(("share", "files"), [(0.06, 0.25), (0.15, 0.25), (0.3, 0.25), (0.27, 1.0), (1.0, 0.25)])
def test_seeds_in_a_row_draw_each_case(share, files, monkeypatch):
    """And no more than the share, each time: a file of which a case is drawn is among those that are read."""
    cases = [f"tests/room_{i % 7}/test_{i // 40}.py::test[{i}]" for i in range(4000)]
    of_files = max(share, files)
    left = set(cases)
    for seed in range(math.ceil(1 / of_files) * math.ceil(of_files / share)):
        monkeypatch.setattr(_exhaustive, "SEED", 2969 + seed)
        drawn = {case for case in cases if _exhaustive.is_drawn(case, {"": share}, files)}
        assert abs(len(drawn) / len(cases) - share) <= 0.15 * share
        assert all(_exhaustive.may_hold_drawn(case.partition("::")[0], {"": share}, files) for case in drawn)
        left -= drawn
    assert not left


def test_a_file_is_read_for_one_case_that_is_named():
    assert _exhaustive.may_hold_drawn("tests/test_a.py", {"": 0.0, "tests/test_a.py::test_x[1": 1.0}, 0.25)
    assert not _exhaustive.may_hold_drawn("tests/test_b.py", {"": 0.0, "tests/test_a.py::test_x[1": 1.0}, 0.25)

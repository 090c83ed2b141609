"""Two runs make the suite: float32, and (JAXUNC_TEST_X64=1) float64.

JAXUNC_TEST_TYPES=1 checks the annotated shapes and types of every call, which takes a quarter more time.

JAXUNC_TEST_OPTIMIZED=1 lets the compiler optimise as it does for users: slower, for continuous integration.
"""

import ctypes
import gc
import math
import os
import re
import sys
import zlib
from collections import Counter
from pathlib import Path

import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

from tests._compilations import MOST_PROGRAMS, MOST_WITH_ROOMS, count_programs
from tests._exhaustive import SEED, is_drawn, keep_some, may_hold_drawn, parse_shares
from tests._golden import Tolerance

X64 = os.environ.get("JAXUNC_TEST_X64", "0") == "1"
TYPED = os.environ.get("JAXUNC_TEST_TYPES", "0") == "1"
MANY_BYTES = 1_400_000_000
"""Memory of a worker from which on it drops the programs that it has compiled."""
if os.environ.get("JAXUNC_TEST_OPTIMIZED", "0") != "1":
    # Compiling is most of the time; the machine code need not be fast here.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
    # until jax 0.11: XLA ends a process that names a flag which it does not know. The older emitters of fused loops
    # take a third of the time for the same loops; a program as one part, where each core has a worker, saves a seventh.
    if jax.__version_info__ < (0, 11):
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
# Before any OpenMP is loaded: threads that wait for each other on cores that other workers have spin, and take several
# times the time of one that does it all.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Programs of the suite stay out of the user's folder of caches, those of its subprocesses, too.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
jax.config.update("jax_enable_compilation_cache", False)
jax.config.update("jax_enable_x64", X64)
# As in most folders (`no_silent_mistakes`): what is compiled for one setting is compiled anew for another.
jax.config.update("jax_numpy_dtype_promotion", "standard" if X64 else "strict")
PROGRAMS_HERE = count_programs()
EXACT_RANKS = {"_numerics", "belief", "decisions", "metrics", "test_imprecise_dirichlet.py"}
"""Folders and files in which a missing axis is an error. Elsewhere settings, priors and nodes of a grid meet arrays of
more axes on purpose, as in NumPy."""
DRAWS = {"learning", "random_trees", "voting"}
"""Folders of what draws by random keys, in which to use a key twice is an error. Elsewhere JAX would look for such
mistakes in vain, for a tenth of the time of each program."""
if TYPED:
    # Before anything imports jaxunc: every call then checks the annotated shapes and dtypes.
    jaxtyping.install_import_hook("jaxunc", "beartype.beartype")

hypothesis.settings.register_profile("jaxunc", deadline=None, derandomize=True, max_examples=40, database=None)
hypothesis.settings.load_profile("jaxunc")


PROGRAMS, LEFT_OUT = pytest.StashKey[int](), pytest.StashKey[int]()
"""Of a run: the programs that it compiled, and the exhaustive cases that it left out."""


def pytest_addoption(parser):
    parser.addoption("--share", default="1", help="run this share of the tests, drawn by JAXUNC_TEST_SEED")
    parser.addoption("--files", type=float, default=1.0, help="draw shares from so many of the files alone (1: of all)")
    parser.addoption(
        "--exhaustive",
        metavar="SHARE[,PATH=SHARE...]",
        help="run this share of the exhaustive tests, too, other shares below paths (none; all of them with -m)",
    )
    parser.addoption(
        "--rooms",
        metavar="SHARE[,PATH=SHARE...]",
        help="run this share of the tests marked `room`, too (as --exhaustive; all of them where rooms are named)",
    )


LONG = re.compile(r"notebooks/|tests/(interop/test_fuzzer|estimators/test_sizes|test_fork)\.py")
"""Tests of half a minute and more, which share no fixture: they run first, and not file by file."""
DEAR = re.compile(r"tests/(commands|counting/test_ydf|estimators|explanations|interop|regression|storage|streaming)")
"""Files whose cases take longest: they run before the others, so that no worker waits for another at the end."""
ONCE = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.once\b", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Whether a file not asked for need not be read: no share draws from it, or float64 changes nothing in it."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    if collection_path.suffix != ".py" or any(collection_path.name in arg for arg in config.args):
        return None
    if not any(may_hold_drawn(path, shares, config.getoption("--files")) for shares in shares_of(config)):
        return True
    return True if X64 and ONCE.search(collection_path.read_text(encoding="utf-8")) else None


def shares_of(config) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Shares of the usual tests, of the exhaustive ones, and of those of rooms."""
    usual, rooms = parse_shares(config.getoption("--share")), config.getoption("--rooms")
    exhaustive = parse_shares(config.getoption("--exhaustive") or ("1" if config.option.markexpr else "0"))
    return usual, exhaustive, parse_shares(rooms) if rooms else usual if is_of_rooms(config) else exhaustive


def pytest_configure(config):
    config.stash[PROGRAMS] = config.stash[LEFT_OUT] = 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out of the float64 run what is marked ``once``, and of all runs what is ``exhaustive``, but for n cases of
    ``exhaustive(keep=n)``; likewise ``room``, unless paths below ``tests`` are asked for.
    """
    for item in items:
        if item.path.parent.name == "benchmarks":  # studies are not part of the library
            item.add_marker(pytest.mark.exhaustive)
    keep_some(items, "exhaustive")
    keep_some([item for item in items if item.get_closest_marker("exhaustive") is None], "room")
    usual, exhaustive, rooms = shares_of(config)
    shares = {"exhaustive": exhaustive, "room": rooms}
    kept = []
    for item in items:
        if X64 and item.get_closest_marker("once"):
            continue
        mark = next((name for name in shares if item.get_closest_marker(name) is not None), None)
        if is_drawn(item.nodeid, usual if mark is None else shares[mark], config.getoption("--files")):
            kept.append(item)
        else:
            config.stash[LEFT_OUT] += mark is not None
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])
        items[:] = kept
    if hasattr(config, "workerinput"):
        cases = Counter(item.path for item in items)
        order = lambda item: (LONG.match(item.nodeid) is None, DEAR.match(item.nodeid) is None, -cases[item.path])
        items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The scheduler of ``--dist loadfile``, by which long cases begin first, each on the worker that is free."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LongFirst(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if LONG.match(nodeid) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return LongFirst(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Add up what is compiled; the whole suite fails where that is more than it should be."""
    config = session.config
    config.stash[PROGRAMS] += PROGRAMS_HERE.total
    if hasattr(config, "workeroutput"):
        config.workeroutput |= {"programs": config.stash[PROGRAMS], "left_out": config.stash[LEFT_OUT]}
    elif config.stash[PROGRAMS] > most_programs(config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Add what a worker compiled; each leaves out the same cases."""
    ended = getattr(node, "workeroutput", {})
    node.config.stash[PROGRAMS] += ended.get("programs", 0)
    node.config.stash[LEFT_OUT] = ended.get("left_out", 0)


def is_of_rooms(config) -> bool:
    """Whether rooms or files of tests are asked for by name."""
    paths = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    return any(Path(__file__).parent in path.parents for path in paths)


def most_programs(config) -> float:
    """Programs that the whole suite may compile by so few workers that they share them; any number for parts of it."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    drawn = config.getoption("--share") != "1" or config.getoption("--exhaustive")
    rooms = {None: MOST_PROGRAMS, "1": MOST_WITH_ROOMS}.get(config.getoption("--rooms"), math.inf)
    return math.inf if named or drawn or (config.getoption("numprocesses", 0) or 0) > 2 else rooms


def pytest_terminal_summary(terminalreporter, config):
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"Cases were drawn by JAXUNC_TEST_SEED={SEED}.")
    programs, left_out = config.stash[PROGRAMS], config.stash[LEFT_OUT]
    if programs > (most := most_programs(config)):
        terminalreporter.write_line(f"{programs} programs were compiled; at most {most} are expected.", red=True)
    terminalreporter.write_line(
        f"{programs} programs compiled; {left_out} exhaustive cases left out"
        + (", which --exhaustive 1 runs." if left_out else ".")
    )


def pytest_collection_finish(session):
    """What is imported by now stays, and programs are made of many objects: the garbage collector looks seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)  # with the files' own fixtures: programs are compiled for these settings
def no_silent_mistakes(request):
    """Refuse to convert types, to add axes unasked and to use a key twice, where the library never does."""
    folder = request.path.parent.name
    exact_ranks = not EXACT_RANKS.isdisjoint((folder, request.path.name))
    # A sum of an integer and a float, or of two widths, is as often a mistake as a wish. (Under x64 settings are
    # float64, and float32 data meet them; optax mixes them in its own steps.)
    exact = exact_ranks or not (X64 or folder == "learning")
    with (
        jax.numpy_rank_promotion("raise" if exact_ranks else "allow"),
        jax.numpy_dtype_promotion("strict" if exact else "standard"),
        jax.debug_key_reuse(folder in DRAWS),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def programs_of_few_files():
    """Drop the compiled programs after a file that leaves many: small ones are met again, large ones take gigabytes."""
    yield
    if sys.platform != "linux":
        jax.clear_caches()
    elif int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MANY_BYTES:
        jax.clear_caches()
        gc.collect()
        # What was freed lies scattered, and glibc keeps it.
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)


@pytest.fixture(scope="session")
def x64() -> bool:
    """Whether this run computes in float64."""
    return X64


@pytest.fixture(scope="session")
def tolerance() -> Tolerance:
    """How far a value may be from its reference in this run's precision."""
    return Tolerance.of(X64)


@pytest.fixture
def seed(request) -> int:
    """A number that belongs to this test alone."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(seed) -> np.random.Generator:
    """Random numbers on the host."""
    return np.random.default_rng(seed)


@pytest.fixture
def key(seed) -> jax.Array:
    """Random numbers in JAX."""
    return jax.random.key(seed)

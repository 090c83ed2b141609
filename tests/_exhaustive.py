"""Cases of which a few are tried always, and the others, or a share of them, where ``--exhaustive`` asks for them."""

import math
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest

SEED = int(os.environ.get("JAXUNC_TEST_SEED", "0"))
"""What draws the cases of a share, and those of tests that draw their own. A run that fails prints it."""


def a_few_of(values: Iterable, kept: Iterable, *, several: bool = False) -> list:
    """The values as parameters (tuples of ``several``), exhaustive but for those that are kept."""
    values, kept = list(values), list(kept)
    unknown = [value for value in kept if value not in values]
    assert not unknown, f"{unknown} are none of the values"
    marked = lambda value: pytest.param(*(value if several else [value]), marks=pytest.mark.exhaustive)
    return [value if value in kept else marked(value) for value in values]


def keep_some(items: list[pytest.Item], name: str) -> None:
    """Take a mark such as ``exhaustive(keep=n)`` off n cases of each test, spread evenly over all of its cases."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker(name)
        if mark is not None and mark.kwargs:
            cases[item.nodeid.partition("[")[0], mark.kwargs["keep"]].append(item)
    for (_, keep), of_test in cases.items():
        last = len(of_test) - 1
        for place in {round(i * last / max(keep - 1, 1)) for i in range(min(keep, len(of_test)))}:
            marks = of_test[place].own_markers
            marks[:] = [mark for mark in marks if mark.name != name]


def parse_shares(text: str) -> dict[str, float]:
    """Shares by path, of what is written as ``.1`` or ``.1,tests/benchmarks=.4``; the first is everything else's."""
    shares = {}
    for word in text.split(","):
        path, _, share = word.rpartition("=")
        shares[path] = float(share)
    return {"": 0.0} | shares


def is_drawn(nodeid: str, shares: dict[str, float], files: float = 1.0) -> bool:
    """Whether the seed draws the test: first its file, then the case.

    A file's imports, fixtures and programs cost as much as many of its cases. So a share may come from this share of
    the ``files`` alone (a larger share: from as many files, all cases). Seeds in a row draw each test:
    ``ceil(1 / files) * ceil(files / share)`` of them at least once.
    """
    share = share_of(nodeid, shares)
    files = max(share, files)
    turns = SEED * files - place_of(nodeid.partition("::")[0])
    return -turns % 1 < files and (place_of(nodeid) - math.ceil(turns) * share / files) % 1 < share / files


def may_hold_drawn(path: str, shares: dict[str, float], files: float) -> bool:
    """Whether a file of tests can hold one that is drawn."""
    within = [share for start, share in shares.items() if start.startswith(path)]
    share = max([share_of(path, shares), *within])
    return share > 0 and (place_of(path) - SEED * max(share, files)) % 1 < max(share, files)


def share_of(nodeid: str, shares: dict[str, float]) -> float:
    """The share of the longest path that the name of a test, or of a file, begins with."""
    return shares[max((path for path in shares if nodeid.startswith(path)), key=len)]


def place_of(text: str) -> float:
    """A number in [0, 1) that a name always has."""
    return zlib.crc32(text.encode()) / 2**32

"""Cases of which a few are tried always, and the others, or a share of them, where ``--exhaustive`` asks for them."""

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


def is_drawn(item: pytest.Item, shares: dict[str, float]) -> bool:
    """Whether the seed draws the test; ``ceil(1 / share)`` seeds in a row draw each test at least once."""
    share = shares[max((path for path in shares if item.nodeid.startswith(path)), key=len)]
    return (zlib.crc32(item.nodeid.encode()) / 2**32 - SEED * share) % 1 < share

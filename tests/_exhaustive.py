"""Cases of which a few are tried always, the others with ``-m exhaustive``, or a share of them with ``--share``."""

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


def keep_some(items: list[pytest.Item]) -> None:
    """Take the mark ``exhaustive(keep=n)`` off n cases of each test, spread evenly over all of its cases."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("exhaustive")
        if mark is not None and mark.kwargs:
            cases[item.nodeid.partition("[")[0], mark.kwargs["keep"]].append(item)
    for (_, keep), of_test in cases.items():
        last = len(of_test) - 1
        for place in {round(i * last / max(keep - 1, 1)) for i in range(min(keep, len(of_test)))}:
            marks = of_test[place].own_markers
            marks[:] = [mark for mark in marks if mark.name != "exhaustive"]


def drawn(items: list[pytest.Item], share: float) -> list[pytest.Item]:
    """Return the tests that the seed draws, each with the probability ``share`` whatever stands beside it."""
    return [item for item in items if zlib.crc32(f"{SEED} {item.nodeid}".encode()) < share * 2**32]

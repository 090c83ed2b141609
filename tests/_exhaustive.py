"""Parameters of which a few are tried always, and the others with ``-m exhaustive``."""

from collections.abc import Iterable

import pytest


def a_few_of(values: Iterable, kept: Iterable, *, several: bool = False) -> list:
    """The values as parameters (tuples of ``several``), exhaustive but for those that are kept."""
    values, kept = list(values), list(kept)
    unknown = [value for value in kept if value not in values]
    assert not unknown, f"{unknown} are none of the values"
    marked = lambda value: pytest.param(*(value if several else [value]), marks=pytest.mark.exhaustive)
    return [value if value in kept else marked(value) for value in values]

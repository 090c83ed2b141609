"""Parameters of which a few are tried always, and the others with ``-m exhaustive``."""

from collections.abc import Iterable

import pytest


def a_few_of(values: Iterable, kept: Iterable) -> list:
    """The values as parameters, exhaustive but for those that are kept."""
    values, kept = list(values), list(kept)
    unknown = [value for value in kept if value not in values]
    assert not unknown, f"{unknown} are none of the values"
    return [value if value in kept else pytest.param(value, marks=pytest.mark.exhaustive) for value in values]

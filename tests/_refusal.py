"""Expecting an error, whether or not the type hook stands in front of it."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import jaxtyping
import pytest


def refuses(error: type[Exception], match: str, call: Callable | None = None, *arguments: Any, **settings: Any) -> Any:
    """``call`` with its arguments, or the block, raises ``error`` with this message."""
    if call is None:
        return _refusing(error, match)
    with _refusing(error, match):
        call(*arguments, **settings)


@contextmanager
def _refusing(error: type[Exception], match: str):
    # Under the hook an annotation may refuse the shape or type first.
    with pytest.raises((error, jaxtyping.TypeCheckError)) as caught:
        yield caught
    if not isinstance(caught.value, jaxtyping.TypeCheckError):
        assert isinstance(caught.value, error), f"{type(caught.value).__name__}: {caught.value}"
        caught.match(match)

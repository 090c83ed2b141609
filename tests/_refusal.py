"""Expecting an error, whether or not the type hook stands in front of it."""

from contextlib import contextmanager

import jaxtyping
import pytest


@contextmanager
def refuses(error: type[Exception], match: str):
    """The block raises ``error`` with this message; under the hook an annotation may refuse the shape or type first."""
    with pytest.raises((error, jaxtyping.TypeCheckError)) as caught:
        yield caught
    if not isinstance(caught.value, jaxtyping.TypeCheckError):
        assert isinstance(caught.value, error), f"{type(caught.value).__name__}: {caught.value}"
        caught.match(match)

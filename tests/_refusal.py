"""Expecting an error, whether or not the type hook stands in front of it."""

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import jaxtyping
import pytest


def refusals(*rows: tuple) -> Callable:
    """A test of each row ``(name, call, words)`` or ``(name, call, words, error)``: the call raises with these words.

    Parameters of the call without a default are names of fixtures. ``words`` are a regular expression, and the error is
    a ValueError where none is named.
    """

    @pytest.mark.parametrize(
        ("call", "words", "error"),
        [pytest.param(call, words, *(error or [ValueError]), id=name) for name, call, words, *error in rows],
    )
    def test(call, words, error, request):
        parameters = inspect.signature(call).parameters.values()
        fixtures = [request.getfixturevalue(each.name) for each in parameters if each.default is each.empty]
        refuses(error, words, call, *fixtures)

    return test


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

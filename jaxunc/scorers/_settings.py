"""Scorers with settings, as pytrees."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from ._declaration import declared


class ChosenScorer(NamedTuple):
    """A function with the settings that choose its program (strings, bools, sizes): equal if they are equal."""

    func: Callable[..., Any]
    choices: tuple[tuple[str, Any], ...]

    @property
    def keywords(self) -> dict[str, Any]:
        """The fixed settings, under the name that ``functools.partial`` gives them."""
        return dict(self.choices)

    def __call__(self, counts, **settings):
        return self.func(counts, **self.keywords, **settings)


def as_partial(scorer: Callable[..., Any]) -> Partial:
    """Return a scorer as a pytree whose leaves are its numeric settings, which can be traced and learned.

    A plain function has none. ``functools.partial`` is taken for the ``Partial`` that it means, and partials of
    partials for one. Some settings become structure, since programs differ by them: strings, None, whatever is no
    number, and what the function declares as static (`scorer`). If the function declares nothing, bools and ints become
    structure too. An int where a number is declared (a domain) becomes a float, which can be learned. What
    ``functools.partial`` hands over by position stays with the function, unless it is arrays and floats.

    Raises a TypeError if the scorer is no function, or a setting that is structure has no hash.
    """
    if not callable(scorer):
        raise TypeError(f"scorer={scorer!r} is not a function; pass one of jaxunc.scorers, or counts[..., 2] → [...].")
    function, args, settings = _taken_apart(scorer)
    if not isinstance(scorer, Partial) and any(isinstance(part, int) or not _is_number(part) for part in args):
        return Partial(scorer)
    declaration = declared(function)
    # Structure must be hashable: JAX compares it to find a program that was compiled before.
    choices = {name: value for name, value in settings.items() if _chooses(name, value, declaration.static)}
    for name, value in choices.items():
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{name}={value!r} is a static setting of the scorer, but has no hash; pass a number, a word or a "
                "tuple, or declare it as a leaf: leave it out of static."
            ) from error
    numbers = {
        name: float(value) if name in declaration.domains and type(value) is int else value
        for name, value in settings.items()
        if name not in choices
    }
    return Partial(ChosenScorer(function, tuple(sorted(choices.items()))) if choices else function, *args, **numbers)


def _taken_apart(scorer: Any) -> tuple[Callable, tuple, dict[str, Any]]:
    """Return the function within all partials, what stands before the counts, and the settings (outer ones hold)."""
    args, settings = (), {}
    while True:
        if isinstance(inner := getattr(scorer, "fun", None), functools.partial):
            scorer = inner  # as Partial keeps a partial that it was given
        if isinstance(scorer, functools.partial):
            args = (*scorer.args, *args)
        elif not isinstance(scorer, ChosenScorer):
            return scorer, args, settings
        settings = {**scorer.keywords, **settings}
        scorer = scorer.func


def _chooses(name: str, value: Any, static: frozenset[str] | None) -> bool:
    if value is None or not all(map(_is_number, jax.tree.leaves(value))):
        return True
    # A whole number may be a size, and no gradient is lost with it.
    return isinstance(value, bool | int | np.bool_ | np.integer) if static is None else name in static


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufc"
    return isinstance(value, bool | int | float | complex | jax.Array)

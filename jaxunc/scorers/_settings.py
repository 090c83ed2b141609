"""Scorers with settings, as pytrees."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from ._declaration import declared


class _Chosen(NamedTuple):
    """A function with the settings that choose its program (words, switches, sizes): equal if they are equal."""

    func: Callable
    choices: tuple[tuple[str, Any], ...]

    @property
    def keywords(self) -> dict[str, Any]:
        """What ``functools.partial`` calls them."""
        return dict(self.choices)

    def __call__(self, counts, **settings):
        return self.func(counts, **self.keywords, **settings)


def as_partial(scorer: Callable) -> Partial:
    """A scorer as a pytree whose leaves are its numeric settings, which can be traced and learned.

    A plain function has none. Of a ``Partial`` words, None and what the function declares as static (`scorer`) become
    structure, since programs differ by them; of a function that declares nothing, switches and whole numbers do too.

    Raises a TypeError if the scorer is no function, or a setting that is declared as static has no hash.
    """
    if not callable(scorer):
        raise TypeError(f"scorer={scorer!r} is not a function; pass one of jaxunc.scorers, or counts[..., 2] → [...].")
    if not isinstance(scorer, Partial):
        return Partial(scorer)
    static = declared(scorer).static
    choices = {name: value for name, value in scorer.keywords.items() if _chooses(name, value, static)}
    if not choices:
        return scorer
    for name, value in choices.items():
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{name}={value!r} is a static setting of the scorer, but has no hash; pass a number, a word or a "
                "tuple, or declare it as a leaf: leave it out of static."
            ) from error
    numbers = {name: value for name, value in scorer.keywords.items() if name not in choices}
    return Partial(_Chosen(scorer.func, tuple(sorted(choices.items()))), *scorer.args, **numbers)


def _chooses(name: str, value: Any, static: frozenset[str] | None) -> bool:
    if value is None or isinstance(value, str):
        return True
    # A whole number may be a size, and no gradient is lost with it.
    return isinstance(value, bool | int | np.bool_ | np.integer) if static is None else name in static

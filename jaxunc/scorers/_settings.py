"""Scorers with settings, as pytrees."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from jax.tree_util import Partial


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

    A plain function has none. Of a ``Partial`` words, switches, None and whatever the function declares as ``int``
    become structure, since programs differ by them.

    Raises a TypeError if the scorer is no function.
    """
    if not callable(scorer):
        raise TypeError(f"scorer={scorer!r} is not a function; pass one of jaxunc.scorers, or counts[..., 2] → [...].")
    if not isinstance(scorer, Partial):
        return Partial(scorer)
    sizes = {name for name, p in inspect.signature(scorer.func).parameters.items() if p.annotation is int}
    choices = {k: v for k, v in scorer.keywords.items() if v is None or isinstance(v, (str, bool)) or k in sizes}
    if not choices:
        return scorer
    numbers = {k: v for k, v in scorer.keywords.items() if k not in choices}
    return Partial(_Chosen(scorer.func, tuple(sorted(choices.items()))), *scorer.args, **numbers)

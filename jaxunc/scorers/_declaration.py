"""The declaration of a scorer: how far its values reach, which settings choose its program, whether it reads sizes.

`as_partial` makes of a scorer with settings a pytree, whose leaves are the settings that can be traced and learned.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.tree_util import Partial

Function = TypeVar("Function", bound=Callable)


class Declaration(NamedTuple):
    """The facts about a scorer that `scorer` declared."""

    width: float | Callable[..., float] = 1.0
    static: frozenset[str] | None = None
    """Names of the settings that choose the program; None where nothing was said of the settings."""
    reads_sizes: bool = False
    domains: Mapping[str, str] = MappingProxyType({})


def scorer(
    *,
    width: float | Callable[..., float] = 1.0,
    static: Iterable[str] = (),
    reads_sizes: bool = False,
    domains: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Function], Function]:
    """Declare what a combiner has to know of a scorer; the function itself stays as it is.

    Parameters
    ----------
    width
        The length of the interval around 0 that its values span (two classes): a score s reads as the probability
        1/2 + s/width of class 1. ``inf``: its values have no bound, and no such reading. A function may be passed where
        the width depends on the settings. It is called with the settings that a ``Partial`` fixes, as keywords; it has
        defaults for the others.
    static
        Names of the settings that choose its program, such as methods, bools and sizes. Each value must have a hash,
        and has a program of its own. All other settings, except strings and None, are leaves, which can be traced and
        learned.
    reads_sizes
        Whether its values change where a leaf's counts are all multiplied by a number. If so, combiners warn of counts
        that look like frequencies.
    domains
        Where settings may be learned, by their names: see `jaxunc.combiners.learned_field`. Others are real numbers.

    Returns
    -------
    Callable
        A decorator that returns the function as it was given.

    Raises
    ------
    TypeError
        If ``static`` is a string instead of a collection of strings.

    Notes
    -----
    Without a declaration a scorer has width 1 and is taken to read no sizes. Settings that are strings, bools, ints (of
    Python or NumPy) or None are then static. Annotations are not read.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax.tree_util import Partial
    >>> import jaxunc as ju
    >>> @ju.scorers.scorer(width=2.0, static=("power",))
    ... def odd_power(counts, *, power):
    ...     share = 2 * ju.scorers.probability(counts)
    ...     return jnp.prod(jnp.stack([share] * power), axis=0)
    >>> print(ju.Mean(Partial(odd_power, power=3)).score(jnp.array([[1, 3], [0, 4]])))
    0.5625
    """
    if isinstance(static, str):
        raise TypeError(f"static={static!r} is a word; pass a collection of names, such as ({static!r},).")
    declaration = Declaration(width, frozenset(static), reads_sizes, MappingProxyType(dict(domains)))

    def declare(function: Function) -> Function:
        function.declaration = declaration
        return function

    return declare


def declared(function: Callable[..., Any]) -> Declaration:
    """Return the declaration of a scorer, through any ``Partial`` around it."""
    return getattr(_within(function)[0], "declaration", Declaration())


def score_width(scorer: Callable[..., Any]) -> float:
    """Return the declared width of a scorer's values, through any ``Partial`` around it; 1 if none is declared.

    Infinite for scores without a bound, which have no reading as a probability.
    """
    function, settings = _within(scorer)
    width: Any = declared(function).width
    if callable(width):
        width = width(**settings)
    return float(width) if width > 0 else math.inf


def score_bound(scorer: Callable[..., Any], n_classes: int) -> float:
    """Return how far from 0 the scores of leaves may lie; 1 where no width is declared."""
    if declared(scorer) == Declaration():
        return 1.0
    return score_width(scorer) * max(0.5, 1 - 1 / n_classes)


def reads_sizes(scorer: Callable[..., Any]) -> bool:
    """Return whether a scorer, through any ``Partial`` around it, is declared to read leaf sizes."""
    return declared(scorer).reads_sizes


def _within(function: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function within any ``Partial``, and the settings that they fix; the outer ones take precedence."""
    settings: dict = {}
    while not hasattr(function, "declaration") and hasattr(function, "func"):
        settings = {**getattr(function, "keywords", {}), **settings}
        function = function.func
    return function, settings


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

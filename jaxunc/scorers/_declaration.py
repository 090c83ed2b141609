"""The declaration of a scorer: how far its values reach, which settings choose its program, whether it reads sizes."""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

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
    """Declare what a rule has to know of a scorer; the function itself stays as it is.

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
        Whether its values change where a leaf's counts are all multiplied by a number. If so, a rule warns of counts
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

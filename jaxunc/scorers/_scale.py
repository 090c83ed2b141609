"""How far a scorer's values reach, which is what turns a score back into a probability."""

import math
from collections.abc import Callable
from typing import Any


def width(value: float | Callable[..., float]) -> Callable[[Callable], Callable]:
    """Declare that a scorer's values span an interval of length ``value`` around 0 (binary).

    A score s then reads as the probability 1/2 + s/width of class 1. Where the length depends on the scorer's settings,
    ``value`` is a function of them (keywords): of those that a ``Partial`` fixes; the others it knows by its defaults.
    """

    def declare(scorer: Callable) -> Callable:
        scorer.width = value
        return scorer

    return declare


def score_width(scorer: Callable) -> float:
    """The declared width of a scorer's values, through any ``Partial`` around it; 1 if none is declared.

    Infinite for scores without a bound, which have no reading as a probability.
    """
    settings: dict = {}
    while hasattr(scorer, "func"):
        settings = {**getattr(scorer, "keywords", {}), **settings}
        scorer = scorer.func
    declared: Any = getattr(scorer, "width", 1.0)
    if callable(declared):
        declared = declared(**settings)
    return float(declared) if declared > 0 else math.inf

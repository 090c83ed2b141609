"""What was handed in where a rule belongs, and what to pass instead."""

from typing import Any

from ._fold import Fold


def check_is_rule(given: Any, name: str = "combiner") -> None:
    """Raise a TypeError that says what to pass unless it is a rule."""
    if isinstance(given, Fold):
        return
    if isinstance(given, type) and issubclass(given, Fold):
        raise TypeError(f"{name} is the class {given.__name__}; pass a rule that streams (a Fold): {given.__name__}().")
    if isinstance(getattr(given, "combiner", None), Fold):
        raise TypeError(f"{name} is a {type(given).__name__}; pass the rule that it holds, its .combiner.")
    by_name = "; by a name there is jaxunc.combiners.rule_by_name" if isinstance(given, str) else ""
    raise TypeError(f"{name} is {given!r}; pass a rule that streams (a Fold), such as jaxunc.Mean(){by_name}.")

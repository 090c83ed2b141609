"""Checks of what is handed in where a rule belongs, with messages that say what to pass instead."""

from collections.abc import Mapping
from typing import Any

from ._combiner import Combiner
from ._together import Together


def as_rule(given: Any, name: str = "combiner") -> Combiner:
    """Return a rule as it is, and several by name as the one rule of them all; raises as `check_is_rule` does."""
    if isinstance(given, Mapping):
        for key, rule in given.items():
            if not isinstance(key, str):
                raise TypeError(f"{name} has the key {key!r:.60}; name rules by strings: {{'mean': jaxunc.Mean()}}.")
            check_is_rule(rule, f"{name}[{key!r}]")
        return Together(**given)
    check_is_rule(given, name)
    return given


def check_is_rule(given: Any, name: str = "combiner") -> None:
    """Raise a TypeError that says what to pass unless it is a rule."""
    if isinstance(given, Combiner):
        return
    if isinstance(given, type) and issubclass(given, Combiner):
        raise TypeError(
            f"{name} is the class {given.__name__}; pass a rule that streams (a Combiner): {given.__name__}()."
        )
    if isinstance(getattr(given, "combiner", None), Combiner):
        raise TypeError(f"{name} is a {type(given).__name__}; pass the rule that it holds, its .combiner.")
    by_name = "; by a name there is jaxunc.combiners.rule_by_name" if isinstance(given, str) else ""
    raise TypeError(f"{name} is {given!r}; pass a rule that streams (a Combiner), such as jaxunc.Mean(){by_name}.")

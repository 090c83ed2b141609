"""The rules of a comparison, by name."""

from collections.abc import Callable
from typing import NamedTuple

from jaxunc import scorers
from jaxunc.combiners import DempsterRule, EvidenceAccumulation, Fold, Mean, Pooling, Together, Vote
from jaxunc.forest import Forest


class Rule(NamedTuple):
    """A rule as a comparison offers it."""

    meaning: str
    """What it does, in a few words."""
    make: Callable[[Forest], Fold]
    """The rule for a forest, whose prior it may use."""
    binary_only: bool = False
    """Whether it compares two classes and has no form for more."""


RULES = {
    "probability": Rule("mean class frequency", lambda forest: Mean()),
    "plausibility": Rule("mean plausibility score", lambda forest: Mean(scorers.plausibility), binary_only=True),
    "vote": Rule("majority vote", lambda forest: Vote()),
    "pooling": Rule("sum of the counts", lambda forest: Pooling()),
    "evidence": Rule("evidence accumulation", lambda forest: EvidenceAccumulation(forest.prior)),
    "dempster": Rule("Dempster's rule", lambda forest: DempsterRule(), binary_only=True),
}
"""Every rule, by the name that tables and files use."""


def rules_for(n_classes: int) -> tuple[str, ...]:
    """The names of the rules that suit a number of classes."""
    return tuple(name for name, rule in RULES.items() if n_classes == 2 or not rule.binary_only)


def left_out(n_classes: int) -> str | None:
    """Which rules do not suit a number of classes, and why: a sentence, or None if all do."""
    names = [name for name in RULES if name not in rules_for(n_classes)]
    return f"Left out: {' and '.join(names)}, which compare two classes (here {n_classes})." if names else None


def all_rules(forest: Forest) -> Together:
    """All rules that suit a forest, over one routing.

    Raises
    ------
    ValueError
        If the forest has not seen a class, so that its prior has a zero.
    """
    return Together(**{name: RULES[name].make(forest) for name in rules_for(forest.n_classes)})

"""Several rules over one routing."""

from typing import TypeVar

from jaxtyping import Array, Num

from jaxunc._types import PyTree

from ._combiner import Combiner
from ._lift import columns_of

EachT = TypeVar("EachT")
"""What the rules answer, each."""


class Together(Combiner[dict[str, EachT]]):
    """Several rules at once: their planes side by side, each with its own merge, routed once.

    ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))`` answers with a dictionary of what each rule answers.
    Raises a ValueError without rules, a TypeError for anything that is not a `Combiner`.

    Parameters
    ----------
    **rules
        Rules by the name that each answers under.
    """

    rules: dict[str, Combiner[EachT]]

    def __init__(self, **rules: Combiner[EachT]):
        if not rules:
            raise ValueError("Together needs at least one rule, by name: Together(mean=Mean()).")
        for name, rule in rules.items():
            if not isinstance(rule, Combiner):
                raise TypeError(f"{name}={rule!r} is no Combiner; Together combines rules that stream, such as Mean().")
        self.rules = rules

    @property
    def merge(self) -> PyTree:
        """The merges of the rules, by name."""
        return {name: rule.merge for name, rule in self.rules.items()}

    def lift(self, counts: Num[Array, "... columns"]) -> dict[str, PyTree]:
        """Lift every rule, each from the counts that it reads."""
        return {
            name: rule.lift(columns_of(counts, self.count_sets, rule.count_sets)) for name, rule in self.rules.items()
        }

    def finish(self, stat: PyTree) -> dict[str, EachT]:
        """Return the answer of every rule, by its name."""
        return {name: rule.finish(stat[name]) for name, rule in self.rules.items()}

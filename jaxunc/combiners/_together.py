"""Several rules over one routing."""

from jaxtyping import Array, Num, PyTree

from ._combiner import Combiner
from ._lift import columns_of


class Together(Combiner):
    """Several rules at once: their planes side by side, each with its own merge, routed once.

    ``Together(mean=Mean(), eva=EvidenceAccumulation(prior))`` answers with a dictionary of what each rule answers.
    Raises a ValueError without rules, a TypeError for anything that is not a `Combiner`.
    """

    rules: dict[str, Combiner]

    def __init__(self, **rules: Combiner):
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

    def lift(self, counts: Num[Array, "... columns"]):
        """Lift every rule, each from the counts that it reads."""
        return {
            name: rule.lift(columns_of(counts, self.countings, rule.countings)) for name, rule in self.rules.items()
        }

    def finish(self, stat):
        """Return the answer of every rule, by its name."""
        return {name: rule.finish(stat[name]) for name, rule in self.rules.items()}

"""The rules of a comparison, by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxunc.combiners import Fold, Together, rule_by_name
from jaxunc.forest import Forest


class Rule(NamedTuple):
    """A rule as a comparison offers it."""

    meaning: str
    """What it does, in a few words."""
    combiner: str
    """Its name in `jaxunc.combiners.RULES`."""
    options: Mapping[str, Any] = {}
    """Its options."""
    binary_only: bool = False
    """Whether it compares two classes and has no form for more."""

    def make(self, forest: Forest) -> Fold:
        """The rule for a forest, whose prior it may use."""
        return rule_by_name(self.combiner, self.options, prior=forest.prior, n_samples=forest.n_samples)


RULES = {
    "probability": Rule("mean class frequency", "mean"),
    "laplace": Rule("mean Laplace frequency", "mean", {"scorer": "laplace"}),
    "plausibility": Rule("mean plausibility score", "mean", {"scorer": "plausibility"}, binary_only=True),
    "confidence": Rule("mean confidence score", "mean", {"scorer": "confidence_bounds"}, binary_only=True),
    "vote": Rule("majority vote", "vote"),
    "median": Rule("median frequency", "median"),
    "maximum": Rule("most extreme frequency", "maximum"),
    "mixture": Rule("generalised mixture", "generalized_mixture"),
    "epistemic": Rule("certain plausibility", "epistemic_weighting", binary_only=True),
    "beta": Rule("mean beta density", "beta_aggregation", {"statistic": "exact"}, binary_only=True),
    "pooling": Rule("sum of the counts", "pooling"),
    "evidence": Rule("evidence accumulation", "evidence"),
    "dempster": Rule("Dempster's rule", "dempster", binary_only=True),
    "dempster-p": Rule("Dempster, against prior", "dempster", {"prior": "forest"}, binary_only=True),
    "cautious": Rule("cautious rule", "cautious", binary_only=True),
    "cautious-p": Rule("cautious, against prior", "cautious", {"prior": "forest"}, binary_only=True),
}
"""Every rule, by the name that tables and files use."""


def rules_for(n_classes: int) -> tuple[str, ...]:
    """The names of the rules that suit a number of classes."""
    return tuple(name for name, rule in RULES.items() if n_classes == 2 or not rule.binary_only)


def left_out(n_classes: int) -> str | None:
    """Which rules do not suit a number of classes, and why: a sentence, or None if all do."""
    names = [name for name in RULES if name not in rules_for(n_classes)]
    if not names:
        return None
    listed = ", ".join(names[:-1]) + " and " + names[-1]
    return f"Left out: {listed}, which compare two classes (here {n_classes})."


def all_rules(forest: Forest) -> Together:
    """All rules that suit a forest, over one routing.

    Raises
    ------
    ValueError
        If the forest has not seen a class, so that its prior has a zero.
    """
    return Together(**{name: RULES[name].make(forest) for name in rules_for(forest.n_classes)})

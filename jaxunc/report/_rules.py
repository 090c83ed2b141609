"""The rules that a comparison offers, by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxunc.combiners import Fold, rule_by_name
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


_PRIOR = {"prior": "forest"}

RULES = {
    "probability": Rule("mean class frequency", "mean"),
    "laplace": Rule("mean Laplace frequency", "mean", {"scorer": "laplace"}),
    "m-estimate": Rule(
        "mean m-estimate at prior", "mean", {"scorer": "m_estimate", "scorer_options": {"m": 2.0, **_PRIOR}}
    ),
    "plausibility": Rule("mean plausibility score", "mean", {"scorer": "plausibility"}, binary_only=True),
    "plausibility-p": Rule(
        "plausibility against prior", "mean", {"scorer": "plausibility", "scorer_options": _PRIOR}, binary_only=True
    ),
    "confidence": Rule("mean confidence score", "mean", {"scorer": "confidence_bounds"}, binary_only=True),
    "vote": Rule("majority vote", "vote"),
    "median": Rule("median frequency", "median"),
    "median-pls": Rule("median plausibility", "median", {"scorer": "plausibility"}, binary_only=True),
    "maximum": Rule("most extreme frequency", "maximum"),
    "maximum-pls": Rule("most extreme plausibility", "maximum", {"scorer": "plausibility"}, binary_only=True),
    "mixture": Rule("generalised mixture", "generalized_mixture"),
    "epistemic": Rule("certain plausibility", "epistemic_weighting", binary_only=True),
    "beta": Rule("mean beta density", "beta_aggregation", {"statistic": "exact"}, binary_only=True),
    "pooling": Rule("sum of the counts", "pooling"),
    "evidence": Rule("evidence accumulation", "evidence"),
    "dempster": Rule("Dempster's rule", "dempster", binary_only=True),
    "dempster-p": Rule("Dempster, against prior", "dempster", _PRIOR, binary_only=True),
    "cautious": Rule("cautious rule", "cautious", binary_only=True),
    "cautious-p": Rule("cautious, against prior", "cautious", _PRIOR, binary_only=True),
}
"""Every rule, by the name that tables and files use."""

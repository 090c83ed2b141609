"""The rules that a comparison offers, by name."""

from typing import NamedTuple

from jaxunc.combiners import Combiner, combiner_by_name
from jaxunc.forest import Forest


class Rule(NamedTuple):
    """A rule, as a comparison offers it."""

    name: str
    """Name that `jaxunc.combiners.combiner_by_name` knows."""
    meaning: str
    """Meaning of the rule, in a few words."""
    binary_only: bool = False
    """Whether the rule compares two classes and has no form for more."""
    learns: bool = False
    """Whether the rule is learned from training instances, and unknown to `combiner_by_name`."""
    own: bool = False
    """Whether it is no rule, but what a model that was given answers itself."""

    def make(self, forest: Forest) -> Combiner:
        """Make the rule for a forest, whose prior it may use."""
        return combiner_by_name(self.name, prior=forest.prior, n_samples=forest.n_samples)


_OFFERED = (
    Rule("probability", "mean class frequency"),
    Rule("laplace", "mean Laplace frequency"),
    Rule("m-estimate", "mean m-estimate at prior"),
    Rule("plausibility", "mean plausibility score", binary_only=True),
    Rule("plausibility-p", "plausibility against prior", binary_only=True),
    Rule("confidence", "mean confidence score", binary_only=True),
    Rule("vote", "majority vote"),
    Rule("median", "median frequency"),
    Rule("median-pls", "median plausibility", binary_only=True),
    Rule("maximum", "most extreme frequency"),
    Rule("maximum-pls", "most extreme plausibility", binary_only=True),
    Rule("mixture", "generalised mixture"),
    Rule("epistemic", "certain plausibility", binary_only=True),
    Rule("beta", "mean beta density", binary_only=True),
    Rule("pooling", "sum of the counts"),
    Rule("evidence", "evidence accumulation"),
    Rule("dempster", "Dempster's rule", binary_only=True),
    Rule("dempster-p", "Dempster, against prior", binary_only=True),
    Rule("cautious", "cautious rule", binary_only=True),
    Rule("cautious-p", "cautious, against prior", binary_only=True),
    Rule("learned", "learned pool", learns=True),
    Rule("calibrated", "mean, calibrated", learns=True),
    Rule("isotonic", "mean, isotonic", learns=True),
    Rule("model", "the model itself", own=True),
    Rule("model-platt", "the model, calibrated", own=True),
)

OWN, OWN_CALIBRATED = "model", "model-platt"
"""Names of what a model that was given answers itself, and of that calibrated on the rows that leaves count."""

RULES = {rule.name: rule for rule in _OFFERED}
"""All rules, by the name that tables and files use."""

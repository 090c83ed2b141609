"""The methods of the study of Busch et al. 2021: the paper's, its code's, and ours."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxunc.combiners import Combiner, combiner_by_name
from jaxunc.forest import Forest


class Method(NamedTuple):
    """A rule, and which of its numbers ranks instances; class 1 is decided where it is at least 0."""

    group: str
    """``paper``, ``code`` (in the published code only) or ``new``."""
    combiner: str
    """A name that `jaxunc.combiners.combiner_by_name` knows."""
    options: Mapping[str, Any] = MappingProxyType({})
    reads: str = "score"
    """``score`` (as published) or ``margin`` (of the class scores)."""

    def make(self, forest: Forest) -> Combiner:
        """The rule for a forest."""
        return combiner_by_name(self.combiner, self.options, prior=forest.prior, n_samples=forest.n_samples)


METHODS = {
    "probability": Method("paper", "mean"),
    "laplace": Method("paper", "laplace"),
    "plausibility": Method("paper", "plausibility"),
    "confidence": Method("paper", "confidence"),
    "vote": Method("paper", "vote"),
    "pooling": Method("paper", "pooling"),
    "dempster": Method("paper", "dempster"),
    "cautious": Method("paper", "cautious"),
    "evidence": Method("paper", "evidence"),
    "evidence-code": Method("code", "evidence", {"prior_term": "published_code"}),
    "median": Method("code", "median"),
    "maximum": Method("code", "maximum"),
    "mixture-mean": Method("code", "generalized_mixture", {"reference": "mean"}),
    "mixture-median": Method("code", "generalized_mixture", {"reference": "median"}),
    "mixture-maximum": Method("code", "generalized_mixture", {"reference": "maximum"}),
    "linear": Method("code", "mean", {"scorer": "linear"}),
    "ucb": Method("code", "mean", {"scorer": "ucb"}),
    "epistemic": Method("code", "epistemic"),
    "beta-sum": Method("code", "beta_aggregation", {"statistic": "sum"}),
    "beta-mode": Method("code", "beta_aggregation", {"statistic": "max"}),
    "beta-exact": Method("new", "beta"),
    "m-estimate": Method("new", "m-estimate"),
    "plausibility-p": Method("new", "plausibility-p"),
    "dempster-margin": Method("new", "dempster", reads="margin"),
    "dempster-p": Method("new", "dempster-p", reads="margin"),
    "cautious-margin": Method("new", "cautious", reads="margin"),
    "cautious-p": Method("new", "cautious-p", reads="margin"),
    "evidence-to-prior": Method("new", "evidence", {"smooth_to_prior": True}),
}
"""By the name that tables and files use; ``page.md`` says what they are."""

PAPER = tuple(name for name, method in METHODS.items() if method.group == "paper")

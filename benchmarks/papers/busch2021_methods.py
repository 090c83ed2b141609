"""The methods of the study of Busch et al. 2021: the paper's, its code's, and ours."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxunc import combiners
from jaxunc.combiners import Fold, rule_by_name
from jaxunc.forest import Forest


class Method(NamedTuple):
    """A rule, and which of its numbers ranks instances; class 1 is decided where it is at least 0."""

    group: str
    """``paper``, ``code`` (in the published code only) or ``new``."""
    combiner: str | Callable[[Forest], Fold]
    options: Mapping[str, Any] = MappingProxyType({})
    reads: str = "score"
    """``score`` (as published) or ``margin`` (of the class scores)."""

    def make(self, forest: Forest) -> Fold:
        """The rule for a forest."""
        if callable(self.combiner):
            return self.combiner(forest)
        return rule_by_name(self.combiner, self.options, prior=forest.prior, n_samples=forest.n_samples)


def _scored(scorer: str, **settings: Any) -> dict[str, Any]:
    return {"scorer": scorer, "scorer_options": settings}


def _evidence_toward_prior(forest: Forest) -> Fold:
    return combiners.EvidenceAccumulation(forest.prior, smooth_to_prior=True)


_PRIOR = {"prior": "forest"}

METHODS = {
    "probability": Method("paper", "mean"),
    "laplace": Method("paper", "mean", _scored("laplace")),
    "plausibility": Method("paper", "mean", _scored("plausibility")),
    "confidence": Method("paper", "mean", _scored("confidence_bounds")),
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
    "linear": Method("code", "mean", _scored("linear")),
    "ucb": Method("code", "mean", _scored("ucb")),
    "epistemic": Method("code", "epistemic_weighting"),
    "beta-sum": Method("code", "beta_aggregation", {"statistic": "sum"}),
    "beta-mode": Method("code", "beta_aggregation", {"statistic": "max"}),
    "beta-exact": Method("new", "beta_aggregation", {"statistic": "exact"}),
    "m-estimate": Method("new", "mean", _scored("m_estimate", m=2.0, **_PRIOR)),
    "plausibility-p": Method("new", "mean", _scored("plausibility", **_PRIOR)),
    "dempster-margin": Method("new", "dempster", reads="margin"),
    "dempster-p": Method("new", "dempster", _PRIOR, reads="margin"),
    "cautious-margin": Method("new", "cautious", reads="margin"),
    "cautious-p": Method("new", "cautious", _PRIOR, reads="margin"),
    "evidence-to-prior": Method("new", _evidence_toward_prior),
}
"""By the name that tables and files use."""

PAPER = tuple(name for name, method in METHODS.items() if method.group == "paper")

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
    meaning: str
    """What it does, in a few words."""
    combiner: str
    """A name that `jaxunc.combiners.combiner_by_name` knows."""
    options: Mapping[str, Any] = MappingProxyType({})
    reads: str = "score"
    """``score`` (as published) or ``margin`` (of the class scores)."""

    def make(self, forest: Forest) -> Combiner:
        """The rule for a forest."""
        return combiner_by_name(self.combiner, self.options, prior=forest.prior, n_samples=forest.n_samples)


METHODS = {
    "probability": Method(
        "paper", "mean of the leaves' class frequencies: *the mean*, which scikit-learn's forests answer", "mean"
    ),
    "laplace": Method("paper", "mean of the frequencies with one instance of each class added", "laplace"),
    "plausibility": Method(
        "paper",
        "mean of plausibility scores: how far a leaf's counts speak for one class more than for the other",
        "plausibility",
    ),
    "confidence": Method("paper", "mean of scores from confidence bounds: a small leaf says less", "confidence"),
    "vote": Method("paper", "majority vote of the trees", "vote"),
    "pooling": Method("paper", "frequencies of the counts of all leaves together", "pooling"),
    "dempster": Method(
        "paper",
        "Dempster's rule for leaves as belief functions, read by its published score",
        "dempster",
    ),
    "cautious": Method(
        "paper", "the cautious rule, for sources that depend on each other, read by its published score", "cautious"
    ),
    "evidence": Method(
        "paper",
        "evidence accumulation: each leaf moves the odds by how far its frequencies lie from the prior",
        "evidence",
    ),
    "evidence-code": Method(
        "code",
        "the same with the prior itself where the formula has its logarithm",
        "evidence",
        {"prior_term": "published_code"},
    ),
    "median": Method("code", "median of the frequencies", "median"),
    "maximum": Method("code", "the most extreme frequency", "maximum"),
    "mixture-mean": Method(
        "code",
        "weighted mean of the frequencies, less weight the further one is from their mean",
        "generalized_mixture",
        {"reference": "mean"},
    ),
    "mixture-median": Method("code", "the same, from their median", "generalized_mixture", {"reference": "median"}),
    "mixture-maximum": Method(
        "code", "the same, from the most extreme of them", "generalized_mixture", {"reference": "maximum"}
    ),
    "linear": Method(
        "code",
        "mean of the majorities in numbers of instances: large leaves speak louder",
        "mean",
        {"scorer": "linear"},
    ),
    "ucb": Method(
        "code",
        "mean of the frequencies in units of an upper confidence bound: times the root of the leaf's size",
        "mean",
        {"scorer": "ucb"},
    ),
    "epistemic": Method(
        "code",
        "mean of plausibility scores, each times one less its leaf's epistemic uncertainty",
        "epistemic",
    ),
    "beta-sum": Method(
        "code",
        "mean of the leaves' beta densities, read by its area beyond one half, on the published grid",
        "beta_aggregation",
        {"statistic": "sum"},
    ),
    "beta-mode": Method("code", "the same density, read by its mode", "beta_aggregation", {"statistic": "max"}),
    "beta-exact": Method("new", "the same density, read by its exact area beyond one half", "beta"),
    "m-estimate": Method(
        "new",
        "mean of the frequencies with two instances added, divided as the prior is",
        "m-estimate",
    ),
    "plausibility-p": Method("new", "`plausibility` against the prior in place of one half", "plausibility-p"),
    "dempster-margin": Method(
        "new",
        "`dempster`, read by the margin of log commonalities, which does not saturate",
        "dempster",
        reads="margin",
    ),
    "dempster-p": Method(
        "new", "`dempster-margin` against the prior in place of one half", "dempster-p", reads="margin"
    ),
    "cautious-margin": Method("new", "`cautious`, read by the margin of log commonalities", "cautious", reads="margin"),
    "cautious-p": Method(
        "new", "`cautious-margin` against the prior in place of one half", "cautious-p", reads="margin"
    ),
    "evidence-to-prior": Method(
        "new",
        "`evidence`, leaves smoothed toward the prior in place of one half",
        "evidence",
        {"smooth_to_prior": True},
    ),
}
"""By the name that tables and files use."""

PAPER = tuple(name for name, method in METHODS.items() if method.group == "paper")

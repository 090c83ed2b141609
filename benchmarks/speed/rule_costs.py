"""What every rule costs over the mean, on one forest."""

import jax

import jaxunc as ju

from .measure import interleaved, ratio, summary
from .workloads import FULL, WORKLOADS, Scale, fit, make_data


def folds(prior) -> dict[str, ju.Combiner]:
    """Every rule for two classes: sums, minima and maxima, then those that keep every tree's score or a whole grid."""
    plausibility = ju.Mean(ju.scorers.plausibility)
    return {
        "mean": ju.Mean(),
        "mean of plausibility": plausibility,
        "mean of confidence bounds": ju.Mean(ju.scorers.confidence_bounds),
        "vote": ju.Vote(),
        "literal vote": ju.Vote("literal"),
        "pooling": ju.Pooling(),
        "evidence": ju.EvidenceAccumulation(prior),
        "dempster": ju.DempsterRule(),
        "dempster, prior": ju.DempsterRule(prior=prior),
        "cautious": ju.CautiousRule(),
        "maximum": ju.Maximum(),
        "epistemic weighting": ju.EpistemicWeighting(),
        "beta aggregation": ju.BetaAggregation(),
        "beta aggregation, exact": ju.BetaAggregation("exact"),
        "uncertainty, entropy": ju.UncertaintyDecomposition(),
        "uncertainty, plausibility": ju.UncertaintyDecomposition("plausibility"),
        "one against the rest": ju.OneVsRest(ju.DempsterRule()),
        "median": ju.Median(),
        "generalized mixture": ju.GeneralizedMixture(),
        "beta aggregation, maximum": ju.BetaAggregation("max"),
    }


def rule_costs(scale: Scale) -> list[dict]:
    """Each rule's time over the mean's on the first workload, interleaved."""
    n_instances, repeats = (50_000, 9) if scale is FULL else (500, 2)
    data = make_data(30, scale.training_size, n_instances)
    forest = ju.from_sklearn(fit(WORKLOADS["W1"], data, scale))
    rows = data.query if jax.default_backend() == "cpu" else jax.device_put(data.query)
    bounds = {name: ju.bind(forest, rule) for name, rule in folds(forest.prior).items()}
    times = interleaved({name: _call(bound, rows) for name, bound in bounds.items()}, repeats)
    return [
        {"rule": name, **summary(times[name]), "ratio_to_mean": ratio(times[name], times["mean"])} for name in bounds
    ]


def _call(bound: ju.BoundForest, rows):
    return lambda: jax.block_until_ready(bound(rows))

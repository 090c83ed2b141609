"""``python -m benchmarks.speed.rule_costs``: what every rule costs over the mean, by the depth of the trees.

It prints the table of `docs/speed.md`: the least processor time of all rounds, as a multiple of the mean's.
"""

import argparse
from pathlib import Path

import jax

import jaxunc as ju

from .batch_sizes import Shape
from .machine import about
from .measure import interleaved, on_device, ratio, summary
from .report import chosen_output, write
from .workloads import FULL, QUICK, WORKLOADS, Scale, fit, make_data

SHAPES = (Shape(1), Shape(4), Shape(8), Shape(None))


def folds(prior) -> dict[str, ju.Combiner]:
    """Every rule for two classes: sums, minima and maxima, then those that keep every tree's score or a whole grid."""
    return {
        "mean": ju.Mean(),
        "mean of plausibility": ju.Mean(ju.scorers.plausibility),
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
    """Each rule's time over the mean's on 100 trees of each depth, interleaved."""
    n_instances, repeats = (32_768, 9) if scale is FULL else (500, 2)
    data = make_data(30, scale.training_size, n_instances)
    rows = data.query if jax.default_backend() == "cpu" else jax.device_put(data.query)
    found = []
    for shape in SHAPES:
        forest = ju.from_sklearn(fit(WORKLOADS["W2"], data, scale, max_depth=shape.depth))
        bounds = {name: ju.bind(forest, rule) for name, rule in folds(forest.prior).items()}
        times = interleaved({name: on_device(bound, rows) for name, bound in bounds.items()}, repeats)
        for name, measured in times.items():
            own = {"shape": shape.name, "rule": name, **summary(measured)}
            found.append(own | {"ratio_to_mean": ratio(measured, times["mean"])})
    return found


def multiples(found: list[dict]) -> dict[str, dict[str, float]]:
    """Each rule's least processor time over the mean's, by rule and shape."""
    least: dict[str, dict[str, float]] = {}
    for one in found:
        least.setdefault(one["rule"], {})[one["shape"]] = one["cpu_s"]["min"]
    return {name: {shape: s / least["mean"][shape] for shape, s in by.items()} for name, by in least.items()}


def as_markdown(found: list[dict]) -> str:
    """The rows of the page's table."""
    cells = lambda by: " | ".join(f"{multiple:.2g}" for multiple in by.values())
    return "\n".join(f"| {name} | {cells(by)} |" for name, by in multiples(found).items())


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print the rows of the page's table."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.rule_costs", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, writes only to --output")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/rule-costs-<device kind>.json")
    options = parser.parse_args(arguments)
    result = {**about(), "rules": rule_costs(QUICK if options.quick else FULL)}
    if output := chosen_output(options, result["device"], "rule-costs"):
        write(result, output)
    print(as_markdown(result["rules"]))


if __name__ == "__main__":
    main()

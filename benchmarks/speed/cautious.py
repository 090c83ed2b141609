"""``python -m benchmarks.speed.cautious``: what caution costs.

Sets, intervals and masses against the streamed mean, and priors of many leaves.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from .machine import about, command, publish
from .measure import interleaved, on_device, ratio, summary

MASSES = ("equal", "leaf_size", "certainty")


def reports(n_instances: int, repeats: int) -> dict:
    """A class, a set, an interval and the masses for each instance, 100 trees of depth 8."""
    X, y = make_classification(n_instances + 4000, 20, n_informative=10, random_state=0)
    X = X.astype(np.float32)
    model = RandomForestClassifier(100, max_depth=8, n_jobs=-1, random_state=0).fit(X[:4000], y[:4000])
    forest, rows = ju.from_sklearn(model), X[4000:]
    rules = {"mean": ju.Mean(), **{mass: ju.decisions.CautiousReport(2.0, mass=mass) for mass in MASSES}}
    times = interleaved({name: on_device(ju.bind(forest, rule).answer, rows) for name, rule in rules.items()}, repeats)
    found: dict = {"instances": n_instances}
    for name, own in times.items():
        ratios = {"ratio_to_mean": ratio(own, times["mean"]), "cpu_ratio_to_mean": ratio(own, times["mean"], "cpu")}
        found[name] = summary(own) | ratios | {"instances_per_s": n_instances / float(np.median(own.wall))}
    return found


def prior_fits(n_leaves: int, repeats: int) -> dict:
    """Priors of leaves, of concrete counts and in a compiled function."""
    rng = np.random.default_rng(0)
    sizes = 1 + rng.geometric(0.05, n_leaves)
    positive = rng.binomial(sizes, rng.beta(2, 3, n_leaves))
    counts = np.stack([sizes - positive, positive], axis=1).astype(np.int32)
    methods = ("weighted_mle", "on_leaves", "moments", "on_leaves_moments", "marginal")
    ready = lambda fit, counts: jax.block_until_ready(fit(counts).alpha)
    fits = {method: partial(ju.smoothing.fit_beta_prior, method=method) for method in methods}
    calls = {method: partial(ready, fit, counts) for method, fit in fits.items()}
    sent = jnp.asarray(counts)
    calls |= {f"{method}, compiled": partial(ready, jax.jit(fit), sent) for method, fit in fits.items()}
    times = interleaved(calls, repeats)
    return {"leaves": n_leaves, **{name: summary(found) for name, found in times.items()}}


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    options = command("cautious", main.__doc__, 11).parse_args(arguments)
    scale = 100 if options.quick else 1
    result = {
        **about(),
        "reports": reports(100_000 // scale, options.repeats),
        "prior_fits": prior_fits(100_000 // scale, options.repeats),
    }
    publish(result, options.output)


if __name__ == "__main__":
    main()

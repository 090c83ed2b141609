"""Everything that is measured on one workload."""

from collections.abc import Callable

import jax
import numpy as np

import jaxunc as ju

from . import engines
from .first_call import measure_first_call
from .measure import Times, interleaved, on_device, ratio, repeated, say, summary
from .memory import compiled_memory
from .workloads import Data, Scale, Workload, describe, fit, make_data


def run_workload(workload: Workload, *, n_instances: int, repeats: int, scale: Scale) -> dict:
    """Grow the forest, time all engines and all rules round by round, and describe the compiled programs."""
    n_query = max(1, round(n_instances * workload.share_of_instances))
    data = make_data(workload.n_features, scale.training_size, n_query)
    say(f"{workload.name}: growing ({workload.what})")
    model = fit(workload, data, scale)
    forest = ju.from_sklearn(model)
    bounds = {name: ju.bind(forest, rule) for name, rule in rules(forest).items()}
    # Rules are compared by what they add to the walk: on an accelerator without the transfer of the data.
    rows = data.query if jax.default_backend() == "cpu" else jax.device_put(data.query)
    found, absent, answers = _engines(model, data, bounds["mean"], rows)
    calls: dict[str, Callable] = {engine.name: engine.answer for engine in found}
    calls |= {f"rule {name}": on_device(bound.probability, rows) for name, bound in bounds.items()}
    say(f"{workload.name}: timing {len(calls)} calls, {repeats} rounds of {n_query} instances")
    times = interleaved(calls, repeats)
    say(f"{workload.name}: first call, compiled memory")
    return {
        "name": workload.name,
        "what": workload.what,
        "n_features": workload.n_features,
        "n_train": len(data.X),
        "n_instances": n_query,
        **describe(model, data.query),
        "padded_nodes": forest.n_nodes,
        "engines": [
            {
                "name": engine.name,
                "detail": engine.detail,
                "prepare_s": engine.prepare_s,
                **summary(times[engine.name]),
                "ratio_to_scikit_learn": ratio(times[engine.name], times["scikit-learn"]),
                "answers": engines.compare(answers[engine.name], answers["scikit-learn"]),
            }
            for engine in found
        ],
        "absent": [vars(engine) for engine in absent],
        "rules": _rule_entries(bounds, times, rows),
        "import_s": repeated(lambda: jax.block_until_ready(ju.from_sklearn(model)), 3),
        "bind_s": repeated(lambda: jax.block_until_ready(ju.bind(forest, ju.Mean())), 3),
        "first_call": measure_first_call(model, data.query),
        "compiled_memory": compiled_memory(forest, bounds["mean"], data.query),
    }


def rules(forest: ju.Forest) -> dict[str, ju.Combiner]:
    """The five rules, and all of them over one routing."""
    single = {
        "mean": ju.Mean(),
        "vote": ju.Vote(),
        "pooling": ju.Pooling(),
        "evidence": ju.EvidenceAccumulation(forest.prior),
        "dempster": ju.DempsterRule(),
    }
    return {**single, "together": ju.combiners.Together(**single)}


def _engines(model, data: Data, bound: ju.BoundForest, rows):
    """All engines, those that are absent, and what each answers."""
    device = jax.devices()[0].device_kind
    from_host = engines.Engine(
        "jaxunc",
        lambda: np.asarray(bound.probability(data.query)),
        f"bind(forest, Mean()).probability on {device}, from NumPy and back",
    )
    found = [engines.scikit_learn(model, data.query), from_host]
    if rows is not data.query:
        detail = f"the same, data and answers stay on {device}"
        found.append(engines.Engine("jaxunc, on device", on_device(bound.probability, rows), detail))
    say("  preparing peers")
    others, absent = engines.peers(model, data.query)
    for engine in absent:
        say(f"  {engine.name}: {engine.reason}")
    found += others
    return found, absent, {engine.name: np.asarray(engine.answer()) for engine in found}


def _rule_entries(bounds: dict[str, ju.BoundForest], times: dict[str, Times], rows) -> list[dict]:
    """Each rule's time over the mean's; of all together also how far their answers are from the rules' own."""
    entries = []
    for name in bounds:
        own, mean = times[f"rule {name}"], times["rule mean"]
        entries.append({"name": name, **summary(own), "ratio_to_mean": ratio(own, mean)})
    together = bounds["together"].probability(rows)
    gaps = [float(abs(together[name] - bounds[name].probability(rows)).max()) for name in together]
    entries[-1]["max_abs_difference_from_single"] = max(gaps)
    entries[-1]["n_rules"] = len(gaps)
    return entries

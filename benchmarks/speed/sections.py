"""Measurements beside the workloads: rules, first calls by size, compilations, import of a large forest."""

import jax
import numpy as np
from sklearn.model_selection import StratifiedKFold

import jaxunc as ju

from .batch_sizes import batch_sizes
from .first_call import Stopwatch, compilations, measure_first_call
from .measure import timed
from .workloads import FULL, WORKLOADS, Scale, fit, make_data, repeat_trees

FIRST_CALL_INSTANCES = 2048


def first_calls(scale: Scale) -> list[dict]:
    """The first call by number of trees and depth, each in a fresh process: it must not grow with either."""
    data = make_data(30, scale.training_size, FIRST_CALL_INSTANCES)
    results = []
    for shape, depth in (("shallow", 4), ("deep", None)):
        for n_trees in (10, 100, 1000) if scale is FULL else (3,):
            unit = 10 if scale is FULL else 3
            grown = fit(WORKLOADS["W2"], data, scale, n_trees=unit, max_depth=depth)
            longest = max(tree.tree_.max_depth for tree in grown.estimators_)
            steps = measure_first_call(repeat_trees(grown, n_trees // unit), data.query)
            results.append({"shape": shape, "longest_path": int(longest), **steps})
    return results


def cross_validation(scale: Scale) -> dict:
    """Programs compiled for each of ten forests of a cross-validation: only the first should need any."""
    data = make_data(30, scale.training_size, 1)
    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(data.X, data.y)
    parts = [type(data)(data.X[train], data.y[train], data.X[test]) for train, test in folds]
    models = [fit(WORKLOADS["W1"], part, scale, n_trees=scale.trees(40)) for part in parts]
    jax.clear_caches()
    with compilations() as compiled:
        by_fold = [_score_fold(model, part.query, compiled) for model, part in zip(models, parts, strict=True)]
    chunk = [fold["chunk_programs"] for fold in by_fold]
    return {
        "n_trees": scale.trees(40),
        "chunk_programs": None if None in chunk else sum(chunk),
        "all_compilations": len(compiled),
        "all_compilations_after_first": len(compiled) - by_fold[0]["all_compilations"],
        "by_fold": by_fold,
    }


def _score_fold(model, test: np.ndarray, compiled: list[float]) -> dict:
    programs, before, lap = _chunk_programs(), len(compiled), Stopwatch()
    forest = ju.from_sklearn(model)
    jax.block_until_ready(ju.bind(forest, ju.Mean()).probability(test))
    seconds, after = lap(), _chunk_programs()
    return {
        "n_instances": len(test),
        "padded_nodes": forest.n_nodes,
        "distinct_rows": forest.count_table.shape[0],
        "model_to_answer_s": seconds,
        "chunk_programs": None if after is None else after - programs,
        "all_compilations": len(compiled) - before,
    }


def _chunk_programs() -> int | None:
    """Programs in the cache of the scoring core, a private name: None where it is gone."""
    from jaxunc.inference import _by_table

    run = getattr(getattr(_by_table, "merge_chunk", None), "jitted", None)
    return run._cache_size() if hasattr(run, "_cache_size") else None


def large_import(scale: Scale) -> dict:
    """Import of 1000 trees with about 10 million nodes: 25 trees, 40 times over."""
    unit, times = (25, 40) if scale is FULL else (2, 3)
    data = make_data(30, 17_300 if scale is FULL else scale.training_size, 1)
    model = repeat_trees(fit(WORKLOADS["W4"], data, scale, n_trees=unit), times)
    nodes = sum(tree.tree_.node_count for tree in model.estimators_)
    import_s, _, forest = timed(lambda: jax.block_until_ready(ju.from_sklearn(model)))
    bind_s = timed(lambda: jax.block_until_ready(ju.bind(forest, ju.Mean())))[0]
    return {"n_trees": forest.n_trees, "n_nodes": int(nodes), "import_s": import_s, "bind_s": bind_s}


SECTIONS = {
    "batch-sizes": batch_sizes,
    "first-calls": first_calls,
    "cross-validation": cross_validation,
    "large-import": large_import,
}

"""``python -m benchmarks.speed.explaining``: Shapley values beside shap's TreeExplainer and XGBoost's own.

shap works with one thread, the others with all cores: both clocks are told.
"""

import jax
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

from .machine import about, command, publish
from .measure import Times, interleaved, say, speedup, summary

N_FEATURES, N_TREES, N_EXPLAINED, N_GROWN = 30, 100, 1000, 25_000
FORESTS = {"depth 8": ({"max_depth": 8}, 200), "least leaf 5": ({"min_samples_leaf": 5}, 20), "grown out": ({}, 20)}
"""What grows them, and how many rows shap is asked, whose time is linear in them."""
DEPTHS = (4, 6, 8, 12)
"""Of XGBoost's models."""


def of_forest(name: str, X: np.ndarray, y: np.ndarray, n: int, repeats: int) -> dict:
    """The mean's probability, and both uncertainties, of the last n rows."""
    import shap

    settings, few = FORESTS[name]
    model = RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1, **settings).fit(X[:-n], y[:-n])
    forest, explainer, rows, few = ju.from_sklearn(model), shap.TreeExplainer(model), X[-n:], min(few, n)
    both = ju.UncertaintyDecomposition("plausibility")
    calls = {
        "ours": lambda: jax.block_until_ready(ju.explain(forest, ju.Mean(), rows).values),
        "ours, both uncertainties": lambda: jax.block_until_ready(ju.explain(forest, both, rows).values),
        "shap": lambda: explainer.shap_values(rows[:few]),
    }
    times = interleaved(calls, repeats)
    times["shap"] = Times(*([n / few * s for s in clock] for clock in (times["shap"].wall, times["shap"].cpu)))
    nodes = float(np.mean([member.tree_.node_count for member in model.estimators_]))
    return _told({"model": name, "nodes_of_a_tree": nodes}, times)


def of_xgboost(depth: int, X: np.ndarray, y: np.ndarray, n: int, repeats: int) -> dict:
    """The margin of the last n rows, by the training rows as the cover; its own by its own."""
    import xgboost

    settings = {"max_depth": depth, "objective": "binary:logistic"}
    booster = xgboost.train(settings, xgboost.DMatrix(X[:-n], y[:-n]), N_TREES)
    model, rows, queries = ju.from_xgboost(booster), X[-n:], xgboost.DMatrix(X[-n:])
    cover = ju.count_leaves(model.trees, X[:-n], y[:-n])
    calls = {
        "ours": lambda: jax.block_until_ready(ju.explain(model, None, rows, background=cover).values),
        "XGBoost": lambda: booster.predict(queries, pred_contribs=True),
    }
    return _told({"model": f"XGBoost, depth {depth}"}, interleaved(calls, repeats))


def _told(row: dict, times: dict[str, Times]) -> dict:
    theirs = next(name for name in times if not name.startswith("ours"))
    row |= {"times": {name: summary(one) for name, one in times.items()}, "of": theirs}
    row["times_as_fast"] = fast = speedup(times["ours"], times[theirs])
    say(f"{row['model']}: {fast['wall']['median']:.1f} times {theirs}'s speed (CPU time {fast['cpu']['median']:.1f})")
    return row


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    options = command("explaining", main.__doc__, 5).parse_args(arguments)
    n, grown = (20, 500) if options.quick else (N_EXPLAINED, N_GROWN)
    X, y = make_classification(grown + n, N_FEATURES, n_informative=12, random_state=0)
    X = X.astype(np.float32)
    result = about() | {"explained": n, "grown_on": grown, "trees": N_TREES, "features": N_FEATURES}
    result["forests"] = [of_forest(name, X, y, n, options.repeats) for name in FORESTS]
    result["xgboost"] = [of_xgboost(depth, X, y, n, options.repeats) for depth in DEPTHS]
    publish(result, options.output)


if __name__ == "__main__":
    main()

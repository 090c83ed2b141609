"""Hierarchical shrinkage: every leaf drawn towards its ancestors, by one number that is chosen out of bag.

A part of `benchmarks.studies.learning`, on the sets and folds of its first two. The class shares of a leaf become

    p_root + Σ (p_child - p_parent) / (1 + λ / n_parent)

over the steps of its path, n the bootstrapped rows of a node; the forest's answer is their mean (Agarwal, Tan, Ronen,
Singh and Yu 2022, eq. 1). λ is the one of `STRENGTHS` whose out-of-bag answers have the least log loss.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.studies.learning.methods import best_calibrator, duel, how_many, largest, markdown, measures, table

SHRINKAGE = {
    "shrinkage": "hierarchical shrinkage, λ by the out-of-bag log loss",
    "shrinkage, P": "the same, with the best of sixteen calibrators",
}
"""The methods, and what they are."""
STRENGTHS = (0.0, 0.1, 1.0, 10.0, 25.0, 50.0, 100.0, 500.0)
"""Values of λ: those of the paper and of its authors' package."""
LEAST = 1e-6
"""What a probability is raised to where λ is chosen, as in `instead`."""


def run_shrinkage(model: RandomForestClassifier, X, y, X_test, y_test) -> dict:
    """{"methods": {method: measures}, "chosen": λ, "rows"} of a fitted forest."""
    own = shrunk_out_of_bag(model, X, y)
    losses = [-np.mean(np.log(np.clip(shares[np.arange(len(y)), y], LEAST, 1))) for shares in own]
    best = int(np.argmin(losses))
    answers = shrunk_answers(model, X_test, STRENGTHS[best : best + 1])[0]
    found = {"mean": model.predict_proba(X_test), "shrinkage": answers}
    found["shrinkage, P"] = best_calibrator(own[best], y)(answers)
    return {
        "methods": {name: measures(probability, y_test) for name, probability in found.items()},
        "chosen": STRENGTHS[best],
        "rows": [len(y), model.n_classes_],
    }


def shrunk_nodes(tree, strengths=STRENGTHS) -> np.ndarray:
    """Class shares ``[strengths nodes classes]`` of every node of a scikit-learn tree, shrunk to its ancestors."""
    shares = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
    found = np.repeat(shares[None], len(strengths), axis=0)
    parents = np.array([0])
    while len(parents := parents[tree.children_left[parents] >= 0]):
        factor = 1 / (1 + np.asarray(strengths)[:, None, None] / tree.weighted_n_node_samples[parents, None])
        for children in (tree.children_left, tree.children_right):
            at = children[parents]
            found[:, at] = found[:, parents] + (shares[at] - shares[parents]) * factor
        parents = np.concatenate([tree.children_left[parents], tree.children_right[parents]])
    return found


def shrunk_answers(model: RandomForestClassifier, X, strengths=STRENGTHS) -> np.ndarray:
    """The means over trees ``[strengths rows classes]``."""
    at = model.apply(X)
    return np.mean([shrunk_nodes(t.tree_, strengths)[:, at[:, i]] for i, t in enumerate(model.estimators_)], axis=0)


def shrunk_out_of_bag(model: RandomForestClassifier, X, y) -> np.ndarray:
    """The same of trees whose bags lack a row; rows that no bag lacks are answered by even shares."""
    at, n_trees = model.apply(X), np.zeros(len(y))
    sums = np.zeros((len(STRENGTHS), len(y), model.n_classes_))
    for i, (tree, bag) in enumerate(zip(model.estimators_, model.estimators_samples_, strict=True)):
        out = np.setdiff1d(np.arange(len(y)), bag)
        sums[:, out] += shrunk_nodes(tree.tree_)[:, at[out, i]]
        n_trees[out] += 1
    return np.where(n_trees[:, None] > 0, sums / np.maximum(n_trees, 1)[:, None], 1 / model.n_classes_)


def beside_shrinkage(found: Mapping[Any, dict], part: str) -> dict[Any, dict]:
    """The cells of this part on the sets of another, with that part's methods of the same folds."""
    return {
        cell: {**record, "methods": found[beside]["methods"] | record["methods"]}
        for cell, record in found.items()
        if cell.part == "shrinkage" and (beside := cell._replace(part=part)) in found
    }


def shrinkage_section(found: Mapping[Any, dict]) -> list[str]:
    """Its section of the page, of the cells of this part and those of the same folds beside."""
    lines = [
        "## Against hierarchical shrinkage",
        "",
        "Each leaf's shares are drawn towards those of its ancestors (Agarwal et al. 2022):",
        "p_root + Σ (p_child - p_parent) / (1 + λ / n_parent), n the bootstrapped rows of a node. λ is one of",
        f"{', '.join(f'{one:g}' for one in STRENGTHS)}, by the out-of-bag log loss.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in SHRINKAGE.items()),
    ]
    shown = ("log_loss_clipped", "log_loss", "brier", "auc", "accuracy")
    titles = ("log loss, below 1e-6 taken for 1e-6", "log loss, 1e-15", "Brier score", "AUC", "accuracy")
    for part, title in (
        ("other-sets", "sets that nothing here was developed on"),
        ("development", "sets of development"),
    ):
        if not (joined := beside_shrinkage(found, part)):
            continue
        frame = table(joined)
        duels = (("pool", "shrinkage"), ("pool", "shrinkage, P"), ("shrinkage", "mean"), ("shrinkage", "P"),
                 ("shrinkage", "isotonic"))  # fmt: skip
        body = [[f"`{a}` against `{b}`", *(duel(frame, a, b, measure) for measure in shown)] for a, b in duels]
        lines += ["", f"### On {title}", "", how_many(joined), "", *markdown(["", *titles], body), ""]
        chosen = [record["chosen"] for record in joined.values()]
        said = ", ".join(f"{one:g} in {chosen.count(one)}" for one in STRENGTHS if one in chosen)
        worst = largest(frame, "pool", "shrinkage", "log_loss_clipped")
        lines += [f"λ that was chosen: {said}. Largest log loss of `pool` as a share of that of `shrinkage`: {worst}."]
    return lines

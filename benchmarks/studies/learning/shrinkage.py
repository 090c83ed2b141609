"""Hierarchical shrinkage: every leaf drawn towards its ancestors, by one number that is chosen out of bag.

A part of `benchmarks.studies.learning`, on the sets and folds of its first two. The class shares of a leaf become

    p_root + Σ (p_child - p_parent) / (1 + λ / n_parent)

over the steps of its path, n the bootstrapped rows of a node; the forest's answer is their mean (Agarwal, Tan, Ronen,
Singh and Yu 2022, eq. 1). λ is the one of `STRENGTHS` whose out-of-bag answers have the least log loss.
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.studies.learning.methods import best_calibrator, measures

SHRINKAGE = ("shrinkage", "shrinkage, P")
"""The methods; ``page.md`` says what they are."""
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

"""Which rows to leave open: certainties of rules beside RF-ICE, trust by proximities.

A part of `benchmarks.studies.rules`: random forests of 100 trees with in-bag counts, its sets, folds of a five-fold
cross-validation, least leaf 1, 4 and 16. Every method is an order of the test rows, and the answers that are right.

RF-ICE (Rhodes, Brown and Wilkinson 2025) is of RF-GAP proximities. That of a row x to a training row j is the mean over
trees of c(j) / n where j lies in the bag c(j) times and in the leaf of x, n the bagged rows there; out of bag, over the
trees whose bag lacks x. Its two scores are the proximities' share of rows that the forest answers rightly out of bag,
and conformity: one minus the ratio of the k largest proximities to other classes than the answer, to those of its own.
"""

from collections import namedtuple
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks import many_sets
from benchmarks.cells import fold
from benchmarks.pages import bold, fill, table
from benchmarks.studies.rules.page import TEMPLATE
from jaxunc import compare
from jaxunc.combiners import combiner_by_name

N_TREES, N_FOLDS, LEAVES, K = 100, 5, (1, 4, 16), 5
METHODS = ("probability", "largest", "RF-ICE", "conformity", "laplace", "confidence", "pool")
"""The methods; ``page.md`` says what they are."""
BASELINE = "probability"
Cell = namedtuple("Cell", "data leaf fold")


class Bags(NamedTuple):
    """A fitted forest's training rows: the leaves they reach, and how often each bag has them, ``[rows trees]``."""

    leaves: np.ndarray
    times: np.ndarray


def run_cell(cell: Cell, data: compare.Table) -> dict:
    """{"methods": {method: area under the risk-coverage curve}, "rows"}."""
    X, y = np.asarray(data.X, np.float32), np.asarray(data.y)
    train, test = fold(data, N_FOLDS, cell.fold)
    model = RandomForestClassifier(N_TREES, min_samples_leaf=cell.leaf, random_state=cell.fold, oob_score=True)
    X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    model.fit(X, y)
    forest, mean = ju.from_sklearn(model), model.predict_proba(X_test)
    answers = mean.argmax(axis=1)
    near = proximities(bags_of(model, X), model.apply(X_test))
    own = np.nan_to_num(model.oob_decision_function_).argmax(axis=1) == y
    orders = {"probability": _margin(mean), "largest": mean.max(axis=1), "RF-ICE": near @ own}
    orders["conformity"] = conformity(near, y, answers)
    found = {name: (order, answers) for name, order in orders.items()}
    for name in ("laplace", *(["confidence"] if forest.n_classes == 2 else [])):
        rule = combiner_by_name(name, prior=forest.prior, n_samples=forest.n_samples)
        scores = np.asarray(ju.bind(forest, rule)(X_test), float)
        found[name] = _margin(scores), scores.argmax(axis=1)
    rows = ju.learning.oob_dataset(model, X, y, counts="both")
    pool = ju.learning.fit_combiner(ju.LearnedPool(rows.prior, reads=rows.count_sets), rows).combiner
    scores = np.asarray(rows.bind(pool)(X_test), float)
    found["pool"] = _margin(scores), scores.argmax(axis=1)
    area = lambda order, right: float(ju.metrics.area_under_risk_coverage(order.astype(np.float32), right))
    return {
        "methods": {name: round(area(order, chosen == y_test), 6) for name, (order, chosen) in found.items()},
        "rows": [len(y), forest.n_classes],
    }


def _margin(scores: np.ndarray) -> np.ndarray:
    best = np.sort(scores, axis=1)[:, -2:]
    return best[:, 1] - best[:, 0]


def bags_of(model: RandomForestClassifier, X) -> Bags:
    """The bags of a fitted forest."""
    times = [np.bincount(bag, minlength=len(X)) for bag in model.estimators_samples_]
    return Bags(model.apply(X), np.stack(times, axis=1))


def proximities(bags: Bags, leaves: np.ndarray) -> np.ndarray:
    """RF-GAP proximities ``[rows training rows]`` of rows that reach these leaves ``[rows trees]``; rows sum to 1."""
    n_leaves = int(max(bags.leaves.max(), leaves.max())) + 1
    size = np.stack([np.bincount(bags.leaves[:, t], bags.times[:, t], n_leaves) for t in range(leaves.shape[1])])
    first = n_leaves * np.arange(leaves.shape[1])

    def reached(at: np.ndarray, weights: np.ndarray) -> csr_matrix:
        starts = np.arange(0, at.size + 1, at.shape[1])
        return csr_matrix((weights.ravel(), (at + first).ravel(), starts), (len(at), size.size))

    share = 1 / (leaves.shape[1] * np.take_along_axis(size.T, leaves, axis=0))
    return (reached(leaves, share) @ reached(bags.leaves, bags.times.astype(float)).T).toarray()


def conformity(near: np.ndarray, y: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """One minus the mean of the k largest proximities to other classes, over that of the k to the answer's class."""
    found = np.empty(len(near))
    for label in np.unique(answers):
        rows, of = near[answers == label], y == label
        same, other = (np.sort(rows[:, which], axis=1)[:, -K:].mean(axis=1) for which in (of, ~of))
        found[answers == label] = 1 - other / np.maximum(same, 1e-10)
    return found


def cells(name: str) -> list[Cell]:
    """The cells of a set."""
    return [Cell(name, leaf, number) for leaf in LEAVES for number in range(N_FOLDS)]


def is_sound(record: dict, cell: Cell) -> bool:
    """Whether a record has all methods; one is of two classes alone."""
    return set(METHODS) - {"confidence"} <= set(record["methods"])


def abstaining_section(found: Mapping[Cell, dict]) -> str:
    """Its section of the page."""
    rows = [
        {"set": cell.data, "leaf": cell.leaf, "classes": record["rows"][1], "method": method, "area": area}
        for cell, record in found.items()
        for method, area in record["methods"].items()
    ]
    frame = pd.DataFrame(rows)
    areas = {}
    for words, kind in (("two classes", frame["classes"] == 2), ("more", frame["classes"] > 2)):
        for leaf in LEAVES:
            here = frame[kind & (frame["leaf"] == leaf)]
            areas[f"{words}, {leaf}"] = here.pivot_table(index="set", columns="method", values="area")
    head = ["", *areas]
    body = [[f"*{method}*", *(_against(of, method) for of in areas.values())] for method in METHODS]
    return fill(TEMPLATE, "abstaining", k=K, table=table(head, body))


def _against(areas: pd.DataFrame, method: str) -> str:
    if method not in areas:
        return ""
    known = areas[areas[method].notna()].round(6)
    own, base = known[method], known[BASELINE]
    if method == BASELINE:
        return f"{own.mean():.4f}"
    both = np.stack([base, own], axis=1)
    won = f"{int((own < base).sum())}:{int((own > base).sum())}"
    told = len(known) > 5 and many_sets.pairwise_wilcoxon(both, larger_is_better=False).p_values[0, 1] < 0.05
    return f"{own.mean():.4f} ({bold(won, told)})"

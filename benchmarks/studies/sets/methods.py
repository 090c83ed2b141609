"""Ways to a set of classes that the study of sets compares, and what is kept of the sets they make."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import jaxunc as ju
from benchmarks import many_sets
from benchmarks.cells import together
from benchmarks.pages import bold, digits
from benchmarks.studies.learning.methods import adaptive_sets, conformal_sets, filled
from jaxunc.counting import oob_mask

N_TREES, HELD_OUT, PROMISE = 100, 0.25, 0.9
VOTE_STRENGTHS = (1, 2, 5)
"""s of the cautious forests; the estimator's default is 1."""
INTERVAL_STRENGTHS = (1, 5)
Sets = Callable[[np.ndarray], np.ndarray]
"""Instances to bools ``[instances classes]``."""


class Known(NamedTuple):
    """A fitted forest, and rows with labels that its probabilities there do not know."""

    own: np.ndarray
    """Probabilities of these rows."""
    y: np.ndarray
    probability: Callable[[np.ndarray], np.ndarray]
    """Probabilities of new rows."""

    def by(self, decide: Callable[[np.ndarray], Any]) -> Sets:
        """The sets that are made of the probabilities."""
        return lambda X: np.asarray(decide(self.probability(X)))


def methods(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Sets]:
    """All methods, fitted: one random forest, and a second one where a quarter of the rows is held out."""
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    rows = ju.learning.oob_dataset(model, X, y, source="oob", counts="both")
    inbag = ju.from_sklearn(model)
    pool = ju.learning.fit_combiner(ju.LearnedPool(np.asarray(inbag.prior), reads=rows.count_sets), rows).combiner
    sources = {"mean": _known(rows, inbag, ju.Mean()), "learned": _known(rows, rows.forest, pool)}
    found = {f"one class, {name}": known.by(most_probable) for name, known in sources.items()}
    for name, known in sources.items():
        by_utility = {kind: partial(ju.decisions.expected_utility_set, utility=kind) for kind in (65, 80)}
        found |= {f"u{kind}, {name}": known.by(decide) for kind, decide in by_utility.items()}
    counted = {"in-bag": inbag, "oob": ju.count_leaves(inbag, X, y, tree_mask=oob_mask(model, len(y), X=X, y=y))}
    for counts, forest in counted.items():
        votes = {s: nondominated_sets(forest, ju.GeneralizedVote(s)) for s in VOTE_STRENGTHS}
        found |= {f"cautious, {counts}, s = {s}": sets for s, sets in votes.items()}
        intervals = partial(nondominated_sets, forest, decide=ju.decisions.interval_dominance)
        found |= {f"intervals, {counts}, s = {s}": intervals(ju.AveragedIntervals(s)) for s in INTERVAL_STRENGTHS}
    known = {"oob": sources["mean"], "learned, oob": sources["learned"], "held-out": _held_out(X, y, seed)}
    return found | {
        f"{kind}, {name}": one.by(partial(sets_of, one.own, one.y))
        for kind, sets_of in CONFORMAL.items()
        for name, one in known.items()
        if kind != "adaptive" or len(inbag.prior) > 2  # which MAPIE refuses for two classes
    }


def most_probable(probability: np.ndarray) -> np.ndarray:
    """Sets of the most probable class alone."""
    return np.eye(probability.shape[1], dtype=bool)[np.argmax(probability, axis=1)]


def plain_sets(own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray, *, by_class: bool = False) -> np.ndarray:
    """Conformal sets of the hinge score (crepes), without random ties: equal scores count for a class.

    (Their number + 1)/(n + 1) ≥ 1 - `PROMISE`. Where that leaves none, the most probable class is the set.
    """
    return filled(conformal_sets(own, own_y, predicted, smoothing=False, by_class=by_class), predicted)


CONFORMAL = {"conformal": plain_sets, "adaptive": adaptive_sets, "by class": partial(plain_sets, by_class=True)}


def answer_of(forest: ju.Forest, rule: ju.Combiner) -> Callable[[np.ndarray], np.ndarray]:
    """Instances to probabilities."""
    bound: Any = ju.bind(forest, rule)
    return lambda X: np.asarray(bound.probability(X), float)


def _known(rows: Any, forest: ju.Forest, rule: ju.Combiner) -> Known:
    own = np.asarray(rows.answer(rule).probability, float)[: rows.n]
    return Known(own, np.asarray(rows.y)[: rows.n], answer_of(forest, rule))


def _held_out(X: np.ndarray, y: np.ndarray, seed: int) -> Known:
    """A forest of three quarters of the rows; the others calibrate."""
    fit, held = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X[fit], y[fit])
    probability = answer_of(ju.from_sklearn(model), ju.Mean())
    return Known(probability(X[held]), y[held], probability)


def nondominated_sets(forest: ju.Forest, rule: ju.Combiner, decide: Callable = ju.decisions.nondominated) -> Sets:
    """The sets of a rule that compares classes, or of what else decides by its answers."""
    bound: Any = ju.bind(forest, rule)
    return lambda X: np.asarray(decide(bound(X)))


def counted(sets: np.ndarray, y: np.ndarray) -> dict[str, list]:
    """Counts that all measures are made of: [size, rows, of them right] for each size, [rows, right] for each class."""
    size, right = sets.sum(axis=1), sets[np.arange(len(y)), y]
    by_size = [[int(k), int(np.sum(size == k)), int(np.sum(right[size == k]))] for k in np.unique(size)]
    by_class = [[int(np.sum(y == c)), int(np.sum(right[y == c]))] for c in range(sets.shape[1])]
    return {"sizes": by_size, "classes": by_class}


def joined(record: dict, other: dict, *keys: str) -> dict:
    """A record with the methods of another of the same forest."""
    return record | {key: record[key] | other[key] for key in keys or ("sets", "seconds")}


# Measures of sets, made of a study's cells, and how methods are compared by them.

COLUMNS = {
    "coverage": "coverage", "worst_class": "worst class", "worst_size": "worst size", "u65": "u65", "u80": "u80",
    "size": "mean size", "single": "single", "right": "single, right", "ms": "ms",
}  # fmt: skip
WORTH = {"u65": (1.6, 0.6), "u80": (2.2, 1.2)}
LEAST_ROWS = 10
"""Test rows below which a class or a size of sets is not looked at alone."""
LEVEL = 0.05


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, method): measures of both folds' test rows together."""
    per_row = lambda record: {name: 1e6 * seconds / record["rows"][1] for name, seconds in record["seconds"].items()}
    ms = together({cell: {"ms": per_row(record)} for cell, record in found.items()}, "ms")
    rows = [
        {"set": data, "method": name, **measures(parts), "ms": float(np.mean(ms[data, name]))}
        for (data, name), parts in together(found, "sets").items()
    ]
    return pd.DataFrame(rows)


def measures(parts: list[dict]) -> dict[str, Any]:
    """All that is measured of sets, from `counted` of their parts; empty ones are no size, and worth nothing."""
    rows, right = Counter(), Counter()
    for part in parts:
        for k, n, n_right in part["sizes"]:
            rows[k] += n
            right[k] += n_right
    n, hits = sum(rows.values()), sum(right.values())
    by_class = np.sum([part["classes"] for part in parts], axis=0)
    enough = by_class[by_class[:, 0] >= LEAST_ROWS]
    worth = lambda linear, square: sum(right[k] * (linear / k - square / k**2) for k in rows if k) / n
    return {
        "coverage": hits / n,
        "worst_class": _least(enough[:, 1] / enough[:, 0]),
        "worst_size": _least([right[k] / rows[k] for k in rows if k and rows[k] >= LEAST_ROWS]),
        **{kind: worth(*numbers) for kind, numbers in WORTH.items()},
        "size": sum(k * rows[k] for k in rows) / n,
        "single": rows[1] / n,
        "empty": rows[0] / n,
        "right": right[1] / rows[1] if rows[1] else float("nan"),
        "kept": is_kept(hits, n),
        "n_classes": len(by_class),
        "n_classes_told": len(enough),
        "n_classes_kept": sum(is_kept(own_hits, own) for own, own_hits in enough),
    }


def is_kept(hits: int, n: int) -> bool:
    """Whether so few hits, or fewer, have a probability of 5 % at least where each has one of 90 %."""
    return bool(binom.cdf(hits, n, PROMISE) >= LEVEL)


def _least(values) -> float:
    return float(np.min(values)) if len(values) else float("nan")


compared = partial(many_sets.duel, larger=True)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """Sets won and lost, and the median gain; bold where a signed-rank test tells the two apart."""
    won, lost, gain, p, _ = compared(frame, first, second, measure)
    return bold(f"{won}:{lost} {gain:+.3f}", p < LEVEL)


def shown(value: float, measure: str) -> str:
    """A number of a table; milliseconds with one place."""
    return f"{value:.1f}" if measure == "ms" else digits(value)

"""Decisions of a model's probabilities that agree with the class that it names: of classifiers, and of files.

A set holds the most probable class and the one that is named, and without costs the class that is named is decided for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxunc._checks import check_bool, check_within
from jaxunc.tables import NumbersLike

from ._conformal import least_probabilities, ranked_by
from ._costs import expected_utility_set
from ._least_cost import least_cost


def as_shares(probability: Any) -> np.ndarray:
    """Return probabilities ``[rows classes]`` that add to 1; all alike for NaN, or zeros, as boosted models answer."""
    probability = np.asarray(probability)
    total = probability.sum(axis=1, keepdims=True)
    shares = np.divide(probability, total, out=np.full_like(probability, 1 / probability.shape[1]), where=total > 0)
    return np.where(np.abs(total - 1) < 5e-4, probability, shares)


def best_sets(probability: Any, named: np.ndarray, utility: Any = 65) -> np.ndarray:
    """Return the sets of the highest expected utility ``[rows classes]``, with the classes that are named."""
    return _with(expected_utility_set(as_shares(probability), utility), named)


class Calibration:
    """What is ranked of rows that a model has not seen: the probability of their own class, or 1 where that leads.

    ``kept``: that and the class of each row ``[rows 2]``, and its weight where weights differ ``[rows 3]``, in float32,
    as classifiers and files keep them.
    """

    def __init__(self, kept: np.ndarray):
        self.own, self.position = kept[:, 0], kept[:, 1].astype(np.int64)
        self.weight = kept[:, 2].astype(np.float64) if kept.shape[1] == 3 else None

    @staticmethod
    def kept(
        probability: Any, position: np.ndarray, rows: np.ndarray | slice = slice(None), weight: Any = None
    ) -> np.ndarray:
        """Return what is kept of probabilities ``[rows classes]``; ``rows`` that were seen are left out."""
        ranked = ranked_by(as_shares(probability).astype(np.float32), position)  # as new rows are: `promised_sets`
        columns = [ranked, position, *(() if weight is None else (weight,))]
        kept = np.stack(columns, axis=1).astype(np.float32)[rows]
        if weight is not None:
            kept = kept[kept[:, 2] > 0]
        return kept[:, :2] if weight is None or len(np.unique(kept[:, 2])) == 1 else kept

    def least(self, coverage: float, by_class: bool, labels: Sequence[Any]) -> np.ndarray:
        """Return the least probability with which each class is in a set; refusals name classes by their labels."""
        check_coverage(coverage, by_class)
        how = {"by_class": by_class, "names": labels, "weight": self.weight}
        return least_probabilities(self.own, self.position, len(labels), coverage, **how)


def check_coverage(coverage: Any, by_class: Any) -> None:
    """Raise a TypeError or a ValueError unless these are settings of conformal sets."""
    check_within("coverage", coverage, "(0, 1)", ": how often sets are to hold the truth")
    check_bool("by_class", by_class)


def promised_sets(probability: Any, named: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return the classes that are as probable as asked ``[rows classes]``, with the most probable and the named one."""
    # As what was kept is rounded, so that equal probabilities stay equal.
    shares = as_shares(probability).astype(np.float32)
    return _with(shares >= least.astype(np.float32), shares.argmax(axis=1), named)


def decided(probability: Any, named: np.ndarray, costs: np.ndarray | None, reject: NumbersLike | None) -> np.ndarray:
    """Return positions of classes ``[rows]`` of the least expected cost; -1 where rejected."""
    positions = least_cost(as_shares(probability), costs, reject=reject)
    return np.where(positions < 0, positions, named) if costs is None else np.asarray(positions)


def _with(sets: Any, *classes: np.ndarray) -> np.ndarray:
    sets = np.array(sets)
    for positions in classes:
        sets[np.arange(len(sets)), np.asarray(positions)] = True
    return sets

"""The best nominal test of a node for each of the instances that are inserted there."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int, Int64

from jaxunc.greedy import LOWEST, Presorted, value_counts

from ._scores import Change, parts_a_value, side_scores
from ._settings import InductionSettings


class NominalChoice(NamedTuple):
    """The best nominal tests of some instances, feature by feature."""

    score: Int64[Array | np.ndarray, "q nominal"]
    is_other: Bool[Array | np.ndarray, "q nominal"]
    """Whether the instance has another value than the one that is tested for."""
    code: Int[Array | np.ndarray, "q nominal"]
    """Value that is tested for."""


class NominalTests:
    """Tests for a single value.

    All tests but that for the instance's own value have the instance outside. So the best of them is the best of all
    or, if that is the own value's, the second best.
    """

    def __init__(self, sample: Presorted, members: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._settings = settings
        self.inside = value_counts(sample, members)
        self.outside = totals[:, None, None] - self.inside
        self._n_inside, self._n_outside = self.inside.sum(axis=0), self.outside.sum(axis=0)

    def scores(self, change: Change) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores ``[nominal codes]`` with the instance inside and outside; each side must hold others."""
        inside, outside = side_scores(
            self._settings.entropy, self.inside, self.outside, change, self._settings.min_samples_leaf
        )
        own, n_inside, n_outside = change.removed, self._n_inside, self._n_outside
        inside[~parts_a_value(n_inside, n_outside, own, 0)] = LOWEST
        outside[~parts_a_value(n_inside, n_outside, 0, own)] = LOWEST
        return inside, outside

    @staticmethod
    def choose(scores: tuple[np.ndarray, np.ndarray], code: Int[np.ndarray, "q nominal"]) -> NominalChoice:
        """Return the best test of each feature; of two with the same score the one for the lower code."""
        inside, outside = scores
        rows = np.arange(len(inside))
        best = outside.argmax(axis=1)
        # The best test but one, for instances whose own value the best one tests.
        others = outside.copy()
        others[rows, best] = LOWEST
        second = others.argmax(axis=1)
        # A value that was not seen is no test's own.
        own_score = np.where(code >= 0, inside[rows, code], LOWEST)
        return own_or_other(code, own_score, (best, outside[rows, best]), (second, others[rows, second]))


def own_or_other(code, own_score, best, second) -> NominalChoice:
    """Return the test for an instance's own value or the best other one; of equal scores the lower code's.

    ``best`` and ``second`` are codes and scores of the two best tests that have the instance outside.
    """
    where = code.__array_namespace__().where
    other = where(code == best[0], second[0], best[0])
    other_score = where(code == best[0], second[1], best[1])
    is_other = (other_score > own_score) | ((other_score == own_score) & (other < code))
    return NominalChoice(where(is_other, other_score, own_score), is_other, where(is_other, other, code))

"""The best nominal test of a node for each of the instances that are inserted there."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from jaxunc.growing._cuts import LOWEST, value_counts
from jaxunc.growing._presorted import Presorted

from ._settings import Settings
from ._tables import Change, side_scores


class NominalChoice(NamedTuple):
    """The best nominal tests of some instances, feature by feature."""

    score: Int64[np.ndarray, "q nominal"]
    is_other: Bool[np.ndarray, "q nominal"]
    """Whether the instance has another value than the one that is tested for."""
    code: Int[np.ndarray, "q nominal"]
    """The value that is tested for."""


class NominalTests:
    """Tests for a single value.

    All tests but that for the instance's own value have the instance outside, so the best of them is the best of all
    or, if that is the own value's, the second best.
    """

    def __init__(self, sample: Presorted, members: np.ndarray, totals: np.ndarray, settings: Settings):
        self._settings = settings
        self.inside = value_counts(sample, members)
        self.outside = totals[:, None, None] - self.inside
        self._n_inside, self._n_outside = self.inside.sum(axis=0), self.outside.sum(axis=0)

    def scores(self, change: Change) -> tuple[np.ndarray, np.ndarray]:
        """The scores ``[nominal codes]`` with the instance inside and outside; on either side must be another one."""
        inside, outside = side_scores(
            self._settings.entropy, self.inside, self.outside, change, self._settings.min_leaf
        )
        own = change.removed
        inside[(self._n_inside - own < 1) | (self._n_outside < 1)] = LOWEST
        outside[(self._n_inside < 1) | (self._n_outside - own < 1)] = LOWEST
        return inside, outside

    @staticmethod
    def choose(scores: tuple[np.ndarray, np.ndarray], code: Int[np.ndarray, "q nominal"]) -> NominalChoice:
        """The best test of each feature; of two with the same score the one for the lower code."""
        inside, outside = scores
        rows = np.arange(len(inside))
        best = outside.argmax(axis=1)
        others = outside.copy()
        others[rows, best] = LOWEST
        second = others.argmax(axis=1)
        other = np.where(code == best, second, best)
        other_score = np.where(code == best, others[rows, second], outside[rows, best])
        # A value that was not seen is no test's own.
        own_score = np.where(code >= 0, inside[rows, code], LOWEST)
        is_other = (other_score > own_score) | ((other_score == own_score) & (other < code))
        return NominalChoice(np.maximum(own_score, other_score), is_other, np.where(is_other, other, code))

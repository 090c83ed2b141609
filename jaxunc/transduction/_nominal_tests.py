"""The best nominal test of a node for each of the instances that are inserted there."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int, Int64

from ._cuts import LOWEST, value_counts
from ._presorted import Presorted
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
    """Tests for a single value, in some nodes of the same size; each has a row for every nominal feature.

    All tests but that for the instance's own value have the instance outside. So the best of them is the best of all
    or, if that is the own value's, the second best.
    """

    def __init__(self, sample: Presorted, members: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._settings, self._features = settings, np.arange(len(sample.nominal))
        self.inside = value_counts(sample, members)
        self.outside = np.repeat(totals, len(sample.nominal), axis=0).T[:, :, None] - self.inside

    def rows(self, nodes: Int[np.ndarray, " some"]) -> Int[np.ndarray, "some nominal"]:
        """Return the rows of some nodes."""
        return nodes[:, None] * len(self._features) + self._features

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores ``[rows codes]`` of some nodes with the instance inside and outside.

        Each side must hold others.
        """
        rows = self.rows(nodes).ravel()
        with_inside, with_outside = self.inside[:, rows], self.outside[:, rows]
        inside, outside = side_scores(
            self._settings.entropy, with_inside, with_outside, change, self._settings.min_samples_leaf
        )
        own, n_inside, n_outside = change.removed, with_inside.sum(axis=0), with_outside.sum(axis=0)
        inside[~parts_a_value(n_inside, n_outside, own, 0)] = LOWEST
        outside[~parts_a_value(n_inside, n_outside, 0, own)] = LOWEST
        return inside, outside

    def choose(
        self, scores: tuple[np.ndarray, np.ndarray], node: Int[np.ndarray, " q"], code: Int[np.ndarray, "q nominal"]
    ) -> NominalChoice:
        """Return the best test of each feature; of two with the same score the one for the lower code.

        ``node`` says which of the nodes that the scores are of each instance is in.
        """
        inside, outside = scores
        rows, at = np.arange(len(inside)), self.rows(node)
        best = outside.argmax(axis=1)
        # The best test but one, for instances whose own value the best one tests.
        others = outside.copy()
        others[rows, best] = LOWEST
        second = others.argmax(axis=1)
        # A value that was not seen is no test's own.
        own_score = np.where(code >= 0, inside[at, code], LOWEST)
        tops = [(number[at], score[rows, number][at]) for number, score in ((best, outside), (second, others))]
        return own_or_other(code, own_score, *tops)


def own_or_other(code, own_score, best, second) -> NominalChoice:
    """Return the test for an instance's own value or the best other one; of equal scores the lower code's.

    ``best`` and ``second`` are codes and scores of the two best tests that have the instance outside.
    """
    where = code.__array_namespace__().where
    other = where(code == best[0], second[0], best[0])
    other_score = where(code == best[0], second[1], best[1])
    is_other = (other_score > own_score) | ((other_score == own_score) & (other < code))
    return NominalChoice(where(is_other, other_score, own_score), is_other, where(is_other, other, code))

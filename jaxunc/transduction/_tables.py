"""What inserting an instance does to the tests of a node: two scores for each, by its side, whatever the instance."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64

from jaxunc.growing._cuts import LOWEST


class Change(NamedTuple):
    """What happens to a node's sample: class ``gained`` has one more, and class ``lost`` one less; -1 is no class."""

    gained: int
    lost: int = -1

    @property
    def added(self) -> int:
        """How many more instances there are."""
        return int(self.gained >= 0) - self.removed

    @property
    def removed(self) -> int:
        """Whether an instance of the sample is left out."""
        return int(self.lost >= 0)


def side_scores(
    entropy: Int64[np.ndarray, " sizes"],
    inside: Int[np.ndarray, "classes *tests"],
    outside: Int[np.ndarray, "classes *tests"],
    change: Change,
    min_leaf: int,
) -> tuple[Int64[np.ndarray, "*tests"], Int64[np.ndarray, "*tests"]]:
    """The scores of all tests if the change happens inside, and if it happens outside.

    A score is Σ_c F(n_c) - F(n) of both sides, minus n times the conditional entropy; it is the lowest where a side is
    smaller than ``min_leaf`` with the instance. Where the side has none of the class that loses one, it has no meaning.
    """
    n_inside, n_outside = inside.sum(axis=0), outside.sum(axis=0)
    base = entropy[inside].sum(axis=0)
    base += entropy[outside].sum(axis=0)
    found = []
    for counts, own, other in ((inside, n_inside, n_outside), (outside, n_outside, n_inside)):
        # A side that loses its only instance has none: such tests are no candidates of that instance.
        scores = base - entropy[np.maximum(own + change.added, 0)] - entropy[other]
        if change.gained != change.lost:
            if change.gained >= 0:
                gained = counts[change.gained]
                scores += entropy[gained + 1] - entropy[gained]
            if change.removed:
                kept = np.maximum(counts[change.lost], 1)
                scores -= entropy[kept] - entropy[kept - 1]
        scores[(own + change.added < min_leaf) | (other < min_leaf)] = LOWEST
        found.append(scores)
    return found[0], found[1]

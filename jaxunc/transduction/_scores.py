"""Scores of a node's tests with an inserted instance: two for each test, one for each side of the test.

`scores_with`, `is_leaf` and `parts_a_value` take arrays of NumPy and of JAX: the dense algorithm uses them, too.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int, Int64

from ._presorted import LOWEST, parts_classes


class InductionSettings(NamedTuple):
    """Settings by which trees are grown with an inserted instance."""

    boundaries: bool
    """Whether cuts lie between different classes alone, and nodes that are pure without the instance are leaves."""
    min_samples_leaf: int
    """Least number of instances on each side of a test, the inserted one among them."""
    entropy: Int64[np.ndarray, " sizes"]
    """Entropies as integers: `entropy_table`."""


class Change(NamedTuple):
    """Change of a node's sample: an instance of ``new_class`` is inserted, and one of ``old_class`` is left out."""

    new_class: int
    """Class that gains an instance; -1 for none."""
    old_class: int | None = None
    """Class that loses an instance; None if nothing is left out."""

    @property
    def size_change(self) -> int:
        """Difference in the number of instances: 1, 0 or -1."""
        return int(self.new_class >= 0) - self.n_removed

    @property
    def n_removed(self) -> int:
        """Number of instances that are left out, 0 or 1."""
        return int(self.old_class is not None)

    @property
    def differs(self) -> bool:
        """Whether the classes differ; if not, the left-out instance comes back, and the class counts stay the same."""
        return self.new_class != self.old_class


def side_scores(
    entropy: Int64[np.ndarray, " sizes"],
    inside: Int[np.ndarray, "classes *tests"],
    outside: Int[np.ndarray, "classes *tests"],
    change: Change,
    min_samples_leaf: int,
) -> tuple[Int64[np.ndarray, "*tests"], Int64[np.ndarray, "*tests"]]:
    """Return (scores of all tests if ``change`` is made inside, scores if it is made outside).

    ``inside`` and ``outside`` are the class counts of the two sides of each test, before the change. A score is the sum
    over both sides of Σ_c F(n_c) - F(n), where F is the table ``entropy`` (`entropy_table`): minus n times the
    conditional entropy. It is `LOWEST` where a side is smaller than ``min_samples_leaf`` after the change. It is
    undefined where the changed side has no instance of ``change.old_class``.
    """
    n_inside, n_outside = (counts.sum(axis=0, dtype=counts.dtype) for counts in (inside, outside))
    # Both results share Σ_c F(n_c) before the change; two look-ups then correct it for each class that changes.
    base = entropy[inside].sum(axis=0)
    base += entropy[outside].sum(axis=0)
    results = []
    for counts, n_side, n_opposite in ((inside, n_inside, n_outside), (outside, n_outside, n_inside)):
        # 0 only keeps the index in range: an empty side has no instance to lose, and gets `LOWEST` below.
        scores = base - entropy[np.maximum(n_side + change.size_change, 0)] - entropy[n_opposite]
        if change.new_class >= 0 and change.differs:
            count = counts[change.new_class]
            scores += entropy[count + 1] - entropy[count]
        if change.old_class is not None and change.differs:
            # A side without that class has no meaning; index 0 - 1 would wrap around to the table's end.
            count = np.maximum(counts[change.old_class], 1)
            scores -= entropy[count] - entropy[count - 1]
        scores[(n_side + change.size_change < min_samples_leaf) | (n_opposite < min_samples_leaf)] = LOWEST
        results.append(scores)
    return results[0], results[1]


def scores_with(entropy, inside, outside, min_samples_leaf):
    """Return the score of each test ``[*tests]`` as `side_scores` does, without a change of the sample.

    ``inside`` and ``outside`` are the class counts ``[classes *tests]`` of a test's two sides, and ``entropy`` is
    `entropy_table`. A score is `LOWEST` where a side has fewer than ``min_samples_leaf`` instances.
    """
    n_inside, n_outside = inside.sum(axis=0), outside.sum(axis=0)
    scores = entropy[inside].sum(axis=0) + entropy[outside].sum(axis=0) - entropy[n_inside] - entropy[n_outside]
    where = inside.__array_namespace__().where
    return where((n_inside < min_samples_leaf) | (n_outside < min_samples_leaf), LOWEST, scores)


def is_leaf(without, counts, boundaries: bool, min_samples_leaf) -> Bool[Array | np.ndarray, "..."]:
    """Return whether nodes are leaves, from their class counts alone, ``[...]``.

    ``without`` and ``counts`` are the class counts ``[... classes]`` without the inserted instance and with it.
    ``boundaries`` and ``min_samples_leaf`` are those of `InductionSettings`.
    """
    ends = ((counts > 0).sum(axis=-1) < 2) | (counts.sum(axis=-1) < 2 * min_samples_leaf)
    # Fewer than two instances besides the inserted one cannot be divided by a test.
    ends |= without.sum(axis=-1) < 2
    return ends | ((without > 0).sum(axis=-1) < 2) if boundaries else ends


def parts_a_value(inside, outside, removed_inside, removed_outside):
    """Return whether a test for a nominal value still has training instances on both sides after a removal.

    ``inside`` and ``outside`` are the numbers of instances with the value and with other values; the others say how
    many of these are removed. All arguments broadcast.
    """
    return (inside - removed_inside > 0) & (outside - removed_outside > 0)


class Beside(NamedTuple):
    """What lies beside an instance among the sorted values of its node, for q instances and each numeric feature."""

    has_left: Bool[np.ndarray, "q numeric"]
    """Whether some instances of the sample have smaller values."""
    has_right: Bool[np.ndarray, "q numeric"]
    is_alone: Bool[np.ndarray, "q numeric"]
    """Whether no other instance has the value."""
    goes_left: Bool[np.ndarray, "q numeric"]
    """Whether the value is at most halfway between its neighbours."""
    lower: Int[np.ndarray, "q numeric"]
    """Class of the instances with the next smaller value; -1 for several classes."""
    equal: Int[np.ndarray, "q numeric"]
    """Class of the other instances with the same value; -1 for several classes."""
    upper: Int[np.ndarray, "q numeric"]
    """Class of the instances with the next larger value; -1 for several classes."""


def cuts_beside(
    beside: Beside, boundaries: bool
) -> tuple[Bool[np.ndarray, "q numeric"], Bool[np.ndarray, "q numeric"]]:
    """Return whether the cut just below, and the cut just above, each instance is a test of the sample without it.

    If another instance has the same value, both cuts are. If none has, both divide the others alike; only the cut that
    leaves the instance on the side of its nearer neighbour is a test. With ``boundaries`` the classes on the two sides
    of a cut have to differ, too.
    """
    left = beside.has_left & (~beside.is_alone | (beside.has_right & ~beside.goes_left))
    right = beside.has_right & (~beside.is_alone | (beside.has_left & beside.goes_left))
    if not boundaries:
        return left, right
    separates = parts_classes(beside.lower, beside.upper)
    left &= np.where(beside.is_alone, separates, parts_classes(beside.lower, beside.equal))
    right &= np.where(beside.is_alone, separates, parts_classes(beside.equal, beside.upper))
    return left, right


class NominalChoice(NamedTuple):
    """The best test of each nominal feature, for q instances."""

    score: Int64[np.ndarray, "q nominal"]
    is_other: Bool[np.ndarray, "q nominal"]
    """Whether the instance has another value than the one that is tested for."""
    code: Int[np.ndarray, "q nominal"]
    """Value that is tested for."""


class ScoredCode(NamedTuple):
    """A test for one value of each nominal feature, and the score of that test, for q instances."""

    code: Int[np.ndarray, "q nominal"]
    score: Int64[np.ndarray, "q nominal"]


def choose_code(value_test: ScoredCode, best: ScoredCode, second: ScoredCode) -> NominalChoice:
    """Return the better of ``value_test``, for the instance's own value, and the best test for another value.

    The latter is ``best``, or ``second`` where ``best`` tests for the instance's own value: the two best tests, scored
    with the instance on the side of the other values. Of equal scores the lower code's test is returned.
    """
    is_own = value_test.code == best.code
    other = ScoredCode(np.where(is_own, second.code, best.code), np.where(is_own, second.score, best.score))
    is_tie = other.score == value_test.score
    is_other = (other.score > value_test.score) | (is_tie & (other.code < value_test.code))
    return NominalChoice(
        score=np.where(is_other, other.score, value_test.score),
        is_other=is_other,
        code=np.where(is_other, other.code, value_test.code),
    )

"""The rule of models whose leaves hold values: their sum."""

from typing import Any, ClassVar

from jaxtyping import Array, Num

from jaxunc._numerics import TwoFloat
from jaxunc._types import PyTree
from jaxunc.combiners import Combiner


class LeafSum(Combiner[Any]):
    """The sum of the leaves' values ``[... outputs]``, to twice the precision of a float until it is rounded."""

    merge: ClassVar[str] = "exact_sum"

    def lift(self, counts: Num[Array, "... outputs"]) -> PyTree:
        """Return the values themselves."""
        return counts

    def finish(self, stat: PyTree) -> TwoFloat:
        """Return the sum, not yet rounded."""
        return stat

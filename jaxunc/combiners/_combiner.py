"""The contract of a rule: lift → merge → finish."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, overload

import equinox as eqx
import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Num, Shaped

from jaxunc._checks import check_class_axis, check_counts
from jaxunc._numerics import PickledModule, as_counts
from jaxunc._types import AnswerT, PyTree
from jaxunc.forest import OWN
from jaxunc.scorers import reads_sizes

from ._answer import Answer
from ._combine import combine_counts
from ._lift import warn_if_sizes_are_lost
from ._own_scorers import check_own_scorers

Counts: TypeAlias = Shaped[Array | np.ndarray, "... trees classes"]
TwoClassCounts: TypeAlias = Shaped[Array | np.ndarray, "... trees 2"]


class Combiner(PickledModule, Generic[AnswerT]):
    """A rule that combines the leaves of many trees by a merge that can be streamed.

    Subclass it, declare settings as fields, and write three things (an example in twenty lines: ``docs/rules.md``):

    * ``lift(counts [... classes])`` → a pytree of what one leaf contributes. Each array of it is a *plane* with the
      leading axes ``[...]`` of the counts, and further ones if the rule needs them. It may also be a scalar that is the
      same for every leaf of the tree. It depends on the counts of one leaf of one tree alone.
    * ``merge`` → how the contributions of trees merge: ``"sum"``, ``"exact_sum"``, ``"min"``, ``"max"`` or
      ``"collect"``, for all planes or as a pytree prefix of the statistic. Sums are compensated; an exact sum (of
      floats, or of integers ≥ 0) reaches `finish` as a `jaxunc.combiners.TwoFloat`, without any rounding for counts:
      ``.value`` is the nearest float, and ``.plus``, ``.minus`` and ``.divided_by`` keep twice its digits. Collected
      planes reach it with the trees along a further axis, ``[... trees]`` or ``[... trees k]``, NaN where a tree is
      masked: for medians and the like, at the cost of keeping them all for a chunk of instances.
    * ``finish(stat)`` → the answer, from the merged statistic. It must not ask how many trees there were: denominators
      are part of the statistic, which is what makes weights, masks, partial polls and shards the same code.
    """

    if TYPE_CHECKING:  # a field would have to be passed to every constructor
        merge: ClassVar[PyTree]
    else:
        merge: eqx.AbstractVar[PyTree]
    """Kind of the merge: a name, or a pytree prefix of the statistic with names as leaves."""

    if not TYPE_CHECKING:  # so that they still report names that do not exist
        # A rule is one function, whatever its arrays hold: see `Method`. (`equinox.tree_equal` compares what rules
        # hold.)
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    @property
    def reads_sizes(self) -> bool:
        """Whether the answer depends on how many instances leaves hold, and not on their shares alone.

        Then counts that look like frequencies are warned of where they enter. By default as the rule's scorers and the
        rules within it say; a rule that reads sizes itself says so: ``reads_sizes: ClassVar[bool] = True``.
        """
        return any(_reads_sizes(part) for part in vars(self).values())

    @property
    def count_sets(self) -> tuple[str, ...]:
        """The names of the counts that the rule reads of a leaf, which stand side by side in what it lifts.

        By default those of the rules within it, each once, and else the forest's own alone. A rule of several rules
        hands each its columns: `columns_of`.
        """
        rules = (part for part in jax.tree.leaves(vars(self), is_leaf=_is_rule) if _is_rule(part))
        return tuple(dict.fromkeys(name for rule in rules for name in rule.count_sets)) or (OWN,)

    @abc.abstractmethod
    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistic that leaves with these counts contribute."""

    @abc.abstractmethod
    def finish(self, stat: PyTree) -> AnswerT:
        """Return the answer: an `Answer`, or whatever else the rule returns."""

    def answer(self, counts: Counts) -> AnswerT:
        """Return everything that `finish` says of the leaves' counts.

        Whole numbers that do not fit 32 bits are taken as floats (unless JAX has 64), floats of 16 bits as float32.

        Parameters
        ----------
        counts
            Class counts of leaves ``[... trees classes]``, ≥ 0.
        """
        return self._combine(counts, None)

    @overload
    def __call__(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def __call__(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def __call__(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    @overload
    def __call__(self, counts: Counts) -> AnswerT: ...
    def __call__(self, counts: Counts) -> Any:
        """Class scores ``[... classes]`` of the leaves' counts ``[... trees classes]``."""
        return self._combine(counts, "class_scores")

    @overload
    def score(self: "Combiner[Answer]", counts: TwoClassCounts) -> Array: ...
    @overload
    def score(self: "Combiner[dict[str, Answer]]", counts: TwoClassCounts) -> dict[str, Array]: ...
    @overload
    def score(self: "Combiner[dict[str, Any]]", counts: TwoClassCounts) -> dict[str, Any]: ...
    def score(self: Any, counts: TwoClassCounts) -> Any:
        """The published binary score ``[...]``, positive for class 1. See `margin` for a number to rank by."""
        return self._combine(counts, "score")

    @overload
    def probability(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def probability(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def probability(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    def probability(self: Any, counts: Counts) -> Any:
        """Class probabilities ``[... classes]``."""
        return self._combine(counts, "probability")

    @overload
    def log_probability(self: "Combiner[Answer]", counts: Counts) -> Array: ...
    @overload
    def log_probability(self: "Combiner[dict[str, Answer]]", counts: Counts) -> dict[str, Array]: ...
    @overload
    def log_probability(self: "Combiner[dict[str, Any]]", counts: Counts) -> dict[str, Any]: ...
    def log_probability(self: Any, counts: Counts) -> Any:
        """Logarithms of the class probabilities ``[... classes]``, for losses."""
        return self._combine(counts, "log_probability")

    def _combine(self, counts: Any, readout: str | None) -> Any:
        counts = as_counts(counts)
        check_class_axis(counts)
        if counts.ndim < 2:
            raise ValueError(
                f"counts has shape {counts.shape}; a rule combines [... trees classes]. "
                "Add the tree axis: counts[None]."
            )
        check_counts(counts)
        warn_if_sizes_are_lost(self, counts)
        check_own_scorers(self, counts)
        return combine_counts(self, counts, readout)


def _is_rule(part) -> bool:
    return isinstance(part, Combiner)


def _reads_sizes(part) -> bool:
    if isinstance(part, dict):
        return any(map(_reads_sizes, part.values()))
    return part.reads_sizes if isinstance(part, Combiner) else isinstance(part, Partial) and reads_sizes(part)

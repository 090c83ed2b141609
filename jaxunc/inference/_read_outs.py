"""The members that every model has which answers instances, and the read-outs of a forest bound to a combiner.

`Answering` and `HasColumns` are protocols: files, streams and clusters ask models and answers through them alone.
`ReadOuts` has the methods `probability`, `score` and so on, each of which is one call of ``_run``.
"""

import abc
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, Protocol, overload, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxunc._types import AnswerT
from jaxunc.combiners import Answer, Combiner, typed_by_answer
from jaxunc.forest import Forest
from jaxunc.tables import Columns, InstancesLike, MaskLike


@runtime_checkable
class Answering(Protocol):
    """A model that answers instances: a bound or sharded forest, a vote, a training set that takes them in, a law.

    An estimator of `jaxunc.estimators` has one as ``bound_``. A new kind of model needs these members and nothing else:
    what its answers say is theirs (`HasColumns`). One whose answers name classes also has ``class_labels``, and one
    whose forest can be bound to further combiners is an `OfForest`.
    """

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        ...

    def answer(self, X: Any, /) -> Any:
        """The answer for instances ``[instances features]``: any number of them compiles nothing new."""
        ...

    def blank_answer(self) -> Any:
        """An answer for one instance, all zeros, of the right shapes and types."""
        ...


@runtime_checkable
class OfSums(Protocol):
    """A model that makes one answer of what several bound forests merge: the moments of a number, and its law."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bound forests."""
        ...

    def over(self, place: Callable[[Any], Any], /) -> Any:
        """Return the same of other bound forests, which ``place`` makes of these: over many devices, say."""
        ...

    def of_sums(self, *stats: PyTree) -> dict[str, Any]:
        """Return the columns of an answer for one instance, from what its trees merged: for programs of 64 bits."""
        ...


class OfForest:
    """Columns and class labels of a model, read from its forest; a combiner, where one answers."""

    forest: Any
    combiner: Any

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.forest.trees.columns

    @property
    def class_labels(self) -> tuple[Any, ...]:
        """The labels of the classes, in the order in which answers have them."""
        return self.forest.class_labels


@runtime_checkable
class HasColumns(Protocol):
    """An answer that can be written as columns of a table."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of outputs that `columns` has: ``"class"``, ``"probability"`` and so on, see `jaxunc.streaming`."""
        ...

    def columns(self, output: str, /) -> dict[str, Any]:
        """NumPy arrays by the names of columns, for one of the ``outputs``.

        Places of classes are called "class"; ``[instances classes]`` are numbers by class, or sets of classes as bools.
        """
        ...


READOUTS = (None, "class_scores", "score", "probability", "log_probability")
"""Names of read-outs; None is the whole answer."""


class ReadOuts(OfForest, abc.ABC, Generic[AnswerT]):
    """The read-outs of a combiner, on NumPy, JAX, pandas or sparse data ``[instances features]``."""

    combiner: Combiner[AnswerT]
    """The combiner."""

    @property
    @abc.abstractmethod
    def forest(self) -> Forest:
        """The forest that was bound."""

    def blank_answer(self) -> AnswerT:
        """Return an answer for one instance, all zeros, of the right shapes and types."""
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), self._answer_of_one)

    @cached_property
    def _answer_of_one(self) -> PyTree:
        """Shapes and types of an answer for one instance, kept since the combiner is traced for them."""
        columns = self.forest.n_classes * len(self.combiner.count_sets)
        counts = jax.ShapeDtypeStruct((1, self.forest.n_trees, columns), self.forest.count_table.dtype)
        return jax.eval_shape(self.combiner.answer, counts)

    @overload
    def __call__(self: "ReadOuts[Answer]", X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Array: ...
    @overload
    def __call__(
        self: "ReadOuts[dict[str, Answer]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Array]: ...
    @overload
    def __call__(
        self: "ReadOuts[dict[str, Any]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Any]: ...
    @overload
    def __call__(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> AnswerT: ...
    def __call__(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Return what the combiner's call does: class scores ``[instances classes]`` for nearly all."""
        return self._run(X, tree_mask, "class_scores")

    @typed_by_answer
    def score(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """The published binary score ``[instances]``, positive for class 1."""
        return self._run(X, tree_mask, "score")

    @typed_by_answer
    def probability(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    @typed_by_answer
    def log_probability(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> AnswerT:
        """All read-outs together."""
        return self._run(X, tree_mask, None)

    @abc.abstractmethod
    def with_rule(self, combiner: Combiner[Any]) -> "ReadOuts[Any]":
        """Return the forest bound to another combiner, in the same way."""

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """One read-out, or the whole answer for None: in `BoundForest`, and in `ShardedForest` of `jaxunc.parallel`."""

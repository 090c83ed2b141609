"""The read-outs that every forest bound to a rule has."""

import abc
from functools import cached_property
from typing import Any, Generic, overload

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxunc._types import AnswerT
from jaxunc.combiners import Answer, Combiner
from jaxunc.forest import Forest
from jaxunc.tables import InstancesLike, MaskLike

from ._answering import OfForest

READOUTS = (None, "class_scores", "score", "probability", "log_probability")
"""Names of read-outs; None is the whole answer."""


class ReadOuts(OfForest, abc.ABC, Generic[AnswerT]):
    """The read-outs of a rule, on NumPy, JAX, pandas or sparse data ``[instances features]``."""

    combiner: Combiner[AnswerT]
    """The rule."""

    @property
    @abc.abstractmethod
    def forest(self) -> Forest:
        """The forest that was bound."""

    def blank_answer(self) -> AnswerT:
        """Return an answer for one instance that says nothing: zeros of the right shapes and types."""
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), self._answer_of_one)

    @cached_property
    def _answer_of_one(self) -> PyTree:
        """Shapes and types of an answer for one instance, kept since the rule is traced for them."""
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
        """Return what the rule's call does: class scores ``[instances classes]`` for nearly all."""
        return self._run(X, tree_mask, "class_scores")

    @overload
    def score(self: "ReadOuts[Answer]", X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Array: ...
    @overload
    def score(
        self: "ReadOuts[dict[str, Answer]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Array]: ...
    @overload
    def score(
        self: "ReadOuts[dict[str, Any]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Any]: ...
    def score(self: Any, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """The published binary score ``[instances]``, positive for class 1."""
        return self._run(X, tree_mask, "score")

    @overload
    def probability(self: "ReadOuts[Answer]", X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Array: ...
    @overload
    def probability(
        self: "ReadOuts[dict[str, Answer]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Array]: ...
    @overload
    def probability(
        self: "ReadOuts[dict[str, Any]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Any]: ...
    def probability(self: Any, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    @overload
    def log_probability(self: "ReadOuts[Answer]", X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Array: ...
    @overload
    def log_probability(
        self: "ReadOuts[dict[str, Answer]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Array]: ...
    @overload
    def log_probability(
        self: "ReadOuts[dict[str, Any]]", X: InstancesLike, *, tree_mask: MaskLike | None = None
    ) -> dict[str, Any]: ...
    def log_probability(self: Any, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Any:
        """Logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> AnswerT:
        """All read-outs together."""
        return self._run(X, tree_mask, None)

    @abc.abstractmethod
    def with_rule(self, combiner: Combiner[Any]) -> "ReadOuts[Any]":
        """Return the forest bound to another rule, in the same way."""

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """One read-out, or the whole answer for None."""

"""The read-outs that every forest bound to a rule has."""

import abc

import jax
import numpy as np
from jaxtyping import PyTree

from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.tables import Columns


class ReadOuts(abc.ABC):
    """The read-outs of a rule, on NumPy, JAX or pandas data ``[instances features]``."""

    combiner: Combiner
    """The rule."""

    @property
    @abc.abstractmethod
    def forest(self) -> Forest:
        """The forest that was bound."""

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.forest.trees.columns

    @property
    def class_labels(self) -> tuple:
        """The labels of the classes, in the order of class scores."""
        return self.forest.class_labels

    def blank_answer(self) -> PyTree:
        """An answer for one instance that says nothing: zeros of the right shapes and types."""
        columns = self.forest.n_classes * len(self.combiner.countings)
        counts = jax.ShapeDtypeStruct((1, self.forest.n_trees, columns), self.forest.count_table.dtype)
        return jax.tree.map(lambda part: np.zeros(part.shape, part.dtype), jax.eval_shape(self.combiner.answer, counts))

    def __call__(self, X, *, tree_mask=None) -> PyTree:
        """What the rule's call returns: class scores ``[instances classes]`` for nearly all."""
        return self._run(X, tree_mask, "class_scores")

    def score(self, X, *, tree_mask=None) -> PyTree:
        """The published binary score ``[instances]``, positive for class 1."""
        return self._run(X, tree_mask, "score")

    def probability(self, X, *, tree_mask=None) -> PyTree:
        """Class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    def log_probability(self, X, *, tree_mask=None) -> PyTree:
        """Logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X, *, tree_mask=None) -> PyTree:
        """All read-outs together."""
        return self._run(X, tree_mask, None)

    @abc.abstractmethod
    def with_rule(self, combiner: Combiner) -> "ReadOuts":
        """The same forest bound to another rule, in the same way."""

    @abc.abstractmethod
    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        """One read-out, or the whole answer for None."""

"""Engines: they find the leaves of instances and merge what a rule lifts from them."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from jaxunc._types import PyTree
from jaxunc.combiners import Combiner, read_answer
from jaxunc.forest import Forest, Trees
from jaxunc.tables import Encoded

from ._fold import fold
from ._leaf_table import leaf_table

Driver = Callable[[str | None, Any, Any, int], PyTree]
"""(read-out, values ``[instances features]`` of any number of instances, mask, threads) → answers."""


class Engine(eqx.Module):
    """One way from instances to answers. It knows a forest and what a rule lifts from it; `finish` is the rule's."""

    forest: eqx.AbstractVar[Forest]

    @abc.abstractmethod
    def driver(self, combiner: Combiner) -> Driver:
        """Return a function that answers data of the host.

        It looks the engine's parts up once: a module is slow to name them.
        """

    @abc.abstractmethod
    def merge(self, combiner: Combiner, X: jax.Array, mask: Any) -> PyTree:
        """The merged statistic, inside someone's program; the engine is for missing values."""

    @abc.abstractmethod
    def for_missing(self) -> "Engine":
        """Return the engine for data with missing values."""

    def on(self, trees: Trees) -> "Engine":
        """Return the engine of the same trees by other columns; what the rule lifts stays."""
        raise NotImplementedError(f"{type(self).__name__} has trees that are traced.")


class Traced(Engine):
    """The engine of a traced rule or forest: the pure fold, differentiable in both."""

    forest: Forest

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner) -> "Traced":
        """Make the engine; refuse a rule that does not suit the forest."""
        jax.eval_shape(leaf_table, forest, combiner)
        return cls(forest)

    def driver(self, combiner: Combiner) -> Driver:
        """Return the fold as a driver, for data that are not traced."""

        def drive(readout: str | None, values: Any, mask: Any, threads: int) -> PyTree:
            return read_answer(combiner.finish(self.merge(combiner, values, mask)), readout)

        return drive

    def for_missing(self) -> Engine:
        """It takes them as it is."""
        return self

    def merge(self, combiner: Combiner, X: jax.Array, mask: Any) -> PyTree:
        """Lifted and merged anew in every program."""
        encoded = Encoded(X, True)
        return fold(self.forest, leaf_table(self.forest, combiner), encoded, merge=combiner.merge, tree_mask=mask)

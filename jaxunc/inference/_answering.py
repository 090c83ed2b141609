"""The protocol of models that answer instances."""

from typing import Any, Protocol, runtime_checkable

from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.tables import Columns


@runtime_checkable
class Answering(Protocol):
    """A model that answers instances: a bound or sharded forest, a bound vote, a training set that takes them in.

    A classifier of `jaxunc.estimators` has one as ``bound_``. Files, streams and clusters ask through this alone, so
    that a new kind of model needs these members and nothing else.
    """

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        ...

    @property
    def class_labels(self) -> tuple[Any, ...]:
        """The labels of the classes, in the order in which answers have them."""
        ...

    @property
    def forest(self) -> Forest | None:
        """The forest whose leaves answer, which other rules and votes may be asked of; None where there is none."""
        ...

    @property
    def combiner(self) -> Combiner | None:
        """The rule that answers; None where the answer is no rule's."""
        ...

    def answer(self, X: Any, /) -> Any:
        """The answer for instances ``[instances features]``: any number of them compiles nothing new."""
        ...

    def blank_answer(self) -> Any:
        """An answer for one instance that says nothing: zeros of the right shapes and types."""
        ...

    def with_rule(self, combiner: Combiner, /) -> "Answering":
        """Return the model with another rule."""
        ...


class OfForest:
    """Columns and class labels of a model, read from its forest."""

    forest: Any

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
        """NumPy arrays by the names of columns.

        Places of classes are called "class"; ``[instances classes]`` are numbers by class, or sets of classes as bools.

        Parameters
        ----------
        output
            One of ``outputs``, such as ``"probability"``.
        """
        ...

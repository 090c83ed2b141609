"""The output ``explanation`` of files: the share of each column in what a model's combiner answers."""

from typing import Any

import equinox as eqx
import numpy as np

from jaxunc.combiners import Combiner
from jaxunc.explanations import explain
from jaxunc.forest import Forest
from jaxunc.inference import OfForest
from jaxunc.tables import Encoded


class Explained(eqx.Module):
    """Shares as columns of files."""

    arrays: tuple[Any, ...]
    names: tuple[str, ...] = eqx.field(static=True)
    outputs = ("explanation",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return the arrays by their names."""
        return dict(zip(self.names, self.arrays, strict=True))


class Explaining(OfForest):
    """A forest and a combiner that answer with shares."""

    def __init__(self, forest: Forest, combiner: Combiner):
        self.forest, self.combiner = forest, combiner

    def answer(self, X: Any) -> Explained:
        """Return the shares for instances."""
        found = explain(self.forest, self.combiner, X).columns()
        return Explained(tuple(found.values()), tuple(found))

    def blank_answer(self) -> Explained:
        """Return an answer for one instance, all zeros; raise what `explain` does of a combiner."""
        none = self.answer(Encoded(np.zeros((0, self.forest.n_features), np.float32), False))
        return Explained(tuple(np.zeros(1, array.dtype) for array in none.arrays), none.names)

    def with_rule(self, combiner: Combiner) -> "Explaining":
        """Return the same of another combiner."""
        return Explaining(self.forest, combiner)

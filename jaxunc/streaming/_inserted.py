"""Transduction, asked like a bound model."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxunc.estimators import TransductiveTreeClassifier
from jaxunc.tables import Columns, Encoded
from jaxunc.transduction import label_average


class Likely(NamedTuple):
    """Probabilities, and nothing else."""

    probability: Float[np.ndarray, "instances classes"]

    @property
    def predicted(self) -> np.ndarray:
        """The most probable class."""
        return self.probability.argmax(axis=1)


class Inserted:
    """A fitted classifier that inserts every instance into its training set with each label."""

    def __init__(self, model: TransductiveTreeClassifier):
        self._model = model
        self.columns: Columns = model._sample.columns
        self.labels: tuple = tuple(model._sample.class_labels)

    def __call__(self, rows: Encoded) -> Likely:
        """The answers for instances."""
        if not len(rows.values):
            return Likely(np.zeros((0, len(self.labels))))
        return Likely(np.asarray(label_average(self._model._counts(rows), self._model.combiner_)))

    def blank(self) -> Likely:
        """An answer for one instance that says nothing."""
        return Likely(np.zeros((1, len(self.labels))))

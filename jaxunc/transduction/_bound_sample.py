"""A training set that takes instances in, asked like a bound forest."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int32

from jaxunc._checks import check_progress
from jaxunc.combiners import Combiner
from jaxunc.tables import Columns

from ._certainty import counts_of, label_average, settings_of
from ._grouped import KeptNodes
from ._pairs import Pairs, PairsProgress
from ._presorted import Presorted, as_queries


class LabelAverage(NamedTuple):
    """Class probabilities, and the class that they name."""

    probability: Float[np.ndarray, "instances classes"]
    """The mean over the labels that an instance was given: `label_average`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that `columns` knows."""
        return ("class", "probability")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The place of the most probable class, or the probabilities by class."""
        return {output: self.probability.argmax(axis=1) if output == "class" else self.probability}


class BoundSample:
    """A training set and how trees are induced on it: each instance is inserted with each label.

    Parameters
    ----------
    sample
        The training set, sorted.
    combiner
        How the leaves of the labels become probabilities; None: the mean of Laplace's estimates.
    candidates, min_samples_leaf, algorithm
        As for `transductive_certainty`.
    block_size
        Instances that are inserted at a time; memory grows with it.
    progress
        Called with how many instances of how many are done.
    """

    forest: None = None
    """No forest: every instance has trees of its own."""

    def __init__(
        self,
        sample: Presorted,
        combiner: Combiner | None,
        *,
        candidates: str,
        min_samples_leaf: int,
        algorithm: str,
        block_size: int,
        progress: Callable[[PairsProgress], object] | None = None,
    ):
        self.sample: Presorted = sample
        self.combiner: Combiner | None = combiner
        self.progress: Callable[[PairsProgress], object] | None = progress
        self.settings: dict[str, Any] = {
            "candidates": candidates,
            "min_samples_leaf": min_samples_leaf,
            "algorithm": algorithm,
            "block_size": block_size,
        }
        self._induced = settings_of(sample, candidates, min_samples_leaf)
        self._kept = KeptNodes.of(sample)

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.sample.columns

    @property
    def class_labels(self) -> tuple[Any, ...]:
        """The labels of the classes, in the order of probabilities."""
        return tuple(self.sample.class_labels)

    def leaf_counts(self, X: Any) -> Int32[np.ndarray, "instances labels classes"]:
        """The counts of the leaves, by the label that the instance was given."""
        check_progress(self.progress)
        k, size = self.sample.n_classes, self.settings["block_size"]
        queries, parts = as_queries(X, self.sample), [np.zeros((0, k, k), np.int32)]
        began = time.perf_counter()
        for begin in range(0, queries.n, size):
            block = queries.rows(slice(begin, begin + size))
            parts.append(counts_of(Pairs(self.sample, block, self._induced), self.settings["algorithm"], self._kept))
            if self.progress is not None:
                self.progress(PairsProgress(begin + block.n, queries.n, time.perf_counter() - began))
        return np.concatenate(parts)

    def answer(self, X: Any) -> LabelAverage:
        """The class probabilities of instances ``[instances features]``."""
        counts = self.leaf_counts(X)
        return LabelAverage(np.asarray(label_average(counts, self.combiner))) if len(counts) else self.blank_answer(0)

    def blank_answer(self, n_instances: int = 1) -> LabelAverage:
        """An answer that says nothing: zeros of the right shapes and types."""
        return LabelAverage(np.zeros((n_instances, self.sample.n_classes)))

    def with_rule(self, combiner: Combiner) -> "BoundSample":
        """Return the training set with another rule for the leaves of an instance."""
        return BoundSample(self.sample, combiner, **self.settings, progress=self.progress)

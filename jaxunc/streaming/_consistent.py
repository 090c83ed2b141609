"""Columns of one row that agree with each other: sets and intervals of the probabilities beside them."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc.decisions import CautiousAnswer, expected_utility_set
from jaxunc.intervals import Interval


class Consistent(NamedTuple):
    """A model's answer, with what is made of its probabilities where it has no such output of its own."""

    answer: Any
    interval: Interval | None
    """Bounds by leaf sizes, which need not hold the model's probabilities; None if nobody asks for them."""

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The columns of an output: of the answer, or the best set, or intervals as wide as the probability needs."""
        if output in self.answer.outputs:
            return self.answer.columns(output)
        probability = np.asarray(self.answer.columns("probability")["probability"])
        if output == "set":
            return {output: best_sets(probability, np.asarray(self.answer.columns("class")["class"]))}
        assert self.interval is not None
        lower, upper = np.asarray(self.interval.lower), np.asarray(self.interval.upper)
        return {"lower": np.minimum(lower, probability), "upper": np.maximum(upper, probability)}


class Reported(NamedTuple):
    """A cautious report beside another rule's answer, whose columns have names of their own."""

    answer: CautiousAnswer
    own: Any = None
    """The other rule's answer, whose class is to be in the set; None if it has none."""

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The columns of an output."""
        if output == "set" and self.own is not None:
            sets, chosen = self.answer.columns("set")["set"], self.own.columns("class")["class"]
            return {output: np.asarray(sets) | (np.arange(sets.shape[1]) == np.asarray(chosen)[:, None])}
        if output == "idm_interval":
            return {f"idm_{name}": array for name, array in self.answer.columns("interval").items()}
        if output == "cautious_set":
            return {output: self.answer.columns("set")["set"]}
        return self.answer.columns(output)


def best_sets(probability: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return sets of the highest expected utility (u65), which hold the class that was chosen.

    Rows without probabilities, NaN or zeros, have all classes.

    Parameters
    ----------
    probability
        Probabilities of the classes, ``[rows classes]``.
    chosen
        Places of the classes that the model names, ``[rows]``.
    """
    rows, n_classes = probability.shape
    # Padded, so that batches of any size compile a few programs.
    padded = np.full((1 << max(rows - 1, 255).bit_length(), n_classes), 1 / n_classes, probability.dtype)
    total = probability.sum(axis=1, keepdims=True)
    shares = np.divide(probability, total, out=np.full_like(probability, 1 / n_classes), where=total > 0)
    padded[:rows] = np.where(np.abs(total - 1) < 5e-4, probability, shares)
    return np.asarray(expected_utility_set(padded))[:rows] | (np.arange(n_classes) == chosen[:, None])

"""The fifteen problems of Hernández-Lobato et al. 2011, ten of data and five drawn, and their splits."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.data import load
from benchmarks.problems import GENERATORS

PROBLEMS = {
    "breast": "breast-w",
    "glass": "glass",
    "heart": "heart-statlog",
    "led": None,
    "liver": "liver",
    "new-thyroid": "new-thyroid",
    "pima": "diabetes",
    "ringnorm": None,
    "spam": "spambase",
    "threenorm": None,
    "twonorm": None,
    "vehicle": "vehicle-statlog",
    "vowel": "vowel",
    "waveform": None,
    "wine": "wine",
}
"""The paper's names, and the data set each is; None where instances are drawn (`benchmarks.problems`)."""
N_TRAIN, N_TEST = 300, 1000
"""Of the problems that are drawn."""


class Split(NamedTuple):
    """What trees grow on, and what they are asked."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Problem(NamedTuple):
    """A problem: its number of classes, and the split of each repetition."""

    n_classes: int
    split: Callable[[int], Split]


def problem(name: str, folder: str | None) -> Problem:
    """The problem of that name."""
    stored = PROBLEMS[name]
    if stored is None:
        generator = GENERATORS[name]
        return Problem(generator.n_classes, lambda repeat: drawn(generator, repeat))
    data = load(stored, folder)
    return Problem(len(data.class_labels), lambda repeat: parted(data.X, data.y, repeat))


def parted(X: np.ndarray, y: np.ndarray, repeat: int) -> Split:
    """Two thirds to grow on, at random."""
    order = np.random.default_rng(repeat).permutation(len(y))
    train, test = np.split(order, [round(2 * len(y) / 3)])
    return Split(X[train], y[train], X[test], y[test])


def drawn(generator, repeat: int) -> Split:
    """Fresh instances."""
    X, y = map(np.asarray, generator.draw(jax.random.key(repeat), N_TRAIN + N_TEST))
    return Split(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])

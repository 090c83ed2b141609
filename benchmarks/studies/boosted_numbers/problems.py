"""The problems of the study: fifteen that the law was made on, and those of `benchmarks.studies.regression` besides."""

from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.studies.regression import problems
from benchmarks.studies.regression.problems import MOST_ROWS, Rows


def _noise_apart(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Noise that depends on columns that the mean does not read."""
    return y + rng.normal(size=len(y)) * np.where((X[:, 7] > 0.5) & (X[:, 8] > 0.4), 4.0, 0.5)


def _heavy_tails(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y + rng.standard_t(3, len(y)) * (0.3 + 2 * X[:, 1])


def _prices(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Noise that grows with the target."""
    return np.exp(y / 6 + 0.3 * rng.normal(size=len(y)))


DRAWN: dict[str, tuple[int, Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]]] = {
    "noise apart": (11, _noise_apart),
    "heavy tails": (12, _heavy_tails),
    "prices": (13, _prices),
}
"""{problem: its seed, and its target of friedman1's columns and mean}."""
MADE_ON = (
    "friedman1",
    "friedman3",
    "uneven noise",
    "skewed noise",
    "counts",
    "two peaks",
    "diabetes progression",
    "electricity",
    "pendigits",
    "spambase",
    "waveform-5000",
    "wine-quality-red",
    *DRAWN,
)
FRESH = tuple(name for name in problems.PROBLEMS if name not in MADE_ON)
LOPSIDED = ("skewed noise", "counts", "two peaks", "prices", "mostly zero")
"""Drawn problems whose target is not symmetric about its mean."""


def rows_of(name: str, folder: str | None = None) -> Rows:
    """Return a problem's rows, 2000 at most."""
    if name not in DRAWN:
        return problems.rows_of(name, folder)
    seed, target = DRAWN[name]
    X, y = make_friedman1(MOST_ROWS, noise=0.0, random_state=seed)
    return Rows(np.asarray(X, np.float32), target(np.random.default_rng(seed), X, y))

"""The regression problems of the study: nine drawn ones or of scikit-learn, and numeric columns of data sets.

Of a data set the target is the numeric column with the most distinct values (the first of these); all other numeric
columns are its features, and the class is none. A set takes part if it has 400 rows, five to 100 numeric columns
without missing values, and 100 distinct values of that column. Column `SKIPPED` is an identifier, and is passed over.
"""

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

from benchmarks.data import Rows, load

MOST_ROWS, LEAST_ROWS, LEAST_VALUES, COLUMNS = 2000, 400, 100, (5, 100)
SKIPPED = "ZIP_Code"


def _friedman1(
    seed: int, noise: float, target: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
) -> Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]:
    """What draws friedman1's columns, and a target of them and its own."""
    X, y = make_friedman1(MOST_ROWS, noise=noise, random_state=seed)
    return lambda rng: (X, target(rng, X, y))


DRAWN: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "friedman1": _friedman1(6, 1.0, lambda rng, X, y: y),
    "friedman2": lambda rng: make_friedman2(MOST_ROWS, noise=80.0, random_state=7),
    "friedman3": lambda rng: make_friedman3(MOST_ROWS, noise=0.15, random_state=8),
    "uneven noise": _friedman1(1, 1.0, lambda rng, X, y: y + rng.normal(size=len(y)) * (1 + 3 * X[:, 0])),
    "skewed noise": _friedman1(2, 0.0, lambda rng, X, y: y * rng.gamma(2.0, 0.5, len(y))),
    "counts": _friedman1(3, 0.0, lambda rng, X, y: rng.poisson(np.exp(2 * X[:, 1])).astype(float)),
    "mostly zero": _friedman1(4, 1.0, lambda rng, X, y: np.where(rng.random(len(y)) < 0.7, 0.0, np.exp(y / 5))),
    "two peaks": _friedman1(5, 1.0, lambda rng, X, y: y + 10 * (rng.random(len(y)) < X[:, 1])),
    "diabetes progression": lambda rng: load_diabetes(return_X_y=True),
}
OF_SETS = (
    *("bankLoan", "banknote", "biodeg", "climate", "credit-g", "diabetes", "electricity", "forest-type", "page-blocks"),
    *("pendigits", "spambase", "vehicle-statlog", "vowel", "waveform-5000", "wdbc", "wine-quality-red"),
)
"""Those that the rule takes of the 70 sets of the studies, but for a second version of `banknote`."""
PROBLEMS = (*DRAWN, *OF_SETS)


def rows_of(name: str, folder: str | None = None) -> Rows:
    """Return a problem's rows, 2000 at most, in an order that is drawn once."""
    rng = np.random.default_rng(PROBLEMS.index(name))
    X, y = DRAWN[name](rng) if name in DRAWN else column_of(name, folder)
    order = rng.permutation(len(y))[:MOST_ROWS]
    return Rows(np.asarray(X[order], np.float32), np.asarray(y[order], float))


def column_of(name: str, folder: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numeric columns of a data set but one, and that one."""
    data = load(name, folder)
    kept = ~data.nominal & ~np.isnan(data.X).any(axis=0) & (np.array(data.feature_names) != SKIPPED)
    X = data.X[:, kept]
    distinct = [len(np.unique(column)) for column in X.T]
    at = int(np.argmax(distinct))
    if len(X) < LEAST_ROWS or not COLUMNS[0] <= X.shape[1] + 1 <= COLUMNS[1] or distinct[at] < LEAST_VALUES:
        raise ValueError(f"{name} has {X.shape} numeric columns, the richest of {distinct[at]} values: not a problem.")
    return np.delete(X, at, axis=1), X[:, at]

"""The jobs of the study: what is to be told from the rest, in new rows and in labels, and how well a doubt does it."""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.cells import fold
from benchmarks.studies.doubt.doubts import LEAVES, Fitted, beside, beside_labels, of_labels, of_rows

SHARES = (0.05, 0.1, 0.2)
MEASURES = ("AUROC", "average precision", *(f"gain at {share:.0%}" for share in SHARES), "share")
"""Of the rows that are to be told; the last is how many of all rows they are."""
FEWEST = 5
"""Rows that are to be told from the rest, below which a problem is left out."""
UNLIKE = 0.2
"""The share of rows that are unlike the training rows."""
FAR, DISTINCT = 3, 10
"""Standard deviations that far rows lie off, in columns of more than so many different numbers."""
WRONG = (0.05, 0.1)
"""The shares of wrong labels."""
LEARNED = (0.1, 1)
"""The share of wrong labels, and the least rows of a leaf, where the pool is learned."""


class Rows(NamedTuple):
    """A data set as it is run."""

    X: np.ndarray
    y: np.ndarray
    nominal: np.ndarray
    """Whether a column is nominal, ``[features]``."""


class Problem(NamedTuple):
    """Rows among all that doubts are of, and which of them are to be told from the rest."""

    rows: np.ndarray
    positive: np.ndarray


Found = dict[str, dict[str, list[float]]]
"""{problem: {doubt: `MEASURES`}}"""


def run_job(job: Callable[[Any, int], dict], data: Any, repeat: int) -> tuple[dict, float]:
    """What a job finds, by one thread and without warnings, and its seconds of processor time."""
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        found = job(data, repeat)
    return found, round(time.process_time() - start, 1)


def measures(doubt: np.ndarray, positive: np.ndarray) -> list[float]:
    """`MEASURES` of a doubt; rows of equal doubt stand in random order, and areas and gains are means over it."""
    doubt = np.round(np.asarray(doubt, float), 6)  # or the last bit would order rows
    _, place = np.unique(-doubt, return_inverse=True)
    rows, told = (np.cumsum(np.bincount(place, each)) for each in (None, positive))
    others, n = rows - told, int(positive.sum())
    area = np.trapezoid([0, *told], [0, *others]) / (n * (len(doubt) - n))
    precision = np.sum(np.diff(told, prepend=0) * told / rows) / n
    gains = [np.interp(share * len(doubt), [0, *rows], [0, *told]) / n for share in SHARES]
    return [round(float(value), 4) for value in (area, precision, *gains, n / len(doubt))]


def add(found: Found, problems: dict[str, Problem], doubts: dict[str, np.ndarray]) -> None:
    """Take what doubts do of problems into what is there of them; those with too few rows to tell are left out."""
    for name, (rows, positive) in problems.items():
        if min(positive.sum(), (~positive).sum()) >= FEWEST:
            of = {doubt: measures(values[rows], positive) for doubt, values in doubts.items()}
            found.setdefault(name, {}).update(of)


def run_rows(data: Rows, repeat: int) -> Found:
    """Wrong answers, and rows unlike the training rows: half of the rows train, and the other half is asked."""
    train, test = fold(data, 2, repeat)
    X, y, found = data.X[train], data.y[train], {}
    rng = np.random.default_rng(repeat)
    forests = [Fitted(X, y, leaf, repeat) for leaf in LEAVES]
    asked, problems = with_unlike(data._replace(X=data.X[test]), X, forests[0].model.feature_importances_, rng)
    new = np.arange(len(test))
    for fitted in forests:
        answers, doubts = of_rows(fitted, asked, learns=fitted.leaf == 1)
        wrong = {"answers": Problem(new, answers[new] != data.y[test])}
        # The answers of each forest are its own, and what has no forest is asked of those of the first.
        others = beside(X, asked, data.nominal, repeat) if fitted.leaf == 1 else {}
        add(found, wrong | problems, doubts | others)
    if data.y.max() > 1:
        _without_class(data, train, test, repeat, found)
    return found


def with_unlike(
    data: Rows, X: np.ndarray, importances: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, Problem]]:
    """New rows and altered ones beneath them, and the problems of telling these from the new rows that are not altered.

    ``data.X`` are the new rows, X those that train.
    """
    new = data.X
    bases, usual = np.split(rng.permutation(len(new)), [round(UNLIKE * len(new))])
    shuffled = np.stack([column[rng.permutation(len(new))] for column in new.T], axis=1)
    column = int(np.argmax(importances))
    by_name = {"a column": new[bases].copy(), "all columns": shuffled[bases]}
    by_name["a column"][:, column] = shuffled[bases, column]
    numbers = [j for j in np.flatnonzero(~data.nominal) if len(np.unique(X[:, j])) > DISTINCT]
    if numbers:
        far = new[bases].copy()
        far[:, numbers] += FAR * np.nanstd(X[:, numbers], axis=0) * rng.choice([-1, 1], (len(bases), len(numbers)))
        by_name["far out"] = far.astype(np.float32)
    asked, problems, start = [new], {}, len(new)
    for name, altered in by_name.items():
        differs = ~((altered == new[bases]) | (np.isnan(altered) & np.isnan(new[bases]))).all(axis=1)
        rows = np.concatenate([usual, start + np.flatnonzero(differs)])
        problems[name] = Problem(rows, rows >= start)
        asked.append(altered)
        start += len(altered)
    return np.concatenate(asked), problems


def _without_class(data: Rows, train: np.ndarray, test: np.ndarray, repeat: int, found: Found) -> None:
    """Add the problem of a class that no training row has: the second largest."""
    absent = np.argsort(-np.bincount(data.y), kind="stable")[1]
    train = train[data.y[train] != absent]
    usual, unlike = (test[(data.y[test] == absent) == is_absent] for is_absent in (False, True))
    most = round(UNLIKE / (1 - UNLIKE) * len(usual))
    rows = np.concatenate([usual, np.random.default_rng(repeat).permutation(unlike)[:most]])
    problem = {"a class": Problem(np.arange(len(rows)), data.y[rows] == absent)}
    X, y = data.X[train], np.unique(data.y[train], return_inverse=True)[1]
    for leaf in LEAVES:
        add(found, problem, of_rows(Fitted(X, y, leaf, repeat), data.X[rows], learns=False)[1])
    add(found, problem, beside(X, data.X[rows], data.nominal, repeat))


def run_labels(data: Rows, repeat: int) -> Found:
    """Wrong labels among all rows, asked out of bag: uniform in the first repeat, by class in the second."""
    found: Found = {}
    for share in WRONG:
        rng = np.random.default_rng(round(1000 * share) + repeat)
        given = (of_any_class if repeat == 0 else of_the_next_class)(data.y, share, rng)
        name = f"{('uniform', 'by class')[repeat]}, {share:.0%}"
        problem = {name: Problem(np.arange(len(given)), given != data.y)}
        for leaf in LEAVES:
            add(found, problem, of_labels(Fitted(data.X, given, leaf, repeat), learns=(share, leaf) == LEARNED))
        add(found, problem, beside_labels(data.X, given, data.nominal, repeat))
    return found


def of_any_class(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of which a share has any other class, each alike."""
    given, rows = y.copy(), rng.permutation(len(y))[: round(share * len(y))]
    given[rows] = (y[rows] + rng.integers(1, y.max() + 1, len(rows))) % (y.max() + 1)
    return given


def of_the_next_class(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of which a share is that of the next smaller class: rows of the largest class, the third largest, …"""
    order = np.argsort(-np.bincount(y), kind="stable")
    of = dict(zip(order[::2], order[1::2], strict=False))
    rows = rng.permutation(np.flatnonzero(np.isin(y, list(of))))[: round(share * len(y))]
    given = y.copy()
    given[rows] = [of[label] for label in y[rows]]
    return given

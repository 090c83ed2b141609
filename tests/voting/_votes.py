"""Votes, and the stopping rule as the paper writes it: a loop over instances and trees in float64."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import betainc
from scipy.stats import betabinom
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.voting import StoppingResult
from jaxunc.voting._leader_probability import leader_probability
from tests._forests import forest_of_leaves


def same(found, expected, *further: str) -> None:
    """Assert that two results hold the same, and in these further fields."""
    for name in (*StoppingResult._fields, *further):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def rows_of(result, rows) -> StoppingResult:
    """The result for some of the instances."""
    return StoppingResult(*(np.asarray(getattr(result, name))[rows] for name in StoppingResult._fields))


def drawn_votes(rng, n: int, n_trees: int, n_classes: int, abstaining: float = 0.0) -> np.ndarray:
    """Votes ``[instances trees]``: some instances are clear, some doubtful, some tied from end to end.

    A share of the votes are abstentions; if any, the last instance has nothing else.
    """
    p = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    votes = np.array([rng.choice(n_classes, size=n_trees, p=row) for row in p])
    votes[: n // 10] = np.arange(n_trees) % 2
    if abstaining:
        votes[rng.random(votes.shape) < abstaining] = -1
        votes[-1] = -1
    return votes.astype(np.int32)


@lru_cache
def grown_forest() -> tuple[ju.Forest, np.ndarray]:
    """A forest on data with missing values, and instances."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > rng.normal(size=1500) / 3).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = RandomForestClassifier(80, min_samples_leaf=3, random_state=0).fit(X[:500], y[:500])
    return ju.from_sklearn(model), X[500:]


def forest_of_votes(votes: np.ndarray, n_classes: int):
    """A forest whose trees vote so, and its instances; leaves of trees that abstain are empty, or wholly tied."""
    counts = np.where(votes[..., None] < 0, 0, 2 * np.eye(n_classes)[votes] + 1)
    counts[::2][votes[::2] < 0] = 3
    return forest_of_leaves(counts)


def naive(votes, n_classes: int, confidence: float, settled) -> StoppingResult:
    """The result of a loop; ``settled(counts, t)`` says when to stop."""
    found = []
    for row in votes:
        counts, done = np.zeros(n_classes, int), False
        for t, vote in enumerate(row, start=1):
            counts[vote] += vote >= 0
            if done := bool(settled(counts, t)):
                break
        found.append((t, counts.argmax(), done, counts))
    return StoppingResult(*(np.array(column) for column in zip(*found, strict=True)))


def finite_loss(counts, t: int, n_trees: int, alpha=1.0) -> float:
    """The sum over rivals of the probability of being ahead at the end, by all that the other trees may say."""
    alpha, rest, leader = np.broadcast_to(alpha, len(counts)), n_trees - t, counts.argmax()
    shape, lost, k = counts + alpha, 0.0, np.arange(rest + 1)
    for rival in range(len(counts)):
        if rival == leader:
            continue
        others = shape.sum() - shape[leader] - shape[rival] + t - counts.sum()  # those who abstain among them
        for m in range(rest + 1):
            of_m = betabinom.pmf(m, rest, shape[leader] + shape[rival], others) if others else float(m == rest)
            lead = counts[leader] - counts[rival] + m - 2 * k
            ahead = (k <= m) & ((lead < 0) | ((lead == 0) & (rival < leader)))
            lost += of_m * betabinom.pmf(k, m, shape[rival], shape[leader])[ahead].sum()
    return lost


def settled_by(n_trees: int, confidence: float, criterion="bound", population="infinite", prior=1.0) -> Callable:
    """When a rule stops, for `naive`."""

    def settled(counts, t: int) -> bool:
        last, top = np.sort(counts)[-2:]
        if criterion == "certain":
            return top - last > n_trees - t
        if population == "finite":
            return top > last and finite_loss(counts, t, n_trees, prior) < 1 - confidence
        if criterion == "exact":
            leading, alpha = (counts[None], counts[None].sum(axis=1), 0), np.full(len(counts), prior)
            return top > last and leader_probability(*leading, "exact", "infinite", alpha)[0] > confidence
        shape, leader = counts + np.broadcast_to(prior, len(counts)), counts.argmax()
        return np.prod(betainc(np.delete(shape, leader), shape[leader], 0.5)) > confidence  # Eq. 8

    return settled

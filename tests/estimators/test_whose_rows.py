"""Whose rows may speak: on pure noise, whatever is wrong with the rows, an answer is honest, warned of, or refused.

One table of estimators, counts, forests, weights and faults of the rows.
"""

import warnings
import zlib
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier

pytestmark = [pytest.mark.once, pytest.mark.room]

N, LEAF, TREES, RARE = 400, 10, 50, 0.15
CLOSE = 0.02
"""Log loss above that of the classes' shares, or of the forest itself, that is honest."""


def random_forest(**settings: Any) -> Any:
    return RandomForestClassifier(TREES, min_samples_leaf=LEAF, random_state=0, **settings)


def extra_trees(**settings: Any) -> Any:
    return ExtraTreesClassifier(TREES, min_samples_leaf=LEAF, random_state=0, **settings)


FORESTS: dict[str, Any] = {
    "random forest": random_forest,
    "random forest of half samples": lambda: random_forest(max_samples=0.5),
    "random forest, balanced": lambda: random_forest(class_weight="balanced"),
    "random forest, balanced_subsample": lambda: random_forest(class_weight="balanced_subsample"),
    "random forest, weighted classes": lambda: random_forest(class_weight={0: 1.0, 1: 3.0}),
    "random forest, classes weighted alike": lambda: random_forest(class_weight={0: 1.0, 1: 1.0}),
    "extra trees": extra_trees,
    "extra trees with bags": lambda: extra_trees(bootstrap=True),
    "bag of trees": lambda: BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=LEAF), TREES, random_state=0),
}
WEIGHTS: dict[str, Any] = {
    "none": lambda y, rng: None,
    "ones": lambda y, rng: np.ones(len(y)),
    "twos": lambda y, rng: np.full(len(y), 2.0),
    "some": lambda y, rng: rng.uniform(0.5, 1.5, len(y)),
    "by class": lambda y, rng: np.where(y == 1, 8.0, 1.0),
}
COPIES: dict[str, Any] = {
    "each twice": lambda y, rng: np.tile(np.arange(N), 2),
    "each three times": lambda y, rng: np.repeat(np.arange(N), 3),
    "oversampled, rare": lambda y, rng: np.r_[:N, rng.choice(np.flatnonzero(y), N - 2 * np.sum(y))],
    "joined": lambda y, rng: np.repeat(np.arange(N), rng.integers(1, 4, N)),
    "some copied": lambda y, rng: np.r_[:N, rng.integers(0, N, N // 3)],
}
"""Rows that a forest is fitted to, of a sample."""
HELD_OUT: dict[str, Any] = {
    "others": lambda rng: np.arange(N, 2 * N),
    "the sample": lambda rng: np.arange(N),
    "the sample, shuffled": lambda rng: rng.permutation(N),
    "the sample, each twice": lambda rng: np.repeat(np.arange(N), 2),
    "the sample, twice, shuffled": lambda rng: rng.permutation(np.tile(np.arange(N), 2)),
    "half of the sample": lambda rng: rng.permutation(N)[: N // 2],
    "the sample, with others": lambda rng: rng.permutation(2 * N),
}
"""Rows that are given as held out: of the sample, and of as many others."""
RIGHT = ("nothing", "nothing, rare", "others")
FAULTS = ("nothing", "nothing, rare", *COPIES, *HELD_OUT)
UNSEEN = {("extra trees with bags", fault) for fault in ("half of the sample", "the sample, shuffled")}
"""What cannot always be seen, as `oob_dataset` says: where tests are random, and trees have bags."""

NAMED = ("repeat others", "in every tree's bag", "rows of class", "Pass rows that were held out", "not the rows")
"""Words of which a refusal or a warning has some that names what is wrong with the rows."""
IMPOSSIBLE = ("needs a forest with bags", "bootstrap=False")
"""Words that refuse counts that no such forest has."""

CELLS = [
    (forest, weights, fault)
    for forest, weights, fault in product(FORESTS, WEIGHTS, FAULTS)
    if weights == "none" or fault not in HELD_OUT
]


class Ended(NamedTuple):
    how: str
    said: str


MADE: dict[str, Any] = {
    "default": CombinedForestClassifier,
    "learned": partial(CombinedForestClassifier, combiner="learned"),
    "mean": partial(CombinedForestClassifier, combiner="mean"),
    "cautious": CautiousForestClassifier,
}
FITTED = [("default", "inbag"), ("learned", "inbag"), ("mean", "inbag"), ("mean", "train"), ("mean", "oob")]
FITTED += [("cautious", "train"), ("cautious", "oob")]
APART = ("learned", "mean", "cautious")


def loss(shares: Any, probs: np.ndarray) -> float:
    return float(-(np.asarray(shares) * np.log(np.clip(probs, 1e-12, 1))).sum(axis=-1).mean())


def ended(classifier: Any, data: tuple, weight: Any, fresh: np.ndarray, own: np.ndarray) -> Ended:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = classifier.fit(*data, sample_weight=weight)
        except (ValueError, TypeError) as error:
            if any(words in str(error) for words in IMPOSSIBLE):
                return Ended("impossible", str(error))
            return Ended("refused" if any(words in str(error) for words in NAMED) else "wrong", str(error))
    said = " ".join(str(one.message) for one in caught)
    if any(words in said for words in NAMED):
        return Ended("warned", said)
    probs, y = fitted.predict_proba(fresh), data[1]
    # A rule answers for the classes' shares among the rows, as they are, or as rows and classes are weighed.
    shares = [np.bincount(y, one, 2) for one in (None, weight, np.where(y == 1, 3.0, 1.0))]
    shares += [np.ones(2), np.array([1.0, 3.0])]  # of balanced classes, and of those that weights weigh once more
    shares = [one / one.sum() for one in shares]
    above = min(loss(one, probs) - max(loss(one, one), loss(one, own)) for one in shares)
    return Ended("honest" if above <= CLOSE else "wrong", f"log loss {above:.3f} above; {said}")


def cell(forest: str, weights: str, fault: str, rng: np.random.Generator) -> dict[str, Ended]:
    """All estimators and counts of a forest, weights and a fault."""
    X = rng.normal(size=(2 * N, 5)).astype(np.float32)
    y = (rng.random(2 * N) < (RARE if "rare" in fault else 0.5)).astype(int)
    rows = COPIES[fault](y[:N], rng) if fault in COPIES else np.arange(N)
    weight, fresh = WEIGHTS[weights](y[rows], rng), rng.normal(size=(500, 5)).astype(np.float32)
    model = FORESTS[forest]().fit(X[rows], y[rows], sample_weight=weight)
    own, known, found = model.predict_proba(fresh), FrozenEstimator(model), {}
    if fault in HELD_OUT:
        given = HELD_OUT[fault](rng)
        for name in APART:
            made = MADE[name](known, counts="held_out", random_state=0)
            found[name] = ended(made, (X[given], y[given]), None, fresh, own)
        return found
    asked = [(name, counts, known) for name, counts in FITTED]
    for name, counts, grown in (*asked, *((name, "held_out", FORESTS[forest]()) for name in APART)):
        made = MADE[name](grown, counts=counts, random_state=0)
        found[f"{name}, {counts}"] = ended(made, (X[rows], y[rows]), weight, fresh, own)
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize(("forest", "weights", "fault"), CELLS)
def test_rows_of_noise(forest, weights, fault):
    # The same noise whenever a cell is tried. With few rows of a class a loss is beyond its bound by chance in one of
    # some hundred draws; what has seen its own rows is so in all.
    seed = zlib.crc32(f"{forest}, {weights}, {fault}".encode())
    for draw in range(3):
        found = cell(forest, weights, fault, np.random.default_rng(seed + draw))
        wrong = {name: end for name, end in found.items() if end.how == "wrong" and (forest, fault) not in UNSEEN}
        if not wrong:
            break
    assert not wrong, f"{forest}, {weights}, {fault}: {wrong}"
    # Bags that are drawn by the weights of classes are a fault of the rows, too.
    if fault in RIGHT and not (fault == "nothing, rare" or "class" in weights or "balanced" in forest):
        told = {name: end for name, end in found.items() if end.how in ("refused", "warned")}
        assert not told, f"{forest}, {weights}, {fault}: nothing is wrong with these rows: {told}"

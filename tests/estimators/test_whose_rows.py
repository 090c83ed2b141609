"""Whose rows may speak: on pure noise, whatever is wrong with the rows, an answer is honest, warned of, or refused.

One table of estimators, counts, forests, weights and faults of the rows. ``JAXUNC_TEST_SEED`` draws the part of it that
always runs.
"""

import os
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:Could not find the number of physical cores")]

SEED = int(os.environ.get("JAXUNC_TEST_SEED", np.random.SeedSequence().entropy % 2**32))
LEAF, N, RARE = 10, 400, 0.15
CLOSE = 0.02

FORESTS: dict[str, Any] = {
    "random forest": lambda **how: RandomForestClassifier(60, min_samples_leaf=LEAF, random_state=0, **how),
    "random forest, max_samples": lambda: FORESTS["random forest"](max_samples=0.5),
    "random forest, balanced": lambda: FORESTS["random forest"](class_weight="balanced"),
    "random forest, balanced_subsample": lambda: FORESTS["random forest"](class_weight="balanced_subsample"),
    "random forest, weights by class": lambda: FORESTS["random forest"](class_weight={0: 1.0, 1: 3.0}),
    "random forest, equal weights by class": lambda: FORESTS["random forest"](class_weight={0: 1.0, 1: 1.0}),
    "extra trees": lambda **how: ExtraTreesClassifier(60, min_samples_leaf=LEAF, random_state=0, **how),
    "extra trees, bootstrap": lambda: FORESTS["extra trees"](bootstrap=True),
    "bag of trees": lambda: BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=LEAF), 60, random_state=0),
}
WEIGHTS: dict[str, Any] = {
    "none": lambda y, rng: None,
    "ones": lambda y, rng: np.ones(len(y)),
    "twos": lambda y, rng: np.full(len(y), 2.0),
    "some": lambda y, rng: rng.uniform(0.5, 1.5, len(y)),
    "by class": lambda y, rng: np.where(y == 1, 8.0, 1.0),
}


class Rows(NamedTuple):
    """Rows that a forest is fitted to, and rows that are given as held out, if any."""

    X: np.ndarray
    y: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray] | None = None


def noise(rng: np.random.Generator, n: int, share: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, 5)).astype(np.float32), (rng.random(n) < share).astype(int)


def of_rows(fault: str, rng: np.random.Generator) -> Rows:
    """Noise, with the fault."""
    X, y = noise(rng, N, RARE if "rare" in fault else 0.5)
    copied = {
        "each twice": lambda: np.tile(np.arange(N), 2),
        "each three times": lambda: np.repeat(np.arange(N), 3),
        "oversampled, rare": lambda: np.r_[:N, rng.choice(np.flatnonzero(y), N - 2 * np.sum(y))],
        "joined": lambda: np.repeat(np.arange(N), rng.integers(1, 4, N)),
        "some copied": lambda: np.r_[:N, rng.integers(0, N, N // 3)],
    }
    rows = copied[fault]() if fault in copied else np.arange(N)
    fresh = noise(rng, N)
    held_out: dict[str, Any] = {
        "fresh": lambda: fresh,
        "training": lambda: (X, y),
        "training, shuffled": lambda: take(X, y, rng.permutation(N)),
        "training, each twice": lambda: take(X, y, np.repeat(np.arange(N), 2)),
        "training, twice and shuffled": lambda: take(X, y, rng.permutation(np.tile(np.arange(N), 2))),
        "training, half of it": lambda: take(X, y, rng.permutation(N)[: N // 2]),
        "training, with others": lambda: tuple(map(np.concatenate, zip((X, y), fresh, strict=True))),
    }
    return Rows(X[rows], y[rows], held_out[fault]() if fault in held_out else None)


def take(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X[rows], y[rows]


FITTED = ("nothing", "nothing, rare", "each twice", "each three times", "oversampled, rare", "joined", "some copied")
HELD_OUT = ("fresh", "training", "training, shuffled", "training, each twice", "training, twice and shuffled")
HELD_OUT += ("training, half of it", "training, with others")
NAMED = ("repeat", "in every tree's bag", "of class", "were held out", "bag of tree")
"""Words of which a refusal or a warning has some that names what is wrong with the rows."""
IMPOSSIBLE = ("needs a forest with bags", "bootstrap=False", "was fitted with bootstrap")


def classifiers(held_out: bool) -> dict[str, Any]:
    """Estimators by name, of a forest."""
    made = {
        "learned": lambda forest, counts: CombinedForestClassifier(forest, "learned", counts=counts, random_state=0),
        "mean": lambda forest, counts: CombinedForestClassifier(forest, "mean", counts=counts, random_state=0),
        "cautious": lambda forest, counts: CautiousForestClassifier(forest, counts=counts, random_state=0),
        "default": lambda forest, counts: CombinedForestClassifier(forest, counts=counts, random_state=0),
    }
    of = {"learned": ("inbag",), "mean": ("inbag", "train", "oob"), "cautious": ("inbag", "train", "oob")}
    of |= {"default": ("inbag",)}
    if held_out:
        of = dict.fromkeys(("learned", "mean", "cautious"), ("held_out",))
    return {f"{name}, {counts}": (made[name], counts) for name, every in of.items() for counts in every}


def loss(shares: np.ndarray, probs: np.ndarray) -> float:
    """Log loss where labels are drawn by their shares, whatever the instance."""
    return float(-(np.asarray(shares) * np.log(np.clip(probs, 1e-12, 1))).sum(axis=-1).mean())


def judged(make: Any, model: Any, rows: tuple, weight: Any, fresh: np.ndarray, own: np.ndarray) -> tuple[str, str]:
    """How fitting a classifier ended ("refused", "impossible", "warned", "honest" or "wrong"), and what was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fitted = make(model).fit(*rows, sample_weight=weight)
        except (ValueError, TypeError) as error:
            if any(words in str(error) for words in IMPOSSIBLE):
                return "impossible", str(error)
            return "refused" if any(words in str(error) for words in NAMED) else "wrong", str(error)
    told = " ".join(str(one.message) for one in said)
    probs = fitted.predict_proba(fresh)
    share = np.bincount(rows[1], minlength=2) / len(rows[1])
    weighed = np.bincount(rows[1], weight, 2) / (len(rows[1]) if weight is None else weight.sum())
    # A rule answers for the classes' shares among the rows, as they are or as they are weighed.
    excess = min(
        loss(shares, probs) - max(loss(shares, shares), loss(shares, own))
        for shares in (
            share,
            weighed,
            [0.5, 0.5],
            [share[0] / (share[0] + 3 * share[1]), 3 * share[1] / (share[0] + 3 * share[1])],
        )
    )
    if any(words in told for words in NAMED):
        return "warned", f"{excess:.3f} {told}"
    return ("honest" if excess <= CLOSE else "wrong"), f"log loss {excess:.3f} above {told}"


def run(kind: str, weights: str, fault: str, seed: int) -> dict[str, tuple[str, str]]:
    """All estimators and counts of a forest, weights and a fault."""
    rng = np.random.default_rng(seed)
    rows = of_rows(fault, rng)
    weight = WEIGHTS[weights](rows.y, rng)
    fresh = noise(rng, 500)[0]
    how = {} if weight is None else {"sample_weight": weight}
    model = FORESTS[kind]().fit(rows.X, rows.y, **how)
    own, found = model.predict_proba(fresh), {}
    for name, (make, counts) in classifiers(rows.held_out is not None).items():
        given = (rows.X, rows.y) if rows.held_out is None else rows.held_out
        weighed = weight if rows.held_out is None else None
        found[name] = judged(
            lambda one, make=make, counts=counts: make(FrozenEstimator(one), counts), model, given, weighed, fresh, own
        )
    if rows.held_out is None:
        for name, (make, counts) in classifiers(True).items():
            found[f"{name} of the fit"] = judged(
                lambda one, make=make, counts=counts: make(one, counts),
                FORESTS[kind](),
                (rows.X, rows.y),
                weight,
                fresh,
                own,
            )
    return found

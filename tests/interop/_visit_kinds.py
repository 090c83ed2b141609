"""What is visited of every library: the kinds of models, and rows of categories."""

from typing import Any

import numpy as np
import pandas as pd

from ._near_thresholds import near
from ._visits import CATEGORIES, N_RARE, N_WORDS, NUMBERS, Training, adversarial, thresholds

LEAST, ROWS, TREES = 10_000_000, 9000, 240
"""Visits of each library; rows and trees of each of its models."""
KINDS = {
    "plain": {},
    "missing": {"missing": True},
    "categories": {"missing": True, "categories": True},
    "classes": {"missing": True, "categories": True, "classes": 3},
    "stopped": {"missing": True, "stops": True},
    "weights": {"missing": True, "weights": True, "classes": 3},
}
EARLY, ROUNDS = 30, 400


def each(visit) -> None:
    """Visit models of all kinds."""
    assert_enough({name: visit(**kind) for name, kind in KINDS.items()})


def assert_enough(found: dict[Any, tuple[int, int]]) -> None:
    """There are enough visits, of which none is wrong."""
    visits, wrong = (sum(one) for one in zip(*found.values(), strict=True))
    print(f"{visits} leaves visited, {wrong} wrong: {found}")
    assert wrong == 0, found
    assert visits >= LEAST


def rounds(classes: int, stops: bool) -> int:
    return ROUNDS if stops else TREES // (classes if classes > 2 else 1)


def halves(data: Training) -> tuple[slice, slice]:
    return slice(0, len(data.X) * 2 // 3), slice(len(data.X) * 2 // 3, None)


def codes(n: int, unseen: tuple) -> dict[int, list]:
    """The codes of categories, and others."""
    return {5: [*range(N_RARE), *unseen], 6: [*range(N_WORDS), *unseen, np.nan]} if n > 5 else {}


def framed(X: np.ndarray) -> pd.DataFrame:
    """Categories as words."""
    words = {name: [f"w{code:.0f}" for code in X[:, 5 + j]] for j, name in enumerate(CATEGORIES)}
    return pd.DataFrame(X[:, :5], columns=NUMBERS).assign(**words)


def adversarial_numbers(trees) -> np.ndarray:
    return adversarial(trees, ROWS, 4)[:, :5]


def drawn(codes_of: dict[int, list]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.stack([rng.choice(np.array(values, float), ROWS) for values in codes_of.values()], axis=1)


def adversarial_of(trees, kind) -> np.ndarray:
    """Rows for random trees of treelite's tests."""
    return near(thresholds(trees), ROWS, np.random.default_rng(11), kind)

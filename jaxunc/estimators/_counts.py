"""Which instances the counts of the leaves are taken from."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from jaxunc._checks import check_one_of
from jaxunc.forest import Forest
from jaxunc.interop import from_sklearn, oob_mask
from jaxunc.routing import recount

COUNTS = ("inbag", "train", "oob", "calibration")


class PureLeavesWarning(UserWarning):
    """Every leaf holds one class alone, so that its counts cannot tell how uncertain it is."""


class Counted(NamedTuple):
    """A forest with the counts that were asked for."""

    forest: Forest
    mask: np.ndarray | None
    """Which trees an instance was counted in, if not in all: ``[instances trees]``."""


def check_counts_mode(counts: str, model, *, has_data: bool = True) -> None:
    """Raise a ValueError unless the forest can have such counts, before the work of fitting it."""
    check_one_of("counts", counts, COUNTS)
    if counts != "inbag" and not has_data:
        raise ValueError(
            f"counts={counts!r} needs data, but the forest came fitted and fit was given none: call fit(X, y) with "
            + ("other instances." if counts == "calibration" else "those that it was fitted on.")
        )
    if counts == "oob" and hasattr(model, "n_estimators") and not getattr(model, "bootstrap", False):
        raise ValueError(
            f"counts='oob' needs trees that leave instances out, but {type(model).__name__} has bootstrap=False. "
            "Set bootstrap=True, or take counts='calibration'."
        )
    if counts == "oob" and not hasattr(model, "n_estimators"):
        raise ValueError(
            f"counts='oob' needs a bootstrapped forest, and {type(model).__name__} has no bags. "
            "Take counts='calibration', or a RandomForestClassifier."
        )


def calibration_split(X, y, sample_weight, size, random_state):
    """(fitting part, calibration part), each of X, y and weights; by class where every class has two instances."""
    if not 0 < size < 1:
        raise ValueError(f"calibration_size={size} must lie between 0 and 1: it is the share that is only counted.")
    stratify = y if np.unique(y, return_counts=True)[1].min(initial=2) >= 2 else None
    parts = np.arange(len(y))
    try:
        fitted, counted = train_test_split(parts, test_size=size, stratify=stratify, random_state=random_state)
    except ValueError:  # too few instances for one of every class in both parts
        fitted, counted = train_test_split(parts, test_size=size, random_state=random_state)
    take = lambda rows: (X[rows], y[rows], None if sample_weight is None else sample_weight[rows])  # noqa: E731
    return take(fitted), take(counted)


def counted_forest(model, counts: str, X, y, sample_weight) -> Counted:
    """The forest of a fitted model with counts of these instances (of none of them: in-bag)."""
    forest = from_sklearn(model)
    if counts == "inbag":
        if all_leaves_pure(forest):
            warnings.warn(
                "every leaf of this forest holds one class alone, since its trees were grown until they did: scores "
                "read from the counts of that sample are overconfident, and no rule can tell a sure leaf from a lucky "
                "one. Take counts='oob' or 'calibration', or larger leaves (min_samples_leaf).",
                PureLeavesWarning,
                stacklevel=3,
            )
        return Counted(forest, None)
    mask = oob_mask(model, len(y)) if counts == "oob" else None
    return Counted(recount(forest, X, y, sample_weight=sample_weight, mask=mask), mask)


def all_leaves_pure(forest: Forest) -> bool:
    """Whether no leaf holds two classes."""
    return bool(np.all(np.sum(np.asarray(forest.count_table) > 0, axis=1) <= 1))

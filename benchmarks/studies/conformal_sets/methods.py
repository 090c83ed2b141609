"""Ways to conformal sets that the study compares: the library's estimators, MAPIE and crepes, from the same forests."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from benchmarks.studies.learning.methods import filled
from jaxunc.estimators import CombinedForestClassifier

N_TREES, HELD_OUT, PROMISE = 100, 0.25, 0.9


class Fitted(NamedTuple):
    """A classifier of the library, what its sets are calibrated with, and by what name it goes."""

    name: str
    model: CombinedForestClassifier
    calibration: Any


def fitted(X: np.ndarray, y: np.ndarray, seed: int) -> list[Fitted]:
    """Return the learned pool and the mean of one forest, calibrated out of bag, and the mean of one held out from."""
    whole = FrozenEstimator(RandomForestClassifier(N_TREES, random_state=seed).fit(X, y))
    fit, held = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)
    part = FrozenEstimator(RandomForestClassifier(N_TREES, random_state=seed).fit(X[fit], y[fit]))
    return [
        Fitted("learned, oob", CombinedForestClassifier(whole, "learned").fit(X, y), None),
        Fitted("mean, oob", CombinedForestClassifier(whole, "mean").fit(X, y), (X, y)),
        Fitted("mean, held-out", CombinedForestClassifier(part, "mean").fit(), (X[held], y[held])),
    ]


def sets_of(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the sets of all methods ``[rows classes]``; those by class are missing where the library refuses them."""
    found: dict[str, np.ndarray] = {}
    models = fitted(X, y, seed)
    for name, model, calibration in models:
        for by_class in (False, True):
            try:
                how = {"coverage": PROMISE, "by_class": by_class, "calibration": calibration}
                found[name + ", by class" * by_class] = model.predict_set(X_test, **how)
            except ValueError as error:
                if not (by_class and "calibration rows of class" in str(error)):
                    raise
    _, model, (X_held, y_held) = models[-1]
    part = model.estimator_
    shares, own = part.predict_proba(X_test), part.predict_proba(X_held)
    found["MAPIE"] = _mapie(part, X_held, y_held, X_test)
    found["crepes"] = _crepes(own, y_held, shares, smoothing=True)
    found["crepes, unsmoothed"] = _crepes(own, y_held, shares, smoothing=False)
    found["crepes, by class"] = _crepes(own, y_held, shares, smoothing=True, by_class=True)
    for name in ("MAPIE", "crepes", "crepes, unsmoothed", "crepes, by class"):
        found[f"{name}, completed"] = filled(found[name], shares)
    return found


def _mapie(model: RandomForestClassifier, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    from mapie.classification import SplitConformalClassifier

    classifier = SplitConformalClassifier(model, confidence_level=PROMISE, conformity_score="lac", prefit=True)
    return np.asarray(classifier.conformalize(X, y).predict_set(X_test)[1][:, :, 0], bool)


def _crepes(
    own: np.ndarray, own_y: np.ndarray, shares: np.ndarray, *, smoothing: bool, by_class: bool = False
) -> np.ndarray:
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classes = np.arange(own.shape[1])
    classifier = ConformalClassifier().fit(hinge(own, classes, own_y), bins=own_y if by_class else None)
    how: dict[str, Any] = {"confidence": PROMISE, "smoothing": smoothing, "seed": 0}
    if not by_class:
        return np.asarray(classifier.predict_set(hinge(shares), **how), bool)
    of_class = (classifier.predict_set(hinge(shares), bins=np.full(len(shares), c), **how)[:, c] for c in classes)
    return np.stack([np.asarray(one, bool) for one in of_class], axis=1)

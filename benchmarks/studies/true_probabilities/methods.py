"""Problems whose probabilities are known: logistic models of normal predictors, and those of `benchmarks.problems`."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import jax
import numpy as np
from scipy.optimize import minimize, root_scalar
from scipy.special import expit, log_softmax
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from benchmarks.problems import GENERATORS

CORRELATION, TIMES_AS_STRONG = 0.4, 4.0
N_QUANTILES = 2000
"""Number of quantiles of a normal distribution that stand for it in integrals over log-odds."""


class Drawn(NamedTuple):
    """Instances, their classes, and the probabilities that the classes were drawn from."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


class Logistic(NamedTuple):
    """Log-odds that are linear in normal predictors of unit variance.

    The coefficients are equal, or those of the first quarter of the predictors are four times as large. They are scaled
    so that the true probabilities have the given AUC; the intercept gives the share of events.
    """

    n_features: int
    correlated: bool
    balanced: bool
    events: float
    true_auc: float

    @property
    def name(self) -> str:
        """Say which one it is."""
        kinds = ("correlated" if self.correlated else "independent", "equal" if self.balanced else "unequal")
        return "-".join((str(self.n_features), *kinds, f"{100 * self.events:.0f}", f"{100 * self.true_auc:.0f}"))

    def coefficients(self) -> np.ndarray:
        """Coefficients ``[features]``, without the intercept."""
        raw = np.ones(self.n_features)
        if not self.balanced:
            raw[: self.n_features // 4] = TIMES_AS_STRONG
        spread = np.sqrt(raw @ self.covariance() @ raw)
        return raw * spread_and_intercept(self.true_auc, self.events)[0] / spread

    def covariance(self) -> np.ndarray:
        """Covariance of the predictors ``[features features]``."""
        off = CORRELATION if self.correlated else 0.0
        return np.full((self.n_features, self.n_features), off) + (1 - off) * np.eye(self.n_features)

    def draw(self, seed: int, n: int) -> Drawn:
        """Draw n instances of it, of both classes at least two."""
        rng = np.random.default_rng([seed, n])
        X = rng.multivariate_normal(np.zeros(self.n_features), self.covariance(), n, method="cholesky")
        X = X.astype(np.float32)
        positive = expit(X.astype(float) @ self.coefficients() + spread_and_intercept(self.true_auc, self.events)[1])
        y = (rng.random(n) < positive).astype(np.int64)
        return Drawn(X, y, np.stack([1 - positive, positive], axis=1))


@cache
def spread_and_intercept(true_auc: float, events: float) -> tuple[float, float]:
    """Return the standard deviation and the mean of normal log-odds with this AUC and this share of events."""
    normal = norm.ppf((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)

    def intercept(spread: float) -> float:
        return root_scalar(lambda a: np.mean(expit(a + spread * normal)) - events, bracket=(-30, 30)).root

    def auc(spread: float) -> float:
        # Sorted already: an event outranks the non-events before it.
        positive = expit(intercept(spread) + spread * normal)
        before = np.cumsum(1 - positive) - 0.5 * (1 - positive)
        return float(np.sum(positive * before) / (positive.sum() * (1 - positive).sum()))

    spread = root_scalar(lambda s: auc(s) - true_auc, bracket=(0.01, 20)).root
    return spread, intercept(spread)


def draw_generated(name: str, seed: int, n: int) -> Drawn:
    """Draw n instances of a generator of `benchmarks.problems`."""
    generator = GENERATORS[name]
    X, y = generator.draw(jax.random.fold_in(jax.random.key(seed), n), n)
    truth = np.asarray(generator.posterior(X), float)
    return Drawn(np.asarray(X), np.asarray(y, np.int64), truth / truth.sum(axis=1, keepdims=True))


LOGISTIC = [
    Logistic((4, 16)[a], b == 1, c == 0, (0.5, 0.2)[d], (0.75, 0.9)[(a + b + c + d) % 2])
    for a, b, c, d in product((0, 1), repeat=4)
]
"""Logistic models of the study, half of 32: all of the first four factors, with the AUC that their parity picks."""
PROBLEMS: dict[str, Callable[[int, int], Drawn]] = {one.name: one.draw for one in LOGISTIC}
PROBLEMS |= {name: partial(draw_generated, name) for name in GENERATORS}
"""What draws from each problem, ``(seed, n)`` → `Drawn`."""


# How far estimated probabilities are from the true ones: no label takes part, and none adds its noise.

LEAST = 1e-6
"""Smaller estimates are taken for it in a log loss."""
LEAST_IN_SLOPE = 0.005
"""Smaller ones are taken for it in a slope: half of what one of 100 trees says. Forests of pure leaves say 0."""


def measures(estimate: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Measures of estimates ``[instances classes]`` for instances with these true probabilities.

    ``mae``, ``rmse``
        Mean absolute and root mean squared error, over instances and classes.
    ``log_loss``, ``excess``
        Expected over labels, -Σ_c p_c log q_c; and that less the entropy of the truth, a Kullback-Leibler divergence.
    ``slope``
        See `calibration_slope`.
    ``auc_loss``
        AUC of the truth less that of the estimate, expected over labels, one class against the rest.
    """
    off = estimate - truth
    loss = expected_log_loss(estimate, truth)
    return {
        "mae": float(np.mean(np.abs(off))),
        "rmse": float(np.sqrt(np.mean(off**2))),
        "log_loss": loss,
        "excess": loss - expected_log_loss(truth, truth),
        "slope": calibration_slope(estimate, truth),
        "auc_loss": expected_auc(truth, truth) - expected_auc(estimate, truth),
    }


def expected_log_loss(estimate: np.ndarray, truth: np.ndarray) -> float:
    """-Σ_c p_c log q_c, in the mean over instances; q at least `LEAST`."""
    return float(-np.mean(np.sum(truth * np.log(np.clip(estimate, LEAST, 1)), axis=1)))


def expected_auc(estimate: np.ndarray, truth: np.ndarray) -> float:
    """AUC where each instance is positive with its true probability and negative with the rest."""
    classes = [1] if truth.shape[1] == 2 else range(truth.shape[1])
    label = np.repeat([1, 0], len(truth))
    weights = {c: np.concatenate([truth[:, c], 1 - truth[:, c]]) for c in classes}
    areas = [roc_auc_score(label, np.tile(estimate[:, c], 2), sample_weight=of) for c, of in weights.items()]
    return float(np.mean(areas))


def observed_auc(estimate: np.ndarray, y: np.ndarray) -> float:
    """AUC of labels, one class against the rest."""
    return expected_auc(estimate, np.eye(estimate.shape[1])[y])


def calibration_slope(estimate: np.ndarray, truth: np.ndarray) -> float:
    """The a of softmax(a log q + b) that comes nearest the truth by expected log loss: below 1 if q is too sure.

    For two classes this is the slope of a logistic recalibration of the estimate's log-odds.
    """
    logs = np.log(np.clip(estimate, LEAST_IN_SLOPE, 1 - LEAST_IN_SLOPE))
    logs = logs - logs.mean(axis=1, keepdims=True)
    n_classes = truth.shape[1]

    def loss(numbers):
        """With its slope."""
        said = log_softmax(numbers[0] * logs + numbers[None, 1:], axis=1)
        off = (np.exp(said) - truth) / len(truth)
        return -np.mean(np.sum(truth * said, axis=1)), np.concatenate([[np.sum(off * logs)], off.sum(axis=0)])

    start = np.concatenate([[1.0], np.zeros(n_classes)])
    return float(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x[0])

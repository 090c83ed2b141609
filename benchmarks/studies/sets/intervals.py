"""Intervals of relative likelihood: of a leaf's class probabilities, and of probabilities that are moved.

Two kinds. A leaf's interval holds the probabilities of a class whose likelihood by the leaf's counts is at least alpha
times the greatest (the other classes as likely as can be). Decalibrated probabilities (Hofman et al. 2026, "Efficient
credal prediction through decalibration") move the logit of one class at a time for all rows together, as far as the
likelihood of labelled rows stays at least alpha times the greatest.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax, xlogy

STEPS, FARTHEST, LEAST = 40, 60.0, 1e-3
"""Halvings of a bisection; the largest shift of a logit; what probabilities are clipped to before their logarithm."""


def profile_lower(own: np.ndarray, rest: np.ndarray, alpha: float) -> np.ndarray:
    r"""Return the least p with own log(p/p̂) + rest log((1-p)/(1-p̂)) ≥ log alpha, where p̂ = own/(own + rest).

    It is the profile likelihood of a class of any number of classes: the others share the rest as the counts do. 0
    where the class has no instance, alpha^(1/n) where it has all n. The upper bound is one less that of the rest.
    """
    own, rest = np.asarray(own, float), np.asarray(rest, float)
    share = own / np.maximum(own + rest, 1)
    target = xlogy(own, share) + xlogy(rest, 1 - share) + np.log(alpha)
    low, high = np.zeros_like(share), share
    for _ in range(STEPS):
        middle = (low + high) / 2
        is_in = xlogy(own, middle) + xlogy(rest, 1 - middle) >= target
        low, high = np.where(is_in, low, middle), np.where(is_in, middle, high)
    pure = alpha ** (1 / np.maximum(own, 1))
    return np.where(own == 0, 0.0, np.where(rest == 0, pure, (low + high) / 2))


def dirichlet_lower(own: np.ndarray, rest: np.ndarray, s: float) -> np.ndarray:
    """Return n_c/(N + s), the lower bound of the imprecise Dirichlet model; the upper one is 1 less the rest's."""
    return own / (own + rest + s)


def dominating(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """As `jaxunc.decisions.interval_dominance`, without a program for every number of rows."""
    if lower.shape[-1] == 2:
        second = lower[..., 0] > upper[..., 1]
        return np.stack([second | (lower[..., 1] < upper[..., 0]), ~second], axis=-1)
    # The largest lower bound of the others.
    ranked = np.sort(lower, axis=-1)
    others = np.where(lower == ranked[..., -1:], ranked[..., -2:-1], ranked[..., -1:])
    return others <= upper


class Decalibrated(NamedTuple):
    """Probabilities, recalibrated as well as a scale and a bias of each class can, and how far a class may move."""

    scale: float
    bias: np.ndarray
    shifts: np.ndarray
    """``[alphas classes 2]``: the least and the greatest shift of the class's logit."""

    def __call__(self, probability: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
        """The intervals of other rows for one of the alphas: of each class as its own logit moves."""
        logits = self.scale * _logs(probability) + self.bias
        classes = np.eye(logits.shape[1])
        moved = lambda c, shift: softmax(logits + shift * classes[c], axis=1)[:, c]
        lower, upper = (
            np.stack([moved(c, shift) for c, shift in enumerate(shifts)], axis=-1) for shifts in self.shifts[at].T
        )
        return lower, np.maximum(lower, upper)


def decalibrate(probability: np.ndarray, y: np.ndarray, nats: tuple[float, ...]) -> Decalibrated:
    """Fit on rows whose labels the probabilities do not know; alpha = exp(-nats).

    The likelihood of a shift is concave and greatest at 0, since the biases are fitted: the bounds are roots.
    """
    features, n_classes = _logs(probability), probability.shape[1]
    own = np.eye(n_classes)[y]

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(numbers[0] * features + numbers[1:], axis=1)
        slope = (np.exp(logs) - own) / len(y)
        return -float(np.mean(logs[own > 0])), np.append(np.sum(slope * features), slope.sum(axis=0))

    found = minimize(loss, np.append(1.0, np.zeros(n_classes)), jac=True, method="L-BFGS-B").x
    logits = found[0] * features + found[1:]
    shifts = np.stack([_bounds(logits, y == c, c, np.asarray(nats)) for c in range(n_classes)], axis=1)
    return Decalibrated(float(found[0]), found[1:], shifts)


def _bounds(logits: np.ndarray, is_own: np.ndarray, c: int, nats: np.ndarray) -> np.ndarray:
    """``[alphas 2]``: where the log likelihood has fallen by so many nats, on either side."""
    others, n_own = logsumexp(np.delete(logits, c, axis=1), axis=1), is_own.sum()

    def fallen(shift: np.ndarray) -> np.ndarray:
        return np.sum(np.logaddexp(others, logits[:, c] + shift[:, None]), axis=1) - n_own * shift

    start, ends = fallen(np.zeros(1)), []
    for side in (-1, 1):
        near, far = np.zeros(len(nats)), np.full(len(nats), side * FARTHEST)
        for _ in range(STEPS):
            middle = (near + far) / 2
            is_in = fallen(middle) - start <= nats
            near, far = np.where(is_in, middle, near), np.where(is_in, far, middle)
        ends.append(near)
    return np.stack(ends, axis=-1)


def _logs(probability: np.ndarray) -> np.ndarray:
    return np.log(np.clip(probability, LEAST, 1))

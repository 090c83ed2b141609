"""How far estimated probabilities are from the true ones: no label takes part, and none adds its noise."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

LEAST = 1e-6
"""Smaller estimates are taken for it in a log loss."""
LEAST_IN_SLOPE = 0.005
"""Smaller ones are taken for it in a slope: half of what one of 100 trees says. Forests of pure leaves say 0."""
MEASURES = ("mae", "rmse", "log_loss", "excess", "slope", "auc_loss", "mae_train", "spike", "train_auc")


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
    return float(np.mean([_weighted_auc(label, estimate[:, c], truth[:, c]) for c in classes]))


def _weighted_auc(label: np.ndarray, score: np.ndarray, share: np.ndarray) -> float:
    return float(roc_auc_score(label, np.tile(score, 2), sample_weight=np.concatenate([share, 1 - share])))


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

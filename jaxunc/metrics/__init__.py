"""Proper, ranking and calibration scores: pure functions (prediction, y) → scalar, for use inside or outside `jit`."""

from ._accuracy import accuracy
from ._auc import auc, auc_reliability
from ._brier import brier_score
from ._calibration import calibration_error
from ._log_loss import log_loss, log_loss_from_logs

__all__ = [
    "accuracy",
    "auc",
    "auc_reliability",
    "brier_score",
    "calibration_error",
    "log_loss",
    "log_loss_from_logs",
]

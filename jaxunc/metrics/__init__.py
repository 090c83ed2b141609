"""Proper, ranking and calibration scores, pure functions (prediction, y) → scalar, and the curves behind them."""

from ._accuracy import accuracy
from ._auc import auc, auc_reliability
from ._brier import brier_score
from ._calibration import calibration_error
from ._discounted_utility import discounted_utility
from ._interval_auc import interval_auc
from ._interval_losses import interval_brier, interval_log_loss
from ._log_loss import log_loss, log_loss_from_logs
from ._rejection import (
    RejectionCurve,
    RiskCoverageCurve,
    accuracy_rejection_curve,
    area_under_risk_coverage,
    risk_coverage_curve,
)
from ._reliability import ReliabilityCurve, reliability_curve
from ._set_size import determinacy, set_size, single_set_accuracy
from ._uncertainty_map import UncertaintyMap, uncertainty_map

__all__ = [
    "RejectionCurve",
    "ReliabilityCurve",
    "RiskCoverageCurve",
    "UncertaintyMap",
    "accuracy",
    "accuracy_rejection_curve",
    "area_under_risk_coverage",
    "auc",
    "auc_reliability",
    "brier_score",
    "calibration_error",
    "determinacy",
    "discounted_utility",
    "interval_auc",
    "interval_brier",
    "interval_log_loss",
    "log_loss",
    "log_loss_from_logs",
    "reliability_curve",
    "risk_coverage_curve",
    "set_size",
    "single_set_accuracy",
    "uncertainty_map",
]

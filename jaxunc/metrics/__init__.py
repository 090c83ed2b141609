"""Proper, ranking and calibration scores, pure functions (prediction, y) → scalar, and the curves behind them."""

from ._auc import auc, auc_reliability
from ._calibration import ReliabilityCurve, calibration_error, reliability_curve
from ._instances import Labels, as_array, as_floats, check_column, check_no_nan, checked_labels
from ._intervals import interval_brier
from ._losses import accuracy, brier_score, log_loss, log_loss_from_logs
from ._numbers import crps, interval_score, pinball_loss
from ._rejection import (
    RejectionCurve,
    RiskCoverageCurve,
    accuracy_rejection_curve,
    area_under_risk_coverage,
    risk_coverage_curve,
)
from ._sets import determinacy, discounted_utility, set_size, single_set_accuracy

__all__ = [
    "accuracy",
    "accuracy_rejection_curve",
    "auc",
    "auc_reliability",
    "brier_score",
    "calibration_error",
    "crps",
    "determinacy",
    "discounted_utility",
    "interval_brier",
    "interval_score",
    "log_loss",
    "pinball_loss",
    "reliability_curve",
    "single_set_accuracy",
]

"""Proper, ranking and calibration scores, pure functions (prediction, y) → scalar, and the curves behind them."""

from ._calibration import (
    ReliabilityCurve,
    accuracy,
    brier_score,
    calibration_error,
    log_loss,
    log_loss_from_logs,
    reliability_curve,
)
from ._instances import Labels, as_array, as_floats, check_column, check_no_nan, checked_labels
from ._numbers import crps, interval_score, pinball_loss
from ._ranking import (
    RejectionCurve,
    RiskCoverageCurve,
    accuracy_rejection_curve,
    area_under_risk_coverage,
    auc,
    risk_coverage_curve,
)
from ._sets import determinacy, discounted_utility, interval_brier, set_size, single_set_accuracy

__all__ = [
    "accuracy",
    "accuracy_rejection_curve",
    "auc",
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

"""The numbers of a rule, learned from rows whose counts do not know their labels."""

from ._dataset import OobDataset, rows_from_counts
from ._descent import FitProgress
from ._fit import Estimate, FitResult, fit_combiner, loss_on, standard_errors
from ._leaf_counts import ForestFitResult, fit_leaf_counts
from ._losses import AucLoss, UtilityLoss, brier_loss, log_loss
from ._oob_dataset import FEW_TREES, check_held_out, oob_dataset, rows_of
from ._select import SelectionResult, StackResult, default_candidates, select_combiner, stack_combiners

__all__ = [
    "AucLoss",
    "Estimate",
    "FitProgress",
    "FitResult",
    "ForestFitResult",
    "OobDataset",
    "SelectionResult",
    "StackResult",
    "UtilityLoss",
    "brier_loss",
    "default_candidates",
    "fit_combiner",
    "fit_leaf_counts",
    "log_loss",
    "loss_on",
    "oob_dataset",
    "rows_from_counts",
    "select_combiner",
    "stack_combiners",
    "standard_errors",
]

"""The numbers of a rule, learned from rows whose counts do not know their labels."""

from ._blend import StackResult, stack_combiners
from ._choose import SelectionResult, default_candidates, select_combiner
from ._fit import FitResult, fit_combiner, loss_on
from ._from_counts import rows_from_counts
from ._leaf_counts import ForestFitResult, fit_leaf_counts
from ._losses import AucLoss, UtilityLoss, brier_loss, log_loss
from ._out_of_sample import FEW_TREES, oob_dataset, rows_of
from ._rows import OobDataset
from ._sources import check_held_out
from ._standard_errors import Estimate, standard_errors
from ._watch import FitProgress

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

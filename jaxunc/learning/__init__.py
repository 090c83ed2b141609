"""Learning of a combiner's numbers from rows whose leaf counts do not hold the row's own label."""

from ._dataset import OobDataset, RoutedRows, dataset_from_counts
from ._descent import FitProgress, WeighedPart, best_step, descend
from ._fit import (
    AucLoss,
    Estimate,
    FitResult,
    UtilityLoss,
    brier_loss_of,
    fit_combiner,
    log_loss_of,
    loss_on,
    standard_errors,
)
from ._oob_dataset import FEW_TREES, make_oob_dataset, oob_dataset
from ._seen_rows import KnownRowsError, check_held_out, find_leak_of_numbers, warn_of_seen
from ._select import SelectionResult, StackResult, select_combiner, stack_combiners

__all__ = [
    "dataset_from_counts",
    "fit_combiner",
    "oob_dataset",
    "select_combiner",
    "stack_combiners",
    "standard_errors",
]

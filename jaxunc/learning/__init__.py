"""The numbers of a rule, learned from rows whose counts do not know their labels."""

from typing import TYPE_CHECKING

from jaxunc._renamed import renamed_in

from ._blend import BlendResult, blend_combiners
from ._choose import ChoiceResult, choose_combiner, guarded
from ._fit import FitResult, fit_combiner, loss_on
from ._from_counts import rows_from_counts
from ._leaf_counts import ForestFitResult, fit_leaf_counts
from ._losses import AucLoss, UtilityLoss, brier_loss, log_loss
from ._out_of_sample import FEW_TREES, out_of_sample_rows, rows_of
from ._rows import OutOfSampleRows
from ._sources import check_held_out
from ._standard_errors import Estimate, standard_errors
from ._watch import FitProgress

__all__ = [
    "AucLoss",
    "BlendResult",
    "ChoiceResult",
    "Estimate",
    "FitProgress",
    "FitResult",
    "ForestFitResult",
    "OutOfSampleRows",
    "UtilityLoss",
    "blend_combiners",
    "brier_loss",
    "choose_combiner",
    "fit_combiner",
    "fit_leaf_counts",
    "guarded",
    "log_loss",
    "loss_on",
    "out_of_sample_rows",
    "rows_from_counts",
    "standard_errors",
]

if not TYPE_CHECKING:  # so that they still report names that do not exist
    __getattr__ = renamed_in(__name__)
